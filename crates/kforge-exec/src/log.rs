//! What hostile processes print: read so that they never block, kept to a bounded head and tail, never believed.

use std::{
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};

const HEAD: usize = 16 * 1024;
const TAIL: usize = 16 * 1024;

/// A pipe's reading end, drained by a thread for as long as somebody holds the other end.
#[derive(Clone)]
pub(crate) struct Log {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    tail: Vec<u8>,
    dropped: usize,
}

impl Kept {
    fn push(&mut self, mut data: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len()).min(data.len());
        self.head.extend_from_slice(&data[..room]);
        data = &data[room..];
        self.tail.extend_from_slice(data);
        if self.tail.len() > 2 * TAIL {
            let cut = self.tail.len() - TAIL;
            self.tail.drain(..cut);
            self.dropped += cut;
        }
    }
}

impl Log {
    pub(crate) fn drain(from: OwnedFd) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = Arc::clone(&kept);
        std::thread::spawn(move || {
            let mut file = File::from(from);
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(n) = file.read(&mut buffer) {
                if n == 0 {
                    break;
                }
                shared.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..n]);
            }
        });
        Self { kept }
    }

    /// What is kept, as printable text.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = kept.head.clone();
        if kept.dropped > 0 {
            bytes.extend(format!("\n[... {} bytes left out ...]\n", kept.dropped).into_bytes());
        }
        bytes.extend(&kept.tail);
        printable(&String::from_utf8_lossy(&bytes))
    }
}

/// Control characters, except line breaks and tabs, would let a candidate write to the user's terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{FFFD}' } else { c }).collect()
}

/// Printable, and at most so many characters of it, with a mark where it was cut.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    let text = printable(text);
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{} [...]", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_in_the_middle() {
        let mut kept = Kept::default();
        for i in 0..10_000_u32 {
            kept.push(format!("line {i}\n").as_bytes());
        }
        assert!(kept.head.starts_with(b"line 0\n"));
        assert!(kept.tail.ends_with(b"line 9999\n"));
        assert!(kept.head.len() + kept.tail.len() <= HEAD + 2 * TAIL);
        assert!(kept.dropped > 0);
    }

    #[test]
    fn escape_sequences_do_not_survive() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\u{FFFD}[2Jb\n");
        assert_eq!((bounded("\u{1b}éab", 2), bounded("é", 1)), ("\u{FFFD}é [...]".to_owned(), "é".to_owned()));
    }
}
