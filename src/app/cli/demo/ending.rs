//! How it ended, by the appliance's own account, held against what was to be expected.

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::app::cli::demo::role::{BILLING, EVENTS, REFUNDS, ROLES, Role};
use crate::app::cli::output::{items, text};

/// What became of all events.
pub(super) struct Ending {
    /// A delivery that took three attempts.
    pub(super) delivered: Value,
    /// A delivery that was refused.
    pub(super) dead: Value,
    pub(super) totals: Totals,
}

/// How many of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) published: usize,
    pub(super) deliveries: usize,
    pub(super) delivered: usize,
    pub(super) dead_lettered: usize,
    pub(super) attempts: usize,
}

impl Ending {
    /// Reads it off the events and their deliveries, as the server shows them. An ending that is not
    /// as it should be is an error.
    pub(super) fn of(events: &[Value]) -> anyhow::Result<Self> {
        let published = events.len();
        let is_complete = published == EVENTS;
        ensure!(
            is_complete,
            "the server knows {published} events, but {EVENTS} were published"
        );
        let deliveries = events.iter().flat_map(|event| items(event, "/deliveries"));
        let deliveries: Vec<&Value> = deliveries.collect();
        for role in ROLES {
            check_all(role, &deliveries)?;
        }
        Ok(Self {
            delivered: first(&BILLING, &deliveries)?,
            dead: first(&REFUNDS, &deliveries)?,
            totals: Totals::of(published, &deliveries),
        })
    }
}

impl Totals {
    fn of(published: usize, deliveries: &[&Value]) -> Self {
        let ended = |as_in: &Role| {
            let states = deliveries.iter().map(|delivery| text(delivery, "/state"));
            states.filter(|state| state == as_in.ends).count()
        };
        let attempts = |delivery: &&Value| items(delivery, "/deliveryAttempts").len();
        Self {
            published,
            deliveries: deliveries.len(),
            delivered: ended(&BILLING),
            dead_lettered: ended(&REFUNDS),
            attempts: deliveries.iter().map(attempts).sum(),
        }
    }

    /// Deliveries that ended in no other way.
    pub(super) fn lost(&self) -> usize {
        self.deliveries - self.delivered - self.dead_lettered
    }
}

fn check_all(role: &Role, deliveries: &[&Value]) -> anyhow::Result<()> {
    let own: Vec<&&Value> = of_role(role, deliveries).collect();
    let (name, count, expected) = (role.name, own.len(), role.deliveries);
    ensure!(
        count == expected,
        "{name} was to get {expected} events and got {count}"
    );
    own.into_iter()
        .try_for_each(|delivery| check(role, delivery))
}

fn check(role: &Role, delivery: &Value) -> anyhow::Result<()> {
    let attempts = items(delivery, "/deliveryAttempts").iter();
    let answers: Vec<String> = attempts.map(answer).collect();
    let happened = course(
        &answers.join(" "),
        &text(delivery, "/state"),
        &text(delivery, "/deadLetterReason"),
    );
    let expected = course(role.answers, role.ends, role.reason);
    let event = text(delivery, "/eventId");
    ensure!(
        happened == expected,
        "the delivery of {event} to {} went {happened:?} instead of {expected:?}",
        role.name
    );
    Ok(())
}

/// `400 DeadLettered UndeliverableDueToHttpBadRequest`
fn course(answers: &str, state: &str, reason: &str) -> String {
    format!("{answers} {state} {reason}").trim_end().to_owned()
}

/// The status, or what went wrong instead.
fn answer(attempt: &Value) -> String {
    match attempt["httpStatusCode"].as_u64() {
        Some(status) => status.to_string(),
        None => text(attempt, "/outcome"),
    }
}

fn first(role: &Role, deliveries: &[&Value]) -> anyhow::Result<Value> {
    let first = of_role(role, deliveries).next();
    let first = first.with_context(|| format!("{} got no event", role.name))?;
    Ok(Value::clone(first))
}

fn of_role<'a>(role: &Role, deliveries: &'a [&'a Value]) -> impl Iterator<Item = &'a &'a Value> {
    let name = role.name;
    let is_own = move |delivery: &&&Value| delivery["subscription"] == name;
    deliveries.iter().filter(is_own)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delivery(role: &Role, number: usize) -> Value {
        let statuses = role.answers.split(' ');
        let attempts = statuses.map(|status| json!({ "httpStatusCode": status.parse::<u16>().expect("a status"), "outcome": "Some" }));
        json!({
            "eventId": format!("order-{number}"),
            "subscription": role.name,
            "state": role.ends,
            "deadLetterReason": Some(role.reason).filter(|reason| !reason.is_empty()),
            "deliveryAttempts": attempts.collect::<Vec<_>>(),
        })
    }

    fn as_expected() -> Vec<Value> {
        let event = |number: usize| {
            let mut deliveries = vec![delivery(&BILLING, number)];
            if number < REFUNDS.deliveries {
                deliveries.push(delivery(&REFUNDS, number));
            }
            json!({ "deliveries": deliveries })
        };
        (0..EVENTS).map(event).collect()
    }

    #[test]
    fn the_expected_ending_is_counted() {
        let ending = Ending::of(&as_expected()).expect("as it should be");
        let totals = Totals {
            published: 100,
            deliveries: 110,
            delivered: 100,
            dead_lettered: 10,
            attempts: 310,
        };
        assert_eq!(ending.totals, totals);
        assert_eq!(ending.delivered["subscription"], "billing");
        assert_eq!(ending.dead["subscription"], "refunds");
    }

    #[test]
    fn any_other_ending_is_an_error() {
        let check = |change: fn(&mut Vec<Value>), expected: &str| {
            let mut events = as_expected();
            change(&mut events);
            let told = Ending::of(&events).err().map(|error| error.to_string());
            assert_eq!(told.as_deref(), Some(expected));
        };
        check(
            |events| drop(events.pop()),
            "the server knows 99 events, but 100 were published",
        );
        check(
            |events| events[0]["deliveries"][1] = delivery(&BILLING, 0),
            "billing was to get 100 events and got 101",
        );
        check(
            |events| events[7]["deliveries"][0]["state"] = json!("Pending"),
            "the delivery of order-7 to billing went \"503 503 200 Pending\" instead of \"503 503 200 \
             Delivered\"",
        );
        check(
            |events| {
                events[3]["deliveries"][1]["deliveryAttempts"] =
                    json!([{ "httpStatusCode": null, "outcome": "TimedOut" }]);
            },
            "the delivery of order-3 to refunds went \"TimedOut DeadLettered \
             UndeliverableDueToHttpBadRequest\" instead of \"400 DeadLettered \
             UndeliverableDueToHttpBadRequest\"",
        );
    }
}
