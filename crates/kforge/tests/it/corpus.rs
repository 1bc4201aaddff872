//! Both halves of the promise: every cheat is refused, with and without the source rules; no honest kernel is.

use crate::support::{answers, errors, header, kforge, python_files, root, run, verdict};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};

struct Expectation<'a> {
    /// Header keys, the first that a file has counts.
    keys: &'a [&'a str],
    flags: &'a [&'a str],
    /// What holds beyond the verdict; a text says what does not.
    also: fn(&Value) -> Option<String>,
}

/// Groups by problem, since candidates of one problem share a warm worker.
fn check(folder: &Path, problems: &Path, expectation: &Expectation<'_>) {
    let mut by_problem: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in python_files(folder) {
        let problem = header(&file, "problem").unwrap_or_else(|| "row_softmax".to_owned());
        by_problem.entry(problem).or_default().push(file);
    }
    let (mut passed, mut wrong) = (0, String::new());
    for (problem, files) in by_problem {
        let problem = problems.join(format!("{problem}.py"));
        let output = run(kforge().arg("eval").arg(&problem).args(&files).arg("--json").args(expectation.flags));
        let answers = answers(&output);
        if answers.len() != files.len() {
            let _ = writeln!(wrong, "{}: {} of {} answers\n{}", problem.display(), answers.len(), files.len(), errors(&output));
        }
        for (file, answer) in files.iter().zip(&answers) {
            let expected = expectation.keys.iter().find_map(|key| header(file, key)).unwrap_or_default();
            let got = verdict(answer);
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let accepted = expected.split('|').any(|one| one.trim() == got);
            match (accepted, (expectation.also)(answer)) {
                (true, None) => passed += 1,
                (true, Some(text)) => {
                    let _ = writeln!(wrong, "{name}: {text}");
                }
                (false, _) => {
                    let reason = answer["reason"].as_str().unwrap_or_default();
                    let _ = writeln!(wrong, "{name}: expected {expected}, got {got}: {reason}");
                }
            }
        }
    }
    println!("{}: {passed} as expected", folder.display());
    assert!(wrong.is_empty(), "{passed} as expected, but:\n{wrong}");
}

/// An attack that ends `correct` has failed; it must not have gained speed.
fn gained_nothing(answer: &Value) -> Option<String> {
    let speedup = answer["speedup"].as_f64()?;
    (speedup > 1.1).then(|| format!("a cheat gained {speedup:.2}x"))
}

fn no_canary(answer: &Value) -> Option<String> {
    answer.to_string().contains("kforge-test-canary").then(|| "an API key reached the candidate".to_owned())
}

const QUICK: [&str; 4] = ["--baselines", "eager", "--time-budget", "0.4"];

#[test]
fn cheats_are_refused() {
    let corpus = root().join("corpus");
    let expectation = Expectation { keys: &["expect"], flags: &[&QUICK[..], &["--timeout", "20"]].concat(), also: gained_nothing };
    check(&corpus.join("cheats"), &corpus.join("problems"), &expectation);
}

#[test]
fn cheats_are_refused_without_source_rules() {
    let corpus = root().join("corpus");
    let flags = [&QUICK[..], &["--timeout", "20", "--no-guard"]].concat();
    let expectation = Expectation { keys: &["expect-unguarded", "expect"], flags: &flags, also: gained_nothing };
    check(&corpus.join("cheats"), &corpus.join("problems"), &expectation);
}

#[test]
fn honest_kernels_pass() {
    let corpus = root().join("corpus");
    let expectation = Expectation { keys: &["expect"], flags: &QUICK, also: |_| None };
    check(&corpus.join("honest"), &corpus.join("problems"), &expectation);
}

#[test]
fn hostile_candidates_get_a_clear_answer() {
    let hostile = root().join("corpus/hostile");
    let flags = [&QUICK[..], &["--timeout", "8", "--memory", "2"]].concat();
    let expectation = Expectation { keys: &["expect"], flags: &flags, also: no_canary };
    check(&hostile.join("candidates"), &hostile.join("problems"), &expectation);
}

#[test]
fn hostile_candidates_get_a_clear_answer_without_source_rules() {
    let hostile = root().join("corpus/hostile");
    let flags = [&QUICK[..], &["--timeout", "8", "--memory", "2", "--no-guard"]].concat();
    let expectation = Expectation { keys: &["expect-unguarded", "expect"], flags: &flags, also: no_canary };
    check(&hostile.join("candidates"), &hostile.join("problems"), &expectation);
}
