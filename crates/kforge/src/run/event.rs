//! The events of a run. The journal is a list of them, and the truth; what they do not say has not happened.

use kforge_models::{Reply, Usage};
use kforge_types::{DuelOutcome, EvalResult, Profile};
use serde::{Deserialize, Serialize};

/// Version of the form below. Fields are only ever added within a version.
pub(crate) const VERSION: u32 = 1;

/// One line of a journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) v: u32,
    pub(crate) seq: u64,
    /// When it was written; only people and sums of time look at it.
    pub(crate) at: jiff::Timestamp,
    pub(crate) event: Event,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event {
    /// First of all.
    Started(Box<Start>),
    /// Another process goes on; `lost` names a request that was in flight and may be billed twice.
    Resumed { lost: Option<String> },
    /// An attempt is begun.
    Planned { attempt: u32, plan: Plan },
    /// The candidate of an attempt was profiled, for the analyst.
    Profiled { attempt: u32, profile: Profile, seconds: f64 },
    /// A request is on its way.
    Asked {
        attempt: u32,
        role: Role,
        ordinal: u32,
        prompt_hash: String,
        #[serde(default)]
        estimate: Estimate,
    },
    /// A reply was received and paid for.
    Replied { attempt: u32, role: Role, ordinal: u32, reply: Reply },
    /// A request ended without a reply.
    CallFailed { attempt: u32, role: Role, ordinal: u32, failure: CallFailure },
    /// What the analyst's reply came to.
    Advised { attempt: u32, advice: Option<Advice>, note: String },
    /// A candidate has its verdict, or there is none to judge, which is a verdict too.
    Judged { attempt: u32, judged: Box<Judged> },
    /// A candidate met the best so far, interleaved in one evaluation; nothing where that could not be done.
    Duelled { attempt: u32, against: u32, outcome: Option<DuelOutcome>, note: String, seconds: f64 },
    /// A user's script ran.
    Hooked { attempt: Option<u32>, hook: usize, report: HookReport },
    /// The winner was judged once more, with new secret inputs in a fresh process.
    Confirmed { attempt: u32, result: Box<EvalResult> },
    /// The winner could not be judged again.
    Unconfirmed { attempt: u32, why: String },
    /// No more attempts.
    Stopped { reason: StopReason, text: String },
    /// All that follows the last attempt is done too.
    Finished { best: Option<u32> },
}

impl Event {
    /// Which attempt it belongs to.
    pub(crate) fn attempt(&self) -> Option<u32> {
        match self {
            Self::Planned { attempt, .. }
            | Self::Profiled { attempt, .. }
            | Self::Asked { attempt, .. }
            | Self::Replied { attempt, .. }
            | Self::CallFailed { attempt, .. }
            | Self::Advised { attempt, .. }
            | Self::Judged { attempt, .. }
            | Self::Duelled { attempt, .. }
            | Self::Confirmed { attempt, .. }
            | Self::Unconfirmed { attempt, .. } => Some(*attempt),
            Self::Hooked { attempt, .. } => *attempt,
            Self::Started(_) | Self::Resumed { .. } | Self::Stopped { .. } | Self::Finished { .. } => None,
        }
    }
}

/// What a run is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) kforge: String,
    pub(crate) problem: String,
    pub(crate) problem_hash: String,
    pub(crate) target: String,
    pub(crate) generator: String,
    pub(crate) analyst: Option<String>,
    /// Whether replies come from recordings.
    pub(crate) recorded: bool,
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Generator,
    Analyst,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Analyst => "analyst",
        }
    }
}

/// What a prompt is thought to cost, should no reply say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Estimate {
    pub(crate) input: u64,
    /// 0 where the price is not known.
    pub(crate) usd: f64,
}

/// What an attempt is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) pass: Pass,
    /// The attempt it goes on from; none for a first try.
    pub(crate) base: Option<u32>,
    /// Whether the analyst is asked first.
    pub(crate) advice: bool,
    /// Whether the base is profiled for the analyst, if it has not been.
    pub(crate) profile: bool,
}

/// Drive to correct, or drive to fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pass {
    Functional,
    Optimisation,
}

impl Pass {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Functional => "functional",
            Self::Optimisation => "optimisation",
        }
    }
}

/// A call without a reply, as text that can be kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallFailure {
    pub(crate) kind: String,
    pub(crate) text: String,
    pub(crate) attempts: u32,
    pub(crate) may_be_billed: bool,
    /// Asking again cannot help until the user changes something.
    pub(crate) fatal: bool,
    /// The request is made again when the limit is lifted.
    pub(crate) paused: bool,
}

/// The analyst's single next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Advice {
    Correction(crate::reply::Correction),
    Recommendation(crate::reply::Recommendation),
}

impl Advice {
    /// What the analyst's reply says; the error is text for the one repair.
    pub(crate) fn parse(pass: Pass, text: &str) -> Result<Self, String> {
        match pass {
            Pass::Functional => crate::reply::correction(text).map(Self::Correction).map_err(|error| error.to_string()),
            Pass::Optimisation => {
                crate::reply::recommendation(text).map(Self::Recommendation).map_err(|error| error.to_string())
            }
        }
    }

    /// In one line, for histories and people.
    pub(crate) fn headline(&self) -> &str {
        match self {
            Self::Correction(correction) => &correction.critical_issue,
            Self::Recommendation(recommendation) => &recommendation.method,
        }
    }
}

/// A candidate's verdict with the candidate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Judged {
    /// The candidate's text; none where the reply held none.
    pub(crate) source: Option<String>,
    /// The generator's own headline.
    pub(crate) idea: String,
    /// What was noticed when the reply was read.
    pub(crate) notes: Vec<String>,
    pub(crate) result: EvalResult,
    pub(crate) seconds: f64,
}

/// What a user's script gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HookReport {
    pub(crate) command: String,
    pub(crate) ok: bool,
    /// Why not, or what it printed besides its answer.
    pub(crate) text: String,
    /// Replaces the speedup as what counts.
    #[serde(default)]
    pub(crate) score: Option<f64>,
    #[serde(default)]
    pub(crate) measurements: std::collections::BTreeMap<String, f64>,
    pub(crate) seconds: f64,
}

/// Why no further attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopReason {
    Iterations,
    Dollars,
    Tokens,
    Time,
    Plateau,
    NearFloor,
    /// The strategy has nothing more to try.
    Exhausted,
    /// A model cannot be asked until the user changes something.
    Model,
}

/// Sums over calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spend {
    pub(crate) calls: u32,
    pub(crate) input: u64,
    pub(crate) cached_input: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
    /// Dollars where prices are known.
    pub(crate) usd: f64,
    /// Calls whose price is not known; the sum of dollars is then a lower bound.
    pub(crate) unpriced: u32,
    /// Calls whose tokens were estimated.
    pub(crate) estimated: u32,
    pub(crate) seconds: f64,
}

impl Spend {
    pub(crate) fn add(&mut self, usage: &Usage, usd: Option<f64>, seconds: f64) {
        // Servers say what they like: no count may wrap.
        let sum = |kept: u64, more: Option<u64>| kept.saturating_add(more.unwrap_or(0));
        self.calls += 1;
        self.input = sum(self.input, usage.input);
        self.cached_input = sum(self.cached_input, usage.cached_input);
        self.output = sum(self.output, usage.output);
        self.reasoning = sum(self.reasoning, usage.reasoning);
        self.usd += usd.unwrap_or(0.0);
        self.unpriced += u32::from(usd.is_none());
        self.estimated += u32::from(usage.estimated);
        self.seconds += seconds;
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}
