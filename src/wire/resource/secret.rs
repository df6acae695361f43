//! Secrets in documents: written as `null`, except for the store.

use std::cell::Cell;

thread_local! { static IS_REVEALED: Cell<bool> = const { Cell::new(false) }; }

/// Runs `write`, in which secrets are written as they are: for the store alone. It does not wait for
/// anything, so nothing else can come in between.
pub(super) fn reveal<T>(write: impl FnOnce() -> T) -> T {
    struct StoredSecret(bool);
    impl Drop for StoredSecret {
        fn drop(&mut self) {
            IS_REVEALED.set(self.0);
        }
    }
    let _before = StoredSecret(IS_REVEALED.replace(true));
    write()
}

/// Reports whether secrets are hidden, for properties that answers do not even mention.
pub(super) fn is_hidden<T>(_: &T) -> bool {
    !IS_REVEALED.get()
}

/// A secret for the store; nothing for anybody else.
pub(super) fn unless_hidden(secret: &str) -> Option<&str> {
    IS_REVEALED.get().then_some(secret)
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use serde_json::{Value, json};

    use super::*;
    use crate::model::access::Secret;

    #[test]
    fn secrets_are_written_for_the_store_alone() {
        let written = || serde_json::to_value(Secret::new("hush")).expect("JSON");
        assert_eq!(written(), Value::Null);
        assert_eq!(reveal(|| reveal(written)), json!("hush"));
        assert!(catch_unwind(|| reveal(|| panic!("in the middle"))).is_err());
        assert_eq!(written(), Value::Null);
    }
}
