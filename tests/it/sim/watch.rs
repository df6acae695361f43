//! The rules that what is stored keeps.

use std::time::Duration;

use everpost::base::Timestamp;
use everpost::broker::Broker;
use everpost::model::dead_letter::DeadLetterReason;
use everpost::model::delivery::{DeliveryAttempt, DeliveryState, Outcome};
use everpost::model::retention::RetentionRules;
use everpost::store::views::{DeliveryDetail, EventDetail};

use super::ledger::{Event, Ledger, Pair, Seen, Sent, Standing, Sub};
use super::pulled;
use super::spec::{Fate, Life, Said, Spec, seconds};

/// Holds everything about an event that is stored against the rules.
pub(super) fn check_event(
    ledger: &mut Ledger,
    event: usize,
    stored: &EventDetail,
) -> Result<(), String> {
    let mut left: Vec<&DeliveryDetail> = stored.deliveries.iter().collect();
    let subs: Vec<usize> = ledger.events[event].pairs.keys().copied().collect();
    for sub in subs {
        let id = ledger.subs[sub].id;
        let (mine, others) = left
            .into_iter()
            .partition(|each| Some(each.row.subscription_id) == id);
        left = others;
        if mine.is_empty() && stored.is_fanning_out {
            continue;
        }
        check_pair(ledger, event, sub, &mine).map_err(|rule| format!("r{sub}: {rule}"))?;
    }
    match left.first() {
        None => Ok(()),
        Some(stray) => Err(format!(
            "it has a delivery to {}, which it does not match",
            stray.row.subscription
        )),
    }
}

/// An event may be gone once everything about it ended long enough ago.
pub(super) fn check_gone(
    ledger: &mut Ledger,
    event: usize,
    rules: &RetentionRules,
) -> Result<(), String> {
    let (now, event) = (ledger.now, &mut ledger.events[event]);
    let is_old = |at: Timestamp, age: Duration| at + age <= now;
    let may_go = |pair: &Pair| {
        let Some(seen) = &pair.seen else {
            return pair.may_be_skipped;
        };
        match seen.state {
            DeliveryState::Pending | DeliveryState::Resubmitted | DeliveryState::Removed => false,
            DeliveryState::Delivered | DeliveryState::Dropped => seen
                .ended_at
                .is_some_and(|ended| is_old(ended, rules.delivered)),
            DeliveryState::DeadLettered => seen
                .ended_at
                .zip(rules.dead_letters)
                .is_some_and(|(ended, age)| is_old(ended, age)),
        }
    };
    let unwanted_long_ago = is_old(event.offered_at, rules.delivered);
    if !event.pairs.values().all(may_go) || event.pairs.is_empty() && !unwanted_long_ago {
        return Err("it is lost".to_owned());
    }
    event.standing = Standing::Gone;
    Ok(())
}

fn check_pair(
    ledger: &mut Ledger,
    event: usize,
    sub: usize,
    deliveries: &[&DeliveryDetail],
) -> Result<(), String> {
    let pair = &ledger.events[event].pairs[&sub];
    if let Some((_, kept)) = ledger.subs[sub].deleted
        && is_hidden(pair, deliveries)
    {
        let pair = pair_of(ledger, event, sub);
        // Of what was still to be created, only what is kept is.
        pair.may_be_skipped = pair.seen.is_none() && (pair.maybe || !kept);
        pair.touched &= !pair.may_be_skipped; // nothing will be seen of it
        return Ok(());
    }
    if deliveries.is_empty() {
        if !pair.maybe || !pair.sent.is_empty() {
            return Err("there is no delivery".to_owned());
        }
        ledger.events[event].pairs.remove(&sub);
        return Ok(());
    }
    let newest = chain(deliveries)?;
    for delivery in deliveries {
        match ledger.subs[sub].spec().kind.is_pulled() {
            true => pulled::check(ledger, event, sub, delivery)?,
            false => check_delivery(ledger, event, sub, delivery)?,
        }
    }
    let row = &newest.row;
    let seen = Seen {
        id: row.id.0,
        state: row.state,
        attempts: row.attempts,
        next_attempt_at: row.next_attempt_at,
        published_at: row.published_at,
        ended_at: row.ended_at,
    };
    let full = ledger.disk_was_full;
    let life = ledger.life;
    let is_deleted = ledger.subs[sub].deleted.is_some();
    let pair = pair_of(ledger, event, sub);
    check_change(pair, &seen)?;
    mark_recorded(pair, deliveries);
    let ended = row.ended_at;
    let forgotten = |sent: &&Sent| {
        let Some((at, _)) = sent.ended else {
            return false;
        };
        let too_late = ended.is_some_and(|ended| ended <= at || (is_deleted && sent.put_off));
        sent.life == life && !sent.recorded && !sent.excused && !too_late && !full
    };
    if let Some(sent) = pair.sent.iter().find(forgotten) {
        return Err(format!("attempt {} is not recorded", sent.count + 1));
    }
    if pair.must_be_delivered && seen.state != DeliveryState::Delivered {
        return Err("a late success does not complete it".to_owned());
    }
    pair.maybe = false;
    pair.must_be_delivered = false;
    pair.resubmitting = false;
    pair.touched = false;
    pair.seen = Some(seen);
    Ok(())
}

/// Whether what is seen of the deliveries to a deleted subscription lacks one that is about to be ended.
fn is_hidden(pair: &Pair, deliveries: &[&DeliveryDetail]) -> bool {
    match deliveries.last() {
        None => {
            let was_pending = |seen: &Seen| seen.state == DeliveryState::Pending;
            pair.seen.as_ref().is_none_or(was_pending)
        }
        Some(last) => last.row.resubmitted_as.is_some(),
    }
}

fn pair_of(ledger: &mut Ledger, event: usize, sub: usize) -> &mut Pair {
    ledger.events[event]
        .pairs
        .get_mut(&sub)
        .expect("a known pair")
}

/// The deliveries of one pair: each but the last gave way to the next one. Returns the last.
fn chain<'a>(deliveries: &[&'a DeliveryDetail]) -> Result<&'a DeliveryDetail, String> {
    for (index, delivery) in deliveries.iter().enumerate() {
        let row = &delivery.row;
        let before = index.checked_sub(1).map(|before| deliveries[before].row.id);
        let after = deliveries.get(index + 1).map(|after| after.row.id);
        let gave_way = (row.state == DeliveryState::Resubmitted) == after.is_some();
        if row.resubmission_of != before || row.resubmitted_as != after || !gave_way {
            return Err(format!("delivery {} is there twice", row.id));
        }
    }
    Ok(deliveries.last().expect("there is one"))
}

/// What has ended stays so, except that a dead letter may be resubmitted.
fn check_change(pair: &Pair, seen: &Seen) -> Result<(), String> {
    let Some(before) = &pair.seen else {
        return Ok(());
    };
    let lawful = match before.state {
        DeliveryState::Pending => before.id == seen.id && before.attempts <= seen.attempts,
        DeliveryState::DeadLettered if pair.resubmitting => true,
        DeliveryState::Delivered
        | DeliveryState::DeadLettered
        | DeliveryState::Dropped
        | DeliveryState::Resubmitted
        | DeliveryState::Removed => before == seen,
    };
    match lawful {
        true => Ok(()),
        false => Err(format!("it was {before:?} and is {seen:?}")),
    }
}

fn mark_recorded(pair: &mut Pair, deliveries: &[&DeliveryDetail]) {
    for attempt in deliveries.iter().flat_map(|delivery| &delivery.attempts) {
        for sent in &mut pair.sent {
            sent.recorded |= is_record_of(attempt, sent);
        }
    }
}

fn is_record_of(attempt: &DeliveryAttempt, sent: &Sent) -> bool {
    let ended = attempt.started_at + attempt.duration;
    sent.started_at == attempt.started_at
        && sent.count + 1 == attempt.attempt
        && sent
            .ended
            .is_some_and(|(at, said)| at == ended && status(said) == attempt.result.status())
}

fn status(said: Said) -> Option<u16> {
    match said {
        Said::Status(status, _) => Some(status),
        Said::TimedOut | Said::Rejected | Said::Skipped { .. } => None,
    }
}

/// One delivery: its attempts are those that were made, and it stands where the last one leads.
fn check_delivery(
    ledger: &Ledger,
    event: usize,
    sub: usize,
    delivery: &DeliveryDetail,
) -> Result<(), String> {
    let (event, row) = (&ledger.events[event], &delivery.row);
    let pair = &event.pairs[&sub];
    if delivery.attempts.len() != row.attempts as usize {
        let (found, told) = (delivery.attempts.len(), row.attempts);
        return Err(format!("{told} attempts, of which {found} are recorded"));
    }
    let mut earliest = row.published_at;
    let first_at = delivery.attempts.first().map(|first| first.started_at);
    for (number, attempt) in (1..).zip(&delivery.attempts) {
        if attempt.attempt != number {
            return Err(format!("attempt {number} is missing"));
        }
        if attempt.started_at < earliest {
            return Err(format!("attempt {number} came too early"));
        }
        let said = what_was_said(ledger, pair, attempt)?;
        let ended = attempt.started_at + attempt.duration;
        let specs = ledger.specs_at(sub, attempt.started_at).into_iter();
        // By whatever the subscription asked for then.
        let life = Life {
            published_at: row.published_at,
            first_at: first_at.unwrap_or(attempt.started_at),
        };
        let fates: Vec<Fate> = specs
            .map(|spec| spec.fate(number, said, life, ended))
            .collect();
        if number == row.attempts {
            return check_end(ledger, sub, delivery, attempt, &fates);
        }
        let again = fates.iter().filter_map(|fate| match fate {
            Fate::Again { from, .. } => Some(*from),
            Fate::Delivered | Fate::Dead(_) => None,
        });
        earliest = again
            .min()
            .ok_or_else(|| format!("an attempt follows on attempt {number}: {said:?}"))?;
    }
    check_unattempted(ledger, sub, delivery)
}

fn what_was_said(ledger: &Ledger, pair: &Pair, attempt: &DeliveryAttempt) -> Result<Said, String> {
    let answer = &attempt.result;
    if answer.outcome == Outcome::Probation {
        let error = answer.error.as_deref().unwrap_or_default();
        let client_errors = ["Unauthorized", "Forbidden", "NotFound"];
        let client_error = client_errors.iter().any(|cause| error.ends_with(cause));
        return Ok(Said::Skipped { client_error });
    }
    let mut sent = pair.sent.iter();
    let made = sent.find(|sent| is_record_of(attempt, sent));
    let Some((sent, (_, said))) = made.and_then(|sent| Some((sent, sent.ended?))) else {
        let (number, found) = (attempt.attempt, answer.status());
        return Err(format!("attempt {number} never brought {found:?}"));
    };
    let late = attempt.late.as_ref();
    let late = late.map(|late| (sent.started_at + late.after, late.status));
    // It is heard once the attempt itself is stored, which a full disk may put off.
    let is_heard = |(at, status)| {
        sent.late
            .is_some_and(|(said_at, said)| said_at <= at && Some(said) == status)
    };
    if !late.is_none_or(is_heard) {
        return Err(format!("attempt {} was not answered late", attempt.attempt));
    }
    // A full disk puts it off, and a crash loses it.
    let must_be_there = sent.life == ledger.life && !ledger.disk_was_full;
    if must_be_there && late.is_some() != sent.late.is_some() {
        let number = attempt.attempt;
        return Err(format!("the late answer to attempt {number} is forgotten"));
    }
    Ok(said)
}

/// Where a delivery stands after its last attempt.
fn check_end(
    ledger: &Ledger,
    sub: usize,
    delivery: &DeliveryDetail,
    last: &DeliveryAttempt,
    fates: &[Fate],
) -> Result<(), String> {
    let row = &delivery.row;
    let ended = last.started_at + last.duration;
    let lawful = fates.iter().any(|fate| match (row.state, *fate) {
        (DeliveryState::Delivered, Fate::Delivered) => row.ended_at == Some(ended),
        (DeliveryState::Delivered, Fate::Again { .. }) => last.late.is_some_and(|late| {
            late.outcome == Outcome::Delivered && row.ended_at == Some(last.started_at + late.after)
        }),
        (DeliveryState::Pending, Fate::Again { from, to }) => row
            .next_attempt_at
            .is_some_and(|next| from <= next && next <= to),
        (
            DeliveryState::DeadLettered | DeliveryState::Dropped | DeliveryState::Resubmitted,
            Fate::Dead(reason),
        ) => {
            row.ended_at == Some(ended)
                && row.dead_letter_reason.map(DeadLetterReason::name) == Some(reason)
                && is_kept_as_asked(ledger, sub, row.state, last.started_at)
        }
        (
            DeliveryState::DeadLettered | DeliveryState::Dropped | DeliveryState::Resubmitted,
            Fate::Again { from, .. },
        ) => gave_up(ledger, sub, delivery, from),
        (
            DeliveryState::Pending
            | DeliveryState::DeadLettered
            | DeliveryState::Dropped
            | DeliveryState::Resubmitted,
            Fate::Delivered,
        )
        | (DeliveryState::Delivered | DeliveryState::Pending, Fate::Dead(_))
        // Nobody drains the queues of dead letters.
        | (DeliveryState::Removed, _) => false,
    });
    match lawful {
        true => Ok(()),
        false => Err(format!(
            "after attempt {} with {:?} that ended {ended} it is {row:?}, but {fates:?} was due",
            last.attempt,
            last.result.status()
        )),
    }
}

fn check_unattempted(ledger: &Ledger, sub: usize, delivery: &DeliveryDetail) -> Result<(), String> {
    let row = &delivery.row;
    let lawful = match row.state {
        DeliveryState::Pending => row.next_attempt_at == Some(row.published_at),
        DeliveryState::Delivered | DeliveryState::Removed => false,
        DeliveryState::DeadLettered | DeliveryState::Dropped | DeliveryState::Resubmitted => {
            gave_up(ledger, sub, delivery, row.published_at)
        }
    };
    match lawful {
        true => Ok(()),
        false => Err(format!("without an attempt it is {row:?}")),
    }
}

/// Whether a delivery whose next attempt was due `from` then was rightly given up without it.
pub(super) fn gave_up(
    ledger: &Ledger,
    sub: usize,
    delivery: &DeliveryDetail,
    from: Timestamp,
) -> bool {
    let row = &delivery.row;
    let (Some(reason), Some(ended)) = (row.dead_letter_reason, row.ended_at) else {
        return false;
    };
    let specs = ledger.specs_at(sub, ended);
    let asked = |rule: &dyn Fn(&Spec) -> bool| {
        ended >= from
            && specs.iter().any(|spec| rule(spec))
            && is_kept_as_asked(ledger, sub, row.state, ended)
    };
    match (reason, ledger.subs[sub].deleted) {
        (DeadLetterReason::TimeToLiveExceeded, _) => {
            asked(&|spec| ended.since(row.published_at) >= spec.time_to_live())
        }
        (DeadLetterReason::MaxDeliveryAttemptsExceeded, _) => {
            asked(&|spec| row.attempts >= spec.attempts_max)
        }
        (DeadLetterReason::SubscriptionDeleted, Some((at, kept))) => {
            let in_order = ended >= at || ledger.clock_went_back;
            in_order && (row.state == DeliveryState::Dropped) != kept
        }
        _ => false,
    }
}

/// What is given up is kept, unless the subscription wished otherwise.
pub(super) fn is_kept_as_asked(
    ledger: &Ledger,
    sub: usize,
    state: DeliveryState,
    at: Timestamp,
) -> bool {
    let kept = state != DeliveryState::Dropped;
    ledger
        .specs_at(sub, at)
        .iter()
        .any(|spec| spec.keeps_dead == kept)
}

/// Nobody forgets what is due: it is on the wire, or there is a reason why not.
pub(super) fn check_not_forgotten(ledger: &Ledger, broker: &Broker) -> Result<(), String> {
    let now = ledger.now;
    let overdue = |next: Timestamp| next + GRAIN <= now;
    if ledger.disk_was_full {
        return Ok(());
    }
    let on_wire: usize = ledger.subs.iter().map(|sub| sub.on_wire).sum();
    for event in ledger.live.iter().map(|event| &ledger.events[*event]) {
        for (index, pair) in &event.pairs {
            let next = pair.seen.as_ref().and_then(|seen| seen.next_attempt_at);
            let sub = &ledger.subs[*index];
            if next.is_some_and(overdue)
                && !pair.on_wire
                && on_wire < ledger.limits.overall
                && !may_wait(ledger, sub, broker)
            {
                return Err(forgotten(event, *index, next));
            }
        }
    }
    Ok(())
}

/// How much later than its moment something may be noticed: the dispatcher's clock has whole
/// milliseconds.
const GRAIN: Duration = Duration::from_millis(2);

fn forgotten(event: &Event, sub: usize, next: Option<Timestamp>) -> String {
    let (id, next) = (&event.draft.id, next.unwrap_or_default());
    format!("{id} -> r{sub}, due at {next}, is forgotten")
}

fn may_wait(ledger: &Ledger, sub: &Sub, broker: &Broker) -> bool {
    let (now, spec) = (ledger.now, sub.spec());
    let health = sub.id.map(|id| broker.health_of(id)).unwrap_or_default();
    let held = health
        .probation
        .is_some_and(|probation| probation.until + GRAIN > now || sub.on_wire > 0);
    let paced = spec.rate.is_some_and(|rate| {
        let pause = seconds(100) / rate + GRAIN;
        sub.paced_since
            .is_some_and(|since| now.since(since) < pause)
    });
    // A probation may end at the very moment at which the dispatcher means to look for a probe.
    let looks_now = broker
        .next_due()
        .is_some_and(|at| at <= now && now < at + GRAIN);
    let is_sent = spec.delivers() && !spec.kind.is_pulled();
    // Slots are shared: whoever has one may have to wait until a request of its own ends.
    let shares = sub.on_wire > 0;
    sub.deleted.is_some() || !is_sent || held || shares || paced || looks_now
}
