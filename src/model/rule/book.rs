//! The rules of all subscriptions of a topic, and the copies that they make of a message.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use rpds::RedBlackTreeMapSync;

use crate::base::Entropy;
use crate::model::name::RuleName;
use crate::model::rule::index::CorrelationIndex;
use crate::model::rule::message::MessageView;
use crate::model::rule::{Rule, RuleFilter};
use crate::model::subscription::SubscriptionId;

/// The rules of a topic. Cheap to clone and to change.
#[derive(Clone, Default)]
pub struct RuleBook {
    /// By subscription and the name's key.
    rules: RedBlackTreeMapSync<SubscriptionId, RedBlackTreeMapSync<String, Arc<Rule>>>,
    /// Made for the first message after a change.
    ready: OnceLock<Arc<Ready>>,
}

/// Its rules, whatever the order in which they came.
impl fmt::Debug for RuleBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.rules.keys();
        let each = each.map(|of| (of, self.of(*of).collect::<Vec<_>>()));
        f.debug_map().entries(each).finish()
    }
}

/// A rule and whose it is.
type Place = (SubscriptionId, Arc<Rule>);

/// The rules in the form in which messages are held against them.
#[derive(Debug, Default)]
struct Ready {
    by_correlation: CorrelationIndex<Place>,
    /// All others, which are evaluated for every message.
    others: Vec<Place>,
}

/// What rules make of a message.
#[derive(Debug, Default, PartialEq)]
pub struct Copies {
    /// Who gets it as it is: one copy each, for all matching rules without an action.
    pub unchanged: BTreeSet<SubscriptionId>,
    /// The matching rules with an action, each of which makes a copy of its own, in the order of subscriptions and names.
    pub changing: Vec<(SubscriptionId, Arc<Rule>)>,
    /// Who has a rule that cannot be evaluated for it, and the first problem of each.
    pub unevaluated: BTreeMap<SubscriptionId, String>,
}

impl RuleBook {
    /// Adds or replaces a rule.
    pub fn put(&mut self, of: SubscriptionId, rule: Rule) {
        let mut rules = self.rules.get(&of).cloned().unwrap_or_default();
        rules.insert_mut(rule.name.key(), Arc::new(rule));
        self.set(of, rules);
    }

    /// Removes a rule.
    pub fn remove(&mut self, of: SubscriptionId, name: &RuleName) {
        let mut rules = self.rules.get(&of).cloned().unwrap_or_default();
        rules.remove_mut(&name.key());
        self.set(of, rules);
    }

    /// Removes all rules of a subscription.
    pub fn remove_all(&mut self, of: SubscriptionId) {
        self.rules.remove_mut(&of);
        self.ready = OnceLock::new();
    }

    fn set(&mut self, of: SubscriptionId, rules: RedBlackTreeMapSync<String, Arc<Rule>>) {
        if rules.is_empty() {
            self.rules.remove_mut(&of);
        } else {
            self.rules.insert_mut(of, rules);
        }
        self.ready = OnceLock::new();
    }

    /// The rules of a subscription, by name.
    pub fn of(&self, of: SubscriptionId) -> impl Iterator<Item = &Arc<Rule>> {
        let rules = self.rules.get(&of).into_iter();
        rules.flat_map(|rules| rules.values())
    }

    /// The rule of that name, in any letter case.
    pub fn find(&self, of: SubscriptionId, name: &RuleName) -> Option<&Arc<Rule>> {
        self.rules.get(&of)?.get(&name.key())
    }

    /// All rules.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.values().flat_map(|rules| rules.values())
    }

    /// What becomes of `message`.
    pub fn copies(&self, message: &dyn MessageView, entropy: &Entropy) -> Copies {
        let ready = self.ready.get_or_init(|| Arc::new(self.made_ready()));
        let mut copies = Copies::default();
        for (of, rule) in ready.by_correlation.matching(message) {
            copies.add(*of, rule);
        }
        for (of, rule) in &ready.others {
            match rule.filter.matches(message, entropy) {
                Ok(true) => copies.add(*of, rule),
                Ok(false) => {}
                Err(error) => {
                    let problem = || rule.problem(&error);
                    copies.unevaluated.entry(*of).or_insert_with(problem);
                }
            }
        }
        let place = |(of, rule): &Place| (*of, rule.name.key());
        copies.changing.sort_by_cached_key(place);
        copies
    }

    fn made_ready(&self) -> Ready {
        let mut ready = Ready::default();
        let mut by_correlation = Vec::new();
        for (of, rules) in &self.rules {
            for rule in rules.values() {
                let place = (*of, Arc::clone(rule));
                match &rule.filter {
                    RuleFilter::Correlation(filter) => {
                        by_correlation.push((filter.clone(), place));
                    }
                    RuleFilter::All | RuleFilter::Sql(_) => ready.others.push(place),
                    RuleFilter::None => {}
                }
            }
        }
        ready.by_correlation = by_correlation.into_iter().collect();
        ready
    }
}

impl Copies {
    fn add(&mut self, of: SubscriptionId, rule: &Arc<Rule>) {
        if rule.action.is_some() {
            self.changing.push((of, Arc::clone(rule)));
        } else {
            self.unchanged.insert(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rule::message::SystemProperty;
    use crate::model::rule::property::PropertyValue;
    use crate::model::rule::sql::tests::Sample;
    use crate::model::rule::{CorrelationFilter, Parameters, SqlAction, SqlFilter};

    const ONE: SubscriptionId = SubscriptionId(1);
    const TWO: SubscriptionId = SubscriptionId(2);

    fn rule(name: &str, filter: &str, action: Option<&str>) -> Rule {
        let sql = |text| SqlFilter::parse(text, Parameters::new()).expect("a filter");
        let label = |label: &str| CorrelationFilter {
            system: vec![(SystemProperty::Label, label.to_owned())],
            user: Vec::new(),
        };
        Rule {
            name: RuleName::parse(name).expect("a name"),
            filter: match filter.strip_prefix("label:") {
                Some(text) => RuleFilter::Correlation(label(text)),
                None => RuleFilter::Sql(sql(filter)),
            },
            action: action
                .map(|text| SqlAction::parse(text, Parameters::new()).expect("an action")),
        }
    }

    fn book(rules: &[(SubscriptionId, Rule)]) -> RuleBook {
        let mut book = RuleBook::default();
        for (of, rule) in rules {
            book.put(*of, rule.clone());
        }
        book
    }

    fn paid() -> Sample {
        let label = PropertyValue::Text("paid".to_owned());
        Sample::new()
            .system(SystemProperty::Label, label)
            .user("total", PropertyValue::long(7))
    }

    #[test]
    fn rules_without_an_action_make_one_copy_and_each_with_one_makes_its_own() {
        let set = Some("SET kind = 'large'");
        let book = book(&[
            (ONE, Rule::default_rule()),
            (ONE, rule("paid", "label:paid", None)),
            (ONE, rule("total", "total > 5", None)),
            (ONE, rule("b", "label:paid", set)),
            (ONE, rule("a", "total > 5", set)),
            (TWO, rule("a", "total > 9", set)),
        ]);
        let copies = book.copies(&paid(), &Entropy::seeded(1));
        assert_eq!(copies.unchanged, BTreeSet::from([ONE]));
        let changing = copies.changing.iter();
        let names = changing.map(|(of, rule)| (*of, rule.name.as_str()));
        assert_eq!(names.collect::<Vec<_>>(), [(ONE, "a"), (ONE, "b")]);
        let large = Some(PropertyValue::Text("large".to_owned()));
        let changes = copies.changing[0].1.changes(&paid(), &Entropy::seeded(1));
        assert_eq!(changes.expect("applied").user, [("kind".to_owned(), large)]);
        assert!(copies.unevaluated.is_empty());
    }

    #[test]
    fn what_cannot_be_evaluated_is_told_once() {
        let book = book(&[
            (ONE, rule("a", "total / 0 = 1", None)),
            (ONE, rule("b", "sys.None = 1", None)),
            (ONE, rule("c", "1=1", None)),
            (TWO, rule("a", "1=1", Some("SET sys.Size = 1"))),
        ]);
        let entropy = Entropy::seeded(1);
        let copies = book.copies(&paid(), &entropy);
        assert_eq!(copies.unchanged, BTreeSet::from([ONE]), "by another rule");
        let expected = "The rule a: a number was divided by zero.".to_owned();
        assert_eq!(copies.unevaluated, BTreeMap::from([(ONE, expected)]));
        let problem = copies.changing[0].1.changes(&paid(), &entropy);
        let problem = problem.expect_err("a problem");
        assert!(problem.contains("Size cannot be changed"), "{problem}");
    }

    #[test]
    fn rules_are_replaced_and_removed() {
        let mut book = book(&[(ONE, Rule::default_rule())]);
        let gets = |book: &RuleBook| {
            let copies = book.copies(&paid(), &Entropy::seeded(1));
            copies.unchanged.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(gets(&book), [ONE]);
        book.put(TWO, rule("PAID", "label:other", None));
        assert_eq!(gets(&book), [ONE]);
        book.put(TWO, rule("paid", "label:paid", None));
        assert_eq!(book.of(TWO).count(), 1, "names in any letter case");
        assert_eq!(gets(&book), [ONE, TWO]);
        let default = RuleName::parse("$default").expect("a name");
        assert!(book.find(ONE, &default).is_some());
        book.remove(ONE, &default);
        assert_eq!(gets(&book), [TWO]);
        book.remove_all(TWO);
        assert_eq!(gets(&book), []);
        assert_eq!(book.all().count(), 0);
    }
}
