//! One arm of a comparison: a sandbox with a cell, and calls whose every output is verified.

use crate::{
    cell::{Answer, Cell, Op},
    digest::{Key, Sum},
    error::Result,
    evict::Evictor,
    referee::{InputSet, Referee, Repeat},
    sandbox::Sandbox,
};
use kforge_types::{Kind, Verdict};
use std::{collections::BTreeMap, time::Duration};

const POISON: u8 = 0xFF;

/// One verified call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) inside_us: f64,
    pub(crate) outside_us: f64,
    /// Largest error in units of what is allowed; 0 where the output is a verified one bit by bit.
    pub(crate) error: f64,
    /// Whether this set has given exactly this output before.
    pub(crate) repeated: bool,
}

/// A sample, or the verdict on a candidate that did not give one.
pub(crate) type Called = std::result::Result<Sample, Verdict>;

/// A sandboxed cell and what is known of its outputs.
pub(crate) struct Arm {
    pub(crate) sandbox: Sandbox,
    pub(crate) cell: Cell,
    inputs_may_change: bool,
    key: Key,
    verified: BTreeMap<String, Vec<Sum>>,
    last: Option<Sum>,
}

/// How one call is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) limit: Duration,
    pub(crate) cold: bool,
    pub(crate) repeat: Repeat,
    pub(crate) audit: bool,
}

impl How {
    pub(crate) fn untimed(limit: Duration) -> Self {
        Self { limit, cold: false, repeat: Repeat::No, audit: false }
    }

    pub(crate) fn cold(limit: Duration) -> Self {
        Self { cold: true, ..Self::untimed(limit) }
    }
}

impl Arm {
    pub(crate) fn new(sandbox: Sandbox, cell: Cell, inputs_may_change: bool, key: Key) -> Self {
        Self { sandbox, cell, inputs_may_change, key, verified: BTreeMap::new(), last: None }
    }

    pub(crate) fn construct(&mut self, variant: usize, limit: Duration) -> Result<crate::cell::Asked> {
        self.cell.ask(&mut self.sandbox, Op::Construct(variant as u64), limit)
    }

    /// Asks without looking at an output; what the slot then holds was never handed over.
    pub(crate) fn ask(&mut self, op: Op, limit: Duration) -> Result<crate::cell::Asked> {
        self.last = None;
        self.cell.ask(&mut self.sandbox, op, limit)
    }

    /// Reveals the inputs, asks for the output, takes it at once, and looks at all of it.
    pub(crate) fn call(
        &mut self,
        referee: &mut Referee,
        evictor: &mut Evictor,
        set: &InputSet,
        how: How,
    ) -> Result<Called> {
        if let Some(verdict) = self.late_write() {
            return Ok(Err(verdict));
        }
        set.reveal(self.cell.input.bytes_mut())?;
        self.cell.output.bytes_mut().fill(POISON);
        if how.cold {
            evictor.evict();
        }
        let op = if how.audit { Op::Audit } else { Op::Call };
        let answer = match self.cell.ask(&mut self.sandbox, op, how.limit)? {
            Ok(answer) => answer,
            Err(verdict) => return Ok(Err(verdict)),
        };
        referee.output.bytes_mut().copy_from_slice(self.cell.output.bytes());
        let sum = self.key.digest(referee.output.bytes());
        self.last = Some(sum);
        if !self.inputs_may_change && !set.is_in(self.cell.input.bytes())? {
            let text = "forward wrote to an input; work on a copy, or on a tensor of your own";
            return Ok(Err(Verdict::of(Kind::InputMutated, text)));
        }
        self.verify(referee, set, sum, &answer, how.repeat)
    }

    fn verify(
        &mut self,
        referee: &mut Referee,
        set: &InputSet,
        sum: Sum,
        answer: &Answer,
        repeat: Repeat,
    ) -> Result<Called> {
        let known = self.verified.entry(set.id.clone()).or_default();
        let sample = |error, repeated| Sample {
            inside_us: answer.inside_ns as f64 / 1e3,
            outside_us: answer.outside_ns as f64 / 1e3,
            error,
            repeated,
        };
        if known.contains(&sum) && repeat != Repeat::First {
            return Ok(Ok(sample(0.0, true)));
        }
        let compared = referee.compare(set, repeat)?;
        if let Some(kind) = compared.failure() {
            return Ok(Err(Verdict::of(kind, compared.text)));
        }
        known.push(sum);
        Ok(Ok(sample(compared.error, false)))
    }

    /// Stops or wakes everything in this arm's sandbox; a verdict where it broke a limit meanwhile.
    pub(crate) fn freeze(&mut self, frozen: bool) -> Result<Option<Verdict>> {
        let event = self.sandbox.freeze(frozen)?;
        Ok(event.and_then(|event| self.cell.heard(&event)))
    }

    /// Looks at the output slot again: what was handed over must still be there.
    pub(crate) fn late_write(&mut self) -> Option<Verdict> {
        let last = self.last.take()?;
        (self.key.digest(self.cell.output.bytes()) != last)
            .then(|| Verdict::of(Kind::LateWrite, "the output changed after it had been handed over"))
    }
}
