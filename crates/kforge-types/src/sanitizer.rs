//! What a memory and race checker says of a candidate.

use crate::{Kind, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the names of its checks in a result begin.
pub const SANITIZER: &str = "compute-sanitizer";

/// All tools on one candidate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SanitizerReport {
    /// `reduced sizes` or `the problem's own sizes`.
    pub sizes: String,
    /// In the order in which they were tried.
    pub tools: Vec<SanitizerTool>,
}

/// One tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SanitizerTool {
    /// `memcheck`, `racecheck`, `initcheck` or `synccheck`.
    pub name: String,
    /// Whether it came to its end.
    pub ran: bool,
    /// What it found in a few words, or the reason why it did not run and what would mend that.
    pub detail: String,
    /// Errors in the candidate's own kernels, as far as they were printed.
    pub errors: u64,
    /// Its errors are shown, but decide nothing.
    pub advisory: bool,
    /// The first error.
    pub first: Option<SanitizerError>,
    /// What it cost.
    pub seconds: f64,
}

/// One error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SanitizerError {
    /// As the tool says it: `Invalid __global__ read of size 4 bytes`.
    pub kind: String,
    /// The function that was running.
    pub kernel: String,
    /// File and line, where the kernel was built with line information.
    pub place: String,
    /// `(31,0,0) in block (4,0,0)`, where it is about one thread.
    pub thread: String,
    /// What is said of the address.
    pub address: String,
}

impl SanitizerReport {
    /// What sends the candidate back, as a text for whoever mends it; none where nothing was found that counts.
    #[must_use]
    pub fn digest(&self) -> Option<String> {
        let told: Vec<String> = self
            .tools
            .iter()
            .filter(|tool| tool.errors > 0 && !tool.advisory)
            .map(|tool| {
                let first = tool.first.as_ref().map(SanitizerError::to_string).unwrap_or_default();
                let more = tool.errors.saturating_sub(1);
                let more = if more > 0 { format!(" ({more} more)") } else { String::new() };
                format!("{}: {first}{more}", tool.name)
            })
            .collect();
        (!told.is_empty()).then(|| format!("compute-sanitizer, at {}: {}", self.sizes, told.join("; ")))
    }

    /// The verdict on a candidate that is to go back.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.digest().map(|digest| Verdict::of(Kind::Sanitizer, digest))
    }
}

impl std::fmt::Display for SanitizerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.kind)?;
        if !self.kernel.is_empty() {
            write!(f, " in kernel {}", self.kernel)?;
        }
        if !self.place.is_empty() {
            write!(f, " at {}", self.place)?;
        }
        if !self.thread.is_empty() {
            write!(f, " by thread {}", self.thread)?;
        }
        if !self.address.is_empty() {
            write!(f, ": {}", self.address)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_counts_is_in_the_digest() {
        let error = SanitizerError {
            kind: "Invalid __global__ read of size 4 bytes".to_owned(),
            kernel: "scale".to_owned(),
            place: "kernel.cu:6".to_owned(),
            thread: "(255,0,0) in block (3,0,0)".to_owned(),
            address: "Address 0x7f is out of bounds".to_owned(),
        };
        let found = |advisory| SanitizerTool {
            name: "memcheck".to_owned(),
            errors: 3,
            advisory,
            first: Some(error.clone()),
            ..SanitizerTool::default()
        };
        let report = |advisory| SanitizerReport { sizes: "reduced sizes".to_owned(), tools: vec![found(advisory)] };
        assert_eq!(
            report(false).digest().unwrap(),
            "compute-sanitizer, at reduced sizes: memcheck: Invalid __global__ read of size 4 bytes in kernel scale at \
             kernel.cu:6 by thread (255,0,0) in block (3,0,0): Address 0x7f is out of bounds (2 more)"
        );
        assert_eq!(report(false).verdict().unwrap().state, crate::State::RuntimeError);
        assert_eq!(report(true).digest(), None);
        assert_eq!(report(true).verdict(), None);
        assert_eq!(SanitizerReport::default().digest(), None);
    }
}
