//! Rows on a device whose slots the referee keeps: it lays the inputs and takes the results. kforge asks and holds the clock.

use crate::{
    error::{ExecError, Result},
    failure::Tried,
    judge::arm::{Arm, Given, How, Row, Side, input_mutated, row_of},
    machine,
    referee::{Referee, Taken},
    wire::op,
};
use kforge_types::Verdict;
use std::{rc::Rc, time::Duration};

/// The name that the referee knows this arm's slots by.
pub(super) fn lane(arm: &Arm) -> Result<u64> {
    arm.cell.slots.lane().ok_or_else(|| ExecError::harness("memory of this machine was taken for a device's"))
}

impl Arm {
    /// Launching counts.
    pub(super) fn row_on_idle_device(
        &mut self,
        referee: &mut Referee,
        lane: u64,
        given: Given<'_>,
        how: How,
    ) -> Tried<Row> {
        if how.cold {
            self.freeze()?;
        }
        let began = referee.lay(lane, given, how.cold)?;
        let answer = self.ask(op::Row(given.calls() as u64), how.limit)?;
        let said = machine::clock_ns();
        let ended = self.take_there(referee, lane, given, how)?;
        Ok(row_of(since(began, said), since(began, ended), answer.inside_ns, answer.launching_ns))
    }

    /// The referee copies the results out of the cell's memory; when that was done, on the clock of the machine.
    pub(super) fn take_there(&mut self, referee: &mut Referee, lane: u64, given: Given<'_>, how: How) -> Tried<u64> {
        let fields = Rc::clone(&self.fields);
        let (calls, segments) = self.claimed(&fields[self.variant], given.calls())?;
        let taken: Taken = referee.take(lane, self.cell.number(), self.side, self.variant, &calls, &segments)?;
        if how.cold {
            self.freeze()?;
        }
        if let Some(kind) = taken.kind {
            return Err(Verdict::of(kind, taken.text).into());
        }
        if given.is_null() {
            return Ok(taken.ended_ns);
        }
        let stamped = referee.stamp(lane, self.fills && self.side == Side::Candidate)?;
        self.reuses |= stamped.reuses;
        if let Some(kind) = stamped.kind {
            return Err(Verdict::of(kind, stamped.text).into());
        }
        if referee.unchanged(lane, given)? { Ok(taken.ended_ns) } else { Err(input_mutated().into()) }
    }
}

pub(super) fn since(began_ns: u64, ended_ns: u64) -> Duration {
    Duration::from_nanos(ended_ns.saturating_sub(began_ns))
}
