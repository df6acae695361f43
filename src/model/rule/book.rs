//! The rules of all subscriptions of a topic, and the copies that they make of a message.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use rpds::RedBlackTreeMapSync;

use crate::base::Entropy;
use crate::model::name::RuleName;
use crate::model::rule::index::CorrelationIndex;
use crate::model::rule::message::MessageView;
use crate::model::rule::sql::{Changes, EvaluationError};
use crate::model::rule::steps::Steps;
use crate::model::rule::{Rule, RuleFilter};
use crate::model::subscription::SubscriptionId;

/// The rules of a topic. Cheap to clone and to change.
#[derive(Clone, Default)]
pub struct RuleBook {
    /// By subscription and the name's key.
    rules: RedBlackTreeMapSync<SubscriptionId, RedBlackTreeMapSync<String, Arc<Rule>>>,
    /// The compiled rules, built for the first message after a change.
    ready: OnceLock<Arc<CompiledRules>>,
}

/// Prints the rules by subscription, independent of the order in which they were added.
impl fmt::Debug for RuleBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subscriptions = self.rules.keys();
        let each = subscriptions.map(|of| (of, self.of(*of).collect::<Vec<_>>()));
        f.debug_map().entries(each).finish()
    }
}

/// A rule and the subscription that it belongs to.
type Place = (SubscriptionId, Arc<Rule>);

/// The rules, compiled for matching messages.
#[derive(Debug, Default)]
struct CompiledRules {
    by_correlation: CorrelationIndex<Place>,
    /// The rules without a correlation filter, which are evaluated for every message. Subscriptions with the fewest
    /// such rules come first.
    others: Vec<(SubscriptionId, Vec<Arc<Rule>>)>,
}

/// The copies that rules make of a message.
#[derive(Debug, Default, PartialEq)]
pub struct Copies {
    /// The subscriptions that get an unchanged copy: one each, for all matching rules without an action.
    pub unchanged: BTreeSet<SubscriptionId>,
    /// The copies made by matching rules with an action, one per rule, ordered by subscription and rule name.
    pub changing: Vec<ChangedCopy>,
    /// The subscriptions with a rule that cannot be evaluated for the message, and the first problem of each.
    pub unevaluated: BTreeMap<SubscriptionId, String>,
    /// Is true if the steps were not sufficient for all rules.
    pub is_cut: bool,
}

/// A copy that an action makes.
#[derive(Debug, PartialEq)]
pub struct ChangedCopy {
    pub of: SubscriptionId,
    pub rule: Arc<Rule>,
    pub changes: Changes,
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

    /// Applies the rules to `message` for the subscriptions that `takes` accepts. Each subscription gets an equal share
    /// of the remaining steps, so that the rules of one subscription cannot deprive another subscription of its
    /// messages.
    pub fn copies(
        &self,
        message: &dyn MessageView,
        entropy: &Entropy,
        takes: impl Fn(SubscriptionId) -> bool,
        steps: &mut Steps,
    ) -> Copies {
        let ready = self.ready.get_or_init(|| Arc::new(self.made_ready()));
        let mut correlated: BTreeMap<SubscriptionId, Vec<&Arc<Rule>>> = BTreeMap::new();
        for (_, (of, rule)) in ready.by_correlation.candidates(message) {
            correlated.entry(*of).or_default().push(rule);
        }
        let others = ready.others.iter();
        let each: Vec<(_, Vec<_>)> = correlated
            .into_iter()
            .chain(others.map(|(of, rules)| (*of, rules.iter().collect())))
            .filter(|(of, _)| takes(*of))
            .collect();
        let mut copies = Copies::default();
        for (place, (of, rules)) in each.iter().enumerate() {
            let mut part = steps.part(each.len() - place);
            for rule in rules {
                if let Err(error) = copies.add(*of, rule, message, entropy, &mut part) {
                    copies.is_cut |= error == EvaluationError::TooManySteps;
                    let problem = || rule.problem(&error);
                    copies.unevaluated.entry(*of).or_insert_with(problem);
                }
            }
            steps.give_back(&part);
        }
        let place = |copy: &ChangedCopy| (copy.of, copy.rule.name.key());
        copies.changing.sort_by_cached_key(place);
        copies
    }

    fn made_ready(&self) -> CompiledRules {
        let mut ready = CompiledRules::default();
        let mut by_correlation = Vec::new();
        for (of, rules) in &self.rules {
            let mut others = Vec::new();
            for rule in rules.values() {
                match &rule.filter {
                    RuleFilter::Correlation(filter) => {
                        by_correlation.push((filter.clone(), (*of, Arc::clone(rule))));
                    }
                    RuleFilter::All | RuleFilter::Sql(_) => others.push(Arc::clone(rule)),
                    RuleFilter::None => {}
                }
            }
            if !others.is_empty() {
                ready.others.push((*of, others));
            }
        }
        ready.others.sort_by_key(|(_, rules)| rules.len());
        ready.by_correlation = by_correlation.into_iter().collect();
        ready
    }
}

impl Copies {
    /// Adds the copy that a rule makes of a message, if the rule matches.
    fn add(
        &mut self,
        of: SubscriptionId,
        rule: &Arc<Rule>,
        message: &dyn MessageView,
        entropy: &Entropy,
        steps: &mut Steps,
    ) -> Result<(), EvaluationError> {
        if !rule.filter.matches(message, entropy, steps)? {
            return Ok(());
        }
        match &rule.action {
            None => {
                self.unchanged.insert(of);
            }
            Some(action) => self.changing.push(ChangedCopy {
                of,
                rule: Arc::clone(rule),
                changes: action.apply(message, entropy, steps)?,
            }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::limits::RULE_STEPS_MAX;
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
            created_at: None,
        }
    }

    fn book(rules: &[(SubscriptionId, Rule)]) -> RuleBook {
        let mut book = RuleBook::default();
        for (of, rule) in rules {
            book.put(*of, rule.clone());
        }
        book
    }

    fn copies_of(book: &RuleBook, message: &Sample) -> Copies {
        let mut steps = Steps::of_message();
        book.copies(message, &Entropy::seeded(1), |_| true, &mut steps)
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
        let copies = copies_of(&book, &paid());
        assert_eq!(copies.unchanged, BTreeSet::from([ONE]));
        let changing = copies.changing.iter();
        let names = changing.map(|copy| (copy.of, copy.rule.name.as_str()));
        assert_eq!(names.collect::<Vec<_>>(), [(ONE, "a"), (ONE, "b")]);
        let large = Some(PropertyValue::Text("large".to_owned()));
        let changes = &copies.changing[0].changes;
        assert_eq!(changes.user, [("kind".to_owned(), large)]);
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
        let mut copies = copies_of(&book, &paid());
        assert_eq!(copies.unchanged, BTreeSet::from([ONE]), "by another rule");
        let problem = copies.unevaluated.remove(&TWO).expect("a problem");
        assert!(problem.contains("Size cannot be changed"), "{problem}");
        let expected = "The rule a: a number was divided by zero.".to_owned();
        assert_eq!(copies.unevaluated, BTreeMap::from([(ONE, expected)]));
        assert!(copies.changing.is_empty() && !copies.is_cut);
    }

    #[test]
    fn rules_are_replaced_and_removed() {
        let mut book = book(&[(ONE, Rule::default_rule())]);
        let gets = |book: &RuleBook| {
            let copies = copies_of(book, &paid());
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

    /// A rule that is never true, and takes a step for nearly each character of `a` and of its own pattern.
    fn costly(number: usize) -> Rule {
        rule(
            &format!("r{number}"),
            "a LIKE '%y%x' OR a + a LIKE '%x'",
            None,
        )
    }

    #[test]
    fn rules_of_one_message_share_their_steps_and_cost_no_other_subscription_its_messages() {
        let mut book = RuleBook::default();
        (0..1_000).for_each(|number| book.put(ONE, costly(number)));
        book.put(TWO, rule("total", "total = 7 AND a LIKE '%y%y'", None));
        let labelled = SubscriptionId(3);
        book.put(labelled, rule("paid", "label:paid", None));
        let long = PropertyValue::Text("y".repeat(30_000));
        let message = paid().user("a", long);
        let mut steps = Steps::of_message();
        let copies = book.copies(&message, &Entropy::seeded(1), |_| true, &mut steps);
        assert_eq!(copies.unchanged, BTreeSet::from([TWO, labelled]));
        assert!(copies.is_cut);
        let cut: Vec<_> = copies.unevaluated.keys().collect();
        assert_eq!(cut, [&ONE]);
        assert!(
            copies.unevaluated[&ONE].contains("1000000 steps"),
            "{copies:?}"
        );
        // Who gets nothing costs nothing.
        let mut steps = Steps::of_message();
        let copies = book.copies(
            &message,
            &Entropy::seeded(1),
            |of| of == labelled,
            &mut steps,
        );
        assert_eq!(copies.unchanged, BTreeSet::from([labelled]));
        assert!(RULE_STEPS_MAX - steps.left() < 10, "{}", steps.left());
    }

    #[test]
    fn every_rule_that_is_evaluated_takes_steps_by_what_it_looks_at() {
        let long = PropertyValue::Text("y".repeat(64_000));
        let message = paid().user("a", long);
        let steps_of = |filter: &str, action: Option<&str>| {
            let book = book(&[(ONE, rule("r", filter, action))]);
            let mut steps = Steps::of_message();
            let copies = book.copies(&message, &Entropy::seeded(1), |_| true, &mut steps);
            assert!(copies.unevaluated.is_empty(), "{filter}: {copies:?}");
            RULE_STEPS_MAX - steps.left()
        };
        assert!((1..10).contains(&steps_of("1=1", None)));
        assert!((1..10).contains(&steps_of("label:paid", None)));
        for (filter, action, least) in [
            ("a LIKE 'y%x'", None, 64_000),
            ("a LIKE '%yx'", None, 128_000),
            ("a = 'y'", None, 4_000),
            ("a IN ('x', 'x', 'x', 'x')", None, 5 * 4_000),
            ("total IN (1, 2, 3, 4)", None, 7),
            ("a > a", None, 2 * 4_000),
            ("p('a') = 'x'", None, 4_000),
            ("NOT (total > 1 AND total > 2 AND total > 3)", None, 12),
            ("total = 7", Some("SET b = a; SET c = a"), 4 * 4_000),
            ("newid() = newid()", None, 100),
        ] {
            let steps = steps_of(filter, action);
            assert!(steps >= least, "{filter}: {steps} steps");
        }
    }
}
