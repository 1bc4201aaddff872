//! Candidates for a GPU on a machine without one: compiled, never called, and for that not correct.

use crate::support::{answers, errors, kforge, root, run, verdict};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

const PROBLEM: &str = "examples/gpu/softmax/problem.py";

const CUDA: &str = r#"kforge_rt.build(r"""
extern "C" __global__ void softmax(const float* x, float* y, long long n) { if (n > 0) y[0] = x[0]; }
""", lang="cuda", jit="nvrtc")"#;

const PTX: &str = r#"kforge_rt.build(r"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry softmax() { ret; }
""", lang="ptx")"#;

/// The binary, on a machine whose GPUs, if it has any, are hidden.
fn without_gpu() -> Command {
    let mut command = kforge();
    command.env("CUDA_VISIBLE_DEVICES", "");
    command
}

/// Builds a kernel, launches nothing, and gives zeros.
fn zeros(kernel: &str) -> String {
    format!(
        "import kforge_rt\nimport torch\nfrom torch import nn\n\nlib = {kernel}\n\n\nclass NewModel(nn.Module):\n    \
         def forward(self, x):\n        return torch.zeros_like(x)\n"
    )
}

/// One candidate that returns zeros for each way of building that works here.
fn candidates(folder: &Path) -> Vec<PathBuf> {
    let rows = answers(&run(without_gpu().args(["doctor", "--json"]))).remove(0);
    let nvrtc = rows.as_array().unwrap().iter().any(|row| row["name"] == "nvrtc" && row["status"] == "ok");
    if !nvrtc {
        println!("skipped: CUDA C++, since torch brings no NVRTC here");
    }
    let written = [("ptx", PTX, true), ("cuda", CUDA, nvrtc)].into_iter().filter(|(_, _, works)| *works);
    written
        .map(|(name, kernel, _)| {
            let file = folder.join(format!("{name}.py"));
            std::fs::write(&file, zeros(kernel)).unwrap();
            file
        })
        .collect()
}

fn assert_is_compiled_and_no_more(answer: &Value) {
    assert_eq!((verdict(answer).as_str(), answer["evidence"].as_str()), ("compiled", Some("compiled")), "{answer}");
    let checks: Vec<&str> =
        answer["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    assert_eq!(checks, ["build"], "{answer}");
    assert!(answer["reason"].as_str().unwrap().contains("never called"), "{answer}");
    assert!(answer["speedup"].is_null() && answer["candidate"].is_null(), "{answer}");
}

#[test]
fn zeros_without_a_gpu_are_compiled_and_not_correct() {
    let folder = tempfile::tempdir().unwrap();
    for candidate in candidates(folder.path()) {
        let eval = |flags: &[&str]| run(without_gpu().args(["eval", PROBLEM]).arg(&candidate).args(flags));
        let output = eval(&["--json"]);
        assert_eq!(output.status.code(), Some(14), "{}", errors(&output));
        assert_is_compiled_and_no_more(&answers(&output)[0]);
        let output = eval(&[]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.lines().next().unwrap().ends_with(": compiled, never run"), "{text}");
    }
}

#[test]
fn a_kernel_that_does_not_compile_is_still_a_compilation_failure() {
    let folder = tempfile::tempdir().unwrap();
    for candidate in candidates(folder.path()).into_iter().filter(|path| path.ends_with("cuda.py")) {
        std::fs::write(&candidate, zeros(&CUDA.replace("y[0] = x[0];", "y[0] = z[0];"))).unwrap();
        let output = run(without_gpu().args(["eval", "--json", PROBLEM]).arg(&candidate));
        assert_eq!(output.status.code(), Some(12), "{}", errors(&output));
    }
}

/// Triton's interpreter calls a candidate, so that its outputs are known: wrong ones here, right ones in `examples`.
#[test]
fn what_the_interpreter_runs_is_right_or_wrong_and_not_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let (problem, candidate) = (folder.path().join("problem.py"), folder.path().join("triton.py"));
    std::fs::write(&candidate, zeros("None").replace("import kforge_rt", "import triton")).unwrap();
    // It is judged at the problem's own sizes too, where a truth of the example's takes gigabytes and minutes.
    let text = std::fs::read_to_string(root().join(PROBLEM)).unwrap();
    let small = text.replace("rows = 2048", "rows = 96").replace("cols = 16384", "cols = 1000");
    assert!(small.contains("rows = 96") && small.contains("cols = 1000"), "{small}");
    std::fs::write(&problem, small).unwrap();
    let output = run(without_gpu().args(["eval", "--json"]).arg(&problem).arg(&candidate));
    assert_eq!(output.status.code(), Some(10), "{}", errors(&output));
    assert!(errors(&output).contains("trying the problem's own sizes"), "{}", errors(&output));
}

#[test]
fn a_worker_without_a_gpu_answers_compiled() {
    let folder = tempfile::tempdir().unwrap();
    let candidate = candidates(folder.path()).remove(0);
    let exchange = folder.path().join("jobs");
    let eval = |more: &[&str]| -> Output {
        let executor = format!("exchange:{}", exchange.display());
        run(without_gpu().args(["eval", "--json", "--executor", &executor]).args(more).arg(PROBLEM).arg(&candidate))
    };
    let submitted = eval(&["--submit"]);
    assert_eq!(submitted.status.code(), Some(0), "{}", errors(&submitted));
    let drained = run(without_gpu().args(["worker", "drain"]).arg(&exchange));
    assert_eq!(drained.status.code(), Some(0), "{}", errors(&drained));
    let said = String::from_utf8_lossy(&drained.stdout).into_owned();
    assert!(said.contains(": ptx.py: compiled, never run ("), "{said}");
    let output = eval(&[]);
    assert_eq!(output.status.code(), Some(14), "{}", errors(&output));
    assert_is_compiled_and_no_more(&answers(&output)[0]);
}

/// A model that always gives the same candidate.
fn optimize(folder: &Path, candidate: &Path, more: &[&str]) -> Output {
    let reply = format!("Idea: zeros\n\n```python\n{}```\n", std::fs::read_to_string(candidate).unwrap());
    std::fs::write(folder.join("reply.md"), reply).unwrap();
    let script = format!("cat > /dev/null; cat {}/reply.md", folder.display());
    let registry =
        format!("[[model]]\nname = \"mine\"\nwire = \"command\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n");
    std::fs::write(folder.join("models.toml"), registry).unwrap();
    let mut command = without_gpu();
    command.current_dir(folder).arg("optimize").arg(root().join(PROBLEM)).args(["--run", "run", "--iterations", "3"]);
    command.args(["--target", "nvidia/cuda", "--models-file", "models.toml", "--model", "mine"]).args(more);
    run(&mut command)
}

#[test]
fn optimize_crowns_nothing_that_was_never_run() {
    let folder = tempfile::tempdir().unwrap();
    let candidate = candidates(folder.path()).remove(0);
    let output = optimize(folder.path(), &candidate, &[]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(20), "{said}");
    assert!(said.contains("no GPU is visible here: kernels for nvidia/cuda are compiled and never run"), "{said}");
    let story = String::from_utf8_lossy(&output.stdout).into_owned();
    let headline = story.lines().next().unwrap();
    assert!(headline.contains("no correct kernel in 1 attempt; attempt 1 was compiled but never run"), "{story}");
    let row = story.lines().find(|line| line.contains("functional")).unwrap();
    assert!(row.contains("compiled, never run") && !row.contains('*'), "{story}");
    assert!(!folder.path().join("run/softmax/best").exists(), "{story}");

    let shown = run(kforge().current_dir(folder.path()).args(["show", "run"]));
    assert_eq!(String::from_utf8_lossy(&shown.stdout).lines().next(), Some(headline));
    // Where still nothing can be run, going on asks no model again.
    let resumed = run(without_gpu().current_dir(folder.path()).args(["resume", "run"]));
    assert_eq!(resumed.status.code(), Some(20), "{}", errors(&resumed));
    let journal = std::fs::read_to_string(folder.path().join("run/journal.jsonl")).unwrap();
    assert_eq!(journal.matches("\"type\":\"judged\"").count(), 1, "{journal}");
    assert!(journal.contains("\"type\":\"finished\",\"best\":null"), "{journal}");
}
