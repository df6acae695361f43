//! The second factor: a code from an app, or one of ten recovery codes.

use crate::broker::people::{People, PeopleError, hash_of};
use crate::model::access::Secret;
use crate::model::audit::Caller;
use crate::model::one_time_code::{Seed, to_base32};
use crate::store::StoreError;
use crate::store::accounts::{NewSecondFactor, User, UserChange, UserId};

/// The number of recovery codes of one user (docs/security.md B3).
const RECOVERY_CODES: usize = 10;

/// The number of bytes in a recovery code. 120 bits are enough for a plain hash to protect it (docs/security.md B4).
const RECOVERY_BYTES: usize = 15;

/// The number of characters in a recovery code between two hyphens.
const GROUP: usize = 6;

impl People {
    /// Generates a new seed.
    pub fn offer_seed(&self) -> Seed {
        Seed::generate(&self.entropy)
    }

    /// Sets up a second factor if `code` is right for `seed`. Returns the recovery codes, which are shown only once.
    pub async fn set_second_factor(
        &self,
        by: &Caller,
        user: UserId,
        seed: Seed,
        code: &str,
    ) -> Result<Vec<Secret>, PeopleError> {
        let now = self.clock.now();
        let step = seed
            .step_of(code, now, None)
            .ok_or(PeopleError::WrongCode)?;
        let codes: Vec<Secret> = (0..RECOVERY_CODES).map(|_| self.recovery_code()).collect();
        let new = NewSecondFactor {
            seed,
            step,
            recovery_hashes: codes.iter().map(hash_of_code).collect(),
        };
        let set = self.accounts.set_second_factor(user, new, by.clone());
        set.await?;
        Ok(codes)
    }

    /// Removes the second factor.
    pub async fn remove_second_factor(&self, by: &Caller, user: UserId) -> Result<(), PeopleError> {
        let change = UserChange {
            removes_second_factor: true,
            ..UserChange::default()
        };
        Ok(self.accounts.change_user(user, change, by.clone()).await?)
    }

    /// Returns whether `code` is the current code of the user's app or a recovery code. The code is then used up.
    pub async fn passes_second_factor(&self, user: &User, code: &str) -> Result<bool, StoreError> {
        let Some(factor) = self.accounts.second_factor(user.id).await? else {
            return Ok(false);
        };
        let now = self.clock.now();
        if let Some(step) = factor.seed.step_of(code, now, factor.last_step) {
            return self.accounts.use_step(user.id, step).await;
        }
        let hash = hash_of_code(&Secret::new(code));
        self.accounts.use_recovery_code(user.id, hash).await
    }

    fn recovery_code(&self) -> Secret {
        let mut bytes = [0; RECOVERY_BYTES];
        self.entropy.fill(&mut bytes);
        let text = to_base32(&bytes);
        let groups: Vec<&str> = (0..text.len())
            .step_by(GROUP)
            .map(|start| &text[start..(start + GROUP).min(text.len())])
            .collect();
        Secret::new(groups.join("-"))
    }
}

/// Hashes the letters and digits of a code in upper case, because people copy codes by hand.
fn hash_of_code(code: &Secret) -> String {
    let characters = code.reveal().chars().filter(char::is_ascii_alphanumeric);
    let in_one_case = characters.map(|c| c.to_ascii_uppercase());
    hash_of(&Secret::new(in_one_case.collect::<String>()))
}
