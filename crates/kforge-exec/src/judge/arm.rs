//! One arm of a comparison: a sandbox with a cell, and calls whose every output is verified.

use crate::{
    cell::{Answer, Asked, Cell, Op, Question},
    digest::{Key, Sum},
    error::Result,
    evict::Evictor,
    referee::{InputSet, Referee, Repeat},
    sandbox::Sandbox,
    slots::Slots,
};
use kforge_types::{Kind, Verdict};
use std::{collections::BTreeMap, time::Duration};

/// One verified call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) inside_us: f64,
    pub(crate) outside_us: f64,
    /// What launching took on the host, where a device does the work.
    pub(crate) launching_us: f64,
    /// Largest error in units of what is allowed; 0 where the output is a verified one bit by bit.
    pub(crate) error: f64,
    /// Whether this set has given exactly this output before.
    pub(crate) repeated: bool,
}

/// A sample, or the verdict on a candidate that did not give one.
pub(crate) type Called = std::result::Result<Sample, Verdict>;

/// What is known of the output that was handed over last.
pub(super) enum Last {
    Nothing,
    /// Its digest.
    Here(Sum),
    /// The referee has copies of so many calls in a row.
    OnDevice(usize),
}

/// A sandboxed cell and what is known of its outputs.
pub(crate) struct Arm {
    pub(crate) sandbox: Sandbox,
    pub(crate) cell: Cell,
    pub(super) inputs_may_change: bool,
    key: Key,
    verified: BTreeMap<String, Vec<Sum>>,
    pub(super) last: Last,
    frozen: bool,
    /// Whether its calls can be launched before their inputs are there.
    pub(crate) queues: bool,
}

/// How one call is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) limit: Duration,
    pub(crate) cold: bool,
    pub(crate) repeat: Repeat,
    /// On a device: launched beforehand, so that launching costs nothing.
    pub(crate) queued: bool,
}

impl How {
    pub(crate) fn untimed(limit: Duration) -> Self {
        Self { limit, cold: false, repeat: Repeat::No, queued: false }
    }

    /// On an idle device: launching counts.
    pub(crate) fn idle(limit: Duration) -> Self {
        Self { cold: true, ..Self::untimed(limit) }
    }

    pub(crate) fn cold(limit: Duration) -> Self {
        Self { queued: true, ..Self::idle(limit) }
    }

    /// Whatever the call before left in the caches is still there.
    pub(crate) fn warm(limit: Duration) -> Self {
        Self { cold: false, ..Self::cold(limit) }
    }
}

impl Arm {
    pub(crate) fn new(sandbox: Sandbox, cell: Cell, inputs_may_change: bool, key: Key) -> Self {
        let queues = cell.slots.lane().is_some();
        Self {
            sandbox,
            cell,
            inputs_may_change,
            key,
            verified: BTreeMap::new(),
            last: Last::Nothing,
            frozen: false,
            queues,
        }
    }

    pub(crate) fn construct(&mut self, variant: usize, limit: Duration) -> Result<Asked> {
        self.ask(Op::Construct(variant as u64), limit)
    }

    /// Asks without looking at an output; what the slot then holds was never handed over.
    pub(crate) fn ask(&mut self, op: Op, limit: Duration) -> Result<Asked> {
        self.last = Last::Nothing;
        self.ask_awake(op, limit)
    }

    fn ask_awake(&mut self, op: Op, limit: Duration) -> Result<Asked> {
        match self.send_awake(op)? {
            Ok(question) => self.cell.answer_in_time(&mut self.sandbox, &question, limit),
            Err(verdict) => Ok(Err(verdict)),
        }
    }

    /// Reveals the inputs, asks for the output, takes it at once, and looks at all of it.
    pub(crate) fn call(
        &mut self,
        referee: &mut Referee,
        evictor: &mut Evictor,
        set: &InputSet,
        how: How,
    ) -> Result<Called> {
        if how.queued && self.queues {
            return self.call_row(referee, &[set], how);
        }
        if let Some(verdict) = self.late_write(referee)? {
            return Ok(Err(verdict));
        }
        // The slots are mapped by the candidate: were it awake, it could compute while caches are being evicted.
        if how.cold
            && let Some(verdict) = self.freeze()?
        {
            return Ok(Err(verdict));
        }
        self.cell.slots.lay(referee, set, how.cold)?;
        if how.cold {
            evictor.evict();
        }
        let answer = match self.ask_awake(Op::Call, how.limit)? {
            Ok(answer) => answer,
            Err(verdict) => return Ok(Err(verdict)),
        };
        if !self.cell.slots.take(referee)? {
            let text = "the output was still being written after it had been handed over";
            return Ok(Err(Verdict::of(Kind::LateWrite, text)));
        }
        // A timed arm sleeps whenever it is not asked: what it leaves running cannot slow the other one.
        if how.cold
            && let Some(verdict) = self.freeze()?
        {
            return Ok(Err(verdict));
        }
        let sum = self.sum_of_taken(referee)?;
        self.last = sum.map_or(Last::OnDevice(1), Last::Here);
        if !self.inputs_may_change && !self.cell.slots.unchanged(referee, set)? {
            let text = "forward wrote to an input; work on a copy, or on a tensor of your own";
            return Ok(Err(Verdict::of(Kind::InputMutated, text)));
        }
        self.verify(referee, set, sum, &answer, how.repeat)
    }

    fn verify(
        &mut self,
        referee: &mut Referee,
        set: &InputSet,
        sum: Option<Sum>,
        answer: &Answer,
        repeat: Repeat,
    ) -> Result<Called> {
        let known = self.verified.entry(set.id.clone()).or_default();
        let sample = |error, repeated| Sample {
            // A clock that stood still would make a ratio that is no number.
            inside_us: answer.inside_ns.max(1) as f64 / 1e3,
            outside_us: answer.outside_ns as f64 / 1e3,
            launching_us: answer.a as f64 / 1e3,
            error,
            repeated,
        };
        if sum.is_some_and(|sum| known.contains(&sum)) && repeat != Repeat::First {
            return Ok(Ok(sample(0.0, true)));
        }
        let compared = referee.compare(&self.cell.slots, set, repeat)?;
        if let Some(kind) = compared.failure() {
            return Ok(Err(Verdict::of(kind, compared.text)));
        }
        known.extend(sum);
        Ok(Ok(sample(compared.error, compared.repeated)))
    }

    /// The digest of what was taken; of an output on a device there is none, it is compared there each time.
    fn sum_of_taken(&self, referee: &mut Referee) -> Result<Option<Sum>> {
        match self.cell.slots {
            Slots::Host { .. } => Ok(Some(self.key.digest(referee.private_output()?))),
            Slots::Device { .. } => Ok(None),
        }
    }

    /// Asks without waiting; whoever sleeps is woken.
    pub(super) fn send_awake(&mut self, op: Op) -> Result<std::result::Result<Question, Verdict>> {
        let thaw = std::mem::take(&mut self.frozen);
        self.cell.send(&mut self.sandbox, op, thaw)
    }

    /// Stops everything in this arm's sandbox; a verdict where it broke a limit meanwhile.
    pub(super) fn freeze(&mut self) -> Result<Option<Verdict>> {
        if self.frozen {
            return Ok(None);
        }
        self.frozen = true;
        self.sandbox.freeze()?;
        Ok(self.cell.bad_news(&mut self.sandbox))
    }

    /// Looks at the last output again, in its slot and where the candidate keeps it.
    pub(crate) fn recheck(&mut self, referee: &mut Referee, limit: Duration) -> Result<Option<Verdict>> {
        let verdict = self.late_write(referee)?;
        Ok(verdict.or(self.ask(Op::Recheck, limit)?.err()))
    }

    /// Looks at the output slot again: what was handed over must still be there.
    pub(crate) fn late_write(&mut self, referee: &mut Referee) -> Result<Option<Verdict>> {
        let still_there = match (std::mem::replace(&mut self.last, Last::Nothing), &self.cell.slots) {
            (Last::Nothing, _) => true,
            (Last::Here(sum), slots) => self.key.digest(slots.output()?) == sum,
            (Last::OnDevice(count), slots) => referee.still_there(slots, count)?,
        };
        let text = "the output changed after it had been handed over";
        Ok((!still_there).then(|| Verdict::of(Kind::LateWrite, text)))
    }
}
