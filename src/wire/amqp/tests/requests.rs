//! Requests to `$cbs` and `$management`, and what they are answered.

use std::sync::Arc;

use super::super::cbs::{self, PutToken, TokenKind};
use super::super::condition::{ARGUMENT_ERROR, MESSAGE_LOCK_LOST, NOT_IMPLEMENTED};
use super::super::management::{self, EntityOperation, ManagementReply, NamedSession};
use super::super::message::{Message, MessageProperties};
use super::super::outcome::{Changes, DeadLettering, ReceiverOutcome};
use super::*;
use crate::base::Timestamp;
use crate::model::name::RuleName;
use crate::model::rule::{
    CorrelationFilter, Parameters, PropertyValue, Rule, RuleFilter, RuleValue, SqlAction,
    SqlFilter, SystemProperty,
};
use crate::model::shared_access::Right;
use crate::wire::resource::{rule_from_text, rule_to_text};

fn request(operation: &str, body: Map) -> Result<EntityOperation, AmqpError> {
    let properties = vec![
        (
            "operation".into(),
            format!("com.microsoft:{operation}").into(),
        ),
        ("com.microsoft:server-timeout".into(), Value::Uint(5_000)),
        ("associated-link-name".into(), "link".into()),
    ];
    let message = Message::of(&MessageProperties::default(), properties, Value::Map(body));
    EntityOperation::parse(&Message::parse(&message.to_bytes().into()).expect("a message"))
}

fn entry(name: &str, value: impl Into<Value>) -> (Value, Value) {
    (name.into(), value.into())
}

/// A session that is named by its id or else by the link `link`.
fn of_link(id: Option<&str>) -> NamedSession {
    NamedSession {
        id: id.map(str::to_owned),
        link: Some("link".to_owned()),
    }
}

#[test]
fn requests_are_typed() {
    let token = Uuid::from_u128(7);
    let tokens = || {
        entry(
            "lock-tokens",
            Value::array(ElementType::UUID, vec![Value::Uuid(token)]),
        )
    };
    let numbers = || {
        entry(
            "sequence-numbers",
            Value::array(ElementType::LONG, vec![Value::Long(1), Value::Long(2)]),
        )
    };
    let encoded = hex("00 53 77 a1 01 61");
    let message = Message::parse(&encoded).expect("a message");
    let messages = Value::List(vec![Value::Map(vec![
        entry("message-id", "1"),
        entry("message", encoded.clone()),
    ])]);
    let settle = |outcome| EntityOperation::Settle {
        tokens: vec![token],
        outcome,
    };
    let status = |status: &str| entry("disposition-status", status);
    let changes = Map::from([entry("a", Value::Int(1))]);
    let changed: Changes = Arc::new([("a".to_owned(), Value::Int(1))]);
    let dead = ReceiverOutcome::DeadLetter(Arc::new(DeadLettering {
        reason: Some("r".to_owned()),
        description: None,
        properties: changed.clone(),
    }));
    for (operation, body, expected, right) in [
        (
            "renew-lock",
            vec![tokens()],
            EntityOperation::RenewLocks(vec![token]),
            Right::Listen,
        ),
        (
            "peek-message",
            vec![
                entry("from-sequence-number", 5i64),
                entry("message-count", 2i32),
            ],
            EntityOperation::Peek {
                from: 5,
                count: 2,
                session: of_link(None),
                omit_body: false,
            },
            Right::Listen,
        ),
        (
            "receive-by-sequence-number",
            vec![
                numbers(),
                entry("receiver-settle-mode", 1u32),
                entry("session-id", "s"),
            ],
            EntityOperation::ReceiveNumbers {
                numbers: vec![1, 2],
                lock: true,
                session: of_link(Some("s")),
            },
            Right::Listen,
        ),
        (
            "receive-by-sequence-number",
            vec![numbers(), entry("receiver-settle-mode", 0u8)],
            EntityOperation::ReceiveNumbers {
                numbers: vec![1, 2],
                lock: false,
                session: of_link(None),
            },
            Right::Listen,
        ),
        (
            "update-disposition",
            vec![tokens(), status("completed")],
            settle(ReceiverOutcome::Complete),
            Right::Listen,
        ),
        (
            "update-disposition",
            vec![
                entry(
                    "lock-tokens",
                    Value::array(ElementType::UUID, vec![Value::Uuid(token); 2]),
                ),
                status("completed"),
            ],
            settle(ReceiverOutcome::Complete),
            Right::Listen,
        ),
        (
            "update-disposition",
            vec![
                tokens(),
                status("abandoned"),
                entry("properties-to-modify", changes.clone()),
            ],
            settle(ReceiverOutcome::Abandon(changed.clone())),
            Right::Listen,
        ),
        (
            "update-disposition",
            vec![tokens(), status("defered")],
            settle(ReceiverOutcome::Defer(Changes::default())),
            Right::Listen,
        ),
        (
            "update-disposition",
            vec![
                tokens(),
                status("suspended"),
                entry("deadletter-reason", "r"),
                entry("properties-to-modify", changes),
            ],
            settle(dead),
            Right::Listen,
        ),
        (
            "schedule-message",
            vec![entry("messages", messages)],
            EntityOperation::Schedule(vec![message]),
            Right::Send,
        ),
        (
            "cancel-scheduled-message",
            vec![numbers()],
            EntityOperation::CancelScheduled(vec![1, 2]),
            Right::Send,
        ),
    ] {
        let found = request(operation, body).expect(operation);
        assert_eq!(found, expected);
        assert_eq!(found.right(), right, "{operation}");
    }
}

#[test]
fn requests_about_sessions_are_typed() {
    let session = || entry("session-id", "s");
    let listed = |since, expected| {
        let body = vec![
            entry("last-updated-time", since),
            entry("skip", 1i32),
            entry("top", 2i32),
        ];
        let sessions = EntityOperation::Sessions {
            state_set_since: expected,
            skip: 1,
            top: 2,
        };
        ("get-message-sessions", body, sessions)
    };
    for (operation, body, expected) in [
        (
            "renew-session-lock",
            vec![session()],
            EntityOperation::RenewSession("s".to_owned()),
        ),
        (
            "get-session-state",
            vec![session()],
            EntityOperation::SessionState("s".to_owned()),
        ),
        (
            "set-session-state",
            vec![session(), entry("session-state", Value::Null)],
            EntityOperation::SetSessionState {
                session: "s".to_owned(),
                state: None,
            },
        ),
        listed(Value::Timestamp(9), Some(Timestamp::from_ms(9))),
        // What clients make of the last moment that .NET knows stands for no moment.
        listed(Value::Timestamp(253_402_300_800_000), None),
    ] {
        let found = request(operation, body).expect(operation);
        assert_eq!(found, expected);
        assert_eq!(found.right(), Right::Listen, "{operation}");
    }
}

#[test]
fn wrong_requests_name_what_is_wrong() {
    for (operation, body, condition, problem) in [
        (
            "fly",
            vec![],
            NOT_IMPLEMENTED,
            "com.microsoft:fly is no operation of $management",
        ),
        (
            "renew-lock",
            vec![],
            ARGUMENT_ERROR,
            "the request needs lock-tokens",
        ),
        (
            "renew-lock",
            vec![entry(
                "lock-tokens",
                Value::array(ElementType::STRING, vec!["x".into()]),
            )],
            ARGUMENT_ERROR,
            "lock-tokens must hold a UUID each",
        ),
        (
            "peek-message",
            vec![entry("from-sequence-number", "x")],
            ARGUMENT_ERROR,
            "from-sequence-number must be a signed number of 64 bits",
        ),
        (
            "peek-message",
            vec![
                entry("from-sequence-number", 1i64),
                entry("message-count", -1i32),
            ],
            ARGUMENT_ERROR,
            "message-count must be a number of 32 bits",
        ),
        (
            "renew-lock",
            vec![entry(
                "lock-tokens",
                Value::array(ElementType::UUID, vec![Value::Uuid(Uuid::nil()); 4_501]),
            )],
            ARGUMENT_ERROR,
            "lock-tokens has 4501 items; at most 4500",
        ),
    ] {
        let error = request(operation, body).expect_err(operation);
        assert_eq!(
            (error.condition.as_ref(), error.description.as_str()),
            (condition, problem)
        );
    }
}

fn rule(name: &str, filter: RuleFilter, action: Option<&str>) -> Rule {
    let action = action.map(|text| SqlAction::parse(text, Parameters::new()));
    Rule {
        name: RuleName::parse(name).expect("a name"),
        filter,
        action: action.map(|action| action.expect("an action")),
        created_at: None,
    }
}

fn sql(text: &str) -> RuleFilter {
    RuleFilter::Sql(SqlFilter::parse(text, Parameters::new()).expect("a filter"))
}

fn paid() -> RuleFilter {
    RuleFilter::Correlation(CorrelationFilter {
        system: vec![(SystemProperty::Label, "paid".to_owned())],
        user: vec![(
            "n".to_owned(),
            RuleValue::new(PropertyValue::long(7)).expect("a number"),
        )],
    })
}

fn add_rule(description: Map) -> Result<EntityOperation, AmqpError> {
    request(
        "add-rule",
        vec![
            entry("rule-name", "r"),
            entry("rule-description", Value::Map(description)),
        ],
    )
}

#[test]
fn requests_about_rules_are_typed() {
    let expression = |text: &str| Value::Map(vec![entry("expression", text)]);
    let correlation = Value::Map(vec![
        entry("correlation-id", Value::Null),
        entry("label", "paid"),
        entry("properties", Value::Map(vec![entry("n", Value::Long(7))])),
    ]);
    for (description, filter, action) in [
        (vec![], RuleFilter::All, None),
        (
            vec![
                entry("sql-filter", expression("n = 7")),
                entry("sql-rule-action", expression("SET a = 1")),
            ],
            sql("n = 7"),
            Some("SET a = 1"),
        ),
        (vec![entry("correlation-filter", correlation)], paid(), None),
    ] {
        let found = add_rule(description).expect("a request");
        assert_eq!(found.right(), Right::Listen);
        let expected = rule("r", filter, action);
        assert_eq!(found, EntityOperation::AddRule(Box::new(expected)));
    }
    let removed = request("remove-rule", vec![entry("rule-name", "r")]);
    assert_eq!(removed, Ok(EntityOperation::RemoveRule("r".to_owned())));
    let all = vec![entry("skip", 2i32), entry("top", i32::MAX)];
    let listed = EntityOperation::Rules { skip: 2, top: 100 };
    assert_eq!(request("enumerate-rules", all), Ok(listed));
    let of = |text: &str| vec![entry("sql-filter", expression(text))];
    for (description, problem) in [
        (
            of("n ="),
            "the sql-filter cannot be read: column 4: expected a property or a value, found the end",
        ),
        (
            vec![entry("correlation-filter", Value::Map(vec![]))],
            "the correlation-filter compares nothing",
        ),
        (
            vec![entry("sql-filter", Value::Map(vec![]))],
            "the sql-filter needs an expression",
        ),
        (vec![entry("sql-filter", "1=1")], "sql-filter must be a map"),
    ] {
        let error = add_rule(description).expect_err(problem);
        assert_eq!(
            (error.condition.as_ref(), error.description.as_str()),
            (ARGUMENT_ERROR, problem)
        );
    }
}

#[test]
fn rules_name_what_can_be_stored() {
    let of = |properties: Map| {
        let correlation = Value::Map(vec![entry("properties", Value::Map(properties))]);
        add_rule(vec![entry("correlation-filter", correlation)])
    };
    for value in [
        Value::Double(f64::MAX),
        Value::Float(f32::MIN_POSITIVE),
        Value::Ulong(u64::MAX),
        Value::Long(i64::MIN),
        Value::Timestamp(253_402_300_799_999),
        Value::Timestamp(-62_167_219_200_000),
        // It is written with more digits than it has.
        Value::Decimal(hex("308c0000000000000000000000000001")),
        Value::Char(0xfffe),
        Value::Binary(vec![0, 255].into()),
    ] {
        let Ok(EntityOperation::AddRule(added)) = of(vec![entry("p", value.clone())]) else {
            panic!("{value:?} is taken");
        };
        let text = rule_to_text(&added);
        let again = rule_from_text(added.name.clone(), &text);
        let again = again.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(rule_to_text(&again), text);
    }
    for (value, problem) in [
        (Value::Double(f64::NAN), "it must be a finite number"),
        (
            Value::Double(f64::NEG_INFINITY),
            "it must be a finite number",
        ),
        (Value::Float(f32::INFINITY), "it must be a finite number"),
        (
            Value::Timestamp(i64::MAX),
            "it must lie in the years 0 to 9999",
        ),
        (
            Value::Timestamp(253_402_300_800_000),
            "it must lie in the years 0 to 9999",
        ),
        (Value::Null, "nothing is equal to it"),
    ] {
        let error = of(vec![entry("p", value)]).expect_err(problem);
        assert_eq!(
            error.description,
            format!("the value of the property \"p\": {problem}")
        );
    }
    let twice = of(vec![entry("p", 1i32), entry("p", 2i32)]).expect_err("twice");
    assert_eq!(twice.description, "the property \"p\" is there twice");
}

#[test]
fn rules_are_described_by_their_codes() {
    let described = |rules: Vec<Rule>| {
        let (properties, body) = answered(&Ok(ManagementReply::Rules(rules)));
        let status = super::super::value::get(&properties, "statusCode").cloned();
        (status, format!("{body:?}"))
    };
    for (filter, action, codes) in [
        (RuleFilter::All, None, ["83483426823", "1335734829061"]),
        (RuleFilter::None, None, ["83483426824", "1335734829061"]),
        (
            sql("n = 7"),
            Some("SET a = 1"),
            ["83483426822", "1335734829062"],
        ),
        (paid(), None, ["83483426825", "1335734829061"]),
    ] {
        let (status, body) = described(vec![rule("large", filter, action)]);
        assert_eq!(status, Some(Value::Int(200)));
        for part in codes
            .into_iter()
            .chain(["1335734829060", "String(\"large\")"])
        {
            assert!(body.contains(part), "{part} in {body}");
        }
    }
    let (status, _) = described(Vec::new());
    assert_eq!(status, Some(Value::Int(204)));
}

fn answered(answer: &Result<ManagementReply, AmqpError>) -> (Map, Map) {
    let id = Value::Uuid(Uuid::from_u128(5));
    let bytes = management::reply(Some(id.clone()), answer);
    let message = Message::parse(&bytes.into()).expect("a message");
    let properties = message.properties().expect("properties");
    assert_eq!(properties.correlation_id, Some(id), "the id keeps its type");
    let Ok(Some(Value::Map(body))) = message.body_value() else {
        panic!("the body is a map");
    };
    (message.application_properties().expect("properties"), body)
}

#[test]
fn replies_have_their_status_and_body() {
    let moment = Timestamp::from_ms(9);
    let message = hex("00 53 77 a1 01 61");
    let token = Uuid::from_u128(7);
    for (reply, status, body) in [
        (ManagementReply::Done, 200, "[]"),
        (
            ManagementReply::LocksRenewed(vec![moment]),
            200,
            "expirations\"), Array(Array { descriptors: [], element: ElementType(131), values: [Timestamp(9)] })",
        ),
        (ManagementReply::Peeked(vec![]), 204, "messages"),
        (
            ManagementReply::Peeked(vec![message.clone()]),
            200,
            "(String(\"message\"), Binary(",
        ),
        (
            ManagementReply::Received(vec![(token, message)]),
            200,
            "(String(\"lock-token\"), Uuid(",
        ),
        (
            ManagementReply::Scheduled(vec![4, 5]),
            200,
            "sequence-numbers\"), Array(Array { descriptors: [], element: ElementType(129), values: [Long(4), Long(5)] })",
        ),
        (
            ManagementReply::SessionRenewed(moment),
            200,
            "expiration\"), Timestamp(9)",
        ),
        (
            ManagementReply::SessionState(None),
            200,
            "session-state\"), Null",
        ),
        (
            ManagementReply::SessionState(Some(hex("07"))),
            200,
            "session-state\"), Binary(",
        ),
        (
            ManagementReply::Sessions {
                skip: 2,
                names: vec!["s".to_owned()],
            },
            200,
            "sessions-ids\"), Array(Array { descriptors: [], element: ElementType(177), values: [String(\"s\")] })",
        ),
        (
            ManagementReply::Sessions {
                skip: 2,
                names: vec![],
            },
            204,
            "skip\"), Int(2)",
        ),
    ] {
        let (properties, found) = answered(&Ok(reply.clone()));
        let code = super::super::value::get(&properties, "statusCode");
        assert_eq!(code, Some(&Value::Int(status)), "{reply:?}");
        assert!(format!("{found:?}").contains(body), "{found:?}");
    }
    let error = AmqpError::new(MESSAGE_LOCK_LOST, "lost");
    let (properties, _) = answered(&Err(error));
    let expected: Map = vec![
        entry("statusCode", Value::Int(410)),
        entry("statusDescription", "lost"),
        entry("errorCondition", Value::symbol(MESSAGE_LOCK_LOST)),
    ];
    assert_eq!(properties, expected);
}

#[test]
fn tokens_are_shown() {
    let put = |properties: Vec<(Value, Value)>, body: Value| {
        let message = Message::of(&MessageProperties::default(), properties, body);
        PutToken::parse(&message)
    };
    let properties = |kind: &str| {
        vec![
            entry("operation", "put-token"),
            entry("type", kind),
            entry("name", "sb://h/q"),
        ]
    };
    for (kind, token, expected) in [
        (
            "servicebus.windows.net:sastoken",
            "sr=…",
            TokenKind::SharedAccessSignature,
        ),
        // As Python's client writes it.
        (
            "jwt",
            "SharedAccessSignature sr=…",
            TokenKind::SharedAccessSignature,
        ),
        ("jwt", "eyJ…", TokenKind::Other("jwt".to_owned())),
    ] {
        let request = put(properties(kind), token.into()).expect("a request");
        assert_eq!(
            (request.kind, request.audience.as_str()),
            (expected, "sb://h/q")
        );
        assert_eq!(request.token.reveal(), token);
    }
    for (properties, body) in [
        (vec![entry("operation", "delete-token")], Value::from("t")),
        (properties("jwt"), Value::Null),
        (properties("jwt").split_off(1), "t".into()),
    ] {
        let error = put(properties, body).expect_err("no request");
        assert_eq!(error.condition, ARGUMENT_ERROR);
    }
    let id = Value::from("7");
    let reply = Message::parse(&cbs::reply(Some(id.clone()), 401, "no").into()).expect("a message");
    assert_eq!(
        reply.properties().expect("properties").correlation_id,
        Some(id)
    );
    let expected: Map = vec![
        entry("status-code", Value::Int(401)),
        entry("status-description", "no"),
    ];
    assert_eq!(reply.application_properties(), Ok(expected));
}
