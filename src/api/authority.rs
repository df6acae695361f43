//! The rights of Service Bus clients over HTTP and AMQP, for all kinds of credentials. Only this module decides on
//! them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::ApiState;
use crate::api::auth::check_role;
use crate::api::error::ApiError;
use crate::base::budget::PresentedKey;
use crate::base::{Timestamp, sha256_hex};
use crate::model::access::{KeyName, KeyOwner, KeyRef, Secret};
use crate::model::audit::Actor;
use crate::model::name::{AccessRuleName, ENTITY_NAME_CHARACTERS, TopicName, above};
use crate::model::registry::{Registry, TopicEntry};
use crate::model::shared_access::{AccessRule, ROOT_RULE, Right, Rights};
use crate::store::accounts::Role;
use crate::wire::amqp::sasl::Plain;
use crate::wire::service_bus::resource::{InvalidTokenResource, TokenResource};
use crate::wire::service_bus::sas::{SasTokenText, TokenError};

/// The maximum validity of a signature from now on. A connection has to present a new one at least that often.
const SIGNATURE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The interval at which open connections notice revoked rights, well within the promised 5 s.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Verified rights of a client, the scope in which they are valid, and the actor that has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    rights: Rights,
    scope: AuthorityScope,
    /// The resource that the token is for, with all that lies below it.
    resource: TokenResource,
    proof: Proof,
    actor: Actor,
    expires_at: Option<Timestamp>,
}

/// The part of the namespace that an access rule applies to, regardless of the resource of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::api) enum AuthorityScope {
    /// The whole namespace.
    Namespace,
    /// The queue or topic of that name, with its subscriptions and sub-queues.
    Entity(TopicName),
}

/// The rule and the key behind an authority, to check later whether they are still valid.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Proof {
    rule: String,
    /// The hash of the key.
    key: String,
}

/// The right that an operation requires, and the entity and path it is required for.
#[derive(Clone, Copy, Debug)]
pub(in crate::api) struct Demand<'a> {
    /// The required right; `None` if any right is sufficient.
    pub(in crate::api) right: Option<Right>,
    /// The queue or topic; `None` for operations that belong to no entity, such as lists.
    pub(in crate::api) topic_or_queue: Option<&'a str>,
    /// The path that the token has to cover.
    pub(in crate::api) path: &'a str,
}

/// The keys of an access rule, and the rights and scope that they grant.
pub(in crate::api) struct KeyGrant {
    /// The keys, each of which is accepted. The reference is `None` for the management token.
    pub(in crate::api) keys: Vec<(Secret, Option<KeyRef>)>,
    pub(in crate::api) rights: Rights,
    pub(in crate::api) scope: AuthorityScope,
    pub(in crate::api) actor: Actor,
}

/// The reason why a credential was rejected. Its text never contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::api) enum AccessDenied {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the resource of the shared access signature is not valid: {0}")]
    Resource(#[from] InvalidTokenResource),
    /// The message does not reveal whether the rule exists, since that would reveal whether the entity exists.
    #[error(
        "InvalidSignature: The token has an invalid signature. It was not signed with the key of a shared access rule \
         {0:?} of what it is for, or of all; the rule for all is {ROOT_RULE}, and its key is the management token"
    )]
    WrongKey(String),
    #[error("the shared access signature is for {0:?}, and not for this")]
    OtherResource(String),
    #[error(
        "Unauthorized access. '{right:?}' claim(s) are required to perform this operation. The shared access rule \
         {rule:?} does not have them"
    )]
    MissingRight { rule: String, right: Right },
    #[error("too many wrong keys came from this address; try again in {} s", .0.as_secs().max(1))]
    TooManyGuesses(Duration),
}

impl AccessDenied {
    /// Returns whether the credential is valid but does not grant the required access.
    pub(in crate::api) fn is_of_rights(&self) -> bool {
        match self {
            Self::OtherResource(_) | Self::MissingRight { .. } => true,
            Self::Token(_) | Self::Resource(_) | Self::WrongKey(_) | Self::TooManyGuesses(_) => {
                false
            }
        }
    }

    /// Returns whether this error occurs only if the signature was made with the right key.
    fn tells_of_a_right_key(&self) -> bool {
        match self {
            Self::Token(TokenError::Expired { .. })
            | Self::OtherResource(_)
            | Self::MissingRight { .. } => true,
            Self::Token(TokenError::Malformed(_) | TokenError::WrongSignature)
            | Self::Resource(_)
            | Self::WrongKey(_)
            | Self::TooManyGuesses(_) => false,
        }
    }
}

/// A signature that a client has presented, and the host names that it may be for.
#[derive(Clone, Copy, Debug)]
pub(in crate::api) struct ShownSignature<'a> {
    /// The signature, without its scheme.
    pub(in crate::api) token: &'a str,
    /// The host names that the resource of the signature may contain.
    pub(in crate::api) hosts: &'a [&'a str],
}

/// A verified authority, and the key that was presented or signed with.
pub(in crate::api) struct VerifiedAuthority {
    pub(in crate::api) authority: Authority,
    key: Secret,
    key_ref: Option<KeyRef>,
}

impl Authority {
    /// Verifies a signature that a client at this address has presented, and returns its authority.
    pub(in crate::api) fn of_signature(
        state: &ApiState,
        shown: ShownSignature<'_>,
        client: Option<IpAddr>,
    ) -> Result<Self, AccessDenied> {
        let now = state.broker.clock().now();
        let find = |rule: &str, resource: &TokenResource| KeyGrant::find(state, rule, resource);
        let verified = Self::verify(shown, now, find);
        let presented = match &verified {
            Ok(verified) => verified.key.clone(),
            Err(_) => Secret::new(shown.token),
        };
        Self::unless_guessed(state, &presented, client, verified)
    }

    /// Verifies a rule name and a plain key, and returns their authority. It covers the whole scope of the rule.
    pub(in crate::api) fn of_password(
        state: &ApiState,
        Plain { rule, key }: &Plain,
        client: Option<IpAddr>,
    ) -> Result<Self, AccessDenied> {
        let mut grants = KeyGrant::named(state, rule).into_iter();
        let found = grants.find_map(|grant| {
            let admits = |(secret, _): &&(Secret, _)| secret.admits(key.reveal());
            let (secret, key_ref) = grant.keys.iter().find(admits)?.clone();
            Some((grant, secret, key_ref))
        });
        let named = found.ok_or_else(|| AccessDenied::WrongKey(rule.clone()));
        let verified = named.map(|(grant, key, key_ref)| VerifiedAuthority {
            authority: grant.authority(rule, &key, TokenResource::default(), None),
            key,
            key_ref,
        });
        Self::unless_guessed(state, key, client, verified)
    }

    /// Returns the authority of a management or API token, if its role includes `right`.
    pub(in crate::api) fn of_bearer(
        state: &ApiState,
        token: &Secret,
        client: Option<IpAddr>,
        right: Right,
    ) -> Result<Self, ApiError> {
        let (role, rights) = match right {
            Right::Send | Right::Listen => (Role::Operator, Rights::USE),
            Right::Manage => (Role::Admin, Rights::ALL),
        };
        let caller = check_role(state, token, client, role)?;
        Ok(Self {
            rights,
            scope: AuthorityScope::Namespace,
            resource: TokenResource::default(),
            proof: Proof {
                rule: String::new(),
                key: String::new(),
            },
            actor: caller.actor,
            expires_at: None,
        })
    }

    /// Verifies a signature with the keys of the rule that `find` returns.
    pub(in crate::api) fn verify(
        shown: ShownSignature<'_>,
        now: Timestamp,
        find: impl Fn(&str, &TokenResource) -> Option<KeyGrant>,
    ) -> Result<VerifiedAuthority, AccessDenied> {
        let token = SasTokenText::parse(shown.token)?;
        let text = token
            .resource()
            .ok_or(TokenError::Malformed("its sr is not UTF-8"))?;
        let resource = TokenResource::parse(&text, shown.hosts)?;
        let unknown = || AccessDenied::WrongKey(token.rule().to_owned());
        let grant = find(token.rule(), &resource).ok_or_else(unknown)?;
        let verified = token.verify(grant.keys.iter().map(|(secret, _)| secret), now);
        let granted = verified.map_err(|error| match error {
            TokenError::WrongSignature => unknown(),
            TokenError::Malformed(_) | TokenError::Expired { .. } => error.into(),
        })?;
        if !resource.is_at(shown.hosts) || !grant.scope.includes(&resource) {
            return Err(AccessDenied::OtherResource(text));
        }
        let (key, key_ref) = grant.keys[granted.key].clone();
        let until = granted.until.min(now + SIGNATURE_MAX);
        Ok(VerifiedAuthority {
            authority: grant.authority(token.rule(), &key, resource, Some(until)),
            key,
            key_ref,
        })
    }

    /// Limits the guessing of keys: a client that has presented too many wrong keys has to wait, unless this key was
    /// right from its address before.
    fn unless_guessed(
        state: &ApiState,
        presented: &Secret,
        client: Option<IpAddr>,
        verified: Result<VerifiedAuthority, AccessDenied>,
    ) -> Result<Self, AccessDenied> {
        let now = state.broker.clock().now();
        let right = match &verified {
            Ok(_) => Some(()),
            Err(AccessDenied::WrongKey(_)) => None,
            Err(denied) => {
                if denied.tells_of_a_right_key() {
                    let held_back = state.guesses.hold_back(client, now);
                    held_back.map_err(AccessDenied::TooManyGuesses)?;
                }
                return Err(denied.clone());
            }
        };
        let looked = state.guesses.examine(presented, client, now, || right);
        looked.map_err(AccessDenied::TooManyGuesses)?;
        let accepted = verified?;
        if let Some(key) = accepted.key_ref {
            state.broker.note_key_use(key);
        }
        Ok(accepted.authority)
    }

    /// Checks that the authority meets a demand. Only this function decides on access.
    pub(in crate::api) fn check(
        &self,
        demand: Demand<'_>,
        now: Timestamp,
    ) -> Result<(), AccessDenied> {
        let is_in_scope = match (&self.scope, demand.topic_or_queue) {
            (AuthorityScope::Namespace, _) => true,
            (AuthorityScope::Entity(own), Some(name)) => own.as_str().eq_ignore_ascii_case(name),
            (AuthorityScope::Entity(_), None) => false,
        };
        if !self.is_valid(now) || !is_in_scope || !self.resource.covers(demand.path) {
            return Err(AccessDenied::OtherResource(self.resource.path()));
        }
        match demand.right {
            Some(right) if !self.rights.allow(right) => Err(AccessDenied::MissingRight {
                rule: self.proof.rule.clone(),
                right,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the memory that the authority takes, in bytes.
    pub(in crate::api) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.resource.path().len()
            + self.proof.rule.len()
            + self.proof.key.len()
    }

    /// Returns the holder that memory is shared by. A client with one key of a queue or topic may have other keys of
    /// it, so all keys of an entity have one holder. Each key of the namespace is a holder of its own.
    pub(in crate::api) fn holder(&self) -> String {
        match &self.scope {
            AuthorityScope::Namespace => self.proof.key.clone(),
            AuthorityScope::Entity(name) => format!("{}/", name.as_str().to_lowercase()),
        }
    }

    /// Returns the hash of the presented key if its holder can have several keys.
    pub(in crate::api) fn key_of_holder(&self) -> Option<&str> {
        match &self.scope {
            AuthorityScope::Namespace => None,
            AuthorityScope::Entity(_) => Some(&self.proof.key),
        }
    }

    /// Returns the presented key and its holder, for the sharing of memory.
    pub(in crate::api) fn shown_key(&self) -> PresentedKey {
        PresentedKey {
            holder: self.holder(),
            key: self.key_of_holder().map(str::to_owned),
        }
    }

    /// Returns whether the authority has not expired.
    pub(in crate::api) fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }

    /// Returns whether the access rule still has the presented key and the same rights.
    pub(in crate::api) fn still_holds(&self, state: &ApiState) -> bool {
        let rules = match &self.scope {
            AuthorityScope::Namespace => KeyGrant::of_all(state, &self.proof.rule),
            AuthorityScope::Entity(entity) => {
                let registry = state.broker.registry();
                let topic = registry.topic(entity);
                topic.and_then(|topic| KeyGrant::of_entity(&registry, topic, &self.proof.rule))
            }
        };
        rules.is_some_and(|grant| {
            let mut keys = grant.keys.iter();
            let has_key = keys.any(|(secret, _)| hash(secret) == self.proof.key);
            has_key && grant.rights == self.rights
        })
    }

    /// Returns whether this authority allows everything that `other` allows. Both must have the same resource.
    pub(in crate::api) fn allows_all_of(&self, other: &Self) -> bool {
        let has_scope = self.scope == AuthorityScope::Namespace || self.scope == other.scope;
        let mut rights = [Right::Manage, Right::Send, Right::Listen].into_iter();
        has_scope && rights.all(|right| self.rights.allow(right) || !other.rights.allow(right))
    }

    pub(in crate::api) fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// Returns the actor of this authority for the audit log.
    pub(in crate::api) fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Returns whether the scope is a single queue or topic.
    pub(in crate::api) fn is_of_entity(&self) -> bool {
        match self.scope {
            AuthorityScope::Namespace => false,
            AuthorityScope::Entity(_) => true,
        }
    }

    /// Returns the path of the resource that the token is for.
    pub(in crate::api) fn path(&self) -> String {
        self.resource.path()
    }
}

impl AuthorityScope {
    /// Returns whether `resource` lies in this scope.
    fn includes(&self, resource: &TokenResource) -> bool {
        match self {
            Self::Namespace => true,
            Self::Entity(name) => {
                let entity = TokenResource::parse(name.as_str(), &[]);
                entity.is_ok_and(|entity| entity.covers(&resource.path()))
            }
        }
    }
}

impl KeyGrant {
    /// Finds the rule of this name for a resource. [`ROOT_RULE`] has the management token as its key. Other names are
    /// looked up first among the rules of the queue or topic, including its two access keys, and then among the rules
    /// for all entities.
    fn find(state: &ApiState, name: &str, resource: &TokenResource) -> Option<Self> {
        if name.eq_ignore_ascii_case(ROOT_RULE) {
            return Self::of_all(state, name);
        }
        let registry = state.broker.registry();
        let entity = entity_of(&registry, resource);
        let own = entity.and_then(|topic| Self::of_entity(&registry, topic, name));
        own.or_else(|| Self::of_all(state, name))
    }

    /// Finds a rule for all queues and topics.
    fn of_all(state: &ApiState, name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case(ROOT_RULE) {
            return Some(Self {
                keys: vec![(state.token.secret(), None)],
                rights: Rights::ALL,
                scope: AuthorityScope::Namespace,
                actor: Actor::ManagementToken,
            });
        }
        let name = AccessRuleName::parse(name).ok()?;
        let registry = state.broker.registry();
        // A name with a slash belongs to the rule of an entity, which is valid for that entity only.
        let found = registry.access_rule(&name);
        let of_all = found.filter(|rule| rule.name.entity().is_none());
        of_all.map(|rule| Self::of(rule))
    }

    /// Finds a rule or an access key of a queue or topic.
    fn of_entity(registry: &Registry, topic: &TopicEntry, name: &str) -> Option<Self> {
        let mut keys = KeyName::ALL.into_iter();
        if let Some(key) = keys.find(|key| key.name().eq_ignore_ascii_case(name)) {
            let owner = KeyOwner::Topic(topic.topic.id);
            let secret = topic.topic.keys.as_ref()?.get(key).clone();
            return Some(Self {
                keys: vec![(secret, Some(KeyRef { owner, key }))],
                rights: Rights::USE,
                scope: AuthorityScope::Entity(topic.topic.name.clone()),
                actor: Actor::AccessRule(format!("{}/{key}", topic.topic.name)),
            });
        }
        let name = AccessRuleName::of(&topic.topic.name, name).ok()?;
        registry.access_rule(&name).map(|rule| Self::of(rule))
    }

    /// Returns all rules of this name, including the rules of queues and topics.
    fn named(state: &ApiState, name: &str) -> Vec<Self> {
        let registry = state.broker.registry();
        let rules = registry.access_rules();
        let named = rules.filter(|rule| rule.name.own().eq_ignore_ascii_case(name));
        let is_root = name.eq_ignore_ascii_case(ROOT_RULE);
        let root = is_root.then(|| Self::of_all(state, name)).flatten();
        root.into_iter()
            .chain(named.map(|rule| Self::of(rule)))
            .collect()
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
            scope: rule
                .name
                .entity()
                .map_or(AuthorityScope::Namespace, AuthorityScope::Entity),
            actor: Actor::AccessRule(rule.name.to_string()),
        }
    }

    fn authority(
        &self,
        rule: &str,
        key: &Secret,
        resource: TokenResource,
        expires_at: Option<Timestamp>,
    ) -> Authority {
        Authority {
            rights: self.rights,
            scope: self.scope.clone(),
            resource,
            proof: Proof {
                rule: rule.to_owned(),
                key: hash(key),
            },
            actor: self.actor.clone(),
            expires_at,
        }
    }
}

/// Watches access rules, keys and the management token until `stop` is cancelled. The returned number changes whenever
/// they may have changed, so that open connections check their authorities again.
pub(in crate::api) fn changes(state: &ApiState, stop: CancellationToken) -> watch::Receiver<u64> {
    let (changed, receiver) = watch::channel(0);
    let state = state.clone();
    tokio::spawn(async move {
        let look = || (state.broker.registry(), hash(&state.token.secret()));
        let mut seen = look();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let now = look();
            if !Arc::ptr_eq(&seen.0, &now.0) || seen.1 != now.1 {
                changed.send_modify(|version: &mut u64| *version += 1);
            }
            seen = now;
        }
    });
    receiver
}

fn hash(secret: &Secret) -> String {
    sha256_hex(secret.reveal().as_bytes())
}

/// Returns the queue or topic that a resource is, or lies in. Queues and topics are never nested.
fn entity_of<'a>(registry: &'a Registry, resource: &TokenResource) -> Option<&'a Arc<TopicEntry>> {
    let path = resource.path();
    let path = &path[..path.floor_char_boundary(ENTITY_NAME_CHARACTERS.end() + 1)];
    let mut entities = above(path).chain([path]);
    entities.find_map(|name| {
        let topic = registry.topic(&TopicName::parse(name).ok()?)?;
        topic.topic.kind.takes_messages().then_some(topic)
    })
}

#[cfg(test)]
mod tests {
    use super::{
        Actor, Authority, AuthorityScope, Duration, KeyGrant, Rights, SIGNATURE_MAX, Secret,
        ShownSignature, Timestamp, TokenResource, TopicName,
    };
    use crate::wire::service_bus::sas::sign;

    #[test]
    fn a_signature_counts_for_a_day_at_most() {
        let now = Timestamp::from_ms(1_800_000_000_000);
        let key = Secret::new("key");
        let soon = now + Duration::from_secs(60);
        for (until, expected) in [
            (soon, soon),
            (now + SIGNATURE_MAX, now + SIGNATURE_MAX),
            (now + 2 * SIGNATURE_MAX, now + SIGNATURE_MAX),
            (Timestamp::from_ms(i64::MAX), now + SIGNATURE_MAX),
        ] {
            let token = sign("sb://host/", "all", until, &key);
            let shown = ShownSignature {
                token: token.trim_start_matches("SharedAccessSignature "),
                hosts: &["host"],
            };
            let find = |_: &str, _: &TokenResource| {
                Some(KeyGrant {
                    keys: vec![(key.clone(), None)],
                    rights: Rights::ALL,
                    scope: AuthorityScope::Namespace,
                    actor: Actor::ManagementToken,
                })
            };
            let verified = Authority::verify(shown, now, find);
            let ends_at = verified.map(|verified| verified.authority.expires_at());
            assert_eq!(ends_at, Ok(Some(expected)), "{until}");
        }
    }

    #[test]
    fn the_keys_of_an_entity_share_and_those_of_all_do_not() {
        let holder = |scope: &AuthorityScope, key: &str| {
            let grant = KeyGrant {
                keys: Vec::new(),
                rights: Rights::ALL,
                scope: scope.clone(),
                actor: Actor::ManagementToken,
            };
            let key = Secret::new(key);
            grant
                .authority("rule", &key, TokenResource::default(), None)
                .holder()
        };
        let entity = |name: &str| AuthorityScope::Entity(TopicName::parse(name).expect("a name"));
        let (jobs, all) = (entity("jobs"), AuthorityScope::Namespace);
        assert_eq!(holder(&jobs, "a"), holder(&entity("Jobs"), "b"));
        assert_ne!(holder(&jobs, "a"), holder(&entity("others"), "a"));
        assert_ne!(holder(&all, "a"), holder(&all, "b"));
        assert_ne!(holder(&all, "a"), holder(&jobs, "a"));
    }
}
