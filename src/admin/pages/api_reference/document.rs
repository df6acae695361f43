//! An OpenAPI document, read for the pages: what it says, ready to print.

use serde_json::Value;

use crate::admin::pages::api_reference::example;
use crate::admin::pages::api_reference::example::Call;
use crate::admin::pages::api_reference::schema::{Kind, Reader, Schema};

/// The methods of a path, in the order in which people think of them.
const METHODS: [&str; 6] = ["get", "put", "patch", "post", "delete", "options"];

/// What the ids of operations end with that stand at a second path, that of Azure Resource Manager.
const SECOND_PATH: &str = "ByResourceId";

/// The document.
pub(crate) struct Document<'a> {
    json: &'a Value,
}

/// Operations that belong together.
pub(crate) struct Area {
    pub(crate) name: String,
    pub(crate) says: String,
    pub(crate) operations: Vec<Operation>,
}

/// What one method at one path is for.
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) area: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) summary: String,
    /// Who may ask, in words.
    pub(crate) takes: String,
}

/// The rest of what there is to know of it.
pub(crate) struct Details {
    /// Paragraphs.
    pub(crate) says: Vec<String>,
    pub(crate) second_path: Option<String>,
    /// What says who is asking.
    pub(crate) credentials: Vec<String>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) bodies: Vec<Body>,
    pub(crate) answers: Vec<AttemptResult>,
    pub(crate) example: String,
    pub(crate) schemas: Vec<Schema>,
}

pub(crate) struct Parameter {
    pub(crate) name: String,
    /// Path, query or header.
    pub(crate) place: String,
    pub(crate) required: bool,
    pub(crate) kind: Kind,
    pub(crate) says: String,
}

pub(crate) struct Body {
    pub(crate) content_type: String,
    pub(crate) kind: Kind,
    pub(crate) example: String,
}

pub(crate) struct AttemptResult {
    pub(crate) status: String,
    pub(crate) says: String,
    pub(crate) kind: Option<Kind>,
    pub(crate) headers: Vec<String>,
}

impl<'a> Document<'a> {
    pub(crate) fn new(json: &'a Value) -> Self {
        Self { json }
    }

    /// All areas with the operations in which every word of `search` is found.
    pub(crate) fn areas(&self, search: &str) -> Vec<Area> {
        let words: Vec<String> = search.split_whitespace().map(str::to_lowercase).collect();
        let all: Vec<_> = self
            .operations()
            .filter(|found| {
                let text = found.searched();
                words.iter().all(|word| text.contains(word))
            })
            .collect();
        let areas = elements(&self.json["tags"]).map(|tag| {
            let name = text(&tag["name"]);
            let own = all.iter().filter(|found| found.area() == name);
            Area {
                operations: own.map(Found::operation).collect(),
                says: text(&tag["description"]),
                name,
            }
        });
        areas.filter(|area| !area.operations.is_empty()).collect()
    }

    /// The operation of that id.
    pub(crate) fn find(&self, id: &str) -> Option<(Operation, Details)> {
        let found = self
            .operations()
            .find(|found| found.json["operationId"] == id)?;
        Some((found.operation(), self.details(&found)))
    }

    /// All but those at second paths.
    fn operations(&self) -> impl Iterator<Item = Found<'a>> {
        self.all()
            .filter(|found| !found.id().ends_with(SECOND_PATH))
    }

    fn all(&self) -> impl Iterator<Item = Found<'a>> {
        let paths = self.json["paths"].as_object().into_iter().flatten();
        paths.flat_map(|(path, item)| {
            METHODS.into_iter().filter_map(move |method| {
                Some(Found {
                    path,
                    item,
                    method,
                    json: item.get(method)?,
                })
            })
        })
    }

    fn details(&self, found: &Found<'_>) -> Details {
        let mut reader = Reader::new(self.json);
        let second = format!("{}{SECOND_PATH}", found.id());
        let second = self.all().find(|other| other.id() == second);
        let parameters: Vec<&Value> = found.parameters().collect();
        let body = &found.json["requestBody"];
        let contents = entries(&body["content"]);
        let bodies = contents.map(|(kind, content)| Body {
            content_type: kind.clone(),
            kind: reader.kind(&content["schema"]),
            example: example::pretty(&content["example"]),
        });
        let bodies = bodies.collect();
        let credentials = elements(&found.json["security"]).filter_map(|each| {
            let name = each.as_object()?.keys().next()?;
            Some(self.credential(name))
        });
        Details {
            says: paragraphs(&found.json["description"]),
            second_path: second.map(|second| second.path.clone()),
            credentials: credentials.collect(),
            example: example::curl(&Call {
                server: self.json["servers"][0]["url"].as_str().unwrap_or_default(),
                method: &found.method.to_uppercase(),
                path: found.path,
                parameters: &parameters,
                credential: found.json["security"][0].as_object(),
                body,
            }),
            bodies,
            parameters: parameters
                .iter()
                .map(|each| Parameter {
                    name: text(&each["name"]),
                    place: text(&each["in"]),
                    required: each["required"] == true,
                    kind: reader.kind(&each["schema"]),
                    says: text(&each["description"]),
                })
                .collect(),
            answers: entries(&found.json["responses"])
                .map(|(status, answer)| AttemptResult {
                    status: status.clone(),
                    says: text(&answer["description"]),
                    kind: entries(&answer["content"])
                        .next()
                        .map(|(_, content)| reader.kind(&content["schema"])),
                    headers: entries(&answer["headers"])
                        .map(|(name, header)| format!("{name}: {}", text(&header["description"])))
                        .collect(),
                })
                .collect(),
            schemas: reader.schemas(),
        }
    }

    /// How a credential is sent.
    fn credential(&self, name: &str) -> String {
        let scheme = &self.json["components"]["securitySchemes"][name];
        let place = match scheme["in"].as_str() {
            Some("query") => format!("Parameter {}", text(&scheme["name"])),
            Some(_) => format!("Header {}", text(&scheme["name"])),
            None => "Header Authorization: Bearer".to_owned(),
        };
        format!("{place}. {}", text(&scheme["description"]))
    }
}

/// An operation where it stands.
struct Found<'a> {
    path: &'a String,
    item: &'a Value,
    method: &'static str,
    json: &'a Value,
}

impl<'a> Found<'a> {
    fn id(&self) -> &'a str {
        self.json["operationId"].as_str().unwrap_or_default()
    }

    fn area(&self) -> &'a str {
        self.json["tags"][0].as_str().unwrap_or_default()
    }

    fn parameters(&self) -> impl Iterator<Item = &'a Value> {
        elements(&self.item["parameters"]).chain(elements(&self.json["parameters"]))
    }

    fn takes(&self) -> String {
        match self.json["x-everpost-role"].as_str() {
            Some(role) => role.to_owned(),
            None if elements(&self.json["security"]).next().is_none() => "nothing".to_owned(),
            None => "key or operator".to_owned(),
        }
    }

    fn operation(&self) -> Operation {
        Operation {
            id: self.id().to_owned(),
            area: self.area().to_owned(),
            method: self.method.to_uppercase(),
            path: self.path.clone(),
            summary: text(&self.json["summary"]),
            takes: self.takes(),
        }
    }

    /// What a search looks into.
    fn searched(&self) -> String {
        let parts = [
            self.method,
            self.path,
            self.id(),
            self.area(),
            &self.takes(),
        ]
        .join(" ");
        let words = [&self.json["summary"], &self.json["description"]].map(text);
        format!("{parts} {}", words.join(" ")).to_lowercase()
    }
}

/// The elements of a list; none of what is no list.
pub(crate) fn elements(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}

/// The members of an object; none of what is no object.
pub(crate) fn entries(json: &Value) -> impl Iterator<Item = (&String, &Value)> {
    json.as_object().into_iter().flatten()
}

/// A text without the marks of code, which pages show as they are.
pub(crate) fn text(json: &Value) -> String {
    json.as_str().unwrap_or_default().replace('`', "")
}

fn paragraphs(json: &Value) -> Vec<String> {
    text(json).split("\n\n").map(str::to_owned).collect()
}
