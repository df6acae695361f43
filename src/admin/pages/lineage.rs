//! Resubmissions in words, told at both of their ends: what has become of a delivery, and where a delivery
//! or an event comes from.

use crate::admin::page::*;
use crate::admin::pages::replays::replay_page;
use crate::admin::paths::event_page;
use crate::model::delivery::DeliveryId;
use crate::model::event::EventKey;
use crate::store::views::{DeliveryDetail, DeliveryRow, LineageRow};

/// What a delivery was sent again as.
#[derive(Template)]
#[template(path = "widgets/resubmitted.html")]
pub(crate) struct Resubmitted {
    url: Option<String>,
    delivery: Option<Link>,
    event: Option<NewEvent>,
    /// `None` where only the deliveries themselves know of each other.
    when: Option<When>,
}

/// What something is the resubmission of.
#[derive(Template)]
#[template(path = "widgets/origin.html")]
pub(crate) struct Origin {
    delivery: Link,
    /// Named where it is another one.
    event: Option<Link>,
    when: Option<When>,
}

part!(Resubmitted, Origin);

struct Link {
    text: String,
    href: String,
}

struct NewEvent {
    text: String,
    /// `None` once the event is gone.
    at: Option<AtTopic>,
    is_edited: bool,
}

struct AtTopic {
    href: String,
    topic: String,
}

struct When {
    at: Time,
    job: Option<Link>,
}

impl When {
    fn new(line: &LineageRow) -> Self {
        Self {
            at: Time::at(line.resubmitted_at),
            job: line.replay_job.map(|id| Link {
                text: format!("replay job {id}"),
                href: replay_page(id),
            }),
        }
    }
}

impl Resubmitted {
    fn new(line: &LineageRow) -> Self {
        let is_edited = line.as_delivery.is_some() || line.url.is_some();
        let event = line.as_event.map(|key| NewEvent {
            text: format!("event {key}"),
            at: line.as_topic.clone().map(|topic| AtTopic {
                href: event_page(key),
                topic,
            }),
            is_edited,
        });
        Self {
            url: line.url.as_deref().map(print::visible),
            delivery: line
                .as_delivery
                .map(|id| delivery(line.as_event.unwrap_or(line.event), id)),
            event,
            when: Some(When::new(line)),
        }
    }

    /// Everything that a delivery was sent again as, oldest first.
    pub(crate) fn all(of: &DeliveryDetail) -> Vec<Self> {
        let row = &of.row;
        let unwritten = row.resubmitted_as.filter(|_| of.resubmissions.is_empty());
        let unwritten = unwritten.map(|id| Self {
            url: None,
            delivery: Some(delivery(row.event, id)),
            event: None,
            when: None,
        });
        let written = of.resubmissions.iter().map(Self::new);
        written.chain(unwritten).collect()
    }
}

impl Origin {
    /// Where a delivery comes from.
    pub(crate) fn of_delivery(of: &DeliveryDetail) -> Option<Self> {
        match &of.made_by {
            Some(line) => Some(Self::new(line, of.row.event)),
            None => Self::unwritten(&of.row),
        }
    }

    /// Where an event comes from.
    pub(crate) fn of_event(made_by: &LineageRow) -> Self {
        Self {
            event: Some(event(made_by.event)),
            ..Self::new(made_by, made_by.event)
        }
    }

    fn new(line: &LineageRow, own: EventKey) -> Self {
        Self {
            delivery: delivery(line.event, line.delivery),
            event: (line.event != own).then(|| event(line.event)),
            when: Some(When::new(line)),
        }
    }

    fn unwritten(row: &DeliveryRow) -> Option<Self> {
        Some(Self {
            delivery: delivery(row.event, row.resubmission_of?),
            event: None,
            when: None,
        })
    }
}

fn delivery(of: EventKey, id: DeliveryId) -> Link {
    Link {
        text: format!("delivery {id}"),
        href: format!("{}#delivery-{id}", event_page(of)),
    }
}

fn event(key: EventKey) -> Link {
    Link {
        text: format!("event {key}"),
        href: event_page(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::model::replay::ReplayJobId;

    fn line() -> LineageRow {
        LineageRow {
            delivery: DeliveryId(4),
            event: EventKey(3),
            as_delivery: None,
            as_event: None,
            as_topic: None,
            url: None,
            replay_job: None,
            resubmitted_at: Timestamp::from_ms(0),
        }
    }

    /// What people read of it.
    fn words(html: &str) -> String {
        let parts = html.split('<');
        let texts = parts.map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        let words: String = texts.collect();
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn message(line: &LineageRow) -> String {
        words(&Resubmitted::new(line).to_string())
    }

    #[test]
    fn every_target_is_told() {
        let as_delivery = Some(DeliveryId(5));
        let as_event = Some(EventKey(9));
        let as_topic = Some("audit".to_owned());
        let url = Some("https://x.example/in".to_owned());
        let own = LineageRow {
            as_delivery,
            ..line()
        };
        assert_eq!(
            message(&own),
            "Resubmitted as delivery 5 at 1970-01-01 00:00:00."
        );
        let edited = LineageRow {
            as_event,
            as_topic: as_topic.clone(),
            ..own.clone()
        };
        assert_eq!(
            message(&edited),
            "Resubmitted as delivery 5 of the edited event 9 at 1970-01-01 00:00:00."
        );
        let topic = LineageRow {
            as_event,
            as_topic,
            replay_job: Some(ReplayJobId(2)),
            ..line()
        };
        assert_eq!(
            message(&topic),
            "Resubmitted as event 9 of the topic audit at 1970-01-01 00:00:00 by replay job 2."
        );
        let gone = LineageRow { as_event, ..line() };
        assert_eq!(
            message(&gone),
            "Resubmitted as event 9, which is gone by now, at 1970-01-01 00:00:00."
        );
        let plain = LineageRow { url, ..line() };
        assert_eq!(
            message(&plain),
            "Resubmitted to https://x.example/in at 1970-01-01 00:00:00."
        );
        let edited = LineageRow {
            as_event,
            as_topic: Some("audit".to_owned()),
            ..plain
        };
        assert_eq!(
            message(&edited),
            "Resubmitted to https://x.example/in as the edited event 9 at 1970-01-01 00:00:00."
        );
    }

    #[test]
    fn what_is_new_tells_where_it_comes_from() {
        let line = LineageRow {
            as_event: Some(EventKey(9)),
            ..line()
        };
        let origin = Origin::of_event(&line).to_string();
        assert_eq!(
            words(&origin),
            "Resubmission of delivery 4 of event 3 at 1970-01-01 00:00:00"
        );
        assert!(origin.contains("/admin/events/3#delivery-4"), "{origin}");
        let edited = Origin::new(&line, EventKey(9)).to_string();
        assert_eq!(words(&edited), words(&origin));
        let afresh = Origin::new(&line, EventKey(3)).to_string();
        assert_eq!(
            words(&afresh),
            "Resubmission of delivery 4 at 1970-01-01 00:00:00"
        );
    }
}
