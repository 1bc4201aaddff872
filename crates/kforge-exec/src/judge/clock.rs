//! Two clocks: the one inside the cell is precise and can lie, the one outside cannot lie and is coarse.
//!
//! The difference between the two is what crossing the process boundary costs. Baselines, whose cells run trusted
//! code, show how large it honestly is; a candidate whose difference is larger hides work outside its own clock.

use super::arm::Sample;
use kforge_types::Summary;

/// What the outside clock says of the inside one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Clock {
    /// The inside time holds.
    Confirmed,
    /// Too short for the outside clock to tell.
    Unresolved,
    /// More time passed than was claimed, but not by much: the outside time counts.
    Outside,
    /// Much more time passed than was claimed.
    Lie,
}

/// Judgement and numbers, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReport {
    pub(crate) clock: Clock,
    pub(crate) hidden_us: f64,
    pub(crate) spread_us: f64,
    pub(crate) outside_us: f64,
}

impl ClockReport {
    /// Less than this the outside clock does not see.
    pub(crate) fn resolution(&self) -> f64 {
        SPREADS * self.spread_us
    }
}

const SPREADS: f64 = 3.0;
/// A candidate's own differences may be this share of its time, for what a long call leaves behind (cold caches).
const SHARE: f64 = 0.03;
/// No spread is believed to be smaller.
const FINEST_US: f64 = 1.0;
/// Hidden time beyond this share of the claimed time is no accident.
const LIE_SHARE: f64 = 0.3;

/// `None` where a sample is empty.
///
/// `fetch_us` is what it may cost to fetch the output from memory: a kernel whose stores go past the caches leaves that to
/// us, when the output is handed over. It is no lie, though it counts.
pub(crate) fn examine(candidate: &[Sample], trusted: &[Sample], fetch_us: f64) -> Option<ClockReport> {
    let overheads = |samples: &[Sample]| -> Vec<f64> { samples.iter().map(|s| s.outside_us - s.inside_us).collect() };
    let usual = Summary::of(&overheads(trusted))?;
    let own = Summary::of(&overheads(candidate))?;
    let inside = Summary::of(&candidate.iter().map(|s| s.inside_us).collect::<Vec<_>>())?.median;
    let spread = usual.spread().max(FINEST_US);
    let hidden = own.median - usual.median;
    let bound = (SPREADS * spread).max(SHARE * inside);
    // A noisy machine delays some calls of either arm; a lie shows in the quickest calls too.
    let always_hidden = own.p20 - usual.p80;
    let clock = if always_hidden > bound + fetch_us && always_hidden > LIE_SHARE * inside {
        Clock::Lie
    } else if hidden > bound {
        Clock::Outside
    } else if inside < SPREADS * spread || own.p80 < usual.p20 - SPREADS * spread {
        Clock::Unresolved
    } else {
        Clock::Confirmed
    };
    Some(ClockReport { clock, hidden_us: hidden, spread_us: spread, outside_us: inside + hidden })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(inside: f64, overhead: f64) -> Vec<Sample> {
        (0..20)
            .map(|i| {
                let noise = f64::from(i % 5);
                Sample {
                    inside_us: inside,
                    outside_us: inside + overhead + noise,
                    launching_us: 0.0,
                    error: 0.0,
                    repeated: true,
                }
            })
            .collect()
    }

    #[test]
    fn equal_overheads_confirm_the_inside_clock() {
        let report = examine(&samples(900.0, 60.0), &samples(2000.0, 61.0), 0.0).unwrap();
        assert_eq!(report.clock, Clock::Confirmed);
    }

    #[test]
    fn work_after_the_inside_clock_stopped_is_a_lie() {
        let report = examine(&samples(5.0, 1060.0), &samples(1000.0, 60.0), 100.0).unwrap();
        assert_eq!(report.clock, Clock::Lie);
        assert!((report.outside_us - 1005.0).abs() < 5.0, "{report:?}");
    }

    #[test]
    fn an_output_that_must_be_fetched_from_memory_is_no_lie_but_counts() {
        let report = examine(&samples(400.0, 260.0), &samples(1000.0, 60.0), 300.0).unwrap();
        assert_eq!(report.clock, Clock::Outside);
        assert!((report.outside_us - 600.0).abs() < 5.0, "{report:?}");
    }

    #[test]
    fn what_is_too_short_stays_provisional() {
        assert_eq!(examine(&samples(4.0, 60.0), &samples(50.0, 60.0), 0.0).unwrap().clock, Clock::Unresolved);
    }
}
