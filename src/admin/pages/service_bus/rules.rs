//! The rule form of a subscription, and the trial of a rule filter on recently sent messages.

use std::sync::Arc;

use axum::extract::Query;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admin::action::{Call, Deletable, Names, Question, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::forms::document::Shape;
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::{Form, FormError, number};
use crate::admin::forms::sheet::{Head, Sheet, SheetFields, named};
use crate::admin::lists::filter::given;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::pages::queues::QueueName;
use crate::admin::pages::subscriptions::TrialText;
use crate::admin::site::{Site, named_in};
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Empty, Flash, filters, print};
use crate::broker::Put;
use crate::model::limits::{TRIAL_DEADLINE, TRIAL_EVENTS, TRIAL_EVENTS_MAX};
use crate::model::name::RuleName;
use crate::model::rule::{Parameters, Rule, RuleFilter, SqlFilter};
use crate::wire::resource;
use crate::wire::resource::bodies::RuleRequest;

/// A rule of a subscription.
#[derive(Clone, Debug)]
pub(crate) struct BusRule {
    of: QueueName,
    pub(crate) rule: Arc<Rule>,
}

impl BusRule {
    /// Returns the rules of the subscription; a queue has none.
    pub(crate) fn all_of(call: &Call<QueueName>) -> Vec<Self> {
        let of = &call.of;
        let all = of.topic.rules.of(of.subscription.id);
        all.map(|rule| Self {
            of: of.clone(),
            rule: Arc::clone(rule),
        })
        .collect()
    }

    /// Renders the rule as the management API shows it.
    fn document(&self) -> Value {
        resource::render_rule(&self.of.topic, &self.of.subscription, &self.rule)
    }

    /// Returns the filter of the rule in SQL syntax.
    pub(crate) fn filter(&self) -> String {
        resource::filter_text(&self.document()["properties"])
    }

    pub(crate) fn action(&self) -> Option<&str> {
        self.rule.action.as_ref().map(|action| action.text())
    }
}

impl Subject for BusRule {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let of = QueueName::find(site, names).await?;
        let name = named_in("rule", name_of(names, "rule"), RuleName::parse)?;
        let found = site.broker.rule(&of.names(), &name)?;
        Ok(Self { of, rule: found })
    }

    fn page(&self) -> String {
        self.of.page()
    }

    fn address(&self) -> String {
        format!("{}/rules/{}", self.page(), self.rule.name)
    }
}

/// The form of a rule. Each field name is a path in the document.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RuleForm(Form);

const TYPE: &str = "filterType";
const SQL: &str = "sqlFilter.sqlExpression";
const ACTION: &str = "action.sqlExpression";
const PROPERTIES: &str = "correlationFilter.properties";

/// The properties of a message that a correlation filter compares.
pub(crate) const COMPARED: [(&str, &str); 8] = [
    ("correlationFilter.label", "Subject"),
    ("correlationFilter.correlationId", "Correlation ID"),
    ("correlationFilter.messageId", "Message ID"),
    ("correlationFilter.to", "To"),
    ("correlationFilter.replyTo", "Reply to"),
    ("correlationFilter.sessionId", "Session ID"),
    ("correlationFilter.replyToSessionId", "Reply session"),
    ("correlationFilter.contentType", "Content type"),
];

impl Sheet<QueueName> for RuleForm {
    const HEAD: Head = (SheetFields::Rule, "New rule for", "");

    fn begin(_: &Call<QueueName>) -> PageResult<Self> {
        Ok(Self(Form::of([(TYPE, "SqlFilter")])))
    }

    async fn save(&self, call: &Call<QueueName>) -> PageResult {
        let rules = &call.of.topic.rules;
        let is_taken = |name: &RuleName| rules.find(call.of.subscription.id, name).is_some();
        let rule = self.read(&Rule::default_rule(), &Value::Null);
        let (name, rule) = named(&self.0, "a rule", RuleName::parse, is_taken, rule)?;
        let rule = Rule { name, ..rule };
        put(call, &call.of, rule, Put::Create, "has been created.").await
    }
}

impl Sheet<BusRule> for RuleForm {
    const HEAD: Head = (SheetFields::Rule, "Edit rule", "");

    fn begin(call: &Call<BusRule>) -> PageResult<Self> {
        let names = [TYPE, SQL, ACTION, PROPERTIES]
            .into_iter()
            .chain(COMPARED.map(|(name, _)| name));
        let (shape, document) = (Shape::of::<RuleRequest>(), call.of.document());
        let texts = names.map(|name| (name, shape.text(name, &document)));
        Ok(Self(Form::of(texts)))
    }

    async fn save(&self, call: &Call<BusRule>) -> PageResult {
        let rule = self.read(&call.of.rule, &call.of.document())?;
        put(call, &call.of.of, rule, Put::Update, "has been changed.").await
    }
}

async fn put<S>(call: &Call<S>, of: &QueueName, rule: Rule, kind: Put, said: &str) -> PageResult {
    let (topic, name) = (of.topic_name(), &of.subscription.name);
    let said = Flash::done(format!("Rule {} {said}", rule.name));
    let put = call.broker.put_rule(call.by(), topic, name, rule, kind);
    put.await?;
    call.visitor.leave(said, &of.page()).await
}

impl RuleForm {
    /// Returns the rule with the name of `like`, or all errors in the form. Values with a name after @ are not in the
    /// form and keep their value in `shown`.
    fn read(&self, like: &Rule, shown: &Value) -> Result<Rule, Vec<FormError>> {
        let kind = self.0.text(TYPE);
        let kept = |part: &str| {
            let parameters = &shown["properties"][part]["parameters"];
            if parameters.is_null() {
                json!({})
            } else {
                json!({ "parameters": parameters })
            }
        };
        let mut properties = json!({ "action": kept("action") });
        match kind {
            "SqlFilter" => properties["sqlFilter"] = kept("sqlFilter"),
            "CorrelationFilter" => properties["correlationFilter"] = json!({}),
            _ => {}
        }
        // Fields that belong to another kind of filter are ignored.
        let form = self.0.without(|name| {
            let filter = name.split_once('.').filter(|(part, _)| *part != "action");
            filter.is_some_and(|(part, _)| !part.eq_ignore_ascii_case(kind))
        });
        let document = json!({ "properties": properties });
        let parse = |document: &Value| resource::parse_rule(like.name.clone(), document);
        Shape::of::<RuleRequest>().define(&form, document, parse)
    }
}

impl Deletable for BusRule {
    const NOUN: &'static str = "rule";

    async fn losing(call: &Call<Self>, question: Question) -> PageResult<Question> {
        let (of, name) = (&call.of.of, call.of.of.name());
        let then = match of.topic.rules.of(of.subscription.id).count() {
            1 => format!("It is the only rule: {name} gets no more messages."),
            _ => format!("{name} gets no more messages by it; the other rules stay."),
        };
        Ok(question
            .would(format!("Its filter: {}", print::visible(&call.of.filter())))
            .would(then)
            .would("Messages that are there already stay."))
    }

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let (topic, own) = (call.of.of.topic_name(), &call.of.of.subscription.name);
        let rule = &call.of.rule.name;
        Ok(call.broker.delete_rule(call.by(), topic, own, rule).await?)
    }
}

/// The filter to try: the filter of an existing rule, or a typed condition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RuleTrial {
    rule: String,
    sql: String,
    last: String,
}

/// Tries a filter on messages that were sent to the topic.
pub(crate) async fn try_rule(Query(asked): Query<RuleTrial>, call: Call<QueueName>) -> PageResult {
    let rules = BusRule::all_of(&call);
    let rule = rules.into_iter().find(|each| each.name() == asked.rule);
    let form = FilledForm::with(asked);
    let (tried, form) = form.read(|asked| asked.read(rule.as_ref()));
    let trial = match tried.flatten() {
        Some((filter, last)) => {
            let topic = &call.of.topic;
            let tried = call.broker.try_rule(topic, &filter, last, TRIAL_DEADLINE);
            let (findings, is_complete) = tried.await?;
            let send = call.visitor.step(call.of.sends_at(), "Send message");
            let empty = Empty::new(
                "queues",
                "No messages to try it on.",
                "The topic keeps what was sent for as long as it keeps events.",
            );
            Some(TrialText {
                topic: call.of.topic_name().clone(),
                is_of_messages: true,
                findings,
                is_complete,
                empty: empty.leading_to(send),
                recipe: Recipe::default(),
            })
        }
        None => None,
    };
    let name = rule.as_ref().map(BusRule::name);
    let title = name.map_or("Try a filter".to_owned(), |name| format!("Try rule {name}"));
    answer!("pages/bus_rule_trial.html", &call.visitor, title, {
        form: FilledForm<RuleTrial> = form,
        // The rule under trial, if it already exists.
        rule: Option<BusRule> = rule,
        trial: Option<TrialText> = trial,
        of: QueueName = call.of,
    }, form)
}

impl RuleTrial {
    /// Returns the filter and the number of messages to try it on; `None` if there is nothing to try.
    fn read(&self, rule: Option<&BusRule>) -> Result<Option<(RuleFilter, usize)>, Vec<FormError>> {
        let typed = match given(&self.last) {
            None => Some(TRIAL_EVENTS),
            Some(text) => number(&text)
                .as_u64()
                .and_then(|last| usize::try_from(last).ok()),
        };
        let last = typed
            .filter(|last| (1..=TRIAL_EVENTS_MAX).contains(last))
            .ok_or_else(|| {
                let problem = format!("It must be a number from 1 to {TRIAL_EVENTS_MAX}.");
                vec![FormError::of("last", problem)]
            })?;
        let filter = match (rule, given(&self.sql)) {
            (Some(rule), _) => rule.rule.filter.clone(),
            (None, Some(sql)) => {
                let filter = SqlFilter::parse(&sql, Parameters::new())
                    .map_err(|error| vec![FormError::of("sql", sentence(&error.to_string()))])?;
                RuleFilter::Sql(filter)
            }
            (None, None) => return Ok(None),
        };
        Ok(Some((filter, last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_types_in_a_form() {
        for (value, expected) in [
            (json!("red"), "n = red"),
            (json!("a = b"), "n = a = b"),
            (json!(7), "n = 7"),
            (json!("7"), "n = \"7\""),
            (json!(true), "n = true"),
            (json!({ "uuid": "0" }), "n = {\"uuid\":\"0\"}"),
        ] {
            let shape = Shape::of::<RuleRequest>();
            let filter = json!({ "properties": { "n": value } });
            let document = json!({ "properties": { "correlationFilter": filter } });
            let line = shape.text(PROPERTIES, &document);
            assert_eq!(line, expected);
            let form = Form::of([(PROPERTIES, line)]);
            let written = shape.define(&form, json!({}), |written| Ok(written.clone()));
            assert_eq!(written, Ok(document));
        }
    }

    #[test]
    fn what_is_wrong_is_said_at_its_field() {
        let rule = |fields: &[(&str, &str)]| {
            let form = RuleForm(Form::of(fields.iter().copied()));
            form.read(&Rule::default_rule(), &Value::Null)
        };
        for (fields, field) in [
            (&[(TYPE, "SqlFilter"), (SQL, "a >")][..], SQL),
            (&[(TYPE, "TrueFilter"), (ACTION, "SET")], ACTION),
            (
                &[(TYPE, "CorrelationFilter"), (PROPERTIES, "a")],
                PROPERTIES,
            ),
            (
                &[(TYPE, "CorrelationFilter"), (PROPERTIES, "a = [1]")],
                PROPERTIES,
            ),
            (&[(TYPE, "CorrelationFilter")], "correlationFilter"),
        ] {
            let rejected = rule(fields).expect_err(field);
            assert!(rejected[0].fits(field), "{rejected:?}");
        }
        let fine = rule(&[(TYPE, "SqlFilter"), (SQL, "a > 1"), (ACTION, "SET b = 2")]);
        assert!(fine.is_ok_and(|rule| rule.action.is_some()));
    }
}
