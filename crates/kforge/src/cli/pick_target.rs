//! Which target is meant where none is named, and that it is said.

use super::{Usage, printer::Printer};
use crate::{
    config::{Executor, Resolved},
    evaluator::{best_here, written_for},
    models,
};
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
    let target = written_for(candidates)?;
    printer.note(&format!("kforge: detected target {target} from the candidate; override with --target"));
    Ok(target)
}

/// The target of the settings, else that of the recorded replies, else the best one for this machine.
pub(crate) fn for_run(
    settings: &Resolved,
    problem_hash: &str,
    python: Option<&Path>,
    printer: &Printer,
) -> anyhow::Result<Target> {
    let evaluation = &settings.evaluation;
    if let Some(named) = &evaluation.target {
        return Ok(named.clone());
    }
    let (target, why) = if let Some(recorded) = models::recorded_target(settings.search.generator(), problem_hash) {
        (recorded, "which the recorded replies are for".to_owned())
    } else if evaluation.executor == Executor::InPlace {
        best_here(evaluation.device, python)
    } else {
        let text = "another machine evaluates, and its devices cannot be seen from here: name a target with --target, \
                    for example nvidia/cuda (see `kforge targets`)";
        return Err(Usage(text.to_owned()).into());
    };
    printer.note(&format!("kforge: the target is {target}, {why}; override with --target"));
    Ok(target)
}
