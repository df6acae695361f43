//! Rules in requests and replies (rule S10.8).

use crate::model::rule::sql::Parameters;
use crate::model::rule::{
    CorrelationFilter, Rule, RuleFilter, SqlAction, SqlFilter, SystemProperty,
};
use crate::wire::amqp::condition::{ARGUMENT_ERROR, AmqpError};
use crate::wire::amqp::property::{from_wire, to_wire};
use crate::wire::amqp::value::{Map, Value, get};

const RULE_CODE: u64 = 0x0000_0137_0000_0004;
const EMPTY_ACTION_CODE: u64 = 0x0000_0137_0000_0005;
/// Of filters and of actions alike.
const SQL_CODE: u64 = 0x0000_0137_0000_0006;
const TRUE_CODE: u64 = 0x0000_0137_0000_0007;
const FALSE_CODE: u64 = 0x0000_0137_0000_0008;
const CORRELATION_CODE: u64 = 0x0000_0137_0000_0009;

/// The version of the SQL dialect that Service Bus tells.
const COMPATIBILITY_LEVEL: i32 = 20;

/// The fields of a correlation filter: in a map by name, in a list in this order.
const FIELDS: [(&str, SystemProperty); 8] = [
    ("correlation-id", SystemProperty::CorrelationId),
    ("message-id", SystemProperty::MessageId),
    ("to", SystemProperty::To),
    ("reply-to", SystemProperty::ReplyTo),
    ("label", SystemProperty::Label),
    ("session-id", SystemProperty::SessionId),
    ("reply-to-session-id", SystemProperty::ReplyToSessionId),
    ("content-type", SystemProperty::ContentType),
];

/// The rule `name` that a request describes.
pub fn parse(name: &str, description: &Map) -> Result<Rule, AmqpError> {
    let map = |key: &str| match get(description, key) {
        Some(Value::Map(map)) => Ok(Some(map)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(bad(format!("{key} of the rule must be a map"))),
    };
    let filter = match (map("sql-filter")?, map("correlation-filter")?) {
        (Some(_), Some(_)) => {
            return Err(bad(
                "a rule has a sql-filter or a correlation-filter, not both",
            ));
        }
        (Some(sql), None) => RuleFilter::Sql(sql_filter(expression(sql, "sql-filter")?)?),
        (None, Some(fields)) => RuleFilter::Correlation(correlation(fields)?),
        (None, None) => RuleFilter::All,
    };
    let action = match map("sql-rule-action")? {
        Some(sql) => {
            let text = expression(sql, "sql-rule-action")?;
            let action = SqlAction::parse(text, Parameters::new());
            Some(action.map_err(|error| bad(format!("the action of the rule: {error}")))?)
        }
        None => None,
    };
    let name = name.to_owned();
    Ok(Rule {
        name,
        filter,
        action,
    })
}

/// The rule as a reply describes it.
pub fn describe(rule: &Rule) -> Value {
    let filter = match &rule.filter {
        RuleFilter::All => Value::composite(TRUE_CODE, Vec::new()),
        RuleFilter::None => Value::composite(FALSE_CODE, Vec::new()),
        RuleFilter::Sql(sql) => sql_list(sql.text()),
        RuleFilter::Correlation(filter) => correlation_list(filter),
    };
    let action = match &rule.action {
        Some(action) => sql_list(action.text()),
        None => Value::composite(EMPTY_ACTION_CODE, Vec::new()),
    };
    let fields = vec![filter, action, rule.name.as_str().into()];
    Value::composite(RULE_CODE, fields)
}

fn sql_list(text: &str) -> Value {
    Value::composite(SQL_CODE, vec![text.into(), COMPATIBILITY_LEVEL.into()])
}

fn correlation_list(filter: &CorrelationFilter) -> Value {
    let field = |(_, property): (&str, SystemProperty)| {
        let mut given = filter.system.iter();
        let given = given.find(|(each, _)| *each == property);
        Value::from(given.map(|(_, text)| text.as_str()))
    };
    let mut fields: Vec<Value> = FIELDS.map(field).into();
    let user = filter.user.iter();
    let user = user.map(|(name, value)| (name.as_str().into(), to_wire(value)));
    fields.push(Value::Map(user.collect()));
    Value::composite(CORRELATION_CODE, fields)
}

fn expression<'a>(map: &'a Map, of: &str) -> Result<&'a str, AmqpError> {
    let text = get(map, "expression").and_then(Value::as_text);
    text.ok_or_else(|| bad(format!("{of} of the rule needs an expression, a string")))
}

fn sql_filter(text: &str) -> Result<SqlFilter, AmqpError> {
    let filter = SqlFilter::parse(text, Parameters::new());
    filter.map_err(|error| bad(format!("the filter of the rule: {error}")))
}

fn correlation(fields: &Map) -> Result<CorrelationFilter, AmqpError> {
    let given = |(name, property): (&str, SystemProperty)| {
        let text = get(fields, name)?.as_text()?;
        Some((property, text.to_owned()))
    };
    let user = match get(fields, "properties") {
        Some(Value::Map(properties)) => properties.as_slice(),
        Some(_) | None => &[],
    };
    let user = user
        .iter()
        .filter_map(|(name, value)| Some((name.as_text()?.to_owned(), from_wire(value))));
    let filter = CorrelationFilter {
        system: FIELDS.into_iter().filter_map(given).collect(),
        user: user.collect(),
    };
    match filter.is_empty() {
        true => Err(bad("the correlation-filter of the rule compares nothing")),
        false => Ok(filter),
    }
}

fn bad(problem: impl Into<String>) -> AmqpError {
    AmqpError::new(ARGUMENT_ERROR, problem)
}
