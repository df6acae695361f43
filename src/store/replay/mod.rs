//! Replay jobs: what they cover and how far they are.
//!
//! A batch of resubmissions and the new cursor of the job are stored in one transaction, so that a crash
//! loses and doubles nothing. The batch is searched for beforehand, see [`search`].

pub(super) mod results;
mod search;

use rusqlite::{Connection, Row, ToSql, named_params, params};

pub use search::{Counted, IdRange, ReplayCandidates};

use crate::base::Timestamp;
use crate::model::audit::{AuditEntry, TargetKind};
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::{DeliveryId, Outcome};
use crate::model::destination::EndpointUrl;
use crate::model::event_filter::TextSearch;
use crate::model::limits::REPLAY_JOBS_KEPT;
use crate::model::pace::Rate;
use crate::model::replay::{
    NewReplayJob, NotResubmitted, Progress, ReplayCommand, ReplayJob, ReplayJobId, ReplaySource,
    ReplayState, ReplayTarget, Replayed,
};
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::engine::db::Db;
use crate::store::engine::encryption::{Encryption, REPLAY_URL};
use crate::store::error::StoreError;
use crate::store::ledger::append::AppendRequest;
use crate::store::ledger::notices::{self, AppendSummary};
use crate::store::ledger::resubmit::{Resubmission, Resubmitted, resubmit};
use crate::store::row;
use crate::store::views::{Page, Views};

/// Replay jobs.
#[derive(Clone)]
pub struct Replays {
    pub(super) db: Db,
    pub(super) encryption: Encryption,
}

/// A batch of a replay job.
#[derive(Clone, Debug)]
pub struct ReplayBatch {
    pub job: ReplayJobId,
    /// The cursor that the job must have for the batch to be stored.
    pub from: DeliveryId,
    pub to: DeliveryId,
    pub resubmissions: Vec<Resubmission>,
    pub skipped: Vec<(DeliveryId, NotResubmitted)>,
    /// What the endpoint did not accept: the attempt is recorded, and the error with the job.
    pub failed: Vec<(Resubmission, String)>,
    /// Whether the job ends with it.
    pub completes: bool,
}

/// The result of a batch.
#[derive(Clone, Debug, Default)]
pub struct ReplayBatchDone {
    pub resubmitted: Vec<Resubmitted>,
    pub skipped: u64,
    pub failed: u64,
    /// The notice that was stored, if the job ended.
    pub told: Option<AppendSummary>,
}

/// The result of a command.
#[derive(Clone, Debug)]
pub struct CommandResult {
    /// The job after the command.
    pub job: ReplayJob,
    pub is_applied: bool,
    /// The notice that was stored, if the job ended.
    pub told: Option<AppendSummary>,
}

impl Replays {
    /// Stores a new job, which is running. Deletes the oldest ended jobs beyond [`REPLAY_JOBS_KEPT`].
    pub async fn start(
        &self,
        job: NewReplayJob,
        audit: AuditEntry,
        now: Timestamp,
    ) -> Result<ReplayJob, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .write_audited(move |tx| {
                let id = insert(tx, &encryption, &job, now)?;
                let kept = i64::try_from(REPLAY_JOBS_KEPT).unwrap_or(i64::MAX);
                tx.execute(
                    "DELETE FROM replay_job WHERE id <= ?1 AND state IN ('Completed', 'Cancelled')",
                    [id.0.saturating_sub(kept)],
                )?;
                let job = load(tx, &encryption, id)?
                    .ok_or_else(|| StoreError::Other(format!("replay job {id} is missing")))?;
                let target = TargetKind::ReplayJob.named(id);
                Ok((job, Some(AuditEntry { target, ..audit })))
            })
            .await
    }

    /// The jobs that have not ended, oldest first.
    pub async fn open(&self) -> Result<Vec<ReplayJob>, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .read(move |tx| {
                jobs(
                    tx,
                    &encryption,
                    "WHERE state IN ('Running', 'Paused') ORDER BY id",
                    params![],
                )
            })
            .await
    }

    /// Applies a command, and stores the notice that `tell` makes of the job. `None` if there is no such job.
    pub async fn command(
        &self,
        id: ReplayJobId,
        command: ReplayCommand,
        audit: AuditEntry,
        now: Timestamp,
        tell: impl FnOnce(&ReplayJob) -> Option<AppendRequest> + Send + 'static,
    ) -> Result<Option<CommandResult>, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .write_audited(move |tx| {
                let Some(job) = load(tx, &encryption, id)? else {
                    return Ok((None, None));
                };
                let Some(state) = job.state.after(command) else {
                    let (is_applied, told) = (false, None);
                    let rejected = CommandResult {
                        job,
                        is_applied,
                        told,
                    };
                    return Ok((Some(rejected), None));
                };
                set_state(tx, id, state, now)?;
                let Some(job) = load(tx, &encryption, id)? else {
                    return Ok((None, None));
                };
                let done = CommandResult {
                    told: notices::store(tx, tell(&job))?,
                    is_applied: true,
                    job,
                };
                Ok((Some(done), Some(audit)))
            })
            .await
    }

    /// Stores a batch, and the notice that `tell` makes of the job. `None`, and nothing stored, if the job
    /// was paused, cancelled or advanced meanwhile.
    pub async fn advance(
        &self,
        batch: ReplayBatch,
        now: Timestamp,
        tell: impl FnOnce(&ReplayJob) -> Option<AppendRequest> + Send + 'static,
    ) -> Result<Option<ReplayBatchDone>, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .write(move |tx| {
                let done = apply(tx, &encryption, batch, now)?;
                Ok(match done {
                    None => None,
                    Some((mut done, job)) => {
                        done.told = notices::store(tx, tell(&job))?;
                        Some(done)
                    }
                })
            })
            .await
    }

    /// The first of these subscriptions that has at least so many pending deliveries.
    pub async fn backlogged(
        &self,
        subscriptions: Vec<SubscriptionId>,
        pending: usize,
    ) -> Result<Option<SubscriptionId>, StoreError> {
        self.db
            .read(move |tx| {
                let nth = "SELECT 1 FROM delivery WHERE subscription_id = ?1 AND state = 'Pending' \
                     LIMIT 1 OFFSET ?2";
                let before = i64::try_from(pending).unwrap_or(i64::MAX).saturating_sub(1);
                for subscription in subscriptions {
                    if tx
                        .prepare_cached(nth)?
                        .exists(params![subscription, before])?
                    {
                        return Ok(Some(subscription));
                    }
                }
                Ok(None)
            })
            .await
    }
}

impl Views {
    /// One replay job.
    pub async fn replay_job(&self, id: ReplayJobId) -> Result<Option<ReplayJob>, StoreError> {
        let encryption = self.encryption.clone();
        self.db.read(move |tx| load(tx, &encryption, id)).await
    }

    /// Replay jobs, newest first.
    pub async fn replay_jobs(
        &self,
        before: Option<ReplayJobId>,
        limit: usize,
    ) -> Result<Page<ReplayJob, ReplayJobId>, StoreError> {
        let encryption = self.encryption.clone();
        self.db
            .read(move |tx| {
                let below = before.map_or(i64::MAX, |before| before.0);
                let most = i64::try_from(limit).unwrap_or(i64::MAX);
                let condition = "WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
                let rows = jobs(tx, &encryption, condition, params![below, most])?;
                let last = rows.last().filter(|_| rows.len() == limit);
                let next_before = last.map(|last| last.id);
                Ok(Page { rows, next_before })
            })
            .await
    }
}

fn insert(
    tx: &Connection,
    encryption: &Encryption,
    job: &NewReplayJob,
    now: Timestamp,
) -> rusqlite::Result<ReplayJobId> {
    let (source, filter) = (&job.source, &job.source.filter);
    let (topic, url) = match &job.target {
        ReplayTarget::Subscription => (None, None),
        ReplayTarget::Topic(topic) => (*topic, None),
        ReplayTarget::Url(url) => (None, Some(url.reveal().as_str())),
    };
    let insert = "INSERT INTO replay_job (state, source, topic_id, subscription_id, \
         reason, last_outcome, last_status, event_type, subject, ended_from, \
         ended_before, text, last_delivery_id, target, target_topic_id, target_url, rate_per_1000_s, \
         created_at, updated_at, total) \
         VALUES (:state, :source, :topic, :subscription, :reason, :outcome, :status, :type, :subject, \
         :from, :before, :text, :last, :target, :target_topic, :url, :rate, :now, :now, :total)";
    tx.prepare_cached(insert)?.execute(named_params! {
        ":state": ReplayState::Running.name(),
        ":source": source.of.name(),
        ":topic": filter.topic,
        ":subscription": filter.subscription,
        ":reason": filter.reason,
        ":outcome": filter.outcome.map(Outcome::name),
        ":status": filter.status,
        ":type": filter.event_type,
        ":subject": filter.subject,
        ":from": filter.from.map(|at| at.as_ms()),
        ":before": filter.to.map(|at| at.as_ms()),
        ":text": filter.text.as_ref().map(|text| &text.text),
        ":last": job.until,
        ":target": job.target.name(),
        ":target_topic": topic,
        ":url": url.map(|_| ""), // encrypted for the row, whose id is known only afterwards
        ":rate": job.rate.map(Rate::in_1000_s),
        ":now": now.as_ms(),
        ":total": i64::try_from(job.total).unwrap_or(i64::MAX),
    })?;
    let id = tx.last_insert_rowid();
    if let Some(url) = url {
        let encrypt = "UPDATE replay_job SET target_url = ?2 WHERE id = ?1";
        tx.execute(
            encrypt,
            params![id, encryption.encrypt(REPLAY_URL, id, url)],
        )?;
    }
    Ok(ReplayJobId(id))
}

const JOB: &str = "SELECT id, state, source, topic_id, subscription_id, reason, \
     last_outcome, last_status, event_type, subject, ended_from, ended_before, text, \
     last_delivery_id, target, target_topic_id, target_url, rate_per_1000_s, created_at, updated_at, \
     ended_at, cursor, total, resubmitted, failed, skipped, errors FROM replay_job";

fn jobs(
    tx: &Connection,
    encryption: &Encryption,
    condition: &str,
    values: &[&dyn ToSql],
) -> Result<Vec<ReplayJob>, StoreError> {
    let mut select = tx.prepare_cached(&format!("{JOB} {condition}"))?;
    let mut rows = select.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(job(row, encryption)?);
    }
    Ok(found)
}

fn load(
    tx: &Connection,
    encryption: &Encryption,
    id: ReplayJobId,
) -> Result<Option<ReplayJob>, StoreError> {
    Ok(jobs(tx, encryption, "WHERE id = ?1", params![id.0])?.pop())
}

fn unreadable(what: &str) -> StoreError {
    StoreError::Unreadable(format!("the {what} of a stored replay job cannot be read"))
}

fn job(row: &Row<'_>, encryption: &Encryption) -> Result<ReplayJob, StoreError> {
    Ok(ReplayJob {
        id: ReplayJobId(row.get(0)?),
        state: ReplayState::from_name(&row.get::<_, String>(1)?)
            .ok_or_else(|| unreadable("state"))?,
        request: NewReplayJob {
            source: ReplaySource {
                of: replayed(&row.get::<_, String>(2)?)?,
                filter: filter(row)?,
            },
            until: DeliveryId(row.get(13)?),
            target: target(row, encryption)?,
            rate: row.get::<_, Option<u32>>(17)?.and_then(Rate::per_1000_s),
            total: row.get::<_, i64>(22)?.unsigned_abs(),
        },
        created_at: row::timestamp(row, 18)?,
        updated_at: row::timestamp(row, 19)?,
        ended_at: row::timestamp_or_null(row, 20)?,
        cursor: DeliveryId(row.get(21)?),
        progress: progress(row)?,
    })
}

fn replayed(name: &str) -> Result<Replayed, StoreError> {
    let found = Replayed::ALL.into_iter().find(|each| each.name() == name);
    found.ok_or_else(|| unreadable("source"))
}

fn filter(row: &Row<'_>) -> Result<DeadLetterFilter, StoreError> {
    Ok(DeadLetterFilter {
        topic: row.get::<_, Option<i64>>(3)?.map(TopicId),
        subscription: row.get::<_, Option<i64>>(4)?.map(SubscriptionId),
        reason: row.get(5)?,
        outcome: row::outcome(row, 6)?,
        status: row.get(7)?,
        event_type: row.get(8)?,
        subject: row.get(9)?,
        from: row::timestamp_or_null(row, 10)?,
        to: row::timestamp_or_null(row, 11)?,
        text: row
            .get::<_, Option<String>>(12)?
            .map(TextSearch::everywhere),
    })
}

fn target(row: &Row<'_>, encryption: &Encryption) -> Result<ReplayTarget, StoreError> {
    let url: Option<String> = row.get(16)?;
    match (row.get::<_, String>(14)?.as_str(), url) {
        ("Subscription", _) => Ok(ReplayTarget::Subscription),
        ("Topic", _) => Ok(ReplayTarget::Topic(
            row.get::<_, Option<i64>>(15)?.map(TopicId),
        )),
        ("Url", Some(encrypted)) => {
            let url = encryption.open(REPLAY_URL, row.get(0)?, &encrypted)?;
            let url = EndpointUrl::parse(&url).map_err(|_| unreadable("target"))?;
            Ok(ReplayTarget::Url(url))
        }
        _ => Err(unreadable("target")),
    }
}

fn progress(row: &Row<'_>) -> Result<Progress, StoreError> {
    let skipped: Vec<(String, u64)> = serde_json::from_str(&row.get::<_, String>(25)?)
        .map_err(|_| unreadable("list of what was skipped"))?;
    let errors: Vec<(i64, String)> = serde_json::from_str(&row.get::<_, String>(26)?)
        .map_err(|_| unreadable("list of errors"))?;
    let refusal = |(name, count): (String, u64)| Some((NotResubmitted::from_name(&name)?, count));
    let error = |(id, error)| (DeliveryId(id), error);
    Ok(Progress {
        resubmitted: row.get::<_, i64>(23)?.unsigned_abs(),
        failed: row.get::<_, i64>(24)?.unsigned_abs(),
        skipped: skipped.into_iter().filter_map(refusal).collect(),
        errors: errors.into_iter().map(error).collect(),
    })
}

fn set_state(
    tx: &Connection,
    id: ReplayJobId,
    state: ReplayState,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let ended_at = state.is_ended().then_some(now.as_ms());
    let update = "UPDATE replay_job SET state = ?2, updated_at = ?3, ended_at = ?4 WHERE id = ?1";
    tx.prepare_cached(update)?
        .execute(params![id.0, state.name(), now.as_ms(), ended_at])?;
    Ok(())
}

fn apply(
    tx: &Connection,
    encryption: &Encryption,
    batch: ReplayBatch,
    now: Timestamp,
) -> Result<Option<(ReplayBatchDone, ReplayJob)>, StoreError> {
    let id = batch.job;
    let job = load(tx, encryption, id)?
        .filter(|job| job.state == ReplayState::Running && job.cursor == batch.from);
    let Some(mut job) = job else {
        return Ok(None);
    };
    let before = job.progress.clone();
    let progress = &mut job.progress;
    let mut resubmitted = Vec::with_capacity(batch.resubmissions.len());
    for each in batch.resubmissions {
        let delivery = each.of.delivery;
        match resubmit(tx, each, Some(id), now)? {
            Some(done) => resubmitted.push(done),
            None => progress.skip(delivery, NotResubmitted::NotDeadLettered),
        }
    }
    progress.resubmitted += resubmitted.len() as u64;
    for (delivery, refusal) in batch.skipped {
        progress.skip(delivery, refusal);
    }
    for (each, error) in batch.failed {
        let delivery = each.of.delivery;
        match resubmit(tx, each, Some(id), now)? {
            Some(_) => progress.fail(delivery, &error),
            None => progress.skip(delivery, NotResubmitted::NotDeadLettered),
        }
    }
    advance(tx, id, batch.to, progress, now)?;
    if batch.completes {
        set_state(tx, id, ReplayState::Completed, now)?;
    }
    let done = ReplayBatchDone {
        resubmitted,
        skipped: progress.skipped.values().sum::<u64>() - before.skipped.values().sum::<u64>(),
        failed: progress.failed - before.failed,
        told: None,
    };
    if batch.completes {
        job.state = ReplayState::Completed;
    }
    Ok(Some((done, job)))
}

fn advance(
    tx: &Connection,
    id: ReplayJobId,
    cursor: DeliveryId,
    progress: &Progress,
    now: Timestamp,
) -> Result<(), StoreError> {
    let skipped: Vec<_> = progress
        .skipped
        .iter()
        .map(|(refusal, count)| (refusal.name(), count))
        .collect();
    let errors: Vec<_> = progress
        .errors
        .iter()
        .map(|(delivery, error)| (delivery.0, error))
        .collect();
    let json = |list: Result<String, _>| list.expect("numbers and texts are JSON");
    let update = "UPDATE replay_job SET cursor = ?2, resubmitted = ?3, failed = ?4, skipped = ?5, \
         errors = ?6, updated_at = ?7 WHERE id = ?1";
    tx.prepare_cached(update)?.execute(params![
        id.0,
        cursor,
        i64::try_from(progress.resubmitted).unwrap_or(i64::MAX),
        i64::try_from(progress.failed).unwrap_or(i64::MAX),
        json(serde_json::to_string(&skipped)),
        json(serde_json::to_string(&errors)),
        now.as_ms()
    ])?;
    Ok(())
}
