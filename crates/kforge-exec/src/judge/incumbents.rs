//! Kernels that a candidate must beat besides what PyTorch offers: those that the user has already.
//!
//! Each is judged once in a session, like any candidate, and stands in the table of baselines. Where it is faster than all
//! of PyTorch's, the headline is over it: by both speedups where they are far apart, else call by call in a duel.

use super::{Contender, Observer, Session};
use crate::error::{ExecError, Result};
use kforge_types::{Baseline, BaselineRef, DuelOutcome, EvalResult, Interval, State};
use serde::{Deserialize, Serialize};

/// A kernel of the user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incumbent {
    /// As tables name it.
    pub name: String,
    /// Its text.
    pub source: String,
}

/// One that was judged.
pub(super) struct Known {
    incumbent: Incumbent,
    row: Baseline,
    speedup: f64,
    interval: Interval,
}

impl Session {
    /// Judges those that have not been; one that is not right, or has no time, is nothing to be compared with.
    pub(super) fn know_incumbents(&mut self, observer: &dyn Observer) -> Result<()> {
        if self.bench.options.no_timing || !self.bench.options.place.is_timed() {
            return Ok(());
        }
        for incumbent in self.bench.options.incumbents.clone().into_iter().skip(self.incumbents.len()) {
            observer.stage(&format!("judging the incumbent {}", incumbent.name));
            let result = self.judge_alone(&incumbent.name, &incumbent.source, observer)?;
            let refuse = |why: &str| {
                let text = format!("the incumbent {} {why}: mend it, or leave --baseline out", incumbent.name);
                Err(ExecError::Problem(text))
            };
            if result.state != State::Correct {
                return refuse(&format!("is no kernel for this problem ({}: {})", result.state.label(), result.reason));
            }
            let (Some(speedup), Some(interval), Some(timing)) = (result.speedup, result.speedup_ci, &result.candidate)
            else {
                return refuse("has no speedup, so that nothing can be compared with it");
            };
            let row = Baseline {
                name: label(&incumbent.name),
                median_us: Some(timing.median_us),
                p20: Some(timing.p20),
                p80: Some(timing.p80),
                n: timing.n,
                cached: false,
                compile_s: None,
                note: "an incumbent, judged like a candidate".to_owned(),
            };
            self.incumbents.push(Known { incumbent, row, speedup, interval });
        }
        Ok(())
    }

    /// Puts incumbents into the table, and the headline over the fastest of them where that is faster than PyTorch.
    pub(super) fn hold_to_incumbents(
        &mut self,
        source: &str,
        result: &mut EvalResult,
        observer: &dyn Observer,
    ) -> Result<()> {
        result.baselines.extend(self.incumbents.iter().map(|known| known.row.clone()));
        let (Some(speedup), Some(interval)) = (result.speedup, result.speedup_ci) else { return Ok(()) };
        let fastest = self.incumbents.iter().max_by(|a, b| a.speedup.total_cmp(&b.speedup));
        let Some(known) = fastest.filter(|known| known.speedup > 1.0) else { return Ok(()) };
        let (name, median_us) = (known.row.name.clone(), known.row.median_us.unwrap_or_default());
        let apart = interval.high < known.interval.low || known.interval.high < interval.low;
        let (ratio, interval, median_us, how) = if known.incumbent.source == source {
            (1.0, Interval { low: 1.0, high: 1.0 }, median_us, "it is the same text".to_owned())
        } else if apart {
            let between =
                Interval { low: interval.low / known.interval.high, high: interval.high / known.interval.low };
            (speedup / known.speedup, between, median_us, "by the speedups of both over the same baseline".to_owned())
        } else {
            let other = known.incumbent.clone();
            let contenders = [
                Contender { name: &result.candidate_file, source },
                Contender { name: &other.name, source: &other.source },
            ];
            match self.duel(contenders, observer)? {
                DuelOutcome::Fought(duel) => {
                    (duel.ratio, duel.interval, duel.medians_us[1], "call by call in a duel".to_owned())
                }
                DuelOutcome::Unfit { reason, .. } => {
                    (result.speedup, result.speedup_ci) = (None, None);
                    result.checks.push(kforge_types::Check::withheld(&format!("beside the incumbent: {reason}")));
                    return Ok(());
                }
            }
        };
        (result.speedup, result.speedup_ci) = (Some(ratio), Some(interval));
        result.baseline = Some(BaselineRef { name: name.clone(), median_us, call_median_us: None });
        let detail = format!("{name} is faster than PyTorch, and the speedup is over it, {how}");
        result.checks.push(kforge_types::Check { name: "incumbent".to_owned(), passed: true, detail });
        Ok(())
    }
}

fn label(name: &str) -> String {
    format!("incumbent {name}")
}
