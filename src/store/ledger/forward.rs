//! Forwarding: messages and dead letters of a queue go on to another one (rule S4.2).
//!
//! A message ends in the one queue and begins in the other one in the same change, so it is in one of them at any moment.

use std::time::Duration;

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{Delivery, DeliveryId, Settlement};
use crate::model::event::Event;
use crate::model::lease::{QueueRef, SubQueue};
use crate::model::limits::HOPS_MAX;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::engine::db::WriteTx;
use crate::store::error::StoreError;
use crate::store::ledger::append::{end_at_once, insert_delivery, insert_event};
use crate::store::ledger::duplicates;
use crate::store::ledger::lease::{DELIVERY_COLUMNS, delivery, load_event};
use crate::store::ledger::settle::{SettlementRecord, remove, settle};
use crate::store::row;
use crate::store::sql::Sql;
use crate::wire::amqp::message::{encoded, merged};
use crate::wire::service_bus::message;

/// What goes on from a queue.
#[derive(Clone, Debug)]
pub struct ForwardRequest {
    pub from: QueueRef,
    /// The name of the queue, which its dead letters keep.
    pub name: String,
    /// `None` if the queue is gone that they are to go to.
    pub to: Option<ForwardTarget>,
    pub limit: usize,
    pub now: Timestamp,
}

/// A queue to forward to.
#[derive(Clone, Copy, Debug)]
pub struct ForwardTarget {
    pub topic: TopicId,
    pub subscription: SubscriptionId,
    pub has_sessions: bool,
    /// How long it remembers ids of messages, if it does.
    pub remembers_for: Option<Duration>,
}

/// What became of the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// How each of them ended in the queue that it was in.
    pub ended: Vec<Settlement>,
    /// The sessions of those that the other queue got.
    pub sessions: Vec<Option<String>>,
    /// How many it got that are dead letters, for want of a session.
    pub without_session: usize,
}

/// A message that is to go on.
struct Message {
    delivery: Delivery,
    hops: u32,
    first_number: DeliveryId,
    dead_letter_source: Option<String>,
    properties: Option<Vec<u8>>,
    /// Of a dead letter.
    reason: Option<DeadLetterReason>,
    receiver_reason: Option<String>,
    receiver_description: Option<String>,
}

/// When a dead letter that cannot go on is looked at again. Until then it is out of the way of those behind it.
const LOOK_AGAIN: Duration = Duration::from_secs(3_600);
const STAY: &str = "UPDATE delivery SET next_attempt_at = ?2 WHERE id = ?1";
const MARK: &str = "UPDATE delivery SET hops = ?2, first_number = ?3, dead_letter_source = ?4, \
     message_properties = ?5 WHERE id = ?1";

/// Forwards what is due and not locked.
pub(super) fn forward(tx: &WriteTx, request: &ForwardRequest) -> Result<Forwarded, StoreError> {
    let mut done = Forwarded::default();
    for found in due(tx, request)? {
        let id = found.delivery.id;
        let event = load_event(tx, found.delivery.event)?;
        let problem = match (&request.to, &event) {
            _ if found.hops >= HOPS_MAX => Some(DeadLetterReason::MaxTransferHopCountExceeded),
            (None, _) => Some(DeadLetterReason::ForwardTargetMissing),
            (_, Err(_)) => Some(DeadLetterReason::EventUnreadable),
            (Some(_), Ok(_)) => None,
        };
        match (problem, request.from.queue) {
            (None, _) => {}
            (Some(reason), SubQueue::Pending) => {
                let end = Settlement::DeadLetter(reason);
                settle(tx, &SettlementRecord::of(&found.delivery, end), request.now)?;
                done.ended.push(end);
                continue;
            }
            (Some(reason), SubQueue::DeadLetters) => {
                tx.run(STAY, params![id, request.now + LOOK_AGAIN])?;
                done.ended.push(Settlement::DeadLetter(reason));
                continue;
            }
        }
        if let (Some(to), Ok(stored)) = (request.to, event) {
            arrive(tx, request, &found, to, &stored.event, &mut done)?;
        }
        match request.from.queue {
            SubQueue::Pending => {
                let end = SettlementRecord::of(&found.delivery, Settlement::Complete);
                settle(tx, &end, request.now)?;
            }
            SubQueue::DeadLetters => remove(tx, id, request.now)?,
        }
        done.ended.push(Settlement::Complete);
    }
    Ok(done)
}

fn due(tx: &Connection, request: &ForwardRequest) -> Result<Vec<Message>, StoreError> {
    let select = format!(
        "SELECT {DELIVERY_COLUMNS}, hops, first_number, dead_letter_source, message_properties, \
             dead_letter_reason, receiver_reason, receiver_description FROM delivery \
         WHERE subscription_id = ?1 AND state = '{}' AND next_attempt_at <= ?2 \
         ORDER BY next_attempt_at, id LIMIT ?3",
        request.from.queue.state().name()
    );
    let values = params![request.from.subscription, request.now, request.limit];
    tx.all(&select, values, |row| {
        let delivery = delivery(row)?;
        let (hops, first_number): (Option<_>, Option<_>) = (row.get(5)?, row.get(6)?);
        Ok(Message {
            hops: hops.unwrap_or(0),
            first_number: first_number.unwrap_or(delivery.id),
            dead_letter_source: row.get(7)?,
            properties: row.get(8)?,
            reason: row.get(9)?,
            receiver_reason: row.get(10)?,
            receiver_description: row.get(11)?,
            delivery,
        })
    })
}

/// Adds the message to the other queue, unless that remembers it.
fn arrive(
    tx: &WriteTx,
    request: &ForwardRequest,
    found: &Message,
    to: ForwardTarget,
    event: &Event,
    done: &mut Forwarded,
) -> Result<(), StoreError> {
    let now = request.now;
    let session = to.has_sessions.then(|| message::session(event));
    let lacks_session = session == Some(None);
    if let Some(remembers_for) = to.remembers_for.filter(|_| !lacks_session)
        && !duplicates::remember(tx, to.subscription, &event.id, now, now + remembers_for)?
    {
        return Ok(());
    }
    let key = insert_event(tx, to.topic, now, event, 1)?;
    let session = session.flatten();
    let id = insert_delivery(tx, key, to.subscription, now, session.as_deref(), None)?;
    let source = match request.from.queue {
        SubQueue::Pending => found.dead_letter_source.as_deref(),
        SubQueue::DeadLetters => Some(request.name.as_str()),
    };
    let properties = found.properties()?;
    let values = params![id, found.hops + 1, found.first_number, source, properties];
    tx.run(MARK, values)?;
    match lacks_session {
        true => {
            let reason = DeadLetterReason::SessionIdMissing;
            end_at_once(tx, id, (to.subscription, now), (reason, None), now)?;
            done.without_session += 1;
        }
        false => done.sessions.push(session),
    }
    Ok(())
}

impl Message {
    /// The properties that receivers have set, and of a dead letter why it is one.
    fn properties(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(reason) = self.reason else {
            return Ok(self.properties.clone());
        };
        let system = message::system_reason(reason, self.delivery.attempts);
        let (own, description) = match reason == DeadLetterReason::Application {
            true => (
                self.receiver_reason.as_deref(),
                self.receiver_description.as_deref(),
            ),
            false => {
                let told = self.receiver_description.as_deref();
                (Some(system.0), told.or(Some(system.1.as_str())))
            }
        };
        let told = encoded(message::reason_properties(own, description));
        let merged = match &self.properties {
            Some(before) => merged(before, &told),
            None => Ok(told),
        };
        let merged = merged.map_err(|error| row::unreadable("map of properties", error))?;
        Ok(Some(merged))
    }
}
