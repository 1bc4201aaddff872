//! What the README shows: every example is judged as it says.

use crate::support::{LANES, answers, errors, in_lanes, kforge, root, run, verdict};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// How many there are, or more: fewer mean that some were lost.
const EXAMPLES: usize = 12;
const IN_TRITON: usize = 7;

fn example_folders() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("problem.py").exists())
        .collect();
    found.sort();
    found
}

/// No target is named: the candidates' text is to show it.
fn judge_all(target: &str, problem: &Path, candidates: &[PathBuf], more: &[&str]) -> Vec<Value> {
    let quick = ["--json", "--baselines", "eager", "--time-budget", "0.4"];
    let output = run(kforge().arg("eval").args(quick).args(more).arg(problem).args(candidates));
    let answers = answers(&output);
    assert_eq!(answers.len(), candidates.len(), "{candidates:?}: {}", errors(&output));
    assert!(answers.iter().all(|answer| answer["target"] == target), "{candidates:?}: {answers:?}");
    let said = errors(&output).matches(&format!("detected target {target} from the candidate")).count();
    assert_eq!(said, 1, "{}", errors(&output));
    answers
}

fn judge(target: &str, problem: &Path, candidate: &Path) -> Value {
    judge_all(target, problem, &[candidate.to_path_buf()], &[]).remove(0)
}

/// Two at once: those that time take turns by themselves.
#[test]
fn every_cpu_example_is_right_and_measured() {
    let folders = example_folders();
    assert!(folders.len() >= EXAMPLES, "{} examples", folders.len());
    in_lanes(LANES, &folders, |folder| {
        // Truths of hundreds of megabytes, which no other test needs, are not kept.
        let candidate = [folder.join("cpu_cpp.py")];
        let answer = judge_all("cpu/cpp", &folder.join("problem.py"), &candidate, &["--fresh"]).remove(0);
        assert_eq!(verdict(&answer), "correct", "{}: {answer}", folder.display());
        assert_eq!(answer["evidence"], "measured");
        assert_eq!(answer["problem"]["flags"], Value::Array(Vec::new()), "{}", folder.display());
    });
}

#[test]
fn a_kernel_may_come_by_plain_ctypes_or_load_inline() {
    let folder = root().join("examples/softmax");
    let candidates = ["plain_ctypes.py", "load_inline.py"].map(|name| folder.join(name));
    for answer in judge_all("cpu/cpp", &folder.join("problem.py"), &candidates, &[]) {
        assert_eq!((verdict(&answer).as_str(), answer["evidence"].as_str()), ("correct", Some("measured")), "{answer}");
    }
}

#[test]
fn each_failing_state_has_an_example() {
    let problem = root().join("examples/softmax/problem.py");
    let states = ["mismatch", "runtime_error", "compilation_failure", "generation_failure"];
    let candidates = states.map(|state| root().join(format!("examples/failing/{state}.py")));
    let answers = judge_all("cpu/cpp", &problem, &candidates, &[]);
    for (state, answer) in states.into_iter().zip(&answers) {
        assert_eq!(answer["state"], state, "{answer}");
        assert!(!answer["reason"].as_str().unwrap().is_empty());
    }
    assert!(answers[2]["reason"].as_str().unwrap().contains("error:"), "{}", answers[2]);
}

/// These run a program for each row, and the interpreter needs a minute for as many as the evaluator takes.
const FEW_ROWS: [(&str, &str, &str); 3] = [
    ("layernorm", "seq_len = 256", "seq_len = 24"),
    ("rmsnorm", "seq_len = 512", "seq_len = 24"),
    ("rotary", "seq_len = 512", "seq_len = 24"),
];

/// The problem of an example, or a smaller one like it in `scratch`.
fn with_few_rows(folder: &Path, scratch: &Path) -> PathBuf {
    let problem = folder.join("problem.py");
    let Some((_, many, few)) = FEW_ROWS.iter().find(|(name, ..)| folder.ends_with(name)) else { return problem };
    let text = std::fs::read_to_string(&problem).unwrap();
    assert!(text.contains(many), "{}", problem.display());
    let smaller = scratch.join("problem.py");
    std::fs::write(&smaller, text.replace(many, few)).unwrap();
    smaller
}

#[test]
fn triton_examples_are_interpreted_and_compiled_ahead_of_time() {
    let folders = example_folders().into_iter().filter(|folder| folder.join("nvidia_triton.py").exists());
    let folders: Vec<PathBuf> = folders.collect();
    assert!(folders.len() >= IN_TRITON, "{}", folders.len());
    in_lanes(LANES, &folders, |folder| {
        let scratch = tempfile::tempdir().unwrap();
        let answer = judge("nvidia/triton", &with_few_rows(folder, scratch.path()), &folder.join("nvidia_triton.py"));
        assert_eq!(verdict(&answer), "correct", "{}: {answer}", folder.display());
        assert_eq!(answer["evidence"], "correct_only");
        assert_eq!(answer["speedup"], Value::Null);
    });
}

#[test]
fn the_example_that_models_are_shown_is_right() {
    for target in ["cpu/cpp", "nvidia/triton"] {
        let folder = root().join("crates/kforge/targets").join(target.replace('/', "-")).join("example");
        let answer = judge(target, &folder.join("problem.py"), &folder.join("candidate.py"));
        assert_eq!(verdict(&answer), "correct", "{target}: {answer}");
        assert_eq!(answer["problem"]["flags"], Value::Array(Vec::new()), "{target}");
        assert_eq!(answer["findings"], Value::Array(Vec::new()), "{target}");
    }
}

#[test]
fn what_triton_cannot_compile_is_found_without_a_gpu() {
    let problem = root().join("examples/softmax/problem.py");
    let answer = judge("nvidia/triton", &problem, &root().join("examples/failing/triton_does_not_compile.py"));
    assert_eq!(verdict(&answer), "compilation_failure/compiler", "{answer}");
    assert!(answer["reason"].as_str().unwrap().contains("sm_90"), "{answer}");
}
