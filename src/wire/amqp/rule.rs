//! Rules in requests to `$management` and their replies (rule S10.8).

use std::collections::BTreeMap;

use crate::model::name::RuleName;
use crate::model::rule::{
    CorrelationFilter, Parameters, PropertyValue, Rule, RuleFilter, RuleValue, SqlAction, SqlError,
    SqlFilter, SystemProperty,
};
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::condition::ARGUMENT_ERROR;
use crate::wire::amqp::value::{FromValue, Map, Value, get};

// Those of filters have a digit less.
const RULE: u64 = 0x0137_0000_0004;
const EMPTY_ACTION: u64 = 0x0137_0000_0005;
const SQL_ACTION: u64 = 0x0137_0000_0006;
const SQL_FILTER: u64 = 0x0013_7000_0006;
const TRUE_FILTER: u64 = 0x0013_7000_0007;
const FALSE_FILTER: u64 = 0x0013_7000_0008;
const CORRELATION_FILTER: u64 = 0x0013_7000_0009;

/// The properties that correlation filters compare, by their names in requests and in the order of replies.
const COMPARED: [(&str, SystemProperty); 8] = [
    ("correlation-id", SystemProperty::CorrelationId),
    ("message-id", SystemProperty::MessageId),
    ("to", SystemProperty::To),
    ("reply-to", SystemProperty::ReplyTo),
    ("label", SystemProperty::Label),
    ("session-id", SystemProperty::SessionId),
    ("reply-to-session-id", SystemProperty::ReplyToSessionId),
    ("content-type", SystemProperty::ContentType),
];

/// Reads the rule that a request describes.
pub(super) fn parse(name: &str, description: &Map) -> Result<Rule, AmqpError> {
    let name = RuleName::parse(name).map_err(|error| bad(error.to_string()))?;
    Ok(Rule {
        name,
        filter: filter(description)?,
        action: action(description)?,
        created_at: None,
    })
}

fn filter(description: &Map) -> Result<RuleFilter, AmqpError> {
    let sql: Option<Map> = optional(description, "sql-filter")?;
    let correlation: Option<Map> = optional(description, "correlation-filter")?;
    match (sql, correlation) {
        (Some(_), Some(_)) => Err(bad(
            "a rule has a sql-filter or a correlation-filter, not both",
        )),
        (None, None) => Ok(RuleFilter::All),
        (None, Some(given)) => correlation_filter(&given).map(RuleFilter::Correlation),
        (Some(sql), None) => {
            let text =
                expression(&sql)?.ok_or_else(|| bad("the sql-filter needs an expression"))?;
            let filter = SqlFilter::parse(&text, Parameters::new());
            filter
                .map(RuleFilter::Sql)
                .map_err(|error| unreadable("sql-filter", &error))
        }
    }
}

fn correlation_filter(given: &Map) -> Result<CorrelationFilter, AmqpError> {
    let mut filter = CorrelationFilter::default();
    for (name, property) in COMPARED {
        let text: Option<String> = optional(given, name)?;
        filter.system.extend(text.map(|text| (property, text)));
    }
    let properties: Option<Map> = optional(given, "properties")?;
    let mut user = BTreeMap::new();
    for (key, value) in properties.iter().flatten() {
        let name = key
            .as_text()
            .ok_or_else(|| bad("the names of properties must be texts"))?;
        let value = RuleValue::new(PropertyValue::from(value))
            .map_err(|error| bad(format!("the value of the property {name:?}: {error}")))?;
        if user.insert(name.to_owned(), value).is_some() {
            return Err(bad(format!("the property {name:?} is there twice")));
        }
    }
    filter.user = user.into_iter().collect();
    if filter.is_empty() {
        Err(bad("the correlation-filter compares nothing"))
    } else {
        Ok(filter)
    }
}

fn action(description: &Map) -> Result<Option<SqlAction>, AmqpError> {
    let Some(action) = optional::<Map>(description, "sql-rule-action")? else {
        return Ok(None);
    };
    let Some(text) = expression(&action)? else {
        return Ok(None);
    };
    let action = SqlAction::parse(&text, Parameters::new());
    action
        .map(Some)
        .map_err(|error| unreadable("sql-rule-action", &error))
}

fn expression(map: &Map) -> Result<Option<String>, AmqpError> {
    optional(map, "expression")
}

fn optional<T: FromValue>(map: &Map, name: &str) -> Result<Option<T>, AmqpError> {
    match get(map, name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::from_value(value.clone())
            .map(Some)
            .ok_or_else(|| bad(format!("{name} must be {}", T::KIND))),
    }
}

fn unreadable(what: &str, error: &SqlError) -> AmqpError {
    bad(format!("the {what} cannot be read: {error}"))
}

fn bad(problem: impl Into<String>) -> AmqpError {
    AmqpError::new(ARGUMENT_ERROR, problem)
}

/// The rule as replies describe it.
pub(super) fn described(rule: &Rule) -> Value {
    let filter = match &rule.filter {
        RuleFilter::All => Value::composite(TRUE_FILTER, Vec::new()),
        RuleFilter::None => Value::composite(FALSE_FILTER, Vec::new()),
        RuleFilter::Sql(filter) => Value::composite(SQL_FILTER, vec![filter.text().into()]),
        RuleFilter::Correlation(filter) => described_correlation(filter),
    };
    let action = match &rule.action {
        None => Value::composite(EMPTY_ACTION, Vec::new()),
        Some(action) => Value::composite(SQL_ACTION, vec![action.text().into()]),
    };
    Value::composite(RULE, vec![filter, action, rule.name.as_str().into()])
}

fn described_correlation(filter: &CorrelationFilter) -> Value {
    let text = |property| {
        let mut given = filter.system.iter();
        let found = given.find(|(each, _)| *each == property);
        Value::from(found.map(|(_, text)| text.as_str()))
    };
    let mut fields: Vec<Value> = COMPARED
        .iter()
        .map(|(_, property)| text(*property))
        .collect();
    if !filter.user.is_empty() {
        let pairs = filter
            .user
            .iter()
            .map(|(name, value)| (name.as_str().into(), value.as_value().into()));
        fields.push(Value::Map(pairs.collect()));
    }
    Value::composite(CORRELATION_FILTER, fields)
}
