//! Both halves of the promise: every cheat is refused, with and without the source rules; no honest kernel is.

use crate::support::{answers, errors, header, in_lanes, kforge, python_files, root, run, verdict};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};

/// Whether the source rules make a difference for a file, by its own header.
fn is_about_rules(file: &Path) -> bool {
    header(file, "expect").is_some_and(|expected| expected.contains("guardrail"))
}

/// Files of one call where several calls are made at once.
const PART: usize = 40;

struct Expectation<'a> {
    /// Header keys, the first that a file has counts.
    keys: &'a [&'a str],
    flags: &'a [&'a str],
    /// Which files are looked at.
    chosen: fn(&Path) -> bool,
    /// What holds beyond the verdict; a text says what does not.
    also: fn(&Value) -> Option<String>,
    /// Calls at once: more than one only where nothing is timed.
    lanes: usize,
}

/// Groups by problem, since candidates of one problem share a warm worker.
fn check(folder: &Path, problems: &Path, expectation: &Expectation<'_>) {
    let mut by_problem: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in python_files(folder).into_iter().filter(|file| (expectation.chosen)(file)) {
        let problem = header(&file, "problem").unwrap_or_else(|| "row_softmax".to_owned());
        by_problem.entry(problem).or_default().push(file);
    }
    let part = if expectation.lanes > 1 { PART } else { usize::MAX };
    let calls: Vec<(PathBuf, &[PathBuf])> = by_problem
        .iter()
        .flat_map(|(problem, files)| files.chunks(part).map(move |part| (problems.join(format!("{problem}.py")), part)))
        .collect();
    let results = in_lanes(expectation.lanes, &calls, |(problem, files)| check_call(problem, files, expectation));
    let passed: usize = results.iter().map(|(fine, _)| fine).sum();
    let wrong: String = results.into_iter().map(|(_, complaints)| complaints).collect();
    println!("{}: {passed} as expected", folder.display());
    assert!(wrong.is_empty(), "{passed} as expected, but:\n{wrong}");
}

/// How many of one call were as expected, and what is wrong with the others.
fn check_call(problem: &Path, files: &[PathBuf], expectation: &Expectation<'_>) -> (usize, String) {
    let (mut passed, mut wrong) = (0, String::new());
    let output = run(kforge().arg("eval").arg(problem).args(files).arg("--json").args(expectation.flags));
    let answers = answers(&output);
    if answers.len() != files.len() {
        let (got, all) = (answers.len(), files.len());
        let _ = writeln!(wrong, "{}: {got} of {all} answers\n{}", problem.display(), errors(&output));
    }
    for (file, answer) in files.iter().zip(&answers) {
        let expected = expectation.keys.iter().find_map(|key| header(file, key)).unwrap_or_default();
        let got = verdict(answer);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        // A failing state alone stands for all of its kinds: undefined behaviour ends in many ways.
        let fits = |one: &str| one == got || (one != "correct" && got.split('/').next() == Some(one));
        let accepted = expected.split('|').map(str::trim).any(fits);
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
    (passed, wrong)
}

/// An attack that ends `correct` has failed; it must not have gained speed.
fn gained_nothing(answer: &Value) -> Option<String> {
    // Without a kernel of its own it is the framework, by another of its ways maybe: that one may really be faster.
    if answer["kind"] == "framework_only" {
        return None;
    }
    // By the lower end of its interval: some of these are the reference in disguise, and a shared machine is noisy.
    let at_least = answer["speedup_ci"]["low"].as_f64()?;
    (at_least > 1.1).then(|| format!("a cheat gained {at_least:.2}x at the least"))
}

fn no_canary(answer: &Value) -> Option<String> {
    answer.to_string().contains("kforge-test-canary").then(|| "an API key reached the candidate".to_owned())
}

const QUICK: [&str; 4] = ["--baselines", "eager", "--time-budget", "0.4"];

/// What runs the same with and without source rules is judged without them; here those that the rules are about.
#[test]
fn cheats_are_refused_by_source_rules() {
    let corpus = root().join("corpus");
    let flags = [&QUICK[..], &["--timeout", "20"]].concat();
    let expectation =
        Expectation { keys: &["expect"], flags: &flags, chosen: is_about_rules, also: gained_nothing, lanes: 1 };
    check(&corpus.join("cheats"), &corpus.join("problems"), &expectation);
}

#[test]
fn cheats_are_refused_without_source_rules() {
    let corpus = root().join("corpus");
    let flags = [&QUICK[..], &["--timeout", "20", "--no-guard"]].concat();
    let keys = &["expect-unguarded", "expect"];
    let expectation = Expectation { keys, flags: &flags, chosen: |_| true, also: gained_nothing, lanes: 1 };
    check(&corpus.join("cheats"), &corpus.join("problems"), &expectation);
}

#[test]
fn honest_kernels_pass() {
    let corpus = root().join("corpus");
    let expectation = Expectation { keys: &["expect"], flags: &QUICK, chosen: |_| true, also: |_| None, lanes: 1 };
    check(&corpus.join("honest"), &corpus.join("problems"), &expectation);
}

#[test]
fn hostile_candidates_get_a_clear_answer_from_source_rules() {
    let hostile = root().join("corpus/hostile");
    let flags = ["--no-timing", "--timeout", "5", "--memory", "2"];
    let expectation =
        Expectation { keys: &["expect"], flags: &flags, chosen: is_about_rules, also: no_canary, lanes: 2 };
    check(&hostile.join("candidates"), &hostile.join("problems"), &expectation);
}

#[test]
fn hostile_candidates_get_a_clear_answer_without_source_rules() {
    let hostile = root().join("corpus/hostile");
    let flags = ["--no-timing", "--timeout", "5", "--memory", "2", "--no-guard"];
    let keys = &["expect-unguarded", "expect"];
    let expectation = Expectation { keys, flags: &flags, chosen: |_| true, also: no_canary, lanes: 2 };
    check(&hostile.join("candidates"), &hostile.join("problems"), &expectation);
}

#[test]
fn source_rules_are_silent_where_nothing_is_expected_of_them() {
    let mut wrong = String::new();
    let target = std::fs::read_to_string(root().join("crates/kforge/targets/cpu-cpp/target.toml")).unwrap();
    let target: toml::Table = target.parse().unwrap();
    let imports = target["imports"].clone().try_into().unwrap();
    let settings = kforge_guard::Settings { imports: Some(imports), ..Default::default() };
    for folder in ["corpus/honest", "corpus/cheats", "corpus/hostile/candidates"] {
        for file in python_files(&root().join(folder)) {
            let expected = header(&file, "expect").unwrap_or_default();
            let Ok(source) = std::fs::read_to_string(&file) else { continue };
            let report = kforge_guard::check(&source, &settings);
            if let Some(first) = report.hard().next().filter(|_| !expected.contains("guardrail")) {
                let _ = writeln!(wrong, "{}: {}: {}", file.display(), first.rule, first.excerpt);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
