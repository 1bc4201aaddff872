//! Slots for cells: taken at the start of a session and used again, so that few are ever resident.
//!
//! Memory that a dead process gave back lies scattered, and code that works on it is slower by several percent
//! (docs/design/timing.md): arms whose memory differs in age are not equal. A candidate's cells follow one another over
//! the same slots; with the baseline that stays and one copy of an output, three sets are resident at the most.

use super::{EvalOptions, bench::Bench, gpu::Gpu};
use crate::{cell::Cell, error::Result, referee::Opened, sandbox::Sandbox, slots::Slots};
use kforge_types::SandboxLevel;

/// Up to this size baselines are measured in turns, each over slots of its own; beyond it one after the other.
const LARGE: u64 = 64 << 20;
/// The same on a GPU, as a share of its memory: what fits there once must also fit beside a candidate and the referee.
const LARGE_SHARE: u64 = 64;

pub(crate) struct Lanes {
    free: Vec<Slots>,
    /// Whether sets are so large that baselines must not lie in memory together.
    pub(crate) large: bool,
}

impl Lanes {
    pub(crate) fn new(options: &EvalOptions, opened: &Opened, gpu: Option<&Gpu>) -> Result<Self> {
        let sizes = slot_sizes(opened);
        let large = (sizes.0 + sizes.1) as u64 > gpu.map_or(LARGE, |gpu| gpu.memory_bytes / LARGE_SHARE);
        let baselines = if large { 1 } else { options.baselines.count(&opened.ways) };
        let count = match options.place {
            super::Place::Cpu if !options.no_timing => 1 + baselines,
            _ => 0,
        };
        Ok(Self { free: (0..count).map(|_| Slots::touched(opened)).collect::<Result<_>>()?, large })
    }

    /// Once the baseline that stays has its slots, candidates need one pair at a time.
    pub(crate) fn keep_one(&mut self) {
        self.free.truncate(1);
    }
}

impl Bench {
    pub(crate) fn take_lane(&mut self) -> Result<Slots> {
        match self.lanes.free.pop() {
            Some(slots) => Ok(slots),
            None if self.options.place.is_gpu() => self.referee.make_lane(),
            None => Slots::touched(&self.opened),
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
                self.lanes.free.push(slots);
            }
        }
        Ok(())
    }
}

fn slot_sizes(opened: &Opened) -> (usize, usize) {
    (opened.input_bytes, opened.output_bytes)
}
