//! People whom an OpenID Connect provider or a reverse proxy vouches for: which role their groups have, and the user
//! that is made of them.

use crate::broker::people::{People, PeopleError, judge_name};
use crate::model::audit::{AuditAction, Caller, Target};
use crate::model::identity::Identity;
use crate::store::StoreError;
use crate::store::accounts::{Role, User};

/// The group that everybody is in whom the source lets in.
const EVERYBODY: &str = "*";

/// Which groups have which role.
#[derive(Clone, Debug, Default)]
pub struct GroupRoles {
    pub admin: Vec<String>,
    pub operator: Vec<String>,
    pub viewer: Vec<String>,
}

impl GroupRoles {
    /// The strongest role that one of `groups` has.
    pub fn role_of(&self, groups: &[String]) -> Option<Role> {
        let has = |mapped: &Vec<String>| {
            let mut each = mapped.iter();
            each.any(|group| group == EVERYBODY || groups.contains(group))
        };
        let mut roles = [
            (&self.admin, Role::Admin),
            (&self.operator, Role::Operator),
            (&self.viewer, Role::Viewer),
        ]
        .into_iter();
        roles.find(|(mapped, _)| has(mapped)).map(|(_, role)| role)
    }
}

impl People {
    /// The user of `identity`, with that role from now on; made if there is none yet.
    pub async fn admit(
        &self,
        by: &Caller,
        identity: &Identity,
        role: Role,
    ) -> Result<User, PeopleError> {
        judge_name(&identity.name)?;
        let admitted = self.accounts.admit(identity.clone(), role, by.clone());
        Ok(admitted.await?)
    }

    /// Records that somebody was rejected.
    pub async fn record_rejection(
        &self,
        by: &Caller,
        name: &str,
        reason: String,
    ) -> Result<(), StoreError> {
        let action = AuditAction::RejectSignIn { reason };
        let entry = by.did(action, Target::user(name));
        self.accounts.record(entry).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_role_of_all_groups_counts() {
        let texts = |all: &[&str]| Vec::from_iter(all.iter().map(|it| (*it).to_owned()));
        let roles = GroupRoles {
            admin: texts(&["root"]),
            operator: texts(&["ops", "dev"]),
            viewer: texts(&["all"]),
        };
        for (groups, role) in [
            (&["all", "root"][..], Some(Role::Admin)),
            (&["dev"], Some(Role::Operator)),
            (&["all"], Some(Role::Viewer)),
            (&["Root"], None),
            (&["*"], None),
            (&[], None),
        ] {
            assert_eq!(roles.role_of(&texts(groups)), role, "{groups:?}");
        }
        let open = GroupRoles {
            viewer: texts(&["*"]),
            ..roles
        };
        assert_eq!(open.role_of(&[]), Some(Role::Viewer));
        assert_eq!(open.role_of(&texts(&["ops"])), Some(Role::Operator));
    }
}
