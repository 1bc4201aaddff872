//! Both halves of the promise: every cheat is refused, with and without the source rules; no honest kernel is.

use crate::{
    hostile,
    support::{all, answers, errors, header, in_lanes, kforge, python_files, root, run, verdict},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// Whether the source rules of cpu/cpp refuse a file: then nothing of it runs.
fn is_refused(file: &Path) -> bool {
    static SETTINGS: LazyLock<kforge_guard::Settings> = LazyLock::new(|| {
        let target = std::fs::read_to_string(root().join("crates/kforge/targets/cpu-cpp/target.toml")).unwrap();
        let target: toml::Table = target.parse().unwrap();
        let imports = target["imports"].clone().try_into().unwrap();
        kforge_guard::Settings { imports: Some(imports), ..Default::default() }
    });
    let source = std::fs::read_to_string(file).ok().filter(|text| !text.contains('\0'));
    source.is_some_and(|source| kforge_guard::check(&source, &SETTINGS).is_rejected())
}

/// What a verdict must fit, each as alternatives. Where no rule refuses a file, its run is the same with and without
/// rules, so that one run has to fit what is expected of both.
fn expected_of(file: &Path, guarded: bool) -> Vec<String> {
    let with_rules = header(file, "expect").unwrap_or_default();
    match header(file, "expect-unguarded").filter(|_| !guarded) {
        Some(without) if is_refused(file) => vec![without],
        Some(without) => vec![without, with_rules],
        None => vec![with_rules],
    }
}

/// How many files there are, or more. Fewer mean that some were lost, so raise these with every file that is added.
const CHEATS: usize = 156;
const CHEATS_REFUSED: usize = 44;
const HONEST: usize = 72;
const INTERPRETED: usize = 8;
const HOSTILE: usize = 323;
const HOSTILE_REFUSED: usize = 83;

/// Files of one call where several calls are made at once.
const PART: usize = 20;
/// Calls at once where nothing is timed. Most of it is waiting for limits, so more than a small machine has processors.
const LANES: usize = 4;

struct Expectation<'a> {
    /// Whether the source rules are on.
    guarded: bool,
    flags: &'a [&'a str],
    /// Which files are looked at.
    chosen: fn(&Path) -> bool,
    /// How many of them there must be.
    at_least: usize,
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
    let chosen: usize = by_problem.values().map(Vec::len).sum();
    assert!(!all() || chosen >= expectation.at_least, "only {chosen} files in {}", folder.display());
    let part = if expectation.lanes > 1 { PART } else { usize::MAX };
    let calls: Vec<(PathBuf, Vec<PathBuf>)> = by_problem
        .iter()
        .flat_map(|(problem, files)| dealt(files, part).map(move |part| (problems.join(format!("{problem}.py")), part)))
        .collect();
    let results = in_lanes(expectation.lanes, &calls, |(problem, files)| check_call(problem, files, expectation));
    let passed: usize = results.iter().map(|(fine, _)| fine).sum();
    let wrong: String = results.into_iter().map(|(_, complaints)| complaints).collect();
    println!("{}: {passed} as expected", folder.display());
    assert!(wrong.is_empty(), "{passed} as expected, but:\n{wrong}");
}

/// Parts of so many files at most, dealt like cards: those that reach their limits are neighbours by name.
fn dealt(files: &[PathBuf], part: usize) -> impl Iterator<Item = Vec<PathBuf>> {
    let parts = files.len().div_ceil(part);
    (0..parts).map(move |first| files.iter().skip(first).step_by(parts).cloned().collect())
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
        let expected = expected_of(file, expectation.guarded);
        let got = verdict(answer);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        // A failing state alone stands for all of its kinds: undefined behaviour ends in many ways.
        let fits = |one: &str| one == got || (one != "correct" && got.split('/').next() == Some(one));
        let accepted = expected.iter().all(|one| one.split('|').map(str::trim).any(fits));
        match (accepted, (expectation.also)(answer)) {
            (true, None) => passed += 1,
            (true, Some(text)) => {
                let _ = writeln!(wrong, "{name}: {text}");
            }
            (false, _) => {
                let reason = answer["reason"].as_str().unwrap_or_default();
                let _ = writeln!(wrong, "{name}: expected {}, got {got}: {reason}", expected.join(", and "));
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

/// Those that the rules refuse; nothing of them runs. The others run the same with and without rules, and are judged below.
#[test]
fn cheats_are_refused_by_source_rules() {
    let corpus = root().join("corpus");
    let flags = [&QUICK[..], &["--timeout", "20"]].concat();
    let expectation = Expectation {
        guarded: true,
        flags: &flags,
        chosen: is_refused,
        at_least: CHEATS_REFUSED,
        also: gained_nothing,
        lanes: 1,
    };
    check(&corpus.join("cheats"), &corpus.join("problems"), &expectation);
}

#[test]
fn cheats_are_refused_without_source_rules() {
    let corpus = root().join("corpus");
    let flags = [&QUICK[..], &["--timeout", "20", "--no-guard"]].concat();
    let expectation = Expectation {
        guarded: false,
        flags: &flags,
        chosen: |_| true,
        at_least: CHEATS,
        also: gained_nothing,
        lanes: 1,
    };
    check(&corpus.join("cheats"), &corpus.join("problems"), &expectation);
}

#[test]
fn honest_kernels_pass() {
    let corpus = root().join("corpus");
    let expectation =
        Expectation { guarded: true, flags: &QUICK, chosen: |_| true, at_least: HONEST, also: |_| None, lanes: 1 };
    check(&corpus.join("honest"), &corpus.join("problems"), &expectation);
}

/// Whether the interpreter can run it; if not, its header names what stands in the way.
fn can_be_interpreted(file: &Path) -> bool {
    is_for_triton(file) && header(file, "without-gpu").is_none()
}

fn is_for_triton(file: &Path) -> bool {
    header(file, "target").as_deref() == Some("nvidia/triton")
}

/// Every kernel was seen to matter, and every kernel was compiled.
fn all_kernels_count(answer: &Value) -> Option<String> {
    let detail = |name: &str| {
        let checks = answer["checks"].as_array().into_iter().flatten();
        checks.filter(|check| check["name"] == name).find_map(|check| check["detail"].as_str()).unwrap_or("nothing")
    };
    let (kernels, compiled) = (detail("own kernels"), detail("ahead of time"));
    let fine = kernels.contains("the output depends on them") && compiled.ends_with("kernels compiled for sm_90");
    (!fine).then(|| format!("own kernels: {kernels}; ahead of time: {compiled}"))
}

#[test]
fn honest_triton_kernels_pass_without_a_gpu() {
    let corpus = root().join("corpus/gpu");
    let flags = ["--target", "nvidia/triton"];
    let expectation = Expectation {
        guarded: true,
        flags: &flags,
        chosen: can_be_interpreted,
        at_least: INTERPRETED,
        also: all_kernels_count,
        lanes: 1,
    };
    check(&corpus.join("honest"), &corpus.join("problems"), &expectation);
}

#[test]
fn what_only_a_gpu_can_run_gets_no_verdict_without_one() {
    let corpus = root().join("corpus/gpu");
    let files = python_files(&corpus.join("honest")).into_iter().filter(|file| is_for_triton(file));
    let mut judged = 0;
    for file in files.filter(|file| !can_be_interpreted(file)) {
        let problem = corpus.join("problems").join(header(&file, "problem").unwrap()).with_extension("py");
        let output = run(kforge().arg("eval").arg(problem).arg(&file).arg("--json"));
        let said = format!("Triton's interpreter cannot run `{}`", header(&file, "without-gpu").unwrap());
        assert_eq!(output.status.code(), Some(2), "{}: {}", file.display(), errors(&output));
        assert!(errors(&output).contains(&said), "{}: {}", file.display(), errors(&output));
        assert!(answers(&output).is_empty(), "{}", file.display());
        judged += 1;
    }
    assert!(judged > 0 || !all());
}

#[test]
fn hostile_candidates_get_a_clear_answer_from_source_rules() {
    let folder = hostile::candidates();
    let flags = ["--no-timing", "--timeout", "5", "--memory", "2"];
    let expectation = Expectation {
        guarded: true,
        flags: &flags,
        chosen: is_refused,
        at_least: HOSTILE_REFUSED,
        also: no_canary,
        lanes: LANES,
    };
    check(folder.path(), &root().join("corpus/hostile/problems"), &expectation);
}

#[test]
fn hostile_candidates_get_a_clear_answer_without_source_rules() {
    let folder = hostile::candidates();
    let flags = ["--no-timing", "--timeout", "5", "--memory", "2", "--no-guard"];
    let expectation = Expectation {
        guarded: false,
        flags: &flags,
        chosen: |_| true,
        at_least: HOSTILE,
        also: no_canary,
        lanes: LANES,
    };
    check(folder.path(), &root().join("corpus/hostile/problems"), &expectation);
    nothing_is_left(folder.path());
}

/// What candidates try to write outside of their scratch, and the process that wants to outlive them.
fn nothing_is_left(candidates: &Path) {
    let outside = ["/", "/etc", "/usr", "/usr/lib", "/root", "/home", "/tmp", "/var/tmp", "/dev/shm", "/run", "/mnt"]
        .map(Path::new);
    let named = |folder: &Path, begins: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(begins)).count()
    };
    for folder in outside.into_iter().chain([candidates]) {
        assert_eq!(named(folder, "kforge_hostile_mark"), 0, "in {}", folder.display());
    }
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let runs =
        |process: &Path| std::fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "kf_hostile");
    let left: Vec<PathBuf> = processes.map(|entry| entry.path()).filter(|process| runs(process)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn source_rules_are_silent_where_nothing_is_expected_of_them() {
    let mut wrong = String::new();
    let hostile = hostile::candidates();
    let mut checked = 0;
    for folder in [&root().join("corpus/honest"), &root().join("corpus/cheats"), hostile.path()] {
        for file in python_files(folder) {
            checked += 1;
            if is_refused(&file) && !header(&file, "expect").is_some_and(|expected| expected.contains("guardrail")) {
                let _ = writeln!(wrong, "{}", file.display());
            }
        }
    }
    assert!(!all() || checked >= HONEST + CHEATS + HOSTILE, "{checked} files");
    assert!(wrong.is_empty(), "source rules refuse, see `kforge guard FILE`:\n{wrong}");
}
