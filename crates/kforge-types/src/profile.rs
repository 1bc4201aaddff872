//! What profilers say of a candidate, in words with the numbers behind them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that could be found out, and what could not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Rungs of the ladder that were tried, in order.
    pub sources: Vec<ProfileSource>,
    /// Plain-language findings, the most important first.
    pub findings: Vec<ProfileFinding>,
    /// Where the candidate stands against this machine's limits.
    pub roofline: Option<Roofline>,
    /// Longer texts, such as a compiler's report, each with a hard size cap.
    pub documents: Vec<ProfileDocument>,
}

/// One profiler or report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileSource {
    /// `perf counters`, `vectorisation report`, ...
    pub name: String,
    /// Whether it gave anything.
    pub had: bool,
    /// Its version, or the reason why it gave nothing and what would mend that.
    pub detail: String,
    /// What it cost.
    pub seconds: f64,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileFinding {
    /// A sentence: "the inner loop of softmax is not vectorised: the compiler says ...".
    pub text: String,
    /// Which source it is from.
    pub source: String,
    /// The metrics behind it, by name.
    pub metrics: std::collections::BTreeMap<String, f64>,
}

/// Position on the roofline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Roofline {
    /// `memory`, `compute` or `overhead` (far from both).
    pub class: String,
    /// Smallest number of bytes that must move: inputs, weights and outputs, once each.
    pub bytes: f64,
    /// Floating-point operations of the reference, where they could be counted.
    pub flops: Option<f64>,
    /// Measured on this machine.
    pub memory_bytes_per_s: f64,
    /// Measured on this machine.
    pub flops_per_s: Option<f64>,
    /// The larger of both times at the measured peaks.
    pub floor_us: f64,
    /// The candidate's time that was compared.
    pub time_us: f64,
}

/// A longer text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileDocument {
    /// A short name that can be a file name.
    pub name: String,
    /// The text.
    pub text: String,
}
