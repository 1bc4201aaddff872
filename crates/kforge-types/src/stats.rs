//! Medians, quantiles and the bootstrap interval of a ratio of medians: no clock, no global randomness.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half the width, relative to `center`.
    #[must_use]
    pub fn relative_half_width(&self, center: f64) -> f64 {
        (self.high - self.low) / 2.0 / center
    }

    /// Widened by a relative standard deviation that the sample could not show, in quadrature around `center`.
    #[must_use]
    pub fn widened(&self, center: f64, deviation: f64) -> Self {
        let unseen = 1.96 * deviation;
        let half = |end: f64| ((end / center).ln().powi(2) + unseen.powi(2)).sqrt();
        Self { low: center * (-half(self.low)).exp(), high: center * half(self.high).exp() }
    }

    /// Whether `value` lies inside.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Median, p20, p80 and count of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The middle value.
    pub median: f64,
    /// A fifth of the sample lies below.
    pub p20: f64,
    /// A fifth of the sample lies above.
    pub p80: f64,
    /// Sample size.
    pub n: usize,
}

impl Summary {
    /// `None` for an empty sample.
    #[must_use]
    pub fn of(sample: &[f64]) -> Option<Self> {
        Some(Self {
            median: median(sample)?,
            p20: quantile(sample, 0.2)?,
            p80: quantile(sample, 0.8)?,
            n: sample.len(),
        })
    }

    /// Distance between p20 and p80.
    #[must_use]
    pub fn spread(&self) -> f64 {
        self.p80 - self.p20
    }
}

/// The middle value; `None` for an empty sample.
#[must_use]
pub fn median(sample: &[f64]) -> Option<f64> {
    quantile(sample, 0.5)
}

/// Linear interpolation between order statistics; `None` for an empty sample.
#[must_use]
pub fn quantile(sample: &[f64], q: f64) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted_quantile(&sorted, q)
}

fn sorted_quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// `median(numerator) / median(denominator)` with its 95 % interval.
///
/// Both samples are lists of blocks measured side by side; whole blocks are drawn, so that drift between blocks
/// widens the interval instead of hiding in it. The same samples and seed give the same interval.
#[must_use]
pub fn ratio_of_medians(numerator: &[Vec<f64>], denominator: &[Vec<f64>], seed: u64) -> Option<(f64, Interval)> {
    const DRAWS: usize = 1000;
    let blocks = numerator.len().min(denominator.len());
    let center = median(&numerator.concat())? / median(&denominator.concat())?;
    let mut random = SplitMix(seed);
    let mut ratios = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let (mut top, mut bottom) = (Vec::new(), Vec::new());
        for _ in 0..blocks {
            let chosen = random.below(blocks);
            resample(&numerator[chosen], &mut random, &mut top);
            resample(&denominator[chosen], &mut random, &mut bottom);
        }
        ratios.push(median(&top)? / median(&bottom)?);
    }
    ratios.sort_by(f64::total_cmp);
    Some((center, Interval { low: sorted_quantile(&ratios, 0.025)?, high: sorted_quantile(&ratios, 0.975)? }))
}

/// By how much a statistic of a sample of this size varies from one sample to the next: its standard deviation over
/// samples drawn from this one. The same sample and seed give the same answer.
#[must_use]
pub fn deviation_of(sample: &[f64], statistic: impl Fn(&[f64]) -> Option<f64>, seed: u64) -> Option<f64> {
    const DRAWS: usize = 200;
    if sample.is_empty() {
        return None;
    }
    let mut random = SplitMix(seed);
    let mut values = Vec::with_capacity(DRAWS);
    let mut drawn = Vec::with_capacity(sample.len());
    for _ in 0..DRAWS {
        drawn.clear();
        resample(sample, &mut random, &mut drawn);
        values.push(statistic(&drawn)?);
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

fn resample(block: &[f64], random: &mut SplitMix, into: &mut Vec<f64>) {
    into.extend((0..block.len()).map(|_| block[random.below(block.len())]));
}

/// `SplitMix64`: ten lines instead of a crate; only for resampling, never for secrets.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_of_a_mean_shrinks_with_the_root_of_the_sample() {
        let mean = |sample: &[f64]| Some(sample.iter().sum::<f64>() / sample.len() as f64);
        let of = |n: u32| deviation_of(&(0..n).map(|i| f64::from(i % 2)).collect::<Vec<_>>(), mean, 1).unwrap();
        // Half a unit over the root of how many there are.
        assert!((of(100) - 0.05).abs() < 0.01 && (of(400) - 0.025).abs() < 0.005, "{} {}", of(100), of(400));
        assert_eq!(deviation_of(&[], mean, 1), None);
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(quantile(&[0.0, 10.0], 0.2), Some(2.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn equal_arms_give_one_inside_the_interval() {
        let arm: Vec<Vec<f64>> =
            (0..8).map(|b| (0..4).map(|i| 100.0 + f64::from((b * 7 + i * 3) % 5)).collect()).collect();
        let (center, interval) = ratio_of_medians(&arm, &arm, 1).unwrap();
        assert!((center - 1.0).abs() < 1e-12);
        assert!(interval.contains(1.0), "{interval:?}");
    }

    #[test]
    fn widening_adds_in_quadrature() {
        let wide = Interval { low: 2.0, high: 2.0 }.widened(2.0, 0.1);
        assert!(
            (wide.low - 2.0 * (-0.196_f64).exp()).abs() < 1e-12 && (wide.high - 2.0 * 0.196_f64.exp()).abs() < 1e-12
        );
        let wider = Interval { low: 1.0, high: 4.0 }.widened(2.0, 0.1);
        assert!(wider.low < 1.0 && wider.low > 0.95 && wider.high > 4.0 && wider.high < 4.2, "{wider:?}");
    }

    #[test]
    fn a_clear_difference_excludes_one() {
        let slow = vec![vec![200.0, 202.0, 198.0]; 6];
        let fast = vec![vec![100.0, 101.0, 99.0]; 6];
        let (center, interval) = ratio_of_medians(&slow, &fast, 1).unwrap();
        assert!((center - 2.0).abs() < 1e-9);
        assert!(interval.low > 1.9 && interval.high < 2.1, "{interval:?}");
    }
}
