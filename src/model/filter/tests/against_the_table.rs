//! The same decisions made naively, from the table of rule 4.2.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Json {
    Null,
    Bool(bool),
    /// Hundredths, and one of the ways to write them.
    Number(i32, u8),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

#[derive(Clone, Debug)]
struct Case {
    row: OperatorRow,
    key: String,
    numbers: Vec<i32>,
    ranges: Vec<(i32, i32)>,
    boolean: bool,
    texts: Vec<String>,
    on_arrays: bool,
}

impl Json {
    fn written(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(value, style) => write_number(*value, *style),
            Self::Text(text) => format!("\"{text}\""),
            Self::Array(elements) => {
                let elements: Vec<String> = elements.iter().map(Self::written).collect();
                format!("[{}]", elements.join(", "))
            }
            Self::Object(members) => {
                let member =
                    |(name, value): &(String, Self)| format!("\"{name}\" : {}", value.written());
                let members: Vec<String> = members.iter().map(member).collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        let mut latest = members.iter().rev();
        let exact = latest.clone().find(|(each, _)| each == name);
        let found = exact.or_else(|| latest.find(|(each, _)| each.eq_ignore_ascii_case(name)));
        found.map(|(_, value)| value)
    }
}

fn write_number(hundredths: i32, style: u8) -> String {
    let sign = if hundredths < 0 { "-" } else { "" };
    let n = hundredths.unsigned_abs();
    match style {
        0 => format!("{sign}{}.{:02}", n / 100, n % 100),
        1 => format!("{hundredths}e-2"),
        2 => format!("{sign}0.{n:05}E+3"),
        _ => format!("{}.0e-0005", hundredths * 1_000),
    }
}

impl Case {
    /// Whether a value of the operator's type is among those that the table describes, the `Not`
    /// aside; `None` for a value of another type.
    fn hit(&self, value: &Json) -> Option<bool> {
        let name = self.row.name.replace("Not", "");
        match (value, name.as_str()) {
            (Json::Number(n, _), "NumberIn") => Some(self.numbers.contains(n)),
            (Json::Number(n, _), "NumberLessThan") => Some(*n < self.numbers[0]),
            (Json::Number(n, _), "NumberGreaterThan") => Some(*n > self.numbers[0]),
            (Json::Number(n, _), "NumberLessThanOrEquals") => Some(*n <= self.numbers[0]),
            (Json::Number(n, _), "NumberGreaterThanOrEquals") => Some(*n >= self.numbers[0]),
            (Json::Number(n, _), "NumberInRange") => Some(
                self.ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(n)),
            ),
            (Json::Bool(b), "BoolEquals") => Some(*b == self.boolean),
            (Json::Text(text), _) if name.starts_with("String") => {
                let text = text.to_lowercase();
                Some(self.texts.iter().any(|each| {
                    let each = each.to_lowercase();
                    match name.as_str() {
                        "StringContains" => text.contains(&each),
                        "StringBeginsWith" => text.starts_with(&each),
                        "StringEndsWith" => text.ends_with(&each),
                        _ => text == each,
                    }
                }))
            }
            _ => None,
        }
    }

    fn expected(&self, data: &Json) -> bool {
        let value = self.key.split('.').skip(1).try_fold(data, Json::member);
        let value = value.filter(|value| !matches!(value, Json::Null));
        match self.row.name {
            "IsNullOrUndefined" => return value.is_none(),
            "IsNotNull" => return value.is_some(),
            _ => {}
        }
        let negated = self.row.name.contains("Not");
        if let Some(Json::Array(elements)) = value {
            let any = elements.iter().any(|each| self.hit(each) == Some(true));
            return self.on_arrays && any != negated;
        }
        let passes_missing = matches!(
            self.row.name,
            "NumberNotIn" | "NumberNotInRange" | "StringNotIn"
        );
        let hit = value.and_then(|value| self.hit(value));
        hit.map_or(passes_missing, |hit| hit != negated)
    }

    fn filter(&self) -> Filter {
        let number = |n: &i32| Decimal::parse(&write_number(*n, 0)).expect("a number");
        let operand = match self.row.takes {
            Takes::Nothing => Operand::Nothing,
            Takes::Number => Operand::Number(number(&self.numbers[0])),
            Takes::Numbers => Operand::Numbers(self.numbers.iter().map(number).collect()),
            Takes::Ranges => {
                let ranges = self.ranges.iter();
                Operand::Ranges(
                    ranges
                        .map(|(low, high)| (number(low), number(high)))
                        .collect(),
                )
            }
            Takes::Bool => Operand::Bool(self.boolean),
            Takes::Texts => Operand::Texts(self.texts.iter().map(|t| t.as_str().into()).collect()),
        };
        let clause = Clause {
            key: FilterKey::parse(&self.key).expect("a valid key"),
            operator: self.row.operator,
            operand,
        };
        Filter {
            advanced: Conditions {
                clauses: vec![clause],
                on_arrays: self.on_arrays,
            },
            ..Filter::default()
        }
    }
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        1 => Just(Json::Null),
        1 => any::<bool>().prop_map(Json::Bool),
        4 => (-3..4_i32, 0..4_u8).prop_map(|(n, style)| Json::Number(n * 50, style)),
        4 => "[abAB]{0,3}".prop_map(Json::Text),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            object(inner),
        ]
    })
}

fn object(value: impl Strategy<Value = Json>) -> impl Strategy<Value = Json> {
    prop::collection::vec(("[abAB]", value), 0..4).prop_map(Json::Object)
}

fn case() -> impl Strategy<Value = Case> {
    let number = || (-3..4_i32).prop_map(|n| n * 50);
    (
        prop::sample::select(Operator::ALL.as_slice()),
        "data(\\.[abAB]){0,2}",
        prop::collection::vec(number(), 1..4),
        prop::collection::vec((number(), number()), 1..3),
        any::<bool>(),
        prop::collection::vec("[abAB]{0,2}", 1..4),
        any::<bool>(),
    )
        .prop_map(
            |(row, key, numbers, ranges, boolean, texts, on_arrays)| Case {
                row,
                key,
                numbers,
                ranges,
                boolean,
                texts,
                on_arrays,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn filters_decide_as_the_table_does(data in object(json()), cases in prop::collection::vec(case(), 1..4)) {
        let event = event(&data.written());
        // One view for all, as in a publish: what one filter has read must serve the next.
        let view = EventView::new(&event, "/topic");
        for case in cases {
            let filter = case.filter();
            let matched = filter.matches(&view);
            prop_assert_eq!(matched, case.expected(&data), "{:?} {}", case, data.written());
            prop_assert_eq!(filter.explain(&view).matched(), matched, "{:?}", case);
        }
    }

    #[test]
    fn whole_filters_and_explanations_decide_alike(
        cases in prop::collection::vec(case(), 0..3),
        data in object(json()),
        types in prop::option::of(prop::collection::vec("Order.(Paid|Sent)", 1..3)),
        start in "(/[oO]rders?)?", end in "([sS]?/[12])?", exact: bool,
    ) {
        let clauses = cases.iter().map(|case| case.filter().advanced.clauses.remove(0));
        let fold = |text: &str| if exact { text.to_owned() } else { text.to_lowercase() };
        let subject = fold("/Orders/1");
        let on_arrays = |case: &Case| Case { on_arrays: true, ..case.clone() };
        let expected = types.as_ref().is_none_or(|types| types.contains(&"Order.Paid".to_owned()))
            && subject.starts_with(&fold(&start))
            && subject.ends_with(&fold(&end))
            && cases.iter().all(|case| on_arrays(case).expected(&data));
        let filter = Filter {
            dialect: Dialect::Basic,
            included_event_types: types,
            subject_begins_with: start.into(),
            subject_ends_with: end.into(),
            subject_case_sensitive: exact,
            advanced: Conditions { clauses: clauses.collect(), on_arrays: true },
        };
        let event = event(&data.written());
        let view = EventView::new(&event, "/topic");
        prop_assert_eq!(filter.matches(&view), expected);
        prop_assert_eq!(filter.explain(&view).matched(), expected);
    }
}
