//! Both halves of the promise: every cheat is refused, with and without the source rules; no honest kernel is.

use crate::{
    hostile,
    support::{LANES, ONE_THREAD, all, answers, errors, header, in_lanes, kforge, python_files, root, run, verdict},
};
use serde_json::Value;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
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
const HONEST: usize = 73;
const HONEST_TIMED: usize = 51;
const INTERPRETED: usize = 8;
const HOSTILE: usize = 323;
const HOSTILE_REFUSED: usize = 83;

/// Files of one call where several calls are made at once.
const PART: usize = 20;
/// Calls at once where most of the time goes into waiting for limits.
const WAITING_LANES: usize = 4;

/// Seconds for each step of a candidate that is not expected to reach a limit: a slow machine must not end it.
const PATIENT: &str = "120";

/// How files are judged.
struct Judging<'a> {
    /// Whether the source rules are on.
    guarded: bool,
    flags: &'a [&'a str],
    /// Seconds for each step of a candidate that may end by the limit.
    timeout: &'static str,
    /// Calls at once. Those that time on the same processors take turns by themselves.
    lanes: usize,
}

/// What came of a file: an answer, or what kforge said instead.
struct Judged {
    file: PathBuf,
    answer: Result<Value, String>,
}

/// Files of one problem and one limit, which share a warm session.
struct Call {
    problem: PathBuf,
    timeout: &'static str,
    files: Vec<PathBuf>,
}

impl Judging<'_> {
    fn judge(&self, problems: &Path, files: &[PathBuf]) -> Vec<Judged> {
        let mut groups: BTreeMap<(String, &str), Vec<PathBuf>> = BTreeMap::new();
        for file in files {
            let problem = header(file, "problem").unwrap_or_else(|| "row_softmax".to_owned());
            let may_end_by_it = expected_of(file, self.guarded).iter().any(|expected| allows_the_limit(expected));
            let timeout = if may_end_by_it { self.timeout } else { PATIENT };
            groups.entry((problem, timeout)).or_default().push(file.clone());
        }
        let part = if self.lanes > 1 { PART } else { usize::MAX };
        let mut calls: Vec<Call> = groups
            .into_iter()
            .flat_map(|((problem, timeout), files)| {
                let problem = problems.join(format!("{problem}.py"));
                dealt(&files, part).map(move |files| Call { problem: problem.clone(), timeout, files })
            })
            .collect();
        // The longest first, so that no lane is left with it alone.
        calls.sort_by_key(|call| Reverse(call.files.len()));
        in_lanes(self.lanes, &calls, |call| self.judge_call(call)).into_iter().flatten().collect()
    }

    fn judge_call(&self, call: &Call) -> Vec<Judged> {
        let mut command = kforge();
        command.arg("eval").arg(&call.problem).args(&call.files).arg("--json").args(self.flags);
        command.args(["--timeout", call.timeout]).args(if self.guarded { &[][..] } else { &["--no-guard"] });
        let output = run(&mut command);
        let mut answers = answers(&output).into_iter();
        let judged = call.files.iter().map(|file| Judged {
            file: file.clone(),
            answer: answers.next().ok_or_else(|| format!("{}: {}", call.problem.display(), errors(&output))),
        });
        judged.collect()
    }
}

impl Judged {
    fn is_correct(&self) -> bool {
        self.answer.as_ref().is_ok_and(|answer| answer["state"] == "correct")
    }

    /// What is wrong with its verdict, or with `also`, which says what else does not hold.
    fn complaint(&self, guarded: bool, also: fn(&Value) -> Option<String>) -> Option<String> {
        let answer = match &self.answer {
            Ok(answer) => answer,
            Err(said) => return Some(format!("no answer: {said}")),
        };
        let (expected, got) = (expected_of(&self.file, guarded), verdict(answer));
        // A failing state alone stands for all of its kinds: undefined behaviour ends in many ways.
        let fits = |one: &str| one == got || (one != "correct" && got.split('/').next() == Some(one));
        if expected.iter().all(|one| one.split('|').map(str::trim).any(fits)) {
            return also(answer);
        }
        let reason = answer["reason"].as_str().unwrap_or_default();
        Some(format!("expected {}, got {got}: {reason}", expected.join(", and ")))
    }
}

/// A failing state without a kind stands for all of its kinds.
fn allows_the_limit(expected: &str) -> bool {
    expected.split('|').any(|one| matches!(one.trim(), "runtime_error" | "runtime_error/timeout"))
}

/// Parts of so many files at most, dealt like cards: those that reach their limits are neighbours by name.
fn dealt(files: &[PathBuf], part: usize) -> impl Iterator<Item = Vec<PathBuf>> + use<> {
    let parts = files.len().div_ceil(part);
    let files = files.to_vec();
    (0..parts).map(move |first| files.iter().skip(first).step_by(parts).cloned().collect())
}

/// Those of a folder that are chosen, and no fewer than there were.
fn chosen(folder: &Path, choice: fn(&Path) -> bool, at_least: usize) -> Vec<PathBuf> {
    let files: Vec<PathBuf> = python_files(folder).into_iter().filter(|file| choice(file)).collect();
    assert!(!all() || files.len() >= at_least, "only {} files in {}", files.len(), folder.display());
    files
}

fn assert_as_expected(judged: &[Judged], guarded: bool, also: fn(&Value) -> Option<String>) {
    let mut wrong = String::new();
    for one in judged {
        if let Some(complaint) = one.complaint(guarded, also) {
            let _ = writeln!(wrong, "{}: {complaint}", one.file.file_name().unwrap_or_default().display());
        }
    }
    println!("{} judged", judged.len());
    assert!(wrong.is_empty(), "{} judged, but:\n{wrong}", judged.len());
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
const UNTIMED: &[&str] = &["--no-timing"];

/// Those that the rules refuse; nothing of them runs. The others run the same with and without rules, and are judged below.
#[test]
fn cheats_are_refused_by_source_rules() {
    let corpus = root().join("corpus");
    let files = chosen(&corpus.join("cheats"), is_refused, CHEATS_REFUSED);
    let judging = Judging { guarded: true, flags: UNTIMED, timeout: "20", lanes: LANES };
    assert_as_expected(&judging.judge(&corpus.join("problems"), &files), true, gained_nothing);
}

/// Most are refused before anything is timed, which timing would not change. The others are timed, each with the machine for
/// itself: they gain nothing, or are refused then.
#[test]
fn cheats_are_refused_without_source_rules() {
    let corpus = root().join("corpus");
    let problems = corpus.join("problems");
    let files = chosen(&corpus.join("cheats"), |_| true, CHEATS);
    let untimed = Judging { guarded: false, flags: UNTIMED, timeout: "20", lanes: LANES };
    let (correct, refused): (Vec<Judged>, Vec<Judged>) =
        untimed.judge(&problems, &files).into_iter().partition(Judged::is_correct);
    assert_as_expected(&refused, false, |_| None);
    let correct: Vec<PathBuf> = correct.into_iter().map(|judged| judged.file).collect();
    let timed = Judging { flags: &QUICK, lanes: 1, ..untimed };
    assert_as_expected(&timed.judge(&problems, &correct), false, gained_nothing);
}

/// Timing has checks of its own, which no honest kernel may fail: the first of each problem is timed, and those whose header
/// says what a clock might take amiss. How fast they are decides nothing, so that several are judged at once; they take turns
/// on the processors by themselves. The others are right without a clock.
#[test]
fn honest_kernels_pass() {
    let corpus = root().join("corpus");
    let problems = corpus.join("problems");
    let files = chosen(&corpus.join("honest"), |_| true, HONEST);
    let mut seen = BTreeSet::new();
    let (timed, others): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(|file| {
        let is_first = seen.insert(header(file, "problem"));
        is_first || header(file, "timed").is_some() || !all()
    });
    assert!(!all() || timed.len() >= HONEST_TIMED, "only {} are timed", timed.len());
    let judging = Judging { guarded: true, flags: &QUICK, timeout: PATIENT, lanes: LANES };
    assert_as_expected(&judging.judge(&problems, &timed), true, was_measured);
    let untimed = Judging { flags: UNTIMED, ..judging };
    assert_as_expected(&untimed.judge(&problems, &others), true, |_| None);
}

fn was_measured(answer: &Value) -> Option<String> {
    (answer["evidence"] != "measured").then(|| format!("the evidence is {}", answer["evidence"]))
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
    let files = chosen(&corpus.join("honest"), can_be_interpreted, INTERPRETED);
    let judging =
        Judging { guarded: true, flags: &["--target", "nvidia/triton", ONE_THREAD], timeout: PATIENT, lanes: LANES };
    assert_as_expected(&judging.judge(&corpus.join("problems"), &files), true, all_kernels_count);
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
    let files = chosen(folder.path(), is_refused, HOSTILE_REFUSED);
    assert_as_expected(&judged_as_hostile(true, &files), true, no_canary);
}

#[test]
fn hostile_candidates_get_a_clear_answer_without_source_rules() {
    let folder = hostile::candidates();
    let files = chosen(folder.path(), |_| true, HOSTILE);
    assert_as_expected(&judged_as_hostile(false, &files), false, no_canary);
    nothing_is_left(folder.path());
}

fn judged_as_hostile(guarded: bool, files: &[PathBuf]) -> Vec<Judged> {
    let flags = &["--no-timing", "--memory", "2"];
    let judging = Judging { guarded, flags, timeout: "5", lanes: WAITING_LANES };
    judging.judge(&root().join("corpus/hostile/problems"), files)
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
