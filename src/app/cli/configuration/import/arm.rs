//! Imports Azure Resource Manager templates that were written by hand, exported, or compiled from Bicep.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::mem;

use serde_json::{Map, Value, json};

use super::expression::ExpressionScope;
use super::{Translation, list, member};
use crate::model::audit::{AuditTarget, TargetKind};
use crate::model::shared_access::ROOT_RULE;
use crate::wire::resource::configuration::above;

/// The location of the imported resources.
pub(super) const LOCATION: &str = "local";

/// The resource types that are imported, in lower case. The server has a single Service Bus namespace, so the name of a
/// Service Bus namespace in the template is dropped.
const CARRIED: [(&str, TargetKind); 12] = [
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
    (
        "microsoft.servicebus/namespaces/authorizationrules",
        TargetKind::AccessRule,
    ),
    (
        "microsoft.servicebus/namespaces/queues/authorizationrules",
        TargetKind::AccessRule,
    ),
    (
        "microsoft.servicebus/namespaces/topics/authorizationrules",
        TargetKind::AccessRule,
    ),
];

/// Resource types that are not imported for a specific reason: a part of the type, and the reason.
const LEFT_OUT: [(&str, &str); 4] = [
    (
        "/domains",
        "there are no domains; use the topics of a namespace",
    ),
    ("/systemtopics", NOT_AZURES),
    ("/eventsubscriptions", NOT_AZURES),
    ("/partner", "there are no partner topics"),
];

const NOT_AZURES: &str =
    "the events of Azure's own resources are not here; publish them to a topic";

/// The properties of a webhook destination that configure Microsoft Entra tokens.
const ENTRA: [&str; 2] = [
    "azureActiveDirectoryTenantId",
    "azureActiveDirectoryApplicationIdOrUri",
];

/// Translates a template, with a file of values for its parameters.
pub(super) fn of_template(template: &Value, parameters: &Value, to: &mut Translation) {
    let given = given(member(parameters, "parameters"));
    for name in given.keys() {
        if member(member(template, "parameters"), name).is_null() {
            to.note(format!("the template has no parameter {name}"));
        }
    }
    let steps = Cell::new(0);
    let mut reader = TemplateReader {
        to,
        left_out: BTreeSet::new(),
        buses: BTreeSet::new(),
        steps: &steps,
    };
    reader.template(template, given, "");
    let TemplateReader {
        left_out, buses, ..
    } = reader;
    if buses.len() > 1 {
        to.note("all namespaces of Service Bus become one, since there is one".to_owned());
    }
    for object in mem::take(&mut to.objects) {
        let kind: Option<TargetKind> = serde_json::from_value(object["kind"].clone()).ok();
        let target = kind.map(|kind| kind.named(object["name"].as_str().unwrap_or_default()));
        let mut outer = target.iter().flat_map(above);
        match (&target, outer.find(|outer| left_out.contains(&key(outer)))) {
            (Some(target), Some(outer)) => {
                to.leave_out(format!("{target} is left out with {outer}"));
            }
            _ => to.objects.push(object),
        }
    }
}

fn key(target: &AuditTarget) -> String {
    target.to_string().to_lowercase()
}

/// Returns the values of parameters, each taken from the member `value` of the parameter's object.
fn given(parameters: &Value) -> Map<String, Value> {
    let members = parameters.as_object().into_iter().flatten();
    let given = members.map(|(name, given)| (name.clone(), member(given, "value").clone()));
    given.filter(|(_, value)| !value.is_null()).collect()
}

/// A resource of a template.
struct TemplateResource<'a> {
    /// Its JSON path.
    path: String,
    definition: &'a Value,
    /// The full resource type, with the provider.
    kind: String,
    /// The names, one for each segment of the resource type.
    names: Vec<String>,
}

struct TemplateReader<'a> {
    to: &'a mut Translation,
    /// Objects that were left out. Their child resources are left out too.
    left_out: BTreeSet<String>,
    /// The names of the Service Bus namespaces, in lower case.
    buses: BTreeSet<String>,
    steps: &'a Cell<usize>,
}

impl TemplateReader<'_> {
    fn template(&mut self, template: &Value, given: Map<String, Value>, path: &str) {
        let scope = ExpressionScope {
            parameters: member(template, "parameters"),
            given,
            variables: member(template, "variables"),
            steps: self.steps,
        };
        self.resources(template, &scope, path, None);
    }

    /// Reads the resources of a template, or the resources nested in `outer`. Templates from Bicep may have an object
    /// instead of the list.
    fn resources(
        &mut self,
        of: &Value,
        scope: &ExpressionScope<'_>,
        path: &str,
        outer: Option<&TemplateResource<'_>>,
    ) {
        let named = member(of, "resources")
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, each)| (format!("{path}resources.{name}"), each));
        let listed = list(of, "resources")
            .iter()
            .enumerate()
            .map(|(at, each)| (format!("{path}resources[{at}]"), each));
        for (path, definition) in named.chain(listed) {
            if member(definition, "existing") != &json!(true) {
                self.resource(definition, scope, path, outer);
            }
        }
    }

    fn resource(
        &mut self,
        definition: &Value,
        scope: &ExpressionScope<'_>,
        path: String,
        outer: Option<&TemplateResource<'_>>,
    ) {
        let own = member(definition, "type").as_str().unwrap_or_default();
        let kind = outer.map_or_else(|| own.to_owned(), |outer| format!("{}/{own}", outer.kind));
        if !member(definition, "copy").is_null() {
            let lost = format!("{path}.copy: loops are not supported; {kind} is left out");
            return self.to.leave_out(lost);
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
            return self.to.leave_out(format!("{first}; {kind} is left out"));
        }
        if condition == json!(false) {
            let lost = format!("{path}: {kind} is left out, since its condition is false");
            return self.to.leave_out(lost);
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
        let mut resource = TemplateResource {
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

    /// Reads a nested template, which Bicep generates for a module.
    fn module(&mut self, definition: &Value, scope: &ExpressionScope<'_>, path: &str) {
        let properties = member(definition, "properties");
        let template = member(properties, "template");
        if template.is_null() {
            let lost = format!("{path}: a template elsewhere is left out; import it by itself");
            return self.to.leave_out(lost);
        }
        let inside = format!("{path}.properties.template.");
        let options = member(properties, "expressionEvaluationOptions");
        let is_inner = member(options, "scope")
            .as_str()
            .is_some_and(|it| it.eq_ignore_ascii_case("inner"));
        if !is_inner {
            return self.resources(template, scope, &inside, None);
        }
        // A missing parameter value is reported where the parameter is used.
        let parameters = member(properties, "parameters");
        let parameters = scope.resolve(parameters, "", &mut Vec::new());
        self.template(template, given(&parameters), &inside);
    }

    fn carry(&mut self, resource: &TemplateResource<'_>, scope: &ExpressionScope<'_>) {
        let (kind, path) = (&resource.kind, &resource.path);
        let small = kind.to_lowercase();
        let is_bus = small.starts_with("microsoft.servicebus/");
        if is_bus {
            self.buses
                .extend(resource.names.first().map(|name| name.to_lowercase()));
        }
        let Some((_, target_kind)) = CARRIED.into_iter().find(|(known, _)| *known == small) else {
            if small == "microsoft.servicebus/namespaces" {
                return;
            }
            let mut known = LEFT_OUT
                .into_iter()
                .filter(|(part, _)| small.contains(part));
            let why = known
                .next()
                .map_or("there is nothing like it here", |(_, why)| why);
            let lost = format!("{path}: {kind} is left out: {why}");
            return self.to.leave_out(lost);
        };
        let name = resource.names[usize::from(is_bus)..].join("/");
        let target = target_kind.named(&name);
        if resource.names.len() != small.matches('/').count() {
            let problem = format!("\"{name}\" does not have a name for each part of {kind}");
            let lost = format!("{path}.name: {problem}; it is left out");
            return self.to.leave_out(lost);
        }
        if target.kind == TargetKind::AccessRule && name.eq_ignore_ascii_case(ROOT_RULE) {
            let lost = format!("{path}: {ROOT_RULE} is there already, with keys of its own");
            return self.to.note(lost);
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
            self.to.leave_out(format!("{first}; {target} is left out"));
            self.left_out.insert(key(&target));
            return;
        }
        if target.kind == TargetKind::EventSubscription
            && let Err(lost) = self.subscription(&target, &mut properties)
        {
            let lost = match lost {
                Lost::LeftOut(lost) => format!("{path}: {target} is left out: {lost}"),
                Lost::Invalid(name) => {
                    let problem = "it must be an object with what it is to be used for";
                    let fault = format!("{path}.properties.{name}: {problem}");
                    return self.to.faults.push(fault);
                }
            };
            return self.to.leave_out(lost);
        }
        if !properties.is_null() {
            object["properties"] = properties;
        }
        self.to.objects.push(object);
    }

    /// Changes the properties of an event subscription that this server does not support in Azure's form.
    fn subscription(&mut self, target: &AuditTarget, properties: &mut Value) -> Result<(), Lost> {
        let is_namespace = !member(properties, "deliveryConfiguration").is_null();
        let is_pulled = !member(member(properties, "deliveryConfiguration"), "queue").is_null();
        let place = match (is_namespace, is_pulled) {
            (false, _) => Some(properties),
            (true, false) => member_mut(properties, "deliveryConfiguration")
                .and_then(|it| member_mut(it, "push")),
            (true, true) => member_mut(properties, "deliveryConfiguration")
                .and_then(|it| member_mut(it, "queue")),
        };
        let Some(Value::Object(place)) = place else {
            return Ok(()); // the server says what it must be
        };
        for (with_identity, inner) in [
            ("deliveryWithResourceIdentity", "destination"),
            ("deadLetterWithResourceIdentity", "deadLetterDestination"),
        ] {
            let Some(mut wrapped) = taken(place, with_identity).filter(|it| !it.is_null()) else {
                continue;
            };
            let held = member_mut(&mut wrapped, inner).map(Value::take);
            place.insert(inner.to_owned(), held.ok_or(Lost::Invalid(with_identity))?);
            self.without_identity(target, inner);
        }
        // In namespaces the wrapping object is kept, without the identity.
        const WRAPPED: &str = "deadLetterDestinationWithResourceIdentity";
        let mut wrapped = place
            .iter_mut()
            .find(|(name, _)| name.eq_ignore_ascii_case(WRAPPED));
        if let Some((_, Value::Object(wrapped))) = &mut wrapped
            && taken(wrapped, "identity").is_some_and(|it| !it.is_null())
        {
            self.without_identity(target, "deadLetterDestination");
        }
        let is_exported = |name: &str| {
            place
                .iter()
                .any(|(it, value)| it.eq_ignore_ascii_case(name) && !value.is_null())
        };
        if is_exported("deadLetterDestination") || is_exported(WRAPPED) {
            let note = "dead letters become files in dead_letter.export_dir; add `storage` for an account elsewhere";
            self.to.note(format!("{target}: {note}"));
        }
        let Some((_, destination)) = place
            .iter_mut()
            .find(|(name, _)| name.eq_ignore_ascii_case("destination"))
        else {
            return if is_pulled {
                Ok(())
            } else {
                Err(Lost::LeftOut("it has no destination".to_owned()))
            };
        };
        let kind = member(destination, "endpointType")
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if !DESTINATIONS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(&kind))
        {
            let lost = format!("there is no destination {kind}; give it the URL of a webhook");
            return Err(Lost::LeftOut(lost));
        }
        let webhook = member_mut(destination, "properties").and_then(Value::as_object_mut);
        let removed =
            webhook.map(|it| ENTRA.map(|name| taken(it, name).is_some_and(|it| !it.is_null())));
        if removed.is_some_and(|removed| removed.contains(&true)) {
            let note = "it is called without a token of Microsoft Entra; send a secret in a header";
            self.to.note(format!("{target}: {note}"));
        }
        Ok(())
    }

    fn without_identity(&mut self, target: &AuditTarget, what: &str) {
        let note = format!("{target}: there are no managed identities; {what} is used without");
        self.to.note(note);
    }
}

/// The destination types of Azure that this server supports.
const DESTINATIONS: [&str; 3] = ["WebHook", "ServiceBusQueue", "ServiceBusTopic"];

/// The reason that an event subscription is not imported.
enum Lost {
    LeftOut(String),
    /// The property with this name is invalid in the template.
    Invalid(&'static str),
}

/// Returns the member with this name in any letter case, unless it is null.
fn member_mut<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let mut members = value.as_object_mut()?.iter_mut();
    let found = members.find(|(known, value)| known.eq_ignore_ascii_case(name) && !value.is_null());
    found.map(|(_, value)| value)
}

/// Takes a member in any letter case out of an object.
fn taken(members: &mut Map<String, Value>, name: &str) -> Option<Value> {
    let known = members
        .keys()
        .find(|known| known.eq_ignore_ascii_case(name))?
        .clone();
    members.remove(&known)
}

impl TemplateResource<'_> {
    /// Makes this an extension resource of the resource whose id, or the end of it, is `scope`.
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

    /// Converts the type and names of an extension resource of an Event Grid topic to those of a child resource.
    /// Templates may use either form for event subscriptions.
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
