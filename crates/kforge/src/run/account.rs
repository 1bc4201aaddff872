//! Where time and money went: per attempt and for the whole run.

use super::history::{Answer, Attempt, History};
use serde::Serialize;
use std::collections::BTreeMap;

/// Seconds by what they were spent on.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Seconds {
    pub(crate) model: f64,
    pub(crate) compile: f64,
    pub(crate) verify: f64,
    pub(crate) time: f64,
    pub(crate) profile: f64,
    /// Starting Python, examining the problem, measuring baselines: once per process.
    pub(crate) setup: f64,
    pub(crate) hooks: f64,
}

impl Seconds {
    pub(crate) fn of(attempt: &Attempt) -> Self {
        let mut seconds = Self { model: attempt.spend.seconds, ..Self::default() };
        if let Some(result) = attempt.result() {
            for (stage, spent) in &result.stages_s {
                *seconds.bucket(stage) += spent;
            }
        }
        if let Some(profile) = &attempt.profile {
            seconds.profile += profile.sources.iter().map(|source| source.seconds).sum::<f64>();
        }
        seconds.time += attempt.duel.as_ref().map_or(0.0, |met| met.seconds);
        seconds.hooks += attempt.hooks.iter().map(|hook| hook.seconds).sum::<f64>();
        seconds
    }

    fn bucket(&mut self, stage: &str) -> &mut f64 {
        match stage {
            "build" | "ahead_of_time" => &mut self.compile,
            "time" => &mut self.time,
            "start" | "problem" | "baselines" | "sandbox" => &mut self.setup,
            _ => &mut self.verify,
        }
    }

    pub(crate) fn sum(history: &History) -> Self {
        let mut sum = Self::default();
        for attempt in &history.attempts {
            let one = Self::of(attempt);
            sum.model += one.model;
            sum.compile += one.compile;
            sum.verify += one.verify;
            sum.time += one.time;
            sum.profile += one.profile;
            sum.setup += one.setup;
            sum.hooks += one.hooks;
        }
        sum
    }

    pub(crate) fn named(&self) -> BTreeMap<&'static str, f64> {
        BTreeMap::from([
            ("model", self.model),
            ("compile", self.compile),
            ("verify", self.verify),
            ("time", self.time),
            ("profile", self.profile),
            ("setup", self.setup),
            ("hooks", self.hooks),
        ])
    }
}

/// Dollars in words: what is not known is said, not counted as nothing.
pub(crate) fn dollars(history: &History) -> String {
    let spend = &history.spend;
    match (spend.unpriced, spend.calls) {
        (0, _) => format!("${:.4}", spend.usd),
        (unpriced, calls) if unpriced == calls => "unknown".to_owned(),
        (unpriced, calls) => format!("${:.4} and {unpriced} of {calls} calls at unknown prices", spend.usd),
    }
}

/// How often calls failed, for the summary.
pub(crate) fn failed_calls(history: &History) -> usize {
    history.attempts.iter().flat_map(|a| &a.calls).filter(|call| matches!(call.answer, Answer::Failed(_))).count()
}
