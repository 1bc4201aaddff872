//! Short calls on a device, several in a row: what one takes longer than the baseline's, seen from outside.
//!
//! The baseline's own clock is trusted. What a row of the candidate takes more or less than one of the baseline, over the
//! number of calls, is therefore what one of its calls takes more or less, whatever its process claims.

use super::{
    Session,
    arm::{Arm, How, Sample},
    clock::{self, ClockReport},
    timing::{RING, UNSEEN_SET},
    verify::OWN,
};
use crate::{
    cell::fill_random,
    error::{ExecError, Result},
    referee::InputSet,
};
use kforge_types::{Summary, Verdict, median};
use std::rc::Rc;

/// A row takes about as long as this, where there are places enough: the clock outside resolves some ten microseconds.
const ROW_US: f64 = 1500.0;
/// Of each arm.
const ROWS: usize = 8;
/// Less than this is not worth a correction: caches are not as cold within a row.
const MATERIAL: f64 = 1.05;
/// A difference of medians that is larger than so many of their spreads is no chance.
const SPREADS_OF_MEDIANS: f64 = 2.0;

/// What rows have shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) calls: usize,
    pub(crate) report: ClockReport,
    /// Of one call of the baseline.
    baseline_us: f64,
    /// Of the medians, in one call: less than this is not seen.
    pub(crate) resolution_us: f64,
}

impl Rows {
    fn of(calls: usize, own: &[Sample], baseline: &[Sample]) -> Option<Self> {
        let report = clock::examine(own, baseline, 0.0)?;
        let baseline_us = median(&baseline.iter().map(|s| s.inside_us).collect::<Vec<_>>())?;
        let spread = |samples: &[Sample]| -> Option<f64> {
            let overheads = Summary::of(&samples.iter().map(|s| s.outside_us - s.inside_us).collect::<Vec<_>>())?;
            Some(overheads.spread() / (overheads.n as f64).sqrt())
        };
        let resolution_us = SPREADS_OF_MEDIANS * (spread(own)? + spread(baseline)?);
        Some(Self { calls, report, baseline_us, resolution_us })
    }

    /// By how much a ratio of single calls is too good: never more is credited than shows in rows too.
    pub(crate) fn correction(&self, own_us: f64, baseline_us: f64) -> f64 {
        // What one call should take within a row, where caches are not as cold.
        let expected = own_us * self.baseline_us / baseline_us;
        let seen = self.report.outside_us;
        if seen - expected > self.resolution_us && seen > MATERIAL * expected { seen / expected } else { 1.0 }
    }

    pub(crate) fn described(&self) -> String {
        format!(
            "{} calls in a row: {:.1} us each from outside, the baseline {:.1} us; the clock resolves {:.1} us",
            self.calls, self.report.outside_us, self.baseline_us, self.resolution_us
        )
    }
}

impl Session {
    /// Nothing where one call is long enough, or where calls cannot be queued.
    pub(crate) fn rows(
        &mut self,
        arm: &mut Arm,
        control: &mut Arm,
        own_us: f64,
    ) -> Result<std::result::Result<Option<Rows>, Verdict>> {
        let places = self.gpu.as_ref().map_or(1, |gpu| gpu.places);
        let calls = ((ROW_US / own_us.max(1.0)).ceil() as usize).clamp(1, places);
        if calls == 1 || !arm.queues || !control.queues {
            return Ok(Ok(None));
        }
        let limit = self.call_limit();
        let (mut own, mut baseline) = (Vec::new(), Vec::new());
        for number in 0..=ROWS {
            let candidate_first = number % 2 == 0;
            // The first row sets up whatever depends on the addresses of the places, and does not count.
            let how = if number == 0 { How::idle(limit) } else { How::cold(limit) };
            for is_candidate in [candidate_first, !candidate_first] {
                let sets = self.mixed_sets(calls)?;
                let sets: Vec<&InputSet> = sets.iter().map(Rc::as_ref).collect();
                let side: &mut Arm = if is_candidate { arm } else { control };
                let called = side.call_row(&mut self.referee, &sets, how)?;
                match (called, is_candidate) {
                    (_, _) if !arm.queues || !control.queues => return Ok(Ok(None)),
                    (Ok(_), _) if number == 0 => {}
                    (Ok(sample), true) => own.push(sample),
                    (Ok(sample), false) => baseline.push(sample),
                    (Err(verdict), true) => return Ok(Err(verdict)),
                    (Err(verdict), false) => {
                        return Err(ExecError::harness(format!("the baseline failed: {}", verdict.reason)));
                    }
                }
            }
        }
        Ok(Ok(Rows::of(calls, &own, &baseline)))
    }

    /// Sets in an order that no candidate can know, as few of them twice as can be.
    fn mixed_sets(&mut self, count: usize) -> Result<Vec<Rc<InputSet>>> {
        let mut all: Vec<(&str, usize)> = (0..RING).map(|number| (OWN, number)).collect();
        all.extend((0..self.unseen_count()).map(|number| (UNSEEN_SET, number)));
        let mut chance = vec![0; all.len()];
        fill_random(&mut chance)?;
        for (last, byte) in chance.iter().enumerate().skip(1) {
            all.swap(last, usize::from(*byte) % (last + 1));
        }
        (0..count).map(|index| all[index % all.len()]).map(|(kind, number)| self.referee.set(0, kind, number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(inside_us: f64, outside_us: f64) -> Vec<Sample> {
        let noise = [0.0, 0.4, -0.3, 0.6, 0.1, -0.5, 0.2, 0.3];
        let sample =
            |n: &f64| Sample { inside_us, outside_us: outside_us + n, launching_us: 0.0, error: 0.0, repeated: false };
        noise.iter().map(sample).collect()
    }

    #[test]
    fn what_a_clock_hides_in_a_single_call_shows_in_a_row_of_them() {
        // It takes 48 us, claims 12 in single calls and tells the truth in rows.
        let seen = Rows::of(12, &rows(48.0, 98.0), &rows(50.0, 100.0)).unwrap();
        let credited = 50.0 / 12.0 / seen.correction(12.0, 50.0);
        assert!((1.0..1.1).contains(&credited), "{credited}");
    }

    #[test]
    fn who_lies_in_rows_too_is_found() {
        let seen = Rows::of(12, &rows(12.0, 98.0), &rows(50.0, 100.0)).unwrap();
        assert_eq!(seen.report.clock, clock::Clock::Lie);
    }

    #[test]
    fn an_honest_kernel_is_credited_with_what_single_calls_show() {
        let seen = Rows::of(12, &rows(25.2, 75.0), &rows(50.4, 100.3)).unwrap();
        assert!((seen.correction(25.0, 50.0) - 1.0).abs() < 1e-9);
        assert_eq!(seen.report.clock, clock::Clock::Confirmed);
    }
}
