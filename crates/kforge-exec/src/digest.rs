//! A keyed digest of outputs, as fast as memory: every output of every timed call goes through it twice.
//!
//! It answers one question: are these the bytes that were verified before? The key is drawn anew for each session and
//! never leaves this process, digests are never shown to anybody, so a candidate cannot aim at a collision. SHA-256
//! would do as well, and cost more time between two timed calls.

use crate::{cell::fill_random, error::Result};

const LANES: usize = 8;
const BLOCK: usize = 8 * LANES;

/// The digest of one output.
pub(crate) type Sum = [u64; 2];

/// A secret key, one per session.
#[derive(Clone)]
pub(crate) struct Key([u64; LANES]);

impl Key {
    pub(crate) fn draw() -> Result<Self> {
        let mut bytes = [0; BLOCK];
        fill_random(&mut bytes)?;
        let mut key = words(&bytes);
        for word in &mut key {
            *word |= 1;
        }
        Ok(Self(key))
    }

    /// Eight independent lanes of multiply-and-fold, then all lanes into two words.
    pub(crate) fn digest(&self, bytes: &[u8]) -> Sum {
        let mut lanes = self.0;
        let mut blocks = bytes.chunks_exact(BLOCK);
        for block in &mut blocks {
            let block = words(block);
            for ((lane, word), key) in lanes.iter_mut().zip(block).zip(self.0) {
                *lane = fold(*lane ^ word, key);
            }
        }
        let mut rest = [0; BLOCK];
        let tail = blocks.remainder();
        rest[..tail.len()].copy_from_slice(tail);
        let (mut first, mut second) = (bytes.len() as u64, self.0[0]);
        for ((lane, word), key) in lanes.into_iter().zip(words(&rest)).zip(self.0) {
            first = fold(first ^ lane ^ word, key);
            second = fold(second.rotate_left(23) ^ lane.wrapping_add(word), key);
        }
        [first, second]
    }
}

fn words(block: &[u8]) -> [u64; LANES] {
    let mut made = [0; LANES];
    for (word, bytes) in made.iter_mut().zip(block.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    made
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_count() {
        let key = Key::draw().unwrap();
        let bytes: Vec<u8> = (0..1000_u32).map(|i| (i * 7) as u8).collect();
        let whole = key.digest(&bytes);
        assert_eq!(whole, key.digest(&bytes));
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert_ne!(whole, key.digest(&changed), "byte {place}");
        }
        assert_ne!(key.digest(&bytes[..999]), whole);
        assert_ne!(key.digest(&[0; 64]), key.digest(&[0; 128]));
    }

    #[test]
    fn another_key_gives_another_digest() {
        assert_ne!(Key::draw().unwrap().digest(b"same"), Key::draw().unwrap().digest(b"same"));
    }
}
