//! What each prompt is made of. Plain data: the driver fills it from the history, `view` bounds and cleans it.

use crate::reply::{Correction, Recommendation};
use kforge_types::{
    Contract, DeviceInfo, EvalResult, Interval, ProblemReport, Profile, Roofline, State, Target, Versions,
};
use serde::Serialize;

/// What stays the same over a run: the problem, the machine, the rules of the game.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Job {
    /// The problem's file name, as the user gave it.
    pub(crate) problem_file: String,
    /// Its source, in every prompt.
    pub(crate) problem_source: String,
    pub(crate) target: Target,
    /// The user's own words about the task; may be empty.
    pub(crate) task: String,
    /// The contract in force.
    pub(crate) contract: Contract,
    pub(crate) device: DeviceInfo,
    /// What kernels are compiled for, such as `sm_90a`; `native` on the CPU.
    pub(crate) arch: String,
    pub(crate) versions: Versions,
    /// What the intake check said of the problem, once it is known.
    pub(crate) problem: Option<ProblemReport>,
    /// Whether candidates are timed on this machine, or only verified.
    pub(crate) timed: bool,
    /// Whether candidates are run on this machine at all, or compiled and nothing more.
    pub(crate) runs: bool,
    /// Source rules that the user switched off.
    pub(crate) rules_off: Vec<String>,
    /// Patterns that the user forbids.
    pub(crate) bans: Vec<String>,
    /// Patterns that the user wants to see.
    pub(crate) requires: Vec<String>,
}

/// One prompt for the generator.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GeneratorInput {
    pub(crate) job: Job,
    /// From 1.
    pub(crate) iteration: u32,
    pub(crate) pass: GeneratorPass,
    /// Earlier attempts, oldest first.
    pub(crate) history: Vec<Attempt>,
}

/// What the generator is to do.
#[derive(Debug, Clone, Serialize)]
pub(crate) enum GeneratorPass {
    /// Functional pass, nothing written yet.
    First,
    /// Functional pass, after a candidate that is not correct, or that nothing could run.
    Repair(Repair),
    /// Optimisation pass, from the best candidate so far.
    Optimise(Box<Optimise>),
}

/// A candidate that is not correct, and what is known about it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Repair {
    pub(crate) failure: Failure,
    /// The analyst's word, where it gave one.
    pub(crate) correction: Option<Correction>,
}

/// How the last attempt failed.
#[derive(Debug, Clone, Serialize)]
pub(crate) enum Failure {
    /// A candidate was judged.
    Judged {
        /// Its source.
        candidate: String,
        /// What the evaluator said.
        result: Box<EvalResult>,
    },
    /// The reply held no candidate.
    NoCandidate {
        /// The reply, of which the start is shown.
        reply: String,
        /// The text of an `ExtractError`.
        error: String,
    },
}

/// The best candidate so far and what to try next.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Optimise {
    pub(crate) candidate: String,
    pub(crate) result: EvalResult,
    /// Where it stands against the machine's limits.
    pub(crate) roofline: Option<Roofline>,
    /// The analyst's single recommendation, where it gave one.
    pub(crate) recommendation: Option<Recommendation>,
}

/// One earlier attempt, for the history.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Attempt {
    pub(crate) iteration: u32,
    /// The generator's own `Idea:` line, or empty.
    pub(crate) idea: String,
    /// The method that the analyst had recommended for it, or empty.
    pub(crate) advised: String,
    /// `None` where no candidate came.
    pub(crate) state: Option<State>,
    pub(crate) speedup: Option<f64>,
    pub(crate) interval: Option<Interval>,
    /// Medians of this candidate and of the fastest baseline beside it, in microseconds.
    pub(crate) times_us: Option<(f64, f64)>,
    /// How it did beside the best of its time.
    pub(crate) beside: Option<Beside>,
    /// What of its measurement says why it is no faster, or empty.
    pub(crate) held_back_by: String,
    /// Why it failed, or why there is no speedup; or empty.
    pub(crate) reason: String,
}

/// An attempt beside the best one before it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Beside {
    pub(crate) iteration: u32,
    /// The other one's time over this one's: above 1 this one is faster.
    pub(crate) ratio: f64,
    /// Where both were timed in turns on the same inputs; else the ratio is of two evaluations.
    pub(crate) interval: Option<Interval>,
}

/// One prompt for the analyst.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AnalystInput {
    pub(crate) job: Job,
    /// From 1.
    pub(crate) iteration: u32,
    pub(crate) pass: AnalystPass,
    /// Earlier attempts with the advice behind them, oldest first.
    pub(crate) history: Vec<Attempt>,
}

/// What the analyst is asked for.
#[derive(Debug, Clone, Serialize)]
pub(crate) enum AnalystPass {
    /// Why is this candidate not correct, or would not be, where it was only compiled?
    Correction(Failure),
    /// What is the one next step for this correct candidate? It is the one that was profiled.
    Optimisation(Box<Profiled>),
}

/// A candidate and the profile of that very candidate.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Profiled {
    pub(crate) candidate: String,
    pub(crate) result: EvalResult,
    pub(crate) profile: Profile,
    /// Names of the images that are sent along, in order.
    pub(crate) images: Vec<String>,
}

/// The analyst's answer was no valid JSON; it is asked once more.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AnalystRepair {
    pub(crate) iteration: u32,
    pub(crate) wanted: Wanted,
    /// The answer.
    pub(crate) reply: String,
    /// The text of an `AdviceError`.
    pub(crate) error: String,
}

/// Which object the analyst has to answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Wanted {
    Correction,
    Recommendation,
}
