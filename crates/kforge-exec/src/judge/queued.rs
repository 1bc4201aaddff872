//! Calls on a device: queued before their inputs are there, or one after the other on an idle device.
//!
//! A cell launches calls behind a gate. Only then are inputs laid and the gate opened, and the clock outside starts before
//! the first of them can be seen. It ends when the cell says that its device is idle, and is held to when the referee had
//! copied the results out of the cell's memory. So launching costs nothing, as in a program that runs ahead of its device,
//! nothing can be computed beforehand, and nothing after.

use super::arm::{Arm, Given, How, Row, Side, input_mutated, row_of};
use crate::{
    failure::Tried,
    machine,
    referee::{Referee, Taken},
    wire::op,
};
use kforge_types::Verdict;
use std::time::Duration;

/// Launching takes milliseconds. Who takes longer waits for the device inside of forward, and that waits for the gate.
const QUEUE_LIMIT: Duration = Duration::from_secs(1);

impl Arm {
    /// Where the calls cannot be queued, this says so in `queues`, and the time is nothing to go by.
    pub(super) fn row_queued(&mut self, referee: &mut Referee, lane: u64, given: Given<'_>, how: How) -> Tried<Row> {
        if how.cold {
            self.freeze()?;
        }
        let calls = given.calls() as u64;
        referee.shut(lane, given.calls())?;
        let question = self.send_awake(op::Queue(calls))?;
        let mut began = None;
        let queued = if let Some(answer) = self.cell.answer(&mut self.sandbox, &question, QUEUE_LIMIT)? {
            answer
        } else {
            self.queues = false;
            began = Some(referee.reveal(lane, given, how.cold)?);
            self.cell.answer_in_time(&mut self.sandbox, &question, how.limit)?
        };
        // It waits for its calls before they can begin: waking it up is not part of their time.
        let question = self.send_awake(op::Collect(calls))?;
        let began = began.map_or_else(|| referee.reveal(lane, given, how.cold), Ok)?;
        let answer = self.cell.answer_in_time(&mut self.sandbox, &question, how.limit)?;
        let said = machine::clock_ns();
        let ended = self.take_there(referee, lane, given, how)?;
        Ok(row_of(since(began, said), since(began, ended), answer.inside_ns, queued.launching_ns))
    }

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
    pub(crate) fn take_there(&mut self, referee: &mut Referee, lane: u64, given: Given<'_>, how: How) -> Tried<u64> {
        let fields = self.fields();
        let (calls, segments) = self.claimed(&fields[self.variant()], given.calls())?;
        let taken: Taken = referee.take(lane, self.cell.number(), self.side(), self.variant(), &calls, &segments)?;
        if how.cold {
            self.freeze()?;
        }
        if let Some(kind) = taken.kind {
            return Err(Verdict::of(kind, taken.text).into());
        }
        if given.is_null() {
            return Ok(taken.ended_ns);
        }
        let stamped = referee.stamp(lane, self.fills && self.side() == Side::Candidate)?;
        self.reuses |= stamped.reuses;
        if let Some(kind) = stamped.kind {
            return Err(Verdict::of(kind, stamped.text).into());
        }
        if referee.unchanged(lane, given)? { Ok(taken.ended_ns) } else { Err(input_mutated().into()) }
    }
}

fn since(began_ns: u64, ended_ns: u64) -> Duration {
    Duration::from_nanos(ended_ns.saturating_sub(began_ns))
}
