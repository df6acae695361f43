//! Templates of Azure Resource Manager, as they are written by hand, exported, or made of Bicep.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::mem;

use serde_json::{Map, Value, json};

use super::expression::Scope;
use super::{Translation, list, member};
use crate::model::audit::{Target, TargetKind};
use crate::wire::resource::configuration::above;

/// The region of what is here.
pub(super) const LOCATION: &str = "local";

/// What carries over, by its type in small letters. Service Bus has one namespace here, so that its name is left out.
const CARRIED: [(&str, TargetKind); 9] = [
    ("microsoft.eventgrid/topics", TargetKind::Topic),
    (
        "microsoft.eventgrid/topics/eventsubscriptions",
        TargetKind::EventSubscription,
    ),
    ("microsoft.eventgrid/namespaces", TargetKind::Namespace),
    ("microsoft.eventgrid/namespaces/topics", TargetKind::Topic),
    (
        "microsoft.eventgrid/namespaces/topics/eventsubscriptions",
        TargetKind::EventSubscription,
    ),
    ("microsoft.servicebus/namespaces/queues", TargetKind::Queue),
    (
        "microsoft.servicebus/namespaces/topics",
        TargetKind::ServiceBusTopic,
    ),
    (
        "microsoft.servicebus/namespaces/topics/subscriptions",
        TargetKind::ServiceBusSubscription,
    ),
    (
        "microsoft.servicebus/namespaces/topics/subscriptions/rules",
        TargetKind::Rule,
    ),
];

/// What does not, by a part of its type, and why.
const LEFT_OUT: [(&str, &str); 5] = [
    (
        "/domains",
        "there are no domains; use the topics of a namespace",
    ),
    ("/systemtopics", NOT_AZURES),
    ("/eventsubscriptions", NOT_AZURES),
    ("/partner", "there are no partner topics"),
    (
        "/authorizationrules",
        "each queue and topic has two keys of its own",
    ),
];

const NOT_AZURES: &str =
    "the events of Azure's own resources are not here; publish them to a topic";

/// What event subscriptions say of tokens of Microsoft Entra.
const ENTRA: [&str; 2] = [
    "azureActiveDirectoryTenantId",
    "azureActiveDirectoryApplicationIdOrUri",
];

/// Translates a template, with a file of values for its parameters.
pub(super) fn of_template(template: &Value, parameters: &Value, to: &mut Translation) {
    let given = given(member(parameters, "parameters"));
    for name in given.keys() {
        if member(member(template, "parameters"), name).is_null() {
            to.lost
                .push(format!("the template has no parameter {name}"));
        }
    }
    let steps = Cell::new(0);
    let mut reader = Reader {
        to,
        left_out: BTreeSet::new(),
        buses: BTreeSet::new(),
        steps: &steps,
    };
    reader.template(template, given, "");
    let Reader {
        left_out, buses, ..
    } = reader;
    if buses.len() > 1 {
        to.lost
            .push("all namespaces of Service Bus become one, since there is one".to_owned());
    }
    for object in mem::take(&mut to.objects) {
        let kind: Option<TargetKind> = serde_json::from_value(object["kind"].clone()).ok();
        let target = kind.map(|kind| kind.named(object["name"].as_str().unwrap_or_default()));
        let mut outer = target.iter().flat_map(above);
        match (&target, outer.find(|outer| left_out.contains(&key(outer)))) {
            (Some(target), Some(outer)) => {
                to.lost.push(format!("{target} is left out with {outer}"));
            }
            _ => to.objects.push(object),
        }
    }
}

fn key(target: &Target) -> String {
    target.to_string().to_lowercase()
}

/// Parameters have their values in objects.
fn given(parameters: &Value) -> Map<String, Value> {
    let parameters = parameters.as_object().into_iter().flatten();
    let given = parameters.map(|(name, given)| (name.clone(), member(given, "value").clone()));
    given.filter(|(_, value)| !value.is_null()).collect()
}

/// A resource of a template.
struct Resource<'a> {
    /// Its JSON path.
    path: String,
    definition: &'a Value,
    /// With the provider in front.
    kind: String,
    /// Of each segment of its type.
    names: Vec<String>,
}

struct Reader<'a> {
    to: &'a mut Translation,
    /// What is known to be missing, so that nothing can belong to it.
    left_out: BTreeSet<String>,
    /// The namespaces of Service Bus.
    buses: BTreeSet<String>,
    steps: &'a Cell<usize>,
}

impl Reader<'_> {
    fn template(&mut self, template: &Value, given: Map<String, Value>, path: &str) {
        let scope = Scope {
            parameters: member(template, "parameters"),
            given,
            variables: member(template, "variables"),
            steps: self.steps,
        };
        self.resources(template, &scope, path, None);
    }

    /// Those of a template, or those within a resource. Templates of Bicep may have an object in place of the list.
    fn resources(
        &mut self,
        of: &Value,
        scope: &Scope<'_>,
        path: &str,
        outer: Option<&Resource<'_>>,
    ) {
        let named = member(of, "resources").as_object().into_iter().flatten();
        let named = named.map(|(name, each)| (format!("{path}resources.{name}"), each));
        let listed = list(of, "resources").iter().enumerate();
        let listed = listed.map(|(at, each)| (format!("{path}resources[{at}]"), each));
        for (path, definition) in named.chain(listed) {
            if member(definition, "existing") != &json!(true) {
                self.resource(definition, scope, path, outer);
            }
        }
    }

    fn resource(
        &mut self,
        definition: &Value,
        scope: &Scope<'_>,
        path: String,
        outer: Option<&Resource<'_>>,
    ) {
        let own = member(definition, "type").as_str().unwrap_or_default();
        let kind = outer.map_or_else(|| own.to_owned(), |outer| format!("{}/{own}", outer.kind));
        if !member(definition, "copy").is_null() {
            let lost = format!("{path}.copy: loops are not supported; {kind} is left out");
            return self.to.lost.push(lost);
        }
        let mut unresolved = Vec::new();
        let mut resolved = |name: &str| {
            scope.resolve(
                member(definition, name),
                &format!("{path}.{name}"),
                &mut unresolved,
            )
        };
        let (condition, name, within) =
            (resolved("condition"), resolved("name"), resolved("scope"));
        if let [first, ..] = unresolved.as_slice() {
            return self.to.lost.push(format!("{first}; {kind} is left out"));
        }
        if condition == json!(false) {
            let lost = format!("{path}: {kind} is left out, since its condition is false");
            return self.to.lost.push(lost);
        }
        if kind.eq_ignore_ascii_case("Microsoft.Resources/deployments") {
            return self.module(definition, scope, &path);
        }
        let outer_names = outer.map_or(&[][..], |outer| &outer.names);
        let own_names = name
            .as_str()
            .unwrap_or_default()
            .split('/')
            .map(|name| name.replace('~', "/")); // names of Service Bus have slashes of their own
        let mut resource = Resource {
            names: outer_names.iter().cloned().chain(own_names).collect(),
            path,
            definition,
            kind,
        };
        if let Some(scope) = within.as_str() {
            resource.within(scope);
        }
        resource.without_provider();
        self.carry(&resource, scope);
        self.resources(
            definition,
            scope,
            &format!("{}.", resource.path),
            Some(&resource),
        );
    }

    /// A template within a template, as Bicep makes of modules.
    fn module(&mut self, definition: &Value, scope: &Scope<'_>, path: &str) {
        let properties = member(definition, "properties");
        let template = member(properties, "template");
        if template.is_null() {
            let lost = format!("{path}: a template elsewhere is left out; import it by itself");
            return self.to.lost.push(lost);
        }
        let inside = format!("{path}.properties.template.");
        let options = member(properties, "expressionEvaluationOptions");
        let is_inner = member(options, "scope")
            .as_str()
            .is_some_and(|it| it.eq_ignore_ascii_case("inner"));
        if !is_inner {
            return self.resources(template, scope, &inside, None);
        }
        // A parameter without a value is named where it is needed.
        let parameters = member(properties, "parameters");
        let parameters = scope.resolve(parameters, "", &mut Vec::new());
        self.template(template, given(&parameters), &inside);
    }

    fn carry(&mut self, resource: &Resource<'_>, scope: &Scope<'_>) {
        let (kind, path) = (&resource.kind, &resource.path);
        let small = kind.to_lowercase();
        let is_bus = small.starts_with("microsoft.servicebus/");
        if is_bus {
            self.buses
                .extend(resource.names.first().map(|name| name.to_lowercase()));
        }
        let Some((_, target)) = CARRIED.into_iter().find(|(known, _)| *known == small) else {
            if small == "microsoft.servicebus/namespaces" {
                return;
            }
            let mut known = LEFT_OUT
                .into_iter()
                .filter(|(part, _)| small.contains(part));
            let why = known
                .next()
                .map_or("there is nothing like it here", |(_, why)| why);
            return self
                .to
                .lost
                .push(format!("{path}: {kind} is left out: {why}"));
        };
        let name = resource.names[usize::from(is_bus)..].join("/");
        let target = target.named(&name);
        if resource.names.len() != small.matches('/').count() {
            let problem = format!("\"{name}\" does not have a name for each part of {kind}");
            return self
                .to
                .lost
                .push(format!("{path}.name: {problem}; it is left out"));
        }
        let mut unresolved = Vec::new();
        let mut resolved = |name: &str| {
            scope.resolve(
                member(resource.definition, name),
                &format!("{path}.{name}"),
                &mut unresolved,
            )
        };
        let mut object = json!({ "kind": target.kind, "name": name });
        let mut properties = resolved("properties");
        if matches!(
            small.as_str(),
            "microsoft.eventgrid/topics" | "microsoft.eventgrid/namespaces"
        ) {
            object["location"] = LOCATION.into();
            for member in ["tags", "sku"] {
                object[member] = resolved(member);
            }
        }
        if let Some(members) = object.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        if let [first, ..] = unresolved.as_slice() {
            self.to.lost.push(format!("{first}; {target} is left out"));
            self.left_out.insert(key(&target));
            return;
        }
        if target.kind == TargetKind::EventSubscription
            && let Err(lost) = self.subscription(&target, &mut properties)
        {
            return self
                .to
                .lost
                .push(format!("{path}: {target} is left out: {lost}"));
        }
        if !properties.is_null() {
            object["properties"] = properties;
        }
        self.to.objects.push(object);
    }

    /// What is different here in event subscriptions.
    fn subscription(&mut self, target: &Target, properties: &mut Value) -> Result<(), String> {
        let place = match properties.pointer("/deliveryConfiguration") {
            None => "",
            Some(_) => "/deliveryConfiguration/push",
        };
        let Some(Value::Object(push)) = properties.pointer_mut(place) else {
            return Ok(()); // pull delivery
        };
        for (with_identity, inner) in [
            ("deliveryWithResourceIdentity", "destination"),
            ("deadLetterWithResourceIdentity", "deadLetterDestination"),
        ] {
            if let Some(mut wrapped) = push.remove(with_identity).filter(|it| !it.is_null()) {
                push.insert(inner.to_owned(), wrapped[inner].take());
                let lost =
                    format!("{target}: there are no managed identities; {inner} is used without");
                self.to.lost.push(lost);
            }
        }
        let dead_letters = push.get("deadLetterDestination");
        if dead_letters.is_some_and(|it| !it.is_null()) {
            let lost = "dead letters become files in dead_letter.export_dir; add `storage` for an account elsewhere";
            self.to.lost.push(format!("{target}: {lost}"));
        }
        let destination = push.get_mut("destination");
        let kind = destination
            .as_ref()
            .and_then(|it| it["endpointType"].as_str())
            .unwrap_or_default();
        if kind != "WebHook" {
            return Err(format!(
                "there is no destination {kind}; give it the URL of a webhook"
            ));
        }
        let webhook = destination.and_then(|it| it["properties"].as_object_mut());
        let removed = webhook.map(|it| ENTRA.map(|name| it.remove(name).is_some()));
        if removed.is_some_and(|removed| removed.contains(&true)) {
            let lost = "it is called without a token of Microsoft Entra; send a secret in a header";
            self.to.lost.push(format!("{target}: {lost}"));
        }
        Ok(())
    }
}

impl Resource<'_> {
    /// An extension of the resource with this id, or with the end of it.
    fn within(&mut self, scope: &str) {
        let (_, scope) = scope.rsplit_once("/providers/").unwrap_or(("", scope));
        let mut segments = scope.trim_matches('/').split('/');
        let mut kind = segments.next().unwrap_or_default().to_owned();
        let mut names = Vec::new();
        while let Some(segment) = segments.next() {
            kind = format!("{kind}/{segment}");
            names.extend(segments.next().map(str::to_owned));
        }
        self.kind = format!(
            "{kind}/providers/{}",
            self.kind.rsplit('/').next().unwrap_or_default()
        );
        self.names = names.into_iter().chain(self.names.drain(..)).collect();
        self.names
            .insert(self.names.len().saturating_sub(1), EVENT_GRID.to_owned());
    }

    /// Event subscriptions of topics are written as their own, or as extensions of Event Grid.
    fn without_provider(&mut self) {
        const EXTENSION: &str = "/providers/";
        let provider = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(EVENT_GRID));
        if let Some((topic, own)) = self.kind.split_once(EXTENSION)
            && topic.to_lowercase().starts_with("microsoft.eventgrid/")
            && let Some(provider) = provider
        {
            self.kind = format!("{topic}/{own}");
            self.names.remove(provider);
        }
    }
}

const EVENT_GRID: &str = "Microsoft.EventGrid";
