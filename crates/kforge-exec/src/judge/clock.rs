//! The clock outside: what asking a cell takes, so that it can be taken off, and how fine the rest is.
//!
//! Rows in which nothing is called are made in the baseline's cell, which runs trusted code. Their quick end is taken off
//! both arms: a candidate's process may be asked a little faster than the baseline's, never by much.

use kforge_types::Summary;

/// What asking takes, in microseconds for a whole row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overhead {
    pub(crate) us: f64,
    spread_us: f64,
    n: usize,
}

/// A difference of medians that is larger than so many of their spreads is no chance.
const SPREADS: f64 = 2.0;
/// No spread is believed to be smaller.
const FINEST_US: f64 = 0.5;

impl Overhead {
    pub(crate) fn of(nulls: &[f64]) -> Option<Self> {
        let seen = Summary::of(nulls)?;
        // What is taken off is the quick end: what the slow half does says nothing about it.
        Some(Self { us: seen.p20, spread_us: (2.0 * (seen.median - seen.p20)).max(FINEST_US), n: seen.n })
    }

    /// The same, where asking is known to take no more than so much.
    pub(crate) fn at_most(self, us: f64) -> Self {
        Self { us: self.us.min(us), ..self }
    }

    /// What one of `calls` calls took, in a row that took `row_us` with all that asking takes.
    pub(crate) fn per_call(&self, row_us: f64, calls: usize) -> f64 {
        // Never nothing: what the clock does not see may still have been there.
        (row_us - self.us).max(self.resolution_us()) / calls as f64
    }

    /// Less than this a median over rows does not show, for a whole row.
    pub(crate) fn resolution_us(&self) -> f64 {
        SPREADS * self.spread_us / (self.n as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_is_taken_off_and_nothing_becomes_free() {
        let overhead = Overhead::of(&[100.0, 102.0, 101.0, 104.0, 100.0, 130.0]).unwrap();
        assert!((overhead.per_call(1100.0, 10) - 100.0).abs() < 0.5);
        let least = overhead.per_call(50.0, 10);
        assert!(overhead.at_most(90.0).per_call(1100.0, 10) > overhead.at_most(500.0).per_call(1100.0, 10));
        assert!(least > 0.0 && (least - overhead.resolution_us() / 10.0).abs() < 1e-9);
    }
}
