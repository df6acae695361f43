//! The list of all event subscriptions, and of those among them that fit a filter.

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;

use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;
use crate::admin::frame::Frame;
use crate::admin::lists::filter_form::FilterForm;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::last_day::SubscriptionDays;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::subscriptions::state::{WORDS, word};
use crate::admin::pages::subscriptions::{SubscriptionRow, SubscriptionTable, bulk};
use crate::admin::pages::topics;
use crate::admin::paths::topic_page;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Empty;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::subscription::{EventSubscription, SubscriptionStatus};

pub(crate) const PATH: &str = "/admin/subscriptions";

/// Stands for every state but the good one.
const NOT_ACTIVE: &str = "not active";

/// What the URL asks for; nothing asks for all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    /// In the name of the subscription or its topic.
    text: String,
    /// In our words.
    state: String,
    label: String,
}

#[derive(Template)]
#[template(path = "admin/subscriptions.html")]
struct SubscriptionsPage {
    frame: Frame,
    /// Of which a new one is made.
    topic: Field,
    /// `None` where there is nothing to choose among.
    filters: Option<FilterForm>,
    marked_max: usize,
    table: SubscriptionTable,
    recipe: Recipe,
}

/// All event subscriptions, or those that fit.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let registry = site.broker.registry();
    let depths = QueueDepths::of_all(&site, &registry).await?;
    let days = SubscriptionDays::read(&site, None, visitor.now).await?;
    let fitting = registry.subscriptions().filter(|(topic, each)| {
        asked.fits(
            topic,
            each,
            each.standing(&depths.health(each.id), visitor.now),
        )
    });
    let rows: Vec<_> = fitting
        .map(|(topic, each)| SubscriptionRow::new(topic, each, (&depths, &days), visitor.now))
        .collect();
    let frame = Frame::new(&visitor, "Event subscriptions");
    Ok(draw(&SubscriptionsPage {
        topic: topics::choice("New event subscription of", registry.topics()),
        filters: registry.subscriptions().next().map(|_| {
            let fields = asked.fields(&registry);
            FilterForm::new(PATH, fields, &asked.filters())
        }),
        marked_max: bulk::MARKED_MAX,
        table: SubscriptionTable {
            with_topic: true,
            with_marks: frame.opens(bulk::PAUSE) && !rows.is_empty(),
            rows,
            empty: empty(&asked, &registry, &visitor),
        },
        recipe: Recipe::everpost_alone("everpost subscriptions list"),
        frame,
    }))
}

impl Asked {
    fn filters(&self) -> [(&'static str, String); 3] {
        [
            ("text", self.text.clone()),
            ("state", self.state.clone()),
            ("label", self.label.clone()),
        ]
    }

    fn is_filtered(&self) -> bool {
        let filters = self.filters();
        filters.iter().any(|(_, value)| !value.trim().is_empty())
    }

    fn fits(
        &self,
        topic: &TopicEntry,
        each: &EventSubscription,
        standing: SubscriptionStatus,
    ) -> bool {
        let name = format!("{}/{}", topic.topic.name, each.name).to_lowercase();
        let state = match self.state.as_str() {
            "" => true,
            NOT_ACTIVE => standing != SubscriptionStatus::Active,
            state => word(standing).eq_ignore_ascii_case(state),
        };
        let has_label = self.label.is_empty() || each.definition.labels.contains(&self.label);
        state && has_label && name.contains(&self.text.trim().to_lowercase())
    }

    fn fields(&self, registry: &Registry) -> Vec<Field> {
        let form = Form::of(self.filters());
        let mut states = vec![("", "All states"), (NOT_ACTIVE, "All but active")];
        states.extend(WORDS.map(|word| (word, word)));
        let text = Field::line("text", "Text", &form).hint("In the name, or in that of the topic.");
        let mut fields = vec![text, Field::choice("state", "State", &states, &form)];
        let labels = registry
            .subscriptions()
            .flat_map(|(_, each)| &each.definition.labels);
        let labels: BTreeSet<&str> = labels.map(String::as_str).collect();
        if !labels.is_empty() {
            let options = labels.into_iter().map(|label| (label, label));
            let options: Vec<_> = [("", "All labels")].into_iter().chain(options).collect();
            fields.push(Field::choice("label", "Label", &options, &form));
        }
        fields
    }
}

fn empty(asked: &Asked, registry: &Registry, visitor: &Visitor) -> Empty {
    if asked.is_filtered() && registry.subscriptions().next().is_some() {
        return Empty {
            text: "No event subscription fits.",
            step: Some((PATH.to_owned(), "Show all")),
        };
    }
    match registry.made_topics().next() {
        None => Empty {
            text: "There are no event subscriptions, and no topics to subscribe to.",
            step: visitor.step("/admin/new-topic", "Create a topic"),
        },
        Some(_) => Empty {
            text: "There are no event subscriptions yet. One sends the events of a topic to a \
                   webhook, or keeps them for receivers to come for.",
            step: None,
        },
    }
}

#[derive(Deserialize)]
pub(crate) struct ChosenTopic {
    #[serde(default)]
    topic: String,
}

/// Leads from the choice of a topic to the form for a subscription of it.
pub(crate) async fn choose_topic(
    State(site): State<Arc<Site>>,
    Query(ChosenTopic { topic }): Query<ChosenTopic>,
) -> PageResult {
    let topic = site.topic(&topic)?;
    let page = topic_page(topic.topic.name.as_str());
    Ok(Redirect::to(&format!("{page}/new-subscription")).into_response())
}
