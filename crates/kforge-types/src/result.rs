//! What `kforge eval --json` prints: one object per candidate.

use crate::{Contract, Evidence, Finding, Interval, Kind, State, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of [`EvalResult`]'s form. Fields are only ever added within a version.
pub const RESULT_VERSION: u32 = 1;

const WITHHELD: &str = "speedup";
const NONE_GIVEN: &str = "none is given: ";

/// Everything that is known about one candidate after one evaluation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EvalResult {
    /// [`RESULT_VERSION`].
    pub version: u32,
    /// The problem's file.
    pub problem_file: String,
    /// The candidate's file.
    pub candidate_file: String,
    /// SHA-256 of problem and candidate text.
    pub hash: String,
    /// For which accelerator and programming model.
    pub target: Target,
    /// One of the six states.
    pub state: State,
    /// Sub-kind; a plain correct candidate has none, nor has one that was only compiled.
    pub kind: Option<Kind>,
    /// What the state rests on.
    pub evidence: Evidence,
    /// The cause, as a digest to act on; empty when correct.
    pub reason: String,
    /// Median of the fastest baseline over median of the candidate, as the clock outside proves it.
    pub speedup: Option<f64>,
    /// Its 95 % interval.
    pub speedup_ci: Option<Interval>,
    /// The same by the clocks inside both processes: it may rank candidates, and is no result.
    #[serde(default)]
    pub estimate: Option<f64>,
    /// The speedup on each distribution of inputs, the problem's own first.
    #[serde(default)]
    pub by_distribution: Vec<DistributionRatio>,
    /// The fastest baseline, measured beside this candidate.
    pub baseline: Option<BaselineRef>,
    /// Every baseline that was asked for, also those that did not run.
    pub baselines: Vec<Baseline>,
    /// The candidate's own times.
    pub candidate: Option<Timing>,
    /// Every check that was made, in order.
    pub checks: Vec<Check>,
    /// The contract in force.
    pub contract: Contract,
    /// The precision that was demanded, and whether the inputs could prove it: `fp32`, or `fp32 (unproven)`.
    pub precision: String,
    /// True where a number could not be confirmed from outside.
    pub provisional: bool,
    /// Why it could not.
    #[serde(default)]
    pub provisional_reason: String,
    /// The sandbox that was really enforced.
    pub sandbox: SandboxReport,
    /// Seconds by stage.
    pub stages_s: BTreeMap<String, f64>,
    /// Where it ran.
    pub device: DeviceInfo,
    /// With what it ran.
    pub versions: Versions,
    /// What the intake check said of the problem.
    pub problem: ProblemReport,
    /// Findings of the source rules, soft ones included.
    pub findings: Vec<Finding>,
    /// The end of what the candidate printed and of its compiler's log, cut.
    pub log: String,
}

impl EvalResult {
    /// Why all is right and no speedup is given; nothing where one is, or where nothing was timed.
    #[must_use]
    pub fn withheld(&self) -> Option<&str> {
        let check = self.checks.iter().find(|check| check.name == WITHHELD)?;
        Some(check.detail.strip_prefix(NONE_GIVEN).unwrap_or(&check.detail))
    }

    /// Whether the speedup is the lower end of its interval, because the clock is coarse: it is at least that.
    #[must_use]
    pub fn is_least(&self) -> bool {
        self.speedup.zip(self.speedup_ci).is_some_and(|(speedup, interval)| speedup <= interval.low)
    }
}

impl Check {
    /// That all is right and no speedup is given.
    #[must_use]
    pub fn withheld(why: &str) -> Self {
        Self { name: WITHHELD.to_owned(), passed: true, detail: format!("{NONE_GIVEN}{why}") }
    }
}

/// The speedup on inputs of one distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DistributionRatio {
    /// As in the problem's report.
    pub name: String,
    /// Median of the fastest baseline over median of the candidate.
    pub speedup: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// Number of timed calls.
    pub n: usize,
}

/// Times in microseconds.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// Median.
    pub median_us: f64,
    /// 20th percentile.
    pub p20: f64,
    /// 80th percentile.
    pub p80: f64,
    /// Number of timed calls.
    pub n: usize,
    /// Which clock the numbers come from: `outside`.
    pub clock: String,
    /// How many calls were timed together.
    #[serde(default)]
    pub row_calls: usize,
    /// The same calls as the candidate's own process claims.
    #[serde(default)]
    pub inside_median_us: f64,
    /// Less than this the clock outside does not see of one call.
    #[serde(default)]
    pub resolution_us: f64,
    /// Median with warm caches, for comparison.
    pub warm_median_us: Option<f64>,
    /// On a GPU: median of a call on an idle device, launching included. The published time is that of a device which
    /// finds its work in the queue.
    #[serde(default)]
    pub call_median_us: Option<f64>,
    /// On a GPU: what launching takes on the host.
    #[serde(default)]
    pub launching_median_us: Option<f64>,
    /// On a GPU, where the time is short: the same launches replayed as one CUDA graph with warm caches, as the
    /// candidate's own process claims.
    #[serde(default)]
    pub graph_median_us: Option<f64>,
    /// How caches were made cold.
    pub cold: String,
    /// Seconds that `prepare` took, untimed.
    pub prepare_s: f64,
    /// Share of the time that framework operators took in an audit run.
    pub framework_share: Option<f64>,
}

/// The baseline that the speedup is against.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BaselineRef {
    /// How it runs, and what is switched on: `eager`, `compile`, `max-autotune+cast-weights`.
    pub name: String,
    /// Its median beside this candidate.
    pub median_us: f64,
    /// On a GPU: median of a call on an idle device, launching included.
    #[serde(default)]
    pub call_median_us: Option<f64>,
}

/// One baseline.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// How it runs, and what is switched on: `eager`, `compile`, `max-autotune+cast-weights`.
    pub name: String,
    /// Median; `None` where it did not run.
    pub median_us: Option<f64>,
    /// 20th percentile.
    pub p20: Option<f64>,
    /// 80th percentile.
    pub p80: Option<f64>,
    /// Number of timed calls.
    pub n: usize,
    /// Taken from the cache, or measured in this session.
    pub cached: bool,
    /// Seconds until its first answer (compilation included).
    pub compile_s: Option<f64>,
    /// Why it did not run, or what was noticed.
    pub note: String,
}

/// One check.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// What was seen.
    pub detail: String,
}

/// How much of the sandbox is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Process limits only.
    None,
    /// File and system-call rules, no namespaces.
    Partial,
    /// Namespaces, file rules, system-call rules, limits.
    Full,
}

/// The enforced level and what is missing for the next.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxReport {
    /// The level.
    pub level: SandboxLevel,
    /// What could not be enforced, and why.
    pub missing: Vec<String>,
}

/// The machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInfo {
    /// CPU or accelerator model.
    pub name: String,
    /// Threads that every arm may use.
    pub threads: usize,
    /// Last-level cache in bytes, 0 where unknown.
    pub last_level_cache: u64,
    /// Notes such as the architecture that kernels were compiled for.
    pub note: String,
}

/// Versions of what took part.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Versions {
    /// kforge.
    pub kforge: String,
    /// Python.
    pub python: String,
    /// PyTorch.
    pub torch: String,
    /// The compiler's first line.
    pub compiler: String,
    /// Operating system and kernel.
    pub os: String,
    /// Operators whose kernels torch itself replaces (`torch.backends.python_native`): `triton: bmm`, and which of these
    /// replacements are switched off. They are part of every baseline, and of a candidate that calls the operator.
    #[serde(default)]
    pub torch_overrides: Vec<String>,
}

/// What the intake check said of the problem.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProblemReport {
    /// Weaknesses: what would pass without doing the work.
    pub flags: Vec<String>,
    /// Facts worth knowing: mode, distributions, truth.
    pub notes: Vec<String>,
    /// `float64` or `native`.
    pub truth: String,
    /// Longest reduction seen in the reference.
    pub reduction: u64,
    /// Distributions that inputs were drawn from.
    pub distributions: Vec<String>,
    /// Inputs and buffers that the reference writes, which are compared as its outputs are.
    #[serde(default)]
    pub writes: Vec<String>,
}
