//! Encryption of secrets at rest: AES-256-GCM-SIV under a master key, bound to the database cell of the secret.
//!
//! An encrypted text is `v1.<key id>.<nonce>.<ciphertext>`. The nonce and the ciphertext are in base64url. The cell
//! (table, column, row id) and the key id are the associated data, so a text cannot be decrypted in another cell.
//! [`COLUMNS`] lists the encrypted columns. No column that is read or written for each event is encrypted.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use crate::base::{Entropy, sha256_hex};
use crate::store::error::StoreError;

/// Bytes of a master key (AES-256).
const KEY_BYTES: usize = 32;

/// Length of a key id in bytes: the beginning of the key's hash, enough to tell a few keys apart.
const ID_BYTES: usize = 4;

/// Prefix of every encrypted text. No plain text in an encrypted column begins with it: keys and codes are base64,
/// definitions are JSON objects, URLs begin with their scheme.
const FORM: &str = "v1.";

/// An encrypted column.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Column {
    pub(in crate::store) table: &'static str,
    pub(in crate::store) column: &'static str,
}

pub(in crate::store) const NAMESPACE_KEY1: Column = column("namespace", "key1");
pub(in crate::store) const NAMESPACE_KEY2: Column = column("namespace", "key2");
pub(in crate::store) const TOPIC_KEY1: Column = column("topic", "key1");
pub(in crate::store) const TOPIC_KEY2: Column = column("topic", "key2");
pub(in crate::store) const ACCESS_RULE_KEY1: Column = column("access_rule", "key1");
pub(in crate::store) const ACCESS_RULE_KEY2: Column = column("access_rule", "key2");
pub(in crate::store) const SUBSCRIPTION_DEFINITION: Column =
    column("event_subscription", "definition");
pub(in crate::store) const VALIDATION_CODE: Column =
    column("event_subscription", "validation_code");
pub(in crate::store) const REPLAY_URL: Column = column("replay_job", "target_url");
pub(in crate::store) const ALERT_CHANNEL: Column = column("alert_channel", "definition");
pub(in crate::store) const USER_TOTP: Column = column("user", "totp");

/// All encrypted columns. Each of their tables has a column `id`.
pub(in crate::store) const COLUMNS: [Column; 11] = [
    NAMESPACE_KEY1,
    NAMESPACE_KEY2,
    TOPIC_KEY1,
    TOPIC_KEY2,
    ACCESS_RULE_KEY1,
    ACCESS_RULE_KEY2,
    SUBSCRIPTION_DEFINITION,
    VALIDATION_CODE,
    REPLAY_URL,
    ALERT_CHANNEL,
    USER_TOTP,
];

const fn column(table: &'static str, column: &'static str) -> Column {
    Column { table, column }
}

/// Master keys: the first one encrypts, all of them decrypt. There is more than one only while the key is
/// being replaced.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKeys(Vec<Zeroizing<[u8; KEY_BYTES]>>);

/// The error for a text that is not a list of master keys. The message does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a master key: 32 bytes in base64, as from `openssl rand -base64 32`")]
pub struct InvalidMasterKey;

impl MasterKeys {
    /// Generates a key.
    pub(super) fn generate(entropy: &Entropy) -> Self {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        entropy.fill(&mut *key);
        Self(vec![key])
    }

    /// Reads keys in base64, separated by line ends or spaces.
    pub fn parse(text: &str) -> Result<Self, InvalidMasterKey> {
        let keys: Result<Vec<_>, _> = text.split_ascii_whitespace().map(parse_key).collect();
        match keys {
            Ok(keys) if !keys.is_empty() => Ok(Self(keys)),
            Ok(_) | Err(_) => Err(InvalidMasterKey),
        }
    }

    /// Returns the keys in the format of [`MasterKeys::parse`], one per line.
    pub(in crate::store) fn to_text(&self) -> Zeroizing<String> {
        let lines = self.0.iter().map(|key| STANDARD.encode(**key) + "\n");
        Zeroizing::new(lines.collect())
    }

    /// Returns the keys of `newer` followed by these keys, so that the first key of `newer` encrypts.
    pub(in crate::store) fn behind(&self, newer: Self) -> Self {
        let Self(mut keys) = newer;
        keys.extend(self.0.iter().cloned());
        Self(keys)
    }

    /// Returns only the key that encrypts.
    pub(in crate::store) fn newest(&self) -> Self {
        Self(self.0[..1].to_vec())
    }

    pub(in crate::store) fn count(&self) -> usize {
        self.0.len()
    }

    /// The ids of all keys.
    pub(in crate::store) fn ids(&self) -> BTreeSet<String> {
        self.0.iter().map(|key| id_of(key)).collect()
    }

    /// Returns the id of the key that encrypts. The id reveals nothing about the key.
    pub fn id(&self) -> String {
        id_of(&self.0[0])
    }
}

fn parse_key(text: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, InvalidMasterKey> {
    let bytes = Zeroizing::new(STANDARD.decode(text).map_err(|_| InvalidMasterKey)?);
    let key = bytes.as_slice().try_into().map_err(|_| InvalidMasterKey)?;
    Ok(Zeroizing::new(key))
}

fn id_of(key: &[u8; KEY_BYTES]) -> String {
    let mut hash = sha256_hex(key);
    hash.truncate(2 * ID_BYTES);
    hash
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Encrypts and decrypts. Cheap to clone.
#[derive(Clone)]
pub(in crate::store) struct Encryption {
    keys: Arc<Vec<(String, LessSafeKey)>>,
    entropy: Entropy,
}

impl Encryption {
    pub(in crate::store) fn new(keys: &MasterKeys, entropy: Entropy) -> Self {
        let ready = |key: &Zeroizing<[u8; KEY_BYTES]>| {
            let unbound = UnboundKey::new(&AES_256_GCM_SIV, &**key);
            (
                id_of(key),
                LessSafeKey::new(unbound.expect("the key has its length")),
            )
        };
        Self {
            keys: Arc::new(keys.0.iter().map(ready).collect()),
            entropy,
        }
    }

    /// Returns the prefix of texts that are encrypted by the current key.
    pub(super) fn prefix(&self) -> String {
        format!("{FORM}{}.", self.keys[0].0)
    }

    /// Encrypts `text` for the cell in `column` of the row with the id `row`.
    pub(in crate::store) fn encrypt(&self, column: Column, row: i64, text: &str) -> String {
        let (id, key) = &self.keys[0];
        let mut nonce = [0; NONCE_LEN];
        self.entropy.fill(&mut nonce);
        let mut encrypted = text.as_bytes().to_vec();
        let bound = Aad::from(bound_to(column, row, id));
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce_used, bound, &mut encrypted)
            .expect("what is stored is far from the limits of the cipher");
        let (nonce, encrypted) = (
            URL_SAFE_NO_PAD.encode(nonce),
            URL_SAFE_NO_PAD.encode(encrypted),
        );
        format!("{FORM}{id}.{nonce}.{encrypted}")
    }

    /// Decrypts the text of a cell.
    pub(in crate::store) fn open(
        &self,
        column: Column,
        row: i64,
        encrypted: &str,
    ) -> Result<Zeroizing<String>, StoreError> {
        let damaged = || {
            let Column { table, column } = column;
            StoreError::Unreadable(format!(
                "{table}.{column} of row {row} is damaged, or was encrypted for another cell"
            ))
        };
        let (id, nonce, ciphertext) = parts(encrypted).ok_or_else(damaged)?;
        let known = self.keys.iter().find(|(known, _)| known == id);
        let (_, key) = known.ok_or_else(|| {
            StoreError::MasterKey(format!(
                "the master key {id} is missing, which encrypted it"
            ))
        })?;
        let mut text = Zeroizing::new(ciphertext);
        let bound = Aad::from(bound_to(column, row, id));
        let length = key
            .open_in_place(Nonce::assume_unique_for_key(nonce), bound, &mut text)
            .map_err(|_| damaged())?
            .len();
        let text = std::str::from_utf8(&text[..length]).map_err(|_| damaged())?;
        Ok(Zeroizing::new(text.to_owned()))
    }
}

/// Reports whether a text is encrypted, no matter by which key.
pub(super) fn is_encrypted(text: &str) -> bool {
    text.starts_with(FORM)
}

/// The id of the key that encrypted a text.
pub(super) fn key_id(encrypted: &str) -> Option<&str> {
    Some(encrypted.strip_prefix(FORM)?.split_once('.')?.0)
}

fn parts(encrypted: &str) -> Option<(&str, [u8; NONCE_LEN], Vec<u8>)> {
    let (id, rest) = encrypted.strip_prefix(FORM)?.split_once('.')?;
    let (nonce, ciphertext) = rest.split_once('.')?;
    let nonce = URL_SAFE_NO_PAD.decode(nonce).ok()?.try_into().ok()?;
    Some((id, nonce, URL_SAFE_NO_PAD.decode(ciphertext).ok()?))
}

fn bound_to(column: Column, row: i64, key: &str) -> String {
    let Column { table, column } = column;
    format!("{table}|{column}|{row}|{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encryption(seed: u64) -> Encryption {
        let entropy = Entropy::seeded(seed);
        Encryption::new(&MasterKeys::generate(&entropy), entropy)
    }

    #[test]
    fn what_is_sealed_opens_in_its_own_cell_alone() {
        let encryption = encryption(1);
        let encrypted = encryption.encrypt(TOPIC_KEY1, 7, "geheim");
        let opened = encryption
            .open(TOPIC_KEY1, 7, &encrypted)
            .expect("its own cell");
        assert_eq!(*opened, "geheim");
        assert!(!encrypted.contains("geheim") && encrypted.starts_with(&encryption.prefix()));
        for (column, row) in [(TOPIC_KEY2, 7), (TOPIC_KEY1, 8), (VALIDATION_CODE, 7)] {
            let error = encryption
                .open(column, row, &encrypted)
                .expect_err("another cell");
            assert!(error.to_string().contains("damaged"), "{error}");
        }
        assert_ne!(
            encrypted,
            encryption.encrypt(TOPIC_KEY1, 7, "geheim"),
            "nonces differ"
        );
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let encryption = encryption(1);
        let encrypted = encryption.encrypt(TOPIC_KEY1, 7, "geheim");
        for at in 0..encrypted.len() {
            let mut bytes = encrypted.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).expect("ASCII");
            assert!(
                encryption.open(TOPIC_KEY1, 7, &changed).is_err(),
                "{changed}"
            );
        }
    }

    #[test]
    fn a_missing_key_is_named_and_an_older_one_opens() {
        let entropy = Entropy::seeded(3);
        let old = MasterKeys::generate(&entropy);
        let both = old.behind(MasterKeys::generate(&entropy));
        let encrypted = Encryption::new(&old, entropy.clone()).encrypt(TOPIC_KEY1, 1, "x");
        let (newer, new) = (
            Encryption::new(&both, entropy.clone()),
            Encryption::new(&both.newest(), entropy),
        );
        assert_eq!(*newer.open(TOPIC_KEY1, 1, &encrypted).expect("opened"), "x");
        assert_ne!(newer.prefix(), format!("v1.{}.", old.id()));
        let error = new
            .open(TOPIC_KEY1, 1, &encrypted)
            .expect_err("no such key");
        let StoreError::MasterKey(text) = error else {
            panic!("{error}");
        };
        assert!(text.contains(&old.id()), "{text}");
    }

    #[test]
    fn keys_are_read_as_they_are_written_and_never_shown() {
        let entropy = Entropy::seeded(5);
        let keys = MasterKeys::generate(&entropy).behind(MasterKeys::generate(&entropy));
        assert!(MasterKeys::parse(&keys.to_text()).as_ref() == Ok(&keys));
        assert_eq!(format!("{keys:?}"), "***");
        for wrong in ["", " \n", "c2hvcnQ=", "no base64 at all", &"A".repeat(60)] {
            assert!(MasterKeys::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
