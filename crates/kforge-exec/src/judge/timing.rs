//! Timing: arms interleaved, caches cold, every output verified, two clocks, and inputs never seen before.

use super::{
    Session,
    arm::{Arm, How},
    beside::{Beside, GRAPH_BELOW_US},
    blocks::Blocks,
    clock::{self, Clock},
    gpu::Gpu,
    outcome::Outcome,
    spec::Special,
    verify::OWN,
};
use crate::{
    cell::Op,
    error::{ExecError, Result},
    sandbox::Sandbox,
};
use kforge_types::{BaselineRef, Evidence, Interval, Kind, Summary, Timing, Verdict, median};

/// Input sets that are called again and again.
pub(crate) const RING: usize = 4;
/// The problem's own distribution, drawn for this session alone: what one run prints cannot help the next.
pub(crate) const UNSEEN_SET: &str = "unseen";
/// Sets that a cell sees once, or fewer where they are large.
const UNSEEN: usize = 6;
const UNSEEN_BYTES: usize = 1 << 30;
/// Before a cell is timed, for its caches, its autotuner and its just-in-time compiler.
pub(crate) const WARM_UP_CALLS: usize = 6;
/// Two pairs of processes with the same code differ by about this much (one standard deviation of the ratio). One pair
/// cannot show it, so the interval is widened by it; docs/design/verdict.md has the runs.
const BETWEEN_CELLS: f64 = 0.03;
/// Beyond this a candidate that is slower on inputs it has never seen is caching. Below it, the time on unseen inputs is
/// published, so that a cache gains nothing; honest kernels may be slower there, such as a gather from a large table.
const UNSEEN_RATIO: f64 = 2.0;
/// Beyond this the time on unseen inputs is the one that is published, and called provisional.
const UNSEEN_MARGIN: f64 = 1.1;
/// On a GPU: what the outside clock does not see may be no more than this share of a time that is not provisional.
const RESOLVED: f64 = 0.2;
/// Words of a candidate that starts threads by itself. A guess is enough: it decides on noise, not on trust.
const OWN_THREADS: [&str; 6] =
    ["std::thread", "std::jthread", "std::async", "pthread_create", "threading", "concurrent.futures"];

/// Times on sets that a cell had never seen, on sets that it had, and of the baseline beside them.
#[derive(Default)]
struct Probes {
    unseen: Vec<f64>,
    seen: Vec<f64>,
    baseline: Vec<f64>,
}

impl Session {
    /// A fresh cell in the candidate's sandbox with the same short history as a baseline's: what verification did to
    /// the heap of its cell must not show in the time, and this one has seen none of the other distributions.
    pub(crate) fn timing_arm(
        &mut self,
        mut sandbox: Sandbox,
        source: &str,
        outcome: &mut Outcome,
    ) -> Result<Option<Arm>> {
        self.own_threads = starts_threads(source);
        let cell = self.candidate_cell(&mut sandbox, source, Special::default())?;
        let mut arm = Arm::new(sandbox, cell, self.opened.mutates_inputs, self.key.clone());
        for op in [Op::Import, Op::Construct(0)] {
            if let Err(verdict) = arm.ask(op, self.options.timeout)? {
                outcome.log = arm.sandbox.log.text();
                outcome.fail("second start", verdict);
                return Ok(None);
            }
        }
        for number in 0..WARM_UP_CALLS {
            let set = self.referee.set(0, OWN, number % RING)?;
            let limit = if number == 0 { self.options.timeout } else { self.call_limit() };
            let how = How::idle(limit);
            if let Err(verdict) = arm.call(&mut self.referee, &mut self.evictor, &set, how)? {
                outcome.log = arm.sandbox.log.text();
                outcome.fail("second start", verdict);
                return Ok(None);
            }
        }
        Ok(Some(arm))
    }

    pub(crate) fn time(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Result<bool> {
        let Some((name, mut control)) = self.baselines.take_control() else {
            outcome.provisional = "no baseline could be measured beside it";
            outcome.pass("timing", "no baseline could be measured");
            return Ok(true);
        };
        let queues = control.queues;
        let timed = self.time_against(arm, &mut control, &name, outcome);
        control.queues = queues;
        self.baselines.put_control(name, control);
        if self.baselines.without_room && outcome.provisional.is_empty() {
            outcome.provisional = "a baseline found no memory on the device";
        }
        timed
    }

    fn time_against(&mut self, arm: &mut Arm, control: &mut Arm, name: &str, outcome: &mut Outcome) -> Result<bool> {
        // Threads that the candidate's own code starts would inherit the one core of the thread that starts them.
        let apart = Op::Pin(!self.own_threads);
        if let Err(verdict) = control.ask(apart, self.call_limit())? {
            return Err(ExecError::harness(format!("the baseline failed: {}", verdict.reason)));
        }
        if let Err(verdict) = arm.ask(apart, self.call_limit())? {
            return Ok(outcome.fail("timed outputs", verdict));
        }
        let mut idle = match self.cannot_queue(arm, control)? {
            Ok(idle) => idle,
            Err(verdict) => return Ok(outcome.fail("timed outputs", verdict)),
        };
        let (blocks, mut report) = match self.blocks_and_clocks(arm, control, &mut idle)? {
            Ok(measured) => measured,
            Err(verdict) => return Ok(outcome.fail("timed outputs", verdict)),
        };
        outcome.pass("timed outputs", format!("all {} right", blocks.candidate_samples.len()));
        let inside: Vec<f64> = blocks.candidate_samples.iter().map(|s| s.inside_us).collect();
        let Some(own) = Summary::of(&inside) else { return Ok(true) };
        let detail = format!(
            "inside {:.1} us, outside {:.1} us, the outside clock resolves {:.1} us",
            own.median,
            report.outside_us,
            report.resolution()
        );
        if let Some(verdict) = lie(&report, own.median) {
            return Ok(outcome.fail("two clocks", verdict));
        }
        outcome.pass("two clocks", detail);
        let Probes { mut unseen, mut seen, baseline } = match self.unseen(arm, control)? {
            Ok(times) => times,
            Err(verdict) => return Ok(outcome.fail("unseen inputs", verdict)),
        };
        // A machine that became slower meanwhile is not the candidate's doing.
        let drift = median(&baseline).zip(median(&blocks.baseline.concat())).map_or(1.0, |(now, then)| now / then);
        unseen.iter_mut().chain(&mut seen).for_each(|us| *us /= drift.max(1.0));
        // Also against the blocks: a cache that switches itself off at the first surprise was fast there all the same.
        if let Some(verdict) = caching(&unseen, &seen).or_else(|| caching(&unseen, &inside)) {
            return Ok(outcome.fail("unseen inputs", verdict));
        }
        let unseen_median = median(&unseen);
        outcome.pass("unseen inputs", describe_unseen(&unseen, &seen));
        let mut beside = match self.times_beside(arm, control)? {
            Ok(beside) => beside,
            Err(verdict) => return Ok(outcome.fail("calls beside", verdict)),
        };
        beside.unseen = unseen_median;
        beside.launching = median(&blocks.candidate_samples.iter().map(|s| s.launching_us).collect::<Vec<_>>());
        if let Some(verdict) = arm.late_write(&mut self.referee)? {
            return Ok(outcome.fail("late write", verdict));
        }
        outcome.pass("late write", "outputs stayed as they were handed over");
        let rows = match self.rows(arm, control, own.median)? {
            Ok(rows) => rows,
            Err(verdict) => return Ok(outcome.fail("calls in a row", verdict)),
        };
        // What the outside clock saw beyond the inside one counts, and so does being slower on inputs never seen.
        let mut outside = if report.hidden_us > report.spread_us { report.outside_us / own.median } else { 1.0 };
        if let Some(rows) = rows {
            if let Some(verdict) = lie(&rows.report, rows.report.outside_us - rows.report.hidden_us) {
                return Ok(outcome.fail("calls in a row", verdict));
            }
            outcome.pass("calls in a row", rows.described());
            let baseline_us = median(&blocks.baseline.concat()).unwrap_or(own.median);
            outside = rows.correction(own.median, baseline_us);
            report = rows.report;
        }
        let unseen_factor = unseen_median.map_or(1.0, |us| us / own.median);
        let confirmed = !slower(&unseen, &inside, UNSEEN_MARGIN);
        let scale = if confirmed { outside } else { outside.max(unseen_factor) };
        if own.median < GRAPH_BELOW_US {
            beside.graph = self.as_graph(arm)?;
        }
        self.publish(outcome, name, &blocks, own, scale, &report, &beside);
        if self.gpu.is_some() {
            let resolution = rows.map_or(report.resolution(), |rows| rows.resolution_us);
            let unresolved = resolution > RESOLVED * own.median;
            outcome.provisional = match outside > UNSEEN_MARGIN {
                true if rows.is_some() => "in rows of calls it gains less than in single ones, and that is given",
                _ if unresolved && idle => {
                    "launches cannot be queued, and on an idle device the outside clock is coarse"
                }
                _ if unresolved => "the outside clock cannot confirm a time this short",
                // Rows resolve what a single call cannot.
                _ if rows.is_some() => "",
                _ => outcome.provisional,
            };
        }
        if let Some(gpu) = self.gpu.as_ref().filter(|gpu| !gpu.staged.is_empty()) {
            outcome.pass("device memory", format!("inputs and outputs are copied through the host: {}", gpu.staged));
            outcome.provisional = "device memory cannot be shared here, and copies through the host blur the clock";
        }
        if !confirmed {
            outcome.provisional = "slower on inputs it had never seen, and that is the time given";
        }
        Ok(true)
    }

    /// Makes every set that timing needs, so that nothing of ours computes while an arm is timed.
    pub(crate) fn make_sets(&mut self) -> Result<()> {
        for number in 0..RING {
            self.referee.set(0, OWN, number)?;
        }
        for number in 0..self.unseen_count() {
            self.referee.set(0, UNSEEN_SET, number)?;
        }
        Ok(())
    }

    pub(crate) fn unseen_count(&self) -> usize {
        let bytes = self.opened.input_bytes + 3 * self.opened.output_bytes;
        (UNSEEN_BYTES / bytes.max(1)).clamp(3, UNSEEN)
    }

    /// Sets this cell has never seen, each beside one that it has: a cache cannot be faster on both.
    fn unseen(&mut self, arm: &mut Arm, control: &mut Arm) -> Result<std::result::Result<Probes, Verdict>> {
        let mut times = Probes::default();
        for number in 0..self.unseen_count() {
            for (kind, number, times) in
                [(UNSEEN_SET, number, &mut times.unseen), (OWN, number % RING, &mut times.seen)]
            {
                let set = self.referee.set(0, kind, number)?;
                let how = How::cold(self.call_limit());
                match arm.call(&mut self.referee, &mut self.evictor, &set, how)? {
                    Ok(sample) => times.push(sample.inside_us),
                    Err(verdict) => return Ok(Err(verdict)),
                }
            }
            times.baseline.extend(self.baseline_call(control, number)?);
        }
        Ok(Ok(times))
    }

    #[allow(clippy::too_many_arguments)]
    fn publish(
        &mut self,
        outcome: &mut Outcome,
        name: &str,
        blocks: &Blocks,
        own: Summary,
        scale: f64,
        report: &clock::ClockReport,
        beside: &Beside,
    ) {
        let baseline_times: Vec<f64> = blocks.baseline.concat();
        outcome.speedup = blocks.ratio().map(|(center, interval)| {
            let wide = interval.widened(center, BETWEEN_CELLS);
            (center / scale, Interval { low: wide.low / scale, high: wide.high / scale })
        });
        outcome.baseline = median(&baseline_times).map(|median_us| BaselineRef {
            name: name.to_owned(),
            median_us,
            call_median_us: beside.baseline_call,
        });
        outcome.provisional = match report.clock {
            Clock::Unresolved => "the outside clock cannot confirm a time this short",
            Clock::Outside => "more time passed outside than was claimed inside, and that is the time given",
            Clock::Confirmed | Clock::Lie => "",
        };
        outcome.evidence = Evidence::Measured;
        outcome.timing = Some(Timing {
            median_us: own.median * scale,
            p20: own.p20 * scale,
            p80: own.p80 * scale,
            n: own.n,
            clock: if report.clock == Clock::Outside { "outside" } else { "inside" }.to_owned(),
            outside_median_us: report.outside_us,
            warm_median_us: beside.warm,
            unseen_median_us: beside.unseen,
            call_median_us: beside.call,
            launching_median_us: beside.launching.filter(|_| self.gpu.is_some()),
            graph_median_us: beside.graph,
            cold: self.gpu.as_ref().map_or_else(|| self.evictor.describe(), Gpu::describe_flush),
            prepare_s: outcome.prepare_s,
            framework_share: outcome.framework_share,
        });
        let (possible, detail) = self.physical_floor(own.median * scale);
        if !possible && self.gpu.is_some() {
            let text =
                format!("faster than memory allows ({:.1} us; {detail}): it does not do the work", own.median * scale);
            outcome.fail("physical floor", Verdict::of(Kind::Floor, text));
            return;
        }
        outcome.checks.push(kforge_types::Check { name: "physical floor".to_owned(), passed: possible, detail });
    }

    /// On a CPU the floor only flags: caches of other cores and prefetchers make it soft.
    fn physical_floor(&self, time_us: f64) -> (bool, String) {
        if let Some(gpu) = &self.gpu {
            return gpu.physical_floor(time_us);
        }
        let bytes = (self.opened.input_bytes + self.opened.output_bytes) as f64;
        if bytes < 2.0 * self.device.last_level_cache as f64 {
            return (true, "not applied: the data fits into twice the last-level cache".to_owned());
        }
        let bandwidth = self.evictor.bandwidth();
        let floor_us = bytes / bandwidth * 1e6;
        let detail = format!("{floor_us:.0} us at {:.1} GB/s measured here", bandwidth / 1e9);
        (time_us >= 0.95 * floor_us, detail)
    }
}

/// The verdict on a clock that lies.
fn lie(report: &clock::ClockReport, claimed_us: f64) -> Option<Verdict> {
    (report.clock == Clock::Lie).then(|| {
        let text = format!(
            "forward claims {claimed_us:.1} us, but {:.1} us passed until the output was there: work goes on outside of forward",
            report.outside_us
        );
        Verdict::of(Kind::Clock, text)
    })
}

/// Whether a candidate seems to start threads by itself.
pub(crate) fn starts_threads(source: &str) -> bool {
    OWN_THREADS.iter().any(|word| source.contains(word))
}

/// Slower by more than noise, in the middle and at the quick end.
fn slower(unseen: &[f64], seen: &[f64], ratio: f64) -> bool {
    let (Some(new), Some(old)) = (Summary::of(unseen), Summary::of(seen)) else { return false };
    new.median > ratio * old.median && new.p20 > old.p80
}

fn caching(unseen: &[f64], seen: &[f64]) -> Option<Verdict> {
    slower(unseen, seen, UNSEEN_RATIO).then(|| {
        let text = format!(
            "takes {:.1} us on inputs it has never seen, {:.1} us on those it has: results are remembered, not computed",
            median(unseen).unwrap_or_default(),
            median(seen).unwrap_or_default()
        );
        Verdict::of(Kind::Caching, text)
    })
}

fn describe_unseen(unseen: &[f64], seen: &[f64]) -> String {
    match (median(unseen), median(seen)) {
        (Some(new), Some(old)) => {
            format!("{:.1} us on {} unseen sets, {:.1} us on seen ones", new, unseen.len(), old)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_told_from_noise() {
        let seen = [100.0, 104.0, 98.0, 101.0, 99.0];
        assert!(caching(&[101.0, 99.0, 120.0, 103.0, 100.0], &seen).is_none());
        assert!(caching(&[135.0, 131.0, 133.0, 138.0, 136.0], &seen).is_none());
        assert!(caching(&[260.0, 271.0, 258.0, 280.0, 266.0], &seen).is_some());
    }
}
