//! SAS tokens, made with a key of a topic. Whoever creates one gets as much as whoever sees the key.

use super::*;

/// When a token ends unless another moment is chosen: a day of work with it, and little to find later.
const LIFE: Duration = Duration::from_secs(86_400);

const TOKENS_OFF: &str =
    "As it is now, the topic takes no tokens: local authentication is disabled.";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TokenForm {
    key: String,
    ends_at: String,
}

impl Sheet<Arc<TopicEntry>> for TokenForm {
    const HEAD: Head = (Fields::SasToken, "SAS token for", "");

    fn begin(call: &Call<Arc<TopicEntry>>) -> PageResult<Self> {
        let ends_at = (call.visitor.now + LIFE).to_string();
        let key = String::new();
        Ok(Self { key, ends_at })
    }

    fn remark(call: &Call<Arc<TopicEntry>>) -> String {
        let topic = &call.of.topic;
        let is_off = topic.definition.disable_local_auth.then_some(TOKENS_OFF);
        is_off.unwrap_or_default().to_owned()
    }

    /// Makes a token and shows it.
    async fn save(&self, call: &Call<Arc<TopicEntry>>) -> PageResult {
        let (key, ends_at) = self.read(call.visitor.now)?;
        let (topic, name) = (&call.of, &call.of.topic.name);
        let token = call.broker.create_sas_token(call.by(), name, key, ends_at);
        let token = token.await?;
        let title = format!("Token for {name}");
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

impl TokenForm {
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
