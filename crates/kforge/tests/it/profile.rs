//! `kforge profile` for real: whatever this machine lacks must be a reason, not a gap.

use crate::support::{answers, errors, kforge, run};
use kforge_types::Profile;

const RUNGS: [&str; 7] =
    ["candidate", "perf counters", "perf samples", "vectorisation report", "disassembly", "torch profiler", "roofline"];

fn profiled(arguments: &[&str]) -> Profile {
    let output = run(kforge().arg("profile").args(arguments).arg("--json"));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    serde_json::from_value(answers(&output).remove(0)).unwrap()
}

#[test]
fn a_good_kernel_is_profiled_rung_by_rung() {
    let profile = profiled(&["examples/softmax/problem.py", "examples/softmax/cpu_cpp.py"]);
    let names: Vec<&str> = profile.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, RUNGS);
    for source in &profile.sources {
        assert!(!source.detail.is_empty() && source.seconds >= 0.0, "{source:?}");
        let needed = ["candidate", "vectorisation report", "torch profiler", "roofline"];
        assert!(source.had || !needed.contains(&source.name.as_str()), "{source:?}");
    }
    let roofline = profile.roofline.unwrap();
    assert!(["memory", "compute", "overhead"].contains(&roofline.class.as_str()));
    assert!((roofline.bytes - 2.0 * 4.0 * 1024.0 * 2048.0).abs() < 1.0, "{roofline:?}");
    assert!(roofline.flops.is_some_and(|flops| flops >= 1024.0 * 2048.0));
    assert!(roofline.memory_bytes_per_s > 1e8 && roofline.flops_per_s.is_some_and(|peak| peak > 1e8));
    assert!(roofline.floor_us > 0.0 && roofline.time_us > 0.0);
    assert!((3..=12).contains(&profile.findings.len()), "{:?}", profile.findings);
    for finding in &profile.findings {
        assert!(!finding.metrics.is_empty(), "{finding:?}");
        assert!(names.contains(&finding.source.as_str()), "{finding:?}");
    }
    assert_eq!(profile.findings[0].source, "roofline");
    let says = |source: &str, words: &str| {
        profile.findings.iter().any(|finding| finding.source == source && finding.text.contains(words))
    };
    assert!(says("vectorisation report", "vectorised 3 innermost loops"), "{:?}", profile.findings);
    assert!(says("torch profiler", "aten::_softmax"), "{:?}", profile.findings);
    assert!(profile.documents.iter().all(|document| document.text.len() < 70_000));
    let again = profiled(&["examples/softmax/problem.py", "examples/softmax/cpu_cpp.py", "--time-us", "1000"]);
    let reference = again.sources.iter().find(|source| source.name == "torch profiler").unwrap();
    assert!(reference.had && reference.detail.ends_with("from an earlier profile"), "{reference:?}");
    assert!(again.findings.iter().any(|finding| finding.text.contains("aten::_softmax")), "{:?}", again.findings);
}

const SCALAR: &str = r#"
import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols, double t) {
    for (int64_t r = 0; r < rows; ++r) {
        float top = -INFINITY, sum = 0.0f;
        for (int64_t c = 0; c < cols; ++c) top = std::fmax(top, x[r * cols + c] / (float)t);
        for (int64_t c = 0; c < cols; ++c) {
            y[r * cols + c] = std::exp(x[r * cols + c] / (float)t - top);
            sum += y[r * cols + c];
        }
        for (int64_t c = 0; c < cols; ++c) y[r * cols + c] /= sum;
    }
    return 0;
}
"""
lib = kforge_rt.build(SOURCE, flags=["-O3"], name="softmax\x1b[2J")


class NewModel(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, x):
        y = torch.empty_like(x)
        lib.softmax(x, y, x.numel() // x.shape[-1], x.shape[-1], float(self.temperature))
        return y
"#;

#[test]
fn a_slow_kernel_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("candidate.py");
    std::fs::write(&file, SCALAR).unwrap();
    let profile = profiled(&["examples/softmax/problem.py", file.to_str().unwrap(), "--time-us", "5000.5"]);
    assert!((profile.roofline.unwrap().time_us - 5000.5).abs() < 1e-9);
    let texts: Vec<&str> = profile.findings.iter().map(|finding| finding.text.as_str()).collect();
    assert!(texts.iter().any(|text| text.contains("is not vectorised") && text.contains("calls exp,")), "{texts:?}");
    let disassembled = profile.sources.iter().any(|source| source.name == "disassembly" && source.had);
    let told = texts.iter().any(|text| text.contains("softmax calls scalar libm functions in a loop: expf"));
    assert!(told || !disassembled, "{texts:?}");
    assert!(texts.iter().all(|text| !text.contains('\u{1b}')));
}

#[test]
fn a_candidate_that_does_not_run_has_a_reason() {
    let output = run(kforge()
        .args(["profile", "--json", "examples/softmax/problem.py"])
        .arg("examples/failing/compilation_failure.py"));
    assert_eq!(output.status.code(), Some(11), "{}", errors(&output));
    let profile: Profile = serde_json::from_value(answers(&output).remove(0)).unwrap();
    assert!(!profile.sources[0].had && profile.sources[0].detail.contains("does not build"), "{:?}", profile.sources);
    assert!(profile.roofline.is_none());
}

#[test]
fn a_wrong_output_is_not_profiled_and_that_is_the_first_line() {
    let output = run(kforge().args(["profile", "examples/softmax/problem.py"]).arg("examples/failing/mismatch.py"));
    assert_eq!(output.status.code(), Some(11), "{}", errors(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.contains("mismatch.py: its output is wrong: not profiled; output: "), "{said}");
}
