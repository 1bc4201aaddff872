//! The public page about the rules, made from their module comments.

use std::fmt::Write as _;

use kforge_types::Severity;

use crate::rules::{Rule, rules};

const INTRODUCTION: &str = "# Guardrails

<!-- Generated from the rules' module comments; a test of kforge-guard holds it to them. -->

Before anything of a candidate runs, its source is checked by these rules. A hard finding rejects the candidate with a
reason that its author can act on; a soft one is reported, and looked at more closely at run time. Names are followed
through imports, aliases, arguments and returns, so `from os import system as s` is still `os.system`. Native code in
strings is read as tokens, without its comments. `--allow-rule NAME` switches a rule off.

The rules are an early net, not the wall: candidates run in a sandbox and are judged in other processes.
";

/// The Markdown page `docs/guardrails.md`.
#[must_use]
pub fn guardrails_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n| rule | | |\n|---|---|---|\n");
    for rule in rules() {
        let _ = writeln!(page, "| [`{0}`](#{0}) | {1} | {2} |", rule.name, word(rule), rule.summary());
    }
    for rule in rules() {
        let _ = write!(page, "\n## {}\n\n*{}.* {}", rule.name, word(rule), rule.doc().replace("\n## ", "\n### "));
    }
    page
}

fn word(rule: &Rule) -> &'static str {
    match rule.severity {
        Severity::Hard => "hard",
        Severity::Soft => "soft",
    }
}
