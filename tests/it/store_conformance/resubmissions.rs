//! Sending again, and the replay jobs.

use everpost::model::dead_letter_filter::DeadLetterFilter;
use everpost::model::destination::EndpointUrl;
use everpost::model::event_filter::TextSearch;
use everpost::model::pace::Rate;
use everpost::model::replay::{
    NewReplayJob, NotResubmitted, ReplayCommand, ReplayJob, ReplayJobId, ReplaySource, ReplayState,
    ReplayTarget, Replayed,
};
use everpost::store::views::TotalsQuery;
use everpost::store::{
    CandidateQuery, Candidates, IdRange, MessageFacts, RangeCount, ReplayStep, ResubmitCandidate,
    ResubmitDone, ResubmitOutcome, ResubmitRequest, ResubmitTarget, ResubmittedDelivery,
};

use super::*;

const AFRESH: ResubmitTarget = ResubmitTarget::Subscription { edited: None };

impl Fixture {
    /// A dead letter of `billing`, given up at `now`.
    async fn dead(&self, id: &str, reason: DeadLetterReason, now: i64) -> DeliveryId {
        self.publish(id, &[self.billing], now).await;
        let delivery = ids(&self.lease(self.billing, now, 1).await)[0];
        let settlement = Settlement::DeadLetter(reason);
        self.settle(delivery, 1, settlement, now).await;
        delivery
    }

    async fn candidate(&self, id: DeliveryId) -> ResubmitCandidate {
        let query = CandidateQuery::Ids(vec![id]);
        let found = self.store.ledger.candidates(query).await;
        let mut found = found.expect("an answer").candidates;
        found.pop().expect("a candidate")
    }

    async fn resubmit(
        &self,
        resubmissions: Vec<ResubmittedDelivery>,
        step: Option<ReplayStep>,
        now: i64,
    ) -> Option<ResubmitDone> {
        let request = ResubmitRequest {
            resubmissions,
            step,
            audit: Some(by_hand()),
            now: at(now),
        };
        let done = self.store.ledger.resubmit(request).await;
        done.expect("a change")
    }

    /// The deliveries of a source in a range.
    async fn candidates(
        &self,
        source: ReplaySource,
        range: IdRange,
        limit: usize,
        with_events: bool,
    ) -> Candidates {
        let query = CandidateQuery::Source {
            source,
            range,
            limit,
            with_events,
        };
        self.store.ledger.candidates(query).await.expect("ok")
    }

    pub(super) async fn again(
        &self,
        id: DeliveryId,
        to: ResubmitTarget,
        now: i64,
    ) -> Option<DeliveryId> {
        let of = self.candidate(id).await;
        let resubmission = ResubmittedDelivery { of, to };
        let done = self.resubmit(vec![resubmission], None, now).await;
        match done.expect("no job").outcomes.pop() {
            Some(ResubmitOutcome::Resubmitted(done)) => done.delivery,
            Some(ResubmitOutcome::Rejected(_) | ResubmitOutcome::Stale) | None => None,
        }
    }

    async fn find(&self, filter: DeadLetterFilter) -> Vec<DeliveryId> {
        let found = self.candidates(source(filter), all(100), 100, false).await;
        assert!(found.is_end);
        found.candidates.iter().map(|each| each.delivery).collect()
    }

    async fn job(&self, id: ReplayJobId) -> ReplayJob {
        let job = self.store.views.replay_job(id).await;
        job.expect("an answer").expect("the job")
    }
}

fn source(filter: DeadLetterFilter) -> ReplaySource {
    ReplaySource {
        of: Replayed::DeadLetters,
        filter,
    }
}

fn all(window: usize) -> IdRange {
    IdRange {
        after: DeliveryId(0),
        until: None,
        window,
    }
}

fn new_job(total: u64, until: DeliveryId) -> NewReplayJob {
    NewReplayJob {
        source: source(DeadLetterFilter::default()),
        target: ReplayTarget::Subscription,
        rate: None,
        until,
        total,
    }
}

pub(super) async fn a_dead_letter_is_resubmitted_once(f: Fixture) {
    f.publish("x", &[f.billing, f.audit], 0).await;
    let dead = ids(&f.lease(f.billing, 0, 1).await)[0];
    let reason = DeadLetterReason::MaxDeliveryAttemptsExceeded;
    f.settle(dead, 1, Settlement::DeadLetter(reason), 1).await;
    let before = f.candidate(dead).await;
    assert_eq!((before.attempts, before.generation), (1, 0));
    let fresh = f.again(dead, AFRESH, 50).await.expect("a delivery");
    assert_eq!(f.state(dead).await, DeliveryState::Resubmitted);
    assert_eq!(f.candidate(fresh).await.generation, 1);
    // Whoever looked before that comes too late.
    let late = ResubmittedDelivery {
        of: before,
        to: AFRESH,
    };
    let late = f.resubmit(vec![late], None, 51).await.expect("no job");
    assert_eq!(late.outcomes, [ResubmitOutcome::Stale]);
    let leased = f.lease(f.billing, 50, 9).await;
    assert_eq!(ids(&leased), [fresh]);
    let delivery = &leased.deliveries[0];
    assert_eq!((delivery.attempts, delivery.published_at), (0, at(50)));
    let old = f.store.views.delivery(dead).await.expect("ok").expect("it");
    let new = f
        .store
        .views
        .delivery(fresh)
        .await
        .expect("ok")
        .expect("it");
    assert_eq!(old.row.resubmitted_as, Some(fresh));
    assert_eq!(new.row.resubmission_of, Some(dead));
    let others = f.lease(f.audit, 50, 9).await.deliveries.len();
    assert_eq!(others, 1, "others never see it again");
    let nobody = CandidateQuery::Ids(vec![DeliveryId(9_999)]);
    let nobody = f.store.ledger.candidates(nobody).await;
    assert!(nobody.expect("an answer").candidates.is_empty());
}

pub(super) async fn an_edited_event_stands_beside_the_original(f: Fixture) {
    let reason = DeadLetterReason::UndeliverableDueToHttpBadRequest;
    let dead = f.dead("x", reason, 0).await;
    let original = f.candidate(dead).await.event.expect("its event");
    let edited = Event {
        data: EventData::Json("{\"n\":2}".to_owned()),
        ..original.event.clone()
    };
    let to = ResubmitTarget::Subscription {
        edited: Some(edited.clone()),
    };
    let fresh = f.again(dead, to, 5).await.expect("a delivery");
    let sent = f.candidate(fresh).await;
    assert_eq!(sent.generation, 1);
    let sent = sent.event.expect("its event");
    assert_eq!(sent.event, edited);
    let event = async |key| f.store.views.event(key).await.expect("ok").expect("it");
    let (old, new) = (event(original.key).await, event(sent.key).await);
    assert_eq!(old.stored.event, original.event);
    assert_eq!(old.lineage.resubmissions.len(), 1);
    let made_by = new.lineage.made_by.expect("a resubmission");
    assert_eq!(made_by, old.lineage.resubmissions[0]);
    assert_eq!((made_by.delivery, made_by.event), (dead, original.key));
    assert_eq!(
        (made_by.as_delivery, made_by.as_event),
        (Some(fresh), Some(sent.key))
    );

    // To a topic: a new event for others, one generation on.
    f.settle(fresh, 1, Settlement::DeadLetter(reason), 6).await;
    let to = ResubmitTarget::Topic {
        topic: f.topic,
        event: edited,
        targets: vec![f.audit],
        queue: None,
    };
    assert_eq!(f.again(fresh, to, 7).await, None, "no delivery of its own");
    assert_eq!(f.state(fresh).await, DeliveryState::Resubmitted);
    let published = ids(&f.lease(f.audit, 7, 9).await)[0];
    assert_eq!(f.candidate(published).await.generation, 2);
}

pub(super) async fn bytes_of_messages_are_counted_as_long_as_they_are_there(f: Fixture) {
    let measured = || AppendRequest {
        measured: [f.billing].into(),
        ..f.accepted("m", &[f.billing, f.audit], 0)
    };
    let bytes = async |expected: u64| {
        assert_eq!(f.store.ledger.queue_bytes(&[f.billing, f.audit]), expected);
        let query = TotalsQuery {
            subscriptions: vec![f.billing],
            recount: true,
        };
        let counted = f.store.ledger.totals(query).await.expect("counts");
        assert_eq!(counted[0].bytes, expected);
    };
    let one = u64::from(event("m").data_bytes());
    for _ in 0..2 {
        let stored = f.store.ledger.append(measured(), drop).await;
        assert!(matches!(stored, Ok(Appended::Stored { .. })));
    }
    bytes(2 * one).await;
    let mut later = measured();
    later.defer_deliveries();
    f.store.ledger.append(later, drop).await.expect("stored");
    bytes(3 * one).await;
    let created = f.store.ledger.fan_out(f.topic, 9).await.expect("created");
    assert_eq!(created.targets, [f.audit], "a message is there at once");
    bytes(3 * one).await;

    let [done, dead, kept] = ids(&f.lease(f.billing, 0, 9).await)[..] else {
        panic!("three are due");
    };
    f.settle(done, 1, Settlement::Complete, 1).await;
    bytes(2 * one).await;
    let reason = Settlement::DeadLetter(DeadLetterReason::Manual);
    f.settle(dead, 1, reason, 1).await;
    f.settle(kept, 1, Settlement::Retry { at: at(2) }, 1).await;
    bytes(2 * one).await;
    let edited = Some(Event {
        data: EventData::Binary(vec![0, 1, 2].into()),
        ..event("m")
    });
    let again = f.again(dead, ResubmitTarget::Subscription { edited }, 2);
    let again = again.await.expect("a new delivery");
    bytes(one + 3).await;
    f.settle(again, 1, reason, 3).await;
    let to = ResubmitTarget::Topic {
        topic: f.topic,
        event: event("m"),
        targets: vec![f.billing],
        queue: Some((
            f.billing,
            MessageFacts {
                bytes: Some(event("m").data_bytes()),
                ..MessageFacts::default()
            },
        )),
    };
    f.again(again, to, 4).await;
    bytes(2 * one).await;
    let delete = RegistryChange::DeleteSubscription {
        id: f.billing,
        pending: OnDelete::Discard,
    };
    changed(&f.store, delete).await;
    let discard = f.store.ledger.discard(DiscardRequest::OfDeleted, 9, at(5));
    assert_eq!(discard.await.expect("ended").dropped, 2);
    bytes(0).await;
}

pub(super) async fn a_bite_and_its_cursor_are_one_change(f: Fixture) {
    let reason = DeadLetterReason::TimeToLiveExceeded;
    let dead = [f.dead("a", reason, 0).await, f.dead("b", reason, 1).await];
    let other = f.dead("c", reason, 2).await;
    let job = f
        .store
        .ledger
        .start_replay(new_job(3, other), by_hand(), at(9))
        .await
        .expect("a job");
    assert_eq!(
        (job.state, job.cursor),
        (ReplayState::Running, DeliveryId(0))
    );
    let url = EndpointUrl::parse("https://a.test/?code=secret").expect("a URL");
    let attempt = DeliveryAttempt {
        attempt: 2,
        started_at: at(9),
        duration: Duration::ZERO,
        result: AttemptResult::skipped(Outcome::Aborted),
        late: None,
    };
    let rejected = ResubmittedDelivery {
        of: f.candidate(other).await,
        to: ResubmitTarget::Rejected {
            attempt: Arc::new(attempt.clone()),
            error: "no".to_owned(),
        },
    };
    let afresh = ResubmittedDelivery {
        of: f.candidate(dead[0]).await,
        to: AFRESH,
    };
    let both = vec![afresh.clone(), rejected];
    let step = ReplayStep {
        job: job.id,
        from: DeliveryId(0),
        to: other,
        skipped: vec![(dead[1], NotResubmitted::ResubmittedTooOften)],
        completes: false,
    };
    let done = f.resubmit(both.clone(), Some(step.clone()), 10).await;
    let done = done.expect("the job runs");
    assert!(matches!(done.outcomes[0], ResubmitOutcome::Resubmitted(_)));
    assert_eq!(done.outcomes[1], ResubmitOutcome::Rejected("no".to_owned()));
    let job = f.job(job.id).await;
    assert_eq!(done.job.expect("the job").progress, job.progress);
    let progress = &job.progress;
    assert_eq!((progress.resubmitted, progress.failed), (1, 1));
    assert_eq!((job.cursor, job.progress.done()), (other, 3));
    assert_eq!(
        job.progress.skipped[&NotResubmitted::ResubmittedTooOften],
        1
    );
    assert_eq!(job.progress.errors[1], (other, "no".to_owned()));
    let row = f
        .store
        .views
        .delivery(other)
        .await
        .expect("ok")
        .expect("it")
        .row;
    assert_eq!((row.attempts, row.state), (2, DeliveryState::DeadLettered));

    // The same once more, as after an answer that was lost: nothing happens.
    let again = f.resubmit(both, Some(step.clone()), 11).await;
    assert!(again.is_none());
    assert_eq!(f.job(job.id).await.progress, job.progress);
    // What has changed since it was looked at is skipped.
    let stale = ReplayStep {
        from: other,
        completes: true,
        skipped: Vec::new(),
        ..step
    };
    let done = f.resubmit(vec![afresh], Some(stale), 12).await;
    let outcomes = done.expect("the job runs").outcomes;
    assert_eq!(outcomes, [ResubmitOutcome::Stale]);
    let job = f.job(job.id).await;
    assert_eq!(
        (job.state, job.ended_at),
        (ReplayState::Completed, Some(at(12)))
    );

    // The URL that takes it ends the dead letter.
    let taken = ResubmitTarget::Url {
        url,
        attempt: Arc::new(DeliveryAttempt {
            attempt: 3,
            ..attempt
        }),
        edited: None,
    };
    assert_eq!(f.again(other, taken, 13).await, None);
    assert_eq!(f.state(other).await, DeliveryState::Resubmitted);
    let event = f.candidate(other).await.event.expect("its event").key;
    let event = f.store.views.event(event).await.expect("ok").expect("it");
    let url = event.lineage.resubmissions[0].url.as_deref();
    assert_eq!(url, Some("https://a.test/"), "without its query");
}

pub(super) async fn a_filter_means_what_it_says(f: Fixture) {
    let exceeded = DeadLetterReason::MaxDeliveryAttemptsExceeded;
    let expired = DeadLetterReason::TimeToLiveExceeded;
    let a = f.dead("a%_A", exceeded, 10).await;
    let b = f.dead("b", expired, 20).await;
    let none = DeadLetterFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let checks: [(DeadLetterFilter, &[DeliveryId]); 16] = [
        (none(), &[a, b]),
        (
            DeadLetterFilter {
                topic: Some(f.topic),
                ..none()
            },
            &[a, b],
        ),
        (
            DeadLetterFilter {
                topic: Some(TopicId(99)),
                ..none()
            },
            &[],
        ),
        (
            DeadLetterFilter {
                subscription: Some(f.billing),
                ..none()
            },
            &[a, b],
        ),
        (
            DeadLetterFilter {
                subscription: Some(f.audit),
                ..none()
            },
            &[],
        ),
        (
            DeadLetterFilter {
                reason: text("TimeToLiveExceeded"),
                ..none()
            },
            &[b],
        ),
        (
            DeadLetterFilter {
                outcome: Some(Outcome::Busy),
                ..none()
            },
            &[a, b],
        ),
        (
            DeadLetterFilter {
                status: Some(500),
                ..none()
            },
            &[],
        ),
        (
            DeadLetterFilter {
                from: Some(at(20)),
                ..none()
            },
            &[b],
        ),
        (
            DeadLetterFilter {
                to: Some(at(20)),
                ..none()
            },
            &[a],
        ),
        (
            DeadLetterFilter {
                event_type: text("Order.Paid"),
                ..none()
            },
            &[a, b],
        ),
        (
            DeadLetterFilter {
                event_type: text("Order"),
                ..none()
            },
            &[],
        ),
        (
            DeadLetterFilter {
                event_type: text("Order.*"),
                ..none()
            },
            &[a, b],
        ),
        (
            DeadLetterFilter {
                subject: text("/orders/%"),
                ..none()
            },
            &[],
        ),
        (
            DeadLetterFilter {
                text: Some(TextSearch::everywhere("A%_a")),
                ..none()
            },
            &[a],
        ),
        (
            DeadLetterFilter {
                text: Some(TextSearch::everywhere("\"N\":  1")),
                ..none()
            },
            &[a, b],
        ),
    ];
    for (filter, expected) in checks {
        assert_eq!(f.find(filter.clone()).await, expected, "{filter:?}");
        let ledger = &f.store.ledger;
        let counted = ledger.count_candidates(source(filter), all(100)).await;
        let counted = counted.expect("a count");
        assert_eq!(counted.matched, expected.len() as u64);
        assert_eq!((counted.until, counted.cursor), (b, None));
    }
}

pub(super) async fn a_source_is_gone_through_in_stretches(f: Fixture) {
    let mut dead = Vec::new();
    for number in 0..5 {
        let reason = DeadLetterReason::Manual;
        dead.push(f.dead(&number.to_string(), reason, number).await);
    }
    let meant = source(DeadLetterFilter {
        text: Some(TextSearch::everywhere("3")),
        ..DeadLetterFilter::default()
    });
    // Two looked at, none meant; two more, and one is.
    let first = f.candidates(meant.clone(), all(2), 9, true).await;
    assert_eq!(
        (first.candidates.len(), first.cursor, first.is_end),
        (0, dead[1], false)
    );
    let id_range = IdRange {
        after: first.cursor,
        ..all(2)
    };
    let second = f.candidates(meant, id_range, 9, true).await;
    assert_eq!((second.cursor, second.is_end), (dead[3], false));
    assert_eq!(
        second.candidates[0]
            .event
            .as_ref()
            .expect("asked for")
            .event
            .id,
        "3"
    );
    // The limit ends a stretch as well.
    let every = source(DeadLetterFilter::default());
    let two = f.candidates(every.clone(), all(9), 2, false).await;
    assert_eq!(
        (two.candidates.len(), two.cursor, two.is_end),
        (2, dead[1], false)
    );
    let some = IdRange {
        until: Some(dead[2]),
        ..all(9)
    };
    let counted = f.store.ledger.count_candidates(every, some).await;
    assert_eq!(
        counted,
        Ok(RangeCount {
            matched: 3,
            until: dead[2],
            cursor: None
        })
    );
    // What was delivered is no dead letter, and has no index of its own.
    f.publish("d", &[f.billing], 9).await;
    let delivered = ids(&f.lease(f.billing, 9, 1).await)[0];
    f.settle(delivered, 1, Settlement::Complete, 9).await;
    let source = ReplaySource {
        of: Replayed::Delivered,
        filter: DeadLetterFilter {
            subscription: Some(f.billing),
            ..DeadLetterFilter::default()
        },
    };
    let found = f.candidates(source, all(100), 9, false).await;
    assert_eq!(found.candidates[0].delivery, delivered);
    assert_eq!(found.candidates.len(), 1);
    let fresh = f.again(delivered, AFRESH, 10).await;
    assert!(fresh.is_some());
    assert_eq!(f.state(delivered).await, DeliveryState::Delivered);
}

pub(super) async fn commands_end_what_they_end(f: Fixture) {
    let url = EndpointUrl::parse("https://a.test/?code=secret").expect("a URL");
    let filter = DeadLetterFilter {
        topic: Some(f.topic),
        subscription: Some(f.billing),
        reason: Some("Manual".to_owned()),
        outcome: Some(Outcome::Busy),
        status: Some(503),
        event_type: Some("T*".to_owned()),
        subject: Some("s".to_owned()),
        from: Some(at(1)),
        to: Some(at(2)),
        text: Some(TextSearch::everywhere("t")),
    };
    let request = NewReplayJob {
        source: source(filter),
        target: ReplayTarget::Url(url),
        rate: Rate::per_1000_s(2_500),
        until: DeliveryId(7),
        total: 3,
    };
    let started = f
        .store
        .ledger
        .start_replay(request.clone(), by_hand(), at(5))
        .await
        .expect("a job");
    let kept = f.job(started.id).await.request;
    assert_eq!(
        (kept.source, kept.target, kept.rate, kept.until, kept.total),
        (
            request.source,
            request.target,
            request.rate,
            request.until,
            request.total
        )
    );
    let command = async |command, now| {
        let done = f
            .store
            .ledger
            .command_replay(started.id, command, by_hand(), at(now))
            .await;
        let done = done.expect("an answer").expect("the job");
        let (job, obeyed) = (done.job, done.is_applied);
        (job.state, obeyed)
    };
    assert_eq!(
        command(ReplayCommand::Pause, 6).await,
        (ReplayState::Paused, true)
    );
    assert_eq!(f.store.ledger.open_replays().await.expect("ok").len(), 1);
    let step = ReplayStep {
        job: started.id,
        from: DeliveryId(0),
        to: DeliveryId(7),
        skipped: Vec::new(),
        completes: true,
    };
    let done = f.resubmit(Vec::new(), Some(step), 7).await;
    assert!(done.is_none(), "it is paused");
    assert_eq!(
        command(ReplayCommand::Resume, 8).await,
        (ReplayState::Running, true)
    );
    assert_eq!(
        command(ReplayCommand::Cancel, 9).await,
        (ReplayState::Cancelled, true)
    );
    assert_eq!(
        command(ReplayCommand::Resume, 10).await,
        (ReplayState::Cancelled, false)
    );
    assert_eq!(f.job(started.id).await.ended_at, Some(at(9)));
    assert!(f.store.ledger.open_replays().await.expect("ok").is_empty());
    let nobody = f
        .store
        .ledger
        .command_replay(ReplayJobId(99), ReplayCommand::Pause, by_hand(), at(1))
        .await;
    assert!(nobody.expect("an answer").is_none());
    let second = f
        .store
        .ledger
        .start_replay(new_job(0, DeliveryId(0)), by_hand(), at(11))
        .await
        .expect("a job");
    let page = f.store.views.replay_jobs(None, 1).await.expect("a page");
    assert_eq!(
        (page.rows[0].id, page.next_before),
        (second.id, Some(second.id))
    );
}
