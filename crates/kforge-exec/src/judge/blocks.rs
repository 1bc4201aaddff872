//! Blocks of timed calls: both arms on the same sets, which no process has seen before; every result is compared.

use super::{
    Session,
    alone::Alone,
    arm::{Arm, Given, How, Row},
    baseline,
    clock::Overhead,
    rows::quick,
    verify::OWN,
};
use crate::{
    cell::fill_random,
    error::{ExecError, Result},
    failure::{OnFailure, Tried},
};
use kforge_types::{Interval, median, quantile, ratio_of_medians};
use std::time::{Duration, Instant};

/// On the problem's own distribution, and on each of the others, at the least.
const OWN_BLOCKS: usize = 8;
const OTHER_BLOCKS: usize = 2;
/// The same where one call takes long, or sets are large.
const FEWEST_OWN: usize = 5;
const SLOW_US: f64 = 100_000.0;
const LARGE_BYTES: usize = 256 << 20;
const MOST_BLOCKS: usize = 60;
/// Sets whose results are held against a float64 truth; all others are held against the baseline's.
const TRUTHS: usize = 16;
const TRUTHS_OF_HUGE: usize = 3;
const HUGE_BYTES: usize = 1 << 30;
/// The interval of the ratio is narrow enough.
const NARROW: f64 = 0.02;
/// A wider one says little, so that many times the budget is spent on it before it is published.
const WIDE: f64 = 0.1;
const PATIENCE: u32 = 4;
const WHOLE_LIMIT: Duration = Duration::from_mins(2);
/// Blocks that a distribution gets on top where it looks slower than the problem's own.
const DOUBTFUL_BLOCKS: usize = 4;
/// A little more than the middle one: half of them may be pairs of few, which lie close together.
const OF_DEVIATIONS: f64 = 0.6;
/// A candidate may take so much of the baseline's time to make ready for a row.
pub(super) const READY: f64 = 1.25;
const DOUBTFUL_ROUNDS: usize = 2;
/// A ratio that lies below this share of another's lower end is another one, however noisy it is.
pub(super) const CLEARLY: f64 = 0.93;
/// Baseline rows without a candidate beside them, and single calls of nothing: the system lets every fourth of these wait.
const ALONE_ROWS: usize = 3;
const ALONE_SINGLES: usize = 10;

/// One row of each arm on the same sets.
pub(crate) struct Block {
    pub(crate) distribution: usize,
    pub(crate) candidate: Row,
    pub(crate) baseline: Row,
}

/// What asking takes, in microseconds: for a row, for a single call, and the least that it can take without any Python.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nulls {
    pub(super) row: f64,
    pub(super) single: f64,
    pub(super) least: f64,
}

/// All that was timed.
pub(crate) struct Blocks {
    /// In a row.
    pub(crate) calls: usize,
    pub(crate) all: Vec<Block>,
    pub(super) nulls: Vec<Row>,
    /// What asking takes with no candidate beside it.
    pub(super) alone: Option<Nulls>,
    pub(crate) truths: usize,
    /// Largest error in units of what is allowed.
    pub(crate) error: f64,
}

impl Blocks {
    /// Before the first one, of rows of so many calls.
    pub(crate) fn none(calls: usize) -> Self {
        Self { calls, all: Vec::new(), nulls: Vec::new(), alone: None, truths: 0, error: 0.0 }
    }

    pub(crate) fn overhead(&self) -> Option<Overhead> {
        let beside = Overhead::of(&self.nulls.iter().map(|row| row.outside_us).collect::<Vec<_>>())?;
        // Whoever makes asking slow would have the more taken off his own time.
        Some(self.alone.map_or(beside, |alone| beside.at_most(alone.row)))
    }

    /// By how much a row took longer until its results lay still than until its process said that all was done, beyond
    /// what that takes by itself.
    pub(crate) fn said_too_early(&self) -> Option<f64> {
        let own = median(&self.all.iter().map(|block| block.candidate.lag_us()).collect::<Vec<_>>())?;
        Some(((own - self.usual_lag()?) / self.calls as f64).max(0.0))
    }

    /// What it takes by itself until all stands still and was taken.
    pub(crate) fn usual_lag(&self) -> Option<f64> {
        quantile(&self.nulls.iter().map(Row::lag_us).collect::<Vec<_>>(), 0.8)
    }

    /// By how much it takes longer than the baseline to make ready for a row, for each of its calls: whoever works there
    /// works for a call. Dropping results is a part of it, and runs code of the candidate's.
    pub(crate) fn worked_before(&self) -> Option<f64> {
        let own = median(&self.all.iter().map(|block| block.candidate.ready_us).collect::<Vec<_>>())?;
        let usual = median(&self.all.iter().map(|block| block.baseline.ready_us).collect::<Vec<_>>())?;
        Some(((own - READY * usual) / self.calls as f64).max(0.0))
    }

    /// What a call may have taken longer than `times` says, because its process saved what was taken off.
    pub(crate) fn saved_at_most(&self) -> f64 {
        match (self.overhead(), self.alone) {
            (Some(overhead), Some(alone)) => (overhead.us - alone.least).max(0.0) / self.calls as f64,
            _ => 0.0,
        }
    }

    /// The same for a single call.
    pub(crate) fn saved_in_single_calls(&self) -> f64 {
        self.alone.map_or(0.0, |alone| (alone.single - alone.least).max(0.0))
    }

    /// Microseconds of one call, block by block: the candidate's and the baseline's.
    pub(crate) fn times(&self, distribution: usize) -> (Vec<f64>, Vec<f64>) {
        let Some(overhead) = self.overhead() else { return (Vec::new(), Vec::new()) };
        let of = |row: &Row| overhead.per_call(row.outside_us, self.calls);
        self.all
            .iter()
            .filter(|block| block.distribution == distribution)
            .map(|block| (of(&block.candidate), of(&block.baseline)))
            .unzip()
    }

    /// The baseline's time over the candidate's, with its interval.
    pub(crate) fn ratio(&self, distribution: usize) -> Option<(f64, Interval)> {
        let (candidate, baseline) = self.times(distribution);
        if candidate.len() < FEWEST_OWN {
            return self.ratio_of_few(&candidate, &baseline);
        }
        let blocks = |times: &[f64]| times.iter().map(|us| vec![*us]).collect::<Vec<_>>();
        ratio_of_medians(&blocks(&baseline), &blocks(&candidate), candidate.len() as u64)
    }

    /// The same by the quick rows of each arm.
    pub(crate) fn quick_ratio(&self, distribution: usize) -> Option<f64> {
        let (candidate, baseline) = self.times(distribution);
        Some(quantile(&baseline, 0.2)? / quantile(&candidate, 0.2)?)
    }

    /// Of few blocks: pairs on the same sets, with the spread that all pairs show.
    fn ratio_of_few(&self, candidate: &[f64], baseline: &[f64]) -> Option<(f64, Interval)> {
        let logs: Vec<f64> = baseline.iter().zip(candidate).map(|(b, c)| (b / c).ln()).collect();
        let center = median(&logs)?;
        let half = 2.0 * self.spread_of_pairs() / (logs.len() as f64).sqrt();
        Some((center.exp(), Interval { low: (center - half).exp(), high: (center + half).exp() }))
    }

    /// Standard deviation of a pair's log ratio around the middle of its distribution.
    fn spread_of_pairs(&self) -> f64 {
        let highest = self.all.iter().map(|block| block.distribution).max().unwrap_or_default();
        let mut off = Vec::new();
        for distribution in 0..=highest {
            let (candidate, baseline) = self.times(distribution);
            let logs: Vec<f64> = baseline.iter().zip(&candidate).map(|(b, c)| (b / c).ln()).collect();
            let Some(middle) = median(&logs) else { continue };
            off.extend(logs.iter().map(|log| (log - middle).abs()));
        }
        // By the middle of the deviations, since the system may let any row wait: 1.48 of it is a standard deviation. A pair
        // lies around its own middle by less than around the true one.
        (2.0_f64.sqrt() * 1.48 * quantile(&off, OF_DEVIATIONS).unwrap_or_default()).max(0.005)
    }

    /// Few rows decide nothing: the system may let any of them wait.
    pub(crate) fn has_enough(&self, distribution: usize) -> bool {
        self.all.iter().filter(|block| block.distribution == distribution).count() >= FEWEST_OWN
    }

    /// Distributions on which the candidate seems to gain less than on the problem's own inputs, and which are not known well
    /// enough to say so.
    fn doubtful(&self, distributions: usize) -> Vec<usize> {
        let Some((_, own)) = self.ratio(0) else { return Vec::new() };
        let unsure = |distribution: &usize| {
            let (Some((center, interval)), Some(quick)) = (self.ratio(*distribution), self.quick_ratio(*distribution))
            else {
                return false;
            };
            let known = self.has_enough(*distribution) && interval.high < own.low && quick < own.low;
            center < CLEARLY * own.low && !known
        };
        (1..distributions).filter(unsure).collect()
    }

    /// How long is spent on blocks with what is known so far.
    fn worth(&self, budget: Duration) -> Duration {
        match self.ratio(0).map(|(center, interval)| interval.relative_half_width(center)) {
            Some(half) if half <= NARROW => Duration::ZERO,
            Some(half) if half <= WIDE => budget,
            _ => PATIENCE * budget,
        }
    }
}

/// What is going to be timed: a distribution for each block, in an order that nobody can know, and which sets get a truth.
struct Plan {
    order: Vec<usize>,
    truths: Vec<bool>,
}

impl Plan {
    /// At least as many calls as truths are wanted, however few there are in a row.
    fn new(calls: usize, distributions: usize, slow: bool, wanted: usize) -> Result<Self> {
        let (own, others) = if slow { (FEWEST_OWN, 1) } else { (OWN_BLOCKS, OTHER_BLOCKS) };
        let own = own.max(wanted.div_ceil(calls).saturating_sub(others * (distributions - 1)));
        let mut order = vec![0; own];
        for distribution in 1..distributions {
            order.extend(std::iter::repeat_n(distribution, others));
        }
        shuffle(&mut order)?;
        let mut truths: Vec<bool> = (0..order.len() * calls).map(|set| set < wanted).collect();
        shuffle(&mut truths)?;
        Ok(Self { order, truths })
    }
}

impl Session {
    /// Whether calls of one arm cannot be queued, because forward waits for the device; then neither are those of the other.
    pub(crate) fn cannot_queue(&mut self, arm: &mut Arm, control: &mut Arm) -> Tried<bool> {
        if !self.bench.device.policy().queues {
            return Ok(false);
        }
        let set = self.bench.referee.set(0, OWN, 0)?;
        let how = How::cold(self.call_limit());
        self.bench.call(arm, &set, how)?;
        baseline::call(&mut self.bench, control, 0)?;
        let both = arm.queues && control.queues;
        (arm.queues, control.queues) = (both, both);
        Ok(!both)
    }

    /// Blocks on every distribution that the problem bears, until the ratio on its own one is known well enough.
    pub(crate) fn blocks(
        &mut self,
        arm: &mut Arm,
        control: &mut Arm,
        calls: usize,
        alone: Option<&Alone>,
    ) -> Tried<Blocks> {
        let alone = alone.and_then(|alone| alone.nulls(calls, control.queues));
        let mut blocks = Blocks { alone, ..Blocks::none(calls) };
        let Plan { order, truths } = self.plan(calls)?;
        let (begun, limit) = (Instant::now(), self.call_limit());
        for (number, distribution) in order.iter().enumerate() {
            let wanted = &truths[number * calls..(number + 1) * calls];
            self.block(arm, control, *distribution, wanted, &mut blocks)?;
            // Elsewhere before its first row.
            if number == 0 && self.bench.device.policy().warm_up_rows == 0 {
                self.bench.hold(arm, limit)?;
            }
        }
        // The plan follows from the clock alone: a candidate cannot earn fewer repeats by being slow.
        let budget = self.bench.options.time_budget;
        while blocks.all.len() < MOST_BLOCKS && begun.elapsed() < blocks.worth(budget).min(WHOLE_LIMIT) {
            self.surprise(arm, control, 0, &mut blocks)?;
        }
        for _ in 0..DOUBTFUL_ROUNDS {
            for distribution in blocks.doubtful(self.bench.opened.distributions.len()) {
                for _ in 0..DOUBTFUL_BLOCKS {
                    self.surprise(arm, control, distribution, &mut blocks)?;
                }
            }
        }
        Ok(blocks)
    }

    /// A block more, which may be one with truths.
    fn surprise(&mut self, arm: &mut Arm, control: &mut Arm, distribution: usize, blocks: &mut Blocks) -> Tried<()> {
        let mut chance = [0; 4];
        fill_random(&mut chance)?;
        let place = usize::from(u16::from_le_bytes([chance[0], chance[1]])) % blocks.calls;
        let truths: Vec<bool> = (0..blocks.calls).map(|call| call == place && chance[2] < 128).collect();
        self.block(arm, control, distribution, &truths, blocks)
    }

    fn plan(&self, calls: usize) -> Result<Plan> {
        let bytes = self.bench.opened.input_bytes + self.bench.opened.output_bytes;
        let slow = self.baselines.fastest_us().is_some_and(|us| us > SLOW_US) || bytes > LARGE_BYTES;
        let truths = if bytes > HUGE_BYTES { TRUTHS_OF_HUGE } else { TRUTHS };
        Plan::new(calls, self.bench.opened.distributions.len(), slow, truths)
    }

    fn block(
        &mut self,
        arm: &mut Arm,
        control: &mut Arm,
        distribution: usize,
        truths: &[bool],
        blocks: &mut Blocks,
    ) -> Tried<()> {
        let calls = truths.len();
        let name = self.bench.opened.distributions[distribution].clone();
        self.bench.referee.draw(&name, truths)?;
        let how = How::cold(self.call_limit());
        let mut chance = [0; 1];
        fill_random(&mut chance)?;
        let mut candidate = None;
        if chance[0] & 1 == 0 {
            candidate = Some(self.bench.row(arm, Given::Fresh(calls), how)?);
        }
        let baseline = self.control_row(control, Given::Fresh(calls))?;
        let candidate = match candidate {
            Some(row) => row,
            None => self.bench.row(arm, Given::Fresh(calls), how)?,
        };
        arm.is_alone()?;
        let compared = self.bench.referee.compare_row(calls, true)?.passed()?;
        // Not before: on a device these results take the place of the baseline's.
        blocks.nulls.push(self.control_row(control, Given::Null(calls))?);
        tracing::debug!(name, candidate = candidate.outside_us, baseline = baseline.outside_us);
        blocks.truths += truths.iter().filter(|truth| **truth).count();
        blocks.error = blocks.error.max(compared.error);
        blocks.all.push(Block { distribution, candidate, baseline });
        Ok(())
    }

    pub(super) fn control_row(&mut self, control: &mut Arm, given: Given<'_>) -> Result<Row> {
        let how = How::cold(self.call_limit().max(Duration::from_mins(1)));
        self.bench.row(control, given, how).or_reason()?.map_err(ExecError::baseline)
    }

    /// What a row of the baseline takes with no candidate beside it, asking included.
    pub(crate) fn row_alone(&mut self, control: &mut Arm, calls: usize) -> Result<Option<f64>> {
        let mut times = Vec::new();
        for _ in 0..ALONE_ROWS {
            self.bench.referee.draw(OWN, &vec![false; calls])?;
            times.push(self.control_row(control, Given::Fresh(calls))?.outside_us);
        }
        Ok(median(&times))
    }

    /// What asking takes with no candidate beside it.
    pub(crate) fn asking_alone(&mut self, control: &mut Arm, calls: usize) -> Result<Option<Nulls>> {
        let (mut rows, mut singles, mut least) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ALONE_ROWS {
            rows.push(self.control_row(control, Given::Null(calls))?.outside_us);
            self.bench.device.empty_caches();
            least.push(self.bench.echo.ask()?);
        }
        for _ in 0..ALONE_SINGLES {
            singles.push(self.control_row(control, Given::Null(1))?.outside_us);
        }
        // Of single calls by the quick ones, as of those that something is computed in.
        let (Some(row), Some(single)) = (median(&rows), quick(&singles)) else { return Ok(None) };
        // Where asking is more than a message, what a single row of nothing takes is known to be needed.
        let by_message = self.bench.device.policy().asks_by_message;
        let least = if by_message { quantile(&least, 0.0).unwrap_or_default() } else { single };
        tracing::debug!(row, single, least, calls, "asking alone");
        Ok(Some(Nulls { row, single, least }))
    }
}

/// In an order that no candidate can know.
fn shuffle<T>(items: &mut [T]) -> Result<()> {
    let mut chance = vec![0; 4 * items.len()];
    fill_random(&mut chance)?;
    for (last, word) in chance.chunks_exact(4).enumerate().skip(1) {
        let drawn = u32::from_le_bytes(word.try_into().unwrap_or_default());
        items.swap(last, drawn as usize % (last + 1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(us: f64) -> Row {
        Row { outside_us: us, settled_us: us, inside_us: us, launching_us: 0.0, ready_us: 0.0 }
    }

    fn blocks(rows: &[(usize, f64, f64)]) -> Blocks {
        let all = rows
            .iter()
            .map(|(distribution, candidate, baseline)| Block {
                distribution: *distribution,
                candidate: row(*candidate),
                baseline: row(*baseline),
            })
            .collect();
        Blocks { calls: 1, all, nulls: vec![row(100.0); 9], alone: None, truths: 0, error: 0.0 }
    }

    #[test]
    fn a_distribution_of_few_blocks_has_a_ratio_with_an_honest_interval() {
        let mut rows: Vec<_> = (0..8).map(|n| (0, 600.0 + f64::from(n), 1100.0 + f64::from(n))).collect();
        rows.extend([(1, 1100.0, 1100.0), (1, 1110.0, 1100.0)]);
        let blocks = blocks(&rows);
        let ((own, own_interval), (other, other_interval)) = (blocks.ratio(0).unwrap(), blocks.ratio(1).unwrap());
        assert!((own - 1.99).abs() < 0.05 && (other - 1.0).abs() < 0.02, "{own} {other}");
        assert!(other_interval.high < own_interval.low && other_interval.contains(1.0), "{other_interval:?}");
    }

    #[test]
    fn a_plan_has_every_distribution_and_as_many_truths_as_are_wanted() {
        for (calls, distributions, slow) in [(1, 1, true), (1, 6, true), (1, 6, false), (4, 3, false), (32, 6, false)] {
            for wanted in [TRUTHS, TRUTHS_OF_HUGE] {
                let plan = Plan::new(calls, distributions, slow, wanted).unwrap();
                assert_eq!(plan.truths.len(), plan.order.len() * calls);
                assert_eq!(plan.truths.iter().filter(|truth| **truth).count(), wanted);
                let of = |distribution: usize| plan.order.iter().filter(|one| **one == distribution).count();
                assert!(of(0) >= FEWEST_OWN && (1..distributions).all(|other| of(other) >= 1));
            }
        }
    }

    #[test]
    fn nobody_can_know_which_calls_have_a_truth_or_which_inputs_come_next() {
        let plans: Vec<Plan> = (0..4).map(|_| Plan::new(4, 6, false, TRUTHS).unwrap()).collect();
        assert!(plans.iter().any(|plan| plan.order != plans[0].order));
        assert!(plans.iter().any(|plan| plan.truths != plans[0].truths));
    }

    #[test]
    fn what_asking_takes_is_taken_off_both_arms() {
        let seen = blocks(&[(0, 1100.0, 2100.0), (1, 600.0, 1100.0)]);
        let (candidate, baseline) = seen.times(0);
        assert!((candidate[0] - 1000.0).abs() < 1.0 && (baseline[0] - 2000.0).abs() < 1.0);
        assert_eq!(seen.times(1).0.len(), 1);
        assert_eq!(seen.times(2), (Vec::new(), Vec::new()));
        assert!(seen.ratio(2).is_none());
    }

    #[test]
    fn who_says_done_before_it_is_done_is_held_to_when_it_was() {
        let honest = blocks(&[(0, 1100.0, 2100.0); 8]);
        assert_eq!(honest.said_too_early(), Some(0.0));
        let mut early = blocks(&[(0, 1100.0, 2100.0); 8]);
        for block in &mut early.all {
            block.candidate.settled_us += 500.0;
        }
        assert_eq!(early.said_too_early(), Some(500.0));
        let mut ready = blocks(&[(0, 1100.0, 2100.0); 8]);
        assert_eq!(ready.worked_before(), Some(0.0));
        for block in &mut ready.all {
            block.candidate.ready_us += 700.0;
        }
        assert_eq!(ready.worked_before(), Some(700.0));
        // The system may let a stopped process wait now and then.
        let mut unlucky = blocks(&[(0, 1100.0, 2100.0); 8]);
        unlucky.all[3].candidate.settled_us += 500.0;
        assert_eq!(unlucky.said_too_early(), Some(0.0));
        assert_eq!(blocks(&[]).said_too_early(), None);
    }

    #[test]
    fn blocks_are_made_until_the_ratio_is_narrow() {
        let second = Duration::from_secs(1);
        let of_step = |us: f64| -> Vec<_> { (0..8).map(|n| (0, 1100.0, 2100.0 + us * f64::from(n))).collect() };
        assert_eq!(blocks(&of_step(0.0)).worth(second), Duration::ZERO);
        assert_eq!(blocks(&of_step(40.0)).worth(second), second);
        for wide in [of_step(200.0), Vec::new()] {
            assert_eq!(blocks(&wide).worth(second), PATIENCE * second);
        }
    }

    #[test]
    fn more_blocks_are_made_where_a_distribution_may_be_slower_and_is_not_known_to_be() {
        let own: Vec<_> = (0..8).map(|n| (0, 600.0 + f64::from(n), 1100.0)).collect();
        let with = |others: &[(usize, f64, f64)]| blocks(&[own.as_slice(), others].concat()).doubtful(2);
        assert_eq!(with(&[(1, 1100.0, 1100.0), (1, 1110.0, 1100.0)]), [1], "two rows are few");
        assert_eq!(with(&[(1, 1100.0, 1100.0); 6]), [0; 0], "it is known");
        let by_turns = [(1, 600.0, 1100.0), (1, 600.0, 1100.0), (1, 1600.0, 1100.0), (1, 1600.0, 1100.0)];
        assert_eq!(with(&by_turns), [1], "its quick rows say otherwise");
        assert_eq!(with(&[(1, 600.0, 1100.0), (1, 600.0, 1100.0)]), [0; 0], "it is not slower");
    }

    #[test]
    fn shuffling_loses_nothing() {
        let mut items: Vec<usize> = (0..100).collect();
        shuffle(&mut items).unwrap();
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
