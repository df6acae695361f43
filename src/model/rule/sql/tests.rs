//! The language against tables, and against what must hold for any text.

use proptest::prelude::*;
use uuid::Uuid;

use super::evaluate::Evaluation;
use super::expression::{Arithmetic, ComparisonOperator, Expression, Like};
use super::like::like;
use super::*;
use crate::base::Timestamp;
use crate::model::rule::decimal::DecimalNumber;
use crate::model::rule::message::{PropertyScope, SystemProperty};
use crate::model::rule::property::{IntegerType, PropertyValue};

/// A message of these properties.
#[derive(Clone, Debug, Default)]
pub(in crate::model::rule) struct Sample {
    system: Vec<(SystemProperty, PropertyValue)>,
    user: Vec<(String, PropertyValue)>,
}

impl Sample {
    pub(in crate::model::rule) fn new() -> Self {
        Self::default()
    }

    pub(in crate::model::rule) fn system(
        mut self,
        property: SystemProperty,
        value: PropertyValue,
    ) -> Self {
        self.system.push((property, value));
        self
    }

    pub(in crate::model::rule) fn user(mut self, name: &str, value: PropertyValue) -> Self {
        self.user.push((name.to_owned(), value));
        self
    }
}

impl MessageView for Sample {
    fn system(&self, property: SystemProperty) -> Option<PropertyValue> {
        let mut found = self.system.iter();
        let found = found.find(|(each, _)| *each == property)?;
        Some(found.1.clone())
    }

    fn user(&self, name: &str) -> Option<PropertyValue> {
        let mut found = self.user.iter();
        let found = found.find(|(each, _)| each.to_lowercase() == name.to_lowercase())?;
        Some(found.1.clone())
    }

    fn user_properties(&self) -> Vec<(String, PropertyValue)> {
        self.user.clone()
    }
}

fn text(text: &str) -> PropertyValue {
    PropertyValue::Text(text.to_owned())
}

fn sample() -> Sample {
    Sample::new()
        .system(SystemProperty::Label, text("Paid"))
        .system(SystemProperty::DeliveryCount, PropertyValue::long(2))
        .user("color", text("red"))
        .user("quantity", PropertyValue::Integer(IntegerType::Int, 7))
        .user("price", PropertyValue::Double(2.5))
        .user(
            "total",
            PropertyValue::Decimal(DecimalNumber::new(1_250, -2)),
        )
        .user("urgent", PropertyValue::Bool(true))
        .user("nothing", PropertyValue::Null)
        .user("größe", text("XL"))
        .user("a]b", text("bracket"))
        .user("set", text("keyword"))
        .user(
            "at",
            PropertyValue::Timestamp(Timestamp::from_ms(1_000).into()),
        )
        .user(
            "wall",
            PropertyValue::ZonelessTime(Timestamp::from_ms(1_000).into()),
        )
        .user("span", PropertyValue::Duration(7))
        .user("id", PropertyValue::Uuid(Uuid::from_u128(7)))
}

fn rule_value(value: PropertyValue) -> RuleValue {
    RuleValue::new(value).expect("a value that rules can name")
}

fn parameters() -> Parameters {
    Parameters::from([
        ("limit".to_owned(), rule_value(PropertyValue::long(7))),
        ("@who".to_owned(), rule_value(text("red"))),
    ])
}

fn evaluated(filter: &str) -> Result<Option<bool>, EvaluationError> {
    let filter = SqlFilter::parse(filter, parameters()).unwrap_or_else(|e| panic!("{filter}: {e}"));
    let (message, entropy) = (sample(), Entropy::seeded(1));
    let truth = filter.truth(&message, &entropy, &mut Steps::of_message());
    let matches = filter.matches(&message, &entropy, &mut Steps::of_message());
    assert_eq!(matches, truth.clone().map(|truth| truth == Some(true)));
    truth
}

const T: Option<bool> = Some(true);
const F: Option<bool> = Some(false);
const U: Option<bool> = None;

#[test]
fn filters_match_by_the_table() {
    for (filter, expected) in [
        ("1=1", T),
        ("at = wall AND wall >= at", T),
        ("span = span AND NOT span < span", T),
        ("total > 10 AND total < 12.51 AND total = 12.5", T),
        ("total IN (7, 12.5) AND quantity < total", T),
        ("total = price * 5 AND total - 12 = 0.5", T),
        ("total % 5 = 2.5 AND -total = -12.5", T),
        ("total / 3 = 4.166666666666666666666666666666667", F),
        ("total = '12.5'", U),
        ("span = 7", U),
        ("1 = 0", F),
        ("TRUE", T),
        ("false", F),
        ("NULL", U),
        ("color = 'red'", T),
        ("COLOR = 'red' and Quantity > 6", T),
        ("color = 'Red'", F),
        ("user.color <> 'blue'", T),
        ("[color] != 'red'", F),
        ("\"color\" = 'red'", T),
        ("größe = 'XL'", T),
        ("[a]]b] = 'bracket'", T),
        ("[set] = 'keyword'", T),
        ("sys.Label = 'Paid'", T),
        ("sys.subject = 'Paid'", T),
        ("SYS.LABEL LIKE 'P%'", T),
        ("sys.To IS NULL", T),
        ("sys.To = 'x'", U),
        ("sys.DeliveryCount > 1", T),
        // Unknown
        ("missing = 1", U),
        ("NOT missing = 1", U),
        ("missing = 1 OR 1=1", T),
        ("missing = 1 OR 1=0", U),
        ("missing = 1 AND 1=0", F),
        ("1=0 AND missing = 1", F),
        ("missing = 1 AND 1=1", U),
        ("missing + 1 = 2", U),
        ("missing LIKE '%'", U),
        ("missing IN (1, 2)", U),
        ("missing IS NULL", T),
        ("missing IS NOT NULL", F),
        ("nothing IS NULL", T),
        ("EXISTS(nothing)", T),
        ("EXISTS(missing)", F),
        ("NOT EXISTS(user.missing)", T),
        ("color = NULL", U),
        // Kinds
        ("color = 7", U),
        ("color > 7", U),
        ("quantity = 7.0", T),
        ("price = 2.5", T),
        ("price > 2", T),
        ("urgent", T),
        ("NOT urgent", F),
        ("urgent = TRUE", T),
        ("urgent <> FALSE", T),
        ("urgent > FALSE", U),
        ("quantity", U),
        ("at = at AND id = id", T),
        ("at >= at", T),
        // Arithmetic
        ("quantity + 1 = 8", T),
        ("1 + 2 * 3 = 7", T),
        ("(1 + 2) * 3 = 9", T),
        ("7 / 2 = 3", T),
        ("7 / 2.0 = 3.5", T),
        ("7 % 4 = 3", T),
        ("10 - 2 - 3 = 5", T),
        ("-quantity = -7", T),
        ("- -7 = +7", T),
        ("1e2 = 100", T),
        (".5 + 1.e0 = 1.5", T),
        ("'a' + 'b' = 'ab'", T),
        ("'a' - 'b' = 'ab'", U),
        ("-9223372036854775808 < 0", T),
        // Precedence
        ("1=1 OR 1=1 AND 1=0", T),
        ("(1=1 OR 1=1) AND 1=0", F),
        ("NOT 1=0 AND 1=0", F),
        ("NOT (1=0 AND 1=0)", T),
        ("NOT NOT 1=1", T),
        // Lists
        ("color IN ('blue', 'red')", T),
        ("color NOT IN ('blue', 'red')", F),
        ("quantity IN (1, 3 + 4)", T),
        ("color IN (1, missing)", F),
        // Patterns
        ("color LIKE 'r%'", T),
        ("color LIKE '_e_'", T),
        ("color NOT LIKE '%d'", F),
        ("'50%' LIKE '50!%' ESCAPE '!'", T),
        ("'500' LIKE '50!%' ESCAPE '!'", F),
        ("'a''b' = 'a''b'", T),
        ("quantity LIKE '7'", U),
        // Functions and parameters
        ("newid() <> newid()", T),
        ("property('color') = 'red'", T),
        ("p('col' + 'or') = 'red'", T),
        ("property(missing) = 'red'", U),
        ("quantity = @limit AND color = @who", T),
        ("p = 1", U),
    ] {
        assert_eq!(evaluated(filter), Ok(expected), "{filter}");
    }
}

#[test]
fn some_filters_fail_for_a_message() {
    use EvaluationError as E;
    for (filter, expected) in [
        (
            "sys.Nonsense = 1",
            E::NoSuchSystemProperty("Nonsense".to_owned()),
        ),
        ("quantity / 0 = 1", E::DivisionByZero),
        ("quantity % 0 = 1", E::DivisionByZero),
        ("9223372036854775807 + 1 > 0", E::Overflow),
        ("9223372036854775807 * 9223372036854775807 > 0", E::Overflow),
        ("-(-9223372036854775808) > 0", E::Overflow),
        ("color LIKE 'a!' ESCAPE '!'", E::BadEscape),
        ("color LIKE 'a' ESCAPE '!!'", E::BadEscape),
    ] {
        assert_eq!(evaluated(filter), Err(expected), "{filter}");
    }
    // What decides alone is not followed by what would fail.
    assert_eq!(evaluated("1=0 AND sys.Nonsense = 1"), Ok(F));
}

#[test]
fn errors_point_at_their_column() {
    for (filter, column, problem) in [
        ("", 1, "expected a property or a value, found the end"),
        (
            "color = ",
            9,
            "expected a property or a value, found the end",
        ),
        ("größe = #", 9, "unexpected character '#'"),
        (
            "color = 'red",
            9,
            "the text is not closed; expected another '",
        ),
        ("[color = 1", 1, "the name is not closed; expected ]"),
        (
            "color = 1 2",
            11,
            "expected AND, OR or the end of the filter, found 2",
        ),
        ("(color = 1", 11, "expected ), found the end"),
        ("color IS 1", 10, "expected NULL, found 1"),
        (
            "1 IS NULL",
            1,
            "only a property can be compared with IS NULL",
        ),
        ("color NOT = 1", 11, "expected IN or LIKE, found ="),
        ("color IN 1", 10, "expected (, found 1"),
        (
            "quantity + 1",
            1,
            "expected a condition, found a value: compare it with something",
        ),
        (
            "a = 1 AND 5",
            11,
            "expected a condition, found a value: compare it with something",
        ),
        ("a = (b = 1)", 5, "expected a value, found a condition"),
        (
            "set = 1",
            1,
            "set is a keyword; a property of that name is [set]",
        ),
        (
            "foo.bar = 1",
            1,
            "foo is no scope; properties stand behind sys. or user., and names with dots in brackets",
        ),
        (
            "lower(a) = 1",
            1,
            "lower is no function; there are newid(), property(name) and p(name)",
        ),
        ("a = @unknown", 5, "there is no parameter @unknown"),
        (
            "a = 9223372036854775808",
            5,
            "the number is too large: whole numbers have 64 bits",
        ),
        (
            "a = 99999999999999999999",
            5,
            "the number is too large: whole numbers have 64 bits",
        ),
        ("a == 1", 4, "expected a property or a value, found ="),
        ("1=1 -- all", 5, "comments are not allowed; leave it out"),
        ("1=1 /* all */", 5, "comments are not allowed; leave it out"),
        ("größe = 1--1", 10, "comments are not allowed; leave it out"),
    ] {
        let error = SqlFilter::parse(filter, parameters()).expect_err(filter);
        assert_eq!(
            (error.column, error.problem.as_str()),
            (column, problem),
            "{filter}"
        );
    }
    let long = format!("a = '{}'", "x".repeat(TEXT_MAX));
    let error = SqlFilter::parse(&long, Parameters::new()).expect_err("too long");
    assert_eq!(error.column, TEXT_MAX + 1);
    for deep in ["(".repeat(500), "NOT ".repeat(200), "- ".repeat(400)] {
        let error = SqlFilter::parse(&deep, Parameters::new()).expect_err("too deep");
        assert!(error.problem.contains("nested"), "{error}");
    }
}

fn applied(action: &str) -> Result<String, EvaluationError> {
    let action = SqlAction::parse(action, parameters()).unwrap_or_else(|e| panic!("{action}: {e}"));
    let changes = action.apply(&sample(), &Entropy::seeded(1), &mut Steps::of_message())?;
    let system = changes.system.iter();
    let system = system.map(|(property, value)| format!("sys.{}={value:?}", property.name()));
    let user = changes.user.iter();
    let user = user.map(|(name, value)| format!("{name}={value:?}"));
    let all: Vec<String> = system.chain(user).collect();
    Ok(all.join("; "))
}

#[test]
fn actions_change_a_copy() {
    for (action, expected) in [
        (
            "SET quantity = quantity / 2",
            "quantity=Some(Integer(Int, 3))",
        ),
        ("SET quantity = 'x'", "quantity=Some(Text(\"x\"))"),
        ("SET quantity = '12'; ", "quantity=Some(Integer(Int, 12))"),
        ("SET price = 3", "price=Some(Double(3.0))"),
        ("SET color = 5", "color=Some(Text(\"5\"))"),
        ("SET new = 5", "new=Some(Integer(Long, 5))"),
        (
            "SET total = total + 1",
            "total=Some(Decimal(DecimalNumber { coefficient: 1350, exponent: -2 }))",
        ),
        (
            "SET total = total * 1.1",
            "total=Some(Decimal(DecimalNumber { coefficient: 13750, exponent: -3 }))",
        ),
        (
            "SET total = '9.95'",
            "total=Some(Decimal(DecimalNumber { coefficient: 995, exponent: -2 }))",
        ),
        (
            "SET quantity = total * 2",
            "quantity=Some(Integer(Int, 25))",
        ),
        ("SET color = total", "color=Some(Text(\"12.50\"))"),
        ("SET new = missing", "new=Some(Null)"),
        ("REMOVE color", "color=None"),
        ("REMOVE missing", ""),
        (
            "SET a = 1 SET b = a + 1; SET A = 3",
            "a=Some(Integer(Long, 3)); b=Some(Integer(Long, 2))",
        ),
        (
            "REMOVE color SET found = property('color')",
            "color=None; found=Some(Null)",
        ),
        ("SET sys.Label = 'low'", "sys.Label=Some(Text(\"low\"))"),
        (
            "SET sys.CorrelationId = sys.Label + '!'",
            "sys.CorrelationId=Some(Text(\"Paid!\"))",
        ),
        ("REMOVE sys.Label", "sys.Label=None"),
    ] {
        assert_eq!(applied(action).as_deref(), Ok(expected), "{action}");
    }
    for (action, expected) in [
        (
            "SET sys.SequenceNumber = 1",
            EvaluationError::NotSettable("SequenceNumber"),
        ),
        (
            "REMOVE sys.Nonsense",
            EvaluationError::NoSuchSystemProperty("Nonsense".to_owned()),
        ),
        ("SET a = 1 / 0", EvaluationError::DivisionByZero),
        ("SET a = total / 0", EvaluationError::DivisionByZero),
    ] {
        assert_eq!(applied(action), Err(expected), "{action}");
    }
}

#[test]
fn wrong_actions_point_at_their_column() {
    let many = "SET a = 1;".repeat(STATEMENTS_MAX + 1);
    let column = 10 * STATEMENTS_MAX + 1;
    for (action, column, problem) in [
        ("", 1, "expected SET or REMOVE, found the end"),
        ("color = 1", 1, "expected SET or REMOVE, found color"),
        ("SET color 1", 11, "expected =, found 1"),
        ("SET a = 1 AND b", 11, "expected SET or REMOVE, found AND"),
        ("REMOVE 'a'", 8, "expected a property or a value, found 'a'"),
        (&many, column, "an action has at most 32 statements"),
    ] {
        let error = SqlAction::parse(action, Parameters::new()).expect_err(action);
        assert_eq!(
            (error.column, error.problem.as_str()),
            (column, problem),
            "{action}"
        );
    }
}

#[test]
fn all_parts_of_a_text_count_as_memory() {
    let bytes = |text: &str| {
        let filter = SqlFilter::parse(text, parameters());
        filter.unwrap_or_else(|e| panic!("{text}: {e}")).bytes()
    };
    let part = size_of::<Expression>();
    // A property, a comparison, 511 numbers and the signs between them.
    let long = bytes(&format!("a={}1", "1+".repeat(510)));
    assert!((1_023 * part..100 * 1_024).contains(&long), "{long}");
    for (text, parts) in [
        ("a=1", 3),
        ("NOT a=-b", 5),
        ("a=1 OR a=1 AND a=1", 11),
        ("a IN (1, 2, newid())", 5),
        ("a LIKE 'x' ESCAPE 'y'", 4),
        ("p('a')=1", 4),
        ("a IS NULL", 1),
        ("EXISTS(a)", 1),
    ] {
        assert!(bytes(text) >= parts * part, "{text}");
    }
    let action = "SET a=1+1; REMOVE b";
    let action = SqlAction::parse(action, parameters()).expect("an action");
    assert!(action.bytes() >= 3 * part);
}

#[test]
fn values_of_parameters_are_not_copied_without_end() {
    let large = Parameters::from([("p".to_owned(), rule_value(text(&"x".repeat(16_000))))]);
    let named = |times: usize| format!("a IN (@p{})", ",@p".repeat(times - 1));
    assert!(SqlFilter::parse(&named(4), large.clone()).is_ok());
    let error = SqlFilter::parse(&named(5), large).expect_err("too much");
    assert!(error.problem.contains("65536 bytes"), "{error}");
}

#[test]
fn patterns_cannot_take_for_ever() {
    let message = Sample::new()
        .user("t", text(&"a".repeat(30_000)))
        .user("p", text(&format!("%{}b", "a".repeat(10_000))));
    let filter = SqlFilter::parse("t LIKE p", Parameters::new()).expect("a filter");
    let matched = filter.matches(&message, &Entropy::seeded(1), &mut Steps::of_message());
    assert_eq!(matched, Err(EvaluationError::TooManySteps));
}

/// The plain meaning of a pattern, by trying everything.
fn fits(text: &[char], pattern: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('%', rest)) => (0..=text.len()).any(|at| fits(&text[at..], rest)),
        Some(('_', rest)) => text.split_first().is_some_and(|(_, text)| fits(text, rest)),
        Some((c, rest)) => {
            let split = text.split_first();
            split.is_some_and(|(first, text)| first == c && fits(text, rest))
        }
    }
}

/// An expression with every part in parentheses.
fn print(expression: &Expression) -> String {
    let constant = |value: &PropertyValue| match value {
        PropertyValue::Null => "NULL".to_owned(),
        PropertyValue::Bool(value) => value.to_string(),
        PropertyValue::Integer(_, number) => number.to_string(),
        PropertyValue::Double(number) => format!("{number:?}"),
        PropertyValue::Text(text) => format!("'{}'", text.replace('\'', "''")),
        PropertyValue::Float(_)
        | PropertyValue::Decimal(_)
        | PropertyValue::Timestamp(_)
        | PropertyValue::ZonelessTime(_)
        | PropertyValue::Duration(_)
        | PropertyValue::Uuid(_)
        | PropertyValue::Binary(_)
        | PropertyValue::Other => unreachable!("no constant: {value:?}"),
    };
    match expression {
        Expression::Constant(value) => constant(value),
        Expression::Property(property) => property.to_string(),
        Expression::PropertyNamed(name) => format!("property({})", print(name)),
        Expression::NewId => "newid()".to_owned(),
        Expression::Negative(inner) => format!("-({})", print(inner)),
        Expression::Arithmetic(left, sign, right) => {
            let sign = match sign {
                Arithmetic::Add => "+",
                Arithmetic::Subtract => "-",
                Arithmetic::Multiply => "*",
                Arithmetic::Divide => "/",
                Arithmetic::Remainder => "%",
            };
            format!("({}) {sign} ({})", print(left), print(right))
        }
        Expression::Comparison(left, sign, right) => {
            let sign = match sign {
                ComparisonOperator::Equal => "=",
                ComparisonOperator::NotEqual => "<>",
                ComparisonOperator::Less => "<",
                ComparisonOperator::LessOrEqual => "<=",
                ComparisonOperator::Greater => ">",
                ComparisonOperator::GreaterOrEqual => ">=",
            };
            format!("({}) {sign} ({})", print(left), print(right))
        }
        Expression::In(left, list) => {
            let list: Vec<String> = list.iter().map(print).collect();
            format!("({}) IN ({})", print(left), list.join(", "))
        }
        Expression::Like(like) => {
            let escape = like.escape.as_ref();
            let escape = escape.map(|escape| format!(" ESCAPE ({})", print(escape)));
            let (text, pattern) = (print(&like.text), print(&like.pattern));
            format!("({text}) LIKE ({pattern}){}", escape.unwrap_or_default())
        }
        Expression::IsNull(property) => format!("{property} IS NULL"),
        Expression::Exists(property) => format!("EXISTS({property})"),
        Expression::Not(inner) => format!("NOT ({})", print(inner)),
        Expression::And(left, right) => format!("({}) AND ({})", print(left), print(right)),
        Expression::Or(left, right) => format!("({}) OR ({})", print(left), print(right)),
    }
}

fn property() -> impl Strategy<Value = PropertyRef> {
    let names = prop_oneof![
        (
            Just(PropertyScope::User),
            "color|quantity|price|urgent|missing|a\\]b"
        ),
        (Just(PropertyScope::System), "Label|DeliveryCount|To"),
    ];
    names.prop_map(|(scope, name)| PropertyRef { scope, name })
}

fn value() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        (0..9i64).prop_map(|n| Expression::Constant(PropertyValue::long(n))),
        (0..9i32).prop_map(|n| Expression::Constant(PropertyValue::Double(f64::from(n) / 2.0))),
        "[a'%]{0,3}".prop_map(|t| Expression::Constant(PropertyValue::Text(t))),
        property().prop_map(Expression::Property),
        Just(Expression::NewId),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let sign = prop_oneof![
            Just(Arithmetic::Add),
            Just(Arithmetic::Subtract),
            Just(Arithmetic::Multiply),
            Just(Arithmetic::Divide),
            Just(Arithmetic::Remainder),
        ];
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            (boxed.clone(), sign, boxed.clone())
                .prop_map(|(left, sign, right)| Expression::Arithmetic(left, sign, right)),
            boxed.clone().prop_map(Expression::Negative),
            boxed.prop_map(Expression::PropertyNamed),
        ]
    })
}

fn condition() -> impl Strategy<Value = Expression> {
    let sign = prop_oneof![
        Just(ComparisonOperator::Equal),
        Just(ComparisonOperator::NotEqual),
        Just(ComparisonOperator::Less),
        Just(ComparisonOperator::LessOrEqual),
        Just(ComparisonOperator::Greater),
        Just(ComparisonOperator::GreaterOrEqual),
    ];
    let boxed = || value().prop_map(Box::new);
    let like = (value(), value(), prop::option::of(value()));
    let leaf = prop_oneof![
        (boxed(), sign, boxed()).prop_map(|(l, sign, r)| Expression::Comparison(l, sign, r)),
        (boxed(), prop::collection::vec(value(), 1..3)).prop_map(|(l, r)| Expression::In(l, r)),
        like.prop_map(|(text, pattern, escape)| {
            let like = Like {
                text,
                pattern,
                escape,
            };
            Expression::Like(Box::new(like))
        }),
        property().prop_map(Expression::IsNull),
        property().prop_map(Expression::Exists),
        property().prop_map(Expression::Property),
        any::<bool>().prop_map(|b| Expression::Constant(PropertyValue::Bool(b))),
        Just(Expression::Constant(PropertyValue::Null)),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let boxed = inner.prop_map(Box::new);
        prop_oneof![
            boxed.clone().prop_map(Expression::Not),
            (boxed.clone(), boxed.clone()).prop_map(|(l, r)| Expression::And(l, r)),
            (boxed.clone(), boxed).prop_map(|(l, r)| Expression::Or(l, r)),
        ]
    })
}

fn truth(condition: &Expression) -> Result<Option<bool>, EvaluationError> {
    let (message, entropy) = (sample(), Entropy::seeded(1));
    Evaluation::of(&message, &entropy, &mut Steps::of_message()).condition(condition)
}

fn not(inner: Expression) -> Expression {
    Expression::Not(Box::new(inner))
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(condition in condition()) {
        let printed = print(&condition);
        prop_assume!(printed.chars().count() <= TEXT_MAX);
        let read = SqlFilter::parse(&printed, Parameters::new());
        prop_assert_eq!(read.map(|read| read.condition), Ok(condition), "{}", printed);
    }

    #[test]
    fn no_text_is_too_much(text in "\\PC{0,200}") {
        if let Err(error) = SqlFilter::parse(&text, Parameters::new()) {
            prop_assert!((1..=text.chars().count() + 1).contains(&error.column));
        }
    }

    #[test]
    fn no_words_are_too_much(
        words in prop::collection::vec(
            "SET|REMOVE|NOT|AND|OR|IN|IS|NULL|LIKE|ESCAPE|EXISTS|\\(|\\)|,|=|<>|-|\\+|sys\\.To|a|1|2\\.5|'x'|newid\\(\\)|p\\(",
            0..40,
        ),
    ) {
        let text = words.join(" ");
        for parsed in [
            SqlFilter::parse(&text, Parameters::new()).map(|filter| drop(
                filter.matches(&sample(), &Entropy::seeded(1), &mut Steps::of_message()),
            )),
            SqlAction::parse(&text, Parameters::new()).map(|action| drop(
                action.apply(&sample(), &Entropy::seeded(1), &mut Steps::of_message()),
            )),
        ] {
            if let Err(error) = parsed {
                prop_assert!((1..=text.chars().count() + 1).contains(&error.column));
            }
        }
    }

    #[test]
    fn the_laws_of_logic_hold(left in condition(), right in condition()) {
        let (Ok(l), Ok(r)) = (truth(&left), truth(&right)) else {
            return Ok(());
        };
        // newid() is another one each time.
        prop_assume!(!print(&left).contains("newid") && !print(&right).contains("newid"));
        let and = Expression::And(Box::new(left.clone()), Box::new(right.clone()));
        let or = Expression::Or(Box::new(left.clone()), Box::new(right.clone()));
        let de_morgan = not(Expression::Or(Box::new(not(left.clone())), Box::new(not(right))));
        prop_assert_eq!(truth(&and), truth(&de_morgan));
        // False, unknown and true in this order: AND is the least, OR the greatest.
        let rank = |truth: Option<bool>| truth.map_or(1, |truth| 2 * i32::from(truth));
        prop_assert_eq!(truth(&and).map(rank), Ok(rank(l).min(rank(r))));
        prop_assert_eq!(truth(&or).map(rank), Ok(rank(l).max(rank(r))));
        prop_assert_eq!(truth(&not(not(left))), Ok(l));
    }

    #[test]
    fn patterns_mean_what_they_say(text in "[ab]{0,8}", pattern in "[ab%_]{0,8}") {
        let chars = |text: &str| text.chars().collect::<Vec<char>>();
        let expected = fits(&chars(&text), &chars(&pattern));
        prop_assert_eq!(like(&text, &pattern, None, &mut Steps::of_message()), Ok(expected));
    }
}
