//! The contract: what the user declares about a problem, never the candidate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A multiply or accumulate precision, from high to low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// IEEE double.
    Fp64,
    /// IEEE single.
    Fp32,
    /// Ten bits of mantissa, eight of exponent.
    Tf32,
    /// IEEE half.
    Fp16,
    /// Seven bits of mantissa, eight of exponent.
    Bf16,
    /// Eight-bit formats.
    Fp8,
}

/// Transcendental functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Math {
    /// As accurate as the framework's.
    Exact,
    /// Approximations and reassociation by the compiler are welcome.
    Fast,
}

/// When weights may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Params {
    /// Never: they may be packed once in `prepare`.
    Constant,
    /// Between any two calls.
    PerCall,
}

/// Whether inputs may come from other distributions than the problem's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Redraw {
    /// Where the reference itself survives it.
    Redraw,
    /// Only what `get_inputs` gives.
    Given,
}

/// Who may compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operators {
    /// Framework operators and vendor libraries too; their share is reported.
    Any,
    /// Only the candidate's own kernels.
    Own,
}

/// An input of the problem: a parameter of `forward`, or the number of a tensor among its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FixedInput {
    /// From 0.
    Number(usize),
    /// As `forward` calls it.
    Name(String),
}

/// What `KFORGE = dict(...)` in a problem may say; every key may be left out, and flags override it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Contract {
    /// Lowest multiply precision (default: that of the inputs, fp32 for fp32).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mul: Option<Precision>,
    /// Lowest accumulate precision (default fp32).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acc: Option<Precision>,
    /// Transcendental functions (default exact).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub math: Option<Math>,
    /// Whether weights are constant (default) or change per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Params>,
    /// Whether other distributions may be drawn (default: redraw where the reference survives it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Redraw>,
    /// Other sizes to be right on: module-level names of the problem and their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<BTreeMap<String, i64>>,
    /// Bitwise equal runs demanded (default no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<bool>,
    /// Who may compute (default any).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operators: Option<Operators>,
    /// Inputs that are the same at each call by nature, so that a candidate may rely on their values (default: none).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<FixedInput>,
    /// Whether the time of an honest kernel may depend on the values of its inputs (default no).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dependent: Option<bool>,
}

/// A contract that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the contract `KFORGE = dict(...)` cannot be read: {0}")]
pub struct ContractError(#[from] serde_json::Error);

impl Contract {
    /// Reads what a problem declares.
    pub fn from_json(text: &str) -> Result<Self, ContractError> {
        Ok(serde_json::from_str(text)?)
    }

    /// `self` where it says something, `below` elsewhere: flags over the problem's own words.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            mul: self.mul.or(below.mul),
            acc: self.acc.or(below.acc),
            math: self.math.or(below.math),
            params: self.params.or(below.params),
            inputs: self.inputs.or(below.inputs),
            shapes: if self.shapes.is_empty() { below.shapes } else { self.shapes },
            deterministic: self.deterministic.or(below.deterministic),
            operators: self.operators.or(below.operators),
            fixed: if self.fixed.is_empty() { below.fixed } else { self.fixed },
            data_dependent: self.data_dependent.or(below.data_dependent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_named() {
        let error = Contract::from_json(r#"{"precission": "fp32"}"#).unwrap_err().to_string();
        assert!(error.contains("precission"), "{error}");
    }

    #[test]
    fn inputs_are_fixed_by_name_or_number() {
        let read = Contract::from_json(r#"{"fixed": ["mask", 2], "data_dependent": true}"#).unwrap();
        assert_eq!(read.fixed, [FixedInput::Name("mask".to_owned()), FixedInput::Number(2)]);
        let merged = Contract::default().over(read.clone());
        assert_eq!(merged, read);
        assert_eq!(serde_json::to_string(&merged).unwrap(), r#"{"fixed":["mask",2],"data_dependent":true}"#);
        assert!(Contract::from_json(r#"{"fixed": [-1]}"#).is_err());
    }

    #[test]
    fn flags_override_the_problem() {
        let problem = Contract::from_json(r#"{"mul": "tf32", "deterministic": true}"#).unwrap();
        let flags = Contract { mul: Some(Precision::Fp32), ..Contract::default() };
        let merged = flags.over(problem);
        assert_eq!((merged.mul, merged.deterministic), (Some(Precision::Fp32), Some(true)));
    }
}
