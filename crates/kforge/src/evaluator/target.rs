//! Which target is meant where none is named: candidates show it in their text, else the machine does.

use crate::usage::Usage;
use kforge_exec::{
    doctor::{DoctorRequest, Status, diagnose},
    nvidia,
};
use kforge_guard::Language;
use kforge_types::Target;
use std::path::Path;

/// The target that all candidates are written for. Each is a name and a text.
pub fn written_for<'a>(candidates: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Target, Usage> {
    let taken: Vec<(&str, Target)> = candidates.map(|(name, text)| (name, of_text(text))).collect();
    let Some((_, first)) = taken.first() else { return Ok(cpu()) };
    if taken.iter().all(|(_, target)| target == first) {
        return Ok(first.clone());
    }
    let list: Vec<String> = taken.iter().map(|(name, target)| format!("{name} for {target}")).collect();
    let list = list.join(", ");
    Err(Usage(format!("the candidates are not for one target ({list}): judge them apart, or name one with --target")))
}

/// The same on every machine: what a text is written for does not depend on who reads it.
fn of_text(text: &str) -> Target {
    match kforge_guard::language(text) {
        Some(Language::Cuda) => nvidia("cuda"),
        Some(Language::Cute) => nvidia("cute"),
        Some(Language::Triton) => nvidia("triton"),
        None => cpu(),
    }
}

/// The best target of this machine, and why.
pub(crate) fn best_here(device: Option<usize>, python: Option<&Path>) -> (Target, String) {
    let gpus = nvidia::gpus().unwrap_or_default();
    // A GPU that is asked for by a wrong number is refused later, with the reason.
    let gpu = gpus.get(device.unwrap_or(0)).or(gpus.first());
    for_machine(gpu.map(|gpu| gpu.name.as_str()), || builds_cuda(python))
}

/// Where nvcc is missing Triton still works: it brings its own compiler.
fn for_machine(gpu: Option<&str>, builds_cuda: impl Fn() -> bool) -> (Target, String) {
    match gpu {
        None => (cpu(), "since no GPU is visible here".to_owned()),
        Some(gpu) if builds_cuda() => (nvidia("cuda"), format!("since {gpu} and nvcc are here")),
        Some(gpu) => (nvidia("triton"), format!("since {gpu} is here, but no working nvcc")),
    }
}

/// Whether `kforge doctor` finds what CUDA C++ is built with.
fn builds_cuda(python: Option<&Path>) -> bool {
    let rows = diagnose(&DoctorRequest::from_environment(python.map(Path::to_owned), Vec::new()));
    ["nvcc", "c++"].iter().all(|tool| rows.iter().any(|row| row.name == *tool && row.status == Status::Ok))
}

fn cpu() -> Target {
    Target { vendor: "cpu".to_owned(), model: "cpp".to_owned() }
}

fn nvidia(model: &str) -> Target {
    Target { vendor: "nvidia".to_owned(), model: model.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target;

    const TRITON: &str = "import triton\n";
    const PLAIN: &str = "import torch\n";

    #[test]
    fn candidates_that_do_not_agree_are_named() {
        let seen = |candidates: &[(&str, &str)]| written_for(candidates.iter().copied());
        assert_eq!(seen(&[("a.py", TRITON), ("b.py", TRITON)]).unwrap().to_string(), "nvidia/triton");
        let text = seen(&[("a.py", TRITON), ("b.py", PLAIN)]).unwrap_err().to_string();
        assert!(text.contains("a.py for nvidia/triton, b.py for cpu/cpp") && text.contains("--target"), "{text}");
    }

    #[test]
    fn the_example_of_each_target_is_taken_for_it() {
        for pack in target::all().unwrap() {
            let text = target::texts(&pack.name).unwrap().example_candidate;
            assert_eq!(of_text(&text), pack.name);
        }
    }

    #[test]
    fn a_machine_gets_the_best_that_it_can_build() {
        let of = |gpu, builds: bool| for_machine(gpu, || builds).0.to_string();
        assert_eq!(of(Some("NVIDIA H200"), true), "nvidia/cuda");
        assert_eq!(of(Some("NVIDIA H200"), false), "nvidia/triton");
        assert_eq!(of(None, true), "cpu/cpp");
    }
}
