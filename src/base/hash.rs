//! SHA-256 hashes, used to identify secrets that must not be readable and to detect damaged files.

use std::io::{self, Read};

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};

/// The maximum number of bytes per read.
const PIECE: usize = 65_536;

/// Returns the SHA-256 hash of `bytes`.
pub fn sha256(bytes: &[u8]) -> [u8; SHA256_OUTPUT_LEN] {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// Returns the SHA-256 hash of `bytes` in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// A SHA-256 hash that is computed incrementally, from data that arrives in pieces.
pub struct Sha256(Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Sha256 {
    /// Adds `bytes` to the data that is hashed.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the hash in lower-case hex.
    pub fn finish(self) -> String {
        hex(self.0.finish().as_ref())
    }
}

/// Returns the SHA-256 hash, in lower-case hex, of all bytes that can be read from `from`, and the number of bytes.
pub fn sha256_of(mut from: impl Read) -> io::Result<(String, u64)> {
    let mut hash = Sha256::default();
    let (mut piece, mut bytes) = (vec![0; PIECE], 0);
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            return Ok((hash.finish(), bytes));
        }
        hash.update(&piece[..read]);
        bytes += read as u64;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_in_pieces_has_the_hash_of_the_whole() {
        let bytes = vec![7; 3 * PIECE + 1];
        let (hash, count) = sha256_of(bytes.as_slice()).expect("a hash");
        assert_eq!((hash, count), (sha256_hex(&bytes), bytes.len() as u64));
    }
}
