//! The words of kforge as types with a versioned wire form.
//!
//! Nothing here does I/O. Every other crate speaks to the rest of the world in these types, so a change of a
//! field is a change of what scripts see: the JSON schema of [`EvalResult`] is checked in and a test holds it.

mod contract;
mod duel;
mod finding;
mod hash;
mod profile;
mod result;
mod sanitizer;
mod stats;
mod target;
mod verdict;

pub use contract::{Contract, ContractError, FixedInput, Math, Operators, Params, Precision, Redraw};
pub use duel::{Duel, DuelOutcome, Winner};
pub use finding::{Finding, Severity};
pub use hash::{content_hash, hex, short_hash};
pub use profile::{Profile, ProfileDocument, ProfileFinding, ProfileSource, Roofline};
pub use result::{
    Baseline, BaselineRef, Check, DeviceInfo, DistributionRatio, EvalResult, ProblemReport, RESULT_VERSION,
    SandboxLevel, SandboxReport, Timing, Versions,
};
pub use sanitizer::{SANITIZER, SanitizerError, SanitizerReport, SanitizerTool};
pub use stats::{Interval, Summary, deviation_of, median, quantile, ratio_of_medians};
pub use target::{ParseTargetError, Target};
pub use verdict::{Evidence, Kind, State, Verdict};
