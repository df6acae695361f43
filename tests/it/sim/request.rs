//! The rules that every request to a receiver keeps.

use everpost::base::Timestamp;
use everpost::model::delivery::DeliveryState;
use everpost::outbound::transport::TransportRequest;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ledger::{Ledger, Pair, Sent, Standing};
use super::spec::Said;
use super::world::Cargo;

/// Enters a request into the books, and holds it against the rules.
pub(super) fn arrived(ledger: &mut Ledger, request: &TransportRequest) -> Cargo {
    let host = request.url.host_str().unwrap_or_default();
    let sub = ledger.sub_by_host(host).expect("a known receiver");
    let count = header(request, "aeg-delivery-count");
    let count: u32 = count
        .and_then(|count| count.parse().ok())
        .unwrap_or(u32::MAX);
    let events = contents(ledger, sub, request);
    let ids: Vec<_> = events
        .iter()
        .map(|event| ledger.events[*event].draft.id.as_str())
        .collect();
    let line = format!(
        "{host} <- {} (attempt {})",
        ids.join(" "),
        count.wrapping_add(1)
    );
    ledger.note(line);
    let cargo = Cargo { sub, events };
    check_request(ledger, request, &cargo);
    for event in cargo.events.clone() {
        if let Err(rule) = check_event(ledger, sub, event, count) {
            let id = &ledger.events[event].draft.id;
            let rule = format!("{id} -> {host}: {rule}");
            ledger.broken(rule);
        }
        let (life, started_at) = (ledger.life, ledger.now);
        ledger.live.insert(event);
        let pair = ledger.events[event].pairs.entry(sub).or_default();
        pair.touched = true;
        pair.on_wire = true;
        // A request that was on its way when a late success came is not recalled.
        let was_on_its_way = |sent: &Sent| sent.late.is_some_and(|(at, _)| at == started_at);
        pair.must_be_delivered &= !pair.sent.iter().any(was_on_its_way);
        pair.sent.push(Sent {
            life,
            count,
            started_at,
            ended: None,
            excused: false,
            put_off: false,
            recorded: false,
            late: None,
        });
    }
    let now = ledger.now;
    ledger.subs[sub].on_wire += 1;
    ledger.subs[sub].starts.push(now);
    ledger.subs[sub].paced_since = Some(now);
    cargo
}

/// Enters what a receiver said.
pub(super) fn answered(ledger: &mut Ledger, cargo: &Cargo, said: Said) {
    let now = ledger.now;
    ledger.note(format!("r{} -> {said:?}", cargo.sub));
    ledger.subs[cargo.sub].on_wire -= 1;
    ledger.subs[cargo.sub].changed = true;
    let put_off = ledger.disk_was_full;
    for event in &cargo.events {
        let pair = pair(ledger, cargo.sub, *event);
        pair.on_wire = false;
        pair.touched = true;
        let sent = pair.sent.last_mut().expect("a request was made");
        sent.ended = Some((now, said));
        sent.put_off = put_off;
        ledger.live.insert(*event);
    }
}

/// Enters what a receiver said after its deadline to the request of `asked_at`.
pub(super) fn answered_late(ledger: &mut Ledger, cargo: &Cargo, asked_at: Timestamp, status: u16) {
    let now = ledger.now;
    ledger.note(format!("r{} -> late {status}", cargo.sub));
    ledger.subs[cargo.sub].changed = true;
    let (life, full, jumps, deleted) = (
        ledger.life,
        ledger.disk_was_full,
        ledger.clock_jumps,
        ledger.subs[cargo.sub].deleted.is_some(),
    );
    let success = matches!(status, 200..=204);
    let specs = ledger.specs_at(cargo.sub, now);
    let time_to_live = specs.iter().map(|spec| spec.time_to_live()).min();
    ledger.subs[cargo.sub].owes_success |= success && full;
    for event in &cargo.events {
        ledger.live.insert(*event);
        let pair = pair(ledger, cargo.sub, *event);
        pair.touched = true;
        let newest = pair.sent.len() - 1;
        let waits = pair.seen.as_ref().is_some_and(|seen| {
            let sent = &pair.sent[newest];
            // Its end may be on its way to the store already.
            let lives = time_to_live.is_some_and(|time| now.since(seen.published_at) < time);
            lives && seen.state == DeliveryState::Pending && seen.attempts == sent.count + 1
        });
        let mut sent = pair.sent.iter();
        // A resubmission may begin in the same moment as the attempt before it.
        let timed_out = |sent: &Sent| sent.ended.is_some_and(|(_, said)| said == Said::TimedOut);
        let asked = |sent: &Sent| {
            let is_of_it = sent.life == life && sent.started_at == asked_at;
            is_of_it && timed_out(sent) && sent.late.is_none()
        };
        let at = sent.position(asked).expect("a request was made");
        pair.sent[at].late = Some((now, status));
        let waits_still = waits && at == newest && !pair.on_wire && !jumps;
        pair.must_be_delivered = success && waits_still && !full && !deleted;
    }
}

fn pair(ledger: &mut Ledger, sub: usize, event: usize) -> &mut Pair {
    ledger.events[event]
        .pairs
        .get_mut(&sub)
        .expect("a request makes a pair")
}

fn header<'a>(request: &'a TransportRequest, name: &str) -> Option<&'a str> {
    request.headers.get(name)?.to_str().ok()
}

/// The events in the body, whose `data` must be what was published.
fn contents(ledger: &mut Ledger, sub: usize, request: &TransportRequest) -> Vec<usize> {
    #[derive(Deserialize)]
    struct Arrived<'a> {
        #[serde(alias = "no")]
        id: String,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let body = std::str::from_utf8(&request.body).expect("UTF-8");
    let texts: Vec<&RawValue> = match body.starts_with('[') {
        true => serde_json::from_str(body).expect("an array"),
        false => vec![serde_json::from_str(body).expect("an object")],
    };
    let mut events = Vec::new();
    for text in texts {
        let arrived: Arrived = serde_json::from_str(text.get()).expect("an event");
        let Some(event) = ledger.event_by_id(&arrived.id) else {
            ledger.broken(format!("nobody published {}", arrived.id));
            continue;
        };
        let specs = ledger.specs_at(sub, ledger.now);
        let given = [
            arrived
                .data
                .filter(|_| specs.iter().any(|spec| !spec.original())),
            Some(text).filter(|_| specs.iter().any(|spec| spec.original())),
        ];
        let expected = &ledger.events[event].draft.data;
        if !given
            .into_iter()
            .flatten()
            .any(|given| given.get() == expected)
        {
            let rule = format!("{} is not what was published: {}", arrived.id, text.get());
            ledger.broken(rule);
        }
        events.push(event);
    }
    events
}

/// The rules of a request as a whole.
fn check_request(ledger: &mut Ledger, request: &TransportRequest, cargo: &Cargo) {
    let now = ledger.now;
    let sub = &ledger.subs[cargo.sub];
    let specs = ledger.specs_at(cargo.sub, now);
    let mut broken = Vec::new();
    let events = cargo.events.len();
    if events == 0 || specs.iter().all(|spec| events > spec.events_max()) {
        broken.push(format!("{events} events are too many"));
    }
    let too_long =
        |kilobytes: u32| events > 1 && request.body.len() > kilobytes as usize * 1_024 + 2;
    if specs
        .iter()
        .all(|spec| spec.batch_kilobytes.is_some_and(too_long))
    {
        broken.push(format!("{} bytes are too many", request.body.len()));
    }
    if specs.iter().all(|spec| !spec.delivers()) {
        broken.push("the subscription delivers nothing".to_owned());
    }
    if sub.deleted.is_some_and(|(at, _)| at < now) {
        broken.push("the subscription is deleted".to_owned());
    }
    let standard = ledger.limits.per_subscription;
    let most = specs
        .iter()
        .map(|spec| spec.in_flight.map_or(standard, |most| most as usize));
    let overall: usize = ledger.subs.iter().map(|sub| sub.on_wire).sum();
    if sub.on_wire >= most.max().unwrap_or(0) || overall >= ledger.limits.overall {
        let on_wire = sub.on_wire;
        broken.push(format!(
            "{on_wire} requests of {overall} are on the wire already"
        ));
    }
    if let Some(until) = sub.probation_until
        && !(sub.changed || sub.owes_success)
        && (now < until || events > 1 || sub.starts.last() == Some(&now))
    {
        broken.push(format!(
            "it is no single probe after the probation until {until}"
        ));
    }
    if specs.iter().all(|spec| {
        spec.rate
            .is_some_and(|rate| is_too_fast(&sub.starts, rate, now))
    }) {
        broken.push("it comes too soon after the ones before".to_owned());
    }
    let header = header(request, "x-tenant");
    let right = |event: &usize| header == Some(ledger.events[*event].draft.tenant);
    if specs.iter().all(|spec| spec.by_tenant) && !cargo.events.iter().all(right) {
        broken.push(format!("x-tenant is {header:?}"));
    }
    for rule in broken {
        ledger.broken(format!("request to r{}: {rule}", cargo.sub));
    }
}

/// `rate` requests in a hundred seconds, of which a tenth of a second's worth may come at once.
fn is_too_fast(starts: &[Timestamp], rate: u32, now: Timestamp) -> bool {
    let per_ms = f64::from(rate) / 100_000.0;
    let burst = (per_ms * 100.0).max(1.0);
    starts
        .iter()
        .rev()
        .take(64)
        .enumerate()
        .any(|(index, start)| {
            let requests = index as f64 + 2.0;
            let ms = now.since(*start).as_millis() as f64;
            requests > burst + per_ms * ms + 1e-6
        })
}

/// The rules of one event of a request.
fn check_event(ledger: &Ledger, sub: usize, event: usize, count: u32) -> Result<(), String> {
    let now = ledger.now;
    let (event, specs) = (&ledger.events[event], ledger.specs_at(sub, now));
    if event.standing == Standing::Rejected {
        return Err("its publisher heard that it is not accepted".to_owned());
    }
    if event.standing == Standing::Gone {
        return Err("it is gone from the store".to_owned());
    }
    let pair = event.pairs.get(&sub).ok_or("it does not match")?;
    if pair.on_wire {
        return Err("it is on the wire already".to_owned());
    }
    if specs.iter().all(|spec| count >= spec.attempts_max) {
        return Err(format!("attempt {} is beyond its policy", count + 1));
    }
    // Its number shows that the one before is stored, also where nobody has looked since.
    let unsettled = |sent: &Sent| {
        sent.life == ledger.life && !sent.recorded && !sent.excused && sent.count >= count
    };
    if pair.sent.iter().any(unsettled) {
        return Err("the attempt before is not settled".to_owned());
    }
    let Some(seen) = &pair.seen else {
        let fresh = count == 0;
        return fresh
            .then_some(())
            .ok_or(format!("{count} attempts before the first"));
    };
    // A full disk puts off what was decided long ago.
    if pair.touched || pair.resubmitting || ledger.disk_was_full {
        return Ok(());
    }
    let Some(next) = seen.next_attempt_at else {
        return Err(format!("it is {:?}", seen.state));
    };
    if count != seen.attempts {
        return Err(format!("attempt {} after {}", count + 1, seen.attempts));
    }
    if now < next {
        return Err(format!("{} ms too early", next.since(now).as_millis()));
    }
    if specs
        .iter()
        .all(|spec| now.since(seen.published_at) >= spec.time_to_live())
    {
        return Err("its time to live is over".to_owned());
    }
    Ok(())
}
