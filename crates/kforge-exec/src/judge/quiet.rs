//! Whether the processors are ours while something is timed on them.
//!
//! Two arms that are interleaved meet the same load, but not in the same call: on a loaded machine six evaluations of one
//! kernel gave intervals that did not meet. So others are waited for, a little; who stays is told of, and the interval is
//! as much wider as such loads were seen to move results (docs/design/timing.md).

use super::{Observer, bench::Bench, outcome::Outcome, provisional::Provisional};
use crate::{
    error::{ExecError, Result},
    load,
};
use kforge_types::Check;
use std::time::{Duration, Instant};

/// How long others are waited for, without and with `--require-idle`.
const PATIENCE: Duration = Duration::from_secs(3);
const LONG_PATIENCE: Duration = Duration::from_mins(2);
/// A part of our processors below which nobody is there.
const NOBODY: f64 = 0.06;
/// By how much a result moves, as a standard deviation, where others take all of our processors.
const MOVED: f64 = 0.3;

impl Bench {
    /// Waits for others to end, not for long; the part of our processors that they still take.
    pub(super) fn wait_until_quiet(&self, observer: &dyn Observer) -> Result<f64> {
        let begun = Instant::now();
        let patience = if self.options.require_idle { LONG_PATIENCE } else { PATIENCE };
        loop {
            let taken = self.taken_by_others();
            if taken < NOBODY {
                return Ok(0.0);
            }
            if begun.elapsed() > patience {
                if self.options.require_idle {
                    return Err(ExecError::Busy(format!(
                        "other programs use {:.0} % of the CPU time, and --require-idle demands an idle machine: end those \
                         programs, or leave the flag out",
                        100.0 * taken
                    )));
                }
                return Ok(taken);
            }
            observer.stage(&format!("waiting: other programs use {:.0} % of the CPU time", 100.0 * taken));
        }
    }

    /// Looks again, and says what was seen.
    pub(super) fn note_load(&self, before: f64, outcome: &mut Outcome) {
        let seen = before.max(self.taken_by_others());
        if seen < NOBODY {
            return;
        }
        let detail = format!(
            "other programs used {:.0} % of the CPU time, so the interval is wider; try again on an idle machine, or with \
             --require-idle",
            100.0 * seen
        );
        outcome.checks.push(Check { name: "alone on the processors".to_owned(), passed: false, detail });
        outcome.provisional.insert(Provisional::ProcessorsShared);
        if let Some(speedup) = &mut outcome.speedup {
            speedup.interval = speedup.interval.widened(speedup.center, MOVED * seen);
        }
    }

    /// Nothing of ours runs now. Where the processors are not timed, nobody's taking them matters.
    fn taken_by_others(&self) -> f64 {
        if !self.device.policy().is_the_processors {
            return 0.0;
        }
        let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        load::foreign().map_or(0.0, |share| taken(share, all, self.options.threads))
    }
}

/// Of the processors that we use, where others use this share of all.
fn taken(share: f64, all: usize, ours: usize) -> f64 {
    let (all, ours) = (all as f64, ours as f64);
    ((share * all + ours - all.max(ours)) / ours).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processors_that_we_need_are_taken_from_us() {
        assert!((taken(0.5, 2, 2) - 0.5).abs() < 1e-9);
        assert!((taken(0.5, 2, 1)).abs() < 1e-9, "there is one left for us");
        assert!((taken(1.0, 2, 1) - 1.0).abs() < 1e-9);
        assert!((taken(0.25, 64, 56) - 8.0 / 56.0).abs() < 1e-9);
        assert!((taken(0.0, 2, 4)).abs() < 1e-9, "more threads than processors are our own doing");
    }
}
