//! What a run may ask and cost, before anything is asked.

use super::Setup;
use crate::models::Opened;
use kforge_models::estimate_tokens;
use serde::Serialize;
use std::fmt;

/// For the estimate: how long replies usually are.
const USUAL_REPLY: u64 = 6000;
const USUAL_ADVICE: u64 = 1500;

/// About what a run would ask for and cost.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Estimate {
    pub(crate) problem: String,
    pub(crate) target: String,
    pub(crate) generator: String,
    pub(crate) analyst: Option<String>,
    /// At most.
    pub(crate) attempts: u32,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// Not known where a price is not.
    pub(crate) usd: Option<f64>,
    pub(crate) recorded: bool,
}

impl Setup {
    /// What the run may ask and cost.
    pub(crate) fn estimate(&self) -> anyhow::Result<Estimate> {
        let input = crate::driver::inputs::first_prompt(&self.prompts, &self.task, &self.material)?;
        let input = estimate_tokens(&input.system) + estimate_tokens(&input.user) + USUAL_REPLY;
        let rounds = u64::from(self.rules.iterations);
        let advised = !self.rules.ablation.self_refine;
        let generator = (rounds * input, rounds * USUAL_REPLY);
        let analyst = if advised { ((rounds - 1) * input, (rounds - 1) * USUAL_ADVICE) } else { (0, 0) };
        let cost = |opened: &Opened, (input, output): (u64, u64)| {
            let prices = opened.prices.as_ref()?;
            Some((input as f64 * prices.input + output as f64 * prices.output) / 1e6)
        };
        let recorded = self.models.generator.recorded;
        let usd = match (cost(&self.models.generator, generator), cost(&self.models.analyst, analyst)) {
            _ if recorded => Some(0.0),
            (Some(a), Some(b)) => Some(a + b),
            (Some(a), None) if !advised => Some(a),
            _ => None,
        };
        Ok(Estimate {
            problem: self.task.name.clone(),
            target: self.task.target.to_string(),
            generator: self.models.generator.model.name().to_owned(),
            analyst: advised.then(|| self.models.analyst.model.name().to_owned()),
            attempts: self.rules.iterations,
            input_tokens: generator.0 + analyst.0,
            output_tokens: generator.1 + analyst.1,
            usd,
            recorded,
        })
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = match self.input_tokens + self.output_tokens {
            many if many >= 10_000 => format!("{} thousand", many.div_ceil(1000)),
            few => few.to_string(),
        };
        match self.attempts {
            1 => f.write_str("1 attempt")?,
            n => write!(f, "up to {n} attempts")?,
        }
        write!(f, " of about {tokens} tokens in all, ")?;
        match self.usd {
            _ if self.recorded => f.write_str("cost nothing (the replies are recorded)"),
            Some(usd) => write!(f, "cost about ${usd:.2}"),
            None => f.write_str("cost unknown (no price is known: give --price)"),
        }
    }
}
