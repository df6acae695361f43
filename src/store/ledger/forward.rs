//! Forwarding: messages and dead letters of a queue are moved to another queue, or to a topic (rule S4.2).
//!
//! One change removes a message from its source and stores it at its destination, so it is in one place at any moment.

use std::time::Duration;

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{Delivery, DeliveryId, Settlement};
use crate::model::event::Event;
use crate::model::lease::{QueueRef, SubQueue};
use crate::model::topic::TopicId;
use crate::store::engine::db::WriteTx;
use crate::store::engine::queue::{Lane, Whose};
use crate::store::error::StoreError;
use crate::store::ledger::append::{AppendRequest, StoredRows, append, seal};
use crate::store::ledger::lease::{DELIVERY_COLUMNS, delivery, load_event};
use crate::store::ledger::settle::{Settled, SettlementRecord, remove, settle};
use crate::store::row;
use crate::store::sql::Sql;
use crate::wire::amqp::message::{encoded, merged};
use crate::wire::service_bus::message;

/// A query for the messages of a queue that are to be forwarded.
#[derive(Clone, Debug)]
pub struct ForwardQuery {
    pub from: QueueRef,
    /// The name by which clients know the queue. Forwarded dead letters keep this name as their source.
    pub name: String,
    pub limit: usize,
    /// The number of bytes, of events and of properties that receivers have set, after which no more messages are read.
    /// The first message is always read.
    pub bytes_max: usize,
    pub now: Timestamp,
}

/// A message that is to be forwarded.
#[derive(Clone, Debug)]
pub struct Forwardable {
    pub delivery: Delivery,
    /// The event of the message; `None` if it cannot be read.
    pub event: Option<Event>,
    /// The number of times the message was forwarded.
    pub hops: u32,
    /// The largest number of copies of the message that may exist. Until the message is forwarded, this is the number
    /// of subscriptions that have it.
    pub copies: u32,
    /// See [`ForwardMark::transfer_to`].
    pub transfer_to: Option<TopicId>,
    /// The mark that the message gets at its destination. The properties of a dead letter contain its reason.
    pub mark: ForwardMark,
}

/// The facts that a forwarded message keeps (rule S4.2).
#[derive(Clone, Debug)]
pub struct ForwardMark {
    pub hops: u32,
    /// The largest number of copies of the message that may exist after it is forwarded.
    pub copies: u32,
    /// The sequence number of the message's delivery to the first queue; `None` for that delivery itself.
    pub first_number: Option<i64>,
    /// The queue in which the message was a dead letter.
    pub dead_letter_source: Option<String>,
    /// See [`crate::model::lease::LockChange::properties`].
    pub properties: Option<Vec<u8>>,
    /// The queue or topic to which the message is to be forwarded while it is in the transfer queue of another entity.
    pub transfer_to: Option<TopicId>,
}

impl ForwardMark {
    /// Returns the mark of a message that was sent to the entity `to` via another entity.
    pub fn of_transfer(to: TopicId) -> Self {
        Self {
            hops: 0,
            copies: 1,
            first_number: None,
            dead_letter_source: None,
            properties: None,
            transfer_to: Some(to),
        }
    }

    /// Returns the number of bytes that this mark adds to each message that has it.
    pub fn bytes(&self) -> u32 {
        let properties = self.properties.as_ref().map_or(0, Vec::len);
        u32::try_from(properties).unwrap_or(u32::MAX)
    }
}

/// Messages of a queue to forward. Each has the request that stores it at its destination, or the reason why it cannot
/// be forwarded.
#[derive(Debug)]
pub struct ForwardRequest {
    pub from: QueueRef,
    pub moves: Vec<(Delivery, Result<AppendRequest, DeadLetterReason>)>,
    pub now: Timestamp,
}

impl ForwardRequest {
    /// Returns the forwarder's own lane. The forwarder moves the messages of one queue after those of another. If its
    /// changes took the turns of their destinations, the messages of all queues would wait for one busy topic.
    pub(super) fn lane(&self) -> Lane {
        let onward = self.moves.iter().filter_map(|(_, to)| to.as_ref().ok());
        let rows = self.moves.len() + onward.map(AppendRequest::rows).sum::<usize>();
        let whose = Whose::Forwarder;
        Lane::Other { whose, rows }
    }
}

/// The time after which a dead letter that cannot be forwarded is tried again. Until then it does not delay the dead
/// letters behind it.
const LOOK_AGAIN: Duration = Duration::from_secs(3_600);
const STAY: &str = "UPDATE delivery SET next_attempt_at = ?2 WHERE id = ?1";
const MARK: &str = "UPDATE delivery SET hops = ?2, first_number = ?3, dead_letter_source = ?4, \
     message_properties = ?5, copies = ?6, transfer_to = ?7 WHERE id = ?1";
const IS_DUE: &str =
    "SELECT id FROM delivery WHERE id = ?1 AND state = 'DeadLettered' AND next_attempt_at <= ?2";

/// The result of a [`ForwardRequest`], for the messages that were still in the queue.
#[derive(Debug, Default)]
pub(super) struct Forwarded {
    /// The settlement of each of these messages in the queue that it left.
    pub(super) ended: Vec<Settlement>,
    /// The events that were stored at their destinations, each with its position in [`ForwardRequest::moves`].
    pub(super) stored: Vec<(usize, Option<StoredRows>)>,
}

/// Stores the mark of a forwarded message in its new delivery.
pub(super) fn mark(tx: &Connection, id: DeliveryId, mark: &ForwardMark) -> rusqlite::Result<()> {
    let ForwardMark {
        hops,
        copies,
        first_number,
        dead_letter_source,
        properties,
        transfer_to,
    } = mark;
    let values = params![
        id,
        hops,
        first_number,
        dead_letter_source,
        properties,
        copies,
        transfer_to
    ];
    tx.run(MARK, values)?;
    seal(tx, id)
}

/// Forwards the messages that have not changed since they were read.
pub(super) fn forward(tx: &WriteTx, request: ForwardRequest) -> Result<Forwarded, StoreError> {
    let ForwardRequest { from, moves, now } = request;
    let mut done = Forwarded::default();
    for (place, (delivery, onward)) in moves.into_iter().enumerate() {
        let end = match &onward {
            Ok(_) => Settlement::Complete,
            Err(reason) => Settlement::DeadLetter(*reason),
        };
        let id = delivery.id;
        let is_there = match from.queue {
            SubQueue::Active => {
                settle(tx, &SettlementRecord::of(&delivery, end), now)? == Settled::Done
            }
            SubQueue::DeadLetter => tx.find::<DeliveryId>(IS_DUE, params![id, now])?.is_some(),
        };
        if !is_there {
            continue;
        }
        match (&onward, from.queue) {
            (Ok(_), SubQueue::DeadLetter) => remove(tx, id, now)?,
            (Err(_), SubQueue::DeadLetter) => {
                tx.run(STAY, params![id, now + LOOK_AGAIN])?;
            }
            (_, SubQueue::Active) => {}
        }
        if let Ok(request) = onward {
            done.stored.push((place, append(tx, request)?));
        }
        done.ended.push(end);
    }
    Ok(done)
}

/// Returns the messages of a queue that are due and not locked, oldest first.
pub(super) fn forwardable(
    tx: &Connection,
    query: &ForwardQuery,
) -> Result<Vec<Forwardable>, StoreError> {
    let select = format!(
        "SELECT {DELIVERY_COLUMNS}, hops, first_number, dead_letter_source, message_properties, \
             dead_letter_reason, receiver_reason, receiver_description, \
             coalesce(copies, (SELECT matched FROM event WHERE event.id = delivery.event_id), 1), transfer_to \
         FROM delivery \
         WHERE subscription_id = ?1 AND state = '{}' AND next_attempt_at <= ?2 \
         ORDER BY next_attempt_at, id LIMIT ?3",
        query.from.queue.state().name()
    );
    let values = params![query.from.subscription, query.now, query.limit];
    let due = tx.all(&select, values, |row| {
        let delivery = delivery(row)?;
        let (hops, first_number): (Option<_>, Option<_>) = (row.get(6)?, row.get(7)?);
        Ok(ForwardedMessage {
            hops: hops.unwrap_or(0),
            first_number: first_number.unwrap_or(delivery.number),
            dead_letter_source: row.get(8)?,
            properties: row.get(9)?,
            reason: row.get(10)?,
            receiver_reason: row.get(11)?,
            receiver_description: row.get(12)?,
            copies: row.get(13)?,
            transfer_to: row.get(14)?,
            delivery,
        })
    })?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    for message in due {
        if bytes > query.bytes_max {
            break;
        }
        let event = load_event(tx, message.delivery.event, message.delivery.id)?.ok();
        let is_dead = query.from.queue == SubQueue::DeadLetter;
        // The properties of an unreadable message are not read, since an error would stop the other messages.
        let kept = event.as_ref().map(|_| message.properties()).transpose()?;
        let properties = kept.flatten();
        bytes += event.as_ref().map_or(0, |stored| stored.event.size());
        bytes += properties.as_ref().map_or(0, Vec::len);
        found.push(Forwardable {
            event: event.map(|stored| stored.event),
            hops: message.hops,
            copies: message.copies,
            transfer_to: message.transfer_to,
            mark: ForwardMark {
                hops: message.hops + 1,
                copies: message.copies,
                first_number: Some(message.first_number),
                properties,
                dead_letter_source: if is_dead {
                    Some(query.name.clone())
                } else {
                    message.dead_letter_source
                },
                transfer_to: None,
            },
            delivery: message.delivery,
        });
    }
    Ok(found)
}

/// The row of a message that is to be forwarded.
struct ForwardedMessage {
    delivery: Delivery,
    hops: u32,
    copies: u32,
    first_number: i64,
    dead_letter_source: Option<String>,
    transfer_to: Option<TopicId>,
    properties: Option<Vec<u8>>,
    /// The dead-letter reason, if the message is a dead letter.
    reason: Option<DeadLetterReason>,
    receiver_reason: Option<String>,
    receiver_description: Option<String>,
}

impl ForwardedMessage {
    /// Returns the properties that receivers have set. For a dead letter, the dead-letter reason and description are
    /// added.
    fn properties(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(reason) = self.reason else {
            return Ok(self.properties.clone());
        };
        let system = message::system_reason(reason, self.delivery.attempts);
        let told = self.receiver_description.as_deref();
        let (own, description) = if reason == DeadLetterReason::Application {
            (self.receiver_reason.as_deref(), told)
        } else {
            (Some(system.0), told.or(Some(system.1.as_str())))
        };
        let told = encoded(message::reason_properties(own, description));
        let all = match &self.properties {
            Some(before) => merged(before, &told),
            None => Ok(told),
        };
        all.map(Some)
            .map_err(|error| row::unreadable("map of properties", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::EventKey;
    use crate::model::subscription::SubscriptionId;

    #[test]
    fn what_goes_on_waits_behind_nothing_that_is_sent() {
        let at = Timestamp::from_ms(0);
        let delivery = Delivery {
            id: DeliveryId(1),
            number: 1,
            event: EventKey(1),
            attempts: 0,
            published_at: at,
            first_attempt_at: None,
            batch_max: None,
        };
        let request = ForwardRequest {
            from: QueueRef::pending(SubscriptionId(1)),
            moves: vec![(delivery, Err(DeadLetterReason::ForwardTargetMissing))],
            now: at,
        };
        let whose = Whose::Forwarder;
        assert_eq!(request.lane(), Lane::Other { whose, rows: 1 });
    }
}
