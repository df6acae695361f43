//! The rules of a subscription: their form, and which of the messages that were sent lately one would match.

use serde_json::Map;

use super::*;
use crate::admin::forms::form::number;
use crate::admin::pages::subscriptions::TrialText;
use crate::admin::refusal::of_fields;
use crate::broker::Put;
use crate::model::filter_trial::TrialFindings;
use crate::model::limits::{TRIAL_DEADLINE, TRIAL_EVENTS, TRIAL_EVENTS_MAX};
use crate::model::rule::{Parameters, Rule, RuleFilter, SqlFilter};

/// A rule of a subscription.
#[derive(Clone, Debug)]
pub(crate) struct BusRule {
    of: Queue,
    pub(crate) rule: Arc<Rule>,
}

impl BusRule {
    /// Those of the subscription; a queue has none.
    pub(crate) fn all_of(call: &Call<Queue>) -> Vec<Self> {
        let of = &call.of;
        let all = of.topic.rules.of(of.subscription.id);
        all.map(|rule| Self {
            of: of.clone(),
            rule: Arc::clone(rule),
        })
        .collect()
    }

    /// As the management API shows it.
    fn document(&self) -> Value {
        resource::render_rule(&self.of.topic, &self.of.subscription, &self.rule)
    }

    /// What its filter asks, as in SQL.
    pub(crate) fn filter(&self) -> String {
        resource::filter_text(&self.document()["properties"])
    }

    pub(crate) fn action(&self) -> Option<&str> {
        self.rule.action.as_ref().map(|action| action.text())
    }
}

impl Subject for BusRule {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let of = Queue::find(site, names).await?;
        let text = name_of(names, "rule");
        let name = existing(RuleName::parse(text).ok(), "rule", text)?;
        let found = site.broker.rule(&of.names(), &name)?;
        Ok(Self { of, rule: found })
    }

    fn page(&self) -> String {
        self.of.page()
    }

    fn name(&self) -> String {
        self.rule.name.to_string()
    }

    fn address(&self) -> String {
        format!("{}/rules/{}", self.page(), self.rule.name)
    }
}

/// The form of a rule. Its fields are named by their paths in the document.
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

impl Sheet<Queue> for RuleForm {
    const HEAD: Head = (Fields::Rule, "New rule for", "");

    fn begin(_: &Call<Queue>) -> PageResult<Self> {
        Ok(Self(Form::of([(TYPE, "SqlFilter")])))
    }

    async fn save(&self, call: &Call<Queue>) -> PageResult {
        let rules = &call.of.topic.rules;
        let is_taken = |name: &RuleName| rules.find(call.of.subscription.id, name).is_some();
        let rule = self.read(&Rule::default_rule(), json!({}));
        let (name, rule) = named(&self.0, "a rule", RuleName::parse, is_taken, rule)?;
        let rule = Rule { name, ..rule };
        put(call, &call.of, rule, (Put::Create, "has been created.")).await
    }
}

impl Sheet<BusRule> for RuleForm {
    const HEAD: Head = (Fields::Rule, "Edit rule", "");

    fn begin(call: &Call<BusRule>) -> PageResult<Self> {
        let document = call.of.document();
        let text = |name: &str| {
            let pointer = format!("/properties/{}", name.replace('.', "/"));
            let text = document.pointer(&pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let compared = COMPARED.map(|(name, _)| name);
        let texts = [TYPE, SQL, ACTION].into_iter().chain(compared);
        let mut form = Form::of(texts.map(|name| (name, text(name))));
        let given = &document["properties"]["correlationFilter"]["properties"];
        let given = given.as_object().into_iter().flatten();
        let lines: Vec<String> = given.map(|(name, value)| line(name, value)).collect();
        form.set(PROPERTIES, lines.join("\n"));
        Ok(Self(form))
    }

    async fn save(&self, call: &Call<BusRule>) -> PageResult {
        // The values of names behind @ are not in the form.
        let document = call.of.document();
        let kept = |of: &str| json!({ "parameters": document["properties"][of]["parameters"] });
        let mut fixed = json!({});
        for of in ["sqlFilter", "action"] {
            if document["properties"][of]["parameters"].is_object() {
                fixed[of] = kept(of);
            }
        }
        let rule = self.read(&call.of.rule, fixed)?;
        put(call, &call.of.of, rule, (Put::Update, "has been changed.")).await
    }
}

async fn put<S>(call: &Call<S>, of: &Queue, rule: Rule, (put, said): (Put, &str)) -> PageResult {
    let (topic, name) = (of.topic_name(), &of.subscription.name);
    let said = Flash::done(format!("Rule {} {said}", rule.name));
    let put = call.broker.put_rule(call.by(), topic, name, rule, put);
    put.await?;
    call.visitor.leave(said, &of.page()).await
}

impl RuleForm {
    /// The rule with the name of `like`, or all that is wrong with it.
    fn read(&self, like: &Rule, fixed: Value) -> Result<Rule, Vec<Refusal>> {
        let (form, mut properties) = (&self.0, fixed);
        let kind = form.text(TYPE);
        properties[TYPE] = kind.into();
        match kind {
            "SqlFilter" => properties["sqlFilter"]["sqlExpression"] = form.text(SQL).into(),
            "CorrelationFilter" => {
                let mut filter = Map::new();
                for (path, _) in COMPARED {
                    let (_, name) = path.split_once('.').unwrap_or_default();
                    let value = form.filled(path).map(Value::from);
                    filter.extend(value.map(|value| (name.to_owned(), value)));
                }
                filter.insert("properties".to_owned(), self.properties()?);
                properties["correlationFilter"] = filter.into();
            }
            _ => {}
        }
        match form.filled(ACTION) {
            Some(action) => properties["action"]["sqlExpression"] = action.into(),
            None => properties["action"] = Value::Null,
        }
        let document = json!({ "properties": properties });
        let rule = resource::parse_rule(like.name.clone(), &document);
        rule.map_err(|invalid| {
            let mut refusals = of_fields(&invalid);
            for each in &mut refusals {
                if each.target.starts_with(PROPERTIES) {
                    PROPERTIES.clone_into(&mut each.target);
                }
            }
            refusals
        })
    }

    fn properties(&self) -> Result<Value, Vec<Refusal>> {
        let pairs = properties_of(self.0.raw(PROPERTIES));
        let pairs = pairs.map_err(|problem| vec![Refusal::of(PROPERTIES, problem)])?;
        Ok(Value::Object(pairs.into_iter().collect()))
    }
}

/// Application properties, one a line, or what is wrong with the first line that is none.
pub(crate) fn properties_of(text: &str) -> Result<Vec<(String, Value)>, String> {
    let lines = text.lines().map(str::trim);
    let pair = |line: &str| {
        let problem = || format!("{line:?} is incomplete: write a name, = and a value.");
        let (name, value) = line.split_once('=').ok_or_else(problem)?;
        Ok((name.trim().to_owned(), value_of(value.trim())))
    };
    lines.filter(|line| !line.is_empty()).map(pair).collect()
}

/// A value as it is typed: JSON that is no text says what it is, in quotes it is a text in any case.
fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn line(name: &str, value: &Value) -> String {
    let plain = value.as_str().filter(|text| value_of(text) == *value);
    match plain {
        Some(text) => format!("{name} = {text}"),
        None => format!("{name} = {value}"),
    }
}

pub(crate) async fn ask_to_delete_rule(call: Call<BusRule>) -> PageResult<Question> {
    let BusRule { of, rule } = &call.of;
    let then = match of.topic.rules.of(of.subscription.id).count() {
        1 => "It is the only rule: {of} gets no more messages.",
        _ => "{of} gets no more messages by it; the other rules stay.",
    };
    Ok(Question::new(format!("Delete rule {}?", rule.name))
        .would(format!("Its filter: {}", print::visible(&call.of.filter())))
        .would(then.replace("{of}", &of.name()))
        .would("Messages that are there already stay.")
        .dangerously())
}

pub(crate) async fn delete_rule(call: Call<BusRule>) -> PageResult<Flash> {
    let BusRule { of, rule } = &call.of;
    let (topic, name) = (of.topic_name(), &of.subscription.name);
    let delete = call.broker.delete_rule(call.by(), topic, name, &rule.name);
    delete.await?;
    Ok(Flash::done(format!("Rule {} has been deleted.", rule.name)).leading_to(of.page()))
}

/// What is tried: a rule that there is, or a condition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RuleTrial {
    rule: String,
    sql: String,
    last: String,
}

/// Tries a filter on messages that were sent to the topic.
pub(crate) async fn try_rule(Query(asked): Query<RuleTrial>, call: Call<Queue>) -> PageResult {
    let rules = BusRule::all_of(&call);
    let rule = rules.into_iter().find(|each| each.name() == asked.rule);
    let form = Filled::with(asked);
    let (tried, form) = form.read(|asked| asked.read(rule.as_ref()));
    let trial = match tried.flatten() {
        Some((filter, last)) => {
            let topic = &call.of.topic;
            let tried = call.broker.try_rule(topic, &filter, last, TRIAL_DEADLINE);
            let found: (TrialFindings, bool) = tried.await?;
            let send = call.visitor.step(call.of.sends_at(), "Send message");
            let empty = Empty::new(
                "queues",
                "No messages to try it on.",
                "The topic keeps what was sent for as long as it keeps events.",
            );
            Some(TrialText::of_rule(
                call.of.topic_name().clone(),
                found,
                empty.leading_to(send),
            ))
        }
        None => None,
    };
    answer!("pages/bus_rule_trial.html", &call.visitor, "Try a filter", {
        form: Filled<RuleTrial> = form,
        // The rule that is tried, if it is one that there is.
        rule: Option<BusRule> = rule,
        trial: Option<TrialText> = trial,
        of: Queue = call.of,
    }, form)
}

impl RuleTrial {
    /// The filter, and how many messages to try it on; `None` for nothing.
    fn read(&self, rule: Option<&BusRule>) -> Result<Option<(RuleFilter, usize)>, Vec<Refusal>> {
        let last = match given(&self.last) {
            None => Some(TRIAL_EVENTS),
            Some(text) => number(&text)
                .as_u64()
                .and_then(|last| usize::try_from(last).ok()),
        };
        let last = last.filter(|last| (1..=TRIAL_EVENTS_MAX).contains(last));
        let last = last.ok_or_else(|| {
            let problem = format!("It must be a number from 1 to {TRIAL_EVENTS_MAX}.");
            vec![Refusal::of("last", problem)]
        })?;
        let filter = match (rule, given(&self.sql)) {
            (Some(rule), _) => rule.rule.filter.clone(),
            (None, Some(sql)) => {
                let filter = SqlFilter::parse(&sql, Parameters::new());
                let filter = filter
                    .map_err(|error| vec![Refusal::of("sql", sentence(&error.to_string()))])?;
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
            let line = line("n", &value);
            assert_eq!(line, expected);
            let form = RuleForm(Form::of([(PROPERTIES, line)]));
            assert_eq!(form.properties(), Ok(json!({ "n": value })));
        }
    }

    #[test]
    fn what_is_wrong_is_said_at_its_field() {
        let rule = |fields: &[(&str, &str)]| {
            let form = RuleForm(Form::of(fields.iter().copied()));
            form.read(&Rule::default_rule(), json!({}))
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
            let refused = rule(fields).expect_err(field);
            assert_eq!(refused[0].target, field, "{refused:?}");
        }
        let fine = rule(&[(TYPE, "SqlFilter"), (SQL, "a > 1"), (ACTION, "SET b = 2")]);
        assert!(fine.is_ok_and(|rule| rule.action.is_some()));
    }
}
