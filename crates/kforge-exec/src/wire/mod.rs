//! What kforge and the harness say to each other: records to and from cells, JSON to and from everybody else.
//!
//! `harness/kforge_harness/shared/wire.py` and `names.py` are the other side. A test reads them and compares.

pub(crate) mod messages;
pub(crate) mod names;
pub(crate) mod op;
mod reply;
#[cfg(test)]
mod tests;

pub(crate) use reply::{Reply, Word};

const MAGIC: u32 = 0x4B46_524B;
/// Of requests and answers.
pub(crate) const RECORD: usize = 64;
/// A cell's first word: all before it was ours.
const READY: &str = "ready";
const OK: &str = "ok";
/// With a number of calls: nothing is called.
const NULL_ROW: u64 = 1 << 32;
pub(crate) const DETAIL_BYTES: usize = 64 * 1024;
/// Where results lie is told in the second half of the detail region.
pub(crate) const CLAIMS_AT: usize = 32 * 1024;
/// Of places in an input slot.
pub(crate) const SLOT_ALIGN: usize = 512;
pub(crate) const GATE_BYTES: usize = 256;
/// Of one JSON message.
pub(crate) const MAX_JSON: usize = 64 * 1024 * 1024;
/// Descriptors that come with one message.
pub(crate) const MAX_FDS: usize = 64;

/// Number that answers one request and no other.
pub(crate) type Nonce = [u8; 8];

/// A request as a cell reads it.
pub(crate) fn request<R: op::Request>(request: R, nonce: Nonce) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..4].copy_from_slice(&MAGIC.to_le_bytes());
    record[4..8].copy_from_slice(&(R::OP as u32).to_le_bytes());
    record[8..16].copy_from_slice(&nonce);
    record[16..24].copy_from_slice(&request.argument().to_le_bytes());
    record
}
