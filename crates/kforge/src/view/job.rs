//! A job that was done, as a line.

use crate::job::{Job, JobResult, Outcome};
use kforge_types::{DuelOutcome, State};

/// `softmax-eval-0f3a...: cpu_cpp.py: correct, 1.75x (12.3 s)`.
pub(crate) fn job(job: &Job, result: &JobResult) -> String {
    let line = format!("{}: {}: {} ({:.1} s)", job.id, job.work.name, result.summary(), result.seconds);
    crate::text::one_line(&line, 600)
}

/// As `kforge eval` and `kforge profile` would end; nothing where the machinery failed.
pub(crate) fn job_exit_code(result: &JobResult) -> Option<u8> {
    match &result.outcome {
        Outcome::Judged { result } => Some(result.state.exit_code()),
        Outcome::Profiled { profile } => {
            let ran = profile.sources.first().is_some_and(|source| source.had);
            Some(if ran { 0 } else { State::RuntimeError.exit_code() })
        }
        Outcome::Duelled { outcome: DuelOutcome::Fought(_) } => Some(0),
        Outcome::Duelled { outcome: DuelOutcome::Unfit { .. } } => Some(State::RuntimeError.exit_code()),
        Outcome::Failed { .. } | Outcome::Refused { .. } => None,
    }
}
