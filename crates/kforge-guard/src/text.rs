//! Values of string expressions, with a way back from each byte to the source.

use std::cell::Cell;

use crate::ast::Node;
use crate::scope::{Scopes, Value};

/// Steps that one evaluation may take: names that refer to names could otherwise multiply without end.
const FUEL: u32 = 4096;
/// Names of things are short; only native code is long.
const MAX_NAME: usize = 4096;

/// A string as Python would see it.
#[derive(Default)]
pub(crate) struct Text {
    pub(crate) value: String,
    /// For each byte of `value`, where in the source it was written.
    origin: Vec<u32>,
    /// Whether every part is known. Unknown parts of an f-string stand as `_`.
    pub(crate) complete: bool,
}

impl Text {
    fn push(&mut self, c: char, at: usize) {
        self.value.push(c);
        self.origin.resize(self.value.len(), at as u32);
    }

    fn append(&mut self, other: &Text) {
        self.value.push_str(&other.value);
        self.origin.extend_from_slice(&other.origin);
        self.complete &= other.complete;
    }

    /// Source byte of a byte of `value`.
    pub(crate) fn origin(&self, at: usize) -> usize {
        self.origin.get(at).or(self.origin.last()).map_or(0, |byte| *byte as usize)
    }
}

/// The value of a short string expression whose every part is known.
pub(crate) fn constant(node: Node<'_>, scopes: &Scopes<'_>) -> Option<String> {
    evaluate(node, scopes, MAX_NAME).filter(|text| text.complete).map(|text| text.value)
}

/// The value of a short string expression, with `_` for the parts of f-strings that are not known.
pub(crate) fn prefix(node: Node<'_>, scopes: &Scopes<'_>) -> Option<String> {
    evaluate(node, scopes, MAX_NAME).map(|text| text.value)
}

/// The value of a string expression, with holes where parts are not known. Not a string, or longer than `limit`: `None`.
pub(crate) fn evaluate(node: Node<'_>, scopes: &Scopes<'_>, limit: usize) -> Option<Text> {
    Evaluator { scopes, fuel: Cell::new(FUEL), bytes: Cell::new(limit) }.expression(node, 0)
}

struct Evaluator<'e, 'a> {
    scopes: &'e Scopes<'a>,
    fuel: Cell<u32>,
    /// How much more may be read. Bounds the work where a long string is named often.
    bytes: Cell<usize>,
}

impl Evaluator<'_, '_> {
    fn expression(&self, node: Node<'_>, depth: u32) -> Option<Text> {
        let fuel = self.fuel.get().checked_sub(1)?;
        self.fuel.set(fuel);
        if depth > 64 {
            return None;
        }
        let node = node.unwrapped();
        match node.kind() {
            "string" => {
                self.bytes.set(self.bytes.get().checked_sub(node.text().len())?);
                Some(self.literal(node, depth))
            }
            "concatenated_string" => self.concatenate(node.children(), depth),
            "binary_operator" if node.field("operator")?.is("+") => self.sum(node, depth),
            "identifier" => match self.scopes.values(node) {
                [Value::Expr(value)] => self.expression(*value, depth + 1),
                _ => None,
            },
            "call" => self.join(node, depth),
            _ => None,
        }
    }

    fn concatenate<'n>(&self, parts: impl Iterator<Item = Node<'n>>, depth: u32) -> Option<Text> {
        let mut whole = Text { complete: true, ..Text::default() };
        for part in parts {
            whole.append(&self.expression(part, depth + 1)?);
        }
        Some(whole)
    }

    /// A chain of `+` leans to the left, as deep as it is long: walk its spine instead of recursing.
    fn sum(&self, node: Node<'_>, depth: u32) -> Option<Text> {
        let mut parts = Vec::new();
        let mut at = node;
        while at.is("binary_operator") && at.field("operator").is_some_and(|operator| operator.is("+")) {
            parts.push(at.field("right")?);
            at = at.field("left")?;
        }
        parts.push(at);
        self.concatenate(parts.into_iter().rev(), depth)
    }

    /// `"sep".join([...])` of known parts.
    fn join(&self, call: Node<'_>, depth: u32) -> Option<Text> {
        let function = call.field("function").filter(|function| function.is("attribute"))?;
        if function.field("attribute")?.text() != "join" {
            return None;
        }
        let separator = self.expression(function.field("object")?, depth + 1)?;
        let list = call.positional().next().filter(|list| list.is_any(&["list", "tuple"]))?;
        let mut whole = Text { complete: true, ..Text::default() };
        for (i, part) in list.children().enumerate() {
            if i > 0 {
                whole.append(&separator);
            }
            whole.append(&self.expression(part, depth + 1)?);
        }
        Some(whole)
    }

    fn literal(&self, string: Node<'_>, depth: u32) -> Text {
        let mut whole = Text { complete: true, ..Text::default() };
        let prefix = string.children().next().map_or("", Node::text).to_ascii_lowercase();
        let (raw, format) = (prefix.contains('r'), prefix.contains('f'));
        for part in string.children() {
            match part.kind() {
                "string_content" => decode(part, raw, format, &mut whole),
                "interpolation" => {
                    let value = part.children().next().and_then(|value| self.expression(value, depth + 1));
                    if let Some(value) = value.filter(|value| value.complete) {
                        whole.append(&value);
                    } else {
                        whole.push('_', part.start());
                        whole.complete = false;
                    }
                }
                _ => {}
            }
        }
        whole
    }
}

fn decode(content: Node<'_>, raw: bool, format: bool, whole: &mut Text) {
    let text = content.text();
    let base = content.start();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        if format && (c == '{' || c == '}') && next == Some(c) {
            chars.next();
            whole.push(c, base + at);
        } else if c != '\\' || raw {
            whole.push(c, base + at);
        } else if let Some((_, escape)) = chars.next() {
            let (radix, most) = match escape {
                '\n' => continue,
                'x' => (16, 2),
                'u' => (16, 4),
                'U' => (16, 8),
                '0'..='7' => (8, 2),
                _ => (0, 0),
            };
            if radix == 0 {
                if let Some(plain) = simple_escape(escape) {
                    whole.push(plain, base + at);
                } else {
                    whole.push('\\', base + at);
                    whole.push(escape, base + at);
                }
                continue;
            }
            let mut code = if radix == 8 { escape.to_digit(8).unwrap_or(0) } else { 0 };
            for _ in 0..most {
                let Some(digit) = chars.peek().and_then(|(_, digit)| digit.to_digit(radix)) else { break };
                code = code.wrapping_mul(radix).wrapping_add(digit);
                chars.next();
            }
            whole.push(char::from_u32(code).unwrap_or('\u{fffd}'), base + at);
        }
    }
}

fn simple_escape(escape: char) -> Option<char> {
    Some(match escape {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '\\' | '\'' | '"' => escape,
        _ => return None,
    })
}
