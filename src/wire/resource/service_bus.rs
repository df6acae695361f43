//! Topics of Service Bus, their subscriptions and their rules, as Azure Resource Manager writes them (rule S7).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::InvalidResource;
use super::as_written::{self, AnswerScope};
use super::document::{self, Authored};
use super::envelope::{Answered, Envelope, Resource, SystemData};
use super::queue::{CountDetails, QueueAnswer, ReceivingProperties, UpkeepProperties};
use super::reader::schema_of;
use super::rules::{Context, Judged};
use super::values::iso;
use crate::model::as_written::AsWritten;
use crate::model::name::RuleName;
use crate::model::queue::{MessageSubscription, QueueCounts, SendRules, ServiceBusTopic};
use crate::model::registry::TopicEntry;
use crate::model::rule::{
    CorrelationFilter, IntegerType, Parameters, PropertyValue, Rule, RuleFilter, RuleValue,
    SqlAction, SqlError, SqlFilter, SystemProperty,
};
use crate::model::subscription::EventSubscription;
use crate::wire::duration::{self, DURATION_MAX};

/// The body of a PUT of a topic.
pub(crate) type ServiceBusTopicRequest = Envelope<ServiceBusTopicProperties>;

/// A topic as answers show it.
pub(crate) type ShownServiceBusTopic =
    Resource<Envelope<Answered<ServiceBusTopicProperties, ServiceBusTopicAnswer>>>;

/// The body of a PUT of a subscription.
pub(crate) type ServiceBusSubscriptionRequest = Envelope<ServiceBusSubscriptionProperties>;

/// A subscription as answers show it.
pub(crate) type ShownServiceBusSubscription =
    Resource<Envelope<Answered<ServiceBusSubscriptionProperties, QueueAnswer>>>;

/// The body of a PUT of a rule.
pub(crate) type RuleRequest = Envelope<RuleProperties>;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "ServiceBusTopic", inline)]
#[schemars(extend("x-rule" = "messagingEntity"))]
pub(crate) struct ServiceBusTopicProperties {
    /// How long messages live at most; a message or a subscription may have less time of its own.
    #[serde(with = "iso")]
    #[schemars(with = "String", extend("format" = "duration", "x-check" = "messageTimeToLive"))]
    default_message_time_to_live: Duration,
    #[serde(flatten)]
    sending: SendRules,
    #[serde(flatten)]
    upkeep: UpkeepProperties,
}

impl Default for ServiceBusTopicProperties {
    fn default() -> Self {
        Self {
            default_message_time_to_live: DURATION_MAX,
            sending: SendRules::default(),
            upkeep: UpkeepProperties::default(),
        }
    }
}

/// The properties that a topic has only in answers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceBusTopicAnswer {
    subscription_count: usize,
    /// The number of rules with correlation filters.
    correlation_filter_count: usize,
    /// The number of all other rules.
    sql_filter_count: usize,
    /// The size of the messages of its subscriptions.
    size_in_bytes: u64,
    /// The counts of scheduled messages alone: all others are in subscriptions.
    count_details: CountDetails,
}

impl From<&ServiceBusTopic> for ServiceBusTopicProperties {
    fn from(topic: &ServiceBusTopic) -> Self {
        Self {
            default_message_time_to_live: topic.time_to_live,
            sending: topic.sending.clone(),
            upkeep: (&topic.upkeep).into(),
        }
    }
}

impl From<ServiceBusTopicRequest> for ServiceBusTopic {
    fn from(topic: ServiceBusTopicRequest) -> Self {
        let properties = topic.properties;
        Self {
            sending: properties.sending,
            time_to_live: properties.default_message_time_to_live,
            upkeep: properties.upkeep.into(),
            as_written: AsWritten::default(),
        }
    }
}

impl From<Authored<ServiceBusTopicRequest>> for ServiceBusTopic {
    fn from(read: Authored<ServiceBusTopicRequest>) -> Self {
        Self {
            as_written: as_written::to_text(&read.own),
            ..read.document.into()
        }
    }
}

/// Reads the body of a PUT.
pub fn parse_service_bus_topic(body: &Value) -> Result<ServiceBusTopic, InvalidResource> {
    let read = document::put::<ServiceBusTopicRequest>(body, None, &Context::NONE);
    read.map(ServiceBusTopic::from)
}

/// Returns the body of the PUT that defines a topic.
pub fn service_bus_topic_document(definition: &ServiceBusTopic) -> Value {
    json!({ "properties": ServiceBusTopicProperties::from(definition) })
}

/// Returns the answer that shows a topic of Service Bus with these counts.
pub fn render_service_bus_topic(
    topic: &TopicEntry,
    definition: &ServiceBusTopic,
    counts: QueueCounts,
) -> Value {
    let is_correlation = |rule: &&Arc<Rule>| matches!(rule.filter, RuleFilter::Correlation(_));
    let correlation_filter_count = topic.rules.all().filter(is_correlation).count();
    let answer = ServiceBusTopicAnswer {
        subscription_count: topic.message_subscriptions().count(),
        correlation_filter_count,
        sql_filter_count: topic.rules.all().count() - correlation_filter_count,
        size_in_bytes: counts.bytes,
        count_details: counts.into(),
    };
    let set = ServiceBusTopicProperties::from(definition);
    let whole = json!(Resource {
        id: topic.resource_id.to_string(),
        name: topic.topic.name.as_str().to_owned(),
        r#type: "Microsoft.ServiceBus/namespaces/topics".to_owned(),
        system_data: SystemData::new(topic.topic.created_at, topic.topic.updated_at),
        document: Envelope {
            properties: Answered { set, answer },
        },
    });
    let own = as_written::from_text(&definition.as_written);
    let schema = schema_of::<ServiceBusTopicRequest>();
    as_written::answer(whole, &own, schema, AnswerScope::All)
}

fn subscription_id(topic: &TopicEntry, subscription: &EventSubscription) -> String {
    format!("{}/subscriptions/{}", topic.resource_id, subscription.name)
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "ServiceBusSubscription", inline)]
pub(crate) struct ServiceBusSubscriptionProperties {
    #[serde(flatten)]
    receiving: ReceivingProperties,
    /// Messages that a rule cannot be evaluated for become dead letters. Otherwise such a rule does not match.
    dead_lettering_on_filter_evaluation_exceptions: bool,
    #[serde(flatten)]
    upkeep: UpkeepProperties,
}

impl Default for ServiceBusSubscriptionProperties {
    fn default() -> Self {
        Self {
            receiving: ReceivingProperties::default(),
            dead_lettering_on_filter_evaluation_exceptions: true,
            upkeep: UpkeepProperties::default(),
        }
    }
}

impl From<&MessageSubscription> for ServiceBusSubscriptionProperties {
    fn from(definition: &MessageSubscription) -> Self {
        Self {
            receiving: definition.into(),
            dead_lettering_on_filter_evaluation_exceptions: definition.pull.keeps_unevaluated,
            upkeep: (&definition.pull.upkeep).into(),
        }
    }
}

impl From<ServiceBusSubscriptionProperties> for MessageSubscription {
    fn from(properties: ServiceBusSubscriptionProperties) -> Self {
        let keeps_unevaluated = properties.dead_lettering_on_filter_evaluation_exceptions;
        let receiving = properties.receiving;
        receiving.definition(keeps_unevaluated, properties.upkeep)
    }
}

impl<P: Into<MessageSubscription>> From<Authored<P>> for MessageSubscription {
    fn from(read: Authored<P>) -> Self {
        Self {
            as_written: as_written::to_text(&read.own),
            ..read.document.into()
        }
    }
}

/// Reads the body of a PUT.
pub fn parse_service_bus_subscription(
    body: &Value,
) -> Result<MessageSubscription, InvalidResource> {
    let read = document::put::<ServiceBusSubscriptionRequest>(body, None, &Context::NONE);
    read.map(|read| read.properties().into())
}

/// Returns the body of the PUT that defines a subscription.
pub fn service_bus_subscription_document(definition: &MessageSubscription) -> Value {
    json!({ "properties": ServiceBusSubscriptionProperties::from(definition) })
}

/// Returns the answer that shows a subscription with these counts; `None` for one that is pushed.
pub fn render_service_bus_subscription(
    topic: &TopicEntry,
    subscription: &EventSubscription,
    counts: QueueCounts,
) -> Option<Value> {
    let definition = MessageSubscription::of(&subscription.definition)?;
    let answer = QueueAnswer::of(counts);
    let set = ServiceBusSubscriptionProperties::from(&definition);
    let whole = json!(Resource {
        id: subscription_id(topic, subscription),
        name: subscription.name.as_str().to_owned(),
        r#type: "Microsoft.ServiceBus/namespaces/topics/subscriptions".to_owned(),
        system_data: SystemData::new(subscription.created_at, subscription.updated_at),
        document: Envelope {
            properties: Answered { set, answer },
        },
    });
    let own = &definition.as_written;
    let schema = schema_of::<ServiceBusSubscriptionProperties>();
    Some(as_written::resource(whole, own, schema, AnswerScope::All))
}

/// Which messages a subscription gets.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ServiceBusRule", inline)]
#[schemars(extend("x-rule" = "serviceBusRule"))]
pub(crate) struct RuleProperties {
    /// `TrueFilter` matches all messages, `FalseFilter` none. Left out, it is that of the filter that is there, and
    /// `TrueFilter` without one.
    filter_type: Option<FilterType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sql_filter: Option<SqlDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_filter: Option<CorrelationDocument>,
    /// Changes of the copy that the rule makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<ActionDocument>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
enum FilterType {
    #[serde(rename = "SqlFilter")]
    Sql,
    #[serde(rename = "CorrelationFilter")]
    Correlation,
    #[serde(rename = "TrueFilter")]
    True,
    #[serde(rename = "FalseFilter")]
    False,
}

/// A condition in Service Bus' SQL.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SqlDocument {
    #[schemars(extend("x-expected" = "a condition such as \"color = 'red'\""))]
    sql_expression: String,
    /// Values of the names behind `@`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<String, TypedValue>,
}

/// Statements in Service Bus' SQL, or none.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ActionDocument {
    /// Such as `SET color = 'red'; REMOVE size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    sql_expression: Option<String>,
    /// Values of the names behind `@`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<String, TypedValue>,
}

/// All that is given has to be equal.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct CorrelationDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to_session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    /// Application properties.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, TypedValue>,
}

/// A value that keeps its type. What JSON has no type for is an object that names it.
#[derive(Clone)]
struct TypedValue(RuleValue);

const TIMESTAMP: &str = "timestamp";
const DURATION: &str = "duration";
const UUID: &str = "uuid";
const BINARY: &str = "binary";
const DECIMAL: &str = "decimal";
const FLOAT: &str = "float";

/// The description of a valid [`TypedValue`].
const TYPED: &str = "a string, a number, true or false, or an object with \"timestamp\", \"duration\", \"uuid\", \"binary\", \"decimal\", \"float\", or the name of a type of whole numbers such as \"int\"";

/// The name of a type of whole numbers. A number without one is a long.
fn word(width: IntegerType) -> String {
    width.name().to_ascii_lowercase()
}

/// The type of that name.
fn width(name: &str) -> Option<IntegerType> {
    IntegerType::ALL
        .into_iter()
        .find(|each| word(*each) == name)
}

fn whole(number: i128) -> Value {
    match i64::try_from(number) {
        Ok(number) => json!(number),
        Err(_) => json!(u64::try_from(number).ok()),
    }
}

impl TypedValue {
    fn to_json(&self) -> Value {
        match self.0.as_value() {
            PropertyValue::Bool(value) => json!(value),
            PropertyValue::Integer(IntegerType::Long, number) => whole(*number),
            PropertyValue::Integer(width, number) => json!({ word(*width): whole(*number) }),
            PropertyValue::Float(number) => json!({ FLOAT: number }),
            PropertyValue::Double(number) => json!(number),
            PropertyValue::Decimal(number) => json!({ DECIMAL: number.to_string() }),
            PropertyValue::Text(text) => json!(text),
            PropertyValue::Timestamp(at) => json!({ TIMESTAMP: at.to_string() }),
            PropertyValue::ZonelessTime(at) => {
                json!({ TIMESTAMP: at.to_string().trim_end_matches('Z') })
            }
            PropertyValue::Duration(ticks) => json!({ DURATION: duration::of_ticks(*ticks) }),
            PropertyValue::Uuid(uuid) => json!({ UUID: uuid.to_string() }),
            PropertyValue::Binary(bytes) => json!({ BINARY: STANDARD.encode(bytes) }),
            PropertyValue::Null | PropertyValue::Other => Value::Null,
        }
    }

    fn of_json(value: &Value) -> Option<Self> {
        RuleValue::new(Self::property_of(value)?).ok().map(Self)
    }

    fn property_of(value: &Value) -> Option<PropertyValue> {
        Some(match value {
            Value::Bool(value) => PropertyValue::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => PropertyValue::long(number),
                (None, Some(number)) => {
                    PropertyValue::Integer(IntegerType::Ulong, i128::from(number))
                }
                (None, None) => PropertyValue::Double(number.as_f64()?),
            },
            Value::String(text) => PropertyValue::Text(text.clone()),
            Value::Object(object) if object.len() == 1 => {
                let (name, value) = object.iter().next()?;
                if let Some(width) = width(name) {
                    let signed = value.as_i64().map(i128::from);
                    let number = signed.or(value.as_u64().map(i128::from))?;
                    let fits = width.holds(number);
                    return fits.then_some(PropertyValue::Integer(width, number));
                }
                if name == FLOAT {
                    return Some(PropertyValue::Float(value.as_f64()? as f32));
                }
                let text = |name: &str| object.get(name)?.as_str();
                if let Some(number) = text(DECIMAL) {
                    return Some(PropertyValue::Decimal(number.parse().ok()?));
                }
                match (text(TIMESTAMP), text(DURATION), text(UUID), text(BINARY)) {
                    (Some(at), ..) => match at.parse() {
                        Ok(at) => PropertyValue::Timestamp(at),
                        Err(_) => PropertyValue::ZonelessTime(format!("{at}Z").parse().ok()?),
                    },
                    (_, Some(text), ..) => PropertyValue::Duration(duration::to_ticks(text)?),
                    (_, _, Some(uuid), _) => PropertyValue::Uuid(uuid.parse().ok()?),
                    (.., Some(bytes)) => PropertyValue::Binary(STANDARD.decode(bytes).ok()?),
                    (None, None, None, None) => return None,
                }
            }
            Value::Object(_) | Value::Array(_) | Value::Null => return None,
        })
    }
}

impl Serialize for TypedValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TypedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::of_json(&value).ok_or_else(|| D::Error::custom(format!("it must be {TYPED}")))
    }
}

impl JsonSchema for TypedValue {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TypedValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let types = ["string", "number", "boolean", "object"].map(|kind| json!({ "type": kind }));
        json_schema!({ "anyOf": types })
    }
}

/// The fault of a rule: the path of the property, and what is wrong with it.
type Fault = (&'static str, String);

impl RuleProperties {
    fn filter(&self) -> Result<RuleFilter, Fault> {
        let kind = self.filter_type.unwrap_or(FilterType::True);
        match (kind, &self.sql_filter, &self.correlation_filter) {
            (FilterType::True, ..) => Ok(RuleFilter::All),
            (FilterType::False, ..) => Ok(RuleFilter::None),
            (FilterType::Sql, Some(sql), _) => {
                let filter = SqlFilter::parse(&sql.sql_expression, values(&sql.parameters));
                let path = "sqlFilter.sqlExpression";
                filter.map(RuleFilter::Sql).map_err(at(path))
            }
            (FilterType::Correlation, _, Some(correlation)) => {
                let filter = CorrelationFilter::from(correlation);
                if filter.is_empty() {
                    Err(("correlationFilter", "it compares nothing".to_owned()))
                } else {
                    Ok(RuleFilter::Correlation(filter))
                }
            }
            (FilterType::Sql, None, _) => Err((
                "sqlFilter",
                "it is missing; it must be an object".to_owned(),
            )),
            (FilterType::Correlation, _, None) => {
                let problem = "it is missing; it must be an object";
                Err(("correlationFilter", problem.to_owned()))
            }
        }
    }

    fn action(&self) -> Result<Option<SqlAction>, Fault> {
        let Some(action) = &self.action else {
            return Ok(None);
        };
        let Some(text) = &action.sql_expression else {
            return Ok(None);
        };
        let parsed = SqlAction::parse(text, values(&action.parameters));
        parsed.map(Some).map_err(at("action.sqlExpression"))
    }
}

fn at(path: &'static str) -> impl FnOnce(SqlError) -> Fault {
    move |error| (path, error.to_string())
}

fn values(given: &BTreeMap<String, TypedValue>) -> Parameters {
    given
        .iter()
        .map(|(name, value)| (name.clone(), value.0.clone()))
        .collect()
}

fn typed<'a>(
    values: impl IntoIterator<Item = (&'a String, &'a RuleValue)>,
) -> BTreeMap<String, TypedValue> {
    let typed = |(name, value): (&String, &RuleValue)| (name.clone(), TypedValue(value.clone()));
    values.into_iter().map(typed).collect()
}

impl CorrelationDocument {
    /// Each property with its place.
    fn system(&mut self) -> [(SystemProperty, &mut Option<String>); 8] {
        [
            (SystemProperty::CorrelationId, &mut self.correlation_id),
            (SystemProperty::MessageId, &mut self.message_id),
            (SystemProperty::To, &mut self.to),
            (SystemProperty::ReplyTo, &mut self.reply_to),
            (SystemProperty::Label, &mut self.label),
            (SystemProperty::SessionId, &mut self.session_id),
            (
                SystemProperty::ReplyToSessionId,
                &mut self.reply_to_session_id,
            ),
            (SystemProperty::ContentType, &mut self.content_type),
        ]
    }
}

impl From<&CorrelationDocument> for CorrelationFilter {
    fn from(document: &CorrelationDocument) -> Self {
        let mut document = document.clone();
        let user = values(&document.properties).into_iter().collect();
        let system = document
            .system()
            .into_iter()
            .filter_map(|(property, text)| Some((property, text.take()?)));
        Self {
            system: system.collect(),
            user,
        }
    }
}

impl From<&CorrelationFilter> for CorrelationDocument {
    fn from(filter: &CorrelationFilter) -> Self {
        let user = filter.user.iter();
        let mut document = Self {
            properties: typed(user.map(|(name, value)| (name, value))),
            ..Self::default()
        };
        for (property, place) in document.system() {
            let mut given = filter.system.iter();
            let found = given.find(|(each, _)| *each == property);
            *place = found.map(|(_, text)| text.clone());
        }
        document
    }
}

impl From<&Rule> for RuleProperties {
    fn from(rule: &Rule) -> Self {
        let sql = |filter: &SqlFilter| SqlDocument {
            sql_expression: filter.text().to_owned(),
            parameters: typed(filter.parameters()),
        };
        let (kind, sql_filter, correlation_filter) = match &rule.filter {
            RuleFilter::All => (FilterType::True, None, None),
            RuleFilter::None => (FilterType::False, None, None),
            RuleFilter::Sql(filter) => (FilterType::Sql, Some(sql(filter)), None),
            RuleFilter::Correlation(filter) => (FilterType::Correlation, None, Some(filter.into())),
        };
        Self {
            filter_type: Some(kind),
            sql_filter,
            correlation_filter,
            action: rule.action.as_ref().map(|action| ActionDocument {
                sql_expression: Some(action.text().to_owned()),
                parameters: typed(action.parameters()),
            }),
        }
    }
}

/// Which filter it is, and whether that and the action can be read.
pub(super) fn judge_rule(it: &mut Judged<'_>) {
    if !it.has("filterType") {
        let kind = match (it.has("sqlFilter"), it.has("correlationFilter")) {
            (true, _) => "SqlFilter",
            (false, true) => "CorrelationFilter",
            (false, false) => "TrueFilter",
        };
        it.object.insert("filterType".to_owned(), kind.into());
    }
    for place in [
        "correlationFilter.properties",
        "sqlFilter.parameters",
        "action.parameters",
    ] {
        judge_values(it, place);
    }
    let document = Value::Object(it.object.clone());
    let Ok(read) = serde_json::from_value::<RuleProperties>(document) else {
        return; // what is wrong is said already
    };
    let filter = read.filter().map(drop);
    for (path, problem) in [filter, read.action().map(drop)]
        .into_iter()
        .filter_map(Result::err)
    {
        it.fault(path, problem);
    }
}

fn judge_values(it: &mut Judged<'_>, place: &str) {
    let pointer = format!("/{}", place.replace('.', "/"));
    let document = Value::Object(it.object.clone());
    let values = document.pointer(&pointer).and_then(Value::as_object);
    for (name, value) in values.into_iter().flatten() {
        if TypedValue::of_json(value).is_none() {
            it.fault(format!("{place}.{name}"), format!("it must be {TYPED}"));
        }
    }
}

/// Reads the body of a PUT.
pub fn parse_rule(name: RuleName, body: &Value) -> Result<Rule, InvalidResource> {
    let read = document::read::<RuleRequest>(body, &Context::NONE)?;
    rule(name, &read)
}

fn rule(name: RuleName, document: &RuleRequest) -> Result<Rule, InvalidResource> {
    let fault = |(path, problem): Fault| InvalidResource::of(path, problem).inside("properties");
    let properties = &document.properties;
    Ok(Rule {
        name,
        filter: properties.filter().map_err(fault)?,
        action: properties.action().map_err(fault)?,
        created_at: None,
    })
}

/// Describes, much as in SQL, the filter of a rule with these `properties`.
pub fn filter_text(properties: &Value) -> String {
    match properties["filterType"].as_str() {
        Some("TrueFilter") => "all messages".to_owned(),
        Some("FalseFilter") => "no messages".to_owned(),
        Some("CorrelationFilter") => {
            let filter = &properties["correlationFilter"];
            let system = filter
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| *name != "properties");
            let user = filter["properties"].as_object().into_iter().flatten();
            let each = system
                .chain(user)
                .map(|(name, value)| format!("{name} = {value}"));
            each.collect::<Vec<_>>().join(" AND ")
        }
        _ => {
            let sql = properties["sqlFilter"]["sqlExpression"].as_str();
            sql.unwrap_or_default().to_owned()
        }
    }
}

/// The form in which the store keeps a rule, without its name.
pub fn rule_to_text(rule: &Rule) -> String {
    document::to_text(&RuleRequest::from(rule))
}

/// Reads what [`rule_to_text`] wrote.
pub fn rule_from_text(name: RuleName, text: &str) -> Result<Rule, InvalidResource> {
    rule(name, &document::from_text(text)?)
}

/// A rule as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ShownServiceBusRule")]
pub(crate) struct ShownRule {
    id: String,
    name: String,
    r#type: &'static str,
    properties: RuleProperties,
}

/// The answer that shows a rule of a subscription.
pub fn render_rule(topic: &TopicEntry, subscription: &EventSubscription, rule: &Rule) -> Value {
    json!(ShownRule {
        id: format!(
            "{}/rules/{}",
            subscription_id(topic, subscription),
            rule.name
        ),
        name: rule.name.as_str().to_owned(),
        r#type: "Microsoft.ServiceBus/namespaces/topics/subscriptions/rules",
        properties: rule.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::queue::EntityUpkeep;
    use crate::model::topic::{TopicId, TopicKind};
    use crate::wire::resource::{topic_from_text, topic_to_text};

    fn parsed(properties: &Value) -> Result<Rule, InvalidResource> {
        let name = RuleName::parse("r").expect("a name");
        parse_rule(name, &json!({ "properties": properties }))
    }

    #[test]
    fn topics_are_kept_as_they_are() {
        let body = json!({ "properties": { "defaultMessageTimeToLive": "P1D" } });
        let topic = parse_service_bus_topic(&body).expect("a topic");
        let expected = ServiceBusTopic {
            sending: SendRules::default(),
            time_to_live: Duration::from_secs(86_400),
            upkeep: EntityUpkeep::default(),
            as_written: topic.as_written.clone(),
        };
        assert_eq!(topic, expected);
        let plain = parse_service_bus_topic(&json!({})).expect("a topic");
        assert_eq!(plain.time_to_live, DURATION_MAX);
        let remembers = json!({ "properties": {
            "requiresDuplicateDetection": true, "duplicateDetectionHistoryTimeWindow": "PT30S",
        } });
        let remembers = parse_service_bus_topic(&remembers).expect("a topic");
        assert!(remembers.sending.detects_duplicates);
        assert_eq!(remembers.sending.duplicate_window, Duration::from_secs(30));
        assert_eq!(
            remembers.sending.fixed_change(&plain.sending),
            Some("requiresDuplicateDetection")
        );
        for topic in [topic, plain, remembers] {
            let stored = TopicKind::ServiceBus(topic);
            let text = topic_to_text(&stored);
            let read = topic_from_text(TopicId(1), stored.name(), &text);
            assert_eq!(read, Ok(stored));
        }
    }

    #[test]
    fn subscriptions_have_azures_defaults() {
        let defaults = parse_service_bus_subscription(&json!({})).expect("a subscription");
        assert_eq!(defaults.deliveries_max, 10);
        assert_eq!(defaults.pull.lock_duration, Duration::from_secs(60));
        assert!(defaults.pull.keeps_unevaluated && !defaults.pull.receiving.keeps_expired);
        let body = json!({ "properties": {
            "lockDuration": "PT30S", "maxDeliveryCount": 3, "defaultMessageTimeToLive": "P1D",
            "deadLetteringOnMessageExpiration": true,
            "deadLetteringOnFilterEvaluationExceptions": false, "requiresSession": true,
            "forwardDeadLetteredMessagesTo": "graves", "status": "ReceiveDisabled",
        } });
        let parsed = parse_service_bus_subscription(&body).expect("a subscription");
        let shown = ServiceBusSubscriptionProperties::from(&parsed);
        assert_eq!(json!({ "properties": shown }), body);
    }

    #[test]
    fn rules_are_read_kept_and_shown() {
        for properties in [
            json!({ "filterType": "TrueFilter" }),
            json!({ "filterType": "FalseFilter" }),
            json!({ "filterType": "SqlFilter", "sqlFilter": {
                "sqlExpression": "total > @least", "parameters": { "least": 7 } } }),
            json!({ "filterType": "CorrelationFilter", "correlationFilter": {
                "label": "paid", "sessionId": "s", "properties": {
                    "n": 7, "big": u64::MAX, "half": 0.5, "one": 1.0, "text": "x", "yes": true,
                    "at": { "timestamp": "2026-11-25T10:00:00.0000001Z" },
                    "there": { "timestamp": "2026-11-25T10:00:00" },
                    "long": { "duration": "P1DT2H3M" }, "ago": { "duration": "-PT0.0000001S" },
                    "id": { "uuid": "00000000-0000-0000-0000-000000000007" },
                    "raw": { "binary": "AAE=" }, "int": { "int": 7 }, "octet": { "ubyte": 255 },
                    "ulong": { "ulong": 7 }, "price": { "decimal": "12.50" }, "tenth": { "float": 0.5 } } },
                "action": { "sqlExpression": "SET a = @x", "parameters": { "x": "y" } } }),
        ] {
            let rule = parsed(&properties).unwrap_or_else(|error| panic!("{properties}: {error}"));
            let text = rule_to_text(&rule);
            assert_eq!(rule_from_text(rule.name.clone(), &text), Ok(rule.clone()));
            let shown = serde_json::to_value(RuleProperties::from(&rule)).expect("JSON");
            for (name, expected) in [
                ("at/timestamp", "2026-11-25T10:00:00.0000001Z"),
                ("price/decimal", "12.50"),
                ("there/timestamp", "2026-11-25T10:00:00.000"),
                ("long/duration", "P1DT2H3M"),
                ("ago/duration", "-PT0.0000001S"),
            ] {
                let at = format!("/correlationFilter/properties/{name}");
                let expected = properties.pointer(&at).map(|_| json!(expected));
                assert_eq!(shown.pointer(&at), expected.as_ref());
            }
            for name in ["int/int", "octet/ubyte", "ulong/ulong", "tenth/float"] {
                let at = format!("/correlationFilter/properties/{name}");
                assert_eq!(shown.pointer(&at), properties.pointer(&at), "{name}");
            }
            let same = |value: &Value| parsed(value).expect("a rule");
            assert_eq!(same(&shown), rule);
        }
    }

    #[test]
    fn the_kind_of_a_filter_can_be_left_out() {
        for (properties, kind) in [
            (json!({}), "TrueFilter"),
            (json!({ "action": {} }), "TrueFilter"),
            (
                json!({ "sqlFilter": { "sqlExpression": "1=1" } }),
                "SqlFilter",
            ),
            (
                json!({ "correlationFilter": { "to": "x" } }),
                "CorrelationFilter",
            ),
        ] {
            let rule = parsed(&properties).expect("a rule");
            let shown = serde_json::to_value(RuleProperties::from(&rule)).expect("JSON");
            assert_eq!(shown["filterType"], kind);
            assert_eq!(rule.action, None);
        }
    }

    #[test]
    fn faults_of_rules_say_where_they_are() {
        for (properties, path, problem) in [
            (
                json!({ "sqlFilter": { "sqlExpression": "a = " } }),
                "sqlFilter.sqlExpression",
                "column 5: expected a property or a value, found the end",
            ),
            (
                json!({ "action": { "sqlExpression": "DROP x" } }),
                "action.sqlExpression",
                "column 1: expected SET or REMOVE, found DROP",
            ),
            (
                json!({ "filterType": "SqlFilter" }),
                "sqlFilter",
                "it is missing; it must be an object",
            ),
            (
                json!({ "filterType": "CorrelationFilter", "correlationFilter": {} }),
                "correlationFilter",
                "it compares nothing",
            ),
            (
                json!({ "correlationFilter": { "properties": { "n": [1] } } }),
                "correlationFilter.properties.n",
                TYPED,
            ),
            // A float has no such number, and would be infinite.
            (
                json!({ "correlationFilter": { "properties": { "n": { "float": 1e39 } } } }),
                "correlationFilter.properties.n",
                TYPED,
            ),
            (
                json!({ "sqlFilter": { "sqlExpression": "a = @n", "parameters": { "n": { "float": -1e39 } } } }),
                "sqlFilter.parameters.n",
                TYPED,
            ),
        ] {
            let rejected = parsed(&properties).expect_err("a fault");
            let first = rejected.first();
            assert_eq!(first.path, format!("properties.{path}"), "{properties}");
            assert!(first.problem.contains(problem), "{first}");
        }
    }
}
