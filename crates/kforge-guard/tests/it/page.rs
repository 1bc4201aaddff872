//! The public page is what the rules' comments say.

use std::fs;
use std::path::Path;

use kforge_guard::{guardrails_page, rules};

#[test]
fn docs_guardrails_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/guardrails.md");
    let page = guardrails_page();
    if std::env::var_os("KFORGE_UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "docs/reference/guardrails.md is out of date: run the tests of kforge-guard with KFORGE_UPDATE_DOCS=1"
    );
}

#[test]
fn every_rule_is_documented() {
    for rule in rules() {
        let doc = rule.doc();
        for part in ["## What it does", "## Why is this", "## Example", "Use instead:"] {
            assert!(doc.contains(part), "{} lacks {part}", rule.name);
        }
        assert!(rule.summary().ends_with('.'), "{}", rule.name);
    }
}
