//! `everpost import`: files of other products, translated to ours and applied.

mod arm;
mod expression;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::{Format, How, apply, save, write};
use crate::app::cli::confirm::Misuse;
use crate::app::cli::output::{note, print_file, printable};
use crate::app::cli::request::{Run, Server};
use crate::app::configuration_files::Object;
use crate::app::files;
use crate::model::limits::CONFIGURATION_BYTES_MAX;

#[derive(Subcommand, Debug)]
pub(in crate::app::cli) enum ImportCommand {
    /// Take over Config.json of Microsoft's Service Bus emulator: queues, topics, subscriptions, rules
    ServicebusEmulator(Import),
    /// Take over appsettings.json of AzureEventGridSimulator: topics and subscribers
    EventgridSimulator(Import),
    /// Take over an ARM template: topics and event subscriptions of Event Grid, and entities of Service Bus
    Arm {
        #[command(flatten)]
        import: Import,
        /// A file with values for the template's parameters
        #[arg(long = "parameters", value_name = "FILE")]
        parameters: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
pub(in crate::app::cli) struct Import {
    file: PathBuf,
    /// Write the objects to this file instead of applying them; - is standard output
    #[arg(long = "output", value_name = "FILE")]
    to_file: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

impl Run for ImportCommand {
    async fn run(self, server: &Server) -> anyhow::Result<()> {
        let mut translation = Translation::default();
        let to = &mut translation;
        let import = match self {
            Self::ServicebusEmulator(import) => {
                of_emulator(&read(&import.file)?, to);
                import
            }
            Self::EventgridSimulator(import) => {
                of_simulator(&read(&import.file)?, to);
                import
            }
            Self::Arm { import, parameters } => {
                let parameters = parameters.map(|file| read(&file)).transpose()?;
                arm::of_template(&read(&import.file)?, &parameters.unwrap_or_default(), to);
                import
            }
        };
        for lost in &translation.lost {
            note(&format!("note: {}", printable(lost)));
        }
        if let Some(output) = &import.to_file {
            let text = write(&translation.objects, Format::Yaml)?;
            return match output.as_os_str() == "-" {
                true => Ok(print_file(&text)?),
                false => save(output, &text),
            };
        }
        let place = import.file.display().to_string();
        let objects = translation.objects.into_iter().map(|value| Object {
            file: import.file.clone(),
            place: place.clone(),
            value,
        });
        apply(server, &objects.collect::<Vec<_>>(), &import.how).await
    }
}

/// Objects, and what does not carry over.
#[derive(Default)]
struct Translation {
    objects: Vec<Value>,
    lost: Vec<String>,
}

/// Reads JSON, in which such files have comments. YAML is not far from that: comments are taken out first.
fn read(path: &Path) -> anyhow::Result<Value> {
    let misuse = |problem: String| anyhow!(Misuse(format!("{}: {problem}", path.display())));
    let text = files::text(path, CONFIGURATION_BYTES_MAX);
    let text = text.map_err(|problem| misuse(format!("it {problem}")))?;
    parse(&text).map_err(|error| misuse(error.to_string()))
}

fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&without_comments(text.trim_start_matches('\u{feff}')))
}

/// Returns the objects of an ARM template, without values for its parameters.
#[cfg(any(test, fuzzing))]
pub(in crate::app) fn objects_of_template(text: &str) -> Vec<Value> {
    let mut translation = Translation::default();
    if let Ok(template) = parse(text) {
        arm::of_template(&template, &Value::Null, &mut translation);
    }
    translation.objects
}

/// The same with spaces in place of comments, so that lines and columns stay.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut is_string = false;
    while let Some(c) = rest.next() {
        match (is_string, c, rest.peek()) {
            (true, '\\', Some(_)) => {
                kept.push(c);
                kept.extend(rest.next());
            }
            (_, '"', _) => {
                is_string = !is_string;
                kept.push(c);
            }
            (false, '/', Some('/')) => {
                while rest.peek().is_some_and(|c| *c != '\n') {
                    rest.next();
                }
            }
            (false, '/', Some('*')) => {
                let mut before = ' ';
                rest.next();
                for c in rest.by_ref() {
                    if c == '\n' {
                        kept.push(c);
                    }
                    if (before, c) == ('*', '/') {
                        break;
                    }
                    before = c;
                }
            }
            _ => kept.push(c),
        }
    }
    kept
}

/// A member in any letter case, as .NET reads them.
fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    let members = value.as_object().into_iter().flatten();
    let mut found = members.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    found.next().map_or(&Value::Null, |(_, value)| value)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    member(value, name).as_array().map_or(&[], Vec::as_slice)
}

fn name_of(value: &Value) -> &str {
    member(value, "name").as_str().unwrap_or_default()
}

/// The properties with small first letters, without those that are empty.
fn properties(value: &Value) -> Map<String, Value> {
    let given = member(value, "properties")
        .as_object()
        .into_iter()
        .flatten();
    let given = given.filter(|(_, value)| !value.is_null() && *value != "");
    given
        .map(|(name, value)| (small(name), in_small(value)))
        .collect()
}

fn small(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// A filter with small first letters; application properties keep theirs.
fn in_small(value: &Value) -> Value {
    let Value::Object(members) = value else {
        return value.clone();
    };
    let members = members.iter().map(|(name, value)| match small(name) {
        name if name == "properties" => (name, value.clone()),
        name => (name, in_small(value)),
    });
    Value::Object(members.collect())
}

fn of_emulator(file: &Value, to: &mut Translation) {
    let config = member(file, "userConfig");
    let namespaces = list(config, "namespaces");
    if namespaces.is_empty() {
        to.lost
            .push("the file has no UserConfig.Namespaces".to_owned());
    }
    if namespaces.len() > 1 {
        to.lost
            .push("all namespaces become one, since there is one for Service Bus".to_owned());
    }
    if !member(config, "logging").is_null() {
        to.lost
            .push("Logging is left out: see the setting log_level".to_owned());
    }
    for namespace in namespaces {
        for queue in list(namespace, "queues") {
            let properties = properties(queue);
            to.objects
                .push(json!({ "kind": "Queue", "name": name_of(queue), "properties": properties }));
        }
        for topic in list(namespace, "topics") {
            of_emulator_topic(topic, to);
        }
    }
}

fn of_emulator_topic(topic: &Value, to: &mut Translation) {
    let name = name_of(topic);
    let given = properties(topic);
    to.objects
        .push(json!({ "kind": "ServiceBusTopic", "name": name, "properties": given }));
    for subscription in list(topic, "subscriptions") {
        let path = format!("{name}/{}", name_of(subscription));
        let given = properties(subscription);
        to.objects
            .push(json!({ "kind": "ServiceBusSubscription", "name": path, "properties": given }));
        for rule in list(subscription, "rules") {
            let mut given = properties(rule);
            if let Some(kind) = filter_type(&given) {
                given.insert("filterType".to_owned(), kind.into());
            }
            let rule = format!("{path}/{}", name_of(rule));
            to.objects
                .push(json!({ "kind": "Rule", "name": rule, "properties": given }));
        }
    }
}

/// The filter that is there says what it is, since Aspire writes `"FilterType": "Sql"` beside any. The emulator says Sql and
/// Correlation where Azure says SqlFilter and CorrelationFilter.
fn filter_type(rule: &Map<String, Value>) -> Option<String> {
    match (
        rule.contains_key("sqlFilter"),
        rule.contains_key("correlationFilter"),
    ) {
        (true, false) => Some("SqlFilter".to_owned()),
        (false, true) => Some("CorrelationFilter".to_owned()),
        (true, true) | (false, false) => {
            let kind = rule.get("filterType")?.as_str()?;
            Some(format!("{}Filter", kind.trim_end_matches("Filter")))
        }
    }
}

fn of_simulator(file: &Value, to: &mut Translation) {
    for topic in list(file, "topics") {
        let name = name_of(topic);
        to.objects
            .push(json!({ "kind": "Topic", "name": name, "location": "local" }));
        to.lost.push(format!(
            "topic {name}: publish to /topics/{name}/api/events instead of port {}, with a key of `everpost topics keys \
             {name}` instead of the one in the file",
            member(topic, "port")
        ));
        if member(topic, "disabled").as_bool() == Some(true) {
            to.lost.push(format!(
                "topic {name}: topics cannot be disabled; it takes events"
            ));
        }
        for subscriber in list(topic, "subscribers") {
            of_simulator_subscriber(name, subscriber, to);
        }
    }
    if member(file, "dangerousAcceptAnyServerCertificateValidator").as_bool() == Some(true) {
        let instead = "give event subscriptions the certificate authorities of their receivers";
        to.lost.push(format!(
            "dangerousAcceptAnyServerCertificateValidator is left out: {instead}"
        ));
    }
}

fn of_simulator_subscriber(topic: &str, subscriber: &Value, to: &mut Translation) {
    let name = name_of(subscriber);
    let webhook = json!({
        "endpointUrl": member(subscriber, "endpoint"),
        "skipValidation": member(subscriber, "disableValidation").as_bool() == Some(true),
    });
    let mut properties = json!({
        "destination": { "endpointType": "WebHook", "properties": webhook },
        "disabled": member(subscriber, "disabled").as_bool() == Some(true),
    });
    if let Value::Object(filter) = member(subscriber, "filter") {
        properties["filter"] = Value::Object(filter.clone());
    }
    to.objects.push(json!({
        "kind": "EventSubscription", "name": format!("{topic}/{name}"), "properties": properties,
    }));
}
