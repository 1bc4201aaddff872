//! Slots for cells: taken at the start of a session and used again, so that few are ever resident.
//!
//! Memory that a dead process gave back lies scattered, and code that works on it is slower by several percent
//! (docs/design/timing.md): arms whose memory differs in age are not equal. A candidate's cells follow one another over
//! the same slots; with the baseline that stays and one copy of an output, three sets are resident at the most.

use super::{EvalOptions, bench::Bench};
use crate::{
    cell::Cell,
    device::Device,
    error::Result,
    referee::{Opened, Referee},
    sandbox::Sandbox,
    slots::Slots,
};
use kforge_types::SandboxLevel;

pub(crate) struct SlotPool {
    free: Vec<Slots>,
    /// Whether sets are so large that baselines must not lie in memory together.
    pub(crate) large: bool,
}

impl SlotPool {
    pub(crate) fn new(
        options: &EvalOptions,
        opened: &Opened,
        referee: &mut Referee,
        device: &dyn Device,
    ) -> Result<Self> {
        let large = (opened.input_bytes + opened.output_bytes) as u64 > device.large_bytes();
        let baselines = if large { 1 } else { options.baselines.count(&opened.ways) };
        let beforehand = device.policy().slots_beforehand && options.place.is_timed() && !options.no_timing;
        let count = if beforehand { 1 + baselines } else { 0 };
        Ok(Self { free: (0..count).map(|_| device.make_slots(referee, opened)).collect::<Result<_>>()?, large })
    }

    /// Once the baseline that stays has its slots, candidates need one pair at a time.
    pub(crate) fn keep_one(&mut self) {
        self.free.truncate(1);
    }
}

impl Bench {
    pub(crate) fn take_slots(&mut self) -> Result<Slots> {
        match self.slot_pool.free.pop() {
            Some(slots) => Ok(slots),
            None => self.device.make_slots(&mut self.referee, &self.opened),
        }
    }

    /// Ends every process in the sandbox but those that wait for their turn. The slots are used again only where nothing can
    /// have survived that maps them.
    pub(crate) fn end_cell(&mut self, sandbox: &mut Sandbox, cell: Cell) -> Result<()> {
        sandbox.clear_for_the_next()?;
        if sandbox.report.level == SandboxLevel::Full {
            let mut slots = cell.into_slots();
            slots.wipe(&mut self.referee)?;
            if slots.is_last() {
                self.slot_pool.free.push(slots);
            }
        }
        Ok(())
    }
}
