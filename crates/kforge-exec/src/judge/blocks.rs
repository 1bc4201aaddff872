//! Blocks of timed calls: both arms in turns, in an order by chance, every output verified.

use super::{
    Session,
    arm::{Arm, Called, How, Sample},
    clock::{self, ClockReport},
    timing::RING,
    verify::OWN,
};
use crate::error::{ExecError, Result};
use kforge_types::{Interval, Verdict, ratio_of_medians};
use std::time::{Duration, Instant};

/// Less than a GPU gives to each process in turn, and more than calls on an idle device leave unseen.
const TIME_SLICE_US: f64 = 700.0;
const FEWEST_BLOCKS: usize = 5;
const MOST_BLOCKS: usize = 60;
/// The interval of the ratio is narrow enough.
const NARROW: f64 = 0.01;
const WHOLE_LIMIT: Duration = Duration::from_mins(2);

/// Times of both arms, block by block, and all that is known of each call.
#[derive(Default)]
pub(crate) struct Blocks {
    pub(crate) candidate: Vec<Vec<f64>>,
    pub(crate) baseline: Vec<Vec<f64>>,
    pub(crate) candidate_samples: Vec<Sample>,
    pub(crate) baseline_samples: Vec<Sample>,
}

impl Blocks {
    pub(crate) fn ratio(&self) -> Option<(f64, Interval)> {
        ratio_of_medians(&self.baseline, &self.candidate, self.candidate.len() as u64)
    }

    fn is_narrow(&self) -> bool {
        self.ratio().is_some_and(|(center, interval)| interval.relative_half_width(center) <= NARROW)
    }
}

impl Session {
    /// Whether calls of one arm cannot be queued, because forward waits for the device; then neither are those of the other.
    pub(crate) fn cannot_queue(
        &mut self,
        arm: &mut Arm,
        control: &mut Arm,
    ) -> Result<std::result::Result<bool, Verdict>> {
        if self.gpu.is_none() {
            return Ok(Ok(false));
        }
        let set = self.referee.set(0, OWN, 0)?;
        let how = How::cold(self.call_limit());
        if let Err(verdict) = arm.call(&mut self.referee, &mut self.evictor, &set, how)? {
            return Ok(Err(verdict));
        }
        self.baseline_call(control, 0)?;
        let both = arm.queues && control.queues;
        (arm.queues, control.queues) = (both, both);
        Ok(Ok(!both))
    }

    /// Blocks, and what the outside clock says of them.
    ///
    /// Where launches on several streams wait for each other behind the gate, the referee gets its turn on the device a time
    /// slice later, and the outside clock counts that, also where it is too noisy to call it a lie. So much hidden time shows
    /// in calls on an idle device too, if it is there: they decide.
    pub(crate) fn blocks_and_clocks(
        &mut self,
        arm: &mut Arm,
        control: &mut Arm,
        idle: &mut bool,
    ) -> Result<std::result::Result<(Blocks, ClockReport), Verdict>> {
        // By one thread, which has no more than its share of the bandwidth.
        let fetch_us = match self.gpu {
            Some(_) => 0.0,
            None => self.options.threads as f64 * self.opened.output_bytes as f64 / self.evictor.bandwidth() * 1e6,
        };
        loop {
            let blocks = match self.run_blocks(arm, control)? {
                Ok(blocks) => blocks,
                Err(verdict) => return Ok(Err(verdict)),
            };
            let report = clock::examine(&blocks.candidate_samples, &blocks.baseline_samples, fetch_us)
                .ok_or_else(|| ExecError::harness("nothing was timed"))?;
            let slice = report.hidden_us > TIME_SLICE_US;
            if *idle || self.gpu.is_none() || (arm.queues && control.queues && !slice) {
                return Ok(Ok((blocks, report)));
            }
            *idle = true;
            (arm.queues, control.queues) = (false, false);
        }
    }

    /// ABBA or BAAB by chance, until the interval is narrow or the blocks that the baseline's cost allows are done.
    fn run_blocks(&mut self, arm: &mut Arm, control: &mut Arm) -> Result<std::result::Result<Blocks, Verdict>> {
        let mut blocks = Blocks::default();
        let begun = Instant::now();
        let mut planned = MOST_BLOCKS;
        let mut turn = 0;
        while blocks.candidate.len() < planned {
            let mut chance = [0; 2];
            crate::cell::fill_random(&mut chance)?;
            let candidate_first = chance[0] & 1 == 0;
            let order = [candidate_first, !candidate_first, !candidate_first, candidate_first];
            let (mut of_candidate, mut of_baseline) = (Vec::new(), Vec::new());
            let mut baseline_cost = Duration::ZERO;
            for is_candidate in order {
                let number = (turn + usize::from(chance[1])) % RING;
                turn += 1;
                let set = self.referee.set(0, OWN, number)?;
                let how = How::cold(self.call_limit());
                let started = Instant::now();
                let side: &mut Arm = if is_candidate { arm } else { control };
                let called: Called = side.call(&mut self.referee, &mut self.evictor, &set, how)?;
                if let Ok(sample) = &called {
                    tracing::debug!(is_candidate, number, inside_us = sample.inside_us, outside_us = sample.outside_us);
                }
                match (called, is_candidate) {
                    (Ok(sample), true) => {
                        of_candidate.push(sample.inside_us);
                        blocks.candidate_samples.push(sample);
                    }
                    (Ok(sample), false) => {
                        baseline_cost += started.elapsed();
                        of_baseline.push(sample.inside_us);
                        blocks.baseline_samples.push(sample);
                    }
                    (Err(verdict), true) => return Ok(Err(verdict)),
                    (Err(verdict), false) => {
                        return Err(ExecError::harness(format!("the baseline failed: {}", verdict.reason)));
                    }
                }
            }
            blocks.candidate.push(of_candidate);
            blocks.baseline.push(of_baseline);
            // The plan follows from the baseline's cost alone: a candidate cannot earn fewer repeats by being slow.
            let block_cost = 2.0 * baseline_cost.as_secs_f64();
            let affordable = self.options.time_budget.as_secs_f64() / block_cost.max(1e-6);
            planned = planned.min((affordable as usize).clamp(FEWEST_BLOCKS, MOST_BLOCKS));
            let enough = blocks.candidate.len() >= FEWEST_BLOCKS;
            if enough && (begun.elapsed() > WHOLE_LIMIT || blocks.is_narrow()) {
                break;
            }
        }
        Ok(Ok(blocks))
    }
}
