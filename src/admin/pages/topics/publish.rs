//! Publishing by hand: a form with an example in the topic's own schema, or with a copy of a stored event, and
//! the command that does the same.

use http::HeaderValue;

use super::*;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Events {
    events: String,
}

/// The form with the event that the URL asks for by its key, or with an example.
pub(crate) async fn compose(Query(asked): Query<Names>, call: Call<Arc<TopicEntry>>) -> PageResult {
    let form = match name_of(&asked, "like") {
        "" => Events::begin(&call)?,
        key => Events::of(&copy_of(&call, key).await?),
    };
    Ok(draw_sheet(&call, Filled::with(form)))
}

/// The form that begins with the stored event `key` of the topic at `topic_path`.
pub(crate) fn copy_page(topic_path: &str, key: EventKey) -> String {
    format!("{topic_path}/publish?like={key}")
}

/// The event `key` of this topic as its publisher would send another one like it: with an id and a time of its
/// own. A custom event stays as it is, since only its publisher knows what in it is which.
async fn copy_of(call: &Call<Arc<TopicEntry>>, key: &str) -> PageResult<String> {
    let (topic, found) = (&call.of, events::find(&call.site, key).await?);
    let is_own = found.topic_id == topic.topic.id;
    let named = format!("{key} of the topic {}", topic.topic.name);
    let mut stored = existing(is_own.then_some(found.stored), "event", named)?;
    stored.event.id = call.broker.entropy().uuid().to_string();
    stored.event.time = stored.event.time.map(|_| call.visitor.now.to_string());
    let schema = DeliverySchema::default_for(topic.topic.kind.input_schema());
    let written = wire::encode(schema, &topic.resource_id, &[&stored], false).body;
    Ok(String::from_utf8_lossy(&written).into_owned())
}

impl Events {
    fn of(json: &str) -> Self {
        let events = json_text::laid_out(json);
        Self { events }
    }
}

impl Sheet<Arc<TopicEntry>> for Events {
    const HEAD: Head = (Fields::Events, "Publish to", "");

    fn begin(call: &Call<Arc<TopicEntry>>) -> PageResult<Self> {
        Ok(Self::of(&example(call, &call.of).to_string()))
    }

    /// The command that does the same.
    fn remark(call: &Call<Arc<TopicEntry>>) -> String {
        curl(call, &call.of, &key_header(None))
    }

    /// Publishes what was typed, all or nothing, and leads to the page of the one event, or to the list of all.
    async fn save(&self, call: &Call<Arc<TopicEntry>>) -> PageResult {
        let events = read(call, &self.events);
        let events = events.map_err(|problem| FormError::of("events", problem))?;
        let published = call.broker.publish_by_hand(call.by(), &call.of, events);
        let keys = published.await?;
        let (one, many) = ("event has been accepted.", "events have been accepted.");
        let said = Flash::done(print::plural(keys.len(), one, many));
        let page = match keys.as_slice() {
            [key] => paths::event_page(*key),
            _ => events_of(&call.of.topic.name),
        };
        call.visitor.leave(said, &page).await
    }
}

fn read(call: &Call<Arc<TopicEntry>>, text: &str) -> Result<Vec<Event>, String> {
    if text.len() > call.publish_bytes_max {
        let most = print::bytes(call.publish_bytes_max as u64);
        let problem = format!("This is more than the {most} that one request may have.");
        return Err(problem);
    }
    // The content type by which a client would send this.
    let schema = call.of.topic.kind.input_schema();
    let kind = wire::content_type(schema, text.trim_start().starts_with('['));
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
    let (now, entropy) = (call.visitor.now, call.broker.entropy());
    let body = text.as_bytes();
    let event_bytes_max = call.broker.options().event_bytes_max;
    let events = wire::decode_for(&call.of, &headers, body, now, entropy)
        .and_then(|events| {
            wire::check_sizes(body, events.len(), event_bytes_max)?;
            Ok(events)
        })
        .map_err(|bad| json_fault::of_events(text, &bad))?;
    if events.is_empty() {
        Err("There is no event in it.".to_owned())
    } else {
        Ok(events)
    }
}
