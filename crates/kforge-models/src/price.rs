//! What tokens cost, and how many there may be where a server does not count them.

use serde::{Deserialize, Serialize};

use crate::{Request, Usage};

/// Dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Of the prompt.
    pub input: f64,
    /// Of the part of the prompt that came from a cache; where it is not known the full price is taken.
    #[serde(default)]
    pub cached_input: Option<f64>,
    /// Of the reply, reasoning included.
    pub output: f64,
}

impl Prices {
    /// Dollars; `None` where the usage does not say enough.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        let (input, output) = (usage.input?, usage.output?);
        let cached = usage.cached_input.unwrap_or(0).min(input);
        let fresh = input - cached;
        let cached_price = self.cached_input.unwrap_or(self.input);
        Some((fresh as f64 * self.input + cached as f64 * cached_price + output as f64 * self.output) / 1e6)
    }
}

/// About how many tokens a text has: four characters each, which is near enough for English and code.
#[must_use]
pub fn estimate_tokens(text: &str) -> u64 {
    text.chars().count().div_ceil(4) as u64
}

/// About how many tokens a prompt has; a picture is counted as a thousand.
pub(crate) fn estimate_prompt_tokens(request: &Request) -> u64 {
    let turns: u64 = request.turns.iter().map(|turn| estimate_tokens(&turn.text)).sum();
    estimate_tokens(&request.system) + turns + 1000 * request.images.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let prices = Prices { input: 2.0, cached_input: Some(0.5), output: 8.0 };
        let usage =
            Usage { input: Some(1_000_000), cached_input: Some(400_000), output: Some(100_000), ..Usage::default() };
        assert!((prices.cost(&usage).unwrap() - (1.2 + 0.2 + 0.8)).abs() < 1e-12);
        let prices = Prices { cached_input: None, ..prices };
        assert!((prices.cost(&usage).unwrap() - (2.0 + 0.8)).abs() < 1e-12);
    }

    #[test]
    fn more_cached_than_sent_is_not_believed() {
        let prices = Prices { input: 1.0, cached_input: Some(0.0), output: 1.0 };
        let usage = Usage { input: Some(10), cached_input: Some(u64::MAX), output: Some(0), ..Usage::default() };
        assert_eq!(prices.cost(&usage), Some(0.0));
    }

    #[test]
    fn unknown_usage_has_no_cost() {
        let prices = Prices { input: 1.0, cached_input: None, output: 1.0 };
        assert_eq!(prices.cost(&Usage { input: Some(1), ..Usage::default() }), None);
    }

    #[test]
    fn estimates() {
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("abcde"), 2);
        assert_eq!(estimate_tokens("ääää"), 1);
    }
}
