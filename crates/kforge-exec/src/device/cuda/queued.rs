//! Calls that are queued on a GPU before their inputs are there.
//!
//! A cell launches calls behind a gate. Only then are inputs laid and the gate opened, and the clock outside starts before
//! the first of them can be seen. It ends when the cell says that its device is idle, and is held to when the referee had
//! copied the results out of the cell's memory. So launching costs nothing, as in a program that runs ahead of its device,
//! nothing can be computed beforehand, and nothing after.

use crate::{
    device::referee_slots::since,
    failure::Tried,
    judge::arm::{Arm, Given, How, Row, row_of},
    machine,
    referee::Referee,
    wire::op,
};
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
}
