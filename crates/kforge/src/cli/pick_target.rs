//! Which target is meant where none is named: candidates show it in their text, for `optimize` the machine does.

use super::{Usage, printer::Printer};
use crate::{
    config::{Executor, Resolved},
    models,
};
use kforge_exec::{
    doctor::{DoctorRequest, Status, diagnose},
    nvidia,
};
use kforge_guard::Language;
use kforge_types::Target;
use std::path::Path;

/// The target that is named, else the one that all candidates are written for. Each is a name and a text.
pub(crate) fn for_candidates<'a>(
    named: Option<&Target>,
    candidates: impl Iterator<Item = (&'a str, &'a str)>,
    printer: &Printer,
) -> anyhow::Result<Target> {
    if let Some(named) = named {
        return Ok(named.clone());
    }
    let taken: Vec<(&str, Target)> = candidates.map(|(name, text)| (name, written_for(text))).collect();
    let target = agreed(&taken)?;
    printer.note(&format!("kforge: taken for {target} by what is imported and built; --target names another"));
    Ok(target)
}

/// The same on every machine: what a text is written for does not depend on who reads it.
fn written_for(text: &str) -> Target {
    match kforge_guard::language(text) {
        Some(Language::Cuda) => nvidia("cuda"),
        Some(Language::Cute) => nvidia("cute"),
        Some(Language::Triton) => nvidia("triton"),
        None => cpu(),
    }
}

fn agreed(taken: &[(&str, Target)]) -> Result<Target, Usage> {
    let Some((_, first)) = taken.first() else { return Ok(cpu()) };
    if taken.iter().all(|(_, target)| target == first) {
        return Ok(first.clone());
    }
    let list: Vec<String> = taken.iter().map(|(name, target)| format!("{name} for {target}")).collect();
    let list = list.join(", ");
    Err(Usage(format!("the candidates are not for one target ({list}): judge them apart, or name one with --target")))
}

/// The target of the settings, else that of the recorded replies, else the best one for this machine.
pub(crate) fn for_run(
    settings: &Resolved,
    problem_hash: &str,
    python: Option<&Path>,
    printer: &Printer,
) -> anyhow::Result<Target> {
    if let Some(named) = &settings.target {
        return Ok(named.clone());
    }
    let (target, why) = if let Some(recorded) = models::recorded_target(settings.generator(), problem_hash) {
        (recorded, "which the recorded replies are for".to_owned())
    } else if settings.executor == Executor::InPlace {
        let gpus = nvidia::gpus().unwrap_or_default();
        // A GPU that is asked for by a wrong number is refused later, with the reason.
        let gpu = gpus.get(settings.device.unwrap_or(0)).or(gpus.first());
        for_machine(gpu.map(|gpu| gpu.name.as_str()), || builds_cuda(python))
    } else {
        let text = "another machine evaluates, and its devices cannot be seen from here: name a target with --target, \
                    for example nvidia/cuda (see `kforge targets`)";
        return Err(Usage(text.to_owned()).into());
    };
    printer.note(&format!("kforge: the target is {target}, {why}; --target names another"));
    Ok(target)
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

    fn picked(named: Option<&str>, candidates: &[(&str, &str)]) -> anyhow::Result<String> {
        let named = named.map(|name| name.parse().unwrap());
        let target = for_candidates(named.as_ref(), candidates.iter().copied(), &Printer::new())?;
        Ok(target.to_string())
    }

    #[test]
    fn candidates_that_do_not_agree_are_named() {
        assert_eq!(picked(None, &[("a.py", TRITON), ("b.py", TRITON)]).unwrap(), "nvidia/triton");
        let error = picked(None, &[("a.py", TRITON), ("b.py", PLAIN)]).unwrap_err();
        assert!(error.is::<Usage>());
        let text = error.to_string();
        assert!(text.contains("a.py for nvidia/triton, b.py for cpu/cpp") && text.contains("--target"), "{text}");
        assert_eq!(picked(Some("cpu/cpp"), &[("a.py", TRITON), ("b.py", PLAIN)]).unwrap(), "cpu/cpp");
    }

    #[test]
    fn the_example_of_each_target_is_taken_for_it() {
        for pack in target::all().unwrap() {
            let text = target::texts(&pack.name).unwrap().example_candidate;
            assert_eq!(written_for(&text), pack.name);
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
