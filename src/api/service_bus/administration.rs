//! The administration API of Azure Service Bus (rule S9): the entities of the management API as Atom and XML.

use std::ops::Range;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::form_urlencoded;

use super::error_response::ErrorResponse;
use super::{RequestDenied, authority_of, authorize};
use crate::api::ApiState;
use crate::api::auth::query_value;
use crate::api::authority::{AccessDenied, Authority, Demand};
use crate::api::base_url::BaseUrl;
use crate::api::error::ApiError;
use crate::api::intake::read_body;
use crate::api::manage::messaging::{Entity, Found, queues, rules, show, subscriptions, topics};
use crate::broker::{ManageError, Put};
use crate::model::audit::Caller;
use crate::model::lease::SubQueue;
use crate::model::limits::{ACCESS_RULES_MAX, MANAGEMENT_BYTES_MAX};
use crate::model::name::{AccessRuleName, InvalidName, RuleName, SubscriptionName, TopicName};
use crate::model::queue::{EntityReference, FORWARD_DEAD_LETTERS_PROPERTY, MessageEntity};
use crate::model::rule::Rule;
use crate::model::shared_access::{AccessRuleDefinition, Right};
use crate::model::subscription::EventSubscription;
use crate::wire::resource;
use crate::wire::service_bus::atom::{self, AtomPath, AtomSource, AtomVersion};
use crate::wire::service_bus::description::{
    DescribedKind, Subject, Times, access_rules, first_rule, newer_element, path_in_xml, read,
};
use crate::wire::service_bus::entity::EntityAddress;
use crate::wire::service_bus::xml::Element;

/// The largest number of entries of one page, and the default.
pub(in crate::api) const TOP_MAX: usize = 100;

/// The number of megabytes of which the sizes of queues and topics are multiples in Azure.
const MEGABYTES_STEP: u64 = 1_024;

/// Returns the name of the header with the token for the entity to which `property` forwards.
fn reference_header(property: &str) -> &'static str {
    match property {
        FORWARD_DEAD_LETTERS_PROPERTY => "ServiceBusDlqSupplementaryAuthorization",
        _ => "ServiceBusSupplementaryAuthorization",
    }
}

const ATOM_XML: &str = "application/atom+xml;type=entry;charset=utf-8";
const ATOM_FEED: &str = "application/atom+xml;type=feed;charset=utf-8";

/// Answers requests to the administration API, and passes all other requests on.
pub(in crate::api) async fn intercept(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    if !is_administration(&request) {
        return next.run(request).await;
    }
    if is_connection_test(&request) {
        return public_feed(&state, &request);
    }
    let place = AtomPath::parse(request.uri().path());
    let missing = missing_entity(&state, request.method(), place.as_ref());
    let demand = Demand {
        right: missing.is_none().then_some(Right::Manage),
        topic_or_queue: place.as_ref().and_then(AtomPath::topic_or_queue),
        path: request.uri().path(),
    };
    let by = authorize(&state, &request, demand);
    let denied = |denied| unauthorized(request.method(), place.as_ref(), denied);
    let answer = match (by.map_err(denied), missing) {
        // The entity may have been created since it was looked up. It is not shown, since the right to manage was not
        // checked.
        (Ok(_), Some(path)) => check_sub_queue(request.uri()).and_then(|()| Err(not_there(path))),
        (Ok((authority, by)), None) => Box::pin(answer(&state, authority, by, request)).await,
        (Err(error_response), _) => Err(error_response),
    };
    answer.unwrap_or_else(ErrorResponse::into_response)
}

/// Returns the path of a requested queue or topic that does not exist. Clients with a key for the whole namespace learn
/// this when they send or receive, so they get the answer 404 even without the right to manage, as in Azure.
fn missing_entity<'a>(
    state: &ApiState,
    method: &Method,
    place: Option<&'a AtomPath>,
) -> Option<&'a str> {
    let Some(AtomPath::Entity(path)) = place.filter(|_| *method == Method::GET) else {
        return None;
    };
    let address = place.and_then(AtomPath::address);
    let entity = address.and_then(|address| state.broker.resolve(&address).ok());
    let found = entity.and_then(Found::of);
    let is_there = matches!(found, Some(Found::Queue(_) | Found::Topic(_)));
    (!is_there).then_some(path.as_str())
}

fn not_there(path: &str) -> ErrorResponse {
    let detail = format!("The messaging entity '{path}' could not be found.");
    ErrorResponse::not_found(detail).numbered(40_400)
}

/// Reports whether a request is for the administration API: by its api-version, its signature or a path that only this
/// API has.
pub(super) fn is_administration(request: &Request) -> bool {
    if !matches!(
        *request.method(),
        Method::GET | Method::PUT | Method::DELETE
    ) {
        return false;
    }
    if is_connection_test(request) {
        return true;
    }
    let signed = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    version(request.uri()).is_some()
        || signed.is_some_and(|value| value.starts_with("SharedAccessSignature "))
        || AtomPath::parse(request.uri().path()).is_some_and(|place| place.is_reserved())
}

/// Returns the version of the administration API that a request names, if it names one.
fn version(uri: &Uri) -> Option<AtomVersion> {
    AtomVersion::parse(&query_value(uri, "api-version")?)
}

/// Reports whether a request is a `GET /` that no browser sends. Such requests test whether a namespace exists.
fn is_connection_test(request: &Request) -> bool {
    let accept = request.headers().get(header::ACCEPT);
    let kinds = accept.and_then(|kinds| kinds.to_str().ok());
    let is_browser = kinds.is_some_and(|kinds| kinds.contains("text/html"));
    *request.method() == Method::GET
        && request.uri().path() == "/"
        && (!is_browser || query_value(request.uri(), "api-version").is_some())
}

fn public_feed(state: &ApiState, request: &Request) -> Response {
    let (headers, uri) = (request.headers(), request.uri());
    let base = BaseUrl::of(state, headers, uri, request.extensions());
    let feed = atom::public_feed(&format!("{base}{uri}"), state.broker.clock().now());
    ([(header::CONTENT_TYPE, ATOM_FEED)], feed.to_string()).into_response()
}

/// Returns the error response for a denied request. If a right is missing, the detail begins with the text of Azure,
/// which programs look for.
fn unauthorized(method: &Method, place: Option<&AtomPath>, denied: RequestDenied) -> ErrorResponse {
    if !denied.is_of_rights() {
        return numbered(denied);
    }
    let error_response = ErrorResponse::from(denied);
    let detail = format!("{} {}", lacking(method, place), error_response.detail);
    ErrorResponse {
        detail,
        ..error_response
    }
}

/// Returns Azure's error text for a client without the right to read, write or delete the entity at `place`.
fn lacking(method: &Method, place: Option<&AtomPath>) -> String {
    let (is_list, noun) = match place {
        Some(AtomPath::Namespace | AtomPath::Queues | AtomPath::Topics | AtomPath::Entity(_))
        | None => {
            return lacking_of_entities(method).to_owned();
        }
        Some(AtomPath::Subscriptions(_)) => (true, "Subscription"),
        Some(AtomPath::Subscription(..)) => (false, "Subscription"),
        Some(AtomPath::Rules(..)) => (true, "Rule"),
        Some(AtomPath::Rule(..)) => (false, "Rule"),
    };
    let operation = match *method {
        Method::GET if is_list => format!("Enumerate{noun}s"),
        Method::GET => format!("Get{noun}"),
        Method::DELETE => format!("Delete{noun}"),
        _ => format!("CreateOrUpdate{noun}"),
    };
    format!("401 SubCode=40100: Unauthorized : Unauthorized access for '{operation}' operation.")
}

/// Returns Azure's error text for a client without the right to read, write or delete queues and topics.
fn lacking_of_entities(method: &Method) -> &'static str {
    match *method {
        Method::GET => "Manage,EntityRead claims required for this operation.",
        Method::DELETE => "Authorization failed for specified action: Manage,EntityDelete.",
        _ => "Authorization failed for specified action: Manage,EntityWrite.",
    }
}

/// Returns the error response for a denied request, with Azure's sub-code before the reason.
fn numbered(denied: RequestDenied) -> ErrorResponse {
    let is_of_signature = matches!(
        denied,
        RequestDenied::Access(
            AccessDenied::Token(_) | AccessDenied::Resource(_) | AccessDenied::WrongKey(_)
        )
    );
    let error_response = ErrorResponse::from(denied);
    if is_of_signature {
        let detail = format!("SubCode=40103: {}", error_response.detail);
        return ErrorResponse {
            detail,
            ..error_response
        };
    }
    error_response.numbered(40_100)
}

async fn answer(
    state: &ApiState,
    authority: Authority,
    by: Caller,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let (parts, body) = request.into_parts();
    let request = http::Request::from_parts(parts, ());
    let (method, uri) = (request.method(), request.uri());
    check_sub_queue(uri)?;
    let place = AtomPath::parse(uri.path()).ok_or_else(|| no_place(method, uri))?;
    let is_update = request.headers().contains_key(header::IF_MATCH);
    let base = BaseUrl::of(state, request.headers(), uri, request.extensions());
    let call = AdministrationCall {
        state,
        base,
        authority,
        by,
        place,
        request: &request,
    };
    match *method {
        Method::GET => {
            drop(body); // nobody reads it
            call.get(uri).await
        }
        Method::DELETE => {
            drop(body); // nor this one
            call.delete().await
        }
        _ => {
            let body = read_body(body, MANAGEMENT_BYTES_MAX).await.map_err(|why| {
                let detail = format!("The body has more than {MANAGEMENT_BYTES_MAX} bytes.");
                ErrorResponse::of_body(
                    why,
                    ErrorResponse::new(StatusCode::PAYLOAD_TOO_LARGE, detail),
                )
            })?;
            call.put(&body, if is_update { Put::Update } else { Put::Create })
                .await
        }
    }
}

/// Rejects a request for a sub-queue: a sub-queue exists together with its entity and has no description.
fn check_sub_queue(uri: &Uri) -> Result<(), ErrorResponse> {
    let path = percent_decode_str(uri.path()).decode_utf8_lossy();
    match EntityAddress::of_parts(path.split('/')) {
        Some(address) if address.sub_queue != SubQueue::Active => {
            let count = if address.is_transfer {
                "TransferDeadLetterMessageCount"
            } else {
                "DeadLetterMessageCount"
            };
            let detail = format!(
                "'{address}' cannot be managed: it goes with '{}', whose {count} counts what is in it.",
                address.path()
            );
            Err(ErrorResponse::bad_request(detail).numbered(40_000))
        }
        Some(_) | None => Ok(()),
    }
}

fn no_place(method: &Method, uri: &Uri) -> ErrorResponse {
    ErrorResponse::not_found(format!("There is nothing at {method} {}.", uri.path()))
        .numbered(40_400)
}

struct AdministrationCall<'a> {
    state: &'a ApiState,
    base: BaseUrl,
    authority: Authority,
    by: Caller,
    place: AtomPath,
    /// The request without its body.
    request: &'a http::Request<()>,
}

impl AdministrationCall<'_> {
    async fn get(&self, uri: &Uri) -> Result<Response, ErrorResponse> {
        let all = match &self.place {
            AtomPath::Namespace => return Ok(self.namespace()),
            AtomPath::Queues => Ok(queues(self.state)),
            AtomPath::Topics => Ok(topics(self.state)),
            AtomPath::Subscriptions(topic) => subscriptions(self.state, topic),
            AtomPath::Rules(topic, name) => rules(self.state, topic, name),
            AtomPath::Entity(_) | AtomPath::Subscription(..) | AtomPath::Rule(..) => {
                let found = self.find()?;
                return self.entry(StatusCode::OK, found).await;
            }
        };
        let mut all_entries = all.map_err(ErrorResponse::of_administration)?;
        let page = EntryRange::of(uri)?;
        let more = (page.range.end < all_entries.len()).then(|| page.query(page.range.end));
        let found: Vec<Found> = all_entries
            .drain(page.range.start.min(all_entries.len())..page.range.end.min(all_entries.len()))
            .collect();
        let shown = self.show(&found).await?;
        let source = self.source();
        let each = found.iter().zip(&shown);
        let entries = each
            .map(|(found, shown)| source.entry_of_list(&self.place, &self.subject(found, shown)));
        let asked = page.query(page.range.start);
        let feed = source.feed(&self.place, entries.collect(), &asked, more.as_deref());
        let kind = (header::CONTENT_TYPE, ATOM_FEED);
        Ok(([kind], feed.to_string()).into_response())
    }

    async fn put(&self, body: &Bytes, put: Put) -> Result<Response, ErrorResponse> {
        let body = std::str::from_utf8(body)
            .map_err(|_| ErrorResponse::bad_request("The body is not UTF-8.").numbered(40_000))?;
        let (kind, description) = atom::read(body)
            .map_err(|error| ErrorResponse::bad_request(error.to_string()).numbered(40_000))?;
        let entity = self
            .entity(kind)
            .map_err(ErrorResponse::of_administration)?;
        let first = first_rule(&description).map(|(name, rule)| {
            let name = RuleName::parse(&name)?;
            Ok::<_, ApiError>(resource::parse_rule(name, &rule)?)
        });
        let first = first
            .unwrap_or_else(|| Ok(Rule::default_rule()))
            .map_err(in_xml)?;
        let document = read(kind, &description);
        if kind.has_access_rules() {
            self.check_version(&description)?;
            self.check_size(&entity, &document)?;
        }
        self.check_forwarding(&entity, &document)?;
        let access = access_rules(&description)
            .filter(|_| kind.has_access_rules())
            .map(|rules| self.read_access_rules(rules))
            .transpose()
            .map_err(in_xml)?;
        let defined = entity.define(self.state, &self.by, &document, first, put);
        let mut found = defined.await.map_err(in_xml)?;
        if let (Some(rules), Entity::Queue(name) | Entity::Topic(name)) = (access, &entity) {
            let set = self.state.broker.set_access_rules(&self.by, name, rules);
            set.await.map_err(|error| in_xml(error.into()))?;
            found = entity.find(self.state).map_err(in_xml)?;
        }
        let status = match put {
            Put::Create => StatusCode::CREATED,
            Put::Update | Put::CreateOrUpdate => StatusCode::OK,
        };
        self.entry(status, found).await
    }

    async fn delete(&self) -> Result<Response, ErrorResponse> {
        let entity = entity_of(&self.find()?);
        let delete = entity.delete(self.state, &self.by);
        delete.await.map_err(ErrorResponse::of_administration)?;
        Ok(StatusCode::OK.into_response())
    }

    /// Reads the access rules of the entity at this place. Keys that are not given keep their values. Access rules are
    /// read before the entity is stored, so that invalid ones change nothing.
    fn read_access_rules(
        &self,
        rules: Vec<(String, Value)>,
    ) -> Result<Vec<(AccessRuleName, AccessRuleDefinition)>, ApiError> {
        if rules.len() > ACCESS_RULES_MAX {
            return Err(ManageError::TooManyAccessRules.into());
        }
        let registry = self.state.broker.registry();
        let entity = TopicName::of_service_bus(&self.place.path())?;
        let read = rules.into_iter().map(|(own, body)| {
            let name = AccessRuleName::of(&entity, &own)?;
            let known = registry.access_rule(&name).map(|known| &**known);
            let definition = resource::parse_access_rule(&body, known);
            Ok((
                name,
                definition.map_err(|fault| fault.inside("authorizationRules"))?,
            ))
        });
        read.collect()
    }

    /// Checks the targets of forwarding. A client whose key is for one entity only must show a token with the right to
    /// send to each target, in a header.
    fn check_forwarding(&self, entity: &Entity, document: &Value) -> Result<(), ErrorResponse> {
        if !self.authority.is_of_entity() {
            return Ok(());
        }
        let receiving = entity.receiving(document).map_err(in_xml)?;
        for EntityReference { property, to } in receiving.references() {
            let name = reference_header(property);
            let path = to.as_str();
            let value = self.request.headers().get(name);
            let token = value
                .and_then(|value| value.to_str().ok())
                .and_then(|text| text.strip_prefix("SharedAccessSignature "));
            let missing = || {
                let detail = format!("To forward to /{path}, the request needs the header {name}.");
                RequestDenied::Other(ErrorResponse::unauthorized(detail))
            };
            let checked = token.ok_or_else(missing).and_then(|token| {
                let authority = authority_of(self.state, self.request, token)?;
                let demand = Demand {
                    right: Some(Right::Send),
                    topic_or_queue: Some(path),
                    path,
                };
                let now = self.state.broker.clock().now();
                Ok(authority.check(demand, now)?)
            });
            checked.map_err(numbered)?;
        }
        Ok(())
    }

    /// Rejects an element that the version of the request does not have.
    fn check_version(&self, description: &Element) -> Result<(), ErrorResponse> {
        let newer = newer_element(description, version(self.request.uri()));
        newer.map_or(Ok(()), |(name, first)| {
            let detail =
                format!("The property '{name}' needs the api-version {first} or a later one.");
            Err(ErrorResponse::bad_request(detail).numbered(40_000))
        })
    }

    /// Rejects a size that Azure does not offer, unless the entity has this size already: an update repeats the size.
    fn check_size(&self, entity: &Entity, document: &Value) -> Result<(), ErrorResponse> {
        let Some(asked) = document["properties"]["maxSizeInMegabytes"].as_u64() else {
            return Ok(());
        };
        let now = match entity.find(self.state).ok() {
            Some(Found::Queue((topic, _)) | Found::Topic(topic)) => {
                let sending = topic.topic.kind.sending();
                sending.map(|sending| u64::from(sending.megabytes_max))
            }
            Some(Found::Subscription(_) | Found::Rule(..)) | None => None,
        };
        if asked.is_multiple_of(MEGABYTES_STEP) || now == Some(asked) {
            return Ok(());
        }
        let detail = format!(
            "The specified value {asked} is invalid. The property 'MaxSizeInMegabytes' must be one of the \
             following values: 1024;2048;3072;4096;5120, or another multiple of {MEGABYTES_STEP}."
        );
        Err(ErrorResponse::bad_request(detail).numbered(40_000))
    }

    fn subject<'a>(&self, found: &Found, shown: &'a Value) -> Subject<'a> {
        let broker = &self.state.broker;
        let access_rules = match found {
            Found::Queue((topic, _)) | Found::Topic(topic) => {
                let registry = broker.registry();
                let rules = registry.access_rules_of(Some(&topic.topic.name));
                rules.cloned().collect()
            }
            Found::Subscription(_) | Found::Rule(..) => Vec::new(),
        };
        let last_use = |own: &EventSubscription| broker.last_use(MessageEntity::Queue(own.id));
        let times = match found {
            Found::Queue((topic, own)) => Times {
                created_at: topic.topic.created_at,
                updated_at: own.updated_at,
                used_at: last_use(own),
            },
            Found::Topic(topic) => Times {
                created_at: topic.topic.created_at,
                updated_at: topic.topic.updated_at,
                used_at: broker.last_use(MessageEntity::Topic(topic.topic.id)),
            },
            Found::Subscription((_, own)) => Times {
                created_at: own.created_at,
                updated_at: own.updated_at,
                used_at: last_use(own),
            },
            Found::Rule((_, own), rule) => Times {
                created_at: rule.created_at.unwrap_or(own.created_at),
                updated_at: own.updated_at,
                used_at: None,
            },
        };
        Subject {
            kind: kind_of(found),
            shown,
            access_rules,
            times,
        }
    }

    /// Returns the entity or rule at this place.
    fn find(&self) -> Result<Found, ErrorResponse> {
        let broker = &self.state.broker;
        let address = self.place.address();
        let entity = address.and_then(|address| broker.resolve(&address).ok());
        let named = entity.and_then(Found::of);
        let found = match &self.place {
            AtomPath::Entity(_) => {
                named.filter(|found| matches!(found, Found::Queue(_) | Found::Topic(_)))
            }
            AtomPath::Subscription(..) => {
                named.filter(|found| matches!(found, Found::Subscription(_)))
            }
            AtomPath::Rule(_, _, name) => named.and_then(|of| self.find_rule(of, name)),
            AtomPath::Namespace
            | AtomPath::Queues
            | AtomPath::Topics
            | AtomPath::Subscriptions(_)
            | AtomPath::Rules(..) => None,
        };
        found.ok_or_else(|| not_there(&self.place.path()))
    }

    fn find_rule(&self, of: Found, name: &str) -> Option<Found> {
        let Found::Subscription(of) = of else {
            return None;
        };
        let name = RuleName::parse(name).ok()?;
        let rule = self.state.broker.rule(&of, &name).ok()?;
        Some(Found::Rule(of, rule))
    }

    /// Returns the entity that a description of `kind` describes at this place.
    fn entity(&self, kind: DescribedKind) -> Result<Entity, ApiError> {
        let named = match (&self.place, kind) {
            (AtomPath::Entity(name), DescribedKind::Queue) => {
                TopicName::of_service_bus(name).map(Entity::Queue)
            }
            (AtomPath::Entity(name), DescribedKind::Topic) => {
                TopicName::of_service_bus(name).map(Entity::Topic)
            }
            (AtomPath::Subscription(topic, name), DescribedKind::Subscription) => {
                subscription(topic, name).map(|(topic, name)| Entity::Subscription(topic, name))
            }
            (AtomPath::Rule(topic, name, rule), DescribedKind::Rule) => {
                let of = subscription(topic, name);
                of.and_then(|(topic, name)| Ok(Entity::Rule(topic, name, RuleName::parse(rule)?)))
            }
            (place, kind) => {
                let (path, root) = (place.path(), kind.root());
                let problem = format!("What is at '{path}' is not described by a {root}.");
                return Err(ApiError::bad_request(problem));
            }
        };
        Ok(named?)
    }

    async fn entry(&self, status: StatusCode, found: Found) -> Result<Response, ErrorResponse> {
        let all = self.show(std::slice::from_ref(&found)).await?;
        let shown = all.into_iter().next().unwrap_or_default();
        let entry = self.source().entry(&self.subject(&found, &shown));
        let kind = (header::CONTENT_TYPE, ATOM_XML);
        Ok((status, [kind], entry.to_string()).into_response())
    }

    fn namespace(&self) -> Response {
        let broker = &self.state.broker;
        let registry = broker.registry();
        let created = registry.topics().map(|topic| topic.topic.created_at).min();
        let tier = broker.options().service_bus_tier;
        let entry = self.source().namespace(created.unwrap_or(self.by.at), tier);
        ([(header::CONTENT_TYPE, ATOM_XML)], entry.to_string()).into_response()
    }

    async fn show(&self, found: &[Found]) -> Result<Vec<Value>, ErrorResponse> {
        let shown = show(self.state, found).await;
        shown.map_err(ErrorResponse::of_administration)
    }

    fn source(&self) -> AtomSource<'_> {
        AtomSource {
            url: self.base.as_ref(),
            host: self.base.host(),
            asked: self.request.uri(),
            version: version(self.request.uri()),
            now: self.by.at,
        }
    }
}

fn subscription(topic: &str, name: &str) -> Result<(TopicName, SubscriptionName), InvalidName> {
    let name = SubscriptionName::of_service_bus(name)?;
    Ok((TopicName::of_service_bus(topic)?, name))
}

/// Returns an error response that names properties by their names in XML.
fn in_xml(mut error: ApiError) -> ErrorResponse {
    for path in error.paths() {
        error.explanation = error.explanation.replace(&path, &path_in_xml(&path));
    }
    ErrorResponse::of_administration(error)
}

fn kind_of(found: &Found) -> DescribedKind {
    match found {
        Found::Queue(_) => DescribedKind::Queue,
        Found::Topic(_) => DescribedKind::Topic,
        Found::Subscription(_) => DescribedKind::Subscription,
        Found::Rule(..) => DescribedKind::Rule,
    }
}

fn entity_of(found: &Found) -> Entity {
    match found {
        Found::Queue((topic, _)) => Entity::Queue(topic.topic.name.clone()),
        Found::Topic(topic) => Entity::Topic(topic.topic.name.clone()),
        Found::Subscription((topic, own)) => {
            Entity::Subscription(topic.topic.name.clone(), own.name.clone())
        }
        Found::Rule((topic, own), rule) => {
            let (topic, own) = (topic.topic.name.clone(), own.name.clone());
            Entity::Rule(topic, own, rule.name.clone())
        }
    }
}

/// The range of entries that a request for a list asks for.
struct EntryRange {
    range: Range<usize>,
    version: Option<String>,
}

impl EntryRange {
    fn of(uri: &Uri) -> Result<Self, ErrorResponse> {
        let number = |name: &str| match query_value(uri, name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                let detail = format!("The parameter {name} must be a number, not {text:?}.");
                ErrorResponse::bad_request(detail).numbered(40_000)
            }),
        };
        let skip: usize = number("$skip")?.unwrap_or(0);
        let top = number("$top")?.unwrap_or(TOP_MAX).min(TOP_MAX);
        Ok(Self {
            range: skip..skip.saturating_add(top),
            version: query_value(uri, "api-version"),
        })
    }

    /// Returns the query of the page that begins at `skip`.
    fn query(&self, skip: usize) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query
            .append_pair("$skip", &skip.to_string())
            .append_pair("$top", &self.range.len().to_string());
        if let Some(version) = &self.version {
            query.append_pair("api-version", version);
        }
        query.finish()
    }
}
