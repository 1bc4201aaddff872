//! What a source rule found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a finding rejects the candidate or only adds checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Rejects the candidate.
    Hard,
    /// Reported.
    Soft,
}

/// One place in a source that a rule objects to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The rule's name, as `--allow-rule` takes it.
    pub rule: String,
    /// Hard findings reject.
    pub severity: Severity,
    /// Line in the source, from 1.
    pub line: usize,
    /// Column in the source, from 1.
    pub column: usize,
    /// The source line, cut to 160 characters.
    pub excerpt: String,
    /// What is wrong, and what to do instead, as a sentence.
    pub message: String,
}
