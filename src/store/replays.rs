//! Replay jobs: what they cover, how far they have come, and the bites by which they get on.
//!
//! A bite resubmits and advances the cursor of its job in one change, so that a crash loses and doubles
//! nothing. What it bites off is looked for beforehand, by a reader, a bounded number of deliveries at a
//! time.

use rusqlite::{Connection, Row, ToSql, named_params, params};

use crate::base::Timestamp;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::{DeliveryId, Outcome};
use crate::model::destination::EndpointUrl;
use crate::model::event_filter::SoughtText;
use crate::model::limits::{REPLAY_BYTES_MAX, REPLAY_JOBS_KEPT};
use crate::model::pace::Rate;
use crate::model::replay::{
    NewReplayJob, Progress, Refusal, ReplayCommand, ReplayJob, ReplayJobId, ReplaySource,
    ReplayState, ReplayTarget, Replayed,
};
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::db::Db;
use crate::store::dead_letter_filter::{OF_ABOUT, OF_DELIVERY, values};
use crate::store::deliveries::Accepted;
use crate::store::error::StoreError;
use crate::store::event_filter::{OF_EVENT, OF_TEXT};
use crate::store::notices::{self, Arrival};
use crate::store::resubmissions::{
    CANDIDATE_COLUMNS, Candidate, Resubmission, Resubmitted, candidate_of, readable, resubmit,
};
use crate::store::row;
use crate::store::seal::{REPLAY_URL, Seals};
use crate::store::views::{Page, Views};

/// The book of replay jobs.
#[derive(Clone)]
pub struct Replays {
    pub(super) db: Db,
    pub(super) seals: Seals,
}

/// A stretch of what a source covers: the deliveries after the one, up to the other.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub after: DeliveryId,
    pub until: DeliveryId,
    /// Deliveries to look at.
    pub window: usize,
}

/// What a stretch was found to hold.
#[derive(Clone, Debug)]
pub struct Found {
    pub candidates: Vec<Candidate>,
    /// Everything up to this delivery has been looked at.
    pub cursor: DeliveryId,
    /// Whether that was all there is.
    pub is_end: bool,
}

/// How many deliveries of a stretch are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub matched: u64,
    /// Where to go on; `None` at the end.
    pub cursor: Option<DeliveryId>,
}

/// A step of a replay job.
#[derive(Clone, Debug)]
pub struct ReplayBite {
    pub job: ReplayJobId,
    /// Where the job must stand for this to happen at all.
    pub from: DeliveryId,
    pub to: DeliveryId,
    pub resubmissions: Vec<Resubmission>,
    pub skipped: Vec<(DeliveryId, Refusal)>,
    /// What the URL did not take: the attempt is recorded, and the error noted with the job.
    pub failed: Vec<(Resubmission, String)>,
    /// Whether the job is complete by it.
    pub completes: bool,
}

/// What a bite came to.
#[derive(Clone, Debug, Default)]
pub struct Bitten {
    pub resubmitted: Vec<Resubmitted>,
    pub skipped: u64,
    pub failed: u64,
    /// For whom it was that something was told of the end.
    pub told: Option<Arrival>,
}

/// What a command came to.
#[derive(Clone, Debug)]
pub struct Commanded {
    /// The job as it is then.
    pub job: ReplayJob,
    pub is_obeyed: bool,
    /// For whom it was that something was told of the end.
    pub told: Option<Arrival>,
}

impl Replays {
    /// The newest delivery that there is; 0 for none.
    pub async fn newest_delivery(&self) -> Result<DeliveryId, StoreError> {
        self.db
            .read(|tx| {
                let newest = "SELECT coalesce(max(id), 0) FROM delivery";
                Ok(tx.query_row(newest, [], |row| row.get(0).map(DeliveryId))?)
            })
            .await
    }

    /// Counts what a source covers in a stretch.
    pub async fn count(
        &self,
        source: ReplaySource,
        stretch: Stretch,
    ) -> Result<Counted, StoreError> {
        self.db.read(move |tx| count(tx, &source, stretch)).await
    }

    /// The first deliveries that a source covers in a stretch, at most `limit`, with their events if
    /// those are needed; fewer, when the events are large.
    pub async fn find(
        &self,
        source: ReplaySource,
        stretch: Stretch,
        limit: usize,
        with_events: bool,
    ) -> Result<Found, StoreError> {
        self.db
            .read(move |tx| find(tx, &source, stretch, limit, with_events))
            .await
    }

    /// Keeps a new job, which is running. Of the oldest that are over, those beyond
    /// [`REPLAY_JOBS_KEPT`] go.
    pub async fn start(&self, job: NewReplayJob, now: Timestamp) -> Result<ReplayJob, StoreError> {
        let seals = self.seals.clone();
        self.db
            .write(move |tx| {
                let id = insert(tx, &seals, &job, now)?;
                let kept = i64::try_from(REPLAY_JOBS_KEPT).unwrap_or(i64::MAX);
                tx.execute(
                    "DELETE FROM replay_job WHERE id <= ?1 AND state IN (2, 3)",
                    [id.0.saturating_sub(kept)],
                )?;
                load(tx, &seals, id)?
                    .ok_or_else(|| StoreError::Other(format!("replay job {id} is missing")))
            })
            .await
    }

    /// The jobs that are not over, oldest first.
    pub async fn open(&self) -> Result<Vec<ReplayJob>, StoreError> {
        let seals = self.seals.clone();
        self.db
            .read(move |tx| jobs(tx, &seals, "WHERE state IN (0, 1) ORDER BY id", params![]))
            .await
    }

    /// Carries out a command, and stores what `tell` says of the job as it is then. `None` where there is no
    /// such job.
    pub async fn command(
        &self,
        id: ReplayJobId,
        command: ReplayCommand,
        now: Timestamp,
        tell: impl FnOnce(&ReplayJob) -> Option<Accepted> + Send + 'static,
    ) -> Result<Option<Commanded>, StoreError> {
        let seals = self.seals.clone();
        self.db
            .write(move |tx| {
                let Some(job) = load(tx, &seals, id)? else {
                    return Ok(None);
                };
                let Some(state) = job.state.after(command) else {
                    let (is_obeyed, told) = (false, None);
                    return Ok(Some(Commanded {
                        job,
                        is_obeyed,
                        told,
                    }));
                };
                set_state(tx, id, state, now)?;
                let Some(job) = load(tx, &seals, id)? else {
                    return Ok(None);
                };
                Ok(Some(Commanded {
                    told: notices::store(tx, tell(&job))?,
                    is_obeyed: true,
                    job,
                }))
            })
            .await
    }

    /// Takes a bite, and stores what `tell` says of the job as it is then. `None`, and nothing done, where
    /// the job has been paused, cancelled or moved on.
    pub async fn bite(
        &self,
        bite: ReplayBite,
        now: Timestamp,
        tell: impl FnOnce(&ReplayJob) -> Option<Accepted> + Send + 'static,
    ) -> Result<Option<Bitten>, StoreError> {
        let seals = self.seals.clone();
        self.db
            .write(move |tx| {
                let bitten = take(tx, &seals, bite, now)?;
                Ok(match bitten {
                    None => None,
                    Some((mut bitten, job)) => {
                        bitten.told = notices::store(tx, tell(&job))?;
                        Some(bitten)
                    }
                })
            })
            .await
    }

    /// The first of these subscriptions that has so many pending deliveries, or more.
    pub async fn backlogged(
        &self,
        subscriptions: Vec<SubscriptionId>,
        pending: usize,
    ) -> Result<Option<SubscriptionId>, StoreError> {
        self.db
            .read(move |tx| {
                let nth = "SELECT 1 FROM delivery WHERE subscription_id = ?1 AND state = 0 \
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
        let seals = self.seals.clone();
        self.db.read(move |tx| load(tx, &seals, id)).await
    }

    /// Replay jobs, newest first.
    pub async fn replay_jobs(
        &self,
        before: Option<ReplayJobId>,
        limit: usize,
    ) -> Result<Page<ReplayJob, ReplayJobId>, StoreError> {
        let seals = self.seals.clone();
        self.db
            .read(move |tx| {
                let below = before.map_or(i64::MAX, |before| before.0);
                let most = i64::try_from(limit).unwrap_or(i64::MAX);
                let condition = "WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
                let rows = jobs(tx, &seals, condition, params![below, most])?;
                let last = rows.last().filter(|_| rows.len() == limit);
                let next_before = last.map(|last| last.id);
                Ok(Page { rows, next_before })
            })
            .await
    }
}

/// The deliveries that a source chooses from, so that an index leads through them in order. Dead letters
/// have one of their own, and so have those of each subscription; what has been delivered has not, and is
/// gone through by number.
fn domain(source: &ReplaySource) -> &'static str {
    match (source.of, source.filter.subscription) {
        (Replayed::DeadLetters, None) => "delivery.state = 2",
        (Replayed::DeadLetters, Some(_)) => {
            "delivery.subscription_id = :subscription AND delivery.state = 2"
        }
        (Replayed::Delivered, _) => "true",
    }
}

/// The last delivery of the window; `None` when it reaches the end.
fn end_of_window(
    tx: &Connection,
    source: &ReplaySource,
    stretch: Stretch,
) -> rusqlite::Result<Option<DeliveryId>> {
    let last = format!(
        "SELECT delivery.id FROM delivery WHERE {} AND delivery.id > :after AND delivery.id <= :until \
         ORDER BY delivery.id LIMIT 1 OFFSET :offset",
        domain(source)
    );
    let offset = i64::try_from(stretch.window)
        .unwrap_or(i64::MAX)
        .saturating_sub(1);
    let mut values: Vec<(&str, &dyn ToSql)> = vec![
        (":after", &stretch.after),
        (":until", &stretch.until),
        (":offset", &offset),
    ];
    if last.contains(":subscription") {
        values.push((":subscription", &source.filter.subscription));
    }
    let mut last = tx.prepare_cached(&last)?;
    let mut rows = last.query(values.as_slice())?;
    Ok(match rows.next()? {
        Some(row) => Some(DeliveryId(row.get(0)?)),
        None => None,
    })
}

/// The deliveries of a stretch that are meant.
fn which(source: &ReplaySource) -> String {
    let state = row::state_number(source.of.state());
    format!(
        "{} AND delivery.state = {state} AND delivery.id > :after AND delivery.id <= :until \
         AND {OF_DELIVERY}",
        domain(source)
    )
}

/// Columns of the deliveries of a stretch that are meant, and of their events.
fn select(source: &ReplaySource, columns: &str, rest: &str) -> String {
    // The outer loop must be the deliveries, in their order; no statistics tell SQLite so.
    format!(
        "SELECT {columns} FROM delivery CROSS JOIN event ON event.id = delivery.event_id \
         WHERE {} AND {OF_EVENT} AND {OF_TEXT} {rest}",
        which(source)
    )
}

/// How many they are: dead letters are counted out of an index, unless words in their events matter.
fn select_count(source: &ReplaySource) -> String {
    match (source.of, &source.filter.text) {
        (Replayed::DeadLetters, None) => {
            let which = which(source);
            format!("SELECT count(*) FROM delivery WHERE {which} AND {OF_ABOUT}")
        }
        (Replayed::DeadLetters | Replayed::Delivered, _) => select(source, "count(*)", ""),
    }
}

fn count(tx: &Connection, source: &ReplaySource, stretch: Stretch) -> Result<Counted, StoreError> {
    let cursor = end_of_window(tx, source, stretch)?;
    let until = cursor.unwrap_or(stretch.until);
    let values = values(&source.filter);
    let count = select_count(source);
    let values = values.in_sql(&count, &[(":after", &stretch.after), (":until", &until)]);
    let matched: i64 = tx
        .prepare_cached(&count)?
        .query_row(values.as_slice(), |row| row.get(0))?;
    Ok(Counted {
        matched: matched.unsigned_abs(),
        cursor,
    })
}

fn find(
    tx: &Connection,
    source: &ReplaySource,
    stretch: Stretch,
    limit: usize,
    with_events: bool,
) -> Result<Found, StoreError> {
    let end = end_of_window(tx, source, stretch)?;
    let until = end.unwrap_or(stretch.until);
    let select = select(
        source,
        CANDIDATE_COLUMNS,
        "ORDER BY delivery.id LIMIT :limit",
    );
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let values = values(&source.filter);
    let values = values.in_sql(
        &select,
        &[
            (":after", &stretch.after),
            (":until", &until),
            (":limit", &most),
        ],
    );
    let mut select = tx.prepare_cached(&select)?;
    let mut rows = select.query(values.as_slice())?;
    let (mut candidates, mut bytes) = (Vec::new(), 0);
    while bytes < REPLAY_BYTES_MAX
        && let Some(row) = rows.next()?
    {
        let (mut candidate, event) = candidate_of(row)?;
        if with_events {
            candidate.event = readable(tx, event)?;
            bytes += candidate.event.as_ref().map_or(0, |each| each.event.size());
        }
        candidates.push(candidate);
    }
    let is_cut = candidates.len() == limit || bytes >= REPLAY_BYTES_MAX;
    let last = candidates.last().filter(|_| is_cut);
    Ok(Found {
        cursor: last.map_or(until, |last| last.delivery),
        is_end: !is_cut && end.is_none(),
        candidates,
    })
}

fn insert(
    tx: &Connection,
    seals: &Seals,
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
         dead_letter_reason, last_outcome, last_status, event_type, subject, ended_from, \
         ended_before, text, last_delivery_id, target, target_topic_id, target_url, per_1000_s, \
         created_at, updated_at, total) \
         VALUES (:state, :source, :topic, :subscription, :reason, :outcome, :status, :type, :subject, \
         :from, :before, :text, :last, :target, :target_topic, :url, :rate, :now, :now, :total)";
    tx.prepare_cached(insert)?.execute(named_params! {
        ":state": state_number(ReplayState::Running),
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
        ":url": url.map(|_| ""), // sealed for the row, whose number is known only afterwards
        ":rate": job.rate.map(Rate::in_1000_s),
        ":now": now.as_ms(),
        ":total": i64::try_from(job.total).unwrap_or(i64::MAX),
    })?;
    let id = tx.last_insert_rowid();
    if let Some(url) = url {
        let seal = "UPDATE replay_job SET target_url = ?2 WHERE id = ?1";
        tx.execute(seal, params![id, seals.seal(REPLAY_URL, id, url)])?;
    }
    Ok(ReplayJobId(id))
}

const JOB: &str = "SELECT id, state, source, topic_id, subscription_id, dead_letter_reason, \
     last_outcome, last_status, event_type, subject, ended_from, ended_before, text, \
     last_delivery_id, target, target_topic_id, target_url, per_1000_s, created_at, updated_at, \
     ended_at, cursor, total, resubmitted, failed, skipped, errors FROM replay_job";

fn jobs(
    tx: &Connection,
    seals: &Seals,
    condition: &str,
    values: &[&dyn ToSql],
) -> Result<Vec<ReplayJob>, StoreError> {
    let mut select = tx.prepare_cached(&format!("{JOB} {condition}"))?;
    let mut rows = select.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(job(row, seals)?);
    }
    Ok(found)
}

fn load(tx: &Connection, seals: &Seals, id: ReplayJobId) -> Result<Option<ReplayJob>, StoreError> {
    Ok(jobs(tx, seals, "WHERE id = ?1", params![id.0])?.pop())
}

fn unreadable(what: &str) -> StoreError {
    StoreError::Unreadable(format!("the {what} of a stored replay job cannot be read"))
}

fn job(row: &Row<'_>, seals: &Seals) -> Result<ReplayJob, StoreError> {
    Ok(ReplayJob {
        id: ReplayJobId(row.get(0)?),
        state: state(row.get(1)?)?,
        request: NewReplayJob {
            source: ReplaySource {
                of: replayed(&row.get::<_, String>(2)?)?,
                filter: filter(row)?,
            },
            until: DeliveryId(row.get(13)?),
            target: target(row, seals)?,
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
            .map(SoughtText::everywhere),
    })
}

fn target(row: &Row<'_>, seals: &Seals) -> Result<ReplayTarget, StoreError> {
    let url: Option<String> = row.get(16)?;
    match (row.get::<_, String>(14)?.as_str(), url) {
        ("Subscription", _) => Ok(ReplayTarget::Subscription),
        ("Topic", _) => Ok(ReplayTarget::Topic(
            row.get::<_, Option<i64>>(15)?.map(TopicId),
        )),
        ("Url", Some(sealed)) => {
            let url = seals.open(REPLAY_URL, row.get(0)?, &sealed)?;
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
    let refusal = |(name, count): (String, u64)| Some((Refusal::from_name(&name)?, count));
    let error = |(id, error)| (DeliveryId(id), error);
    Ok(Progress {
        resubmitted: row.get::<_, i64>(23)?.unsigned_abs(),
        failed: row.get::<_, i64>(24)?.unsigned_abs(),
        skipped: skipped.into_iter().filter_map(refusal).collect(),
        errors: errors.into_iter().map(error).collect(),
    })
}

/// The number by which the store knows a state: its place in [`ReplayState::ALL`].
fn state_number(state: ReplayState) -> i64 {
    ReplayState::ALL
        .iter()
        .position(|each| *each == state)
        .and_then(|place| i64::try_from(place).ok())
        .expect("every state is listed")
}

fn state(number: i64) -> Result<ReplayState, StoreError> {
    let found = usize::try_from(number).ok();
    let found = found.and_then(|place| ReplayState::ALL.get(place).copied());
    found.ok_or_else(|| unreadable("state"))
}

fn set_state(
    tx: &Connection,
    id: ReplayJobId,
    state: ReplayState,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let ended_at = state.is_ended().then_some(now.as_ms());
    let update = "UPDATE replay_job SET state = ?2, updated_at = ?3, ended_at = ?4 WHERE id = ?1";
    tx.prepare_cached(update)?.execute(params![
        id.0,
        state_number(state),
        now.as_ms(),
        ended_at
    ])?;
    Ok(())
}

fn take(
    tx: &Connection,
    seals: &Seals,
    bite: ReplayBite,
    now: Timestamp,
) -> Result<Option<(Bitten, ReplayJob)>, StoreError> {
    let id = bite.job;
    let job = load(tx, seals, id)?
        .filter(|job| job.state == ReplayState::Running && job.cursor == bite.from);
    let Some(mut job) = job else {
        return Ok(None);
    };
    let before = job.progress.clone();
    let progress = &mut job.progress;
    let mut resubmitted = Vec::with_capacity(bite.resubmissions.len());
    for each in bite.resubmissions {
        let delivery = each.of.delivery;
        match resubmit(tx, each, Some(id), now)? {
            Some(done) => resubmitted.push(done),
            None => progress.skip(delivery, Refusal::NotDeadLettered),
        }
    }
    progress.resubmitted += resubmitted.len() as u64;
    for (delivery, refusal) in bite.skipped {
        progress.skip(delivery, refusal);
    }
    for (each, error) in bite.failed {
        let delivery = each.of.delivery;
        match resubmit(tx, each, Some(id), now)? {
            Some(_) => progress.fail(delivery, &error),
            None => progress.skip(delivery, Refusal::NotDeadLettered),
        }
    }
    advance(tx, id, bite.to, progress, now)?;
    if bite.completes {
        set_state(tx, id, ReplayState::Completed, now)?;
    }
    let bitten = Bitten {
        resubmitted,
        skipped: progress.skipped.values().sum::<u64>() - before.skipped.values().sum::<u64>(),
        failed: progress.failed - before.failed,
        told: None,
    };
    if bite.completes {
        job.state = ReplayState::Completed;
    }
    Ok(Some((bitten, job)))
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
