//! Patterns that users ban or require.
//!
//! Names are looked up as the rules do it, through imports and aliases, so that no spelling gets around a pattern by
//! accident. Regular expressions take time linear in the source.

use std::fmt;
use std::str::FromStr;

use kforge_types::{Finding, Severity};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::native::{Kind, Native};
use crate::resolve::{canonical, is_made, shown, within};

/// Longer patterns are mistakes.
const MAX_PATTERN: usize = 1000;
/// Compiled size of a regular expression.
const MAX_REGEX: usize = 1 << 20;
/// More places for one pattern help nobody.
const MAX_FINDINGS: usize = 20;
/// One match costs time linear in the source, all of them may cost its square.
const MAX_MATCHES: usize = 200;

/// Something that a candidate must have or must not have; made from its text by [`str::parse`].
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    Regex(Regex),
    /// A path of imported or built-in things.
    Path(Ending, Reference),
    /// An attribute of whatever object.
    Member(Ending, Reference),
    /// Words of native code with `::` between them.
    Native(Vec<String>, Ending),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reference {
    Any,
    Call,
}

#[derive(Debug, Clone)]
enum Ending {
    Exact(String),
    /// The text before a final `*`.
    Prefix(String),
}

impl Ending {
    fn new(text: &str) -> Self {
        text.strip_suffix('*').map_or_else(|| Self::Exact(text.to_owned()), |start| Self::Prefix(start.to_owned()))
    }

    fn fits(&self, text: &str) -> bool {
        match self {
            Self::Exact(wanted) => text == wanted,
            Self::Prefix(start) => text.starts_with(start.as_str()),
        }
    }

    /// As [`Self::fits`], where a thing stands for its members too.
    fn fits_path(&self, path: &str) -> bool {
        match self {
            Self::Exact(wanted) => within(path, wanted),
            Self::Prefix(_) => self.fits(path),
        }
    }
}

/// A text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{pattern}` is not a pattern: {reason}; write a name such as `torch.matmul`, `torch.matmul()` or \
     `torch.nn.functional.*`, an attribute such as `.half()`, `cpp:WORD` for a word of native code, or `re:REGEX`"
)]
pub struct PatternError {
    /// The text, cut to 200 characters.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = if text.len() > MAX_PATTERN {
            Err(format!("it is longer than {MAX_PATTERN} bytes"))
        } else if text.contains(char::is_control) {
            Err("it has a line break or another control character; in a regular expression write `\\n`".to_owned())
        } else if let Some(expression) = text.strip_prefix("re:") {
            regex(expression)
        } else if let Some(words) = text.strip_prefix("cpp:") {
            native(words)
        } else {
            name(text)
        };
        let refused = |reason| PatternError { pattern: text.chars().take(200).collect(), reason };
        Ok(Self { text: text.to_owned(), form: form.map_err(refused)? })
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

/// The same text is the same pattern.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn regex(expression: &str) -> Result<Form, String> {
    let built = RegexBuilder::new(expression).multi_line(true).size_limit(MAX_REGEX).build();
    let found = built.map_err(|error| {
        // The library draws the place over several lines; its last line says what is wrong.
        let text = error.to_string();
        text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
    })?;
    if found.is_match("") {
        return Err("it matches the empty text, and so every file".to_owned());
    }
    Ok(Form::Regex(found))
}

fn native(words: &str) -> Result<Form, String> {
    let mut parts: Vec<String> = words.split("::").map(str::to_owned).collect();
    let last = parts.pop().unwrap_or_default();
    if !parts.iter().all(|part| is_identifier(part)) || !is_identifier(last.strip_suffix('*').unwrap_or(&last)) {
        return Err("`cpp:` takes one word, or words with `::` between them".to_owned());
    }
    Ok(Form::Native(parts, Ending::new(&last)))
}

fn name(text: &str) -> Result<Form, String> {
    let (named, reference) = text.strip_suffix("()").map_or((text, Reference::Any), |name| (name, Reference::Call));
    let (path, member) = named.strip_prefix('.').map_or((named, false), |name| (name, true));
    let plain = path.strip_suffix('*').map_or(path, |start| start.strip_suffix('.').unwrap_or(start));
    if plain.is_empty() {
        return Err("it has no name".to_owned());
    }
    if let Some(part) = plain.split('.').find(|part| !is_identifier(part)) {
        return Err(format!("`{part}` is not a name"));
    }
    if member && plain.contains('.') {
        return Err("an attribute has one name".to_owned());
    }
    Ok(if member {
        Form::Member(Ending::new(path), reference)
    } else {
        Form::Path(Ending::new(&canonical(path)), reference)
    })
}

fn is_identifier(text: &str) -> bool {
    let first = |c: char| c == '_' || c.is_alphabetic();
    text.starts_with(first) && text.chars().all(|c| first(c) || c.is_alphanumeric())
}

/// Asks all patterns of the settings.
pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let settings = context.settings;
    let is_regex = |pattern: &&Pattern| matches!(pattern.form, Form::Regex(_));
    let patterns = || settings.banned.iter().chain(&settings.required);
    let code = if patterns().any(|pattern| is_regex(&pattern)) { context.ast.code() } else { String::new() };
    for pattern in &settings.banned {
        let mut sink = Sink::new(context.ast, "ban", Severity::Hard);
        for (byte, found) in pattern.places(context, &code) {
            let found: String = found.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
            sink.at_byte(byte, format!("`{found}` is banned here by the pattern `{pattern}`; do it in another way."));
            if sink.findings.len() == MAX_FINDINGS {
                break;
            }
        }
        findings.append(&mut sink.findings);
    }
    for pattern in &settings.required {
        if pattern.places(context, &code).next().is_none() {
            let mut sink = Sink::new(context.ast, "require", Severity::Hard);
            sink.at_byte(0, format!("required pattern `{pattern}` not found ({})", pattern.meaning()));
            findings.append(&mut sink.findings);
        }
    }
}

impl Pattern {
    /// Where the pattern fits: a byte of the source, and what stands there.
    fn places<'p>(&'p self, context: &'p Context<'p>, code: &'p str) -> Box<dyn Iterator<Item = (usize, String)> + 'p> {
        match &self.form {
            Form::Regex(regex) => Box::new(
                regex.find_iter(code).take(MAX_MATCHES).map(|found| (found.start(), found.as_str().to_owned())),
            ),
            Form::Path(wanted, reference) => Box::new(paths(context, wanted, *reference)),
            Form::Member(wanted, reference) => {
                let places = context.of_kind("attribute").filter(move |node| fits_reference(*node, *reference));
                let names = places.filter_map(|node| node.field("attribute"));
                let fitting = names.filter(move |name| wanted.fits(name.text()));
                Box::new(fitting.map(|name| (name.start(), format!(".{}", name.text()))))
            }
            Form::Native(before, last) => {
                Box::new(context.natives.iter().flat_map(move |native| words(native, before, last)))
            }
        }
    }

    /// For whoever has to satisfy it.
    fn meaning(&self) -> &'static str {
        match &self.form {
            Form::Regex(_) => "a regular expression on the text without comments and documentation",
            Form::Path(_, Reference::Any) => "the use of this name",
            Form::Path(_, Reference::Call) => "a call of this name",
            Form::Member(_, Reference::Any) => "the use of an attribute of this name",
            Form::Member(_, Reference::Call) => "a call of a method of this name",
            Form::Native(..) => "a word of native code in a string",
        }
    }
}

fn fits_reference(node: Node<'_>, reference: Reference) -> bool {
    let called = || node.role() == "function" && node.parent().is_some_and(|parent| parent.is("call"));
    reference == Reference::Any || called()
}

fn paths<'p>(
    context: &'p Context<'p>,
    wanted: &'p Ending,
    reference: Reference,
) -> impl Iterator<Item = (usize, String)> + 'p {
    // Built-in functions are known by their full path, and written without it. What a call returned has no name.
    let fits = move |path: &str| !is_made(path) && (wanted.fits_path(path) || wanted.fits_path(shown(path)));
    let used = context.references().filter(move |(node, path)| fits(path) && fits_reference(*node, reference));
    let used = used.map(|(node, path)| (node.start(), shown(path).to_owned()));
    let imports = if reference == Reference::Any { context.imports() } else { Vec::new() };
    let imported = imports.into_iter().filter(move |import| fits(&import.path));
    used.chain(imported.map(|import| (import.node.start(), import.path))).chain(operators(context, fits(OPERATOR.1)))
}

/// An operator of Python's, and the function that it stands for between tensors.
const OPERATOR: (&str, &str) = ("@", "torch.matmul");

/// Where it is written: `a @ b` and `a @= b`.
fn operators<'p>(context: &'p Context<'p>, wanted: bool) -> impl Iterator<Item = (usize, String)> + 'p {
    let of = |node: Node<'p>| {
        let operation = node.is_any(&["binary_operator", "augmented_assignment"]);
        let token = operation.then(|| node.field("operator")).flatten()?;
        (token.text().trim_end_matches('=') == OPERATOR.0).then(|| (token.start(), token.text().to_owned()))
    };
    context.ast.all().filter(move |_| wanted).filter_map(of)
}

fn words<'p>(native: &'p Native, before: &'p [String], last: &'p Ending) -> impl Iterator<Item = (usize, String)> + 'p {
    native.tokens.iter().enumerate().filter_map(move |(i, token)| {
        let qualified = before
            .iter()
            .rev()
            .enumerate()
            .all(|(k, word)| native.before(i, 2 * k + 1) == "::" && native.before(i, 2 * k + 2) == word);
        let fits = token.kind == Kind::Word && last.fits(&token.text) && qualified;
        fits.then(|| (token.at, shown_words(before, &token.text)))
    })
}

fn shown_words(before: &[String], last: &str) -> String {
    before.iter().map(String::as_str).chain([last]).collect::<Vec<_>>().join("::")
}
