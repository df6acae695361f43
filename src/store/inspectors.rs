//! Inspectors and the newest requests of each.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::model::audit::{AuditAction, Caller, TargetKind};
use crate::model::inspector::{InspectedRequest, Inspector, InspectorDefinition, InspectorRequest};
use crate::model::limits::INSPECTED_REQUESTS_MAX;
use crate::model::name::InspectorName;
use crate::model::response_script::ScriptedResponse;
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::row::{self, unreadable};
use crate::store::views::{PAGE_ROWS_MAX, Page, Views};
use crate::wire::changes::changes;
use crate::wire::resource;

/// Inspectors and their requests.
#[derive(Clone)]
pub struct Inspectors {
    pub(super) db: Db,
}

/// Which requests to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct InspectedQuery {
    /// Only requests older than this one.
    pub before: Option<u64>,
    pub limit: usize,
}

const INSPECTOR: &str = "SELECT name, definition, script_step, received, created_at, updated_at, \
     (SELECT count(*) FROM inspected_request WHERE inspector_id = inspector.id) FROM inspector";

const REQUEST: &str = "SELECT number, inspected_request.received_at, method, path, headers, body_bytes, \
     body_start, handshake, events, event_id, event_type, signature, response FROM inspected_request \
     JOIN inspector ON inspector.id = inspector_id WHERE name = ?1";

/// The result of storing a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    Created,
    Replaced,
    /// The maximum number of inspectors is reached.
    TooMany,
}

impl Inspectors {
    /// Stores a definition and restarts its script, unless there would be more than `most` inspectors.
    pub async fn put(
        &self,
        name: InspectorName,
        definition: InspectorDefinition,
        most: usize,
        by: Caller,
    ) -> Result<PutOutcome, StoreError> {
        let text = resource::inspector_to_text(&definition);
        self.db
            .write_audited(move |tx| {
                let before = one(tx, &name)?;
                let written = put(tx, &name, &text, most, by.at.as_ms())?;
                let after = one(tx, &name)?;
                let [old, new] = [&before, &after]
                    .map(|each| each.as_ref().map(resource::render_inspector_definition));
                let changes = changes(old.as_ref(), new.as_ref());
                let action = match written {
                    PutOutcome::Created => AuditAction::Create { changes },
                    PutOutcome::Replaced => AuditAction::Update { changes },
                    PutOutcome::TooMany => return Ok((written, None)),
                };
                Ok((
                    written,
                    Some(by.did(action, TargetKind::Inspector.named(&name))),
                ))
            })
            .await
    }

    /// Deletes an inspector with its requests. Returns whether there was one.
    pub async fn delete(&self, name: InspectorName, by: Caller) -> Result<bool, StoreError> {
        self.db
            .write_audited(move |tx| {
                let Some(deleted) = one(tx, &name)? else {
                    return Ok((false, None));
                };
                let delete = "DELETE FROM inspector WHERE name = ?1";
                tx.prepare_cached(delete)?.execute([name.as_str()])?;
                let deleted = resource::render_inspector_definition(&deleted);
                let changes = changes(Some(&deleted), None);
                let entry = by.did(
                    AuditAction::Delete { changes },
                    TargetKind::Inspector.named(&name),
                );
                Ok((true, Some(entry)))
            })
            .await
    }

    /// Deletes the requests of an inspector and restarts its script. Returns how many requests there were,
    /// `None` if there is no such inspector.
    pub async fn clear(
        &self,
        name: InspectorName,
        by: Caller,
    ) -> Result<Option<usize>, StoreError> {
        self.db
            .write_audited(move |tx| {
                let Some(id) = rewound(tx, &name)? else {
                    return Ok((None, None));
                };
                let delete = "DELETE FROM inspected_request WHERE inspector_id = ?1";
                let cleared = tx.prepare_cached(delete)?.execute([id])?;
                let requests = u64::try_from(cleared).unwrap_or(u64::MAX);
                let action = AuditAction::ClearRequests { requests };
                let entry = by.did(action, TargetKind::Inspector.named(&name));
                Ok((Some(cleared), Some(entry)))
            })
            .await
    }

    /// Records a request and deletes the oldest beyond the limit. Returns the definition and the response,
    /// `None` if there is no such inspector.
    pub async fn record(
        &self,
        name: InspectorName,
        arrival: InspectorRequest,
    ) -> Result<Option<(InspectorDefinition, ScriptedResponse)>, StoreError> {
        self.db.write(move |tx| record(tx, &name, &arrival)).await
    }
}

impl Views {
    /// All inspectors by name.
    pub async fn inspectors(&self) -> Result<Vec<Inspector>, StoreError> {
        self.db
            .read(|tx| {
                let mut select = tx.prepare_cached(&format!("{INSPECTOR} ORDER BY name"))?;
                let mut rows = select.query([])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    found.push(inspector(row)?);
                }
                Ok(found)
            })
            .await
    }

    /// One inspector.
    pub async fn inspector(&self, name: InspectorName) -> Result<Option<Inspector>, StoreError> {
        self.db.read(move |tx| one(tx, &name)).await
    }

    /// Requests of an inspector, newest first.
    pub async fn inspected(
        &self,
        name: InspectorName,
        query: InspectedQuery,
    ) -> Result<Page<InspectedRequest, u64>, StoreError> {
        self.db.read(move |tx| list(tx, &name, &query)).await
    }

    /// One request of an inspector.
    pub async fn inspected_request(
        &self,
        name: InspectorName,
        number: u64,
    ) -> Result<Option<InspectedRequest>, StoreError> {
        self.db
            .read(move |tx| {
                let mut select = tx.prepare_cached(&format!("{REQUEST} AND number = ?2"))?;
                let mut rows = select.query(params![name.as_str(), signed(number)])?;
                rows.next()?.map(request).transpose()
            })
            .await
    }
}

fn one(tx: &Connection, name: &InspectorName) -> Result<Option<Inspector>, StoreError> {
    let mut select = tx.prepare_cached(&format!("{INSPECTOR} WHERE name = ?1"))?;
    let mut rows = select.query([name.as_str()])?;
    rows.next()?.map(inspector).transpose()
}

fn put(
    tx: &Connection,
    name: &InspectorName,
    definition: &str,
    most: usize,
    now: i64,
) -> Result<PutOutcome, StoreError> {
    let update =
        "UPDATE inspector SET definition = ?2, script_step = 0, updated_at = ?3 WHERE name = ?1";
    let replaced = tx
        .prepare_cached(update)?
        .execute(params![name.as_str(), definition, now])?;
    if replaced > 0 {
        return Ok(PutOutcome::Replaced);
    }
    let count: i64 = tx.query_row("SELECT count(*) FROM inspector", [], |row| row.get(0))?;
    if usize::try_from(count).is_ok_and(|count| count >= most) {
        return Ok(PutOutcome::TooMany);
    }
    tx.execute(
        "INSERT INTO inspector (name, definition, script_step, received, created_at, updated_at)
         VALUES (?1, ?2, 0, 0, ?3, ?3)",
        params![name.as_str(), definition, now],
    )?;
    Ok(PutOutcome::Created)
}

/// Restarts the script. Returns the inspector's id.
fn rewound(tx: &Connection, name: &InspectorName) -> Result<Option<i64>, StoreError> {
    let rewind = "UPDATE inspector SET script_step = 0 WHERE name = ?1 RETURNING id";
    let mut rewind = tx.prepare_cached(rewind)?;
    Ok(rewind
        .query_row([name.as_str()], |row| row.get(0))
        .optional()?)
}

/// Only this change advances the script, so no two requests get the same step.
fn record(
    tx: &Connection,
    name: &InspectorName,
    arrival: &InspectorRequest,
) -> Result<Option<(InspectorDefinition, ScriptedResponse)>, StoreError> {
    let is_delivery = arrival.handshake.is_none();
    let take = "UPDATE inspector SET received = received + 1, script_step = script_step + ?2 WHERE name = ?1 \
         RETURNING id, received, script_step, definition";
    let mut take = tx.prepare_cached(take)?;
    let taken = take.query_row(params![name.as_str(), is_delivery], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    });
    let Some((id, number, taken, text)): Option<(i64, i64, u32, String)> = taken.optional()? else {
        return Ok(None);
    };
    let definition = definition(&text)?;
    let response = match is_delivery {
        true => definition.response(taken.saturating_sub(1), arrival.attempts),
        false => ScriptedResponse::Status(200),
    };
    insert(tx, id, number, arrival, response)?;
    let forget = "DELETE FROM inspected_request WHERE inspector_id = ?1 AND number <= ?2";
    let oldest = number - signed(INSPECTED_REQUESTS_MAX);
    tx.prepare_cached(forget)?.execute([id, oldest])?;
    Ok(Some((definition, response)))
}

fn insert(
    tx: &Connection,
    inspector: i64,
    number: i64,
    arrival: &InspectorRequest,
    response: ScriptedResponse,
) -> Result<(), StoreError> {
    let insert = "INSERT INTO inspected_request (inspector_id, number, received_at, method, path, \
         headers, body_bytes, body_start, handshake, events, event_id, event_type, signature, response) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    tx.prepare_cached(insert)?.execute(params![
        inspector,
        number,
        arrival.received_at.as_ms(),
        arrival.method,
        arrival.path,
        row::pairs_column(&arrival.headers),
        i64::try_from(arrival.bytes).unwrap_or(i64::MAX),
        arrival.body_start,
        arrival.handshake,
        i64::try_from(arrival.events).unwrap_or(i64::MAX),
        arrival.event_id,
        arrival.event_type,
        arrival.signature,
        response.to_string(),
    ])?;
    Ok(())
}

fn list(
    tx: &Connection,
    name: &InspectorName,
    query: &InspectedQuery,
) -> Result<Page<InspectedRequest, u64>, StoreError> {
    let limit = query.limit.clamp(1, PAGE_ROWS_MAX);
    let newest = query
        .before
        .map_or(i64::MAX, |before| signed(before).saturating_sub(1));
    let select = format!("{REQUEST} AND number <= ?2 ORDER BY number DESC LIMIT ?3");
    let mut select = tx.prepare_cached(&select)?;
    let limit_column = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut found = select.query(params![name.as_str(), newest, limit_column])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(request(row)?);
    }
    let last = rows.last().filter(|_| rows.len() == limit);
    let next_before = last.map(|last| last.number);
    Ok(Page { rows, next_before })
}

fn inspector(row: &Row<'_>) -> Result<Inspector, StoreError> {
    let name: String = row.get(0)?;
    let text: String = row.get(1)?;
    Ok(Inspector {
        name: InspectorName::parse(&name).map_err(|error| unreadable("inspector", error))?,
        definition: definition(&text)?,
        turn: row.get(2)?,
        received: unsigned(row, 3)?,
        created_at: row::timestamp(row, 4)?,
        updated_at: row::timestamp(row, 5)?,
        kept: unsigned(row, 6)?,
    })
}

fn definition(text: &str) -> Result<InspectorDefinition, StoreError> {
    resource::inspector_from_text(text).map_err(|error| unreadable("inspector", error))
}

fn request(row: &Row<'_>) -> Result<InspectedRequest, StoreError> {
    Ok(InspectedRequest {
        number: unsigned(row, 0)?,
        received_at: row::timestamp(row, 1)?,
        method: row.get(2)?,
        path: row.get(3)?,
        headers: row::pairs_from(row.get::<_, Option<String>>(4)?.as_deref())?,
        bytes: unsigned(row, 5)?,
        body_start: row.get(6)?,
        handshake: row.get(7)?,
        events: unsigned(row, 8)?,
        event_id: row.get(9)?,
        event_type: row.get(10)?,
        signature: row.get(11)?,
        response: row.get(12)?,
    })
}

fn unsigned(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(index)?.unsigned_abs())
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
