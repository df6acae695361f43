//! What a secret is known by where it must not be read, and by which a file is told from a damaged one.

use std::io::{self, Read};

use aws_lc_rs::digest::{Context, SHA256, digest};

/// Bytes read at once.
const PIECE: usize = 65_536;

/// SHA-256 in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// SHA-256, in lower-case hex, of all that there is to read, and how many bytes that is.
pub fn sha256_of(mut from: impl Read) -> io::Result<(String, u64)> {
    let mut hash = Context::new(&SHA256);
    let (mut piece, mut bytes) = (vec![0; PIECE], 0);
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            return Ok((hex(hash.finish().as_ref()), bytes));
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
