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

pub(crate) const SPREADS: f64 = 3.0;
/// A candidate's own differences may be this share of its time, for what a long call leaves behind (cold caches).
const SHARE: f64 = 0.03;
/// Overheads of honest arms do not differ by this much.
const CUT_SHORT_US: f64 = 100.0;
/// Hidden time beyond this share of the claimed time is no accident.
pub(crate) const LIE_SHARE: f64 = 0.3;

/// How finely the outside clock tells two arms apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fineness {
    /// As one call shows it: overheads of honest arms may differ for reasons of their own.
    OfOneCall,
    /// As the median of all calls shows it: overheads are equal by construction, and only chance is in the way.
    OfAllCalls,
}

impl Fineness {
    fn of(self, spread: f64, calls: usize) -> f64 {
        match self {
            Self::OfOneCall => spread,
            Self::OfAllCalls => spread / (calls.max(1) as f64).sqrt(),
        }
    }
}

/// Whether the outside clock could tell a lie about these calls by now.
pub(crate) fn can_tell(candidate: &[Sample], trusted: &[Sample], fineness: Fineness) -> bool {
    let inside = Summary::of(&candidate.iter().map(|s| s.inside_us).collect::<Vec<_>>());
    let usual = Summary::of(&trusted.iter().map(|s| s.outside_us - s.inside_us).collect::<Vec<_>>());
    let (Some(inside), Some(usual)) = (inside, usual) else { return false };
    SPREADS * fineness.of(usual.spread().max(1.0), trusted.len()) <= LIE_SHARE * inside.median
}

/// `None` where a sample is empty.
///
/// `fetch_us` is what it may cost to fetch the output from memory: a kernel whose stores go past the caches leaves that to
/// us, when the output is handed over. It is no lie, though it counts.
pub(crate) fn examine(
    candidate: &[Sample],
    trusted: &[Sample],
    fetch_us: f64,
    fineness: Fineness,
) -> Option<ClockReport> {
    let overheads = |samples: &[Sample]| -> Vec<f64> { samples.iter().map(|s| s.outside_us - s.inside_us).collect() };
    let usual = Summary::of(&overheads(trusted))?;
    let own = Summary::of(&overheads(candidate))?;
    let inside = Summary::of(&candidate.iter().map(|s| s.inside_us).collect::<Vec<_>>())?.median;
    let spread = fineness.of(usual.spread().max(1.0), trusted.len().min(candidate.len()));
    let hidden = own.median - usual.median;
    let bound = (SPREADS * spread).max(SHARE * inside);
    // A noisy machine delays some calls of either arm; a lie shows in the quickest calls too.
    let always_hidden = match fineness {
        Fineness::OfOneCall => own.p20 - usual.p80,
        Fineness::OfAllCalls => hidden,
    };
    // Where the device is kept busy before every call, only who left that out can be quicker than the others.
    let cut_short = fineness == Fineness::OfAllCalls && -hidden > bound.max(CUT_SHORT_US);
    let clock = if cut_short || (always_hidden > bound + fetch_us && always_hidden > LIE_SHARE * inside) {
        Clock::Lie
    } else if hidden > bound {
        Clock::Outside
    } else if inside < SPREADS * spread || own.p80 < usual.p20 - SPREADS * usual.spread() {
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
        let report = examine(&samples(900.0, 60.0), &samples(2000.0, 61.0), 0.0, Fineness::OfOneCall).unwrap();
        assert_eq!(report.clock, Clock::Confirmed);
    }

    #[test]
    fn work_after_the_inside_clock_stopped_is_a_lie() {
        let report = examine(&samples(5.0, 1060.0), &samples(1000.0, 60.0), 100.0, Fineness::OfOneCall).unwrap();
        assert_eq!(report.clock, Clock::Lie);
        assert!((report.outside_us - 1005.0).abs() < 5.0, "{report:?}");
    }

    #[test]
    fn an_output_that_must_be_fetched_from_memory_is_no_lie_but_counts() {
        let report = examine(&samples(400.0, 260.0), &samples(1000.0, 60.0), 300.0, Fineness::OfOneCall).unwrap();
        assert_eq!(report.clock, Clock::Outside);
        assert!((report.outside_us - 600.0).abs() < 5.0, "{report:?}");
    }

    #[test]
    fn what_is_too_short_stays_provisional() {
        assert_eq!(
            examine(&samples(4.0, 60.0), &samples(50.0, 60.0), 0.0, Fineness::OfOneCall).unwrap().clock,
            Clock::Unresolved
        );
    }

    #[test]
    fn many_calls_tell_what_one_cannot() {
        let noisy = |inside: f64, overhead: f64| -> Vec<Sample> {
            (0..100)
                .map(|i| {
                    let noise = f64::from(i * 37 % 100);
                    let outside_us = inside + overhead + noise;
                    Sample { inside_us: inside, outside_us, launching_us: 0.0, error: 0.0, repeated: true }
                })
                .collect()
        };
        let (honest, lying, baseline) = (noisy(70.0, 1300.0), noisy(35.0, 1335.0), noisy(90.0, 1300.0));
        let clock = |own: &[Sample], fineness| examine(own, &baseline, 0.0, fineness).unwrap().clock;
        assert_eq!(clock(&honest, Fineness::OfOneCall), Clock::Unresolved);
        assert_eq!(clock(&honest, Fineness::OfAllCalls), Clock::Confirmed);
        assert_eq!(clock(&lying, Fineness::OfAllCalls), Clock::Lie);
        assert!(can_tell(&honest, &baseline, Fineness::OfAllCalls));
        assert!(!can_tell(&honest[..4], &baseline[..4], Fineness::OfAllCalls));
    }
}
