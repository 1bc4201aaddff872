//! Every file below `fixtures/` is a case: a new file is a new case, and its findings are a snapshot.
//!
//! `fixtures/<rule>/bad*.py` must be found by the rule, `good*.py` must not. `fixtures/honest` must have no hard finding.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use kforge_guard::{Report, Settings, check, rules};
use kforge_types::Severity;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Group, name and text of every fixture.
fn fixtures() -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for group in fs::read_dir(folder()).unwrap() {
        let group = group.unwrap().path();
        for file in fs::read_dir(&group).unwrap() {
            let file = file.unwrap().path();
            let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
            found.push((stem(&group), stem(&file), fs::read_to_string(&file).unwrap()));
        }
    }
    found.sort();
    found
}

/// The rule about imports needs a list; the others are looked at without one.
fn settings(group: &str) -> Settings {
    let offered = ["torch", "numpy", "kforge_rt"].map(str::to_owned).to_vec();
    Settings { imports: (group == "imports").then_some(offered), ..Settings::default() }
}

fn shown(report: &Report) -> String {
    let mut text = String::new();
    let class = report.model_class.as_deref().unwrap_or("none");
    writeln!(text, "model class: {class}{}", if report.empty { ", empty" } else { "" }).unwrap();
    if let Some(error) = &report.syntax {
        writeln!(text, "syntax {}:{} {}", error.line, error.column, error.message).unwrap();
    }
    for finding in &report.findings {
        let severity = if finding.severity == Severity::Hard { "hard" } else { "soft" };
        writeln!(text, "\n{}:{} {severity} {}", finding.line, finding.column, finding.rule).unwrap();
        writeln!(text, "    {}\n    {}", finding.excerpt, finding.message).unwrap();
    }
    text
}

#[test]
fn every_fixture_has_its_findings() {
    let mut snapshots = insta::Settings::clone_current();
    snapshots.set_prepend_module_to_snapshot(false);
    snapshots.set_omit_expression(true);
    snapshots.bind(|| {
        for (group, name, source) in fixtures() {
            let report = check(&source, &settings(&group));
            let found = report.findings.iter().any(|finding| finding.rule == group);
            if name.starts_with("bad") {
                assert!(found, "{group}/{name} has no finding of its rule");
            } else if name.starts_with("good") {
                assert!(!found, "{group}/{name} is refused by its rule:\n{}", shown(&report));
            } else if group == "honest" {
                assert!(!report.is_rejected(), "{group}/{name} is refused:\n{}", shown(&report));
            }
            if group != "odd" {
                assert_eq!(report.syntax, None, "{group}/{name}");
            }
            insta::assert_snapshot!(format!("{group}__{name}"), shown(&report));
        }
    });
}

#[test]
fn every_rule_has_both_kinds_of_fixtures() {
    let fixtures = fixtures();
    for rule in rules() {
        for kind in ["bad", "good"] {
            let has = fixtures.iter().any(|(group, name, _)| group == rule.name && name.starts_with(kind));
            assert!(has, "no {kind} fixture for {}", rule.name);
        }
    }
    let known: BTreeSet<&str> = rules().iter().map(|rule| rule.name).chain(["honest", "odd"]).collect();
    for (group, _, _) in &fixtures {
        assert!(known.contains(group.as_str()), "{group} is no rule");
    }
}

#[test]
fn an_allowed_rule_says_nothing() {
    for (group, name, source) in fixtures() {
        if group == "too_large" {
            continue;
        }
        let report = check(&source, &Settings { off: vec![group.clone()], ..settings(&group) });
        assert!(report.findings.iter().all(|finding| finding.rule != group), "{group}/{name}");
    }
}

#[test]
fn findings_point_into_the_source() {
    for (group, name, source) in fixtures() {
        for finding in check(&source, &settings(&group)).findings {
            let line =
                source.lines().nth(finding.line - 1).unwrap_or_else(|| panic!("{group}/{name} has no such line"));
            assert!(finding.column <= line.chars().count().max(1), "{group}/{name}:{}", finding.line);
            assert!(line.contains(&finding.excerpt) && finding.excerpt.chars().count() <= 160, "{group}/{name}");
            assert!(finding.message.ends_with('.') && !finding.message.contains('\n'), "{group}/{name}");
        }
    }
}
