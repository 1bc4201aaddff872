//! Which distribution's ratio is the headline: the problem's own, or one on which a candidate gains certainly less.

use super::{blocks::CLEARLY, outcome::Speedup};
use kforge_types::{DistributionRatio, Interval};

/// Another distribution's ratio counts where it is certainly lower, unless the contract says that data matter.
///
/// The system may let any row wait, and there are few on others: what the quick ones say by themselves must be lower too.
pub(super) fn held_to_the_slowest(
    own: Speedup,
    by_distribution: &[DistributionRatio],
    quick: impl Fn(&str) -> Option<f64>,
    data_dependent: bool,
) -> Option<(Speedup, String)> {
    let others = || by_distribution.iter().skip(1);
    let least = |among: &mut dyn Iterator<Item = &'_ DistributionRatio>| -> Option<DistributionRatio> {
        among.min_by(|a, b| a.speedup.total_cmp(&b.speedup)).cloned()
    };
    let slowest = least(&mut others())?;
    let detail = |slowest: &DistributionRatio| {
        format!(
            "{:.2}x on the problem's inputs, {:.2}x on those drawn as {:?}, the least of {}",
            own.center,
            slowest.speedup,
            slowest.name,
            by_distribution.len()
        )
    };
    if data_dependent {
        return Some((own, detail(&slowest)));
    }
    let quick = |ratio: &DistributionRatio| quick(&ratio.name).unwrap_or(f64::MAX);
    // One that is slow at times only does not stand before those that always are.
    let certain =
        |ratio: &&DistributionRatio| quick(ratio) < own.interval.low && ratio.interval.high < own.interval.low;
    if let Some(slowest) = least(&mut others().filter(certain)) {
        let counts = Speedup { center: slowest.speedup, interval: slowest.interval };
        return Some((counts, format!("{}, which counts", detail(&slowest))));
    }
    // Noise hides a difference as well as it makes one: where the quick rows say the same, it is none of its making.
    let clear = |ratio: &&DistributionRatio| quick(ratio).max(ratio.speedup) < CLEARLY * own.interval.low;
    if let Some(slowest) = least(&mut others().filter(clear)) {
        let interval = Interval { low: slowest.interval.low, high: own.interval.high };
        let counts = Speedup { center: slowest.speedup, interval };
        let why = "which counts, since chance alone hardly makes such a difference";
        return Some((counts, format!("{}, {why}", detail(&slowest))));
    }
    Some((own, detail(&slowest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speedup(low: f64, center: f64, high: f64) -> Speedup {
        Speedup { center, interval: Interval { low, high } }
    }

    fn ratio(name: &str, low: f64, center: f64, high: f64) -> DistributionRatio {
        DistributionRatio { name: name.to_owned(), speedup: center, interval: Interval { low, high }, n: 8 }
    }

    #[test]
    fn a_distribution_that_is_certainly_slower_counts() {
        let own = speedup(1.8, 2.0, 2.2);
        let all = [ratio("own", 1.8, 2.0, 2.2), ratio("zeros", 2.8, 3.0, 3.2), ratio("normal", 0.9, 1.0, 1.1)];
        let (counts, detail) = held_to_the_slowest(own, &all, |_| Some(1.0), false).unwrap();
        assert!((counts.center - 1.0).abs() < 1e-9 && (counts.interval.high - 1.1).abs() < 1e-9);
        assert!(detail.contains("1.00x on those drawn as \"normal\", the least of 3, which counts"), "{detail}");
        let (counts, detail) = held_to_the_slowest(own, &all, |_| Some(1.0), true).unwrap();
        assert!((counts.center - 2.0).abs() < 1e-9 && !detail.contains("counts"), "{detail}");
        let (counts, _) = held_to_the_slowest(own, &all, |_| Some(1.9), false).unwrap();
        assert!((counts.center - 2.0).abs() < 1e-9, "the quick rows say otherwise");
    }

    #[test]
    fn one_that_may_be_as_fast_does_not_and_a_faster_one_never_does() {
        let own = speedup(1.8, 2.0, 2.2);
        for other in [ratio("normal", 1.5, 1.7, 1.9), ratio("zeros", 2.8, 3.0, 3.2)] {
            let (counts, _) =
                held_to_the_slowest(own, &[ratio("own", 1.8, 2.0, 2.2), other], |_| Some(1.7), false).unwrap();
            assert!((counts.center - 2.0).abs() < 1e-9);
        }
        assert!(held_to_the_slowest(own, &[ratio("own", 1.8, 2.0, 2.2)], |_| Some(1.0), false).is_none());
    }

    #[test]
    fn noise_does_not_hide_a_distribution_that_is_much_slower() {
        let own = speedup(1.8, 2.0, 2.2);
        let all = [ratio("own", 1.8, 2.0, 2.2), ratio("normal", 0.4, 1.0, 2.5)];
        let (counts, _) = held_to_the_slowest(own, &all, |_| Some(1.0), false).unwrap();
        assert!((counts.center - 1.0).abs() < 1e-9 && (counts.interval.low - 0.4).abs() < 1e-9);
        let (counts, _) = held_to_the_slowest(own, &all, |_| Some(2.0), false).unwrap();
        assert!((counts.center - 2.0).abs() < 1e-9, "only a few rows were slow");
    }

    #[test]
    fn one_that_is_slow_at_times_does_not_shield_those_that_always_are() {
        let own = speedup(1.8, 2.0, 2.2);
        let all = [ratio("own", 1.8, 2.0, 2.2), ratio("normal", 0.3, 0.9, 2.7), ratio("zeros", 0.9, 1.0, 1.1)];
        let quick = |name: &str| Some(if name == "normal" { 2.0 } else { 1.0 });
        let (counts, _) = held_to_the_slowest(own, &all, quick, false).unwrap();
        assert!((counts.center - 1.0).abs() < 1e-9);
    }
}
