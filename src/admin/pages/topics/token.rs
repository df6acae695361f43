//! SAS tokens, made with a key of a topic. Whoever creates one gets as much as whoever sees the key.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::snippets::curl;
use crate::admin::action::{Call, Subject};
use crate::admin::error::PageResult;
use crate::admin::forms::form::FormError;
use crate::admin::forms::sheet::{Head, Sheet, SheetFields};
use crate::admin::lists::filter::moment;
use crate::admin::lists::recipe::quoted;
use crate::admin::pages::tokens::OTHER;
use crate::admin::pages::{answer, keys};
use crate::admin::standing::DAY;
use crate::admin::widgets::filters;
use crate::base::Timestamp;
use crate::model::access::KeyName;
use crate::model::registry::TopicEntry;
use crate::wire;

/// How long a token is valid unless something else is chosen: a day of work with it, and little to find later.
const LIFE: &str = "P1D";

const TOKENS_OFF: &str =
    "As it is now, the topic takes no tokens: local authentication is disabled.";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NewSasTokenForm {
    key: String,
    /// Such as `P1D`; empty or `other` for until `ends_at`.
    valid_for: String,
    ends_at: String,
}

impl Sheet<Arc<TopicEntry>> for NewSasTokenForm {
    const HEAD: Head = (SheetFields::SasToken, "SAS token for", "");

    fn begin(call: &Call<Arc<TopicEntry>>) -> PageResult<Self> {
        Ok(Self {
            valid_for: LIFE.to_owned(),
            ends_at: (call.visitor.now + 7 * DAY).to_string(),
            ..Self::default()
        })
    }

    fn remark(call: &Call<Arc<TopicEntry>>) -> String {
        let topic = &call.of.topic;
        let is_off = topic.kind.disables_local_auth().then_some(TOKENS_OFF);
        is_off.unwrap_or_default().to_owned()
    }

    /// Makes a token and shows it.
    async fn save(&self, call: &Call<Arc<TopicEntry>>) -> PageResult {
        let (key, ends_at) = self.read(call.visitor.now)?;
        let (topic, name) = (&call.of, &call.of.topic.name);
        let token = call
            .broker
            .create_sas_token(call.by(), name, key, ends_at)
            .await?;
        let title = format!("SAS token for {name}");
        answer!("pages/access_token.html", &call.visitor, title, {
            topic: Arc<TopicEntry> = Arc::clone(topic),
            key: KeyName = key,
            ends_at: Timestamp = ends_at,
            command: String = curl(call, topic, &quoted(&format!("aeg-sas-token: {token}"))),
            resource: String = call.publish_url(topic),
            token: String = token,
        })
    }
}

impl NewSasTokenForm {
    fn read(&self, now: Timestamp) -> Result<(KeyName, Timestamp), FormError> {
        let key = keys::named(self.key.trim())
            .map_err(|_| FormError::of("key", "It must be key1 or key2."))?;
        let reject = |problem: &str| Err(FormError::of("endsAt", problem));
        if !["", OTHER].contains(&self.valid_for.as_str()) {
            let span = wire::duration::parse(&self.valid_for)
                .map_err(|_| FormError::of("validFor", "Choose one of these times."))?;
            return Ok((key, now + span));
        }
        match moment(&self.ends_at) {
            Some(at) if at > now => Ok((key, at)),
            Some(_) => reject("Choose a time in the future."),
            None => reject("Enter a date and a time, such as 2026-11-21T06:40."),
        }
    }
}
