//! What a secret is known by where it must not be read.

use aws_lc_rs::digest::{SHA256, digest};

/// SHA-256 in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    let bytes = hash.as_ref().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}
