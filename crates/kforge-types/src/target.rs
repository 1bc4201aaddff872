//! A target: one pair of accelerator vendor and programming model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// `vendor/model`, for example `cpu/cpp` or `nvidia/triton`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    /// `cpu`, `nvidia`, `amd`, `intel`, `apple`, or a user's own.
    pub vendor: String,
    /// `cpp`, `cuda`, `triton`, ...
    pub model: String,
}

impl Target {
    /// The name of the folder that describes this target.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}-{}", self.vendor, self.model)
    }
}

/// The text is not `vendor/model`.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a target: write vendor/model, for example cpu/cpp or nvidia/triton")]
pub struct ParseTargetError(String);

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match text.split_once('/') {
            Some((vendor, model)) if plain(vendor) && plain(model) => {
                Ok(Self { vendor: vendor.to_owned(), model: model.to_owned() })
            }
            _ => Err(ParseTargetError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Target {
    type Error = ParseTargetError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.vendor, self.model)
    }
}
