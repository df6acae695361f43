//! SQL statements, each prepared once per connection, and conversion of columns to and from types of the model.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Params, Row, ToSql};

use crate::base::Timestamp;
use crate::model::alert::{AlertChannelId, AlertMessageId, AlertMessageState, AlertRuleId};
use crate::model::audit::AuditId;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{DeliveryId, DeliveryState, Outcome};
use crate::model::event::EventKey;
use crate::model::lease::LockToken;
use crate::model::namespace::NamespaceId;
use crate::model::rejection::RejectionId;
use crate::model::replay::{ReplayJobId, ReplayState, Replayed};
use crate::model::shared_access::AccessRuleId;
use crate::model::subscription::{SubscriptionId, ValidationState};
use crate::model::topic::{TopicId, TopicKindName};
use crate::store::error::StoreError;

/// Runs statements on a connection, a transaction or a savepoint.
pub(super) trait Sql {
    /// Runs a statement that returns no rows. Returns the number of changed rows.
    fn run(&self, sql: &str, values: impl Params) -> rusqlite::Result<usize>;

    /// Returns all rows of a query.
    fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError>;

    /// Returns the readable rows of a query. An unreadable row is logged and left out, so that it does not fail the
    /// list.
    fn readable<T>(
        &self,
        sql: &str,
        values: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.all(sql, values, |row| match read(row) {
            Err(StoreError::Unreadable(problem)) => {
                tracing::error!(problem, "what is stored is left out");
                Ok(None)
            }
            found => found.map(Some),
        })?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// Returns the first row of a query, if there is one.
    fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError>;

    /// Returns the row of a query that always returns one.
    fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.first(sql, values, read)?
            .ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }

    /// Returns the first column of the first row of a query, if there is one.
    fn find<T: FromSql>(&self, sql: &str, values: impl Params) -> Result<Option<T>, StoreError> {
        self.first(sql, values, |row| Ok(row.get(0)?))
    }

    /// Returns the only value of a query that always returns one, such as a count.
    fn value<T: FromSql>(&self, sql: &str, values: impl Params) -> Result<T, StoreError> {
        self.one(sql, values, |row| Ok(row.get(0)?))
    }

    /// Reports whether a query returns any rows.
    fn is_any(&self, sql: &str, values: impl Params) -> Result<bool, StoreError> {
        Ok(self.first(sql, values, |_| Ok(()))?.is_some())
    }
}

/// Returns ids as a JSON array for `json_each`, so that the text of a statement does not depend on their number.
pub(super) fn as_json(ids: impl Iterator<Item = i64>) -> String {
    serde_json::json!(ids.collect::<Vec<_>>()).to_string()
}

impl Sql for Connection {
    fn run(&self, sql: &str, values: impl Params) -> rusqlite::Result<usize> {
        self.prepare_cached(sql)?.execute(values)
    }

    fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.prepare_cached(sql)?;
        statement.query_and_then(values, read)?.collect()
    }

    fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut statement = self.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        rows.next()?.map(read).transpose()
    }
}

/// Implements the conversion for types whose columns hold an integer.
macro_rules! numbers {
    ($($type:ty: $read:expr, $write:expr;)+) => {$(
        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                i64::column_result(value).map($read)
            }
        }

        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok($write(self).into())
            }
        }
    )+};
}

numbers! {
    Timestamp: Timestamp::from_ms, |at: &Timestamp| at.as_ms();
    AccessRuleId: AccessRuleId, |id: &AccessRuleId| id.0;
    AlertChannelId: AlertChannelId, |id: &AlertChannelId| id.0;
    AlertMessageId: AlertMessageId, |id: &AlertMessageId| id.0;
    AlertRuleId: AlertRuleId, |id: &AlertRuleId| id.0;
    AuditId: AuditId, |id: &AuditId| id.0;
    DeliveryId: DeliveryId, |id: &DeliveryId| id.0;
    EventKey: EventKey, |id: &EventKey| id.0;
    NamespaceId: NamespaceId, |id: &NamespaceId| id.0;
    RejectionId: RejectionId, |id: &RejectionId| id.0;
    ReplayJobId: ReplayJobId, |id: &ReplayJobId| id.0;
    SubscriptionId: SubscriptionId, |id: &SubscriptionId| id.0;
    TopicId: TopicId, |id: &TopicId| id.0;
}

/// Implements the conversion for enums whose columns hold the name of a variant.
macro_rules! names {
    ($($type:ident,)+) => {$(
        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let name = value.as_str()?;
                $type::from_name(name)
                    .ok_or_else(|| FromSqlError::Other(format!("there is no {name}").into()))
            }
        }

        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.name().into())
            }
        }
    )+};
}

names! {
    AlertMessageState,
    DeadLetterReason,
    DeliveryState,
    Outcome,
    ReplayState,
    Replayed,
    ValidationState,
    TopicKindName,
}

impl ToSql for LockToken {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_bytes().as_slice().into())
    }
}

impl FromSql for LockToken {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        <[u8; 16]>::column_result(value).map(Self::from_bytes)
    }
}
