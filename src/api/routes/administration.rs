//! The administration API of Service Bus.

use axum::http::Method;
use serde_json::{Value, json};

use crate::api::routes::bodies::{AtomApiVersion, AtomDocument, AtomPage};
use crate::api::routes::route::{Area, Route, RouteAccess, before_others};
use crate::model::limits::MANAGEMENT_BYTES_MAX;
use crate::wire::service_bus::atom::AtomPath;
use crate::wire::service_bus::description::DescribedKind;

/// The media type of requests and answers.
pub(super) const ATOM: &str = "application/atom+xml";

pub(crate) fn area() -> Area {
    Area {
        name: "Service Bus administration",
        description: "What the administration clients of Azure Service Bus ask: queues, topics, subscriptions and rules \
            as Atom entries. They are the same ones as under `/queues` and `/serviceBusTopics`, and their elements mean \
            what properties of the same name mean there. `api-version` is a year and a month.",
        routes: AtomPath::served()
            .map(|(method, place)| route(&method, &place))
            .collect(),
    }
}

fn route(method: &Method, place: &AtomPath) -> Route {
    let (id, noun) = named(place);
    let begin = |verb: &str, summary: String| {
        let path = format!("/{}", place.path());
        let route = before_others(method.clone(), path, RouteAccess::Manage);
        route.doc(format!("{verb}{id}"), summary)
    };
    match (method, place) {
        (&Method::PUT, _) => begin("put", format!("Create or update {noun}"))
            .says("What the description leaves out has its default.")
            .bytes_max(MANAGEMENT_BYTES_MAX)
            .query::<AtomApiVersion>()
            .header(
                "If-Match",
                "string",
                "`*` updates what is there. Without it, something new is created.",
            )
            .takes_as::<AtomDocument>(ATOM, example(place))
            .answers_as::<AtomDocument>(201, "The entry of what was created.", ATOM)
            .answers_as::<AtomDocument>(200, "The entry of what was updated.", ATOM)
            .rejects(409, "It is there already, or something else is in the way."),
        (&Method::DELETE, _) => begin("delete", format!("Delete {noun}"))
            .says("With all that belongs to it.")
            .query::<AtomApiVersion>()
            .answers_nothing(200, "It is deleted."),
        (
            _,
            AtomPath::Namespace
            | AtomPath::Entity(_)
            | AtomPath::Subscription(..)
            | AtomPath::Rule(..),
        ) => begin("get", format!("Get {noun}"))
            .says("Its description, with counts where it has messages.")
            .query::<AtomApiVersion>()
            .answers_as::<AtomDocument>(200, "The entry.", ATOM),
        (
            _,
            AtomPath::Queues | AtomPath::Topics | AtomPath::Subscriptions(_) | AtomPath::Rules(..),
        ) => begin("list", format!("List {noun}"))
            .says("A feed of entries, with a link to the next page if there is one.")
            .query::<AtomPage>()
            .answers_as::<AtomDocument>(200, "The feed.", ATOM),
    }
}

/// A word for ids, and the words for what is at the place.
fn named(place: &AtomPath) -> (&'static str, &'static str) {
    match place {
        AtomPath::Namespace => ("AtomNamespace", "the namespace"),
        AtomPath::Queues => ("AtomQueues", "queues"),
        AtomPath::Topics => ("AtomTopics", "topics"),
        AtomPath::Entity(_) => ("AtomEntity", "a queue or topic"),
        AtomPath::Subscriptions(_) => ("AtomSubscriptions", "the subscriptions of a topic"),
        AtomPath::Subscription(..) => ("AtomSubscription", "a subscription"),
        AtomPath::Rules(..) => ("AtomRules", "the rules of a subscription"),
        AtomPath::Rule(..) => ("AtomRule", "a rule"),
    }
}

/// An entry that works.
fn example(place: &AtomPath) -> Value {
    let (kind, description) = match place {
        AtomPath::Subscription(..) => (
            DescribedKind::Subscription,
            "<LockDuration>PT30S</LockDuration>",
        ),
        AtomPath::Rule(..) => (
            DescribedKind::Rule,
            "<Filter i:type=\"SqlFilter\" xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\">\
             <SqlExpression>total &gt; 100</SqlExpression></Filter>",
        ),
        AtomPath::Namespace
        | AtomPath::Queues
        | AtomPath::Topics
        | AtomPath::Entity(_)
        | AtomPath::Subscriptions(_)
        | AtomPath::Rules(..) => (
            DescribedKind::Queue,
            "<MaxDeliveryCount>5</MaxDeliveryCount>",
        ),
    };
    let root = kind.root();
    json!(format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\">\
         <{root} xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\">{description}</{root}>\
         </content></entry>"
    ))
}
