//! The file that `perf record` writes, as far as it is needed: where files are mapped, and where samples lie.
//!
//! perf's own readers resolve symbols on the way, for which they open the libraries that were mapped. Those of a candidate
//! must not be opened outside of its sandbox, so the file is read here. Its records are the kernel's, with names that the
//! candidate chose.

use std::borrow::Cow;

const MAGIC: &[u8] = b"PERFILE2";
const MMAP: u32 = 1;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
/// Bits of an event's sample type.
const IP: u64 = 1;
const TID: u64 = 1 << 1;
const IDENTIFIER: u64 = 1 << 16;
/// How the processor ran, in a record's flags.
const MODE: u16 = 7;
const KERNEL: u16 = 1;

/// Part of a file in a process's memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mapping<'a> {
    pub(super) pid: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where in the file it begins.
    pub(super) offset: u64,
    pub(super) file: Cow<'a, str>,
}

/// One record that matters.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    Mapping(Mapping<'a>),
    Sample { address: u64, pid: u32, kernel: bool },
}

/// The records in their order; `None` where this is no such file.
pub(super) fn events(data: &[u8]) -> Option<Vec<Event<'_>>> {
    if !data.starts_with(MAGIC) {
        return None;
    }
    let attributes = u64_at(data, 24)? as usize;
    let sample_type = u64_at(data, attributes.checked_add(24)?)?;
    let (from, size) = (u64_at(data, 40)? as usize, u64_at(data, 48)? as usize);
    let mut rest = data.get(from..from.checked_add(size)?.min(data.len()))?;
    let mut found = Vec::new();
    while let (Some(kind), Some(misc), Some(length)) = (u32_at(rest, 0), u16_at(rest, 4), u16_at(rest, 6)) {
        let length = usize::from(length);
        let Some(body) = rest.get(8..length) else { break };
        found.extend(match kind {
            MMAP => mapping(body, 32),
            MMAP2 => mapping(body, 64),
            SAMPLE => sample(body, sample_type, misc),
            _ => None,
        });
        rest = &rest[length..];
    }
    Some(found)
}

fn mapping(body: &[u8], name_at: usize) -> Option<Event<'_>> {
    let start = u64_at(body, 8)?;
    let name = body.get(name_at..)?;
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    Some(Event::Mapping(Mapping {
        pid: u32_at(body, 0)?,
        start,
        end: start.saturating_add(u64_at(body, 16)?),
        offset: u64_at(body, 24)?,
        file: String::from_utf8_lossy(&name[..end]),
    }))
}

fn sample(body: &[u8], sample_type: u64, misc: u16) -> Option<Event<'_>> {
    if sample_type & IP == 0 || sample_type & TID == 0 {
        return None;
    }
    let at = if sample_type & IDENTIFIER == 0 { 0 } else { 8 };
    Some(Event::Sample { address: u64_at(body, at)?, pid: u32_at(body, at + 8)?, kernel: misc & MODE == KERNEL })
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(data.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(data.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const HEAD: usize = 104;
    const ATTRIBUTES: usize = 144;

    /// Makes a small file of this form.
    pub(in crate::profile) struct Writer {
        records: Vec<u8>,
    }

    impl Writer {
        pub(in crate::profile) fn new() -> Self {
            Self { records: Vec::new() }
        }

        fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
            self.records.extend(kind.to_ne_bytes());
            self.records.extend(misc.to_ne_bytes());
            self.records.extend((body.len() as u16 + 8).to_ne_bytes());
            self.records.extend(body);
        }

        pub(in crate::profile) fn mapping(&mut self, pid: u32, start: u64, size: u64, offset: u64, name: &str) {
            let mut body = [pid.to_ne_bytes(), pid.to_ne_bytes()].concat();
            body.extend([start, size, offset, 0, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()));
            body.extend(name.as_bytes());
            body.resize(body.len().next_multiple_of(8) + 8, 0);
            self.record(MMAP2, 2, &body);
        }

        pub(in crate::profile) fn sample(&mut self, pid: u32, address: u64, kernel: bool) {
            let mut body = [5_u64.to_ne_bytes(), address.to_ne_bytes()].concat();
            body.extend([pid, pid].iter().flat_map(|word| word.to_ne_bytes()));
            self.record(SAMPLE, if kernel { 1 } else { 2 }, &body);
        }

        pub(in crate::profile) fn done(self) -> Vec<u8> {
            let mut file = MAGIC.to_vec();
            let words = [HEAD, ATTRIBUTES, HEAD, ATTRIBUTES, HEAD + ATTRIBUTES, self.records.len(), 0, 0, 0, 0, 0, 0];
            file.extend(words.iter().flat_map(|word| (*word as u64).to_ne_bytes()));
            let mut attributes = vec![0; ATTRIBUTES];
            attributes[24..32].copy_from_slice(&(IP | TID | IDENTIFIER).to_ne_bytes());
            file.extend(attributes);
            file.extend(self.records);
            file
        }
    }

    #[test]
    fn records_come_back_in_order() {
        let mut file = Writer::new();
        file.mapping(3, 0x1000, 0x200, 0x40, "/a/b.so");
        file.record(77, 0, &[0; 16]);
        file.sample(3, 0x1010, true);
        let data = file.done();
        let found = events(&data).unwrap();
        let mapping = Mapping { pid: 3, start: 0x1000, end: 0x1200, offset: 0x40, file: "/a/b.so".into() };
        assert_eq!(found, [Event::Mapping(mapping), Event::Sample { address: 0x1010, pid: 3, kernel: true }]);
    }

    #[test]
    fn cut_and_spoilt_files_do_not_break_it() {
        let mut file = Writer::new();
        file.mapping(3, u64::MAX, u64::MAX, u64::MAX, "/a");
        file.sample(3, 0x1010, false);
        let data = file.done();
        for length in 0..data.len() {
            events(&data[..length]);
            let mut spoilt = data.clone();
            spoilt[length] ^= 0xff;
            events(&spoilt);
        }
        assert!(events(b"").is_none() && events(b"PERFILE2").is_none());
    }
}
