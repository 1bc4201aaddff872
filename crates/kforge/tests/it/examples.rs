//! What the README shows: every example is judged as it says.

use crate::support::{answers, errors, kforge, root, run, verdict};
use serde_json::Value;
use std::path::PathBuf;

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

/// No target is named: the candidate's text is to show it.
fn judge(target: &str, problem: &std::path::Path, candidate: &std::path::Path) -> Value {
    let output = run(kforge().args(["eval", "--json", "--baselines", "eager"]).arg(problem).arg(candidate));
    let answer = answers(&output).pop().unwrap_or_else(|| panic!("{}: {}", candidate.display(), errors(&output)));
    assert_eq!(answer["target"], target, "{}", candidate.display());
    let said = errors(&output).matches(&format!("detected target {target} from the candidate")).count();
    assert_eq!(said, 1, "{}", errors(&output));
    answer
}

#[test]
fn every_cpu_example_is_right_and_measured() {
    let folders = example_folders();
    assert!(folders.len() >= EXAMPLES, "{} examples", folders.len());
    for folder in folders {
        let answer = judge("cpu/cpp", &folder.join("problem.py"), &folder.join("cpu_cpp.py"));
        assert_eq!(verdict(&answer), "correct", "{}: {answer}", folder.display());
        assert_eq!(answer["evidence"], "measured");
        assert_eq!(answer["problem"]["flags"], Value::Array(Vec::new()), "{}", folder.display());
    }
}

#[test]
fn a_kernel_may_come_by_plain_ctypes_or_load_inline() {
    let folder = root().join("examples/softmax");
    for name in ["plain_ctypes.py", "load_inline.py"] {
        let answer = judge("cpu/cpp", &folder.join("problem.py"), &folder.join(name));
        assert_eq!(verdict(&answer), "correct", "{name}: {answer}");
    }
}

#[test]
fn each_failing_state_has_an_example() {
    let problem = root().join("examples/softmax/problem.py");
    for state in ["mismatch", "runtime_error", "compilation_failure", "generation_failure"] {
        let candidate = root().join(format!("examples/failing/{state}.py"));
        let answer = judge("cpu/cpp", &problem, &candidate);
        assert_eq!(answer["state"], state, "{answer}");
        assert!(!answer["reason"].as_str().unwrap().is_empty());
    }
    let compiler = judge("cpu/cpp", &problem, &root().join("examples/failing/compilation_failure.py"));
    assert!(compiler["reason"].as_str().unwrap().contains("error:"), "{compiler}");
}

#[test]
fn triton_examples_are_interpreted_and_compiled_ahead_of_time() {
    let mut judged = 0;
    for folder in example_folders() {
        let candidate = folder.join("nvidia_triton.py");
        if candidate.exists() {
            let answer = judge("nvidia/triton", &folder.join("problem.py"), &candidate);
            assert_eq!(verdict(&answer), "correct", "{}: {answer}", folder.display());
            assert_eq!(answer["evidence"], "correct_only");
            assert_eq!(answer["speedup"], Value::Null);
            judged += 1;
        }
    }
    assert!(judged >= IN_TRITON, "{judged}");
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
