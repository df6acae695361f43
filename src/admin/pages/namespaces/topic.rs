//! What the topics of namespaces have forms of their own for: to make one, and to say how long it keeps
//! events.

use crate::admin::forms::form_page::FormPage;
use crate::admin::forms::rows::{self, Part, Row, RowSection, part, section};
use crate::admin::page::*;
use crate::admin::paths::{namespace_page, topic_page};
use crate::admin::widgets::print;
use crate::broker::ManageError;
use crate::model::limits::EVENT_RETENTION_DAYS_MAX;
use crate::model::name::{NamespaceName, TopicName};
use crate::model::registry::NamespaceEntry;
use crate::model::topic::TopicDefinition;
use crate::wire::resource::parse_namespace_topic;

const RETENTION: &str = "eventRetentionInDays";

const DAYS: Part = part(
    "properties",
    &[
        Row::whole(RETENTION, "Days that events wait for their receivers")
            .range(1, EVENT_RETENTION_DAYS_MAX),
    ],
);
const NAME: Part = part(
    "",
    &[Row::line("name", "Name")
        .apart()
        .mono()
        .required()
        .hint("3 to 50 letters, digits and hyphens, such as orders. It is part of the URL.")],
);
const NEW: &[RowSection] = &[section("Topic", &[NAME, DAYS])];
const RETAINING: &[RowSection] = &[section("Retention", &[DAYS])];

/// The form for a new topic of a namespace.
pub(crate) async fn draft(
    Call {
        visitor, of: entry, ..
    }: Call<Arc<NamespaceEntry>>,
) -> PageResult {
    let form = Form::of([(RETENTION, "1".to_owned())]);
    Ok(draw_new(&visitor, &entry.namespace.name, &form, None))
}

/// Makes the topic.
pub(crate) async fn create(
    State(site): State<Arc<Site>>,
    Call {
        of, visitor, form, ..
    }: Call<Arc<NamespaceEntry>>,
) -> PageResult {
    let namespace = &of.namespace.name;
    let parse = |name: &str| TopicName::in_namespace(namespace, name);
    let is_taken = |name: &TopicName| site.broker.registry().topic(name).is_some();
    let name = rows::new_name(&form, "a topic", parse, is_taken);
    let (name, definition) = match rows::both(name, read(&form)) {
        Ok(read) => read,
        Err(refusals) => return Ok(draw_new(&visitor, namespace, &form, refusals)),
    };
    match site
        .broker
        .put_topic(&visitor.caller, name.clone(), definition)
        .await
    {
        Ok(_) => {}
        Err(error @ ManageError::TooManyTopics(..)) => {
            let refusal = Refusal::whole(sentence(&error.to_string()));
            return Ok(draw_new(&visitor, namespace, &form, Some(refusal)));
        }
        Err(error) => return Err(error.into()),
    }
    let next = "Publish to its URL with a key of its own or of the namespace, and subscribe \
                whoever wants its events.";
    let message = format!("Topic {name} has been created. {next}");
    visitor
        .leave(Flash::done(message), &topic_page(name.as_str()))
        .await
}

/// The form that says how long a topic keeps events.
pub(crate) async fn edit_retention(
    Call {
        visitor, of: topic, ..
    }: Call<Arc<TopicEntry>>,
) -> PageResult {
    let retention = retention(&topic)?;
    let form = Form::of([(RETENTION, print::days(retention).to_string())]);
    Ok(draw_retention(&visitor, &topic, &form, None))
}

/// Changes how long.
pub(crate) async fn change_retention(
    State(site): State<Arc<Site>>,
    Call {
        of, visitor, form, ..
    }: Call<Arc<TopicEntry>>,
) -> PageResult {
    let topic = of;
    retention(&topic)?;
    let definition = match read(&form) {
        Ok(definition) => definition,
        Err(refusals) => return Ok(draw_retention(&visitor, &topic, &form, refusals)),
    };
    let name = &topic.topic.name;
    site.broker
        .put_topic(&visitor.caller, name.clone(), definition)
        .await?;
    let message = format!("How long {name} keeps events has been changed.");
    visitor
        .leave(Flash::done(message), &topic_page(name.as_str()))
        .await
}

/// How long a topic of a namespace keeps events.
fn retention(topic: &TopicEntry) -> Result<Duration, PageError> {
    topic.topic.definition.event_retention.ok_or_else(|| {
        PageError::Conflict(format!(
            "{} is no topic of a namespace: it keeps events as long as the settings of the \
             appliance say.",
            topic.topic.name
        ))
    })
}

fn read(form: &Form) -> Result<TopicDefinition, Vec<Refusal>> {
    rows::read(RETAINING, form, |document| parse_namespace_topic(&document))
}

fn draw_new(
    visitor: &Visitor,
    namespace: &NamespaceName,
    form: &Form,
    refusals: impl IntoIterator<Item = Refusal>,
) -> Response {
    let page = FormPage {
        intro: "It takes in CloudEvents 1.0, with the keys of the namespace or its own.".to_owned(),
        sections: rows::fields(NEW, form),
        button: "Create topic",
        back: namespace_page(namespace.as_str()),
    };
    let frame = Frame::new(visitor, format!("New topic of {namespace}"));
    page.draw(frame, refusals)
}

fn draw_retention(
    visitor: &Visitor,
    topic: &TopicEntry,
    form: &Form,
    refusals: impl IntoIterator<Item = Refusal>,
) -> Response {
    let name = topic.topic.name.as_str();
    let page = FormPage {
        intro:
            "An event that nobody has taken by then is dead-lettered. Subscriptions with a shorter \
                time to live of their own keep it."
                .to_owned(),
        sections: rows::fields(RETAINING, form),
        button: "Save changes",
        back: topic_page(name),
    };
    let frame = Frame::new(visitor, format!("Retention of {name}"));
    page.draw(frame, refusals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_whole_and_few() {
        let read = |days: &str| read(&Form::of([(RETENTION, days.to_owned())]));
        let retention = |text| read(text).map(|topic| topic.event_retention.map(print::days));
        assert_eq!(retention("7"), Ok(Some(7)));
        assert_eq!(retention(""), Ok(Some(1)));
        for wrong in ["0", "8", "1.5", "long"] {
            let refusal = read(wrong).expect_err(wrong);
            assert_eq!(refusal[0].target, "properties.eventRetentionInDays");
        }
    }
}
