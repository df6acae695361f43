//! An index that finds the correlation filters which may match a message.
//!
//! Each filter is filed under one of its conditions, the one that the fewest filters share. A message then costs
//! one look-up for each of its properties, and one comparison for each filter found there, however many filters
//! there are.

use std::collections::HashMap;

use crate::model::rule::correlation::{Condition, CorrelationFilter, offered};
use crate::model::rule::message::MessageView;

/// Correlation filters, each with an associated value, indexed by one of their conditions.
#[derive(Clone, Debug)]
pub(super) struct CorrelationIndex<T> {
    filed: HashMap<Condition, Vec<(CorrelationFilter, T)>>,
}

impl<T> Default for CorrelationIndex<T> {
    fn default() -> Self {
        Self {
            filed: HashMap::new(),
        }
    }
}

impl<T> FromIterator<(CorrelationFilter, T)> for CorrelationIndex<T> {
    fn from_iter<I: IntoIterator<Item = (CorrelationFilter, T)>>(filters: I) -> Self {
        let possible: Vec<_> = filters
            .into_iter()
            .filter_map(|(filter, of)| Some((filter.conditions()?, filter, of)))
            .collect();
        let mut sharing: HashMap<&Condition, usize> = HashMap::new();
        for condition in possible.iter().flat_map(|(conditions, ..)| conditions) {
            *sharing.entry(condition).or_default() += 1;
        }
        let rarest = |conditions: &Vec<Condition>| {
            let rarest = conditions.iter().min_by_key(|each| sharing[each]);
            rarest.cloned()
        };
        let places: Vec<Option<Condition>> =
            possible.iter().map(|(each, ..)| rarest(each)).collect();
        let mut filed: HashMap<Condition, Vec<(CorrelationFilter, T)>> = HashMap::new();
        for ((_, filter, of), place) in possible.into_iter().zip(places) {
            if let Some(place) = place {
                filed.entry(place).or_default().push((filter, of));
            }
        }
        Self { filed }
    }
}

impl<T> CorrelationIndex<T> {
    /// Returns the filters that have to be compared with `message`, each with its associated value, in no particular
    /// order.
    pub(super) fn candidates(
        &self,
        message: &dyn MessageView,
    ) -> impl Iterator<Item = &(CorrelationFilter, T)> {
        let offered = if self.filed.is_empty() {
            Vec::new()
        } else {
            offered(message)
        };
        offered
            .into_iter()
            .filter_map(|condition| self.filed.get(&condition))
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::Timestamp;
    use crate::model::rule::message::SystemProperty;
    use crate::model::rule::property::{IntegerType, PropertyValue, RuleValue};
    use crate::model::rule::sql::tests::Sample;
    use crate::model::rule::steps::Steps;

    impl<T> CorrelationIndex<T> {
        fn matching<'a>(&'a self, message: &'a Sample) -> impl Iterator<Item = &'a T> {
            let found = self.candidates(message);
            let matching = found.filter(|(filter, _)| does_match(filter, message));
            matching.map(|(_, of)| of)
        }
    }

    fn does_match(filter: &CorrelationFilter, message: &Sample) -> bool {
        let matches = filter.matches(message, &mut Steps::of_message());
        matches.expect("few steps")
    }

    fn named(value: PropertyValue) -> RuleValue {
        RuleValue::new(value).expect("a value that rules can name")
    }

    fn labelled(label: &str, user: &[(&str, PropertyValue)]) -> CorrelationFilter {
        let user = user.iter();
        CorrelationFilter {
            system: vec![(SystemProperty::Label, label.to_owned())],
            user: user
                .map(|(name, value)| ((*name).to_owned(), named(value.clone())))
                .collect(),
        }
    }

    #[test]
    fn two_thousand_rules_cost_one_comparison() {
        let filters = (0..2_000).map(|n| (labelled("paid", &[("n", PropertyValue::long(n))]), n));
        let index: CorrelationIndex<i64> = filters.collect();
        let message = Sample::new()
            .system(
                SystemProperty::Label,
                PropertyValue::Text("paid".to_owned()),
            )
            .user("n", PropertyValue::Integer(IntegerType::Int, 1_999))
            .user("other", PropertyValue::Bool(true));
        assert_eq!(index.candidates(&message).count(), 1);
        assert_eq!(index.matching(&message).collect::<Vec<_>>(), [&1_999]);
    }

    #[test]
    fn values_compare_exactly_and_numbers_by_value() {
        let text = |text: &str| PropertyValue::Text(text.to_owned());
        let decimal = |text: &str| PropertyValue::Decimal(text.parse().expect("a decimal"));
        for (wanted, found, expected) in [
            (text("a"), text("a"), true),
            (text("a"), text("A"), false),
            (text("1"), PropertyValue::long(1), false),
            (
                PropertyValue::long(1),
                PropertyValue::Integer(IntegerType::Ubyte, 1),
                true,
            ),
            (PropertyValue::long(1), PropertyValue::Double(1.0), true),
            (PropertyValue::Float(0.5), PropertyValue::Double(0.5), true),
            (
                PropertyValue::long(1),
                PropertyValue::Double(f64::NAN),
                false,
            ),
            (decimal("12.50"), decimal("12.5"), true),
            (decimal("12.50"), PropertyValue::Double(12.5), true),
            (PropertyValue::Double(0.1), decimal("0.1"), true),
            (decimal("12.00"), PropertyValue::long(12), true),
            (decimal("12.5"), decimal("12.51"), false),
            (decimal("12.5"), text("12.5"), false),
            (
                PropertyValue::Double(f64::MAX),
                PropertyValue::Double(f64::INFINITY),
                false,
            ),
            (PropertyValue::long(0), PropertyValue::Null, false),
            (PropertyValue::Duration(7), PropertyValue::Duration(7), true),
            (PropertyValue::Duration(7), PropertyValue::long(7), false),
            (
                PropertyValue::ZonelessTime(Timestamp::from_ms(7).into()),
                PropertyValue::Timestamp(Timestamp::from_ms(7).into()),
                true,
            ),
            (PropertyValue::Bool(true), PropertyValue::Bool(true), true),
        ] {
            let filter = CorrelationFilter {
                user: vec![("P".to_owned(), named(wanted.clone()))],
                ..CorrelationFilter::default()
            };
            let message = Sample::new().user("p", found.clone());
            assert_eq!(
                does_match(&filter, &message),
                expected,
                "{wanted:?} {found:?}"
            );
            assert_eq!(filter.difference(&message).is_none(), expected);
            let index: CorrelationIndex<()> = [(filter, ())].into_iter().collect();
            assert_eq!(index.matching(&message).count(), usize::from(expected));
        }
        let absent = labelled("x", &[]);
        assert!(!does_match(&absent, &Sample::new()));
        let told = absent.difference(&Sample::new());
        assert_eq!(told.as_deref(), Some("Label is missing."));
        let numbered = labelled("x", &[("n", text("7"))]);
        let message = Sample::new().system(SystemProperty::Label, text("x"));
        let told = numbered.difference(&message.user("n", PropertyValue::long(7)));
        assert_eq!(told.as_deref(), Some("n is 7, not \"7\"."));
    }

    fn value() -> impl Strategy<Value = PropertyValue> {
        prop_oneof![
            (0..3i64).prop_map(PropertyValue::long),
            (0..3i128).prop_map(|n| PropertyValue::Integer(IntegerType::Int, n)),
            (0..5i32).prop_map(|n| PropertyValue::Double(f64::from(n) / 2.0)),
            "[ab]".prop_map(PropertyValue::Text),
            any::<bool>().prop_map(PropertyValue::Bool),
        ]
    }

    proptest! {
        #[test]
        fn the_index_finds_what_comparing_with_each_finds(
            filters in prop::collection::vec(
                (prop::option::of("[xy]"), prop::collection::btree_map("[pqr]", value(), 0..3)),
                1..40,
            ),
            label in prop::option::of("[xy]"),
            properties in prop::collection::btree_map(
                "[pqr]",
                prop_oneof![value(), Just(PropertyValue::Null)],
                0..4,
            ),
        ) {
            let filters: Vec<CorrelationFilter> = filters.into_iter().map(|(label, user)| {
                let label = label.map(|text| (SystemProperty::Label, text));
                CorrelationFilter {
                    system: label.into_iter().collect(),
                    user: user.into_iter().map(|(name, value)| (name, named(value))).collect(),
                }
            }).filter(|each| !each.is_empty()).collect();
            let mut message = Sample::new();
            if let Some(label) = label {
                message = message.system(SystemProperty::Label, PropertyValue::Text(label));
            }
            for (name, value) in properties {
                message = message.user(&name, value);
            }
            let index: CorrelationIndex<usize> =
                filters.iter().cloned().enumerate().map(|(n, each)| (each, n)).collect();
            let mut found: Vec<usize> = index.matching(&message).copied().collect();
            found.sort_unstable();
            let matching = filters.iter().enumerate().filter(|(_, each)| does_match(each, &message));
            let expected: Vec<usize> = matching.map(|(n, _)| n).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
