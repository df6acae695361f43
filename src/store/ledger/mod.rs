//! The ledger: events, their deliveries with the outcomes, and the catalog that they refer to.
//!
//! The methods of [`Ledger`] are the operations that another database would have to implement. Each method is one
//! transaction or a few reads, and makes no decisions: requests and answers are plain values. A change is stored
//! completely or not at all, and is on disk when its method returns. [`StoreError::Closed`] means that the change may
//! or may not have been stored. Most methods can be repeated after this error, since they check what they expect
//! (`attempts`, a cursor, a token).
//!
//! The dispatcher keeps its leases in memory only. The row of a leased delivery stays due, so nothing has to be
//! repaired after a crash. New deliveries are handed to the dispatcher with their events, so that most deliveries are
//! never read.

pub(super) mod append;
pub(super) mod counters;
mod duplicates;
pub(super) mod exports;
pub(super) mod fan_out;
pub(super) mod forward;
pub(super) mod ids;
pub(super) mod lease;
pub(super) mod locks;
pub(super) mod notices;
mod pull_in;
pub(super) mod request_marks;
pub(super) mod resubmit;
pub(super) mod sessions;
pub(super) mod settle;
pub(super) mod traffic;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Row, params};
use tokio::sync::oneshot;

use crate::base::Timestamp;
use crate::model::audit::{AuditEntry, TargetKind};
use crate::model::delivery::{DeliveryId, Settlement};
use crate::model::event::EventKey;
use crate::model::lease::{LockError, LockOf, LockToken, QueueRef};
use crate::model::limits::{BLOB_NAMES_KEPT, CHANGE_DELIVERIES_MAX, REQUEST_ID_WINDOW};
use crate::model::queue::MessageEntity;
use crate::model::registry::{Registry, ResourceScope};
use crate::model::replay::{NewReplayJob, ReplayCommand, ReplayJob, ReplayJobId, ReplaySource};
use crate::model::session::{HeldSession, SessionAnswer, SessionChange, SessionError};
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::catalog::{self, RegistryChange};
use crate::store::engine::db::{Db, WriteTx};
use crate::store::engine::encryption::Encryption;
use crate::store::engine::queue::{Lane, Whose};
use crate::store::error::{ChangeError, StoreError};
use crate::store::replay::search::{self, CandidateQuery, Candidates, IdRange, RangeCount};
use crate::store::replay::{self, CommandResult};
use crate::store::retention::deleted::{self, ForgetRequest};
use crate::store::retention::{self, PruneRequest, PrunedRows, rollups};
use crate::store::sql::Sql;
use crate::wire::changes::with_changes;
use append::{
    About, AppendRequest, Appended, Effects, HandedOver, MessageFacts, PromisedNumber, StoredRows,
};
use exports::{BlobEnd, BlobId, BlobRequest, ExportStatus, PendingBlob};
use fan_out::FannedOut;
use forward::{ForwardQuery, ForwardRequest, Forwardable};
use lease::{Due, LeaseRequest, Leased};
use locks::{
    DeferredQuery, LockBatch, LockChanges, LockRequest, LockSettled, LocksSettled, NumberedQuery,
    PeekRequest, Peeked,
};
use notices::OwedNotice;
use resubmit::{ResubmitDone, ResubmitRequest, SentOutcome};
use sessions::{SessionQuery, SessionRequest, SessionWait, SessionWalk};
use settle::{
    DiscardRequest, Discarded, FreeChange, FreeChanges, FreeSettled, Settled, SettlementRecord,
};
use traffic::{DeliveryTotals, TotalsQuery, TrafficQuery, TrafficSlot};

/// The ledger. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    pub(super) db: Db,
    pub(super) scope: ResourceScope,
    pub(super) encryption: Encryption,
}

/// The catalog.
impl Ledger {
    /// Loads all namespaces, topics and event subscriptions.
    pub async fn catalog(&self) -> Result<Registry, StoreError> {
        let (scope, encryption) = (self.scope.clone(), self.encryption.clone());
        let load = move |tx: &_| catalog::load(tx, &scope, &encryption);
        let registry = self.db.read(load).await?;
        self.db.set_catalog(&registry);
        Ok(registry)
    }

    /// Changes the catalog, whose current state is `before`. Returns the new catalog.
    pub async fn change_catalog(
        &self,
        before: &Registry,
        change: RegistryChange,
        effects: Effects,
        now: Timestamp,
    ) -> Result<Registry, StoreError> {
        let (encryption, before) = (self.encryption.clone(), before.clone());
        let change = move |tx: &WriteTx| {
            let mut registry = before.clone();
            catalog::save(tx, &encryption, change, &mut registry, now)?;
            if let Some(notice) = effects.notice {
                append::append(tx, notice)?;
            }
            let entry = effects
                .audit
                .map(|entry| with_changes(entry, &before, &registry));
            Ok::<_, StoreError>((registry, entry))
        };
        let registry = self.db.write_audited(change).await?;
        self.db.set_catalog(&registry);
        Ok(registry)
    }
}

/// Times of last use of queues, and of Service Bus topics and subscriptions.
impl Ledger {
    /// Returns the time at which each entity was last used. Entities without a known time are left out.
    pub async fn uses(&self) -> Result<Vec<(MessageEntity, Timestamp)>, StoreError> {
        let select = |table| {
            format!(
                "SELECT id, used_at FROM {table} WHERE used_at IS NOT NULL AND deleted_at IS NULL"
            )
        };
        let (topics, queues) = (select("topic"), select("event_subscription"));
        self.db
            .read(move |tx| {
                let topic = |row: &Row<'_>| Ok((MessageEntity::Topic(row.get(0)?), row.get(1)?));
                let queue = |row: &Row<'_>| Ok((MessageEntity::Queue(row.get(0)?), row.get(1)?));
                let mut uses = tx.all(&topics, [], topic)?;
                uses.extend(tx.all(&queues, [], queue)?);
                Ok(uses)
            })
            .await
    }

    /// Stores the times at which these entities were last used.
    pub async fn keep_uses(&self, uses: Vec<(MessageEntity, Timestamp)>) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                for (of, at) in uses {
                    let (table, id) = match of {
                        MessageEntity::Topic(id) => ("topic", id.0),
                        MessageEntity::Queue(id) => ("event_subscription", id.0),
                    };
                    let keep = format!("UPDATE {table} SET used_at = ?2 WHERE id = ?1");
                    tx.run(&keep, params![id, at])?;
                }
                Ok(())
            })
            .await
    }
}

/// Publishing of events, and leases and settlement of their deliveries.
impl Ledger {
    /// Stores events with all their deliveries, or with a record of the deliveries that are created later. Everything
    /// is stored, or nothing. `then` gets the new deliveries, even if the caller has stopped waiting. `then` must be
    /// short and must not block.
    pub async fn append(
        &self,
        mut request: AppendRequest,
        then: impl FnOnce(Vec<HandedOver>) + Send + 'static,
    ) -> Result<Appended, StoreError> {
        let db = self.db.in_lane(request.lane());
        if let Some(audit) = request.audit.take() {
            let change = |tx: &_| {
                let stored = append::append(tx, request)?;
                let audit = stored.is_some().then_some(audit);
                Ok::<_, StoreError>((stored, audit))
            };
            let stored = db.write_audited(change).await?;
            return Ok(StoredRows::announce(stored, then));
        }
        let (sender, appended) = oneshot::channel();
        let announce = move |stored: Result<_, _>| {
            let appended = stored.map(|stored| StoredRows::announce(stored, then));
            drop(sender.send(appended));
        };
        db.write_then(|tx| append::append(tx, request), announce)
            .await?;
        appended.await.map_err(|_| StoreError::Closed)?
    }

    /// Continues the work of the previous process at startup. The connections that held sessions are gone, so the locks
    /// of these sessions end. Returns the topics with deliveries that are still to be created.
    pub async fn resume(&self, now: Timestamp) -> Result<Vec<TopicId>, StoreError> {
        let held = self.db.read(move |tx| sessions::all_held(tx, now)).await?;
        if !held.is_empty() {
            self.db
                .write(move |tx| sessions::end_locks(tx, &held, now))
                .await?;
        }
        self.db.read(fan_out::topics).await
    }

    /// Creates about `limit` deliveries for the oldest events of a topic that were stored without them.
    pub async fn fan_out(&self, topic: TopicId, limit: usize) -> Result<FannedOut, StoreError> {
        self.db
            .of(Whose::Topic(topic))
            .write(move |tx| fan_out::fan_out(tx, topic, limit))
            .await
    }

    /// Creates a delivery of a stored event for a subscription that has no delivery of it. Increments the number of
    /// subscriptions that the event matched.
    pub async fn send(
        &self,
        event: EventKey,
        subscription: SubscriptionId,
        facts: MessageFacts,
        audit: AuditEntry,
        now: Timestamp,
    ) -> Result<SentOutcome, StoreError> {
        self.db
            .write_audited(move |tx| {
                let about = About::message(&facts);
                let sent = resubmit::send(tx, event, subscription, about, now)?;
                let is_new = matches!(sent, SentOutcome::As(_));
                Ok((sent, is_new.then_some(audit)))
            })
            .await
    }

    /// Returns the due time of the first delivery of each of these queues, which may have passed. Empty queues are left
    /// out.
    pub async fn agenda(&self, queues: Vec<QueueRef>) -> Result<Vec<Due>, StoreError> {
        self.db
            .read(move |tx| {
                let due = queues.into_iter().map(|queue| {
                    let at = lease::next_due(tx, queue)?;
                    Ok(at.map(|at| Due { queue, at }))
                });
                due.filter_map(Result::transpose).collect()
            })
            .await
    }

    /// Returns due deliveries of one subscription, oldest first. Nothing is written: the deliveries stay due until they
    /// are settled, and the caller keeps the leases in memory.
    pub async fn lease(&self, request: LeaseRequest) -> Result<Leased, StoreError> {
        self.db.read(move |tx| lease::lease(tx, &request)).await
    }

    /// Ends leases: records the attempts and their late responses, and settles the deliveries. Returns the outcome of
    /// each record.
    pub async fn settle(
        &self,
        records: impl Into<Arc<[SettlementRecord]>>,
        now: Timestamp,
    ) -> Result<Vec<Settled>, StoreError> {
        let (sender, settled) = oneshot::channel();
        let then = move |result| drop(sender.send(result));
        self.settle_then(records.into(), now, then).await?;
        settled.await.map_err(|_| StoreError::Closed)?
    }

    /// Does the same as [`Ledger::settle`], but returns as soon as the settlements are queued for the writer. `then`
    /// gets their outcomes. `then` must be short and must not block. The caller limits the number of queued
    /// settlements.
    pub(crate) async fn settle_then(
        &self,
        records: Arc<[SettlementRecord]>,
        now: Timestamp,
        then: impl FnOnce(Result<Vec<Settled>, StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let change = move |tx: &_| {
            let settle = |record| settle::settle(tx, record, now);
            records.iter().map(settle).collect()
        };
        let db = self.db.in_lane(Lane::Settlement);
        db.write_then(change, then).await
    }

    /// Does the same as [`Ledger::settle_then`], and also stores the events of `append` in the same change, if none of
    /// the deliveries has ended or was attempted again meanwhile. The new deliveries are passed to `announce` before
    /// `then` is called.
    pub(crate) async fn settle_with(
        &self,
        records: Arc<[SettlementRecord]>,
        append: AppendRequest,
        announce: impl FnOnce(Vec<HandedOver>) + Send + 'static,
        now: Timestamp,
        then: impl FnOnce(Result<Vec<Settled>, StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let change = move |tx: &_| {
            let settle = |record| settle::settle(tx, record, now);
            let settled = records.iter().map(settle).collect::<Result<Vec<_>, _>>()?;
            let are_done = settled.iter().all(|each| *each == Settled::Done);
            let stored = are_done.then(|| append::append(tx, append)).transpose()?;
            Ok((settled, stored))
        };
        let then = move |result: Result<(Vec<Settled>, Option<Option<StoredRows>>), StoreError>| {
            then(result.map(|(settled, stored)| {
                if let Some(stored) = stored {
                    StoredRows::announce(stored, announce);
                }
                settled
            }));
        };
        let db = self.db.in_lane(Lane::Settlement);
        db.write_then(change, then).await
    }

    /// Returns up to `limit` messages of all queues whose own time to live has expired and that are not locked, in the
    /// order of their expiry. Deferred messages are left out.
    pub async fn outlived(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<(DeliveryId, SubscriptionId)>, StoreError> {
        let find = "SELECT id, subscription_id FROM delivery \
             WHERE state = 'Pending' AND deferred = 0 AND expires_at <= ?1 \
             AND (lock_token IS NULL OR locked_until <= ?1) ORDER BY expires_at LIMIT ?2";
        self.db
            .read(move |tx| {
                tx.all(find, params![now, limit], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
            })
            .await
    }

    /// Changes deliveries that are not locked. Returns the outcome of each change.
    pub async fn settle_free(&self, request: FreeChanges) -> Result<Vec<FreeSettled>, StoreError> {
        self.db
            .of(request.whose())
            .write_audited(move |tx| settle::settle_all_free(tx, request))
            .await
    }

    /// Reports whether all of these scheduled messages can be cancelled.
    pub async fn can_cancel(
        &self,
        scheduled: Arc<[(DeliveryId, SubscriptionId)]>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let of = scheduled.first().map(|(_, of)| *of);
        self.db
            .read_in_turn(of, move |tx| settle::can_cancel(tx, &scheduled, now))
            .await
    }

    /// Ends up to `limit` deliveries in one change. More may be left unless the result is empty.
    pub async fn discard(
        &self,
        request: DiscardRequest,
        limit: usize,
        now: Timestamp,
    ) -> Result<Discarded, StoreError> {
        match request {
            DiscardRequest::OfDeleted => {
                // This search runs outside the writer.
                let find = move |tx: &_| {
                    let leftovers = settle::of_deleted(tx, limit)?;
                    Ok((leftovers, sessions::of_deleted(tx, now, limit)?))
                };
                let (leftovers, states) = self.db.read(find).await?;
                if leftovers.is_empty() && states.is_empty() {
                    return Ok(Discarded::default()); // as nearly always
                }
                let end = move |tx: &_| {
                    sessions::forget(tx, &states, now)?;
                    let ended = settle::end_leftovers(tx, leftovers, now)?;
                    let sessions = states.len();
                    Ok(Discarded { sessions, ..ended })
                };
                self.db.write(end).await
            }
            DiscardRequest::DeadLetters { of, before } => {
                let drop = move |tx: &_| settle::discard_dead_letters(tx, of, before, limit, now);
                self.db.write(drop).await
            }
        }
    }
}

/// Locks of receivers.
impl Ledger {
    /// Locks deliveries of a queue, at most one for each lock token.
    pub async fn lock(&self, request: LockRequest) -> Result<LockBatch, StoreError> {
        self.db
            .in_lane(Lane::Lock(Whose::Queue(request.of.subscription)))
            .write(move |tx| locks::lock(tx, &request))
            .await
    }

    /// Reports whether all of these messages are deferred in their queue and none of them is locked.
    pub async fn are_deferred(&self, query: DeferredQuery) -> Result<bool, StoreError> {
        let of = query.of.subscription;
        self.db
            .read_in_turn(Some(of), move |tx| locks::are_deferred(tx, &query))
            .await
    }

    /// Returns deliveries of a queue in the order of their sequence numbers, including locked ones.
    pub async fn peek(&self, request: PeekRequest) -> Result<Vec<Peeked>, StoreError> {
        let of = request.of.subscription;
        self.db
            .read_in_turn(Some(of), move |tx| locks::peek(tx, &request))
            .await
    }

    /// Settles or renews the first locks of a request, as many as one change allows. A lock that was lost changes
    /// nothing.
    pub async fn settle_locks(&self, request: LockChanges) -> Result<LocksSettled, StoreError> {
        let db = self.db.in_lane(request.lane());
        if request.audit.is_some() {
            let change = move |tx: &_| locks::settle_locks(tx, request, CHANGE_DELIVERIES_MAX);
            return db.write_audited(change).await;
        }
        let change = move |tx: &_| Ok(locks::settle_locks(tx, request, CHANGE_DELIVERIES_MAX)?.0);
        db.write_in_group(change).await
    }
}

/// The reason why a transaction was rolled back.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A message that the transaction cancels is not scheduled any more.
    #[error("a message is not scheduled any more")]
    NotScheduled,
    /// The messages that the transaction settles have more bytes that receivers have set than one change may settle.
    #[error("the messages have more properties than are changed at once")]
    TooLarge,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ChangeError for TransactionError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Lock(_) | Self::Session(_) | Self::NotScheduled | Self::TooLarge => None,
            Self::Store(error) => Some(error),
        }
    }
}

/// Changes that a transaction makes in addition to the events that it stores.
#[derive(Clone, Debug)]
pub struct TransactionChanges {
    pub locks: LockChanges,
    /// Scheduled messages that are cancelled.
    pub cancels: Vec<(DeliveryId, SubscriptionId)>,
    pub states: Vec<SessionStateChange>,
}

/// A new state for a session, set by the holder of the session.
#[derive(Clone, Debug)]
pub struct SessionStateChange {
    pub held: HeldSession,
    pub state: Option<Vec<u8>>,
}

impl TransactionChanges {
    /// Returns the lane in which the changes and the appended events wait for the writer: the turn of the topic of the
    /// first append, or the turn of the first queue if nothing is appended. Each lock and each cancelled message counts
    /// as one row. A session state counts as one row, and more if it is large.
    fn lane(&self, appends: &[AppendRequest]) -> Lane {
        let cancelled = self.cancels.iter().map(|(_, of)| *of);
        let held = self.states.iter().map(|state| state.held.of);
        let mut queues = self.locks.queues().chain(cancelled).chain(held);
        let states = self.states.iter().map(|each| {
            let bytes = each.state.as_ref().map_or(0, Vec::len);
            1 + append::rows_of(bytes)
        });
        let changed = self.locks.changes.len() + self.cancels.len() + states.sum::<usize>();
        let rows = changed + appends.iter().map(AppendRequest::rows).sum::<usize>();
        match appends.first() {
            Some(first) => Lane::Append {
                to: first.topic,
                rows,
            },
            None => Lane::Other {
                whose: queues.next().map_or(Whose::AnyQueue, Whose::Queue),
                rows,
            },
        }
    }

    fn make(
        self,
        tx: &WriteTx,
    ) -> Result<(Vec<LockSettled>, Option<AuditEntry>), TransactionError> {
        let now = self.locks.now;
        let all = self.locks.changes.len();
        let (locks, audit) = locks::settle_locks(tx, self.locks, all)?;
        let mut rest = locks.rest;
        if !rest.changes.is_empty() {
            return Err(TransactionError::TooLarge);
        }
        let settled = locks
            .settled
            .into_iter()
            .collect::<Result<_, LockError>>()?;
        for (id, of) in self.cancels {
            let cancelled = settle::settle_free(tx, id, FreeChange::Cancel(of), now)?;
            if !matches!(cancelled, FreeSettled::Done(_)) {
                return Err(TransactionError::NotScheduled);
            }
        }
        for SessionStateChange { held, state } in self.states {
            let set = SessionChange::SetState(state);
            sessions::change(tx, &held, set, &mut rest.room, now)??;
        }
        Ok((settled, audit))
    }
}

/// Transactions that send messages and settle locks.
impl Ledger {
    /// Reserves sequence numbers for messages that a transaction schedules in a queue or in a topic with rules. `queue`
    /// is the subscription of the queue; `None` for a topic.
    pub async fn promise_numbers(
        &self,
        topic: TopicId,
        queue: Option<SubscriptionId>,
        count: usize,
    ) -> Result<Vec<PromisedNumber>, StoreError> {
        let promise = move |tx: &_| append::promise(tx, queue, count);
        self.db.of(Whose::Topic(topic)).write(promise).await
    }

    /// Reports for each token whether its lock is held and is the one that the [`LockOf`] describes.
    pub async fn check_locks(
        &self,
        locks: Vec<(LockToken, LockOf)>,
        now: Timestamp,
    ) -> Result<Vec<Result<(), LockError>>, StoreError> {
        let queue = locks.first().and_then(|(_, of)| of.queue);
        let check = move |tx: &_| locks::check_locks(tx, locks, now);
        let of = queue.map(|queue| queue.subscription);
        self.db.read_in_turn(of, check).await
    }

    /// Stores the appended events and makes the other changes of a transaction, all of them or none. The new deliveries
    /// of each append are then passed to the function that comes with it.
    pub async fn commit(
        &self,
        appends: Vec<(AppendRequest, impl FnOnce(Vec<HandedOver>))>,
        changes: TransactionChanges,
    ) -> Result<Vec<LockSettled>, TransactionError> {
        let (requests, announce): (Vec<AppendRequest>, Vec<_>) = appends.into_iter().unzip();
        let db = self.db.in_lane(changes.lane(&requests));
        let change = move |tx: &_| {
            let (settled, audit) = changes.make(tx)?;
            let stored = requests
                .into_iter()
                .map(|each| append::append(tx, each))
                .collect::<Result<Vec<_>, _>>()?;
            Ok::<_, TransactionError>(((settled, stored), audit))
        };
        let (settled, stored) = db.write_audited(change).await?;
        for (stored, announce) in stored.into_iter().zip(announce) {
            StoredRows::announce(stored, announce);
        }
        Ok(settled)
    }
}

/// Message sessions of queues, and forwarding.
impl Ledger {
    /// Locks a session for a receiver.
    pub async fn accept_session(
        &self,
        request: SessionRequest,
    ) -> Result<Result<HeldSession, SessionError>, StoreError> {
        self.db
            .in_lane(Lane::Lock(Whose::Queue(request.of)))
            .write(move |tx| sessions::accept(tx, &request))
            .await
    }

    /// Makes a change that the holder of a session has requested. The queue may grow by at most `room` bytes.
    pub async fn change_session(
        &self,
        lock: HeldSession,
        change: SessionChange,
        room: u64,
        now: Timestamp,
    ) -> Result<Result<SessionAnswer, SessionError>, StoreError> {
        let whose = Whose::Queue(lock.of);
        let lane = match change {
            SessionChange::Renew { .. } => Lane::Lock(whose),
            SessionChange::ReadState
            | SessionChange::SetState(_)
            | SessionChange::Release
            | SessionChange::Abandon => Lane::of(whose),
        };
        self.db
            .in_lane(lane)
            .write(move |tx| {
                let mut room = [(lock.of, room)].into_iter().collect();
                sessions::change(tx, &lock, change, &mut room, now)
            })
            .await
    }

    /// Returns the earliest time, which may have passed, at which there may be something to receive: a free session, or
    /// a message of a session. Returns `None` if nothing is expected.
    pub async fn session_due(&self, place: SessionWait) -> Result<Option<Timestamp>, StoreError> {
        let of = place.queue();
        self.db
            .read_in_turn(Some(of), move |tx| sessions::due(tx, &place))
            .await
    }

    /// Returns messages or dead letters of a queue that may be forwarded.
    pub async fn forwardable(&self, query: ForwardQuery) -> Result<Vec<Forwardable>, StoreError> {
        self.db
            .read(move |tx| forward::forwardable(tx, &query))
            .await
    }

    /// Forwards messages or dead letters of a queue. `announce` has a function for each move, which gets the deliveries
    /// that were stored at the destination. Returns the settlement of each message that was still in the queue.
    pub async fn forward(
        &self,
        request: ForwardRequest,
        announce: Vec<Option<impl FnOnce(Vec<HandedOver>)>>,
    ) -> Result<Vec<Settlement>, StoreError> {
        let db = self.db.in_lane(request.lane());
        let moved = db.write(move |tx| forward::forward(tx, request)).await?;
        let mut stored = moved.stored.into_iter().peekable();
        for (place, announce) in announce.into_iter().enumerate() {
            let moved_here = stored.next_if(|(of, _)| *of == place);
            if let (Some((_, stored)), Some(announce)) = (moved_here, announce) {
                StoredRows::announce(stored, announce);
            }
        }
        Ok(moved.ended)
    }

    /// Finds the messages with these sequence numbers and all their copies, each with its subscription. Returns `None`
    /// if one of the messages does not exist.
    pub async fn numbered(
        &self,
        query: NumberedQuery,
    ) -> Result<Option<Vec<(DeliveryId, SubscriptionId)>>, StoreError> {
        let of = query.queue();
        self.db
            .read_in_turn(of, move |tx| locks::numbered(tx, &query))
            .await
    }

    /// Returns the names of the sessions that match a query.
    pub async fn sessions(&self, query: SessionQuery) -> Result<Vec<String>, StoreError> {
        let (of, mut walk) = (query.of, SessionWalk::new(query));
        while walk.goes_on() {
            let proceed = move |tx: &_| walk.proceed(tx);
            walk = self.db.read_in_turn(Some(of), proceed).await?;
        }
        Ok(walk.names)
    }
}

/// Resubmission and replay jobs.
impl Ledger {
    /// Returns deliveries that may be resubmitted.
    pub async fn candidates(&self, query: CandidateQuery) -> Result<Candidates, StoreError> {
        self.db.read(move |tx| search::candidates(tx, &query)).await
    }

    /// Counts the deliveries in a range of ids that a replay job would cover.
    pub async fn count_candidates(
        &self,
        source: ReplaySource,
        range: IdRange,
    ) -> Result<RangeCount, StoreError> {
        self.db
            .read(move |tx| search::count(tx, &source, range))
            .await
    }

    /// Resubmits deliveries. Returns `None` and stores nothing if they are a step of a replay job that was paused,
    /// cancelled or advanced meanwhile.
    pub async fn resubmit(
        &self,
        request: ResubmitRequest,
    ) -> Result<Option<ResubmitDone>, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .write_audited(move |tx| {
                let audit = request.audit.clone();
                let done = resubmit::resubmit_all(tx, &encryption, request)?;
                let count = done.as_ref().map_or(0, ResubmitDone::count);
                Ok((done, audit.and_then(|audit| audit.of_dead_letters(count))))
            })
            .await
    }

    /// Stores a new replay job and starts it. Deletes the oldest ended jobs if there are too many.
    pub async fn start_replay(
        &self,
        job: NewReplayJob,
        audit: AuditEntry,
        now: Timestamp,
    ) -> Result<ReplayJob, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .write_audited(move |tx| {
                let job = replay::start(tx, &encryption, job, now)?;
                let target = TargetKind::ReplayJob.named(job.id);
                Ok((job, Some(AuditEntry { target, ..audit })))
            })
            .await
    }

    /// Pauses, resumes or cancels a replay job. Returns `None` if there is no such job.
    pub async fn command_replay(
        &self,
        id: ReplayJobId,
        command: ReplayCommand,
        audit: AuditEntry,
        now: Timestamp,
    ) -> Result<Option<CommandResult>, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .write_audited(move |tx| {
                let done = replay::command(tx, &encryption, id, command, now)?;
                let is_applied = done.as_ref().is_some_and(|done| done.is_applied);
                Ok((done, is_applied.then_some(audit)))
            })
            .await
    }

    /// Returns the replay jobs that have not ended, oldest first.
    pub async fn open_replays(&self) -> Result<Vec<ReplayJob>, StoreError> {
        let encryption = self.encryption.clone();
        self.db.read(move |tx| replay::open(tx, &encryption)).await
    }
}

/// Export of dead letters.
impl Ledger {
    /// Returns the state of the exports of each of these subscriptions that has something to export.
    pub async fn export_statuses(
        &self,
        subscriptions: Vec<SubscriptionId>,
    ) -> Result<Vec<ExportStatus>, StoreError> {
        self.db
            .read(move |tx| exports::statuses(tx, &subscriptions))
            .await
    }

    /// Returns the pending blob of a subscription. If there is none, creates a blob of its oldest dead letters that are
    /// in no blob and not locked. Returns `None` if there are no such dead letters.
    pub async fn begin_blob(
        &self,
        request: BlobRequest,
    ) -> Result<Option<PendingBlob>, StoreError> {
        let subscription = request.subscription;
        let pending = || self.db.read(move |tx| exports::pending(tx, subscription));
        if let Some(blob) = pending().await? {
            return Ok(Some(blob));
        }
        let Some(next) = self.db.read(move |tx| exports::next(tx, request)).await? else {
            return Ok(None);
        };
        self.db.write(move |tx| exports::begin(tx, &next)).await?;
        pending().await
    }

    /// Stores the outcome of a pending blob.
    pub async fn end_blob(
        &self,
        blob: BlobId,
        end: BlobEnd,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.db
            .write(move |tx| exports::end(tx, blob, end, now))
            .await
    }

    /// Deletes the pending blobs of all subscriptions except `exporting`, and the outages of these subscriptions. The
    /// dead letters stay in their queues.
    pub async fn release_blobs(
        &self,
        exporting: HashSet<SubscriptionId>,
    ) -> Result<(), StoreError> {
        let others = self
            .db
            .read(move |tx| exports::pending_of_others(tx, &exporting))
            .await?;
        if others.is_empty() {
            return Ok(()); // as nearly always
        }
        self.db
            .write(move |tx| exports::release_all(tx, others))
            .await
    }
}

/// Counts, and notices.
impl Ledger {
    /// Returns the total number of bytes of the messages in these queues and Service Bus subscriptions, including dead
    /// letters. Never waits.
    pub fn queue_bytes(&self, queues: &[SubscriptionId]) -> u64 {
        self.db.queue_sums().of(queues)
    }

    /// Returns the totals of the subscriptions of a query, in the order of the query.
    pub async fn totals(&self, query: TotalsQuery) -> Result<Vec<DeliveryTotals>, StoreError> {
        self.db
            .read(move |tx| traffic::all_totals(tx, &query))
            .await
    }

    /// Returns a series of counts, oldest slot first. Empty slots are included.
    pub async fn traffic(&self, query: TrafficQuery) -> Result<Vec<TrafficSlot>, StoreError> {
        self.db.read(move |tx| traffic::traffic(tx, query)).await
    }

    /// Returns up to `limit` notices for the marks that changes have left. [`Ledger::append`] publishes a notice and
    /// clears its mark. For each subscription and dead-letter reason, there is at most one notice of new dead letters
    /// per `quiet` period.
    pub async fn owed_notices(
        &self,
        now: Timestamp,
        quiet: Duration,
        limit: usize,
    ) -> Result<Vec<OwedNotice>, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .read(move |tx| notices::owed(tx, &encryption, now, quiet, limit))
            .await
    }
}

/// Retention.
impl Ledger {
    /// Deletes events that are old enough, with their deliveries and attempts. Rows that are still needed are kept.
    pub async fn prune(&self, request: PruneRequest) -> Result<PrunedRows, StoreError> {
        let found = self.db.read(move |tx| retention::find(tx, &request));
        let (events, found) = found.await?;
        if request.dry_run || events.is_empty() {
            return Ok(found);
        }
        let prune = move |tx: &_| retention::prune(tx, events, request.cutoff);
        let pruned = self.db.write(prune).await?;
        let last_seen = found.last_seen;
        Ok(PrunedRows {
            last_seen,
            ..pruned
        })
    }

    /// Deletes the rows of deleted resources that no other row refers to any more. Returns the id after which the next
    /// call continues, or `None` if no rows are left to look at.
    pub async fn forget_deleted(&self, request: ForgetRequest) -> Result<Option<i64>, StoreError> {
        let (gone, last) = self.db.read(move |tx| deleted::find(tx, &request)).await?;
        if gone.is_empty() {
            return Ok(last); // as nearly always
        }
        let ForgetRequest { kind, limit, .. } = request;
        let forget = move |tx: &_| deleted::forget(tx, kind, &gone, limit);
        Ok(self.db.write(forget).await?.or(last))
    }

    /// Deletes up to `limit` rows of each kind that are not needed any more at `now`: marks of publish requests and
    /// notices, names of blobs, ids of messages, idle sessions and counters. Rolls up counters. Makes deliveries due
    /// that a wrong clock has scheduled too late, and ends session locks that last too long. Returns `true` if more
    /// rows may be left.
    pub async fn tidy(&self, now: Timestamp, limit: usize) -> Result<bool, StoreError> {
        // These searches run outside the writer, since the last search of a round reads the whole index.
        let find = move |tx: &_| {
            let sessions = (
                sessions::idle(tx, now, limit)?,
                sessions::overheld(tx, now, limit)?,
            );
            Ok((rollups::find(tx, now)?, pull_in::find(tx, now)?, sessions))
        };
        let (periods, too_late, (idle, overheld)) = self.db.read(find).await?;
        self.db
            .write(move |tx| {
                notices::tidy(tx, now)?;
                for period in &periods {
                    rollups::roll_up(tx, period)?;
                }
                if let Some((subscription, queue)) = too_late.first() {
                    pull_in::pull_in(tx, *subscription, *queue, now, limit)?;
                }
                sessions::end_locks(tx, &overheld, now)?;
                sessions::forget(tx, &idle, now)?;
                let deleted = [
                    idle.len(),
                    duplicates::tidy(tx, now, limit)?,
                    tx.marks().tidy(tx, now - REQUEST_ID_WINDOW, limit)?,
                    exports::tidy(tx, now - BLOB_NAMES_KEPT, limit)?,
                    rollups::delete(tx, now, limit)?,
                ];
                Ok(!periods.is_empty() || !too_late.is_empty() || deleted.contains(&limit))
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::lease::{Disposition, LockChange};
    use crate::store::ledger::counters::QueueRoom;

    #[test]
    fn a_transaction_counts_what_it_removes() {
        let queue = SubscriptionId(1);
        let lock = LockChange {
            token: LockToken::from_bytes([0; 16]),
            of: LockOf::any_of(QueueRef::pending(queue)),
            disposition: Disposition::Complete,
            properties: Arc::default(),
        };
        let session = HeldSession {
            of: queue,
            name: "s".to_owned(),
            token: LockToken::from_bytes([0; 16]),
            until: Timestamp::from_ms(0),
        };
        let changes = TransactionChanges {
            locks: LockChanges {
                changes: vec![lock; 20],
                dropping: HashSet::new(),
                room: QueueRoom::default(),
                audit: None,
                now: Timestamp::from_ms(0),
            },
            cancels: vec![(DeliveryId(1), queue); 4_500],
            states: vec![SessionStateChange {
                held: session,
                state: Some(vec![0; 81_920]),
            }],
        };
        let expected = Lane::Other {
            whose: Whose::Queue(queue),
            rows: 20 + 4_500 + 11,
        };
        assert_eq!(changes.lane(&[]), expected);
    }
}
