//! Inspectors and the newest requests that each of them received.

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::audit::{AuditAction, Caller, TargetKind};
use crate::model::inspector::{InspectedRequest, Inspector, InspectorDefinition, InspectorRequest};
use crate::model::limits::INSPECTED_REQUESTS_MAX;
use crate::model::name::InspectorName;
use crate::model::response_script::ScriptedResponse;
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::row::{self, unreadable};
use crate::store::sql::Sql;
use crate::store::views::{PAGE_ROWS_MAX, PageOf, Views};
use crate::wire::changes::changes;
use crate::wire::resource;

/// Writes inspectors and their requests to the store.
#[derive(Clone)]
pub struct Inspectors {
    pub(super) db: Db,
}

/// A query for requests of an inspector.
#[derive(Clone, Copy, Debug, Default)]
pub struct InspectedQuery {
    /// Limits the list to requests with a number below this one.
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
    /// Stores the definition of an inspector and restarts its script. Stores nothing if there would be more than `most`
    /// inspectors.
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
                let written = put(tx, &name, &text, most, by.at)?;
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
                tx.run(delete, [name.as_str()])?;
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

    /// Deletes the requests of an inspector and restarts its script. Returns the number of deleted requests, `None` if
    /// there is no such inspector.
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
                let cleared = tx.run(delete, [id])?;
                let requests = u64::try_from(cleared).unwrap_or(u64::MAX);
                let action = AuditAction::ClearRequests { requests };
                let entry = by.did(action, TargetKind::Inspector.named(&name));
                Ok((Some(cleared), Some(entry)))
            })
            .await
    }

    /// Records a request, and deletes the oldest requests beyond the limit. Returns the definition of the inspector and
    /// the response, `None` if there is no such inspector.
    pub async fn record(
        &self,
        name: InspectorName,
        arrival: InspectorRequest,
    ) -> Result<Option<(InspectorDefinition, ScriptedResponse)>, StoreError> {
        self.db.write(move |tx| record(tx, &name, &arrival)).await
    }
}

impl Views {
    /// Returns all inspectors, ordered by name.
    pub async fn inspectors(&self) -> Result<Vec<Inspector>, StoreError> {
        self.db
            .read(|tx| tx.readable(&format!("{INSPECTOR} ORDER BY name"), [], inspector))
            .await
    }

    /// Returns an inspector, `None` if there is none with this name.
    pub async fn inspector(&self, name: InspectorName) -> Result<Option<Inspector>, StoreError> {
        self.db.read(move |tx| one(tx, &name)).await
    }

    /// Returns a page of the requests of an inspector, newest first.
    pub async fn inspected(
        &self,
        name: InspectorName,
        query: InspectedQuery,
    ) -> Result<PageOf<InspectedRequest, u64>, StoreError> {
        self.db.read(move |tx| list(tx, &name, &query)).await
    }

    /// Returns a request of an inspector by its number.
    pub async fn inspected_request(
        &self,
        name: InspectorName,
        number: u64,
    ) -> Result<Option<InspectedRequest>, StoreError> {
        self.db
            .read(move |tx| {
                let find = format!("{REQUEST} AND number = ?2");
                tx.first(&find, params![name.as_str(), number], request)
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
    now: Timestamp,
) -> Result<PutOutcome, StoreError> {
    let update =
        "UPDATE inspector SET definition = ?2, script_step = 0, updated_at = ?3 WHERE name = ?1";
    if tx.run(update, params![name.as_str(), definition, now])? > 0 {
        return Ok(PutOutcome::Replaced);
    }
    if tx.value::<usize>("SELECT count(*) FROM inspector", [])? >= most {
        return Ok(PutOutcome::TooMany);
    }
    let insert = "INSERT INTO inspector (name, definition, script_step, received, created_at, updated_at) \
         VALUES (?1, ?2, 0, 0, ?3, ?3)";
    tx.run(insert, params![name.as_str(), definition, now])?;
    Ok(PutOutcome::Created)
}

/// Restarts the script of an inspector. Returns the id of the inspector, `None` if there is none with this name.
fn rewound(tx: &Connection, name: &InspectorName) -> Result<Option<i64>, StoreError> {
    let rewind = "UPDATE inspector SET script_step = 0 WHERE name = ?1 RETURNING id";
    tx.find(rewind, [name.as_str()])
}

/// Records a request and takes the next step of the script. No other change advances the script, so each step is used
/// for one request.
fn record(
    tx: &Connection,
    name: &InspectorName,
    arrival: &InspectorRequest,
) -> Result<Option<(InspectorDefinition, ScriptedResponse)>, StoreError> {
    let is_delivery = arrival.handshake.is_none();
    let take = "UPDATE inspector SET received = received + 1, script_step = script_step + ?2 WHERE name = ?1 \
         RETURNING id, received, script_step, definition";
    let taken = tx.first(take, params![name.as_str(), is_delivery], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    });
    let Some((id, number, taken, text)): Option<(i64, u64, u32, String)> = taken? else {
        return Ok(None);
    };
    let definition = definition(&text)?;
    let response = if is_delivery {
        definition.response(taken.saturating_sub(1), arrival.attempts)
    } else {
        ScriptedResponse::Status(200)
    };
    insert(tx, id, number, arrival, response)?;
    let forget = "DELETE FROM inspected_request WHERE inspector_id = ?1 AND number <= ?2";
    let oldest = number.saturating_sub(INSPECTED_REQUESTS_MAX);
    tx.run(forget, params![id, oldest])?;
    Ok(Some((definition, response)))
}

fn insert(
    tx: &Connection,
    inspector: i64,
    number: u64,
    arrival: &InspectorRequest,
    response: ScriptedResponse,
) -> Result<(), StoreError> {
    let insert = "INSERT INTO inspected_request (inspector_id, number, received_at, method, path, \
         headers, body_bytes, body_start, handshake, events, event_id, event_type, signature, response) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    let values = params![
        inspector,
        number,
        arrival.received_at,
        arrival.method,
        arrival.path,
        row::pairs_column(&arrival.headers),
        arrival.bytes,
        arrival.body_start,
        arrival.handshake,
        arrival.events,
        arrival.event_id,
        arrival.event_type,
        arrival.signature,
        response.to_string(),
    ];
    tx.run(insert, values)?;
    Ok(())
}

fn list(
    tx: &Connection,
    name: &InspectorName,
    query: &InspectedQuery,
) -> Result<PageOf<InspectedRequest, u64>, StoreError> {
    let limit = query.limit.clamp(1, PAGE_ROWS_MAX);
    let newest = query
        .before
        .map_or(i64::MAX as u64, |before| before.saturating_sub(1));
    let select = format!("{REQUEST} AND number <= ?2 ORDER BY number DESC LIMIT ?3");
    let rows = tx.all(&select, params![name.as_str(), newest, limit + 1], request)?;
    Ok(PageOf::of(rows, limit, |row| row.number))
}

fn inspector(row: &Row<'_>) -> Result<Inspector, StoreError> {
    let name: String = row.get(0)?;
    let text: String = row.get(1)?;
    Ok(Inspector {
        name: InspectorName::parse(&name).map_err(|error| unreadable("inspector", error))?,
        definition: definition(&text)?,
        turn: row.get(2)?,
        received: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
        kept: row.get(6)?,
    })
}

fn definition(text: &str) -> Result<InspectorDefinition, StoreError> {
    resource::inspector_from_text(text).map_err(|error| unreadable("inspector", error))
}

fn request(row: &Row<'_>) -> Result<InspectedRequest, StoreError> {
    Ok(InspectedRequest {
        number: row.get(0)?,
        received_at: row.get(1)?,
        method: row.get(2)?,
        path: row.get(3)?,
        headers: row::pairs_from(row.get::<_, Option<String>>(4)?.as_deref())?,
        bytes: row.get(5)?,
        body_start: row.get(6)?,
        handshake: row.get(7)?,
        events: row.get(8)?,
        event_id: row.get(9)?,
        event_type: row.get(10)?,
        signature: row.get(11)?,
        response: row.get(12)?,
    })
}
