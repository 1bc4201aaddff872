//! Fenced blocks of Markdown, as models write them.

/// A line that could begin or end a block.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// Index of the line.
    line: usize,
    indent: usize,
    symbol: char,
    length: usize,
    /// Nothing but white space follows, so that it may also end a block.
    bare: bool,
}

/// One fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// What stands after the opening fence.
    pub(crate) info: String,
    pub(crate) text: String,
    /// Whether its closing fence came.
    pub(crate) closed: bool,
    /// The last line of prose before it that is not blank.
    pub(crate) before: String,
}

/// The blocks of a text and the prose around them.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) blocks: Vec<Block>,
    pub(crate) prose: String,
}

/// How often `is_whole` is asked at most: it parses.
const MOST_QUESTIONS: usize = 24;
/// Closing fences that are tried for one block.
const MOST_CLOSERS: usize = 8;

/// Splits a text into blocks and prose.
///
/// A block ends at the first line that may close it. Where several could, because a docstring inside has fences of the
/// same length, `is_whole` is asked and the first end that makes a whole source is taken.
pub(crate) fn parse(text: &str, is_whole: &dyn Fn(&str) -> bool) -> Parsed {
    let lines: Vec<&str> = text.lines().collect();
    let marks: Vec<Mark> = lines.iter().enumerate().filter_map(|(line, text)| mark(line, text)).collect();
    let mut parsed = Parsed::default();
    let mut questions = MOST_QUESTIONS;
    let (mut line, mut next) = (0, 0);
    while next < marks.len() {
        let open = marks[next];
        let prose = &lines[line..open.line];
        parsed.prose.extend(prose.iter().flat_map(|line| [*line, "\n"]));
        let before = prose.iter().rev().find(|line| !line.trim().is_empty()).unwrap_or(&"").trim().to_owned();
        let info = lines[open.line].trim_start().trim_start_matches(open.symbol).trim().to_owned();
        let closers = marks[next + 1..].iter().enumerate().filter(|(_, mark)| closes(&open, mark));
        let closers: Vec<(usize, Mark)> = closers.map(|(at, mark)| (next + 1 + at, *mark)).take(MOST_CLOSERS).collect();
        let content = |end: usize| inner(&lines[open.line + 1..end], open.indent);
        let Some(first) = closers.first().copied() else {
            parsed.blocks.push(Block { info, text: content(lines.len()), closed: false, before });
            return parsed;
        };
        let mut chosen = first;
        if closers.len() > 1 {
            let whole = closers.iter().find(|(_, mark)| {
                questions = questions.saturating_sub(1);
                questions > 0 && is_whole(&content(mark.line))
            });
            chosen = whole.copied().unwrap_or(first);
        }
        parsed.blocks.push(Block { info, text: content(chosen.1.line), closed: true, before });
        line = chosen.1.line + 1;
        next = chosen.0 + 1;
    }
    parsed.prose.extend(lines[line.min(lines.len())..].iter().flat_map(|line| [*line, "\n"]));
    parsed
}

fn mark(line: usize, text: &str) -> Option<Mark> {
    let rest = text.trim_start_matches([' ', '\t']);
    let symbol = rest.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = rest.trim_start_matches(symbol);
    let length = rest.len() - info.len();
    // Backticks after backticks are code within a sentence.
    let inline = symbol == '`' && info.contains('`');
    (length >= 3 && !inline).then(|| Mark {
        line,
        indent: text.len() - rest.len(),
        symbol,
        length,
        bare: info.trim().is_empty(),
    })
}

fn closes(open: &Mark, mark: &Mark) -> bool {
    mark.bare && mark.symbol == open.symbol && mark.length >= open.length && mark.indent <= open.indent + 3
}

/// The lines of a block; one that is indented as a whole (in a list) loses that indentation.
fn inner(lines: &[&str], indent: usize) -> String {
    let mut text = String::new();
    for line in lines {
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        text.push_str(&line[blank.min(indent)..]);
        text.push('\n');
    }
    text
}
