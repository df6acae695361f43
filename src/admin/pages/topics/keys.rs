//! Showing and renewing the keys of a topic.

use crate::admin::page::*;
use crate::admin::pages::keys::{Keyed, OnlyKey};
use crate::admin::pages::topics::draw_topic;
use crate::admin::pages::traffic::RangeChoice;
use crate::model::access::KeyName;
use crate::model::audit::Caller;

/// The page of the topic with its keys on it.
pub(crate) async fn reveal_keys(
    State(site): State<Arc<Site>>,
    Query(only): Query<OnlyKey>,
    Call { of, visitor, .. }: Call<Arc<TopicEntry>>,
) -> PageResult {
    let shown = only.chosen()?;
    let visitor = visitor.with_flash().await?;
    let (by, name) = (&visitor.caller, &of.topic.name);
    site.broker.show_topic_keys(by, name).await?;
    draw_topic(&site, &visitor, &of, &RangeChoice::default(), shown).await
}

impl Keyed for Arc<TopicEntry> {
    fn name(&self) -> &str {
        self.topic.name.as_str()
    }

    async fn regenerate(&self, site: &Site, by: &Caller, key: KeyName) -> Result<(), PageError> {
        let name = &self.topic.name;
        site.broker.regenerate_key(by, name, key).await?;
        Ok(())
    }
}
