//! The C++ (CUDA, HIP, SYCL) that a candidate carries in its strings, as tokens.
//!
//! Comments are gone and lines are spliced before tokens are cut, so that neither a comment nor a broken line can
//! produce or hide a name.

use crate::MAX_SOURCE_BYTES;
use crate::ast::{Ast, Node};
use crate::scope::Scopes;
use crate::text::{self, Text};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Word,
    Mark,
    /// The inside of a string literal.
    Literal,
}

pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// Byte in the Python source.
    pub(crate) at: usize,
    /// Whether the token is in the body of a `#define`.
    pub(crate) in_macro: bool,
}

/// Words that a value may follow.
const STATEMENTS: &[&str] =
    &["return", "else", "do", "case", "throw", "and", "or", "not", "co_return", "co_await", "co_yield"];

/// One string of the candidate that reads like native code.
pub(crate) struct Native {
    pub(crate) tokens: Vec<Token>,
}

impl Native {
    /// Words that are free names: not members (`x.kill`, `x->kill`) and not of a namespace other than `std` or the global one.
    pub(crate) fn free_words(&self) -> impl Iterator<Item = (usize, &Token)> {
        self.tokens.iter().enumerate().filter(|(i, token)| {
            token.kind == Kind::Word
                && match self.before(*i, 1) {
                    "." | "->" => false,
                    "::" => !self.is_name(*i, 2) || self.before(*i, 2) == "std",
                    _ => true,
                }
        })
    }

    pub(crate) fn after(&self, i: usize) -> &str {
        self.tokens.get(i + 1).map_or("", |token| token.text.as_str())
    }

    pub(crate) fn before(&self, i: usize, steps: usize) -> &str {
        i.checked_sub(steps).and_then(|at| self.tokens.get(at)).map_or("", |token| token.text.as_str())
    }

    /// Whether a type stands before the word, as in `void kill();`. What is declared is harmless until it is called.
    pub(crate) fn is_declared(&self, i: usize) -> bool {
        self.is_name(i, 1)
    }

    /// Whether the token so many steps before is a name, unlike the `return` in `return ::fork()`.
    fn is_name(&self, i: usize, steps: usize) -> bool {
        let token = i.checked_sub(steps).and_then(|at| self.tokens.get(at));
        token.is_some_and(|token| token.kind == Kind::Word && !STATEMENTS.contains(&token.text.as_str()))
    }
}

/// All native code of a source: string expressions with the marks of code, documentation strings left out.
pub(crate) fn collect(ast: &Ast<'_>, scopes: &Scopes<'_>) -> Vec<Native> {
    let mut found = Vec::new();
    let mut skip_to = 0;
    let mut budget = 8 * MAX_SOURCE_BYTES;
    for node in ast.all() {
        if node.id() < skip_to || !node.is_any(&["string", "concatenated_string", "binary_operator", "call"]) {
            continue;
        }
        if node.parent().is_some_and(|parent| parent.is("expression_statement")) && !node.is("call") {
            continue;
        }
        // A call is evaluated for `"".join([...])` only; others have no value, and their arguments are seen on their own.
        // Once long strings were named often enough to use up the budget, only what is written in place is looked at.
        let limit = if node.is("string") { budget.max(node.text().len()) } else { budget.min(MAX_SOURCE_BYTES) };
        let Some(text) = text::evaluate(node, scopes, limit) else { continue };
        budget = budget.saturating_sub(text.value.len());
        skip_to = node.descendants().last().map_or(skip_to, Node::id) + 1;
        if text.value.contains([';', '{', '#']) {
            found.push(Native { tokens: tokens(&text) });
        }
    }
    found
}

struct Lexer<'t> {
    text: &'t Text,
    /// Characters with line splices removed.
    chars: Vec<(usize, char)>,
    at: usize,
    tokens: Vec<Token>,
    in_macro: bool,
    line_is_empty: bool,
}

fn tokens(text: &Text) -> Vec<Token> {
    let mut chars: Vec<(usize, char)> = Vec::with_capacity(text.value.len());
    for (at, c) in text.value.char_indices() {
        if c == '\n' && chars.last().is_some_and(|(_, last)| *last == '\\') {
            chars.pop();
        } else if c != '\r' {
            chars.push((at, c));
        }
    }
    let mut lexer = Lexer { text, chars, at: 0, tokens: Vec::new(), in_macro: false, line_is_empty: true };
    while lexer.at < lexer.chars.len() {
        lexer.step();
    }
    lexer.tokens
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).map_or('\0', |(_, c)| *c)
    }

    fn emit(&mut self, kind: Kind, start: usize, text: String) {
        let at = self.text.origin(self.chars[start].0);
        self.tokens.push(Token { kind, text, at, in_macro: self.in_macro });
    }

    fn slice(&self, start: usize, end: usize) -> String {
        self.chars[start..end.min(self.chars.len())].iter().map(|(_, c)| *c).collect()
    }

    fn step(&mut self) {
        let start = self.at;
        let c = self.peek(0);
        match (c, self.peek(1)) {
            ('\n', _) => {
                self.in_macro = false;
                self.line_is_empty = true;
                self.at += 1;
                return;
            }
            (c, _) if c.is_whitespace() => {
                self.at += 1;
                return;
            }
            ('/', '/') => {
                while self.at < self.chars.len() && self.peek(0) != '\n' {
                    self.at += 1;
                }
                return;
            }
            ('/', '*') => {
                self.at += 2;
                while self.at < self.chars.len() && (self.peek(0), self.peek(1)) != ('*', '/') {
                    self.at += 1;
                }
                self.at += 2;
                return;
            }
            ('#', _) if self.line_is_empty => self.directive(),
            ('R', '"') => self.raw_string(),
            ('"', _) => self.quoted(),
            ('\'', _) => self.character(),
            (c, _) if c.is_alphanumeric() || c == '_' => {
                // An apostrophe between digits separates them: 1'000.
                let number = c.is_ascii_digit();
                while self.peek(0).is_alphanumeric() || self.peek(0) == '_' || (number && self.peek(0) == '\'') {
                    self.at += 1;
                }
                let word = self.slice(start, self.at);
                self.emit(Kind::Word, start, word);
            }
            (a, b) => {
                let two = matches!((a, b), (':', ':') | ('-', '>'));
                self.at += if two { 2 } else { 1 };
                let mark = self.slice(start, self.at);
                self.emit(Kind::Mark, start, mark);
            }
        }
        self.line_is_empty = false;
    }

    fn directive(&mut self) {
        let start = self.at;
        self.at += 1;
        while matches!(self.peek(0), ' ' | '\t') {
            self.at += 1;
        }
        let word = self.at;
        while self.peek(0).is_ascii_alphabetic() {
            self.at += 1;
        }
        let name = self.slice(word, self.at);
        self.in_macro = name == "define";
        self.emit(Kind::Mark, start, format!("#{name}"));
    }

    fn quoted(&mut self) {
        let start = self.at;
        self.at += 1;
        while self.at < self.chars.len() && !matches!(self.peek(0), '"' | '\n') {
            self.at += if self.peek(0) == '\\' { 2 } else { 1 };
        }
        let inside = self.slice(start + 1, self.at);
        self.at += 1;
        self.emit(Kind::Literal, start, inside);
    }

    fn character(&mut self) {
        self.at += 1;
        // Never past the line: an apostrophe in assembler or in an #error is no character.
        while self.at < self.chars.len() && !matches!(self.peek(0), '\'' | '\n') {
            self.at += if self.peek(0) == '\\' { 2 } else { 1 };
        }
        if self.peek(0) == '\'' {
            self.at += 1;
        }
    }

    fn raw_string(&mut self) {
        let start = self.at;
        self.at += 2;
        let mut end: Vec<char> = vec![')'];
        while self.at < self.chars.len() && self.peek(0) != '(' && end.len() < 20 {
            end.push(self.peek(0));
            self.at += 1;
        }
        end.push('"');
        let inside = self.at + 1;
        while self.at < self.chars.len() && !end.iter().enumerate().all(|(i, c)| self.peek(i) == *c) {
            self.at += 1;
        }
        let text = self.slice(inside.min(self.at), self.at);
        self.at += end.len();
        self.emit(Kind::Literal, start, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        let ast = Ast::parse(source).unwrap();
        let scopes = Scopes::collect(&ast);
        let natives = collect(&ast, &scopes);
        natives.iter().flat_map(|native| native.free_words().map(|(_, token)| token.text.clone())).collect()
    }

    #[test]
    fn comments_members_and_namespaces_are_no_free_words() {
        assert_eq!(
            words("S = '''/* fork() */ a.kill(); // system()\nb->kill(); ns::kill(); std::kill();'''"),
            ["a", "b", "ns", "std", "kill"]
        );
    }

    #[test]
    fn splices_and_escapes_are_undone() {
        assert_eq!(words("S = r'''sys\\\ntem(1);'''"), ["system", "1"]);
        assert_eq!(words(r"S = 'sys\x74em(1);'"), ["system", "1"]);
        assert_eq!(words("S = 'sys' + 'tem' '(1);'"), ["system", "1"]);
    }

    #[test]
    fn documentation_is_not_code() {
        assert!(words("'''Runs { the system(x); }'''\n").is_empty());
    }
}
