//! Replay jobs: their definition, state and progress.
//!
//! A batch of resubmissions and the new cursor of the job are stored in one transaction, so that a crash neither loses
//! nor duplicates a resubmission. The deliveries of the batch are found in a query before the transaction, by
//! [`search`].

pub(super) mod results;
pub(super) mod search;

use rusqlite::{Connection, Params, Row, named_params, params};

use crate::base::Timestamp;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::DeliveryId;
use crate::model::destination::EndpointUrl;
use crate::model::event_filter::TextSearch;
use crate::model::limits::REPLAY_JOBS_KEPT;
use crate::model::pace::Rate;
use crate::model::replay::{
    NewReplayJob, NotResubmitted, ReplayCommand, ReplayJob, ReplayJobId, ReplayProgress,
    ReplaySource, ReplayState, ReplayTarget,
};
use crate::store::engine::encryption::{Encryption, REPLAY_URL};
use crate::store::error::StoreError;
use crate::store::ledger::notices::is_subscribed;
use crate::store::row::unreadable;
use crate::store::sql::Sql;

/// The result of a command on a replay job.
#[derive(Clone, Debug)]
pub struct CommandResult {
    /// The job after the command.
    pub job: ReplayJob,
    pub is_applied: bool,
}

/// Stores a new job in the running state. Deletes ended jobs that are not among the newest [`REPLAY_JOBS_KEPT`] jobs.
pub(super) fn start(
    tx: &Connection,
    encryption: &Encryption,
    request: NewReplayJob,
    now: Timestamp,
) -> Result<ReplayJob, StoreError> {
    let id = insert(tx, encryption, &request, now)?;
    let oldest = id.0.saturating_sub_unsigned(REPLAY_JOBS_KEPT as u64);
    let delete = "DELETE FROM replay_job WHERE id <= ?1 AND state IN ('Completed', 'Cancelled')";
    tx.run(delete, [oldest])?;
    Ok(ReplayJob {
        id,
        request,
        state: ReplayState::Running,
        created_at: now,
        updated_at: now,
        ended_at: None,
        cursor: DeliveryId(0),
        progress: ReplayProgress::default(),
    })
}

/// Applies a command to a job. Returns `None` if there is no such job.
pub(super) fn command(
    tx: &Connection,
    encryption: &Encryption,
    id: ReplayJobId,
    command: ReplayCommand,
    now: Timestamp,
) -> Result<Option<CommandResult>, StoreError> {
    let Some(mut job) = load(tx, encryption, id)? else {
        return Ok(None);
    };
    let state = job.state.after(command);
    if let Some(state) = state {
        set_state(tx, &mut job, state, now)?;
    }
    let is_applied = state.is_some();
    Ok(Some(CommandResult { job, is_applied }))
}

fn insert(
    tx: &Connection,
    encryption: &Encryption,
    job: &NewReplayJob,
    now: Timestamp,
) -> rusqlite::Result<ReplayJobId> {
    let filter = &job.source.filter;
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
    let values = named_params! {
        ":state": ReplayState::Running,
        ":source": job.source.of,
        ":topic": filter.topic,
        ":subscription": filter.subscription,
        ":reason": filter.reason,
        ":outcome": filter.outcome,
        ":status": filter.status,
        ":type": filter.event_type,
        ":subject": filter.subject,
        ":from": filter.from,
        ":before": filter.to,
        ":text": filter.text.as_ref().map(|text| &text.text),
        ":last": job.until,
        ":target": job.target.name(),
        ":target_topic": topic,
        ":url": url.map(|_| ""), // encrypted for the row, whose id is known only afterwards
        ":rate": job.rate.map(Rate::in_1000_s),
        ":now": now,
        ":total": job.total,
    };
    tx.run(insert, values)?;
    let id = tx.last_insert_rowid();
    if let Some(url) = url {
        let encrypt = "UPDATE replay_job SET target_url = ?2 WHERE id = ?1";
        tx.run(
            encrypt,
            params![id, encryption.encrypt(REPLAY_URL, id, url)],
        )?;
    }
    Ok(ReplayJobId(id))
}

/// Returns the jobs that meet a condition.
pub(super) fn jobs(
    tx: &Connection,
    encryption: &Encryption,
    condition: &str,
    values: impl Params,
) -> Result<Vec<ReplayJob>, StoreError> {
    let select = format!(
        "SELECT id, state, source, topic_id, subscription_id, reason, \
         last_outcome, last_status, event_type, subject, ended_from, ended_before, text, \
         last_delivery_id, target, target_topic_id, target_url, rate_per_1000_s, created_at, \
         updated_at, ended_at, cursor, total, resubmitted, failed, skipped, errors \
         FROM replay_job {condition}"
    );
    tx.readable(&select, values, |row| job(row, encryption))
}

/// Returns the jobs that have not ended, oldest first.
pub(super) fn open(tx: &Connection, encryption: &Encryption) -> Result<Vec<ReplayJob>, StoreError> {
    let open = "WHERE state IN ('Running', 'Paused') ORDER BY id";
    jobs(tx, encryption, open, [])
}

pub(super) fn load(
    tx: &Connection,
    encryption: &Encryption,
    id: ReplayJobId,
) -> Result<Option<ReplayJob>, StoreError> {
    Ok(jobs(tx, encryption, "WHERE id = ?1", [id])?.pop())
}

/// Returns the job if it is running and its cursor is still `cursor`.
pub(super) fn at(
    tx: &Connection,
    encryption: &Encryption,
    id: ReplayJobId,
    cursor: DeliveryId,
) -> Result<Option<ReplayJob>, StoreError> {
    let at = "WHERE id = ?1 AND state = 'Running' AND cursor = ?2";
    Ok(jobs(tx, encryption, at, params![id, cursor])?.pop())
}

fn job(row: &Row<'_>, encryption: &Encryption) -> Result<ReplayJob, StoreError> {
    Ok(ReplayJob {
        id: row.get(0)?,
        state: row.get(1)?,
        request: NewReplayJob {
            source: ReplaySource {
                of: row.get(2)?,
                filter: filter(row)?,
            },
            until: row.get(13)?,
            target: target(row, encryption)?,
            rate: row.get::<_, Option<u32>>(17)?.and_then(Rate::per_1000_s),
            total: row.get(22)?,
        },
        created_at: row.get(18)?,
        updated_at: row.get(19)?,
        ended_at: row.get(20)?,
        cursor: row.get(21)?,
        progress: progress(row)?,
    })
}

fn filter(row: &Row<'_>) -> rusqlite::Result<DeadLetterFilter> {
    let text: Option<String> = row.get(12)?;
    Ok(DeadLetterFilter {
        topic: row.get(3)?,
        subscription: row.get(4)?,
        reason: row.get(5)?,
        outcome: row.get(6)?,
        status: row.get(7)?,
        event_type: row.get(8)?,
        subject: row.get(9)?,
        from: row.get(10)?,
        to: row.get(11)?,
        text: text.map(TextSearch::everywhere),
    })
}

fn target(row: &Row<'_>, encryption: &Encryption) -> Result<ReplayTarget, StoreError> {
    let target: String = row.get(14)?;
    match (target.as_str(), row.get::<_, Option<String>>(16)?) {
        ("Subscription", _) => Ok(ReplayTarget::Subscription),
        ("Topic", _) => Ok(ReplayTarget::Topic(row.get(15)?)),
        ("Url", Some(encrypted)) => {
            let url = encryption.open(REPLAY_URL, row.get(0)?, &encrypted)?;
            let url = EndpointUrl::parse(&url).map_err(|error| unreadable("replay job", error))?;
            Ok(ReplayTarget::Url(url))
        }
        _ => Err(unreadable("replay job", format!("target {target}"))),
    }
}

fn progress(row: &Row<'_>) -> Result<ReplayProgress, StoreError> {
    let damaged = |error| unreadable("replay job", error);
    let (skipped, errors): (String, String) = (row.get(25)?, row.get(26)?);
    let skipped: Vec<(String, u64)> = serde_json::from_str(&skipped).map_err(damaged)?;
    let errors: Vec<(i64, String)> = serde_json::from_str(&errors).map_err(damaged)?;
    let reason = |(name, count): (String, u64)| Some((NotResubmitted::from_name(&name)?, count));
    let error = |(id, error)| (DeliveryId(id), error);
    Ok(ReplayProgress {
        resubmitted: row.get(23)?,
        failed: row.get(24)?,
        skipped: skipped.into_iter().filter_map(reason).collect(),
        errors: errors.into_iter().map(error).collect(),
    })
}

/// Sets and stores the state of a job. If the job ends and there is a subscription to notices, it is marked for a
/// notice.
fn set_state(
    tx: &Connection,
    job: &mut ReplayJob,
    state: ReplayState,
    now: Timestamp,
) -> rusqlite::Result<()> {
    job.state = state;
    job.updated_at = now;
    job.ended_at = state.is_ended().then_some(now);
    let update = format!(
        "UPDATE replay_job SET state = ?2, updated_at = ?3, ended_at = ?4, \
         notice_owed = (?4 IS NOT NULL AND {}) WHERE id = ?1",
        is_subscribed()
    );
    tx.run(&update, params![job.id, state, now, job.ended_at])?;
    Ok(())
}

/// Stores the cursor and the progress of a job.
pub(super) fn advance(
    tx: &Connection,
    job: &mut ReplayJob,
    completes: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    job.updated_at = now;
    let progress = &job.progress;
    let skipped = progress.skipped.iter();
    let skipped: Vec<_> = skipped
        .map(|(reason, count)| (reason.name(), count))
        .collect();
    let errors = progress.errors.iter();
    let errors: Vec<_> = errors.map(|(id, error)| (id.0, error)).collect();
    let update = "UPDATE replay_job SET cursor = ?2, resubmitted = ?3, failed = ?4, skipped = ?5, \
         errors = ?6, updated_at = ?7 WHERE id = ?1";
    let values = params![
        job.id,
        job.cursor,
        progress.resubmitted,
        progress.failed,
        serde_json::to_string(&skipped).expect("numbers and texts are JSON"),
        serde_json::to_string(&errors).expect("numbers and texts are JSON"),
        now
    ];
    tx.run(update, values)?;
    if completes {
        set_state(tx, job, ReplayState::Completed, now)?;
    }
    Ok(())
}
