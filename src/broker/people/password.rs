//! Passwords: which ones are accepted, and how they are stored (argon2id, docs/security.md B3).

use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::base::Entropy;
use crate::broker::background::in_background;

/// The fewest characters of a password (docs/security.md B3).
pub const CHARACTERS_MIN: usize = 8;

/// The most characters of a password: bounds the hashing that one request can cause.
pub const CHARACTERS_MAX: usize = 128;

/// The length that the page recommends (docs/security.md B3).
pub const CHARACTERS_RECOMMENDED: usize = 15;

/// Memory of one hash, in KiB: with two passes and one lane the first choice of OWASP.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// Bytes of a salt, as RFC 9106 recommends.
const SALT_BYTES: usize = 16;

/// Hashes that run at once: bounds their memory, and leaves a small machine a core.
static HASHES: Semaphore = Semaphore::const_new(2);

/// Compared with when there is no such user, so that the response takes as long.
pub(super) const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA\
     $AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Why `password` is not accepted for the user `name`.
pub(super) fn problem(password: &str, name: &str) -> Option<String> {
    let characters = password.chars().count();
    if !(CHARACTERS_MIN..=CHARACTERS_MAX).contains(&characters) {
        return Some(format!(
            "it has {characters} characters; it must have {CHARACTERS_MIN} to {CHARACTERS_MAX}"
        ));
    }
    let first_guesses = [name, "everpost", "password", "12345678", "123456789"];
    first_guesses
        .iter()
        .any(|guess| guess.eq_ignore_ascii_case(password))
        .then(|| "this password is too common".to_owned())
}

/// The PHC string of `password`.
pub(super) async fn hash(password: String) -> String {
    // The salt comes from the system even in a simulation.
    let mut salt = [0; SALT_BYTES];
    Entropy::Os.fill(&mut salt);
    let hash = move || {
        let hash = argon2().hash_password_with_salt(password.as_bytes(), &salt);
        hash.expect("salt and parameters are in bounds").to_string()
    };
    in_background(place().await, hash).await
}

/// Whether `password` matches the PHC string `hash`.
pub(super) async fn is_right(password: String, hash: String) -> bool {
    // No password is longer, so a longer one need not be hashed.
    if password.chars().count() > CHARACTERS_MAX {
        return false;
    }
    in_background(place().await, move || {
        argon2()
            .verify_password(password.as_bytes(), hash.as_str())
            .is_ok()
    })
    .await
}

/// Waits for a place to hash in.
async fn place() -> SemaphorePermit<'static> {
    HASHES.acquire().await.expect("it is never closed")
}

fn argon2() -> Argon2<'static> {
    let params =
        Params::new(MEMORY_KIB, PASSES, LANES, None).expect("the parameters are in bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_belongs_to_its_hash_alone() {
        let phc = hash("correct horse battery".to_owned()).await;
        assert!(phc.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{phc}");
        assert!(is_right("correct horse battery".to_owned(), phc.clone()).await);
        assert!(!is_right("Correct horse battery".to_owned(), phc.clone()).await);
        assert!(!is_right("x".repeat(CHARACTERS_MAX + 1), phc).await);
        assert!(!is_right("anything".to_owned(), NOBODY.to_owned()).await);
        assert!(!is_right("anything".to_owned(), "no PHC string".to_owned()).await);
    }

    #[test]
    fn nobody_is_a_hash_with_our_parameters() {
        let parsed = argon2::PasswordHash::new(NOBODY).expect("a PHC string");
        let params = Params::try_from(&parsed).expect("parameters");
        assert_eq!(params.m_cost(), MEMORY_KIB);
        assert_eq!(params.t_cost(), PASSES);
    }

    #[test]
    fn passwords_are_judged_by_length_and_obviousness() {
        for (password, taken) in [
            ("1234567", false),
            ("12345678", false),
            ("EverPost", false),
            ("margaret", false),
            ("margaret1", true),
            ("größer als", true),
            (&"x".repeat(128), true),
            (&"x".repeat(129), false),
        ] {
            assert_eq!(problem(password, "margaret").is_none(), taken, "{password}");
        }
    }
}
