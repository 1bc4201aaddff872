//! This machine's processors: slots in shared memory, results read out of stopped processes.

mod evict;
mod rows;

use super::{Device, Examined, FLOOR_SHARE, Floor, Policy, Profiler};
use crate::{
    error::Result,
    failure::Tried,
    judge::arm::{Arm, Given, How, Row},
    machine,
    referee::{InputSet, Opened, Referee},
    slots::{Slots, can_look_inside},
};
use evict::Evictor;
use kforge_types::DeviceInfo;

static POLICY: Policy = Policy {
    row_us: 2000.0,
    warm_up_rows: 5,
    between_cells: 0.03,
    settling_calls: 0,
    queues: false,
    launches: false,
    records_graphs: false,
    always_stops: true,
    asks_by_message: true,
    is_the_processors: true,
    results_in_processes: true,
    slots_beforehand: true,
    starts_slowly: false,
    imports_compiler: false,
    driver_bytes: 0,
};

/// Up to this size baselines are measured in turns.
const LARGE: u64 = 64 << 20;
/// Inputs of a row, or its results, take no more than this.
const ROW_BYTES: usize = 24 << 20;
const MOST_PLACES: usize = 32;

pub(super) struct Cpu {
    threads: usize,
    /// Once a problem was examined.
    evictor: Option<Evictor>,
}

impl Cpu {
    pub(super) fn new(threads: usize) -> Self {
        Self { threads, evictor: None }
    }
}

impl Device for Cpu {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn lock_name(&self) -> &'static str {
        "cpu"
    }

    fn examine(&mut self, _referee: &mut Referee, opened: &Opened) -> Result<Examined> {
        let last_level_cache = machine::cpu(self.threads).last_level_cache;
        self.evictor.get_or_insert_with(|| Evictor::new(last_level_cache, self.threads));
        let compulsory = ((opened.input_bytes + opened.output_bytes) as f64, String::new());
        Ok(Examined { places: places(opened), staged: String::new(), compulsory })
    }

    fn info(&self, threads: usize) -> DeviceInfo {
        machine::cpu(threads)
    }

    fn large_bytes(&self) -> u64 {
        LARGE
    }

    fn make_slots(&self, _referee: &mut Referee, opened: &Opened) -> Result<Slots> {
        Slots::touched(opened, places(opened))
    }

    fn copies_results(&self, _examined: &Examined) -> bool {
        !can_look_inside()
    }

    fn row(&mut self, arm: &mut Arm, referee: &mut Referee, given: Given<'_>, how: How) -> Tried<Row> {
        arm.row_here(referee, self.evictor.as_mut(), given, how)
    }

    fn lay(&mut self, arm: &mut Arm, referee: &mut Referee, set: &InputSet) -> Result<()> {
        arm.cell.slots.lay_here(referee, Given::Stored(set))
    }

    fn take(&mut self, arm: &mut Arm, referee: &mut Referee, given: Given<'_>, _how: How) -> Tried<()> {
        arm.freeze()?;
        arm.take_here(referee, given)
    }

    fn hold(&mut self, arm: &mut Arm, _referee: &mut Referee) -> Result<()> {
        arm.held.extend(arm.left.take());
        Ok(())
    }

    fn held_are_intact(&mut self, arm: &mut Arm, _referee: &mut Referee) -> Result<bool> {
        arm.held_here_are_intact()
    }

    fn left_are_intact(&mut self, arm: &mut Arm, _referee: &mut Referee) -> Result<bool> {
        arm.left_here_are_intact()
    }

    fn empty_caches(&mut self) {
        if let Some(evictor) = &mut self.evictor {
            evictor.evict();
        }
    }

    fn bandwidth_seen(&self) -> Option<f64> {
        self.evictor.as_ref().map(Evictor::bandwidth)
    }

    fn describe_cold(&self) -> String {
        self.evictor.as_ref().map(Evictor::describe).unwrap_or_default()
    }

    /// It only flags: caches of other cores and prefetchers make it soft.
    fn floor(&self, time_us: f64, opened: &Opened, examined: &Examined) -> Floor {
        let unknown = |why: &str| Floor { possible: true, decides: false, detail: format!("not applied: {why}") };
        let (bytes, _) = examined.compulsory;
        if opened.writes {
            return unknown("the reference writes a part of its inputs");
        }
        if bytes < 2.0 * machine::cpu(self.threads).last_level_cache as f64 {
            return unknown("the data fits into twice the last-level cache");
        }
        let bandwidth = self.bandwidth_seen().unwrap_or(f64::INFINITY);
        let floor_us = bytes / bandwidth * 1e6;
        let detail = format!("{floor_us:.0} us at {:.1} GB/s measured here", bandwidth / 1e9);
        Floor { possible: time_us >= FLOOR_SHARE * floor_us, decides: false, detail }
    }

    fn recover(&mut self, _referee: &mut Referee) -> Result<()> {
        Ok(())
    }

    fn profiler(&self) -> Profiler<'_> {
        Profiler::Processors
    }

    fn places_here(&self, opened: &Opened) -> Option<usize> {
        Some(places(opened))
    }
}

/// How many calls can be made in a row.
fn places(opened: &Opened) -> usize {
    (ROW_BYTES / opened.input_bytes.max(opened.output_bytes).max(1)).clamp(1, MOST_PLACES)
}
