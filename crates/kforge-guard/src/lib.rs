//! Source rules: what is refused in a candidate before anything of it runs.
//!
//! A candidate is one Python file with its native kernels in strings. [`check`] parses it, follows names through imports,
//! aliases, arguments and returns, and asks every rule. Hard findings reject, soft ones are reported and looked at more
//! closely at run time. Each message says what is wrong and what to write instead, because a language model reads it.
//!
//! The rules are an early and helpful net, not the wall: what runs is held by the sandbox, and what it computes is judged
//! in other processes. So a rule is written to leave every honest expert alone, even where that lets an artful cheat
//! through to the later checks.
//!
//! ```
//! use kforge_guard::{Settings, check};
//!
//! let source = "import torch\ntorch.allclose = lambda *a: True\n";
//! let report = check(source, &Settings::default());
//! assert!(report.is_rejected());
//! assert_eq!(report.findings[0].rule, "monkey_patch");
//!
//! let switched = Settings { off: vec!["monkey_patch".into()], ..Settings::default() };
//! assert!(!check(source, &switched).is_rejected());
//!
//! let user = Settings { banned: vec!["torch.allclose".parse()?], ..switched };
//! assert_eq!(check(source, &user).findings[0].rule, "ban");
//! # Ok::<(), kforge_guard::PatternError>(())
//! ```
//!
//! One rule is one file in `rules/`: its module comment is its public documentation, its fixtures are its tests.
//! Nothing here does I/O, and no input makes it panic or recurse deeply.

mod ast;
mod command;
mod context;
mod docs;
mod flow;
mod language;
mod native;
mod pattern;
mod relaunch;
mod resolve;
mod rules;
mod scope;
mod text;

pub use docs::guardrails_page;
pub use language::{Language, language};
pub use pattern::{Pattern, PatternError};
pub use rules::{Rule, rules};

use kforge_types::{Finding, Severity};
use serde::Serialize;

use crate::ast::{Ast, Node};
use crate::context::{Context, Sink};

/// Larger sources are refused unread.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;

/// What the rules say about one candidate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In source order.
    pub findings: Vec<Finding>,
    /// The first place that is no Python. The rules looked at the rest all the same.
    pub syntax: Option<SyntaxError>,
    /// Nothing but blanks, comments and documentation.
    pub empty: bool,
    /// `ModelNew` or `NewModel`, whichever the source binds at the top.
    pub model_class: Option<String>,
}

impl Report {
    /// Whether a hard finding is among the findings.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        self.hard().next().is_some()
    }

    /// The findings that reject.
    pub fn hard(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Hard)
    }
}

/// The first place in a source where the grammar gave up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SyntaxError {
    /// Line in the source, from 1.
    pub line: usize,
    /// Column in the source, from 1.
    pub column: usize,
    /// The source line, cut to 160 characters.
    pub excerpt: String,
    /// What was found, as a sentence.
    pub message: String,
}

/// What is asked of candidates beyond the rules' defaults. The default asks every rule and knows no patterns.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Names of the rules that are switched off.
    pub off: Vec<String>,
    /// Top-level packages that may be imported beside the standard library; without a list everything may be.
    pub imports: Option<Vec<String>>,
    /// What must not occur; findings are called `ban`.
    pub banned: Vec<Pattern>,
    /// What must occur; findings are called `require`.
    pub required: Vec<Pattern>,
}

/// Asks every rule that is not switched off, and every pattern, about a candidate.
///
/// `too_large` cannot be switched off: a source that was not read has not been checked.
#[must_use]
pub fn check(source: &str, settings: &Settings) -> Report {
    if source.len() > MAX_SOURCE_BYTES {
        return rules::too_large::report(source);
    }
    let Some(ast) = Ast::parse(source) else { return rules::too_large::report(source) };
    let context = Context::new(&ast, settings);
    let mut findings = Vec::new();
    for rule in rules().iter().filter(|rule| !settings.off.iter().any(|name| name == rule.name)) {
        let mut sink = Sink::new(&ast, rule.name, rule.severity);
        rule.run(&context, &mut sink);
        findings.append(&mut sink.findings);
    }
    pattern::check(&context, &mut findings);
    findings.sort_by_key(|finding| (finding.line, finding.column));
    Report {
        findings,
        syntax: syntax_error(&ast),
        empty: is_empty(&ast),
        model_class: flow::model_class(&context.names.scopes),
    }
}

fn is_empty(ast: &Ast<'_>) -> bool {
    let documentation = |node: Node<'_>| {
        node.is("expression_statement") && node.children().all(|inner| inner.is_any(&["string", "concatenated_string"]))
    };
    ast.root().children().all(documentation)
}

fn syntax_error(ast: &Ast<'_>) -> Option<SyntaxError> {
    let node = ast.all().find(|node| node.is_broken())?;
    let line = ast.line(node.start());
    let found: String = node.text().lines().next().unwrap_or_default().trim().chars().take(40).collect();
    let message = if node.is("ERROR") {
        format!("The source is not valid Python near `{found}`; return one complete Python file.")
    } else {
        format!("The source is not valid Python: `{}` is missing; return one complete Python file.", node.kind())
    };
    Some(SyntaxError { line, column: ast.column(node.start()), excerpt: ast.excerpt(line), message })
}
