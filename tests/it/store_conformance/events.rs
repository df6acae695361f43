//! Searches in the events.

use everpost::model::event_filter::{DeliveryStage, EventFilter, TextSearch};
use everpost::store::views::SearchProgress;

use super::*;

impl Fixture {
    /// The ids of the events that are meant, newest first, page by page.
    async fn search(&self, filter: EventFilter, limit: usize) -> String {
        let mut query = EventQuery {
            filter,
            before: None,
            limit,
        };
        let mut ids = Vec::new();
        loop {
            let page = self.store.views.events(query.clone()).await;
            let page = page.expect("a page");
            ids.extend(page.rows.into_iter().map(|row| row.id));
            match page.next_before {
                Some(next) => query.before = Some(next),
                None => return ids.join(" "),
            }
        }
    }

    /// Many events at once, whose ids are numbers.
    async fn append_many(&self, events: usize, targets: &[SubscriptionId], data: &str) {
        let events = (0..events).map(|number| {
            let event = Event {
                data: EventData::Json(data.to_owned()),
                ..event(&number.to_string())
            };
            NewEvent::new(event, targets.to_vec())
        });
        let accepted = AppendRequest::new(self.topic, at(500), events.collect());
        self.store
            .ledger
            .append(accepted, drop)
            .await
            .expect("stored");
    }

    async fn first_page(
        &self,
        filter: EventFilter,
    ) -> (usize, Option<EventKey>, Option<SearchProgress>) {
        let query = EventQuery {
            filter,
            before: None,
            limit: 10,
        };
        let page = self.store.views.events(query).await.expect("a page");
        (page.rows.len(), page.next_before, page.progress)
    }
}

fn text(text: &str) -> EventFilter {
    EventFilter {
        text: Some(TextSearch::everywhere(text)),
        ..EventFilter::default()
    }
}

pub(super) async fn events_are_found_by_what_is_known_of_them(f: Fixture) {
    f.publish("plain", &[f.billing], 10).await;
    f.publish("unwanted", &[], 20).await;
    f.publish("dead", &[f.billing, f.audit], 30).await;
    f.publish("twice", &[f.audit], 30).await;
    let billed = ids(&f.lease(f.billing, 40, 9).await);
    f.settle(billed[0], 1, Settlement::Complete, 40).await;
    let reason = DeadLetterReason::TimeToLiveExceeded;
    f.settle(billed[1], 1, Settlement::DeadLetter(reason), 40)
        .await;
    let audited = ids(&f.lease(f.audit, 40, 9).await);
    let retry = Settlement::Retry { at: at(90) };
    f.settle(audited[1], 1, retry, 40).await;

    let all = EventFilter::default;
    let of_state = |state| EventFilter {
        state: Some(state),
        ..all()
    };
    let given = |text: &str| Some(text.to_owned());
    let pending = DeliveryStage::In(DeliveryState::Pending);
    let dead = DeliveryStage::In(DeliveryState::DeadLettered);
    let delivered = DeliveryStage::In(DeliveryState::Delivered);
    let checks = [
        (all(), "twice dead unwanted plain"),
        (
            EventFilter {
                unmatched: true,
                ..all()
            },
            "unwanted",
        ),
        (
            EventFilter {
                topic: Some(TopicId(99)),
                ..all()
            },
            "",
        ),
        (
            EventFilter {
                id: given("dead"),
                ..all()
            },
            "dead",
        ),
        (
            EventFilter {
                event_type: given("Order.*"),
                ..all()
            },
            "twice dead unwanted plain",
        ),
        (
            EventFilter {
                event_type: given("Order"),
                ..all()
            },
            "",
        ),
        (
            EventFilter {
                event_type: given("order.*"),
                ..all()
            },
            "",
        ),
        (
            EventFilter {
                subject: given("/orders/1"),
                ..all()
            },
            "twice dead unwanted plain",
        ),
        (
            EventFilter {
                subject: given("/invoices*"),
                ..all()
            },
            "",
        ),
        (
            EventFilter {
                from: Some(at(20)),
                ..all()
            },
            "twice dead unwanted",
        ),
        (
            EventFilter {
                to: Some(at(30)),
                ..all()
            },
            "unwanted plain",
        ),
        (
            EventFilter {
                from: Some(at(11)),
                to: Some(at(30)),
                ..all()
            },
            "unwanted",
        ),
        (
            EventFilter {
                from: Some(at(31)),
                ..all()
            },
            "",
        ),
        (
            EventFilter {
                to: Some(at(10)),
                ..all()
            },
            "",
        ),
        (
            EventFilter {
                subscription: Some(f.billing),
                ..all()
            },
            "dead plain",
        ),
        (of_state(pending), "twice dead"),
        (of_state(DeliveryStage::Retrying), "twice"),
        (of_state(delivered), "plain"),
        (of_state(dead), "dead"),
        (
            EventFilter {
                subscription: Some(f.audit),
                ..of_state(dead)
            },
            "",
        ),
        (
            EventFilter {
                subscription: Some(f.audit),
                ..of_state(pending)
            },
            "twice dead",
        ),
        (
            EventFilter {
                unmatched: true,
                ..of_state(dead)
            },
            "",
        ),
        (text("PLAIN"), "plain"),
        (text("1.0"), "twice dead unwanted plain"),
        (text("nowhere"), ""),
        (
            EventFilter {
                to: Some(at(30)),
                ..text("orders")
            },
            "unwanted plain",
        ),
    ];
    for (filter, expected) in checks {
        for limit in [1, 9] {
            let found = f.search(filter.clone(), limit).await;
            assert_eq!(found, expected, "{filter:?}, {limit} a page");
        }
    }
}

pub(super) async fn a_search_of_events_says_how_far_it_came(f: Fixture) {
    f.publish("oldest", &[f.billing], 1).await;
    f.append_many(20_000, &[], "{}").await;
    let progress = Some(SearchProgress {
        events: 20_000,
        to: at(500),
    });
    let next = Some(EventKey(2));
    assert_eq!(f.first_page(text("oldest")).await, (0, next, progress));
    assert_eq!(f.search(text("oldest"), 10).await, "oldest");
    let of_billing = EventFilter {
        subscription: Some(f.billing),
        ..EventFilter::default()
    };
    assert_eq!(f.first_page(of_billing.clone()).await, (0, next, progress));
    let pending = EventFilter {
        state: Some(DeliveryStage::In(DeliveryState::Pending)),
        ..of_billing
    };
    assert_eq!(f.first_page(pending).await, (1, None, None), "by an index");
    let early = EventFilter {
        to: Some(at(500)),
        ..text("oldest")
    };
    assert_eq!(
        f.first_page(early).await,
        (1, None, None),
        "not from the newest"
    );
}

pub(super) async fn a_search_in_data_ends_after_so_many_bytes(f: Fixture) {
    let big = format!("\"{}\"", "x".repeat(1 << 20));
    f.append_many(10, &[], &big).await;
    let (found, next, progress) = f.first_page(text("nowhere")).await;
    assert_eq!((found, next), (0, Some(EventKey(3))));
    assert_eq!(progress.map(|each| each.events), Some(8));
}
