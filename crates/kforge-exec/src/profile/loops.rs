//! Where the loops of a C++ source are: enough of a scanner to tell nesting, nothing more.

/// Beyond these the text is not a kernel but an attempt to keep us busy.
const MOST_LOOPS: usize = 2000;
const LONGEST_HEADER: usize = 4000;

/// One loop: the lines of its header and of its body, counted from 1, and how many loops are around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loop {
    pub(super) line: usize,
    pub(super) last: usize,
    pub(super) depth: usize,
    pub(super) innermost: bool,
}

enum Open {
    /// A block that is no loop.
    Block,
    /// A loop's block, by its place in the list.
    Body(usize),
    /// A loop whose body is one statement.
    Statement(usize),
}

/// Every `for` and `while` with its extent. Hostile text gives wrong loops at worst.
pub(super) fn loops(source: &str) -> Vec<Loop> {
    let text = blank_comments(source);
    let bytes = text.as_bytes();
    let mut found: Vec<Loop> = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut line = 1;
    let mut at = 0;
    while at < bytes.len() && found.len() < MOST_LOOPS {
        match bytes[at] {
            b'\n' => line += 1,
            b'{' => open.push(Open::Block),
            b'}' => {
                close(&mut open, &mut found, line, |entry| !matches!(entry, Open::Statement(_)));
                end_statements(&mut open, &mut found, line);
            }
            b';' => end_statements(&mut open, &mut found, line),
            _ => {
                if let Some(word) = ["for", "while"].into_iter().find(|word| is_word(bytes, at, word))
                    && let Some(end) = header_end(bytes, at + word.len())
                {
                    let depth = open.iter().filter(|entry| !matches!(entry, Open::Block)).count();
                    let place = found.len();
                    found.push(Loop { line, last: line, depth, innermost: true });
                    line += text[at..end].matches('\n').count();
                    at = end;
                    let brace = bytes[at..].iter().position(|b| !b.is_ascii_whitespace()).map(|skip| at + skip);
                    if let Some(brace) = brace.filter(|&brace| bytes[brace] == b'{') {
                        line += text[at..brace].matches('\n').count();
                        at = brace + 1;
                        open.push(Open::Body(place));
                    } else {
                        open.push(Open::Statement(place));
                    }
                    continue;
                }
            }
        }
        at += 1;
    }
    mark_innermost(&mut found);
    found
}

/// Pops until an entry that `is_end` takes; loops among them end here.
fn close(open: &mut Vec<Open>, found: &mut [Loop], line: usize, is_end: impl Fn(&Open) -> bool) {
    while let Some(entry) = open.pop() {
        if let Open::Body(place) | Open::Statement(place) = entry {
            found[place].last = line;
        }
        if is_end(&entry) {
            return;
        }
    }
}

fn end_statements(open: &mut Vec<Open>, found: &mut [Loop], line: usize) {
    while let Some(Open::Statement(place)) = open.last() {
        found[*place].last = line;
        open.pop();
    }
}

fn mark_innermost(found: &mut [Loop]) {
    for index in 0..found.len() {
        let outer = found[index];
        // Loops are listed as they begin: the next one lies inside exactly if it is deeper.
        found[index].innermost = found.get(index + 1).is_none_or(|next| next.depth <= outer.depth);
    }
}

fn is_word(bytes: &[u8], at: usize, word: &str) -> bool {
    let letter = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    bytes[at..].starts_with(word.as_bytes())
        && !(at > 0 && letter(&bytes[at - 1]))
        && !bytes.get(at + word.len()).is_some_and(letter)
}

/// Behind the parenthesis that closes the header.
fn header_end(bytes: &[u8], from: usize) -> Option<usize> {
    let start = from + bytes[from..].iter().position(|b| !b.is_ascii_whitespace())?;
    let mut depth = 0_usize;
    for (offset, byte) in bytes[start..].iter().take(LONGEST_HEADER).enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth <= 1 => return Some(start + offset + 1),
            b')' => depth -= 1,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Comments, strings, characters and preprocessor lines become spaces; line breaks stay.
fn blank_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut line_start = true;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") || (line_start && first == '#') {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            literal_end(rest, '"')
        } else if first == '\'' && !out.ends_with(|c: char| c.is_ascii_alphanumeric()) {
            literal_end(rest, '\'')
        } else {
            line_start = first == '\n' || (line_start && first.is_whitespace());
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        out.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &rest[length..];
    }
    out
}

fn literal_end(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return at,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(source: &str) -> Vec<(usize, usize, usize, bool)> {
        loops(source).iter().map(|l| (l.line, l.last, l.depth, l.innermost)).collect()
    }

    #[test]
    fn nesting_is_told_with_and_without_braces() {
        let source = "void f() {\n  #pragma omp parallel for\n  for (int r = 0; r < n; ++r) {\n    \
                      for (int c = 0; c < m; ++c) y[c] = 1; // for (;;)\n    while (x) { --x; }\n  }\n  \
                      for (;;) for (;;)\n    z();\n}\n";
        assert_eq!(
            shape(source),
            [(3, 6, 0, false), (4, 4, 1, true), (5, 5, 1, true), (7, 8, 0, false), (7, 8, 1, true)]
        );
    }

    #[test]
    fn words_in_strings_comments_and_names_are_no_loops() {
        assert!(
            loops("int for_each(int); /* for (;;) */ auto s = \"for (;;)\"; char c = '{'; x.wait_for(1);").is_empty()
        );
        assert_eq!(loops("for (int i = 0; i < 1'000; ++i) f(i);").len(), 1);
    }

    #[test]
    fn nonsense_does_not_break_it() {
        for text in ["for (", "}}}}", "for (;;", "while", "\"", "/*", "for for (((", "'", "{{{{ for (;;) {"] {
            loops(text);
        }
    }
}
