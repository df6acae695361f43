//! The configuration as a whole: what there is, and what leads from there to what a client wants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::lists::List;
use crate::api::manage::people::{UserPutBody, read};
use crate::broker::event_subscription;
use crate::model::alert::StoredAlertChannel;
use crate::model::audit::{AuditTarget, Change, TargetKind};
use crate::model::destination::Destination;
use crate::model::name::{
    AccessRuleName, AlertChannelName, AlertRuleName, InspectorName, InvalidName, NamespaceName,
    RuleName, SubscriptionName, TopicName, above,
};
use crate::model::provisioned::Provisioned;
use crate::model::queue::{
    EntityReference, EntityUpkeep, FORWARD_PROPERTY, MESSAGE_KILOBYTES, MessageSubscription,
    ReceiveRules,
};
use crate::model::registry::{Registry, SubscriptionKind, TopicEntry};
use crate::model::topic::TopicKind;
use crate::wire::resource::configuration::{self, Definition, KINDS};
use crate::wire::resource::{self, InvalidResource, SubscriptionContext};

/// Queues that name each other in a row; more than anybody has.
const DEPTH_MAX: usize = 16;

/// Objects of one configuration: twice the event subscriptions that Everpost is measured with.
const OBJECTS_MAX: usize = 20_000;

/// The rule that every new subscription of a Service Bus topic has.
const DEFAULT_RULE: &str = "$default";

/// Where an object stands among all: its kind's place, and its name in small letters.
type Key = (usize, String);

fn key(target: &AuditTarget) -> Key {
    let rank = KINDS.iter().position(|kind| *kind == target.kind);
    (rank.unwrap_or(KINDS.len()), target.name.to_lowercase())
}

/// Everything that can be defined.
type Objects = BTreeMap<Key, (AuditTarget, Definition)>;

/// `GET /everpost/configuration`
pub(crate) async fn export(State(state): State<ApiState>) -> Result<Json<List<Value>>, ApiError> {
    let objects = current(&state).await?;
    let shown = objects.into_values().map(|(target, definition)| {
        let mut object = definition.document;
        object["kind"] = json!(target.kind);
        object["name"] = target.name.into();
        object
    });
    Ok(Json(shown.collect()))
}

async fn current(state: &ApiState) -> Result<Objects, ApiError> {
    let mut all = Objects::new();
    let mut add = |kind: TargetKind, name: String, definition| {
        let target = kind.named(name);
        all.insert(key(&target), (target, definition));
    };
    for user in state.people.accounts().users().await? {
        let definition = Definition::user(&user.role, user.disabled_at.is_some());
        add(TargetKind::User, user.name, definition);
    }
    for each in state.views.inspectors().await? {
        let definition = Definition::inspector(&each.definition);
        add(TargetKind::Inspector, each.name.to_string(), definition);
    }
    for each in state.views.alert_channels().await? {
        let definition = Definition::alert_channel(&each.channel);
        add(TargetKind::AlertChannel, each.name.to_string(), definition);
    }
    for each in state.views.alert_rules().await? {
        let definition = Definition::alert_rule(&each.rule);
        add(TargetKind::AlertRule, each.name.to_string(), definition);
    }
    let registry = state.broker.registry();
    for each in registry.access_rules() {
        let definition = Definition::access_rule(&(&**each).into());
        add(TargetKind::AccessRule, each.name.to_string(), definition);
        tokio::task::yield_now().await;
    }
    for each in registry.namespaces() {
        let namespace = &each.namespace;
        let definition = Definition::namespace(&namespace.definition);
        add(
            TargetKind::Namespace,
            namespace.name.to_string(),
            definition,
        );
    }
    for topic in registry.topics() {
        add_topic(state, topic, &mut add);
        tokio::task::yield_now().await; // publishers do not wait for all of them
    }
    Ok(all)
}

/// A topic or a queue, with its subscriptions and their rules.
fn add_topic(
    state: &ApiState,
    topic: &Arc<TopicEntry>,
    add: &mut impl FnMut(TargetKind, String, Definition),
) {
    let name = &topic.topic.name;
    let defined = match &topic.topic.kind {
        TopicKind::Custom(_) | TopicKind::Namespace { .. } => Definition::topic(&topic.topic.kind),
        TopicKind::ServiceBus(definition) => Some(Definition::service_bus_topic(definition)),
        TopicKind::Queue(_) => topic.queue_definition().as_ref().map(Definition::queue),
        TopicKind::System(_) => None,
    };
    if let Some(definition) = defined {
        let kind = topic.topic.kind.entity().into();
        add(kind, name.to_string(), definition);
    }
    for each in topic.subscriptions.values() {
        let path = format!("{name}/{}", each.name);
        match topic.subscription_kind(each) {
            SubscriptionKind::OfQueue => {}
            SubscriptionKind::Event => {
                let in_namespace = topic.namespace.is_some();
                let definition = Definition::subscription(&each.definition, in_namespace);
                add(TargetKind::EventSubscription, path, definition);
            }
            SubscriptionKind::ServiceBus => {
                for rule in state.broker.rules(&(Arc::clone(topic), Arc::clone(each))) {
                    let of = format!("{path}/{}", rule.name);
                    add(TargetKind::Rule, of, Definition::rule(&rule));
                }
                if let Some(own) = MessageSubscription::of(&each.definition) {
                    let definition = Definition::service_bus_subscription(&own);
                    add(TargetKind::ServiceBusSubscription, path, definition);
                }
            }
        }
    }
}

/// A configuration that is wanted.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ConfigurationRequest")]
pub(crate) struct PlanRequest {
    /// Each with its `kind`, its `name` and what a PUT of such an object takes.
    #[schemars(length(max = OBJECTS_MAX), extend("x-noun" = "objects"))]
    objects: Vec<Value>,
    /// Is true to delete the objects that are neither among these nor provisioned. Users are deleted only if there is a
    /// user among these.
    #[serde(default)]
    prune: bool,
}

/// The changes that lead to a configuration.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct ConfigurationPlan {
    /// None if there are faults.
    steps: Vec<ConfigurationStep>,
    faults: Vec<PlanFault>,
}

/// One change.
#[derive(Serialize, JsonSchema)]
struct ConfigurationStep {
    action: StepAction,
    kind: TargetKind,
    name: String,
    /// In a few words.
    title: String,
    /// The segments of the path of the PUT, or the DELETE.
    path: Vec<String>,
    /// Which of the objects it is, from 0; null where it is deleted.
    object: Option<usize>,
    /// The changed properties of an update. Secrets are `***`.
    changes: Vec<Change>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum StepAction {
    Create,
    Update,
    Delete,
}

/// A fault of an object.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConfigurationFault")]
struct PlanFault {
    /// Which of the objects, from 0.
    object: usize,
    /// The property.
    path: String,
    problem: String,
}

/// `POST /everpost/configuration/plan`
pub(crate) async fn plan(
    State(state): State<ApiState>,
    body: Bytes,
) -> Result<Json<ConfigurationPlan>, ApiError> {
    let PlanRequest { objects, prune } = read(&body)?;
    let pruned = if prune {
        PrunedObjects::All
    } else {
        PrunedObjects::None
    };
    Ok(Json(plan_of(&state, &objects, pruned).await?))
}

/// The objects that are deleted where the files do not name them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrunedObjects {
    None,
    /// Everything but what is provisioned.
    All,
    /// The objects that are provisioned: the provisioning directory itself deletes them.
    Provisioned,
}

/// Returns the plan that leads from the current configuration to `objects`.
pub(crate) async fn plan_of(
    state: &ApiState,
    objects: &[Value],
    pruned: PrunedObjects,
) -> Result<ConfigurationPlan, ApiError> {
    let mut planner = Planner {
        current: current(state).await?,
        channels: state.views.alert_channels().await?,
        registry: state.broker.registry(),
        provisioned: state.broker.provisioned(),
        pruned,
        state,
        wanted: BTreeMap::new(),
        topics: BTreeMap::new(),
        plan: ConfigurationPlan::default(),
    };
    for (at, object) in objects.iter().enumerate() {
        planner.want(at, object);
    }
    let depths = planner.depths(objects).await;
    let mut order: Vec<_> = planner.wanted.clone().into_iter().collect();
    order.sort_by_key(|(at, _)| (at.0, depths.get(at)));
    for (_, (at, target)) in order {
        planner.compare(at, &target, &objects[at]);
        tokio::task::yield_now().await;
    }
    planner.delete();
    if !planner.plan.faults.is_empty() {
        planner.plan.faults.sort_by_key(|fault| fault.object);
        planner.plan.steps.clear();
    }
    Ok(planner.plan)
}

struct Planner<'a> {
    state: &'a ApiState,
    registry: Arc<Registry>,
    channels: Vec<StoredAlertChannel>,
    current: Objects,
    provisioned: Arc<Provisioned>,
    pruned: PrunedObjects,
    wanted: BTreeMap<Key, (usize, AuditTarget)>,
    /// The topics of events that are wanted.
    topics: BTreeMap<String, TopicKind>,
    plan: ConfigurationPlan,
}

impl Planner<'_> {
    fn fault(&mut self, object: usize, path: &str, problem: impl Into<String>) {
        self.plan.faults.push(PlanFault {
            object,
            path: path.to_owned(),
            problem: problem.into(),
        });
    }

    /// Notes an object by its kind and its name.
    fn want(&mut self, at: usize, object: &Value) {
        let kind: Option<TargetKind> = serde_json::from_value(object["kind"].clone()).ok();
        let Some(kind) = kind.filter(|kind| KINDS.contains(kind)) else {
            let kinds = KINDS.map(|kind| json!(kind).to_string()).join(", ");
            return self.fault(at, "kind", format!("it must be one of {kinds}"));
        };
        let Some(target) = object["name"].as_str().map(|name| kind.named(name)) else {
            return self.fault(at, "name", "it is missing; it must be a string");
        };
        if configuration::address(&target).is_none() {
            let problem = "it must be the name, behind those of the objects it belongs to, as in \"orders/billing\"";
            return self.fault(at, "name", problem);
        }
        if configuration::is_flat(kind) {
            let stray = object.as_object().into_iter().flatten();
            let mut stray =
                stray.filter(|(name, _)| !matches!(name.as_str(), "kind" | "name" | "properties"));
            if let Some((name, _)) = stray.next() {
                return self.fault(at, name, "it is not known here; put it into properties");
            }
        }
        if let Some((first, _)) = self.wanted.insert(key(&target), (at, target)) {
            self.fault(
                at.max(first),
                "name",
                "another object has the same kind and name",
            );
        }
    }

    /// Returns how many queues of the file stand before each that names others.
    async fn depths(&self, objects: &[Value]) -> BTreeMap<Key, usize> {
        let mut named: BTreeMap<Key, Vec<Key>> = BTreeMap::new();
        for (own, (at, target)) in &self.wanted {
            if target.kind == TargetKind::Queue
                && let Ok(queue) = resource::parse_queue(&objects[*at])
            {
                let references = queue.subscription.pull.receiving.references();
                let others = references.map(|each| key(&TargetKind::Queue.named(each.to)));
                named.insert(own.clone(), others.collect());
            }
            tokio::task::yield_now().await;
        }
        named.retain(|_, others| !others.is_empty());
        let mut depths: BTreeMap<Key, usize> = BTreeMap::new();
        for _ in 0..DEPTH_MAX {
            for (own, others) in &named {
                let before = others.iter().filter_map(|other| depths.get(other));
                let depth = before.max().map_or(1, |depth| depth + 1);
                depths.insert(own.clone(), depth);
            }
        }
        depths
    }

    fn exists(&self, target: &AuditTarget) -> bool {
        let key = key(target);
        self.current.contains_key(&key) || self.wanted.contains_key(&key)
    }

    /// Adds the step that leads to an object, if there is one.
    fn compare(&mut self, at: usize, target: &AuditTarget, object: &Value) {
        let parents: Vec<AuditTarget> = configuration::parents(target).collect();
        let is_there = |parent: &AuditTarget| self.exists(parent) || self.is_built_in(parent);
        if !parents.is_empty() && !parents.iter().any(is_there) {
            let parents: Vec<String> = parents.iter().map(AuditTarget::to_string).collect();
            let missing = parents.join(" or ");
            let problem = format!("there is no {missing}, here or in the files");
            return self.fault(at, "name", problem);
        }
        let definition = match self.define(target, object) {
            Ok(definition) => definition,
            Err(invalid) => {
                for fault in invalid.faults {
                    self.fault(at, &fault.path, fault.problem);
                }
                return;
            }
        };
        let before = self.current.get(&key(target));
        let changes = before.map(|(_, before)| definition.changes_from(before));
        if changes.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        let action = match changes {
            None => StepAction::Create,
            Some(_) => StepAction::Update,
        };
        let file = self.provisioned.file_of(target);
        if let Some(file) = file.filter(|_| self.pruned != PrunedObjects::Provisioned) {
            let problem = format!("it is provisioned from {file}; change it there");
            return self.fault(at, "name", problem);
        }
        self.step(action, target, Some(at), changes.unwrap_or_default());
    }

    fn step(
        &mut self,
        action: StepAction,
        target: &AuditTarget,
        object: Option<usize>,
        changes: Vec<Change>,
    ) {
        self.plan.steps.push(ConfigurationStep {
            action,
            kind: target.kind,
            name: target.name.clone(),
            title: target.to_string(),
            path: configuration::address(target).unwrap_or_default(),
            object,
            changes,
        });
    }

    fn is_built_in(&self, topic: &AuditTarget) -> bool {
        let name = TopicName::parse(&topic.name).ok();
        let found = name.and_then(|name| self.registry.topic(&name));
        topic.kind == TargetKind::Topic && found.is_some_and(|found| found.topic.kind.is_built_in())
    }

    /// Reads an object by the rules of its kind, and by what it replaces.
    fn define(
        &mut self,
        target: &AuditTarget,
        object: &Value,
    ) -> Result<Definition, InvalidResource> {
        let empty = json!({});
        let properties = object.get("properties").unwrap_or(&empty);
        let flat = |invalid: InvalidResource| invalid.inside("properties");
        let (outer, own) = target.name.rsplit_once('/').unwrap_or(("", &target.name));
        Ok(match target.kind {
            TargetKind::Namespace => {
                NamespaceName::parse(own).map_err(invalid_name)?;
                self.check_path(target)?;
                Definition::namespace(&resource::parse_namespace(object)?)
            }
            TargetKind::Topic => {
                let kind = self.topic(target, object)?;
                let missing = || InvalidResource::of("kind", "it is no topic of events");
                Definition::topic(&kind).ok_or_else(missing)?
            }
            TargetKind::EventSubscription => return self.subscription(outer, own, object),
            TargetKind::Queue => {
                let name = self.free_name(target)?;
                let definition = resource::parse_queue(object)?;
                let topic = self.registry.topic(&name);
                let known = topic.and_then(|topic| topic.queue_definition());
                let before = known
                    .as_ref()
                    .map(|known| &known.subscription.pull.receiving);
                let pull = &definition.subscription.pull;
                self.check_size(&pull.upkeep)?;
                self.check_forwards(&name, before, &pull.receiving)?;
                check_fixed(known.and_then(|known| known.fixed_change(&definition)))?;
                Definition::queue(&definition)
            }
            TargetKind::ServiceBusTopic => {
                let name = self.free_name(target)?;
                let definition = resource::parse_service_bus_topic(object)?;
                self.check_size(&definition.upkeep)?;
                let topic = self.registry.topic(&name);
                let known = topic.and_then(|topic| topic.topic.kind.service_bus());
                check_fixed(known.and_then(|known| known.fixed_change(&definition)))?;
                Definition::service_bus_topic(&definition)
            }
            TargetKind::ServiceBusSubscription => {
                let name = TopicName::of_service_bus(outer).map_err(invalid_name)?;
                let own = SubscriptionName::of_service_bus(own).map_err(invalid_name)?;
                let definition = resource::parse_service_bus_subscription(object)?;
                let topic = self.registry.topic(&name);
                let known = topic
                    .and_then(|topic| topic.subscription(&own))
                    .and_then(|found| MessageSubscription::of(&found.definition));
                let before = known.as_ref().map(|known| &known.pull.receiving);
                self.check_forwards(&name, before, &definition.pull.receiving)?;
                check_fixed(known.and_then(|known| known.fixed_change(&definition)))?;
                Definition::service_bus_subscription(&definition)
            }
            TargetKind::Rule => {
                let name = RuleName::parse(own).map_err(invalid_name)?;
                Definition::rule(&resource::parse_rule(name, object)?)
            }
            TargetKind::AccessRule => {
                let name = AccessRuleName::parse(&target.name).map_err(invalid_name)?;
                let known = self.registry.access_rule(&name).map(|known| &**known);
                let definition = resource::parse_access_rule(properties, known).map_err(flat)?;
                Definition::access_rule(&definition)
            }
            TargetKind::Inspector => {
                InspectorName::parse(own).map_err(invalid_name)?;
                Definition::inspector(&resource::parse_inspector(properties).map_err(flat)?)
            }
            TargetKind::AlertRule => {
                AlertRuleName::parse(own).map_err(invalid_name)?;
                Definition::alert_rule(&resource::parse_alert_rule(properties).map_err(flat)?)
            }
            TargetKind::AlertChannel => {
                let name = AlertChannelName::parse(own).map_err(invalid_name)?;
                let found = self.channels.iter().find(|each| each.name == name);
                let known = found.map(|found| &found.channel);
                let require_https = self.state.broker.options().egress.require_https;
                let channel = resource::parse_alert_channel(properties, known, require_https);
                Definition::alert_channel(&channel.map_err(flat)?)
            }
            TargetKind::User
            | TargetKind::Appliance
            | TargetKind::Delivery
            | TargetKind::DeadLetter
            | TargetKind::ReplayJob
            | TargetKind::ApiToken
            | TargetKind::Url
            | TargetKind::Setting => {
                let user: UserPutBody = resource::read(properties).map_err(flat)?;
                Definition::user(&user.role, user.disabled)
            }
        })
    }

    /// Rejects a size of messages that the tier of Service Bus does not have.
    fn check_size(&self, upkeep: &EntityUpkeep) -> Result<(), InvalidResource> {
        let tier = self.state.broker.options().service_bus_tier;
        let path = format!("properties.{MESSAGE_KILOBYTES}");
        let checked = upkeep.check_size(tier);
        checked.map_err(|fault| InvalidResource::of(&path, fault.to_string()))
    }

    fn topic(
        &mut self,
        target: &AuditTarget,
        object: &Value,
    ) -> Result<TopicKind, InvalidResource> {
        let name = self.free_name(target)?;
        let kind = match name.namespace() {
            None => resource::parse_topic(object)?,
            Some(_) => resource::parse_namespace_topic(object)?,
        };
        let topic = self.registry.topic(&name);
        let known = topic.map(|topic| topic.topic.kind.input_schema());
        if known.is_some_and(|known| known != kind.input_schema()) {
            let problem = "it cannot be changed once the topic exists; delete the topic first";
            return Err(InvalidResource::of("properties.inputSchema", problem));
        }
        self.topics.insert(name.key(), kind.clone());
        Ok(kind)
    }

    fn subscription(
        &self,
        topic: &str,
        own: &str,
        object: &Value,
    ) -> Result<Definition, InvalidResource> {
        let topic = TopicName::parse(topic).map_err(invalid_name)?;
        let in_namespace = topic.namespace().is_some();
        let parsed = if in_namespace {
            SubscriptionName::of_namespace_topic(own)
        } else {
            SubscriptionName::of_custom_topic(own)
        };
        let name = parsed.map_err(invalid_name)?;
        let entry = self.registry.topic(&topic);
        let wanted = self.topics.get(&topic.key());
        let missing = || InvalidResource::of("name", format!("there is no topic {topic}"));
        let of_topic = wanted
            .or(entry.map(|entry| &entry.topic.kind))
            .ok_or_else(missing)?;
        let replaces = match entry {
            Some(entry) => event_subscription(entry, &name)
                .map_err(|error| InvalidResource::of("name", error.to_string()))?,
            None => None,
        };
        let context = SubscriptionContext {
            input_schema: of_topic.input_schema(),
            event_retention: of_topic.event_retention(),
            now: self.state.broker.clock().now(),
            replaces: replaces.map(|replaced| &replaced.definition),
            require_https: self.state.broker.options().egress.require_https,
        };
        let definition = resource::parse_subscription(object, &context)?;
        let mode = definition.destination.delivery_mode();
        let known = context
            .replaces
            .map(|known| known.destination.delivery_mode());
        if known.is_some_and(|known| known != mode) {
            let path = "properties.deliveryConfiguration.deliveryMode";
            let problem = "it cannot be changed; delete the event subscription first";
            return Err(InvalidResource::of(path, problem));
        }
        self.check_destination(&topic, &definition.destination)?;
        Ok(Definition::subscription(&definition, in_namespace))
    }

    fn check_destination(
        &self,
        topic: &TopicName,
        destination: &Destination,
    ) -> Result<(), InvalidResource> {
        let Some(entity) = destination.entity() else {
            return Ok(());
        };
        let path = "properties.destination.properties.resourceId";
        let is_entity = [TargetKind::Queue, TargetKind::ServiceBusTopic]
            .into_iter()
            .any(|kind| self.exists(&kind.named(topic)));
        let target = TargetKind::from(entity.kind).named(entity.to.entity.name());
        let problem = if is_entity {
            format!("{topic} is a queue or a topic of Service Bus itself; use {FORWARD_PROPERTY}")
        } else if self.exists(&target) {
            return Ok(());
        } else {
            format!("there is no {target}, here or in the files")
        };
        Err(InvalidResource::of(path, problem))
    }

    /// The name of a topic or a queue, if nothing of another kind has it.
    fn free_name(&self, target: &AuditTarget) -> Result<TopicName, InvalidResource> {
        let parsed = match (target.kind, target.name.split_once('/')) {
            (TargetKind::Topic, None) => TopicName::custom(&target.name),
            (TargetKind::Topic, Some((namespace, own))) => {
                let namespace = NamespaceName::parse(namespace).map_err(invalid_name)?;
                TopicName::in_namespace(&namespace, own)
            }
            _ => TopicName::of_service_bus(&target.name),
        };
        let name = parsed.map_err(invalid_name)?;
        let taken =
            |kind: TargetKind| kind != target.kind && self.exists(&kind.named(&target.name));
        let kinds = [
            TargetKind::Topic,
            TargetKind::Queue,
            TargetKind::ServiceBusTopic,
        ];
        match kinds.into_iter().find(|kind| taken(*kind)) {
            Some(kind) => {
                let problem = format!("{} has that name already", kind.named(&target.name));
                Err(InvalidResource::of("name", problem))
            }
            None => {
                if target.kind != TargetKind::Topic {
                    self.check_path(target)?;
                }
                Ok(name)
            }
        }
    }

    /// Rejects the name of a queue, a Service Bus topic or a namespace that another one is above or below.
    fn check_path(&self, target: &AuditTarget) -> Result<(), InvalidResource> {
        let kinds = [
            TargetKind::Namespace,
            TargetKind::Queue,
            TargetKind::ServiceBusTopic,
        ];
        let name = target.name.to_lowercase();
        let is_another = |other: &AuditTarget| key(other) != key(target) && self.exists(other);
        let mut prefixes = above(&name).chain([name.as_str()]);
        let above = prefixes.find_map(|name| {
            let mut named = kinds.iter().map(|kind| kind.named(name));
            named.find(is_another)
        });
        let below = kinds.iter().find_map(|kind| {
            let from = key(&kind.named(format!("{name}/")));
            let found = [
                self.current
                    .range(from.clone()..)
                    .next()
                    .map(|(key, _)| key),
                self.wanted.range(from.clone()..).next().map(|(key, _)| key),
            ];
            found
                .into_iter()
                .flatten()
                .find(|(rank, name)| *rank == from.0 && name.starts_with(&from.1))
                .map(|(_, name)| kind.named(name))
        });
        match above.or(below) {
            Some(other) => {
                let problem = format!("its path would be above or below that of {other}");
                Err(InvalidResource::of("name", problem))
            }
            None => Ok(()),
        }
    }

    /// Rejects forwarding to what is no queue or topic, unless it was like that before.
    fn check_forwards(
        &self,
        name: &TopicName,
        before: Option<&ReceiveRules>,
        definition: &ReceiveRules,
    ) -> Result<(), InvalidResource> {
        for reference in definition.references() {
            let EntityReference {
                property,
                to: queue,
            } = reference;
            // Where messages go already may have been deleted since.
            let is_kept =
                before.is_some_and(|before| before.references().any(|each| each == reference));
            let mut kinds = [TargetKind::Queue, TargetKind::ServiceBusTopic].into_iter();
            let is_there = kinds.any(|kind| self.exists(&kind.named(queue)));
            if !is_kept && !is_there && queue.key() != name.key() {
                let path = format!("properties.{property}");
                let problem =
                    format!("{queue} is no queue or Service Bus topic, here or in the files");
                return Err(InvalidResource::of(&path, problem));
            }
        }
        Ok(())
    }

    /// Adds the steps that delete: everything that is not wanted if that is asked for, and the rule of a new
    /// subscription that comes with rules of its own.
    fn delete(&mut self) {
        let has_kind = |kind: TargetKind| {
            let mut targets = self.wanted.values().map(|(_, target)| target);
            targets.any(|target| target.kind == kind)
        };
        let has_users = has_kind(TargetKind::User);
        let ruled: BTreeSet<String> = self
            .wanted
            .values()
            .filter(|(_, target)| target.kind == TargetKind::Rule)
            .flat_map(|(_, target)| configuration::parents(target))
            .map(|of| of.name.to_lowercase())
            .collect();
        let mut gone: Vec<AuditTarget> = Vec::new();
        let is_default = |target: &AuditTarget| target.name.to_lowercase().ends_with(DEFAULT_RULE);
        let stays = |(key, (target, _)): &(&Key, &(AuditTarget, Definition))| {
            let of = configuration::parents(target)
                .next()
                .map(|of| of.name.to_lowercase());
            self.wanted.contains_key(*key)
                || (target.kind == TargetKind::User && !has_users)
                || (target.kind == TargetKind::Rule
                    && is_default(target)
                    && !of.is_some_and(|of| ruled.contains(&of)))
        };
        let held = self.held();
        let goes = |each: &(&Key, &(AuditTarget, Definition))| match (self.pruned, each) {
            (PrunedObjects::None, _) => false,
            (PrunedObjects::All, (key, _)) => !held.contains(*key) && !stays(each),
            (PrunedObjects::Provisioned, (key, (target, _))) => {
                self.provisioned.file_of(target).is_some() && !self.wanted.contains_key(*key)
            }
        };
        let unwanted = self.current.iter().filter(goes);
        gone.extend(unwanted.map(|(_, (target, _))| target.clone()));
        for of in &ruled {
            let of = TargetKind::ServiceBusSubscription.named(of);
            let rule = TargetKind::Rule.named(format!("{}/$Default", of.name));
            let is_new = !self.current.contains_key(&key(&of));
            if is_new && !self.wanted.contains_key(&key(&rule)) {
                gone.push(rule);
            }
        }
        let keys: BTreeSet<Key> = gone.iter().map(key).collect();
        // With what it belongs to, an object goes by itself.
        let goes_with = |target: &AuditTarget| {
            let mut outer = configuration::above(target).into_iter();
            outer.find(|of| keys.contains(&key(of)))
        };
        let wanted = self.wanted.values();
        let lost: Vec<(usize, AuditTarget)> = wanted
            .filter_map(|(at, target)| Some((*at, goes_with(target)?)))
            .collect();
        let gone: Vec<AuditTarget> = gone
            .iter()
            .filter(|each| goes_with(each).is_none())
            .cloned()
            .collect();
        for (at, outer) in lost {
            let problem =
                format!("the {outer}, which it belongs to, is to be deleted; name that, too");
            self.fault(at, "name", problem);
        }
        for target in gone.iter().rev() {
            self.step(StepAction::Delete, target, None, Vec::new());
        }
    }
}

impl Planner<'_> {
    /// Returns the keys of the objects that only the provisioning directory may change, and of those that contain them.
    fn held(&self) -> BTreeSet<Key> {
        let own = self.provisioned.targets();
        let mut held: BTreeSet<Key> = own.clone().map(key).collect();
        held.extend(own.flat_map(configuration::above).map(|of| key(&of)));
        held
    }
}

/// Rejects a change of a property that cannot be changed, if there is one.
fn check_fixed(property: Option<&str>) -> Result<(), InvalidResource> {
    match property {
        Some(property) => {
            let path = format!("properties.{property}");
            let problem = "it cannot be changed; delete it first";
            Err(InvalidResource::of(&path, problem))
        }
        None => Ok(()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what map_err gives")]
fn invalid_name(invalid: InvalidName) -> InvalidResource {
    InvalidResource::of("name", invalid.to_string())
}
