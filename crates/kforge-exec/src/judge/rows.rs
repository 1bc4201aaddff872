//! Short calls, several in a row, and the single calls that hold them to their word.
//!
//! The clock outside resolves some ten microseconds, so short calls are timed in rows. In a row the inputs of all calls lie
//! there from its beginning: whoever works on them together is quicker than a program could be, which has one at a
//! time. So single calls are timed too, as many as it takes to see what one of them costs at the least.

use super::{
    Session,
    arm::{Arm, Given, How, Row},
    blocks::READY,
    verify::OWN,
};
use crate::{cell::fill_random, failure::Tried};
use kforge_types::{Interval, deviation_of, quantile};
use std::time::Instant;

/// Longer calls are timed one by one: what a row takes then is seen well enough.
const LONG_US: f64 = 1200.0;
const FEWEST_SINGLES: usize = 12;
const MOST_SINGLES: usize = 64;
/// Of the time budget.
const SINGLES_SHARE: f64 = 0.7;
/// Single calls are known well enough when chance makes no more than this of their time.
const WELL_KNOWN: f64 = 0.08;
/// Where the quick calls of each are, from the quickest on: the very first ones are luck, the others may have waited.
const QUICK: (f64, f64) = (0.1, 0.4);
const SLOW: f64 = 0.8;
/// Standard deviations within which chance stays: what counts against a candidate must be certain, the end of a 95 %
/// interval need not be.
const CERTAIN: f64 = 3.0;
const LIKELY: f64 = 2.0;

impl Session {
    /// How many calls are made in a row, by the baseline's cost: a candidate has no say in it.
    pub(crate) fn calls_in_a_row(&self) -> usize {
        let (places, row_us) = (self.bench.examined.places, self.bench.device.policy().row_us);
        match self.baselines.fastest_us() {
            // What is written must be given back fresh before every call.
            _ if self.bench.opened.writes => 1,
            Some(us) if us < LONG_US => ((row_us / us.max(0.1)).ceil() as usize).clamp(1, places),
            _ => 1,
        }
    }

    /// What a single call can have taken at the least, and at the most. What it takes longer than one of the baseline's, whose
    /// rows are as they should be, it takes longer in a row too: so many are made that chance does not hide it.
    pub(crate) fn single_calls(
        &mut self,
        arm: &mut Arm,
        control: &mut Arm,
        row_us: f64,
        baseline_us: f64,
        usual_lag: f64,
    ) -> Tried<Option<Interval>> {
        let how = How::cold(self.call_limit());
        let (mut own, mut baseline) = (Vec::new(), Vec::new());
        let (begun, budget) = (Instant::now(), self.bench.options.time_budget.mul_f64(SINGLES_SHARE));
        while own.len() < FEWEST_SINGLES || (own.len() < MOST_SINGLES && begun.elapsed() < budget) {
            self.bench.referee.draw(OWN, &[own.len() % 4 == 0])?;
            let mut chance = [0; 1];
            fill_random(&mut chance)?;
            let baseline_first = chance[0] & 1 == 0;
            if baseline_first {
                baseline.push(self.control_row(control, Given::Fresh(1))?);
            }
            own.push(self.bench.row(arm, Given::Fresh(1), how)?);
            if !baseline_first {
                baseline.push(self.control_row(control, Given::Fresh(1))?);
            }
            self.bench.referee.compare_row(1, true)?.candidate.passed()?;
            if let (Some(own), Some(control)) = (own.last(), baseline.last()) {
                tracing::debug!(
                    candidate = own.outside_us,
                    baseline = control.outside_us,
                    lag = own.lag_us(),
                    lag_baseline = control.lag_us(),
                    ready = own.ready_us,
                    ready_baseline = control.ready_us,
                    "single"
                );
            }
            let (own, baseline) = costs(&own, &baseline, usual_lag);
            if own.len() >= FEWEST_SINGLES && is_enough(&own, &baseline, row_us, baseline_us) {
                break;
            }
        }
        let (own, baseline) = costs(&own, &baseline, usual_lag);
        Ok(of_single(&own, &baseline, baseline_us))
    }
}

/// What single calls of each took. Who answers early and works on until the stop, or works while it is made ready, pays for
/// it call by call: on the whole it would not show in those that are quick.
fn costs(own: &[Row], baseline: &[Row], usual_lag: f64) -> (Vec<f64>, Vec<f64>) {
    let ready: Vec<f64> = baseline.iter().map(|row| row.ready_us).collect();
    let usual_ready = READY * quantile(&ready, SLOW).unwrap_or_default();
    let cost = |row: &Row| row.outside_us + (row.lag_us() - usual_lag).max(0.0) + (row.ready_us - usual_ready).max(0.0);
    (own.iter().map(cost).collect(), baseline.iter().map(cost).collect())
}

/// Whether more of them would change nothing: rows are no faster than these, or these are known well.
fn is_enough(own: &[f64], baseline: &[f64], row_us: f64, baseline_us: f64) -> bool {
    let no_longer = of_single(own, baseline, baseline_us).is_some_and(|single| single.high <= row_us);
    no_longer || chance_us(baseline).is_some_and(|us| LIKELY * us <= WELL_KNOWN * row_us)
}

/// By the quick calls of each, which nobody can make quicker than they are; and whoever makes his own noisy hides nothing by
/// it, since only the baseline's noise counts as chance.
fn of_single(own: &[f64], baseline: &[f64], baseline_us: f64) -> Option<Interval> {
    let longer = quick(own)? - quick(baseline)?;
    let chance = chance_us(baseline)?;
    let at = |us: f64| (baseline_us + us).max(0.0);
    Some(Interval { low: at(longer - CERTAIN * chance), high: at(longer + LIKELY * chance) })
}

/// The mean of the quick calls.
pub(super) fn quick(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| (share * sorted.len() as f64) as usize;
    let some = sorted.get(at(QUICK.0)..at(QUICK.1).max(at(QUICK.0) + 1))?;
    Some(some.iter().sum::<f64>() / some.len() as f64)
}

/// The standard deviation of the difference of both: where the system lets some calls wait for milliseconds, the quick ones
/// tell as much.
fn chance_us(baseline: &[f64]) -> Option<f64> {
    // Of both: each varies as much.
    deviation_of(baseline, quick, baseline.len() as u64).map(|us| std::f64::consts::SQRT_2 * us)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(us: f64) -> Vec<f64> {
        (0..40).map(|n| us + f64::from(n * 7 % 11)).collect()
    }

    #[test]
    fn who_works_on_a_whole_row_at_once_is_held_to_single_calls() {
        // The baseline takes 60 us, in a row and by itself; the candidate as long by itself, whatever its rows show.
        let seen = of_single(&noisy(160.0), &noisy(160.0), 60.0).unwrap();
        assert!((54.0..=60.0).contains(&seen.low) && (60.0..66.0).contains(&seen.high), "{seen:?}");
        // Nor does it help to be slow now and then.
        let mut loud = noisy(160.0);
        loud.iter_mut().step_by(3).for_each(|us| *us += 500.0);
        assert!(of_single(&loud, &noisy(160.0), 60.0).unwrap().low > 54.0);
    }

    fn rows(outside_us: f64, lag_us: f64, ready_us: f64) -> Vec<Row> {
        let row = |us: f64| Row { outside_us: us, settled_us: us + lag_us, inside_us: us, launching_us: 0.0, ready_us };
        noisy(outside_us).into_iter().map(row).collect()
    }

    #[test]
    fn who_answers_a_single_call_early_pays_for_it() {
        let single = |own: &[Row]| {
            let (own, baseline) = costs(own, &rows(160.0, 40.0, 80.0), 45.0);
            of_single(&own, &baseline, 60.0).unwrap()
        };
        let usual = single(&rows(160.0, 40.0, 80.0));
        assert!((54.0..=60.0).contains(&usual.low), "{usual:?}");
        // Answered 100 us early, and worked on; and 100 us of work while it was made ready.
        assert!(single(&rows(60.0, 140.0, 80.0)).low > usual.low - 6.0);
        assert!(single(&rows(60.0, 40.0, 200.0)).low > usual.low - 6.0);
        // Nor in half of them.
        let mut half = rows(160.0, 40.0, 80.0);
        half.iter_mut().step_by(2).for_each(|row| row.outside_us -= 100.0);
        assert!(single(&half).low > usual.low - 6.0);
    }

    #[test]
    fn what_chance_may_have_made_is_taken_off() {
        let wild = |us: f64| (0..12).map(|n| us + 40.0 * f64::from(n * 7 % 11)).collect::<Vec<_>>();
        let quiet = of_single(&noisy(150.0), &noisy(100.0), 20.0).unwrap();
        let loud = of_single(&wild(150.0), &wild(100.0), 20.0).unwrap();
        assert!((62.0..70.0).contains(&quiet.low), "{quiet:?}");
        assert!(loud.low < quiet.low && loud.low >= 0.0 && loud.high > quiet.high, "{loud:?}");
        assert!(of_single(&[], &noisy(100.0), 20.0).is_none());
    }

    #[test]
    fn a_call_that_the_clock_does_not_see_is_held_to_nothing() {
        assert!(of_single(&noisy(103.0), &noisy(100.0), 2.0).unwrap().low < 3.0);
    }

    #[test]
    fn no_more_are_made_than_are_needed() {
        assert!(is_enough(&noisy(60.0), &noisy(100.0), 70.0, 100.0), "no longer than in rows");
        assert!(is_enough(&noisy(160.0), &noisy(160.0), 100.0, 100.0), "known well");
        assert!(!is_enough(&noisy(160.0), &noisy(160.0), 5.0, 10.0));
    }
}
