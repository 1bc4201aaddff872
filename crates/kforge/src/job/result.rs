//! The answer to a job.

use super::VERSION;
use kforge_types::{DuelOutcome, EvalResult, Profile};
use serde::{Deserialize, Serialize};

/// Stages of an evaluation in which the device works.
const DEVICE_STAGES: [&str; 4] = ["audit", "baselines", "time", "verify"];

/// What `out/result.json` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JobResult {
    /// [`VERSION`].
    pub(crate) version: u32,
    pub(crate) job: String,
    /// Who did it.
    pub(crate) worker: String,
    pub(crate) kforge: String,
    pub(crate) finished: jiff::Timestamp,
    /// From claim to answer.
    pub(crate) seconds: f64,
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Outcome {
    Judged {
        result: Box<EvalResult>,
    },
    Profiled {
        profile: Box<Profile>,
    },
    Duelled {
        outcome: DuelOutcome,
    },
    /// The machinery failed, not the candidate.
    Failed {
        class: Failure,
        text: String,
    },
    /// The worker does not know this form of job.
    Refused {
        found: Option<u64>,
        knows: u32,
        text: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Failure {
    /// The problem cannot be judged there, a compiler is missing, or there is less sandbox than was demanded.
    Input,
    /// The evaluator failed on this candidate again and again, and works otherwise.
    GaveUp,
    /// Anything else.
    Machinery,
}

impl JobResult {
    pub(crate) fn new(job: &str, worker: &str, seconds: f64, outcome: Outcome) -> Self {
        Self {
            version: VERSION,
            job: job.to_owned(),
            worker: worker.to_owned(),
            kforge: env!("CARGO_PKG_VERSION").to_owned(),
            finished: jiff::Timestamp::now(),
            seconds,
            outcome,
        }
    }

    /// Whether asking again would give nothing new. Anything else may be mended where the worker is.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self.outcome, Outcome::Judged { .. } | Outcome::Profiled { .. } | Outcome::Duelled { .. })
    }

    /// Seconds of stages in which the device works; those of a profile are not told apart and count as none.
    pub(crate) fn device_s(&self) -> f64 {
        match &self.outcome {
            Outcome::Judged { result } => DEVICE_STAGES.iter().filter_map(|stage| result.stages_s.get(*stage)).sum(),
            _ => 0.0,
        }
    }

    /// In a few words.
    pub(crate) fn summary(&self) -> String {
        match &self.outcome {
            Outcome::Judged { result } => {
                let state = result.state.label();
                result.speedup.map_or(state.to_owned(), |speedup| format!("{state}, {speedup:.2}x"))
            }
            Outcome::Profiled { profile } => format!("profiled, {} findings", profile.findings.len()),
            Outcome::Duelled { outcome: DuelOutcome::Fought(duel) } => format!("compared, {:.3}x", duel.ratio),
            Outcome::Duelled { outcome: DuelOutcome::Unfit { reason, .. } } => format!("not compared: {reason}"),
            Outcome::Failed { text, .. } => format!("failed: {text}"),
            Outcome::Refused { text, .. } => format!("refused: {text}"),
        }
    }
}
