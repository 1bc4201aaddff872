//! Odd, flawed and broken problems: accepted, flagged, or refused with a clear word.

use crate::support::{answers, errors, header, in_lanes, kforge, root, run, verdict};
use serde::Deserialize;
use std::fmt::Write;

#[derive(Deserialize)]
struct Expectations {
    problem: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    file: String,
    expect: String,
    #[serde(default)]
    says: String,
    #[serde(default)]
    flag: String,
}

#[test]
fn every_problem_is_accepted_flagged_or_refused_as_written() {
    let folder = root().join("corpus/hostile/problems");
    let text = std::fs::read_to_string(folder.join("expect.toml")).unwrap();
    let expectations: Expectations = toml::from_str(&text).unwrap();
    assert!(expectations.problem.len() > 100);
    let narrowed = std::env::var("KFORGE_CASE").unwrap_or_default();
    let chosen: Vec<&Expected> =
        expectations.problem.iter().filter(|expected| expected.file.contains(&narrowed)).collect();
    // Nothing is timed here, so two at once do not disturb each other.
    let results = in_lanes(2, &chosen, |expected| check(&folder, expected));
    let (mut passed, mut wrong) = (0, String::new());
    for (expected, result) in chosen.iter().zip(results) {
        match result {
            Ok(()) => passed += 1,
            Err(text) => {
                let _ = writeln!(wrong, "{}: {text}", expected.file);
            }
        }
    }
    println!("{passed} problems as expected");
    assert!(wrong.is_empty(), "{passed} as expected, but:\n{wrong}");
}

fn check(folder: &std::path::Path, expected: &Expected) -> Result<(), String> {
    let refused = expected.expect == "error";
    let candidate = if refused {
        root().join("corpus/honest/softmax_framework_only.py")
    } else {
        folder.join("candidates").join(&expected.file)
    };
    let output = run(kforge()
        .args(["eval", "--json", "--no-timing", "--problem-timeout", "8", "--timeout", "30"])
        .arg(folder.join(&expected.file))
        .arg(&candidate));
    let said = errors(&output);
    if refused {
        let lower = said.to_lowercase();
        let named = expected.says.split('|').any(|part| lower.contains(&part.trim().to_lowercase()));
        return match (output.status.code(), named) {
            (Some(2), true) => Ok(()),
            (code, _) => Err(format!("expected exit code 2 and {:?}, got {code:?}: {said}", expected.says)),
        };
    }
    let Some(answer) = answers(&output).pop() else { return Err(format!("no answer: {said}")) };
    let wanted = header(&candidate, "expect").unwrap_or_else(|| "correct".to_owned());
    let got = verdict(&answer);
    if !wanted.split('|').any(|one| one.trim() == got) {
        return Err(format!("expected {wanted}, got {got}: {}", answer["reason"]));
    }
    let flags = answer["problem"]["flags"].to_string();
    let flagged = expected.flag.split('|').any(|part| flags.contains(&format!("\"{}:", part.trim())));
    match expected.expect.as_str() {
        "flagged" if !flagged => Err(format!("expected the flag {}, got {flags}", expected.flag)),
        "ok" if flags != "[]" => Err(format!("expected no flag, got {flags}")),
        _ => Ok(()),
    }
}
