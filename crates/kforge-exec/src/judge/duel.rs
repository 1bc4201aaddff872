//! Two candidates against each other: rows of both on the same sets, in one evaluation.
//!
//! A speedup is a ratio to a baseline that drifts by one or two percent from one evaluation to the next, so that two of
//! them cannot tell which of two good kernels is the faster. Here both meet the same minutes and the same inputs. Every
//! result is compared, as always; rows are held to single calls, as always.

use super::{
    Observer, Session,
    arm::{Arm, Given, How},
    blocks::{Block, Blocks},
    outcome::Outcome,
    verify::OWN,
};
use crate::{
    cell::fill_random,
    error::{ExecError, Result},
    failure::Failure,
    sandbox::Sandbox,
    wire::op,
};
use kforge_types::{Duel, DuelOutcome, Interval, median, ratio_of_medians};
use std::time::Instant;

/// Pairs of processes: what one pair differs from another is seen by none of them.
const PAIRS: usize = 3;
/// Rows of each candidate, in each pair.
const FEWEST_BLOCKS: usize = 6;
const MOST_BLOCKS: usize = 24;
/// Narrower than what pairs differ by need no row be.
const NARROW: f64 = 0.005;

/// A candidate in a duel.
#[derive(Debug, Clone, Copy)]
pub struct Contender<'a> {
    /// As messages name it.
    pub name: &'a str,
    /// Its text.
    pub source: &'a str,
}

/// One that has passed all checks.
struct Fit<'a> {
    contender: Contender<'a>,
    sandbox: Option<Sandbox>,
    outcome: Outcome,
}

/// Why there was no duel.
enum Unfought {
    /// Who did not come through, by its place, and why.
    Unfit {
        place: usize,
        reason: String,
    },
    Failed(ExecError),
}

impl From<ExecError> for Unfought {
    fn from(error: ExecError) -> Self {
        Self::Failed(error)
    }
}

type Fought<T> = std::result::Result<T, Unfought>;

/// What a failure at the contender in this place means for the duel.
fn of(place: usize) -> impl FnOnce(Failure) -> Unfought {
    move |failure| match failure {
        Failure::Refused(refusal) => Unfought::Unfit { place, reason: refusal.verdict.reason },
        Failure::Denied(reason) => Unfought::Unfit { place, reason },
        Failure::Failed(error) => Unfought::Failed(error),
    }
}

/// Both arms of a pair, with what each has shown beside the baseline.
type Pair = [(Arm, Blocks); 2];

impl Session {
    /// Interleaves two candidates. Both are held against every check first; where one fails, nobody has fought.
    pub fn duel(&mut self, contenders: [Contender<'_>; 2], observer: &dyn Observer) -> Result<DuelOutcome> {
        if !self.bench.options.place.is_timed() || self.bench.options.no_timing {
            let text = "nothing is timed here, so that no two candidates can be compared by their time";
            return Err(ExecError::Problem(text.to_owned()));
        }
        match self.meet(contenders, observer) {
            Ok(duel) => Ok(DuelOutcome::Fought(duel)),
            Err(Unfought::Unfit { place, reason }) => Ok(DuelOutcome::Unfit { place, reason }),
            Err(Unfought::Failed(error)) => Err(error),
        }
    }

    fn meet(&mut self, contenders: [Contender<'_>; 2], observer: &dyn Observer) -> Fought<Duel> {
        let mut fit = Vec::new();
        let mut lock = None;
        let mut scratch = Outcome::begin(self, contenders[0].name, contenders[0].source);
        // Without the cell that is timed: each pair has a new one.
        let crew: Vec<_> = self.bench.crew().into_iter().take(2).collect();
        for (place, contender) in contenders.into_iter().enumerate() {
            drop(lock.take());
            let mut outcome = Outcome::begin(self, contender.name, contender.source);
            let passed = self.pass_checks(contender.source, &crew, &mut outcome, observer);
            let (sandbox, checking) = passed.map_err(of(place))?;
            lock = Some(checking);
            fit.push(Fit { contender, sandbox: Some(sandbox), outcome });
        }
        let Some(checking) = lock else { return Err(ExecError::harness("a duel needs two").into()) };
        let _lock = self.have_baselines(checking, &mut scratch, observer)?;
        observer.stage("timing both");
        let Some((name, mut control)) = self.baselines.take_control() else {
            let text = "no baseline could be measured, and a duel needs one";
            return Err(ExecError::Problem(text.to_owned()).into());
        };
        let queues = control.queues;
        let fought = self.fight(&mut fit, &mut control);
        control.queues = queues;
        self.baselines.put_control(name, control);
        fought
    }

    fn fight(&mut self, fit: &mut [Fit<'_>], control: &mut Arm) -> Fought<Duel> {
        let apart = !fit.iter().any(|one| one.outcome.own_threads);
        let mut pairs: Vec<[Vec<f64>; 2]> = Vec::new();
        let mut n = 0;
        for _ in 0..PAIRS {
            let mut pair = Vec::new();
            for (place, one) in fit.iter_mut().enumerate() {
                let sandbox = one.sandbox.take().ok_or_else(|| ExecError::harness("a sandbox is gone"))?;
                let arm = self.timing_arm(sandbox, one.contender.source, &mut one.outcome).map_err(of(place))?;
                pair.push((arm, Blocks::none(self.calls_in_a_row())));
            }
            let mut pair = Pair::try_from(pair).map_err(|_| ExecError::harness("a duel needs two"))?;
            pairs.push(self.time_pair(&mut pair, control, apart)?);
            n += pair[0].1.all.len() * pair[0].1.calls;
            for (one, (arm, _)) in fit.iter_mut().zip(pair) {
                let Arm { mut sandbox, cell, .. } = arm;
                self.bench.end_cell(&mut sandbox, cell)?;
                one.sandbox = Some(sandbox);
            }
        }
        let between = self.bench.device.policy().between_cells;
        let names = [fit[0].contender.name.to_owned(), fit[1].contender.name.to_owned()];
        Ok(verdict_of(&pairs, between, n, names).ok_or_else(|| ExecError::harness("a duel without a single row"))?)
    }

    /// Microseconds of a call, row by row, of each.
    fn time_pair(&mut self, pair: &mut Pair, control: &mut Arm, apart: bool) -> Fought<[Vec<f64>; 2]> {
        let mut queue = true;
        for (place, (arm, _)) in pair.iter_mut().enumerate() {
            arm.ask(op::Pin(apart), self.call_limit()).map_err(of(place))?;
            queue &= !self.cannot_queue(arm, control).map_err(of(place))?;
        }
        if !queue {
            // As when each is judged: where one cannot be queued, all are timed one by one on an idle device.
            control.queues = false;
            for (arm, blocks) in pair.iter_mut() {
                arm.queues = false;
                *blocks = Blocks::none(1);
            }
        }
        let begun = Instant::now();
        loop {
            self.duel_block(pair, control)?;
            let rows = pair[0].1.all.len();
            let late = begun.elapsed() > self.bench.options.time_budget;
            if rows >= MOST_BLOCKS || (rows >= FEWEST_BLOCKS && (late || is_narrow(pair))) {
                break;
            }
        }
        let mut made = [Vec::new(), Vec::new()];
        for (place, (arm, blocks)) in pair.iter_mut().enumerate() {
            let held = self.held_to_single_calls(arm, control, blocks).map_err(of(place))?;
            made[place] = blocks.times(0).0.into_iter().map(|us| us * held.scale).collect();
        }
        Ok(made)
    }

    /// A row of each, and one of the baseline between them, against which both are compared.
    fn duel_block(&mut self, pair: &mut Pair, control: &mut Arm) -> Fought<()> {
        let calls = pair[0].1.calls;
        let mut chance = [0; 2];
        fill_random(&mut chance)?;
        self.bench.referee.draw(OWN, &vec![chance[1] < 64; calls])?;
        let how = How::cold(self.call_limit());
        let first = usize::from(chance[0] & 1);
        let mut baseline = None;
        for place in [first, 1 - first] {
            let (arm, _) = &mut pair[place];
            let row = self.bench.row(arm, Given::Fresh(calls), how).map_err(of(place))?;
            arm.is_alone().map_err(of(place))?;
            let beside = match baseline {
                Some(beside) => beside,
                None => self.control_row(control, Given::Fresh(calls))?,
            };
            baseline = Some(beside);
            self.bench.referee.compare_row(calls, true)?.passed().map_err(of(place))?;
            pair[place].1.all.push(Block { distribution: 0, candidate: row, baseline: beside });
        }
        let null = self.control_row(control, Given::Null(calls))?;
        for (_, blocks) in pair.iter_mut() {
            blocks.nulls.push(null);
        }
        Ok(())
    }
}

/// Rows so far, without what single calls will say.
fn is_narrow(pair: &Pair) -> bool {
    let [first, second] = pair.each_ref().map(|(_, blocks)| blocks.times(0).0);
    ratio_of(&first, &second).is_some_and(|(center, interval)| interval.relative_half_width(center) <= NARROW)
}

/// The second one's time over the first one's.
fn ratio_of(first: &[f64], second: &[f64]) -> Option<(f64, Interval)> {
    let blocks = |times: &[f64]| times.iter().map(|us| vec![*us]).collect::<Vec<_>>();
    ratio_of_medians(&blocks(second), &blocks(first), first.len() as u64)
}

/// The middle pair decides. The interval holds what rows of a pair scatter by, and what pairs differ by: as much as they
/// are known to, or as they did here.
fn verdict_of(pairs: &[[Vec<f64>; 2]], between: f64, n: usize, names: [String; 2]) -> Option<Duel> {
    let of_pairs: Vec<(f64, Interval)> = pairs.iter().filter_map(|[a, b]| ratio_of(a, b)).collect();
    let logs: Vec<f64> = of_pairs.iter().map(|(center, _)| center.ln()).collect();
    let count = of_pairs.len() as f64;
    let ratio = (logs.iter().sum::<f64>() / count).exp();
    let within = |end: fn(&Interval) -> f64| {
        let squares: f64 = of_pairs.iter().map(|(center, interval)| (end(interval) / center).ln().powi(2)).sum();
        squares.sqrt() / count
    };
    let rows = Interval {
        low: ratio * (-within(|interval| interval.low)).exp(),
        high: ratio * within(|interval| interval.high).exp(),
    };
    let scatter = logs.iter().map(|log| (log - ratio.ln()).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let interval = rows.widened(ratio, between.max(scatter.sqrt()) / count.sqrt());
    let all = |place: usize| median(&pairs.iter().flat_map(|pair| pair[place].clone()).collect::<Vec<_>>());
    Some(Duel { names, ratio, interval, medians_us: [all(0)?, all(1)?], n, pairs: of_pairs.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kforge_types::Winner;

    fn rows(us: f64) -> Vec<f64> {
        (0..8).map(|n| us * (1.0 + 0.002 * f64::from(n * 5 % 7 - 3))).collect()
    }

    fn duel(ratios: &[f64], between: f64) -> Duel {
        let pairs: Vec<[Vec<f64>; 2]> = ratios.iter().map(|ratio| [rows(100.0), rows(100.0 * ratio)]).collect();
        verdict_of(&pairs, between, 24, ["a".to_owned(), "b".to_owned()]).unwrap()
    }

    #[test]
    fn the_faster_one_wins_where_pairs_agree() {
        let won = duel(&[1.08, 1.09, 1.085], 0.03);
        assert_eq!(won.winner(), Winner::First);
        assert!((won.ratio - 1.085).abs() < 0.002 && won.pairs == 3 && (won.medians_us[0] - 100.0).abs() < 1.0);
        assert_eq!(duel(&[0.91, 0.92, 0.92], 0.03).winner(), Winner::Second);
        assert_eq!(duel(&[1.018, 1.019, 1.018], 0.01).winner(), Winner::First, "on a GPU");
    }

    #[test]
    fn what_pairs_differ_by_decides_nothing() {
        assert_eq!(duel(&[1.02, 1.025, 1.02], 0.03).winner(), Winner::Neither);
        assert_eq!(duel(&[1.30, 1.00, 0.99], 0.03).winner(), Winner::Neither);
    }
}
