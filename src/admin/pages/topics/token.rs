//! SAS tokens, made with a key of a topic. Whoever creates one gets as much as whoever sees the key.

use serde::{Deserialize, Serialize};

use crate::admin::lists::filter::moment;
use crate::admin::page::*;
use crate::admin::pages::keys;
use crate::admin::pages::topics::snippets;
use crate::admin::widgets::Due;
use crate::model::access::KeyName;

/// When a token ends unless another moment is chosen: a day of work with it, and little to find later.
const LIFE: Duration = Duration::from_secs(86_400);

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TokenForm {
    key: String,
    ends_at: String,
}

#[derive(Template)]
#[template(path = "pages/new_token_of_topic.html")]
struct NewTokenPage {
    frame: Frame,
    form: Filled<TokenForm>,
    topic: Arc<TopicEntry>,
}

/// A token that is shown.
#[derive(Template)]
#[template(path = "pages/access_token.html")]
struct AccessTokenPage<'a> {
    frame: Frame,
    topic: &'a Arc<TopicEntry>,
    key: KeyName,
    ends: Due,
    /// What it is good for.
    resource: String,
    token: String,
    /// Publishes an example with it.
    command: String,
}

impl Sheet<Arc<TopicEntry>> for TokenForm {
    fn begin(call: &Call<Arc<TopicEntry>>) -> PageResult<Self> {
        let ends_at = (call.visitor.now + LIFE).to_string();
        let key = String::new();
        Ok(Self { key, ends_at })
    }

    fn page(call: &Call<Arc<TopicEntry>>, form: Filled<Self>) -> impl Template {
        let topic = Arc::clone(&call.of);
        let frame = Frame::new(&call.visitor, format!("SAS token for {}", topic.topic.name));
        NewTokenPage { frame, form, topic }
    }

    /// Makes a token and shows it.
    async fn save(&self, call: &Call<Arc<TopicEntry>>) -> Result<Response, Refused> {
        let (key, ends_at) = self.read(call.visitor.now)?;
        let (topic, name) = (&call.of, &call.of.topic.name);
        let token = call
            .broker
            .create_sas_token(call.by(), name, key, ends_at)
            .await?;
        Ok(draw(&AccessTokenPage {
            frame: Frame::new(&call.visitor, format!("Token for {name}")),
            topic,
            key,
            ends: Due::new(ends_at, call.visitor.now),
            command: snippets::command_with_token(&call.site, topic, &token),
            resource: call.publish_url(topic),
            token,
        }))
    }
}

impl TokenForm {
    /// The key to sign with, and when the token ends.
    fn read(&self, now: Timestamp) -> Result<(KeyName, Timestamp), Refusal> {
        let key = keys::named(self.key.trim());
        let key = key.map_err(|_| Refusal::of("key", "It must be key1 or key2."))?;
        let refuse = |problem: &str| Err(Refusal::of("endsAt", problem));
        match moment(&self.ends_at) {
            Some(at) if at > now => Ok((key, at)),
            Some(_) => refuse("This has passed; it must lie in the future."),
            None => {
                refuse("This is no moment; it must be a date and a time, such as 2026-11-21T06:40.")
            }
        }
    }
}
