//! Content addresses.

use sha2::{Digest, Sha256};

/// SHA-256 over length-prefixed parts, so that ("ab", "c") and ("a", "bc") differ; lowercase hex.
#[must_use]
pub fn content_hash<P: AsRef<[u8]>>(parts: &[P]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        let bytes = part.as_ref();
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hex(&hasher.finalize())
}

/// Lowercase hex digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The first 16 hex digits of [`content_hash`]: enough for a folder name.
#[must_use]
pub fn short_hash<P: AsRef<[u8]>>(parts: &[P]) -> String {
    let mut hash = content_hash(parts);
    hash.truncate(16);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(content_hash(&["ab", "c"]), content_hash(&["a", "bc"]));
        assert_eq!(short_hash(&["x"]).len(), 16);
    }
}
