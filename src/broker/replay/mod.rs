//! Running replay jobs: in each round, each running job resubmits one batch.
//!
//! Each batch is small. It waits until the rate of its job allows it, and until no subscription that got deliveries
//! from the job's last batch has too large a backlog. A job's source and progress are stored; a restart loses only the
//! state in [`ReplayBook`], such as how much of the rate was used.

pub(super) mod resubmit;

use std::collections::HashMap;
use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::replay::resubmit::{Decided, deliveries_of, resubmitted};
use crate::model::audit::{AuditAction, AuditTarget, Caller, TargetKind};
use crate::model::delivery::DeliveryId;
use crate::model::limits::{
    REPLAY_BACKLOG_MAX, REPLAY_BACKLOG_PAUSE, REPLAY_BATCH_MAX, REPLAY_JOBS_MAX, REPLAY_PAUSE,
    REPLAY_REQUESTS_MAX, REPLAY_WINDOW,
};
use crate::model::pace::{Rate, TokenBucket};
use crate::model::replay::{
    NewReplayJob, ReplayCommand, ReplayJob, ReplayJobId, ReplaySource, ReplayState, ReplayTarget,
};
use crate::model::subscription::SubscriptionId;
use crate::store::views::TotalsQuery;
use crate::store::{CandidateQuery, Candidates, IdRange, ReplayStep, ResubmitRequest, StoreError};

/// Pause after a round that failed, because of the store or a full disk.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// Why a replay job was not started or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("there is no replay job {0}")]
    NotFound(ReplayJobId),
    #[error("replay job {0} is {state} and cannot be changed any more", state = .1.name())]
    Ended(ReplayJobId, ReplayState),
    #[error(
        "{REPLAY_JOBS_MAX} replay jobs are running or paused already; wait for one, or cancel one"
    )]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The state of running jobs that is not stored.
#[derive(Default)]
pub(super) struct ReplayBook {
    jobs: HashMap<ReplayJobId, Running>,
}

#[derive(Clone, Default)]
struct Running {
    allowance: TokenBucket,
    window: Window,
    /// The subscriptions that got deliveries from the last batch.
    targets: Vec<SubscriptionId>,
    blocked_by: Option<SubscriptionId>,
}

/// How many deliveries one read looks at: fewer after a read that took too long.
#[derive(Clone, Copy)]
struct Window(usize);

impl Default for Window {
    fn default() -> Self {
        Self(REPLAY_WINDOW)
    }
}

impl Window {
    fn widen(&mut self) {
        self.0 = (self.0 * 2).min(REPLAY_WINDOW);
    }

    /// Shrinks the window to an eighth, but to no less than one delivery. Returns whether it became smaller.
    fn narrow(&mut self) -> bool {
        let was = self.0;
        self.0 = (was / 8).max(1);
        self.0 < was
    }
}

impl Broker {
    /// Counts exactly the deliveries that a replay would cover, and returns the newest delivery up to which they were
    /// counted.
    pub async fn preview_replay(
        &self,
        source: &ReplaySource,
    ) -> Result<(u64, DeliveryId), StoreError> {
        let (mut total, mut after, mut until) = (0, DeliveryId(0), None);
        let mut window = Window::default();
        loop {
            let id_range = IdRange {
                after,
                until,
                window: window.0,
            };
            let ledger = &self.store().ledger;
            match ledger.count_candidates(source.clone(), id_range).await {
                Ok(counted) => {
                    window.widen();
                    total += counted.matched;
                    until = Some(counted.until);
                    match counted.cursor {
                        Some(cursor) => after = cursor,
                        None => return Ok((total, counted.until)),
                    }
                }
                Err(StoreError::TooSlow) if window.narrow() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts a replay job that covers what its source matches now.
    pub async fn start_replay(
        &self,
        by: &Caller,
        source: ReplaySource,
        target: ReplayTarget,
        rate: Option<Rate>,
    ) -> Result<ReplayJob, ReplayError> {
        if self.store().ledger.open_replays().await?.len() >= REPLAY_JOBS_MAX {
            return Err(ReplayError::TooMany);
        }
        let (total, until) = self.preview_replay(&source).await?;
        let job = NewReplayJob {
            source,
            target,
            rate,
            until,
            total,
        };
        let started = AuditAction::StartReplay { deliveries: total };
        // The store replaces this placeholder by the job, whose id only it assigns.
        let audit = by.did(started, AuditTarget::appliance());
        let now = self.clock().now();
        let job = self.store().ledger.start_replay(job, audit, now).await?;
        self.shared.replay_wake.notify_one();
        Ok(job)
    }

    /// Pauses, resumes or cancels a replay job. A batch in progress is stored whole or not at all.
    pub async fn command_replay(
        &self,
        by: &Caller,
        id: ReplayJobId,
        command: ReplayCommand,
    ) -> Result<ReplayJob, ReplayError> {
        let action = match command {
            ReplayCommand::Pause => AuditAction::Pause,
            ReplayCommand::Resume => AuditAction::Resume,
            ReplayCommand::Cancel => AuditAction::Cancel,
        };
        let audit = by.did(action, TargetKind::ReplayJob.named(id));
        let (ledger, now) = (&self.store().ledger, self.clock().now());
        let found = ledger.command_replay(id, command, audit, now).await?;
        self.shared.replay_wake.notify_one();
        let done = found.ok_or(ReplayError::NotFound(id))?;
        if done.is_applied && done.job.state.is_ended() {
            self.publish_notices().await;
        }
        if done.is_applied {
            Ok(done.job)
        } else {
            Err(ReplayError::Ended(id, done.job.state))
        }
    }

    /// Returns the subscription whose backlog the replay job waits for; `None` if it does not wait.
    pub fn replay_blocked_by(&self, id: ReplayJobId) -> Option<SubscriptionId> {
        let book = self.shared.replays.lock().unwrap();
        book.jobs.get(&id)?.blocked_by
    }

    /// Runs replay jobs until the broker stops.
    pub async fn replay(self) {
        loop {
            let woken = self.shared.replay_wake.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let next = self.replay_round().await;
            let rest = async {
                match next {
                    Some(at) => tokio::time::sleep(at.since(self.clock().now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = rest => {}
                () = &mut woken => {}
                () = self.stopping() => return,
            }
        }
    }

    /// Resubmits one batch of each running job. Returns when the next round is due; `None` if no job runs or the broker
    /// stops.
    pub async fn replay_round(&self) -> Option<Timestamp> {
        let mut jobs = match self.store().ledger.open_replays().await {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::warn!(%error, "replay jobs could not be read");
                return Some(self.clock().now() + TROUBLE_PAUSE);
            }
        };
        jobs.retain(|job| job.state == ReplayState::Running);
        self.meters().replaying(jobs.len());
        self.forget_others(&jobs);
        let mut next: Option<Timestamp> = None;
        for job in &jobs {
            if self.is_stopping() {
                return None;
            }
            let at = self.replay_step(job).await.unwrap_or_else(|error| {
                tracing::warn!(%error, replay_job = job.id.0, "a replay job failed and will be retried");
                self.clock().now() + TROUBLE_PAUSE
            });
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        next
    }

    fn forget_others(&self, jobs: &[ReplayJob]) {
        let mut book = self.shared.replays.lock().unwrap();
        book.jobs
            .retain(|id, _| jobs.iter().any(|job| job.id == *id));
    }

    /// Resubmits one batch of a job, unless the disk is low, its rate is used up or a receiver is behind. Returns when
    /// to try the job again.
    async fn replay_step(&self, job: &ReplayJob) -> Result<Timestamp, StoreError> {
        let now = self.clock().now();
        if self.disk_is_low() {
            return Ok(now + TROUBLE_PAUSE);
        }
        let mut running = {
            let book = self.shared.replays.lock().unwrap();
            book.jobs.get(&job.id).cloned().unwrap_or_default()
        };
        let next = self.step(job, &mut running, now).await;
        self.shared
            .replays
            .lock()
            .unwrap()
            .jobs
            .insert(job.id, running);
        next
    }

    async fn step(
        &self,
        job: &ReplayJob,
        running: &mut Running,
        now: Timestamp,
    ) -> Result<Timestamp, StoreError> {
        let Some(limit) = batch_limit(job, &running.allowance, now) else {
            let rate = job
                .request
                .rate
                .expect("nothing else limits a batch to none");
            return Ok(running.allowance.next_at(rate));
        };
        running.blocked_by = self.backlogged(&running.targets).await?;
        if running.blocked_by.is_some() {
            return Ok(now + REPLAY_BACKLOG_PAUSE);
        }
        let id_range = IdRange {
            after: job.cursor,
            until: Some(job.request.until),
            window: running.window.0,
        };
        let query = CandidateQuery::Source {
            source: job.request.source.clone(),
            range: id_range,
            limit,
            with_events: job.request.target != ReplayTarget::Subscription,
        };
        let found = match self.store().ledger.candidates(query).await {
            Err(StoreError::TooSlow) if running.window.narrow() => return Ok(now),
            found => found?,
        };
        running.window.widen();
        self.batch(job, running, found).await?;
        Ok(self.clock().now() + REPLAY_PAUSE)
    }

    /// Returns the first of the subscriptions that has at least [`REPLAY_BACKLOG_MAX`] pending deliveries.
    async fn backlogged(
        &self,
        targets: &[SubscriptionId],
    ) -> Result<Option<SubscriptionId>, StoreError> {
        let query = TotalsQuery {
            subscriptions: targets.to_vec(),
            recount: false,
        };
        let totals = self.store().ledger.totals(query).await?;
        let mut behind = targets.iter().zip(totals);
        let found = behind.find(|(_, totals)| totals.pending >= REPLAY_BACKLOG_MAX as u64);
        Ok(found.map(|(id, _)| *id))
    }

    async fn batch(
        &self,
        job: &ReplayJob,
        running: &mut Running,
        found: Candidates,
    ) -> Result<(), StoreError> {
        let target = &job.request.target;
        let mut decided = self.decide_all(found.candidates, target, None).await;
        let (mut to, mut is_end) = (found.cursor, found.is_end);
        let deliveries = |each: &Decided| each.as_ref().map_or(0, deliveries_of);
        let fits = self.resubmitted_at_once(decided.iter().map(deliveries));
        if fits < decided.len() {
            // Keeps the first ones in the order of the candidates, so that the next batch finds the rest again. A
            // replay to a URL makes no deliveries, so there all of them fit.
            decided.truncate(fits);
            to = decided.last().map_or(to, id_of);
            is_end = false;
        }
        let taken = decided.len();
        let now = self.clock().now();
        let request = to_request(job, decided, to, is_end, now);
        let Some(done) = self.store().ledger.resubmit(request).await? else {
            return Ok(()); // paused or cancelled meanwhile
        };
        if let Some(rate) = job.request.rate {
            running.allowance.spend(taken, rate, now);
        }
        if let Some(after) = &done.job {
            self.meters().replayed(&job.progress, &after.progress);
        }
        running.targets = self.follow_up(&resubmitted(done.outcomes), now);
        if is_end {
            self.publish_notices().await;
            tracing::info!(replay_job = job.id.0, "a replay job is complete");
        }
        Ok(())
    }
}

fn id_of(decided: &Decided) -> DeliveryId {
    match decided {
        Ok(resubmission) => resubmission.of.delivery,
        Err((of, _)) => of.delivery,
    }
}

/// How many deliveries a batch may have at `now`; `None` while the rate allows none.
fn batch_limit(job: &ReplayJob, allowance: &TokenBucket, now: Timestamp) -> Option<usize> {
    let most = match job.request.target {
        ReplayTarget::Subscription | ReplayTarget::Topic(_) => REPLAY_BATCH_MAX,
        ReplayTarget::Url(_) => REPLAY_REQUESTS_MAX,
    };
    let rate = job.request.rate;
    let most = rate.map_or(most, |rate| most.min(allowance.available(rate, now)));
    (most > 0).then_some(most)
}

fn to_request(
    job: &ReplayJob,
    decided: Vec<Decided>,
    to: DeliveryId,
    completes: bool,
    now: Timestamp,
) -> ResubmitRequest {
    let (mut resubmissions, mut skipped) = (Vec::new(), Vec::new());
    for each in decided {
        match each {
            Ok(resubmission) => resubmissions.push(resubmission),
            Err((of, reason)) => skipped.push((of.delivery, reason)),
        }
    }
    ResubmitRequest {
        resubmissions,
        step: Some(ReplayStep {
            job: job.id,
            from: job.cursor,
            to,
            skipped,
            completes,
        }),
        audit: None,
        now,
    }
}
