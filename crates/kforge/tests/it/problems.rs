//! Odd, flawed and broken problems: accepted, flagged, or refused with a clear word.

use crate::support::{LANES, ONE_THREAD, answers, errors, header, in_lanes, kforge, root, run, verdict};
use serde::Deserialize;
use std::{collections::BTreeSet, fmt::Write, path::Path};

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

/// How many there are, or more: fewer mean that some were lost.
const PROBLEMS: usize = 119;
const JUDGED: usize = 83;

/// What is expected of problems that never end.
const REACHES_THE_LIMIT: &str = "limit|time";

#[test]
fn every_problem_is_accepted_flagged_or_refused_as_written() {
    let folder = root().join("corpus/hostile/problems");
    let text = std::fs::read_to_string(folder.join("expect.toml")).unwrap();
    let expectations: Expectations = toml::from_str(&text).unwrap();
    every_file_has_its_place(&folder, &expectations.problem);
    let narrowed = std::env::var("KFORGE_CASE").unwrap_or_default();
    let chosen: Vec<&Expected> =
        expectations.problem.iter().filter(|expected| expected.file.contains(&narrowed)).collect();
    let results = in_lanes(LANES, &chosen, |expected| check(&folder, expected));
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

/// A problem that nobody expects anything of is not looked at, and neither is a candidate without its problem.
fn every_file_has_its_place(folder: &Path, problems: &[Expected]) {
    let files = |folder: &Path| -> BTreeSet<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "py")).collect()
    };
    let named: BTreeSet<String> = problems.iter().map(|problem| problem.file.clone()).collect();
    let judged = problems.iter().filter(|problem| problem.expect != "error").map(|problem| problem.file.clone());
    assert_eq!(files(folder), named);
    assert_eq!(files(&folder.join("candidates")), judged.collect());
    assert!(named.len() == problems.len() && named.len() >= PROBLEMS, "{} problems", named.len());
    assert!(files(&folder.join("candidates")).len() >= JUDGED);
}

fn check(folder: &Path, expected: &Expected) -> Result<(), String> {
    let refused = expected.expect == "error";
    // Short only where the limit is what is tested: any other problem may be slow on a busy machine.
    let limit_s = if expected.says == REACHES_THE_LIMIT { "5" } else { "60" };
    let candidate = if refused {
        root().join("corpus/honest/softmax_framework_only.py")
    } else {
        folder.join("candidates").join(&expected.file)
    };
    let output = run(kforge()
        .args(["eval", "--json", "--no-timing", "--problem-timeout", limit_s, "--timeout", "30"])
        .args(["--fresh", ONE_THREAD])
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
