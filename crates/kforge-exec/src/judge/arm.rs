//! One arm of a comparison: a sandbox with a cell, and rows of calls whose every result is taken out of it.

use crate::{
    cell::{Cell, Question},
    claims::{self, Claim, OutputField},
    error::Result,
    evict::Evictor,
    failure::Tried,
    referee::{InputSet, Opened, Referee, Repeat},
    sandbox::{Frozen, Sandbox},
    window::{Pattern, Window},
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

    pub(super) fn is_null(self) -> bool {
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
pub(super) type Segment = (u64, std::os::fd::OwnedFd);

/// Results that were taken, and where they lie in the cell.
struct Left {
    calls: Vec<Vec<Claim>>,
    /// What each of them was filled with, call by call; nothing where none was.
    patterns: Vec<Pattern>,
}

/// A sandboxed cell and what is known of its results.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Arm {
    pub(crate) sandbox: Sandbox,
    pub(crate) cell: Cell,
    side: Side,
    /// By variant.
    fields: Rc<Vec<Vec<OutputField>>>,
    variant: usize,
    /// Whether its results stay until the next ones were taken: large ones do not.
    keeps: bool,
    left: Option<Left>,
    held: Vec<Left>,
    pub(super) frozen: bool,
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
    pub(crate) fn new(sandbox: Sandbox, cell: Cell, side: Side, opened: &Opened) -> Result<Self> {
        let fields = opened.variants.iter().map(claims::output_fields).collect::<Result<Vec<_>>>()?;
        let queues = cell.slots.lane().is_some();
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
        referee: &mut Referee,
        evictor: &mut Evictor,
        set: &InputSet,
        how: How,
    ) -> Tried<Sample> {
        let row = self.row(referee, evictor, Given::Stored(set), how)?;
        let compared = referee.compare(set, self.side, how.repeat)?.passed()?;
        Ok(Sample { inside_us: row.inside_us, error: compared.error, repeated: compared.repeated })
    }

    /// Calls one after the other. Their results lie with the referee afterwards and have not been compared.
    pub(crate) fn row(
        &mut self,
        referee: &mut Referee,
        evictor: &mut Evictor,
        given: Given<'_>,
        how: How,
    ) -> Tried<Row> {
        let ready = op::Ready(Calls { count: given.calls() as u64, null: given.is_null() });
        let begun = Instant::now();
        self.ask(ready, how.limit)?;
        // Whoever is still at work then, in the kernel too, is waited for before the time is taken.
        let looked = if self.cell.slots.lane().is_none() || how.cold { self.freeze()? } else { Duration::ZERO };
        let ready_us = begun.elapsed().saturating_sub(looked).as_secs_f64() * 1e6;
        let row = match self.cell.slots.lane() {
            None => self.row_here(referee, evictor, given, how),
            Some(lane) if how.queued && self.queues => self.row_queued(referee, lane, given, how),
            Some(lane) => self.row_on_idle_device(referee, lane, given, how),
        }?;
        Ok(Row { ready_us, ..row })
    }

    /// On this machine's processors. All of the arm sleeps already, until inputs are laid, and again until its results were
    /// read.
    fn row_here(&mut self, referee: &mut Referee, evictor: &mut Evictor, given: Given<'_>, how: How) -> Tried<Row> {
        self.cell.slots.lay_here(referee, given)?;
        if how.cold {
            evictor.evict();
        }
        let began = Instant::now();
        let answer = self.ask(op::Row(given.calls() as u64), how.limit)?;
        let said = began.elapsed();
        let looked = self.freeze()?;
        let settled = began.elapsed().saturating_sub(looked);
        if !given.is_null() {
            self.take_here(referee, given)?;
        }
        Ok(row_of(said, settled, answer.inside_ns, answer.launching_ns))
    }

    fn take_here(&mut self, referee: &mut Referee, given: Given<'_>) -> Tried<()> {
        let fields = Rc::clone(&self.fields);
        let fields = &fields[self.variant];
        let (calls, _) = self.claimed(fields, given.calls())?;
        let copies = self.cell.slots.copies();
        for (place, call) in calls.iter().enumerate() {
            let region = referee.private_output(self.side, place)?;
            for (claim, field) in call.iter().zip(fields) {
                let into = &mut region[field.offset..field.offset + field.nbytes];
                match self.cell.window().filter(|_| !copies) {
                    Some(window) => {
                        let (missing, all) = window.missing(claim, field);
                        self.missing = (self.missing.0 + missing, self.missing.1 + all);
                        window.read(claim, field, into)?;
                    }
                    None => into.copy_from_slice(self.cell.slots.copied(place, field)?),
                }
            }
        }
        self.look_back(&calls, fields)?;
        self.fill(&calls, fields)?;
        if self.cell.slots.unchanged(referee, given)? { Ok(()) } else { Err(input_mutated().into()) }
    }

    /// What it says of its results, if that makes sense.
    pub(super) fn claimed(
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

    pub(super) fn fields(&self) -> Rc<Vec<Vec<OutputField>>> {
        Rc::clone(&self.fields)
    }

    pub(super) fn variant(&self) -> usize {
        self.variant
    }

    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// Whether results that are still needed were left alone by the calls that have just been made.
    fn look_back(&mut self, calls: &[Vec<Claim>], fields: &[OutputField]) -> Tried<()> {
        let earlier = self.left.take();
        if self.side == Side::Baseline || self.cell.slots.copies() {
            return Ok(());
        }
        let meet = |a: &[Claim], b: &[Claim]| {
            let own = |call: &[Claim]| -> Vec<(Claim, OutputField)> {
                call.iter().cloned().zip(fields.iter().cloned()).filter(|(_, field)| !field.shares).collect()
            };
            own(a).iter().any(|(x, fx)| own(b).iter().any(|(y, fy)| x.meets(fx, y, fy)))
        };
        let before = earlier.iter().filter(|_| self.keeps).flat_map(|left| &left.calls);
        let reused = before.chain(calls).enumerate().any(|(n, one)| {
            // Each against all that come after it.
            let all = earlier.iter().filter(|_| self.keeps).flat_map(|left| &left.calls).chain(calls);
            all.skip(n + 1).any(|other| meet(one, other))
        });
        self.reuses |= reused;
        if reused && self.fills {
            return Err(overwritten().into());
        }
        match (earlier, self.cell.window()) {
            (Some(left), Some(window)) if self.keeps => {
                if is_filled(window, &left, fields)? {
                    Ok(())
                } else {
                    Err(late_write().into())
                }
            }
            _ => Ok(()),
        }
    }

    fn fill(&mut self, calls: &[Vec<Claim>], fields: &[OutputField]) -> Tried<()> {
        let fills = self.fills && self.side == Side::Candidate && !self.cell.slots.copies();
        let mut patterns = Vec::new();
        if let Some(window) = self.cell.window().filter(|_| fills) {
            // One for all results of a row: some of them may be the same tensor.
            let pattern = Pattern::draw()?;
            for (claim, field) in calls.iter().flat_map(|call| call.iter().zip(fields)) {
                window.fill(claim, field, pattern)?;
                patterns.push(pattern);
            }
        }
        self.left = Some(Left { calls: calls.to_vec(), patterns });
        Ok(())
    }

    /// From now on the results of the last row stay, and must stay as they are.
    pub(crate) fn hold(&mut self, referee: &mut Referee, limit: Duration) -> Tried<()> {
        self.ask(op::HoldResults, limit)?;
        match self.cell.slots.lane() {
            Some(lane) => referee.hold(lane)?,
            None => self.held.extend(self.left.take()),
        }
        Ok(())
    }

    /// Whether what is held was never written to again.
    pub(crate) fn held_are_intact(&mut self, referee: &mut Referee) -> Result<bool> {
        if let Some(lane) = self.cell.slots.lane() {
            return referee.held_are_intact(lane);
        }
        let fields = &self.fields[self.variant];
        let Some(window) = self.cell.window() else { return Ok(true) };
        for left in &self.held {
            if !is_filled(window, left, fields)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets it run for a while: it must not write to results that it has handed over.
    pub(crate) fn stays_as_left(&mut self, referee: &mut Referee, pause: Duration) -> Tried<()> {
        self.wake()?;
        std::thread::sleep(pause);
        self.freeze()?;
        let intact = match (self.cell.slots.lane(), &self.left, self.cell.window()) {
            (Some(lane), _, _) => referee.left_are_intact(lane)?,
            (None, Some(left), Some(window)) => is_filled(window, left, &self.fields[self.variant])?,
            _ => true,
        };
        if intact { Ok(()) } else { Err(late_write().into()) }
    }

    /// Inputs for calls that nobody times.
    pub(crate) fn lay(&mut self, referee: &mut Referee, set: &InputSet) -> Result<()> {
        match self.cell.slots.lane() {
            Some(lane) => referee.lay(lane, Given::Stored(set), false).map(|_| ()),
            None => self.cell.slots.lay_here(referee, Given::Stored(set)),
        }
    }

    /// One call under the eyes of the audit. Its result lies with the referee.
    pub(crate) fn audited(&mut self, referee: &mut Referee, set: &InputSet, limit: Duration) -> Tried<Audited> {
        let given = Given::Stored(set);
        self.lay(referee, set)?;
        let answer = self.ask(op::Audit, limit)?;
        if let Some(lane) = self.cell.slots.lane() {
            self.take_there(referee, lane, given, How::untimed(limit))?;
        } else {
            self.freeze()?;
            self.take_here(referee, given)?;
        }
        Ok(answer)
    }

    /// Asks without waiting; whoever sleeps is woken.
    pub(super) fn send_awake<R: Request>(&mut self, request: R) -> Tried<Question<R>> {
        let thaw = std::mem::take(&mut self.frozen);
        self.cell.send(&mut self.sandbox, request, thaw)
    }

    fn wake(&mut self) -> Result<()> {
        if std::mem::take(&mut self.frozen) { self.sandbox.thaw() } else { Ok(()) }
    }

    /// Stops everything in this arm's sandbox: from then on no task of it runs. A verdict where that cannot be done, where it
    /// broke a limit meanwhile, or where it should be alone and is not. Returns what it took to make sure.
    pub(super) fn freeze(&mut self) -> Tried<Duration> {
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

/// Whether results hold still what they were filled with, if they were.
fn is_filled(window: &Window, left: &Left, fields: &[OutputField]) -> Result<bool> {
    let results = left.calls.iter().flat_map(|call| call.iter().zip(fields));
    for ((claim, field), pattern) in results.zip(&left.patterns) {
        if !window.is_filled(claim, field, *pattern)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn row_of(said: Duration, settled: Duration, inside_ns: u64, launching_ns: u64) -> Row {
    Row {
        outside_us: said.as_secs_f64() * 1e6,
        settled_us: settled.as_secs_f64() * 1e6,
        // A clock that stood still would make a ratio that is no number.
        inside_us: inside_ns.max(1) as f64 / 1e3,
        launching_us: launching_ns as f64 / 1e3,
        ready_us: 0.0,
    }
}

pub(super) fn input_mutated() -> Verdict {
    let text =
        "forward wrote to an input that the reference does not write; work on a copy, or on a tensor of your own";
    Verdict::of(Kind::InputMutated, text)
}

pub(super) fn late_write() -> Verdict {
    Verdict::of(Kind::LateWrite, "the output changed after it had been handed over")
}

pub(super) fn overwritten() -> Verdict {
    let text = "results of different calls are the same memory: a later call overwrites an earlier result";
    Verdict::of(Kind::Alias, text)
}
