//! What to do next, as pure functions of what has happened: no clock, no files, no chance.

pub(crate) mod next;
pub(crate) mod stop;
pub(crate) mod strategy;

use serde::{Deserialize, Serialize};

/// Everything the search goes by besides the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rules {
    pub(crate) iterations: u32,
    pub(crate) strategy: Strategy,
    /// Whether a round goes on from the best so far or from the latest.
    pub(crate) base: Base,
    pub(crate) ablation: Ablation,
    pub(crate) limits: Limits,
    /// Rounds without a better kernel after which the search ends; 0 for never.
    pub(crate) plateau: u32,
    /// Ends the search when the best is within this share of the physical floor (0.05: five percent above it).
    pub(crate) near_floor: Option<f64>,
    /// Whether candidates can be profiled and timed on this target here.
    pub(crate) measured: bool,
    /// How many of the user's scripts run after each evaluation, and at the end.
    pub(crate) hooks_after_evaluation: usize,
    pub(crate) hooks_at_end: usize,
    /// Whether there is a kernel to start from.
    pub(crate) start: bool,
    /// Whether the winner is judged once more in a fresh process.
    pub(crate) confirm: bool,
}

/// How attempts follow from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub(crate) enum Strategy {
    /// Each attempt goes on from an earlier one.
    Refine,
    /// One attempt.
    Single,
    /// `samples` first tries that know nothing of each other.
    Sample { samples: u32 },
    /// First tries, then refinement of the best.
    SampleRefine { samples: u32 },
    /// The `width` best are gone on with in turns.
    Beam { width: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Base {
    Best,
    Latest,
}

/// What is switched off, for comparisons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Ablation {
    /// No analyst: the generator sees verdicts and times as they are.
    pub(crate) self_refine: bool,
    /// The analyst corrects, but does not recommend.
    pub(crate) correction_only: bool,
    /// The analyst recommends, but does not correct.
    pub(crate) optimisation_only: bool,
    /// The analyst sees times, but no profile.
    pub(crate) no_profile: bool,
    /// The analyst sees everything that was measured, not a choice.
    pub(crate) all_metrics: bool,
}

/// Hard caps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub(crate) usd: Option<f64>,
    pub(crate) tokens: Option<u64>,
    pub(crate) seconds: Option<f64>,
}
