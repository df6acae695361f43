//! What lists show of the last 24 hours beside each row: a small drawing that also says itself in words.

use std::collections::HashMap;

use askama::Template;

use crate::admin::site::Site;
use crate::admin::widgets::chart::{Canvas, Shape, share_of};
use crate::admin::widgets::part;
use crate::admin::widgets::print;
use crate::base::Timestamp;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::StoreError;
use crate::store::views::{HOURS, SubscriptionDay, TopicDay};

/// Four units for each hour.
const CANVAS: Canvas = Canvas {
    width: 96,
    height: 24,
};

/// Where bars of what succeeded stand on, and those of what failed hang from: between them shows the page.
const MIDDLE: f64 = 0.5;
const BELOW_MIDDLE: f64 = 0.46;

/// The last day of every topic.
pub(crate) struct TopicDays {
    days: HashMap<TopicId, TopicDay>,
    now: Timestamp,
}

impl TopicDays {
    pub(crate) async fn read(site: &Site, now: Timestamp) -> Result<Self, StoreError> {
        let days = site.views.topic_days(now).await?;
        Ok(Self { days, now })
    }

    /// The events of a topic by the hour.
    pub(crate) fn spark(&self, topic: TopicId) -> Spark {
        Spark::of_events(&self.day(topic))
    }

    /// How long ago its newest event came; a dash where none is known of.
    pub(crate) fn last_event(&self, topic: TopicId) -> String {
        let at = self.day(topic).last_event_at;
        at.map_or_else(|| "–".to_owned(), |at| print::roughly_ago(at, self.now))
    }

    fn day(&self, topic: TopicId) -> TopicDay {
        self.days.get(&topic).copied().unwrap_or_default()
    }
}

/// The last day of event subscriptions.
pub(crate) struct SubscriptionDays(HashMap<SubscriptionId, SubscriptionDay>);

impl SubscriptionDays {
    /// Of all of them, or of those of one topic.
    pub(crate) async fn read(
        site: &Site,
        of: Option<TopicId>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        Ok(Self(site.views.subscription_days(of, now).await?))
    }

    /// The deliveries of one and its attempts that failed, by the hour.
    pub(crate) fn spark(&self, subscription: SubscriptionId) -> Spark {
        let day = self.0.get(&subscription).copied().unwrap_or_default();
        Spark::of_attempts(&day)
    }
}

/// The drawing with its words.
#[derive(Clone, Debug, Template)]
#[template(path = "admin/parts/spark.html")]
pub(crate) struct Spark {
    /// Empty where nothing happened.
    shapes: Vec<Shape>,
    said: String,
    figure: String,
}

part!(Spark);

impl Spark {
    fn of_events(day: &TopicDay) -> Self {
        let (sum, most) = (day.published.iter().sum(), peak(&day.published));
        let bars = day.published.map(|count| (0.0, share_of(count, most)));
        Self::new(
            vec![Shape {
                class: "published",
                path: CANVAS.bars(&bars),
            }],
            format!(
                "Last 24 hours: {}, at most {} in an hour.",
                print::plural(sum, "event", "events"),
                print::count(most)
            ),
            print::count(sum),
        )
    }

    /// Deliveries stand above the middle, and attempts that failed hang below it.
    fn of_attempts(day: &SubscriptionDay) -> Self {
        let failed: [u64; HOURS] =
            std::array::from_fn(|hour| day.attempts[hour].saturating_sub(day.delivered[hour]));
        let most = peak(&day.delivered).max(peak(&failed));
        let above = day.delivered.map(|count| {
            let share = share_of(count, most) * (1.0 - MIDDLE);
            (MIDDLE, MIDDLE + share)
        });
        let below = failed.map(|count| {
            let share = share_of(count, most) * BELOW_MIDDLE;
            (BELOW_MIDDLE - share, BELOW_MIDDLE)
        });
        let (delivered, failed): (u64, u64) = (day.delivered.iter().sum(), failed.iter().sum());
        Self::new(
            vec![
                Shape {
                    class: "delivered",
                    path: CANVAS.bars(&above),
                },
                Shape {
                    class: "failed",
                    path: CANVAS.bars(&below),
                },
            ],
            format!(
                "Last 24 hours: {} delivered, {} failed.",
                print::count(delivered),
                print::plural(failed, "attempt", "attempts")
            ),
            print::share(delivered, delivered + failed),
        )
    }

    fn new(shapes: Vec<Shape>, said: String, figure: String) -> Self {
        let is_drawn = |shape: &Shape| !shape.path.is_empty();
        Self {
            shapes: shapes.into_iter().filter(is_drawn).collect(),
            said,
            figure,
        }
    }
}

fn peak(hours: &[u64]) -> u64 {
    hours.iter().copied().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_stand_by_the_hour() {
        let mut day = TopicDay::default();
        day.published[0] = 4;
        day.published[HOURS - 1] = 1;
        let spark = Spark::of_events(&day);
        assert_eq!(spark.said, "Last 24 hours: 5 events, at most 4 in an hour.");
        assert_eq!(spark.figure, "5");
        assert_eq!(spark.shapes.len(), 1);
        assert_eq!(
            spark.shapes[0].path,
            "M0.4 24V0H3.6V24ZM92.4 24V18H95.6V24Z"
        );
    }

    #[test]
    fn what_failed_hangs_below_what_was_delivered() {
        let mut day = SubscriptionDay::default();
        day.delivered[0] = 3;
        day.attempts[0] = 4;
        day.attempts[1] = 6;
        day.delivered[2] = 1; // its attempt began the hour before
        let spark = Spark::of_attempts(&day);
        assert_eq!(spark.said, "Last 24 hours: 4 delivered, 7 attempts failed.");
        assert_eq!(spark.figure, "36.4 %");
        let classes: Vec<_> = spark.shapes.iter().map(|shape| shape.class).collect();
        assert_eq!(classes, ["delivered", "failed"]);
        assert!(
            spark.shapes[0].path.starts_with("M0.4 12V6H3.6V12Z"),
            "{spark:?}"
        );
        assert!(
            spark.shapes[1].path.ends_with("M4.4 24V13H7.6V24Z"),
            "{spark:?}"
        );
    }

    #[test]
    fn a_day_without_anything_is_said_and_not_drawn() {
        let spark = Spark::of_attempts(&SubscriptionDay::default()).to_string();
        assert!(
            spark.contains("nothing") && !spark.contains("<svg"),
            "{spark}"
        );
    }
}
