//! What a peer has shown that it may do (rule S1.1, 10.3).

use crate::api::service_bus::access::Grant;
use crate::base::Timestamp;
use crate::model::shared_access::{Right, Rights};
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::cbs::{PutToken, SCHEME, TokenKind};
use crate::wire::amqp::condition::{AUTH_FAILED, NOT_IMPLEMENTED};
use crate::wire::service_bus::sas::{Token, path_of};

/// Rights on a resource and everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The path of the resource in lower case, without slashes around it; empty for the namespace.
    path: String,
    rights: Rights,
    expires_at: Option<Timestamp>,
}

impl Claims {
    /// Rights on the resource with the URL or path `resource`.
    pub fn new(resource: &str, rights: Rights, expires_at: Option<Timestamp>) -> Self {
        Self {
            path: path_of(resource).to_lowercase(),
            rights,
            expires_at,
        }
    }

    /// What the token in `request` grants, and with which of the keys of its rule it was signed. `rule_of` finds the
    /// rule by its name and the resource that the token is for.
    pub(in crate::api) fn of_token(
        request: &PutToken,
        now: Timestamp,
        rule_of: impl Fn(&str, &str) -> Option<Grant>,
    ) -> Result<(Self, Grant, usize), AmqpError> {
        let refused = |problem: String| {
            let audience = &request.audience;
            AmqpError::new(AUTH_FAILED, format!("the token for {audience}: {problem}"))
        };
        if request.kind != TokenKind::SharedAccessSignature {
            let problem = "only shared access signatures are taken (type \
                           servicebus.windows.net:sastoken)";
            return Err(AmqpError::new(NOT_IMPLEMENTED, problem));
        }
        let text = request.token.reveal();
        let text = text.strip_prefix(SCHEME).unwrap_or(text);
        let token = Token::parse(text).map_err(|error| refused(error.to_string()))?;
        let resource = token.resource().unwrap_or_default();
        let rule = rule_of(token.rule(), &resource);
        let unknown = || refused(format!("there is no rule {:?} for it", token.rule()));
        let rule = rule.ok_or_else(unknown)?;
        let granted = token.verify(rule.secrets(), now);
        let granted = granted.map_err(|error| refused(error.to_string()))?;
        let claims = Self::new(&granted.resource, rule.rights, Some(granted.until));
        Ok((claims, rule, granted.key))
    }

    /// Whether they still count.
    pub(super) fn are_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }

    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// Whether they allow `right` on `path`, or anything at all there.
    pub(super) fn allow(&self, path: &str, right: Option<Right>) -> bool {
        let path = path.to_lowercase();
        let below = path.strip_prefix(&self.path);
        let is_covered = below.is_some_and(|below| {
            below.is_empty() || below.starts_with('/') || self.path.is_empty()
        });
        is_covered && right.is_none_or(|right| self.rights.allow(right))
    }

    /// Whether these replace `older` ones: the same resource, shown again.
    pub(super) fn replace(&self, older: &Self) -> bool {
        self.path == older.path
    }
}
