//! The types of the events that a topic got lately.

use rusqlite::params;

use crate::model::topic::TopicId;
use crate::store::error::StoreError;
use crate::store::row;
use crate::store::sql::Sql;
use crate::store::views::Views;

/// The newest events of the appliance that are looked at, of whatever topic: some pages of the file.
const LOOKED_AT: i64 = 5_000;

/// Types that are told, the most frequent first.
const TYPES_MAX: i64 = 8;

/// The types of a topic's events among the newest events of the appliance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentTypes {
    pub types: Vec<(String, u64)>,
    /// Events of the topic, those of other types too.
    pub events: u64,
}

const SELECT: &str = "SELECT event_type, count(*) AS events, sum(count(*)) OVER () FROM event NOT INDEXED \
     WHERE id > (SELECT max(id) FROM event) - ?1 AND topic_id = ?2 \
     GROUP BY event_type ORDER BY events DESC, event_type LIMIT ?3";

impl Views {
    /// The types of a topic's events among the newest of the appliance.
    pub async fn recent_types(&self, of: TopicId) -> Result<RecentTypes, StoreError> {
        self.db
            .read(move |tx| {
                let mut recent = RecentTypes::default();
                let values = params![LOOKED_AT, of, TYPES_MAX];
                recent.types = tx.all(SELECT, values, |row| {
                    recent.events = row.get(2)?;
                    Ok((row::text(row, 0)?, row.get(1)?))
                })?;
                Ok(recent)
            })
            .await
    }
}
