//! One arm of a comparison: a sandbox with a cell, and rows of calls whose every result is taken out of it.

use crate::{
    cell::{Cell, Question},
    claims::{self, Claim, OutputField},
    device::Device,
    error::Result,
    failure::Tried,
    referee::{InputSet, Opened, Referee, Repeat},
    sandbox::{Frozen, Sandbox},
    window::Pattern,
    wire::op::{self, Audited, Calls, Constructed, Request},
};
use kforge_types::{Kind, Verdict};
use std::{
    rc::Rc,
    time::{Duration, Instant},
};

/// One verified call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// As its own process claims.
    pub(crate) inside_us: f64,
    /// Largest error in units of what is allowed.
    pub(crate) error: f64,
    /// Whether this set has given exactly this output before.
    pub(crate) repeated: bool,
}

/// Calls in a row, in microseconds for all of them together.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_field_names, reason = "a time without its unit would be worse")]
pub(crate) struct Row {
    /// From before the inputs could be seen until its process said that all was done, by a clock that no candidate reaches.
    pub(crate) outside_us: f64,
    /// The same until the results lay still and were ours: who says so too early is found out by this.
    pub(crate) settled_us: f64,
    /// As its own process claims.
    pub(crate) inside_us: f64,
    pub(crate) launching_us: f64,
    /// What it took to make ready for it, which is not a part of its time.
    pub(crate) ready_us: f64,
}

impl Row {
    /// From the answer until its results lay still and were ours.
    pub(crate) fn lag_us(&self) -> f64 {
        self.settled_us - self.outside_us
    }
}

/// Whose inputs a row is given.
#[derive(Clone, Copy)]
pub(crate) enum Given<'a> {
    /// One call on a set of the store.
    Stored(&'a InputSet),
    /// So many calls on the sets that the referee drew last.
    Fresh(usize),
    /// So many calls of nothing.
    Null(usize),
}

impl Given<'_> {
    pub(crate) fn calls(self) -> usize {
        match self {
            Self::Stored(_) => 1,
            Self::Fresh(calls) | Self::Null(calls) => calls,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        matches!(self, Self::Null(_))
    }
}

/// Of whom the referee keeps a copy of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Candidate = 0,
    Baseline = 1,
}

/// A piece of a device's memory that was handed over: its size, and the file that stands for it.
pub(crate) type Segment = (u64, std::os::fd::OwnedFd);

/// Results that were taken, and where they lie in the cell.
pub(crate) struct Left {
    pub(crate) calls: Vec<Vec<Claim>>,
    /// What each of them was filled with, call by call; nothing where none was.
    pub(crate) patterns: Vec<Pattern>,
}

/// A sandboxed cell and what is known of its results.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Arm {
    pub(crate) sandbox: Sandbox,
    pub(crate) cell: Cell,
    pub(crate) side: Side,
    /// By variant.
    pub(crate) fields: Rc<Vec<Vec<OutputField>>>,
    pub(crate) variant: usize,
    /// Whether its results stay until the next ones were taken: large ones do not.
    pub(crate) keeps: bool,
    pub(crate) left: Option<Left>,
    pub(crate) held: Vec<Left>,
    pub(crate) frozen: bool,
    /// Whether its cell is the only process that may live in its sandbox.
    alone: bool,
    /// Whether results are filled with a pattern once they are taken.
    pub(crate) fills: bool,
    /// Whether it was seen to return memory that an earlier result still needs.
    pub(crate) reuses: bool,
    /// Whether results are copied as a part of the call.
    pub(crate) clones: bool,
    /// Whether its calls can be launched before their inputs are there.
    pub(crate) queues: bool,
    /// Pages of results that were not there when they were handed over, and all of them.
    pub(crate) missing: (u64, u64),
}

/// How one call is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) limit: Duration,
    pub(crate) cold: bool,
    pub(crate) repeat: Repeat,
    /// Where a device can do so: launched beforehand, so that launching costs nothing.
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
    pub(crate) fn new(sandbox: Sandbox, cell: Cell, side: Side, opened: &Opened, queues: bool) -> Result<Self> {
        let fields = opened.variants.iter().map(claims::output_fields).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            sandbox,
            cell,
            side,
            fields: Rc::new(fields),
            variant: 0,
            keeps: opened.keeps_results(),
            left: None,
            held: Vec::new(),
            frozen: false,
            alone: false,
            fills: false,
            reuses: false,
            clones: false,
            queues,
            missing: (0, 0),
        })
    }

    pub(crate) fn construct(&mut self, variant: usize, limit: Duration) -> Tried<Constructed> {
        self.left = None;
        self.variant = variant;
        self.ask(op::Construct(variant as u64), limit)
    }

    pub(crate) fn ask<R: Request>(&mut self, request: R, limit: Duration) -> Tried<R::Answer> {
        let question = self.send_awake(request)?;
        self.cell.answer_in_time(&mut self.sandbox, &question, limit)
    }

    /// One call on a set of the store, compared.
    pub(crate) fn call(
        &mut self,
        device: &mut dyn Device,
        referee: &mut Referee,
        set: &InputSet,
        how: How,
    ) -> Tried<Sample> {
        let row = self.row(device, referee, Given::Stored(set), how)?;
        let compared = referee.compare(set, self.side, how.repeat)?.passed()?;
        Ok(Sample { inside_us: row.inside_us, error: compared.error, repeated: compared.repeated })
    }

    /// Calls one after the other. Their results are with the referee afterwards and have not been compared.
    pub(crate) fn row(
        &mut self,
        device: &mut dyn Device,
        referee: &mut Referee,
        given: Given<'_>,
        how: How,
    ) -> Tried<Row> {
        let ready = op::Ready(Calls { count: given.calls() as u64, null: given.is_null() });
        let begun = Instant::now();
        self.ask(ready, how.limit)?;
        // Whoever is still at work then, in the kernel too, is waited for before the time is taken.
        let looked = if device.policy().always_stops || how.cold { self.freeze()? } else { Duration::ZERO };
        let ready_us = begun.elapsed().saturating_sub(looked).as_secs_f64() * 1e6;
        let row = device.row(self, referee, given, how)?;
        Ok(Row { ready_us, ..row })
    }

    /// What it says of its results, if that makes sense.
    pub(crate) fn claimed(
        &mut self,
        fields: &[OutputField],
        calls: usize,
    ) -> std::result::Result<(Vec<Vec<Claim>>, Vec<Segment>), Verdict> {
        let Some((claims, files)) = self.cell.claims(fields, calls) else {
            return Err(Verdict::of(Kind::Protocol, "its process does not say where its results are"));
        };
        if let Some(verdict) = claims::objection(&claims, fields) {
            return Err(verdict);
        }
        Ok((claims.calls, claims.new_segments.into_iter().zip(files).collect()))
    }

    /// From now on the results of the last row stay, and must stay as they are.
    pub(crate) fn hold(&mut self, device: &mut dyn Device, referee: &mut Referee, limit: Duration) -> Tried<()> {
        self.ask(op::HoldResults, limit)?;
        Ok(device.hold(self, referee)?)
    }

    /// Lets it run for a while: it must not write to results that it has handed over.
    pub(crate) fn stays_as_left(
        &mut self,
        device: &mut dyn Device,
        referee: &mut Referee,
        pause: Duration,
    ) -> Tried<()> {
        self.wake()?;
        std::thread::sleep(pause);
        self.freeze()?;
        if device.left_are_intact(self, referee)? { Ok(()) } else { Err(late_write().into()) }
    }

    /// One call under the eyes of the audit. Its result is with the referee afterwards.
    pub(crate) fn audited(
        &mut self,
        device: &mut dyn Device,
        referee: &mut Referee,
        set: &InputSet,
        limit: Duration,
    ) -> Tried<Audited> {
        device.lay(self, referee, set)?;
        let answer = self.ask(op::Audit, limit)?;
        device.take(self, referee, Given::Stored(set), How::untimed(limit))?;
        Ok(answer)
    }

    /// Asks without waiting; whoever sleeps is woken.
    pub(crate) fn send_awake<R: Request>(&mut self, request: R) -> Tried<Question<R>> {
        let thaw = std::mem::take(&mut self.frozen);
        self.cell.send(&mut self.sandbox, request, thaw)
    }

    fn wake(&mut self) -> Result<()> {
        if std::mem::take(&mut self.frozen) { self.sandbox.thaw() } else { Ok(()) }
    }

    /// Stops everything in this arm's sandbox: from then on no task of it runs. A verdict where that cannot be done, where it
    /// broke a limit meanwhile, or where it should be alone and is not. Returns what it took to make sure.
    pub(crate) fn freeze(&mut self) -> Tried<Duration> {
        if self.frozen {
            return Ok(Duration::ZERO);
        }
        self.frozen = true;
        self.cell.stop();
        let Frozen { stopped, living, looked_us } = self.sandbox.freeze()?;
        self.cell.is_there(&mut self.sandbox)?;
        if !stopped {
            return Err(unstoppable().into());
        }
        if self.alone && living > 1 {
            return Err(accompanied().into());
        }
        Ok(Duration::from_secs_f64(looked_us.max(0.0) / 1e6))
    }

    /// Nobody but its cell lives in there from now on, and it is awake.
    pub(crate) fn be_alone(&mut self) -> Result<()> {
        let own = self.cell.number();
        self.sandbox.clear(&[own])?;
        (self.alone, self.frozen) = (true, false);
        Ok(())
    }

    /// A verdict where somebody else does all the same.
    pub(crate) fn is_alone(&mut self) -> Tried<()> {
        if self.sandbox.process_count()? <= 1 {
            return Ok(());
        }
        Err(accompanied().into())
    }
}

fn accompanied() -> Verdict {
    let text = "a process was started while calls were timed: start what is needed before, and end it";
    Verdict::of(Kind::ProcessLimit, text)
}

fn unstoppable() -> Verdict {
    let text = "a process or a thread of it could not be stopped: it waits in the kernel, as for a child of vfork, or has \
                itself woken; end what was started before forward returns";
    Verdict::of(Kind::ProcessLimit, text)
}

pub(crate) fn row_of(said: Duration, settled: Duration, inside_ns: u64, launching_ns: u64) -> Row {
    Row {
        outside_us: said.as_secs_f64() * 1e6,
        settled_us: settled.as_secs_f64() * 1e6,
        // A clock that stood still would make a ratio that is no number.
        inside_us: inside_ns.max(1) as f64 / 1e3,
        launching_us: launching_ns as f64 / 1e3,
        ready_us: 0.0,
    }
}

pub(crate) fn input_mutated() -> Verdict {
    let text =
        "forward wrote to an input that the reference does not write; work on a copy, or on a tensor of your own";
    Verdict::of(Kind::InputMutated, text)
}

pub(crate) fn late_write() -> Verdict {
    Verdict::of(Kind::LateWrite, "the output changed after it had been handed over")
}

pub(crate) fn overwritten() -> Verdict {
    let text = "results of different calls are the same memory: a later call overwrites an earlier result";
    Verdict::of(Kind::Alias, text)
}
