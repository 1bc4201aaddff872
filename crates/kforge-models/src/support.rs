//! What the models without a server share: how a request reads as text, its hash, counted tokens, pauses that can be
//! ended, and errors.

use crate::{CallError, CallErrorKind, Request, Speaker, Usage, Watch, estimate_tokens};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

/// How often a wait looks whether it should end.
const GLANCE: Duration = Duration::from_millis(100);

/// Said with every reply whose tokens nobody counted.
pub(crate) const ESTIMATED: &str = "tokens are estimated from the length of the text";

/// System text and conversation under headings, for people and for the comparison of prompts.
pub(crate) fn headed_text(request: &Request) -> String {
    let mut text = format!("# System\n\n{}\n", request.system.trim_end());
    for turn in &request.turns {
        let _ = write!(text, "\n# {}\n\n{}\n", speaker(turn.speaker), turn.text.trim_end());
    }
    text
}

/// The words of `headed_text` for programs that take one text: a single question needs no headings.
pub(crate) fn plain_text(request: &Request) -> String {
    match request.turns.as_slice() {
        [only] if request.system.trim().is_empty() => format!("{}\n", only.text.trim_end()),
        [only] => format!("{}\n\n{}\n", request.system.trim_end(), only.text.trim_end()),
        _ => format!("{}\nAnswer the last part, as the assistant.\n", headed_text(request)),
    }
}

fn speaker(speaker: Speaker) -> &'static str {
    match speaker {
        Speaker::User => "User",
        Speaker::Assistant => "Assistant",
    }
}

/// Hash of all that was asked, images and label included; the same for the same request, always.
pub(crate) fn request_hash(request: &Request) -> String {
    let mut hasher = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    // Fields in the order of their declaration: serde writes structs in that order.
    part(&serde_json::to_vec(request).unwrap_or_default());
    for image in &request.images {
        part(&image.bytes);
    }
    hex(&hasher.finalize())
}

/// Hash of one text.
pub(crate) fn text_hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What a request and its reply may have used, by the length of their texts.
pub(crate) fn estimated_usage(request: &Request, reply: &str) -> Usage {
    let turns: u64 = request.turns.iter().map(|turn| estimate_tokens(&turn.text)).sum();
    let input = estimate_tokens(&request.system) + turns;
    Usage { input: Some(input), output: Some(estimate_tokens(reply)), estimated: true, ..Usage::default() }
}

/// Sleeps; false when the watcher ended it.
pub(crate) fn pause(duration: Duration, watch: &dyn Watch) -> bool {
    let started = Instant::now();
    loop {
        if watch.cancelled() {
            return false;
        }
        let Some(left) = duration.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) else { return true };
        thread::sleep(left.min(GLANCE));
    }
}

/// An error after one attempt that cost nothing.
pub(crate) fn failure(kind: CallErrorKind, text: impl Into<String>) -> CallError {
    CallError { kind, text: text.into(), attempts: 1, may_be_billed: false }
}

/// Something is set up wrongly; nothing was sent.
pub(crate) fn setup(text: impl Into<String>) -> CallError {
    CallError { attempts: 0, ..failure(CallErrorKind::Setup, text) }
}

/// The watcher ended it.
pub(crate) fn cancelled(what: &str) -> CallError {
    failure(CallErrorKind::Cancelled, format!("{what} was cancelled; resume the run to go on"))
}

/// At most `limit` characters from the end of a text, in whole lines where there are several.
pub(crate) fn tail(text: &str, limit: usize) -> &str {
    let text = text.trim();
    let Some((start, _)) = text.char_indices().rev().nth(limit.saturating_sub(1)).filter(|(start, _)| *start > 0)
    else {
        return text;
    };
    let cut = &text[start..];
    cut.split_once('\n').map_or(cut, |(_, rest)| rest)
}

#[cfg(test)]
pub(crate) mod testing {
    //! Requests and watchers for the tests of this crate's models.

    use super::{Duration, Watch};
    use crate::{Label, Request, Speaker, Turn};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    pub(crate) fn label(role: &str, ordinal: u32) -> Label {
        Label {
            problem: "softmax".into(),
            problem_hash: "5f2c".repeat(16),
            target: "cpu/cpp".into(),
            role: role.into(),
            ordinal,
        }
    }

    pub(crate) fn request(role: &str, ordinal: u32, text: &str) -> Request {
        Request {
            label: label(role, ordinal),
            system: "You write kernels.".into(),
            turns: vec![Turn { speaker: Speaker::User, text: text.into() }],
            images: Vec::new(),
            max_output_tokens: None,
            temperature: None,
            effort: None,
        }
    }

    /// Remembers what it was told.
    #[derive(Default)]
    pub(crate) struct Ear {
        pub(crate) heard: Mutex<Vec<String>>,
        pub(crate) stop: AtomicBool,
    }

    impl Ear {
        pub(crate) fn heard(&self, part: &str) -> bool {
            self.heard.lock().unwrap().iter().any(|text| text.contains(part))
        }
    }

    impl Watch for Ear {
        fn waiting(&self, text: &str) {
            self.heard.lock().unwrap().push(text.to_owned());
        }

        fn cancelled(&self) -> bool {
            self.stop.load(Ordering::Relaxed)
        }
    }

    /// Looks until it is so. The bound only keeps a broken test from hanging.
    pub(crate) fn until(mut so: impl FnMut() -> bool) {
        for _ in 0..6000 {
            if so() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("it never became so");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Image, Turn, Unwatched};

    #[test]
    fn the_hash_sees_every_part_and_the_bytes_of_images() {
        let first = testing::request("generator", 1, "Write it.");
        let mut with_image = first.clone();
        with_image.images.push(Image { name: "chart".into(), media_type: "image/png".into(), bytes: vec![1] });
        let mut other_bytes = with_image.clone();
        other_bytes.images[0].bytes = vec![2];
        let mut other_label = first.clone();
        other_label.label.ordinal = 2;
        let hashes = [&first, &with_image, &other_bytes, &other_label].map(request_hash);
        assert_eq!(hashes.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
        assert_eq!(request_hash(&first), request_hash(&first.clone()));
    }

    #[test]
    fn one_question_is_plain_and_a_conversation_has_headings() {
        let mut request = testing::request("generator", 1, "Write it.");
        assert_eq!(plain_text(&request), "You write kernels.\n\nWrite it.\n");
        request.turns.push(Turn { speaker: Speaker::Assistant, text: "Done.".into() });
        request.turns.push(Turn { speaker: Speaker::User, text: "Faster.".into() });
        let text = plain_text(&request);
        assert!(text.contains("# User\n\nWrite it.\n\n# Assistant\n\nDone.\n\n# User\n\nFaster.\n"), "{text}");
    }

    #[test]
    fn tokens_are_estimated_and_marked() {
        let usage = estimated_usage(&testing::request("generator", 1, "12345"), "");
        assert_eq!((usage.input, usage.output, usage.estimated), (Some(5 + 2), Some(0), true));
    }

    #[test]
    fn a_tail_keeps_whole_lines_and_characters() {
        assert_eq!(tail("short\n", 100), "short");
        assert_eq!(tail("first line\nsecond\nthird", 10), "third");
        assert_eq!(tail("äöüäöü", 2), "öü");
    }

    #[test]
    fn a_pause_ends_when_it_is_cancelled() {
        let ear = testing::Ear::default();
        ear.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(!pause(Duration::from_hours(1), &ear));
        assert!(pause(Duration::ZERO, &Unwatched));
    }
}
