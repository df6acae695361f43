//! A pasted event, read as its topic would read it.

use crate::admin::forms::json_fault;
use crate::admin::page::*;
use crate::admin::widgets::json_text;
use crate::model::event::Event;
use crate::model::filter::EventView;
use crate::model::name::TopicName;
use crate::model::topic::InputSchema;
use crate::wire;
use crate::wire::pasted::recognize;

/// The topic that events are thought of which name none.
const NOWHERE: &str = "playground";

/// An event, and where it would have been published.
pub(super) struct PastedEvent {
    pub(super) event: Event,
    /// `None` for no topic in particular.
    topic: Option<Arc<TopicEntry>>,
    pub(super) schema: InputSchema,
    /// The resource id of the topic.
    pub(super) resource_id: Arc<str>,
}

impl PastedEvent {
    /// Reads what was pasted, as an event of `topic` or by what it tells of itself.
    pub(super) fn read(
        call: &Call,
        text: &str,
        topic: Option<Arc<TopicEntry>>,
    ) -> Result<Self, Refusal> {
        check_size("event", text, call.publish_bytes_max)?;
        // Browsers end the lines of a form in their own way, which must not show in the bytes of a delivery.
        let json = text.replace("\r\n", "\n");
        let (schema, resource_id) = match &topic {
            Some(topic) => {
                let schema = topic.topic.definition.input_schema.clone();
                (schema, Arc::clone(&topic.resource_id))
            }
            None => {
                let recognized = recognize(&json);
                let named = recognized.topic.map(Arc::from);
                (recognized.schema, named.unwrap_or_else(|| nowhere(call)))
            }
        };
        let (now, entropy) = (call.visitor.now, call.broker.entropy());
        let event = wire::decode_one(&schema, &resource_id, &json, now, entropy);
        Ok(Self {
            event: event.map_err(|bad| Refusal::of("event", json_fault::of_events(&json, &bad)))?,
            topic,
            schema,
            resource_id,
        })
    }

    /// The event as filters see it.
    pub(super) fn view(&self) -> EventView<'_> {
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

/// An event to begin with.
pub(super) fn example(call: &Call) -> String {
    let (entropy, now) = (call.broker.entropy(), call.visitor.now);
    let example = wire::example(&InputSchema::EventGridSchema, entropy, now);
    json_text::laid_out(&example.get(0).unwrap_or(&example).to_string())
}

/// Refuses a text of more than so many bytes in the field `name`.
pub(super) fn check_size(name: &str, text: &str, bytes_max: usize) -> Result<(), Refusal> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    let most = print::bytes(u64::try_from(bytes_max).unwrap_or(u64::MAX));
    let problem = format!("This is more than the {most} that are taken here.");
    Err(Refusal::of(name, problem))
}
