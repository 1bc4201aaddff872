//! Two candidates, interleaved in one evaluation.

use crate::Interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How two candidates compare, call by call on the same inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Duel {
    /// The two, as messages name them.
    pub names: [String; 2],
    /// The second one's time over the first one's: above 1 the first is faster.
    pub ratio: f64,
    /// Its 95 % interval, with what one pair of processes differs from another.
    pub interval: Interval,
    /// Microseconds of a call, of each.
    pub medians_us: [f64; 2],
    /// Timed calls of each.
    pub n: usize,
    /// Pairs of processes.
    pub pairs: usize,
}

/// What came of a duel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DuelOutcome {
    /// Both came through.
    Fought(Duel),
    /// One failed a check, and nothing was timed.
    Unfit {
        /// Its place, 0 or 1.
        place: usize,
        /// What it failed.
        reason: String,
    },
}

/// Who is faster, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Winner {
    /// The first.
    First,
    /// The second.
    Second,
    /// Nobody can say: the interval contains 1.
    Neither,
}

impl Duel {
    /// A difference counts where the interval excludes none.
    #[must_use]
    pub fn winner(&self) -> Winner {
        if self.interval.low > 1.0 {
            Winner::First
        } else if self.interval.high < 1.0 {
            Winner::Second
        } else {
            Winner::Neither
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wins_wins_by_the_whole_interval() {
        let duel = |low, high| Duel {
            names: ["a".to_owned(), "b".to_owned()],
            ratio: 1.0,
            interval: Interval { low, high },
            medians_us: [1.0, 1.0],
            n: 10,
            pairs: 2,
        };
        assert_eq!(duel(1.01, 1.2).winner(), Winner::First);
        assert_eq!(duel(0.8, 0.99).winner(), Winner::Second);
        assert_eq!(duel(0.98, 1.1).winner(), Winner::Neither);
    }
}
