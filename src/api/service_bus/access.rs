//! Who is asking: shared access signatures, made with the key of a rule, and bearer tokens (rule S1.1).

use std::sync::Arc;

use axum::extract::Request;

use super::refusal::Refusal;
use crate::api::ApiState;
use crate::api::auth::{Credential, address_of, check_role};
use crate::api::publish::host_of;
use crate::model::access::{KeyName, KeyOwner, KeyRef, Secret};
use crate::model::audit::{Actor, Caller};
use crate::model::name::{AccessRuleName, ENTITY_NAME_CHARACTERS, TopicName, above};
use crate::model::registry::{Registry, TopicEntry};
use crate::model::shared_access::{AccessRule, ROOT_RULE, Right, Rights};
use crate::store::accounts::Role;
use crate::wire::sas::resource_covers;
use crate::wire::service_bus::sas::{Token, TokenError, path_of};

/// What a rule grants to whoever has one of its keys.
pub(in crate::api) struct Grant {
    /// Either will do. Which one it is, is known unless it is the management token.
    pub(in crate::api) keys: Vec<(Secret, Option<KeyRef>)>,
    pub(in crate::api) rights: Rights,
    pub(in crate::api) actor: Actor,
}

impl Grant {
    /// That of the rule of that name for a resource: of [`ROOT_RULE`], whose key is the management token, or of a rule of
    /// the queue or topic, each of which has two from the beginning, its access keys; or else of a rule for all of them.
    pub(in crate::api) fn find(state: &ApiState, name: &str, resource: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case(ROOT_RULE) {
            return Some(Self {
                keys: vec![(state.token.secret(), None)],
                rights: Rights::ALL,
                actor: Actor::ManagementToken,
            });
        }
        let registry = state.broker.registry();
        let topic = entity_of(&registry, resource);
        if let Some(key) = KeyName::ALL
            .into_iter()
            .find(|key| key.name().eq_ignore_ascii_case(name))
        {
            let topic = topic?;
            let owner = KeyOwner::Topic(topic.topic.id);
            let secret = topic.topic.keys.as_ref()?.get(key).clone();
            return Some(Self {
                keys: vec![(secret, Some(KeyRef { owner, key }))],
                rights: Rights::USE,
                actor: Actor::AccessRule(format!("{}/{key}", topic.topic.name)),
            });
        }
        let own = topic.and_then(|topic| {
            let name = AccessRuleName::of(&topic.topic.name, name).ok()?;
            registry.access_rule(&name)
        });
        let for_all = || registry.access_rule(&AccessRuleName::parse(name).ok()?);
        own.or_else(for_all).map(|rule| Self::of(rule))
    }

    fn of(rule: &AccessRule) -> Self {
        let owner = KeyOwner::AccessRule(rule.id);
        let keys = KeyName::ALL.map(|key| {
            let secret = rule.keys.get(key).clone();
            (secret, Some(KeyRef { owner, key }))
        });
        Self {
            keys: keys.into(),
            rights: rule.rights,
            actor: Actor::AccessRule(rule.name.to_string()),
        }
    }

    pub(in crate::api) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.keys.iter().map(|(secret, _)| secret)
    }

    /// Somebody has shown a signature that was made with this one of its keys.
    pub(in crate::api) fn note_use(&self, state: &ApiState, key: usize) {
        if let Some((_, Some(key))) = self.keys.get(key) {
            state.broker.note_key_use(*key);
        }
    }
}

/// The queue or topic that a resource is, or lies in. None is above another.
fn entity_of<'a>(registry: &'a Registry, resource: &str) -> Option<&'a Arc<TopicEntry>> {
    let path = path_of(resource);
    let path = &path[..path.floor_char_boundary(ENTITY_NAME_CHARACTERS.end() + 1)];
    let mut entities = above(path).chain([path]);
    entities.find_map(|name| {
        let topic = registry.topic(&TopicName::parse(name).ok()?)?;
        topic.takes_messages().then_some(topic)
    })
}

/// Who sends the request, if that may do this where its path says.
pub(super) fn authorize(
    state: &ApiState,
    request: &Request,
    right: Right,
) -> Result<Caller, Refusal> {
    let address = address_of(request.extensions());
    match Credential::of(request.headers(), request.uri()) {
        Credential::Bearer(token) => {
            let role = match right {
                Right::Send | Right::Listen => Role::Operator,
                Right::Manage => Role::Admin,
            };
            Ok(check_role(state, &token, address, role)?)
        }
        Credential::Token { token, .. } => {
            let path = request.uri().path();
            Ok(Caller {
                actor: check_token(state, request, token.reveal(), (right, path))?,
                address,
                at: state.broker.clock().now(),
            })
        }
        Credential::Key { .. } | Credential::None => Err(Refusal::unauthorized(
            "The request needs the header Authorization with a SharedAccessSignature, or with \
             Bearer and the management token.",
        )),
    }
}

/// Who has signed a token, if it allows this at that path.
pub(super) fn check_token<B>(
    state: &ApiState,
    request: &http::Request<B>,
    token: &str,
    (right, path): (Right, &str),
) -> Result<Actor, Refusal> {
    let token = Token::parse(token).map_err(|error| explain(&error))?;
    let resource = token.resource().unwrap_or_default();
    let rule = Grant::find(state, token.rule(), &resource).ok_or_else(|| {
        Refusal::unauthorized(format!(
            "There is no shared access rule {:?} for it; the rule for all is {ROOT_RULE}, and its key is the \
             management token.",
            token.rule()
        ))
    })?;
    let now = state.broker.clock().now();
    let granted = token.verify(rule.secrets(), now);
    let granted = granted.map_err(|error| explain(&error))?;
    let resource = granted.resource;
    let host = host_of(request).unwrap_or_default();
    let options = state.broker.options();
    let hosts = [host.as_str(), options.public_host()];
    let covers = |host: &&str| resource_covers(&resource, host, path);
    if !hosts.iter().any(covers) {
        return Err(Refusal::unauthorized(format!(
            "The shared access signature is for {resource:?}, and not for this."
        )));
    }
    if !rule.rights.allow(right) {
        return Err(Refusal::unauthorized(format!(
            "The shared access rule {:?} does not have the right {right:?}, which this takes.",
            token.rule()
        )));
    }
    rule.note_use(state, granted.key);
    Ok(rule.actor)
}

fn explain(error: &TokenError) -> Refusal {
    Refusal::unauthorized(format!(
        "The shared access signature is not valid: {error}."
    ))
}
