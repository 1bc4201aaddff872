//! Timing: both arms on sets that nobody has seen, caches cold, every result compared, by the clock outside.

use super::{
    Observer, Session,
    alone::Alone,
    arm::{Arm, Given, How, Side},
    beside::{Beside, GRAPH_BELOW_US},
    blocks::Blocks,
    outcome::{BaselineRow, Outcome, Speedup},
    provisional::Provisional,
    slowest::held_to_the_slowest,
    spec::Special,
    verify::OWN,
    ways::EAGER,
};
use crate::{
    device::Floor,
    error::ExecError,
    failure::{Failure, OnFailure, Tried},
    sandbox::Sandbox,
    wire::op,
};
use kforge_types::{BaselineRef, DistributionRatio, Evidence, Interval, Kind, Summary, Timing, Verdict, median};

/// Sets of the store that warm-up calls are made on.
pub(crate) const RING: usize = 4;
/// Before a cell is timed, for its caches, its autotuner and its just-in-time compiler.
pub(crate) const WARM_UP_CALLS: usize = 6;
/// Two pairs of processes with the same code differ by about this much (one standard deviation of the ratio). One pair
/// cannot show it, so the interval is widened by it; docs/measurements/calibration.md has the runs.
const BETWEEN_CELLS: f64 = 0.03;
/// Who says too early that all is done is held to when it was, if that is more than this share of a call.
const EARLY: f64 = 0.02;
/// What a candidate's process may hold beyond the baseline's and two copies of the weights: of any size, and in sets.
const HOARD_BYTES: u64 = 64 << 20;
const HOARD_SETS: u64 = 32;
/// Of the pages of results, beyond the baseline's.
const ABSENT: f64 = 0.05;
const OUTPUTS: &str = "timed outputs";
/// Words of a candidate that starts threads by itself. A guess is enough: it decides on noise, not on trust.
const OWN_THREADS: [&str; 6] =
    ["std::thread", "std::jthread", "std::async", "pthread_create", "threading", "concurrent.futures"];

/// What rows have shown.
struct Measured {
    blocks: Blocks,
    held: Held,
}

/// What single calls say of rows.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// By how much the published time is longer than that of rows.
    pub(super) scale: f64,
    /// And by how much it may be, for all that they show.
    pub(super) at_most: f64,
}

impl Session {
    /// A fresh cell in the candidate's sandbox with the same short history as a baseline's: what verification did to
    /// the heap of its cell must not show in the time, and this one has seen none of the other distributions.
    pub(crate) fn timing_arm(&mut self, mut sandbox: Sandbox, source: &str, outcome: &mut Outcome) -> Tried<Arm> {
        let cell = self.bench.candidate_cell(&mut sandbox, source, Special::default())?;
        let mut arm = self.bench.arm(sandbox, cell, Side::Candidate)?;
        let warm = self.warm_up(&mut arm, outcome.reuses_buffers).check("second start");
        outcome.log = arm.sandbox.log.text();
        warm.map(|()| arm)
    }

    fn warm_up(&mut self, arm: &mut Arm, clones: bool) -> Tried<()> {
        arm.fills = true;
        arm.clones = clones;
        let limit = self.bench.options.timeout;
        arm.ask(op::Import, limit)?;
        arm.ask(op::Construct(0), limit)?;
        arm.ask(op::CopyResults(arm.clones), limit)?;
        for number in 0..WARM_UP_CALLS {
            let set = self.bench.referee.set(0, OWN, number % RING)?;
            let limit = if number == 0 { self.bench.options.timeout } else { self.call_limit() };
            self.bench.call(arm, &set, How::idle(limit))?;
        }
        for number in 0..self.bench.device.policy().warm_up_rows {
            let calls = self.calls_in_a_row();
            self.bench.referee.draw(OWN, &vec![false; calls])?;
            let how = How::cold(self.call_limit());
            self.bench.row(arm, Given::Fresh(calls), how)?;
            // From here on their memory is missing, as in a program that keeps its results; a held result would be met by
            // whoever hands out the same memory again and again.
            if number == 0 {
                self.bench.hold(arm, how.limit)?;
            }
        }
        arm.missing = (0, 0);
        // Compilers' servers and the like have done their work.
        Ok(arm.be_alone()?)
    }

    pub(crate) fn time(&mut self, arm: &mut Arm, outcome: &mut Outcome, observer: &dyn Observer) -> Tried<()> {
        while let Some((name, mut control)) = self.baselines.take_control() {
            let (queues, checks) = (control.queues, outcome.checks.len());
            let timed = self.time_against(arm, &mut control, &name, outcome);
            control.queues = queues;
            let Err(Failure::Failed(ExecError::Baseline(reason))) = timed else {
                self.baselines.put_control(name, control);
                if self.baselines.without_room {
                    outcome.provisional.insert(Provisional::BaselineWithoutRoom);
                }
                return timed;
            };
            outcome.checks.truncate(checks);
            // The reference itself is right by definition; another way of running it may err on some inputs after all.
            if name != EAGER {
                self.baselines.disqualify(&mut self.bench, &name, control, &reason, observer)?;
                continue;
            }
            self.baselines.put_control(name, control);
            outcome.provisional.insert(Provisional::ReferenceFailed);
            let detail = format!("no speedup: the reference as PyTorch runs it {reason}, in a timed call");
            outcome.checks.push(kforge_types::Check { name: "timing".to_owned(), passed: false, detail });
            return Ok(());
        }
        outcome.provisional.insert(Provisional::NoBaseline);
        outcome.pass("timing", "no baseline could be measured");
        Ok(())
    }

    fn time_against(&mut self, arm: &mut Arm, control: &mut Arm, name: &str, outcome: &mut Outcome) -> Tried<()> {
        // Threads that the candidate's own code starts would inherit the one core of the thread that starts them. The
        // baseline's are where they were: nothing in a candidate's text may change that.
        arm.ask(op::Pin(!outcome.own_threads), self.call_limit()).check(OUTPUTS)?;
        outcome.hoards = self.hoards(arm, control);
        let idle = self.cannot_queue(arm, control).check(OUTPUTS)?;
        let calls = if idle { 1 } else { self.calls_in_a_row() };
        let measured = self.measure_in_rows(arm, control, calls, outcome.alone.as_ref()).check(OUTPUTS)?;
        outcome.hoards |= self.hoards(arm, control);
        outcome.absent = is_absent(arm.missing, control.missing);
        if !self.bench.held_are_intact(arm)? {
            let text =
                "a result that was kept was overwritten by a later call: return memory of its own for each result";
            return Err(Verdict::of(Kind::LateWrite, text)).check("kept results");
        }
        outcome.pass("kept results", "no later call wrote to them");
        let (total, truths) = (measured.blocks.all.len() * measured.blocks.calls, measured.blocks.truths);
        let detail = format!(
            "all {total} right, all on new inputs; {truths} compared with a float64 truth, the others with \
             the baseline's output; max error: {:.0} % of tolerance",
            100.0 * measured.blocks.error
        );
        outcome.pass(OUTPUTS, detail);
        let mut beside = self.times_beside(arm, control).check("calls beside")?;
        beside.launching = median(&measured.blocks.all.iter().map(|b| b.candidate.launching_us).collect::<Vec<_>>())
            .map(|us| us / measured.blocks.calls as f64);
        let (own, _) = measured.blocks.times(0);
        if median(&own).is_some_and(|us| us < GRAPH_BELOW_US) && !self.bench.opened.writes {
            beside.graph = self.as_graph(arm)?;
        }
        self.publish(outcome, name, &measured, control.queues, &beside);
        let staged = &self.bench.examined.staged;
        if !staged.is_empty() {
            outcome.pass("device memory", format!("inputs and outputs are copied through the host: {staged}"));
            outcome.provisional.insert(Provisional::Staged);
        } else if arm.cell.slots.copies() {
            outcome.provisional.insert(Provisional::Copied);
        }
        Ok(())
    }

    fn measure_in_rows(
        &mut self,
        arm: &mut Arm,
        control: &mut Arm,
        calls: usize,
        alone: Option<&Alone>,
    ) -> Tried<Measured> {
        let measured = self.measure(arm, control, calls, alone);
        let was_full = calls > 1 && self.bench.device.policy().queues && !(arm.queues && control.queues);
        match measured {
            // A full queue waits for its own gate: shorter rows do not fill it.
            Ok(_) | Err(Failure::Refused(_)) if was_full => {
                (arm.queues, control.queues) = (true, true);
                self.measure(arm, control, 1, alone)
            }
            measured => measured,
        }
    }

    /// Rows, and single calls against which they are held.
    fn measure(&mut self, arm: &mut Arm, control: &mut Arm, calls: usize, alone: Option<&Alone>) -> Tried<Measured> {
        let blocks = self.blocks(arm, control, calls, alone)?;
        let held = self.held_to_single_calls(arm, control, &blocks)?;
        Ok(Measured { blocks, held })
    }

    /// By how much calls count as longer than their rows show: who said too early that all was done, or works on a whole
    /// row at once, gains nothing by it.
    pub(super) fn held_to_single_calls(&mut self, arm: &mut Arm, control: &mut Arm, blocks: &Blocks) -> Tried<Held> {
        let (own, baseline) = blocks.times(0);
        let mut held = Held { scale: 1.0, at_most: 1.0 };
        let (Some(row_us), Some(baseline_us)) = (median(&own), median(&baseline)) else { return Ok(held) };
        let outside = blocks.said_too_early().unwrap_or_default() + blocks.worked_before().unwrap_or_default();
        if outside > EARLY * row_us {
            held.scale = 1.0 + outside / row_us;
        }
        held.at_most = held.scale + blocks.saved_at_most() / row_us;
        if blocks.calls > 1
            && let Some(single) =
                self.single_calls(arm, control, row_us, baseline_us, blocks.usual_lag().unwrap_or_default())?
        {
            held.scale = held.scale.max(single.low / row_us);
            let high = single.high + blocks.saved_in_single_calls();
            held.at_most = held.at_most.max(held.scale).max(high / row_us);
        }
        Ok(held)
    }

    /// Whether a process on this machine holds so much more than the baseline's that it may have results ready which nobody
    /// has asked for yet: buffers that are zeroed already, for one. Packed weights and work space are none of that.
    fn hoards(&self, arm: &Arm, control: &Arm) -> bool {
        let nbytes = |weight: &serde_json::Value| weight["field"]["nbytes"].as_u64().unwrap_or_default();
        let weights: u64 =
            self.bench.opened.variants[0]["weights"].as_array().map_or(0, |all| all.iter().map(nbytes).sum());
        let allowed = HOARD_BYTES
            + 2 * weights
            + HOARD_SETS * (self.bench.opened.input_bytes + self.bench.opened.output_bytes) as u64;
        match (self.bench.device.policy().results_in_processes, arm.cell.held_bytes(), control.cell.held_bytes()) {
            (true, Some(own), Some(usual)) => own > usual + allowed,
            // Whoever hides what he holds may hold anything.
            (true, None, Some(_)) => true,
            _ => false,
        }
    }

    fn publish(&mut self, outcome: &mut Outcome, name: &str, measured: &Measured, queues: bool, beside: &Beside) {
        let Measured { blocks, held: Held { scale, at_most } } = measured;
        let (candidate, baseline) = blocks.times(0);
        let (Some(own), Some(baseline_us)) = (Summary::of(&candidate), median(&baseline)) else { return };
        let Some(overhead) = blocks.overhead() else { return };
        let resolution_us = overhead.resolution_us() / blocks.calls as f64;
        // Half of what is resolved, for either arm, is a standard deviation about.
        let unseen = BETWEEN_CELLS.hypot(resolution_us / 2.0 / own.median).hypot(resolution_us / 2.0 / baseline_us);
        let ratio_on = |distribution: usize| -> Option<(f64, Interval)> {
            let (center, interval) = blocks.ratio(distribution)?;
            let wide = interval.widened(center, unseen);
            // What single calls may have taken is in its lower end.
            Some((center / scale, Interval { low: (wide.low / scale).min(center / at_most), high: wide.high / scale }))
        };
        let by_distribution: Vec<DistributionRatio> = (0..self.bench.opened.distributions.len())
            .filter_map(|distribution| {
                let (speedup, interval) = ratio_on(distribution)?;
                let n = blocks.times(distribution).0.len() * blocks.calls;
                Some(DistributionRatio {
                    name: self.bench.opened.distributions[distribution].clone(),
                    speedup,
                    interval,
                    n,
                })
            })
            .collect();
        let inside = |row: fn(&super::blocks::Block) -> f64| {
            median(&blocks.all.iter().filter(|b| b.distribution == 0).map(row).collect::<Vec<_>>())
        };
        let calls = blocks.calls as f64;
        let inside_us = inside(|block| block.candidate.inside_us).map(|us| us / calls);
        let estimate = inside(|block| block.baseline.inside_us).zip(inside_us).map(|(b, c)| b / calls / c);
        let detail = format!(
            "{:.1} us per call, timed from outside its process in batches of {}{}; its own clock says {:.1} us; resolution {resolution_us:.1} us",
            own.median * scale,
            blocks.calls,
            if *scale > 1.0 { ", limited by what single calls take" } else { "" },
            inside_us.unwrap_or_default(),
        );
        outcome.pass("clock outside", detail);
        outcome.speedup = ratio_on(0).map(|(center, interval)| Speedup { center, interval });
        let quick = |name: &str| {
            let index = self.bench.opened.distributions.iter().position(|known| known == name)?;
            blocks.quick_ratio(index).filter(|_| blocks.has_enough(index)).map(|ratio| ratio / scale)
        };
        let data_dependent = self.bench.opened.contract.data_dependent == Some(true);
        if let Some(own) = outcome.speedup
            && let Some((counts, detail)) = held_to_the_slowest(own, &by_distribution, quick, data_dependent)
        {
            outcome.speedup = Some(counts);
            outcome.pass("distributions", detail);
        }
        let rows: Vec<f64> = blocks.all.iter().filter(|b| b.distribution == 0).map(|b| b.baseline.outside_us).collect();
        outcome.baseline_row = median(&rows).map(|us| BaselineRow { us, overhead, calls: blocks.calls, queues });
        outcome.estimate = estimate;
        outcome.by_distribution = by_distribution;
        outcome.baseline =
            Some(BaselineRef { name: name.to_owned(), median_us: baseline_us, call_median_us: beside.baseline_call });
        outcome.evidence = Evidence::Measured;
        outcome.timing = Some(Timing {
            median_us: own.median * scale,
            p20: own.p20 * scale,
            p80: own.p80 * scale,
            n: own.n * blocks.calls,
            clock: "outside".to_owned(),
            row_calls: blocks.calls,
            inside_median_us: inside_us.unwrap_or_default(),
            resolution_us,
            warm_median_us: beside.warm,
            call_median_us: beside.call,
            launching_median_us: beside.launching.filter(|_| self.bench.device.policy().launches),
            graph_median_us: beside.graph,
            cold: self.bench.device.describe_cold(),
            prepare_s: outcome.prepare_s,
            framework_share: outcome.framework_share,
        });
        let Floor { possible, decides, detail } =
            self.bench.device.floor(own.median * scale, &self.bench.opened, &self.bench.examined);
        if !possible && decides {
            let text =
                format!("faster than memory allows ({:.1} us; {detail}): it does not do the work", own.median * scale);
            outcome.fail("physical floor", Verdict::of(Kind::Floor, text));
            return;
        }
        outcome.checks.push(kforge_types::Check { name: "physical floor".to_owned(), passed: possible, detail });
    }
}

/// Whether more pages of its results than of the baseline's were not there when it handed them over: whoever reads them
/// first makes them, and nobody's clock has seen it.
fn is_absent(own: (u64, u64), baseline: (u64, u64)) -> bool {
    let share = |(missing, all): (u64, u64)| missing as f64 / all.max(1) as f64;
    share(own) > share(baseline) + ABSENT
}

/// Whether a candidate seems to start threads by itself.
pub(crate) fn starts_threads(source: &str) -> bool {
    OWN_THREADS.iter().any(|word| source.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_nobody_made_are_seen() {
        assert!(is_absent((60, 100), (0, 100)) && is_absent((90, 100), (80, 100)));
        assert!(!is_absent((3, 100), (0, 100)) && !is_absent((80, 100), (80, 100)) && !is_absent((0, 0), (0, 0)));
    }

    #[test]
    fn threads_of_its_own_are_guessed_by_words() {
        assert!(starts_threads("std::thread worker;") && starts_threads("import threading"));
        assert!(!starts_threads("#pragma omp parallel for"));
    }
}
