//! Slots for the arms that are timed, taken at the start of a session and used again.
//!
//! Memory that a dead process gave back lies scattered, and code that works on it is slower by several percent
//! (docs/design/verdict.md): arms whose memory differs in age are not equal.

use super::{BaselineChoice, EvalOptions, Session, arm::Arm};
use crate::{cell::Slots, error::Result, referee::Opened};
use kforge_types::SandboxLevel;

/// Up to this size there is one pair for each baseline; beyond it only for the one that stays.
const LARGE: usize = 64 << 20;

pub(crate) struct Lanes {
    free: Vec<Slots>,
}

impl Lanes {
    pub(crate) fn new(options: &EvalOptions, opened: &Opened) -> Result<Self> {
        let sizes = slot_sizes(opened);
        let baselines = match options.baselines {
            BaselineChoice::Eager => 1,
            _ if sizes.0 + sizes.1 > LARGE => 1,
            _ => options.baselines.names().len(),
        };
        let timed = !options.no_timing && !options.is_triton();
        let count = if timed { 1 + baselines } else { 0 };
        Ok(Self { free: (0..count).map(|_| Slots::new(sizes)).collect::<Result<_>>()? })
    }

    /// Once the baseline that stays has its slots, candidates need one pair at a time.
    pub(crate) fn keep_one(&mut self) {
        self.free.truncate(1);
    }

    /// Ends the arm. Its slots are used again only where nothing can have survived that still maps them.
    pub(crate) fn give_back(&mut self, mut arm: Arm) -> Result<()> {
        if arm.sandbox.report.level == SandboxLevel::Full {
            arm.sandbox.clear()?;
            let mut slots = arm.cell.into_slots();
            slots.wipe();
            self.free.push(slots);
        }
        Ok(())
    }
}

impl Session {
    pub(crate) fn take_lane(&mut self) -> Result<Slots> {
        self.lanes.free.pop().map_or_else(|| Slots::new(slot_sizes(&self.opened)), Ok)
    }

    pub(crate) fn slot_sizes(&self) -> (usize, usize) {
        slot_sizes(&self.opened)
    }
}

fn slot_sizes(opened: &Opened) -> (usize, usize) {
    (opened.input_bytes, opened.output_bytes)
}
