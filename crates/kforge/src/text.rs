//! Foreign text made safe to show: control characters out, size bounded, fenced so that it cannot end its own block.
//!
//! Candidates, compilers, profilers and models write what ends up in the next prompt. Nothing here judges such text; it
//! only makes sure that it stays inside the place that was given to it.

use std::path::Path;

/// Line ends become `\n`; terminal colours, control characters, and characters that reorder or hide text are removed.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => {
                // A lone one is how progress bars overwrite themselves: a line end is the honest reading.
                if chars.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\u{1b}' => skip_escape(&mut chars),
            '\n' | '\t' => out.push(c),
            _ if c.is_control() || is_invisible(c) => {}
            _ => out.push(c),
        }
    }
    out
}

/// What follows ESC: a colour or cursor sequence up to its final letter, or a title up to its end.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            while let Some(c) = chars.next_if(|c| (' '..='~').contains(c)) {
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
        Some(']') => while chars.next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\n')).is_some() {},
        _ => {}
    }
}

/// Bidirectional overrides, zero-width characters and tags: what a reader sees would not be what is there.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// The last part of a path, as text.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// One line: every run of white space is one blank.
pub(crate) fn one_line(text: &str, cap: usize) -> String {
    let line = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= cap {
        return line;
    }
    format!("{}...", &line[..line.floor_char_boundary(cap.saturating_sub(3))])
}

/// At most about `cap` bytes: the middle is replaced by a line that says how much was left out.
pub(crate) fn cut(text: &str, cap: usize) -> String {
    if text.len() <= cap {
        return text.to_owned();
    }
    let half = cap / 2;
    let mut head = text.floor_char_boundary(half);
    let mut tail = text.ceil_char_boundary(text.len() - half);
    // Whole lines where that costs little: half a line of code misleads.
    if let Some(at) = text[..head].rfind('\n').filter(|at| head - at < half / 4) {
        head = at + 1;
    }
    if let Some(at) = text[tail..].find('\n').filter(|at| *at < half / 4) {
        tail += at + 1;
    }
    let (first, last) = (&text[..head], &text[tail..]);
    let joint = if first.is_empty() || first.ends_with('\n') { "" } else { "\n" };
    format!("{first}{joint}[... {} of {} bytes left out here ...]\n{last}", tail - head, text.len())
}

/// Cleaned and cut.
pub(crate) fn tame(text: &str, cap: usize) -> String {
    cut(&clean(text), cap)
}

/// A fenced block whose fence is longer than any run of backticks inside.
pub(crate) fn fenced(text: &str, info: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let text = text.trim_end_matches('\n');
    format!("{fence}{info}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_and_colours_are_gone() {
        assert_eq!(clean("a\r\nb\rc\u{0}\u{7}"), "a\nb\nc");
        assert_eq!(clean("\u{1b}[1;31merror\u{1b}[0m: x"), "error: x");
        assert_eq!(clean("\u{1b}]0;title\u{7}x"), "x");
        assert_eq!(clean("a\u{202e}b\u{200b}c\u{e0041}"), "abc");
        assert_eq!(clean("\u{1b}["), "");
    }

    #[test]
    fn the_middle_goes_and_says_so() {
        let text = (0..100).map(|n| format!("line {n:03}\n")).collect::<Vec<_>>().concat();
        let short = cut(&text, 200);
        assert!(short.starts_with("line 000\n") && short.ends_with("line 099\n"), "{short}");
        assert!(short.contains("of 900 bytes left out here ...]\n"), "{short}");
        assert_eq!(cut("short", 200), "short");
    }

    #[test]
    fn a_fence_is_longer_than_any_inside() {
        assert_eq!(fenced("x = 1\n", "python"), "```python\nx = 1\n```");
        assert!(fenced("```\nout\n````", "text").starts_with("`````text\n"));
        assert_eq!(fenced("", ""), "```\n\n```");
    }

    proptest! {
        #[test]
        fn cut_stays_within_its_cap(text in any::<String>(), cap in 0usize..64) {
            let short = cut(&text, cap);
            prop_assert!(short.len() <= text.len().max(cap + 64));
            prop_assert!(one_line(&text, cap).len() <= cap.max(3));
            let again = clean(&text);
            prop_assert_eq!(clean(&again), again);
        }
    }
}
