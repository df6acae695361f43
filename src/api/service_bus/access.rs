//! Who is asking: shared access signatures, made with the key of a rule, and bearer tokens (rule S1.1).

use axum::extract::Request;

use super::refusal::Refusal;
use crate::api::ApiState;
use crate::api::auth::{Credential, address_of, check_role};
use crate::api::publish::host_of;
use crate::model::access::{KeyName, KeyOwner, KeyRef, Secret};
use crate::model::audit::{Actor, Caller};
use crate::model::name::{ENTITY_NAME_CHARACTERS, TopicName, above};
use crate::model::shared_access::{Right, Rights};
use crate::store::accounts::Role;
use crate::wire::sas::resource_covers;
use crate::wire::service_bus::sas::{RULE, Token, TokenError, path_of};

/// A rule: its key and what it allows.
pub(in crate::api) struct AccessRule {
    pub(in crate::api) key: Secret,
    pub(in crate::api) rights: Rights,
    /// Which key it is, unless it is the management token.
    of: Option<KeyRef>,
}

impl AccessRule {
    /// The rule of that name for a resource. That for all has the management token as its key; each queue and each Service
    /// Bus topic has two rules of its own, its access keys.
    pub(in crate::api) fn find(state: &ApiState, name: &str, resource: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case(RULE) {
            return Some(Self {
                key: state.token.secret(),
                rights: Rights::ALL,
                of: None,
            });
        }
        let mut names = KeyName::ALL.into_iter();
        let key = names.find(|key| key.name().eq_ignore_ascii_case(name))?;
        // No queue or topic is above another.
        let path = path_of(resource);
        let path = &path[..path.floor_char_boundary(ENTITY_NAME_CHARACTERS.end() + 1)];
        let mut entities = above(path).chain([path]);
        let entity = |name: &str| {
            let topic = state.broker.topic(&TopicName::parse(name).ok()?).ok()?;
            let has_rules = topic.queue().is_some() || topic.is_service_bus();
            has_rules.then_some(topic)
        };
        let topic = entities.find_map(entity)?;
        let owner = KeyOwner::Topic(topic.topic.id);
        Some(Self {
            key: topic.topic.keys.as_ref()?.get(key).clone(),
            rights: Rights::USE,
            of: Some(KeyRef { owner, key }),
        })
    }

    /// Somebody has shown a signature that was made with it.
    pub(in crate::api) fn note_use(&self, state: &ApiState) {
        if let Some(key) = self.of {
            state.broker.note_key_use(key);
        }
    }
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
            let token = Token::parse(token.reveal()).map_err(|error| explain(&error))?;
            check_token(state, request, &token, right)?;
            Ok(Caller {
                actor: Actor::ManagementToken, // its signature was made with it
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

fn check_token(
    state: &ApiState,
    request: &Request,
    token: &Token<'_>,
    right: Right,
) -> Result<(), Refusal> {
    let resource = token.resource().unwrap_or_default();
    let rule = AccessRule::find(state, token.rule(), &resource).ok_or_else(|| {
        Refusal::unauthorized(format!(
            "There is no shared access rule {:?} for it; the rule for all is {RULE}, and its key is the \
             management token.",
            token.rule()
        ))
    })?;
    let now = state.broker.clock().now();
    let (resource, _) = token
        .verify(&rule.key, now)
        .map_err(|error| explain(&error))?;
    let host = host_of(request).unwrap_or_default();
    let options = state.broker.options();
    let hosts = [host.as_str(), options.public_host()];
    let path = request.uri().path();
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
    rule.note_use(state);
    Ok(())
}

fn explain(error: &TokenError) -> Refusal {
    Refusal::unauthorized(format!(
        "The shared access signature is not valid: {error}."
    ))
}
