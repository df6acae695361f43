//! API tokens for programs, in addition to the single management token. Each has a name, a role and an optional
//! expiration.
//!
//! Every request checks its token, so the tokens are kept in memory. They are loaded at the start and changed only
//! through this module.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use crate::base::{Clock, Entropy, Timestamp};
use crate::broker::people::{PeopleError, hash_of, judge_name};
use crate::model::access::Secret;
use crate::model::audit::Caller;
use crate::store::StoreError;
use crate::store::accounts::{Accounts, ApiToken, NewToken, Role, TokenId};

/// The prefix of every token, so that people and scanners recognise one.
const PREFIX: &str = "evp_";

/// The maximum lifetime of a token that expires, in days: ten years.
pub const TOKEN_DAYS_MAX: u32 = 3_650;

/// The minimum time between two stored uses of a token, so that most requests need no write.
const NOTED_EVERY: Duration = Duration::from_secs(60);

/// The API tokens. Cheap to clone.
#[derive(Clone)]
pub struct ApiTokens {
    accounts: Accounts,
    clock: Clock,
    entropy: Entropy,
    /// The tokens by hash.
    known: Arc<RwLock<HashMap<String, ApiToken>>>,
}

/// The name and role of the token that a request presents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    pub name: String,
    pub role: Role,
}

/// A token to create.
#[derive(Clone, Debug)]
pub struct NewTokenRequest {
    pub name: String,
    pub role: Role,
    /// The lifetime in days. `None` if the token never expires.
    pub days: Option<u32>,
}

impl NewTokenRequest {
    /// Returns all faults of the request that do not depend on other tokens.
    pub fn faults(&self) -> Vec<PeopleError> {
        let is_life = |days: u32| (1..=TOKEN_DAYS_MAX).contains(&days);
        let lives = self.days.is_none_or(is_life);
        let days = (!lives).then_some(PeopleError::Days);
        judge_name(&self.name)
            .err()
            .into_iter()
            .chain(days)
            .collect()
    }
}

impl ApiTokens {
    /// Loads the tokens from `accounts`.
    pub(super) async fn open(
        accounts: Accounts,
        clock: Clock,
        entropy: Entropy,
    ) -> Result<Self, StoreError> {
        let stored = accounts.tokens().await?.into_iter();
        let known = stored.map(|token| (token.hash.clone(), token)).collect();
        Ok(Self {
            accounts,
            clock,
            entropy,
            known: Arc::new(RwLock::new(known)),
        })
    }

    /// Returns all tokens, sorted by name.
    pub fn list(&self) -> Vec<ApiToken> {
        let mut all: Vec<_> = self.known.read().unwrap().values().cloned().collect();
        all.sort_by_key(|token| token.name.to_lowercase());
        all
    }

    /// Finds a token by name, ignoring case.
    pub fn find(&self, name: &str) -> Option<ApiToken> {
        let folded = name.to_lowercase();
        let mut all = self.list().into_iter();
        all.find(|token| token.name.to_lowercase() == folded)
    }

    /// Creates a token. The token is returned only once, by this function.
    pub async fn create(&self, by: &Caller, wish: NewTokenRequest) -> Result<Secret, PeopleError> {
        if let Some(fault) = wish.faults().into_iter().next() {
            return Err(fault);
        }
        let now = self.clock.now();
        let life = |days| Duration::from_secs(86_400 * u64::from(days));
        let token = Secret::new(format!("{PREFIX}{}", self.entropy.secret()));
        let new = NewToken {
            name: wish.name,
            hash: hash_of(&token),
            role: wish.role,
            expires_at: wish.days.map(|days| now + life(days)),
        };
        let added = self.accounts.add_token(new, by.clone()).await?;
        let mut known = self.known.write().unwrap();
        known.insert(added.hash.clone(), added);
        Ok(token)
    }

    /// Deletes a token. It is rejected from now on.
    pub async fn delete(&self, by: &Caller, id: TokenId) -> Result<(), PeopleError> {
        self.accounts.delete_token(id, by.clone()).await?;
        let mut known = self.known.write().unwrap();
        known.retain(|_, token| token.id != id);
        Ok(())
    }

    /// Returns the holder of the token `presented`. Returns `None` if the token is unknown or has expired.
    pub fn holder(&self, presented: &Secret) -> Option<TokenHolder> {
        if !presented.reveal().starts_with(PREFIX) {
            return None;
        }
        let (hash, now) = (hash_of(presented), self.clock.now());
        let token = self.known.read().unwrap().get(&hash).cloned()?;
        if token.expires_at.is_some_and(|end| end <= now) {
            return None;
        }
        self.note_use(&token, now);
        Some(TokenHolder {
            name: token.name,
            role: token.role,
        })
    }

    fn note_use(&self, token: &ApiToken, now: Timestamp) {
        let is_noted = |at: Timestamp| now.since(at) < NOTED_EVERY;
        if token.used_at.is_some_and(is_noted) {
            return;
        }
        if let Some(known) = self.known.write().unwrap().get_mut(&token.hash) {
            known.used_at = Some(now);
        }
        let (accounts, id) = (self.accounts.clone(), token.id);
        tokio::spawn(async move {
            if let Err(error) = accounts.note_token_use(id, now).await {
                tracing::warn!(%error, "the use of a token could not be stored");
            }
        });
    }
}
