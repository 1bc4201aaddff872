//! Calls in a device's queue: launched before their inputs are there.
//!
//! A cell launches one call or several behind a gate. Only then are inputs laid and the gate opened, and the clock outside
//! starts before the first of them can be seen. So launching costs nothing, as in a program that runs ahead of its device,
//! and nothing can be computed beforehand. With several calls in a row the clock outside resolves short ones too.

use super::arm::{Arm, Called, How, Last, Sample};
use crate::{
    cell::Op,
    error::{ExecError, Result},
    machine,
    referee::{InputSet, Referee, Repeat},
};
use kforge_types::{Kind, Verdict};
use std::time::Duration;

/// Launching takes milliseconds. Who takes longer waits for the device inside of forward, and that waits for the gate.
const QUEUE_LIMIT: Duration = Duration::from_secs(1);

impl Arm {
    /// One call for each set, in a row. The times are those of one call on average; every output is verified.
    ///
    /// Where the calls cannot be queued, this says so in `queues`, and the time is nothing to go by. Nor is it where `how`
    /// has the inputs laid before anything is launched.
    pub(crate) fn call_row(&mut self, referee: &mut Referee, sets: &[&InputSet], how: How) -> Result<Called> {
        if let Some(verdict) = self.late_write(referee)? {
            return Ok(Err(verdict));
        }
        if how.cold
            && let Some(verdict) = self.freeze()?
        {
            return Ok(Err(verdict));
        }
        let lane = self.cell.slots.lane().ok_or_else(|| ExecError::harness("only calls on a device can be queued"))?;
        let count = sets.len() as u64;
        referee.shut(lane, sets.len())?;
        let mut began = if how.queued { None } else { Some(referee.reveal(lane, sets, how.cold)?) };
        let question = match self.send_awake(Op::Queue(count))? {
            Ok(question) => question,
            Err(verdict) => return Ok(Err(verdict)),
        };
        let queued = if let Some(answer) = self.cell.answer(&mut self.sandbox, &question, QUEUE_LIMIT)? {
            answer
        } else {
            if began.is_none() {
                self.queues = false;
                began = Some(referee.reveal(lane, sets, how.cold)?);
            }
            self.cell.answer_in_time(&mut self.sandbox, &question, how.limit)?
        };
        let launching_ns = match queued {
            Ok(answer) => answer.a,
            Err(verdict) => return Ok(Err(verdict)),
        };
        // It waits for its calls before they can begin: waking it up is not part of their time.
        let question = match self.send_awake(Op::Collect(count))? {
            Ok(question) => question,
            Err(verdict) => return Ok(Err(verdict)),
        };
        let began = began.map_or_else(|| referee.reveal(lane, sets, how.cold), Ok)?;
        let collected = self.cell.answer_in_time(&mut self.sandbox, &question, how.limit)?;
        let ended = machine::clock_ns();
        let inside_ns = match collected {
            Ok(answer) => answer.inside_ns,
            Err(verdict) => return Ok(Err(verdict)),
        };
        if !referee.take(lane, sets.len())? {
            let text = "an output was still being written after it had been handed over";
            return Ok(Err(Verdict::of(Kind::LateWrite, text)));
        }
        if how.cold
            && let Some(verdict) = self.freeze()?
        {
            return Ok(Err(verdict));
        }
        self.last = Last::OnDevice(sets.len());
        if !self.inputs_may_change && !referee.unchanged(lane, sets)? {
            let text = "forward wrote to an input; work on a copy, or on a tensor of your own";
            return Ok(Err(Verdict::of(Kind::InputMutated, text)));
        }
        let mut error = 0.0_f64;
        for (place, set) in sets.iter().enumerate() {
            let compared = referee.compare_place(&self.cell.slots, place, set, Repeat::No)?;
            if let Some(kind) = compared.failure() {
                return Ok(Err(Verdict::of(kind, compared.text)));
            }
            error = error.max(compared.error);
        }
        let one = |ns: u64| ns as f64 / 1e3 / sets.len() as f64;
        Ok(Ok(Sample {
            // A clock that stood still would make a ratio that is no number.
            inside_us: one(inside_ns.max(1)),
            outside_us: one(ended.saturating_sub(began)),
            launching_us: one(launching_ns),
            error,
            repeated: false,
        }))
    }
}
