//! The memory of a cell's process, read and written from here while all of it stands still.
//!
//! Results are taken out of it without any code of the candidate's running, so that no copy of theirs can be bent, left
//! out or done later. Then the memory is filled with a pattern in which no two pages are alike: a page that is mapped
//! twice shows, a buffer that is used again holds nothing of use, and whoever writes there later is found out.

use crate::{
    cell::fill_random,
    claims::{Claim, OutputField},
    error::Result,
};
use kforge_types::{Kind, Verdict};
use std::{fs::File, os::unix::fs::FileExt};

const PAGE: u64 = 4096;
/// Pages of a result that are looked at again later.
const LOOKS: usize = 32;
/// A view of something larger is taken with what lies between its elements, up to so many times its size.
const LOOSE: u64 = 8;
const LOOSE_BYTES: u64 = 1 << 20;

pub(crate) struct Window {
    memory: File,
    /// Where each page lies, if the system tells.
    pages: Option<File>,
}

/// So much of a pattern is made at once.
const PIECE: usize = 256 << 10;

/// Of `/proc/PID/pagemap`.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// A file's, or shared: what is written over a private one of these falls on a copy, and the page stays as it was.
const OF_A_FILE: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;

/// Fills one result once it was taken. It is drawn for that result alone, so that no other tells anything of it, and made
/// again from what was drawn whenever it is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    key: u64,
    mask: u64,
}

impl Pattern {
    pub(crate) fn draw() -> Result<Self> {
        let (mut key, mut mask) = ([0; 8], [0; 8]);
        fill_random(&mut key)?;
        fill_random(&mut mask)?;
        Ok(Self { key: u64::from_le_bytes(key), mask: u64::from_le_bytes(mask) })
    }

    fn word(self, number: usize) -> [u8; 8] {
        let state = self.key.wrapping_add((number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27) ^ self.mask).to_le_bytes()
    }

    /// What lies from `start` on.
    fn write(self, start: usize, into: &mut [u8]) {
        let (mut number, mut skipped, mut done) = (start / 8, start % 8, 0);
        while done < into.len() {
            let word = self.word(number);
            let length = (8 - skipped).min(into.len() - done);
            into[done..done + length].copy_from_slice(&word[skipped..skipped + length]);
            (number, skipped, done) = (number + 1, 0, done + length);
        }
    }

    fn bytes(self, start: usize, length: usize) -> Vec<u8> {
        let mut made = vec![0; length];
        self.write(start, &mut made);
        made
    }
}

impl Window {
    /// Nothing where this system or its settings do not let us.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).ok()?;
        Some(Self { memory, pages: File::open(format!("/proc/{pid}/pagemap")).ok() })
    }

    /// Pages of a result that are not there, or not anonymous memory of its own, and all of its pages. Nobody may have
    /// touched them yet: to read one makes it, and to write to one of a file makes a copy.
    pub(crate) fn missing(&self, claim: &Claim, field: &OutputField) -> (u64, u64) {
        let (Some(pages), Some((start, bytes))) = (&self.pages, claim.span(field)) else { return (0, 0) };
        let (first, last) = (start / PAGE, (start + bytes).div_ceil(PAGE));
        if field.shares || bytes == 0 || bytes > LOOSE * field.nbytes as u64 + LOOSE_BYTES {
            return (0, 0);
        }
        let mut entries = vec![0; (last - first) as usize * 8];
        if pages.read_exact_at(&mut entries, first * 8).is_err() {
            return (0, 0);
        }
        let is_there = |entry: u64| {
            let held = entry & SWAPPED != 0 || (entry & PRESENT != 0 && entry & EXCLUSIVE != 0);
            held && entry & OF_A_FILE == 0
        };
        let words = entries.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        (words.filter(|entry| !is_there(*entry)).count() as u64, last - first)
    }

    /// Copies a result to where no cell reaches it, element by element in the order of its indices.
    pub(crate) fn read(&self, claim: &Claim, field: &OutputField, into: &mut [u8]) -> std::result::Result<(), Verdict> {
        if field.nbytes == 0 {
            return Ok(());
        }
        if is_contiguous(claim, field) {
            return self.memory.read_exact_at(into, claim.at).map_err(|_| unreadable());
        }
        let span = self.span(claim, field)?;
        for (place, from) in offsets(claim, field).enumerate() {
            into[place * field.item..(place + 1) * field.item].copy_from_slice(&span[from..from + field.item]);
        }
        Ok(())
    }

    /// Fills a result with the pattern; a verdict where two of its pages turn out to be one.
    pub(crate) fn fill(
        &self,
        claim: &Claim,
        field: &OutputField,
        pattern: Pattern,
    ) -> std::result::Result<(), Verdict> {
        if field.nbytes == 0 || field.shares {
            return Ok(());
        }
        if is_contiguous(claim, field) {
            let mut piece = vec![0; field.nbytes.min(PIECE)];
            for start in (0..field.nbytes).step_by(PIECE) {
                let length = (field.nbytes - start).min(PIECE);
                pattern.write(start, &mut piece[..length]);
                self.memory.write_all_at(&piece[..length], claim.at + start as u64).map_err(|_| unwritable())?;
            }
            for start in std::iter::once(0).chain(later_pages(claim.at, field.nbytes)) {
                let length = (field.nbytes - start).min(8);
                let (mut found, mut wanted) = ([0; 8], [0; 8]);
                self.memory.read_exact_at(&mut found[..length], claim.at + start as u64).map_err(|_| unreadable())?;
                pattern.write(start, &mut wanted[..length]);
                if found != wanted {
                    return Err(shared());
                }
            }
            return Ok(());
        }
        let wanted = pattern.bytes(0, field.nbytes);
        let mut span = self.span(claim, field)?;
        for (place, to) in offsets(claim, field).enumerate() {
            span[to..to + field.item].copy_from_slice(&wanted[place * field.item..(place + 1) * field.item]);
        }
        self.memory.write_all_at(&span, claim.at).map_err(|_| unwritable())?;
        if self.span(claim, field)? == span { Ok(()) } else { Err(shared()) }
    }

    /// Whether the pattern is still there, by some pages that are drawn by chance.
    pub(crate) fn is_filled(&self, claim: &Claim, field: &OutputField, pattern: Pattern) -> Result<bool> {
        if field.nbytes == 0 || field.shares {
            return Ok(true);
        }
        let mut chance = [0; 8 * LOOKS];
        fill_random(&mut chance)?;
        let drawn = chance.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()) as usize);
        if is_contiguous(claim, field) {
            let chunk = field.nbytes.min(512);
            let last = field.nbytes - chunk;
            let starts = drawn.map(|word| word % (last + 1)).chain([0, last]);
            let mut found = vec![0; chunk];
            for start in starts {
                if self.memory.read_exact_at(&mut found, claim.at + start as u64).is_err()
                    || found != pattern.bytes(start, chunk)
                {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let Ok(span) = self.span(claim, field) else { return Ok(false) };
        let wanted = pattern.bytes(0, field.nbytes);
        let is_as_left = |(wanted, at): (&[u8], usize)| span[at..at + field.item] == *wanted;
        Ok(wanted.chunks_exact(field.item).zip(offsets(claim, field)).all(is_as_left))
    }

    fn span(&self, claim: &Claim, field: &OutputField) -> std::result::Result<Vec<u8>, Verdict> {
        let Some((start, bytes)) = claim.span(field) else { return Err(unreadable()) };
        if bytes > LOOSE * field.nbytes as u64 + LOOSE_BYTES {
            let text = "an output is a thin view of much more memory; return a dense tensor";
            return Err(Verdict::of(Kind::Strides, text));
        }
        let mut span = vec![0; bytes as usize];
        self.memory.read_exact_at(&mut span, start).map_err(|_| unreadable())?;
        Ok(span)
    }
}

/// Where later pages begin, counted from the start of a result.
fn later_pages(at: u64, nbytes: usize) -> impl Iterator<Item = usize> {
    let first = (PAGE - at % PAGE) as usize;
    (first..nbytes).step_by(PAGE as usize)
}

fn is_contiguous(claim: &Claim, field: &OutputField) -> bool {
    let mut expected = 1;
    for (size, stride) in field.shape.iter().zip(&claim.strides).rev() {
        if *size > 1 && u64::try_from(*stride) != Ok(expected) {
            return false;
        }
        expected *= (*size).max(1);
    }
    true
}

/// Byte offsets of all elements from the first one, in the order of their indices. Spans were found good before.
fn offsets<'a>(claim: &'a Claim, field: &'a OutputField) -> impl Iterator<Item = usize> + 'a {
    let mut index = vec![0_u64; field.shape.len()];
    let mut at = 0_u64;
    let stride = |dimension: usize| u64::try_from(claim.strides[dimension]).unwrap_or_default();
    (0..field.nbytes / field.item).map(move |_| {
        let here = at as usize * field.item;
        for dimension in (0..index.len()).rev() {
            index[dimension] += 1;
            at += stride(dimension);
            if index[dimension] < field.shape[dimension] {
                break;
            }
            at -= stride(dimension) * field.shape[dimension];
            index[dimension] = 0;
        }
        here
    })
}

fn unreadable() -> Verdict {
    Verdict::of(Kind::Type, "the memory of an output cannot be read: return a plain tensor")
}

fn unwritable() -> Verdict {
    Verdict::of(Kind::Type, "the memory of an output is read-only: return a tensor of its own")
}

fn shared() -> Verdict {
    let text = "parts of an output are the same memory, or something wrote to it after forward had returned: return a dense \
                tensor of its own, and finish all work on it before";
    Verdict::of(Kind::Alias, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn field(shape: &[u64]) -> OutputField {
        let nbytes = 4 * shape.iter().product::<u64>() as usize;
        OutputField { shape: shape.to_vec(), item: 4, offset: 0, nbytes, shares: false }
    }

    fn own() -> Window {
        Window::open(std::process::id()).unwrap()
    }

    #[test]
    fn pages_that_nobody_made_are_missing() {
        let bytes = 4 << 20;
        let count = |memory: &[u8]| {
            let claim = Claim { segment: 1, at: memory.as_ptr() as u64, strides: vec![1] };
            own().missing(&claim, &field(&[bytes as u64 / 4]))
        };
        let (written, all) = count(&vec![7; bytes]);
        assert!(written == 0 && all >= bytes as u64 / PAGE, "{written} of {all}");
        let (untouched, all) = count(&vec![0; bytes]);
        assert!(untouched > all / 2, "{untouched} of {all}");
    }

    #[allow(unsafe_code)]
    fn mapped_by_itself(file: &File, bytes: usize, flags: rustix::mm::MapFlags) -> &'static mut [u8] {
        use rustix::mm::{ProtFlags, mmap};
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where; the file is this test's own, and nobody shortens it.
        let at = unsafe { mmap(std::ptr::null_mut(), bytes, rights, flags, file, 0) }.unwrap();
        // SAFETY: just mapped for reading and writing, and never unmapped.
        unsafe { std::slice::from_raw_parts_mut(at.cast::<u8>(), bytes) }
    }

    #[test]
    fn pages_of_a_file_are_missing_until_they_are_copies() {
        use rustix::mm::MapFlags;
        let bytes = 64 * PAGE as usize;
        let count = |memory: &[u8]| {
            let claim = Claim { segment: 1, at: memory.as_ptr() as u64, strides: vec![1] };
            own().missing(&claim, &field(&[bytes as u64 / 4]))
        };
        for flags in [MapFlags::PRIVATE, MapFlags::SHARED] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![0; bytes]).unwrap();
            let memory = mapped_by_itself(&file, bytes, flags);
            assert!(memory.iter().all(|byte| *byte == 0));
            assert_eq!(count(memory), (64, 64), "read, and not one is its own");
            std::hint::black_box(&mut *memory).fill(1);
            let missing = if flags == MapFlags::PRIVATE { 0 } else { 64 };
            assert_eq!(count(memory), (missing, 64), "written");
        }
    }

    #[test]
    fn a_strided_result_is_read_in_the_order_of_its_indices() {
        let memory: Vec<u32> = (0..64).collect();
        let transposed = Claim { segment: 1, at: memory.as_ptr() as u64, strides: vec![1, 8] };
        let mut taken = vec![0; 256];
        own().read(&transposed, &field(&[8, 8]), &mut taken).unwrap();
        let words: Vec<u32> = taken.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
        assert_eq!(words[..3], [0, 8, 16]);
        assert_eq!(words[8..11], [1, 9, 17]);
    }

    #[test]
    fn what_is_written_over_a_filled_result_shows() {
        let mut memory = vec![0_u8; 40_000];
        let pattern = Pattern::draw().unwrap();
        for strides in [vec![100, 1], vec![1, 100]] {
            let claim = Claim { segment: 1, at: memory.as_mut_ptr() as u64, strides };
            own().fill(&claim, &field(&[100, 100]), pattern).unwrap();
            assert!(own().is_filled(&claim, &field(&[100, 100]), pattern).unwrap());
        }
        let claim = Claim { segment: 1, at: memory.as_mut_ptr() as u64, strides: vec![100, 1] };
        std::hint::black_box(&mut memory).fill(0);
        assert!(!own().is_filled(&claim, &field(&[100, 100]), pattern).unwrap());
    }

    /// Two pages of a file, and the same two right behind them.
    #[allow(unsafe_code)]
    fn mapped_twice(file: &File) -> u64 {
        use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where.
        let room = unsafe { mmap_anonymous(std::ptr::null_mut(), 16384, rights, MapFlags::PRIVATE) }.unwrap();
        for half in [0, 8192] {
            // SAFETY: over the room that was just made, which nobody else knows of.
            let there = unsafe { room.byte_add(half) };
            let fixed = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: the same; the file is this test's own.
            unsafe { mmap(there, 8192, rights, fixed, file, 0) }.unwrap();
        }
        room as u64
    }

    #[test]
    fn pages_that_are_mapped_twice_show() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let at = mapped_twice(&file);
        let pattern = Pattern::draw().unwrap();
        // As a dense tensor, and as one of which only elements far apart are the same.
        for (shape, strides) in [(vec![4096], vec![1]), (vec![2, 1024], vec![2048, 1]), (vec![2048, 2], vec![1, 2048])]
        {
            let claim = Claim { segment: 1, at, strides };
            let found = own().fill(&claim, &field(&shape), pattern);
            assert_eq!(found.unwrap_err().kind, Some(Kind::Alias), "{shape:?}");
        }
        let half = Claim { segment: 1, at: at + 4096, strides: vec![1] };
        own().fill(&half, &field(&[2048]), pattern).unwrap();
    }

    #[test]
    fn a_thin_view_of_much_memory_is_told_so() {
        let memory = [0_u8; 64];
        let claim = Claim { segment: 1, at: memory.as_ptr() as u64, strides: vec![1 << 20] };
        let found = own().read(&claim, &field(&[64]), &mut [0; 256]).unwrap_err();
        assert_eq!(found.kind, Some(Kind::Strides));
    }

    #[test]
    fn a_write_of_one_element_of_a_strided_result_shows() {
        let mut memory = vec![0_u8; 4096];
        let (claim, field) =
            (Claim { segment: 1, at: memory.as_mut_ptr() as u64, strides: vec![16, 2] }, field(&[8, 8]));
        let pattern = Pattern::draw().unwrap();
        own().fill(&claim, &field, pattern).unwrap();
        std::hint::black_box(&mut memory)[4..8].fill(7);
        assert!(own().is_filled(&claim, &field, pattern).unwrap(), "what lies between is nobody's");
        std::hint::black_box(&mut memory)[8..12].fill(7);
        assert!(!own().is_filled(&claim, &field, pattern).unwrap());
    }

    #[test]
    fn patterns_differ_from_result_to_result_and_from_page_to_page() {
        let (one, other) = (Pattern::draw().unwrap(), Pattern::draw().unwrap());
        assert_ne!(one.bytes(0, 12288), other.bytes(0, 12288));
        let pages: Vec<Vec<u8>> = (0..3).map(|page| one.bytes(page * 4096, 4096)).collect();
        assert!(pages[0] != pages[1] && pages[1] != pages[2] && pages[0] != pages[2]);
        // Knowing a part of one tells nothing of what lies there in another.
        let apart = |at: usize| u64::from_le_bytes(one.word(at)) ^ u64::from_le_bytes(other.word(at));
        assert_ne!(apart(0), apart(1));
    }

    #[test]
    fn a_pattern_is_the_same_from_wherever_it_is_looked_at() {
        let pattern = Pattern::draw().unwrap();
        let whole = pattern.bytes(0, 100);
        for (start, length) in [(0, 8), (3, 4), (3, 40), (96, 4), (7, 93), (50, 0)] {
            assert_eq!(pattern.bytes(start, length), whole[start..start + length], "{start} {length}");
        }
    }

    #[test]
    fn a_large_result_is_filled_whole() {
        let mut memory = vec![0_u8; 3 * PIECE + 12];
        let whole = field(&[memory.len() as u64 / 4]);
        let claim = Claim { segment: 1, at: memory.as_mut_ptr() as u64, strides: vec![1] };
        let pattern = Pattern::draw().unwrap();
        own().fill(&claim, &whole, pattern).unwrap();
        assert_eq!(*std::hint::black_box(&mut memory), pattern.bytes(0, 3 * PIECE + 12));
    }

    #[test]
    fn an_address_that_is_nobodys_is_an_answer() {
        let claim = Claim { segment: 1, at: 16, strides: vec![1] };
        assert!(own().read(&claim, &field(&[8]), &mut [0; 32]).is_err());
    }
}
