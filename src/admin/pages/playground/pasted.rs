//! A pasted event, read as its topic would read it.

use crate::admin::forms::field::Field;
use crate::admin::forms::json_fault;
use crate::admin::page::*;
use crate::admin::widgets::json_text;
use crate::model::event::Event;
use crate::model::filter::EventView;
use crate::model::name::TopicName;
use crate::model::topic::InputSchema;
use crate::wire;
use crate::wire::pasted::recognize;

/// The field with the event.
pub(crate) const EVENT: &str = "event";

/// The topic that events are thought of which name none.
const NOWHERE: &str = "playground";

/// An event, and where it would have been published.
pub(crate) struct Pasted {
    pub(crate) event: Event,
    /// `None` for no topic in particular.
    pub(crate) topic: Option<Arc<TopicEntry>>,
    pub(crate) schema: InputSchema,
    /// The resource id of the topic.
    pub(crate) resource_id: Arc<str>,
}

impl Pasted {
    /// Reads what was pasted, as an event of `topic` or by what it tells of itself.
    pub(crate) fn read(
        site: &Site,
        form: &Form,
        topic: Option<Arc<TopicEntry>>,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        // Browsers end the lines of a form in their own way, which must not show in the bytes of a delivery.
        let json = text(form, EVENT, site.publish_bytes_max)?.replace("\r\n", "\n");
        let (schema, resource_id) = match &topic {
            Some(topic) => {
                let schema = topic.topic.definition.input_schema.clone();
                (schema, Arc::clone(&topic.resource_id))
            }
            None => {
                let recognized = recognize(&json);
                let named = recognized.topic.map(Arc::from);
                (recognized.schema, named.unwrap_or_else(|| nowhere(site)))
            }
        };
        let event = wire::decode_one(&schema, &resource_id, &json, now, site.broker.entropy());
        let event = event.map_err(|bad| Refusal::of(EVENT, json_fault::of_events(&json, &bad)))?;
        Ok(Self {
            event,
            topic,
            schema,
            resource_id,
        })
    }

    /// The event as filters see it.
    pub(crate) fn view(&self) -> EventView<'_> {
        match &self.topic {
            Some(topic) => topic.view(&self.event),
            None => EventView::new(&self.event, &self.resource_id),
        }
    }
}

fn nowhere(site: &Site) -> Arc<str> {
    let name = TopicName::parse(NOWHERE).expect("it is a name");
    site.broker.registry().resource_id(&name).into()
}

/// The field to paste an event into.
pub(crate) fn field(form: &Form) -> Field {
    Field::area(EVENT, "Event", 10, form)
        .hint("One event as JSON, in the form in which a publisher sends it.")
        .required()
}

/// Puts an event to begin with into a form.
pub(crate) fn fill_example(site: &Site, form: &mut Form, now: Timestamp) {
    let example = wire::example(&InputSchema::EventGridSchema, site.broker.entropy(), now);
    let event = example.get(0).unwrap_or(&example);
    form.set(EVENT, json_text::laid_out(&event.to_string()));
}

/// A pasted text of at most so many bytes.
pub(crate) fn text<'a>(form: &'a Form, name: &str, bytes_max: usize) -> Result<&'a str, Refusal> {
    let text = form.raw(name);
    if text.len() <= bytes_max {
        return Ok(text);
    }
    let most = print::bytes(u64::try_from(bytes_max).unwrap_or(u64::MAX));
    Err(Refusal::of(
        name,
        format!("This is more than the {most} that are taken here."),
    ))
}
