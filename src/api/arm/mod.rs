//! Rewrites paths of Azure Resource Manager to the short form that the routes use.
//!
//! `/subscriptions/{s}/resourceGroups/{rg}/providers/Microsoft.EventGrid/topics/…` becomes `/topics/…`, and
//! `…/namespaces/…` becomes `/namespaces/…`. The letter case of fixed words does not matter. `{s}` and `{rg}` have to
//! be configured names of the appliance, if there are any.

pub(super) mod listing;
mod odata;

use axum::Extension;
use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{Extensions, Uri};
use serde_json::Value;

use crate::api::base_url::BaseUrl;
use crate::api::error::ApiError;

/// Fixed path segments, as the routes spell them.
const WORDS: [&str; 17] = [
    "namespaces",
    "topics",
    "topicTypes",
    "eventTypes",
    "locations",
    "operations",
    "eventSubscriptions",
    "operationStatus",
    "listKeys",
    "regenerateKey",
    "getFullUrl",
    "getDeliveryAttributes",
    "validate",
    "pause",
    "resume",
    "explain",
    "tryFilter",
];

const SYSTEM_TOPICS: &str = "publish to a topic of your own; what the appliance itself has to tell comes from its \
     built-in topics everpost-system and dead-letter-storage";
const PARTNERS: &str = "let partners publish to a topic with a key of its own";
const NETWORKS: &str = "use inboundIpRules of the topic or namespace, or a network of your own";
const MQTT: &str = "publish over HTTP to topics of the namespace; MQTT is not spoken here";

/// Resource types that Azure has and the appliance does not, each with an alternative.
const NOT_OFFERED: [(&str, &str); 19] = [
    ("systemTopics", SYSTEM_TOPICS),
    ("extensionTopics", SYSTEM_TOPICS),
    ("domains", "create topics, or a namespace with topics in it"),
    ("partnerTopics", PARTNERS),
    ("partnerNamespaces", PARTNERS),
    ("partnerRegistrations", PARTNERS),
    ("partnerConfigurations", PARTNERS),
    ("partnerDestinations", PARTNERS),
    ("verifiedPartners", PARTNERS),
    ("channels", PARTNERS),
    ("privateEndpointConnections", NETWORKS),
    ("privateLinkResources", NETWORKS),
    ("networkSecurityPerimeterConfigurations", NETWORKS),
    ("clients", MQTT),
    ("clientGroups", MQTT),
    ("permissionBindings", MQTT),
    ("topicSpaces", MQTT),
    ("caCertificates", MQTT),
    (
        "validateCustomDomainOwnership",
        "set public_url to the host that clients use",
    ),
];

/// The subscription and resource group names that the appliance accepts in paths, in any letter case. An empty list
/// accepts any name.
#[derive(Clone, Debug)]
pub struct AzureScope {
    pub subscriptions: Vec<String>,
    pub resource_groups: Vec<String>,
}

/// The parts of a Resource Manager path that the short form does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArmPath {
    subscription: Option<String>,
    resource_group: Option<String>,
    /// Set if the path names the provider a second time, before an event subscription.
    is_older: bool,
    /// The original URI of the request, for links in the response.
    pub(crate) asked: Uri,
}

impl AzureScope {
    /// A scope that accepts any name.
    pub const ANY: Self = Self {
        subscriptions: Vec::new(),
        resource_groups: Vec::new(),
    };

    /// Checks that the appliance accepts the subscription and the resource group of the path. A request without a
    /// Resource Manager path passes.
    pub(super) fn check(&self, extensions: &Extensions) -> Result<(), ApiError> {
        let Some(path) = extensions.get::<ArmPath>() else {
            return Ok(());
        };
        let is_unknown = |names: &[String], name: &str| {
            !names.is_empty() && !names.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        if let Some(name) = &path.subscription
            && is_unknown(&self.subscriptions, name)
        {
            return Err(ApiError::unknown_subscription(name));
        }
        match &path.resource_group {
            Some(name) if is_unknown(&self.resource_groups, name) => {
                Err(ApiError::unknown_resource_group(name))
            }
            _ => Ok(()),
        }
    }
}

/// Rewrites the path of a request to the form of the routes, and stores its other parts as an extension of the request.
pub(super) fn enter(request: &mut Request) -> Result<(), ApiError> {
    let Some((short, path)) = rewritten(request.uri()) else {
        return Ok(());
    };
    let asked = std::mem::replace(request.uri_mut(), short);
    if let Some(path) = path {
        not_offered(request.uri().path())?;
        request.extensions_mut().insert(ArmPath { asked, ..path });
    }
    Ok(())
}

impl ArmPath {
    /// Returns the URL of a child of the requested path, with the same query.
    pub(crate) fn below(&self, base: &BaseUrl, word: &str) -> String {
        let query = self
            .asked
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        format!("{base}{}/{word}{query}", self.asked.path())
    }
}

/// Returns the JSON of an event subscription with its id in the form of the requested path.
pub(super) fn as_asked(arm: Option<&Extension<ArmPath>>, mut shown: Value) -> Value {
    const NESTED: &str = "/eventSubscriptions/";
    let is_older = arm.is_some_and(|Extension(arm)| arm.is_older);
    let id = shown["id"].as_str().filter(|_| is_older);
    if let Some((topic, name)) = id.and_then(|id| id.rsplit_once(NESTED)) {
        shown["id"] = format!("{topic}/providers/Microsoft.EventGrid{NESTED}{name}").into();
    }
    shown
}

/// Rejects operations on resource types that the appliance does not have.
fn not_offered(short: &str) -> Result<(), ApiError> {
    let mut words = short.split('/').skip(1).step_by(2);
    let found = words.find_map(|segment| {
        let mut all = NOT_OFFERED.iter();
        all.find(|(word, _)| word.eq_ignore_ascii_case(segment))
    });
    found.map_or(Ok(()), |(word, instead)| {
        Err(ApiError::not_offered(word, instead))
    })
}

/// Returns the Resource Manager form of a short path, with placeholders in braces for names that are not significant,
/// or `None` if Azure has no such path.
pub(super) fn long_path(short: &str) -> Option<String> {
    let first = short.strip_prefix('/')?.split('/').next()?;
    let before = match first {
        "topics" | "namespaces" | "eventSubscriptions" | "locations" => {
            "/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}"
        }
        "topicTypes" if short.ends_with("/eventSubscriptions") => {
            "/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}"
        }
        "topicTypes" | "operations" => "",
        _ => return None,
    };
    Some(format!("{before}/providers/Microsoft.EventGrid{short}"))
}

/// Rewrites a URI in Resource Manager form, and returns its other parts. Also removes extra slashes at the beginning of
/// the path, which Azure's client for JavaScript sends.
fn rewritten(uri: &Uri) -> Option<(Uri, Option<ArmPath>)> {
    let path = uri.path();
    let single = path.strip_prefix('/')?.trim_start_matches('/');
    let has_more = single.len() + 1 < path.len();
    // Azure's client for Python escapes the slashes of a scope.
    let decoded = single
        .starts_with("%2F")
        .then(|| single.replace("%2F", "/"));
    let scoped = decoded.as_deref().map_or(single, |path| &path[1..]);
    let (short, arm) = match short_path(scoped, uri) {
        Some((short, arm)) => (short, Some(arm)),
        None if has_more => (format!("/{single}"), None),
        None => return None,
    };
    let path_and_query = match uri.query() {
        Some(query) => format!("{short}?{query}"),
        None => short,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path_and_query).ok()?);
    Some((Uri::from_parts(parts).ok()?, arm))
}

fn short_path(path: &str, asked: &Uri) -> Option<(String, ArmPath)> {
    let (first, _) = path.split_once('/')?;
    let is = |word: &str| first.eq_ignore_ascii_case(word);
    if !is("subscriptions") && !is("providers") {
        return None;
    }
    let segments: Vec<&str> = path.split('/').collect();
    let (subscription, rest) = named("subscriptions", &segments);
    let (resource_group, rest) = named("resourceGroups", rest);
    let rest = without_provider(rest)?;
    let mut short = String::new();
    let mut add = |place: usize, segment: &str| {
        short.push('/');
        // Fixed words and names alternate.
        short.push_str(if place.is_multiple_of(2) {
            word(segment)
        } else {
            segment
        });
    };
    let parent = rest.len().min(2);
    // The older path form of an event subscription names the provider a second time.
    let below = without_provider(&rest[parent..]).unwrap_or(&rest[parent..]);
    for (place, segment) in rest[..parent].iter().chain(below).enumerate() {
        add(place, segment);
    }
    let arm = ArmPath {
        subscription: subscription.map(str::to_owned),
        resource_group: resource_group.map(str::to_owned),
        is_older: !below.is_empty() && below.len() < rest[parent..].len(),
        asked: asked.clone(),
    };
    (!short.is_empty()).then_some((short, arm))
}

/// Returns the segment after `word` if the path begins with `word`, and the rest of the path.
fn named<'a, 'b>(word: &str, path: &'a [&'b str]) -> (Option<&'b str>, &'a [&'b str]) {
    match path {
        [first, name, rest @ ..] if first.eq_ignore_ascii_case(word) => (Some(name), rest),
        rest => (None, rest),
    }
}

fn without_provider<'a, 'b>(segments: &'a [&'b str]) -> Option<&'a [&'b str]> {
    match segments {
        [providers, provider, rest @ ..]
            if providers.eq_ignore_ascii_case("providers")
                && provider.eq_ignore_ascii_case("Microsoft.EventGrid") =>
        {
            Some(rest)
        }
        _ => None,
    }
}

fn word(segment: &str) -> &str {
    WORDS
        .into_iter()
        .find(|word| word.eq_ignore_ascii_case(segment))
        .unwrap_or(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, short: Option<&str>) {
        let uri: Uri = path.parse().expect("a path");
        assert_eq!(
            rewritten(&uri).map(|(uri, _)| uri.to_string()).as_deref(),
            short,
            "{path}"
        );
    }

    #[test]
    fn short_paths_become_those_of_resource_manager() {
        for short in [
            "/topics",
            "/namespaces/n/topics/t/eventSubscriptions/s/listSigningSecrets",
        ] {
            let long = long_path(short).expect("a path of Azure's");
            let long = long.replace(['{', '}'], "");
            check(&long, Some(short));
        }
        assert_eq!(long_path("/everpost/events"), None);
    }

    #[test]
    fn more_than_one_slash_in_front_is_one() {
        check("//topics/orders?a=//", Some("/topics/orders?a=//"));
        check("/topics//orders", None);
        check("/", None);
        let long = "//subscriptions/s/providers/Microsoft.EventGrid/topics";
        check(long, Some("/topics"));
    }

    #[test]
    fn resource_manager_paths_become_short() {
        const G: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid";
        check(&format!("{G}/topics"), Some("/topics"));
        check(
            "/subscriptions/s/providers/Microsoft.EventGrid/topics?api-version=1",
            Some("/topics?api-version=1"),
        );
        check(&format!("{G}/topics/orders"), Some("/topics/orders"));
        check(
            &format!("{G}/topics/orders/listKeys"),
            Some("/topics/orders/listKeys"),
        );
        check(
            &format!("{G}/topics/orders/LISTKEYS"),
            Some("/topics/orders/listKeys"),
        );
        check(
            &format!("{G}/topics/o/eventSubscriptions/b"),
            Some("/topics/o/eventSubscriptions/b"),
        );
        check(
            &format!("{G}/topics/o/eventSubscriptions/b/getFullUrl?x=1"),
            Some("/topics/o/eventSubscriptions/b/getFullUrl?x=1"),
        );
        check(
            &format!("{G}/topics/o/providers/Microsoft.EventGrid/eventSubscriptions/Topics"),
            Some("/topics/o/eventSubscriptions/Topics"),
        );
        check(
            "/SUBSCRIPTIONS/s/resourcegroups/g/providers/microsoft.eventgrid/TOPICS/o/eventsubscriptions",
            Some("/topics/o/eventSubscriptions"),
        );
        check(
            &format!("{G}/topics/o/eventSubscriptions/b/EXPLAIN"),
            Some("/topics/o/eventSubscriptions/b/explain"),
        );
        check(
            &format!("{G}/topics/o/tryfilter"),
            Some("/topics/o/tryFilter"),
        );
        check(
            &format!("{G}/Namespaces/shop/Topics/Topics/EVENTSUBSCRIPTIONS/Pause/getfullurl"),
            Some("/namespaces/shop/topics/Topics/eventSubscriptions/Pause/getFullUrl"),
        );
        check(
            &format!("{G}/namespaces/shop/regeneratekey"),
            Some("/namespaces/shop/regenerateKey"),
        );
        check("/topics/orders", None);
        check("/subscriptions", None);
        check(
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/accounts",
            None,
        );
    }
}
