//! Building a candidate, and forking the cells that it is judged in.

use super::{
    Observer, Place,
    arm::{Arm, Side},
    bench::Bench,
    outcome::Outcome,
    spec::{Role, Special},
    stage::Stage,
    timing::RING,
    verify::{OWN, SLICE, SLICES},
};
use crate::{
    cell::Cell,
    error::Result,
    failure::{Failure, OnFailure, Tried},
    memory::Sealed,
    sandbox::Sandbox,
    slots::Slots,
    wire::op,
};
use kforge_types::Evidence;
use std::{os::fd::BorrowedFd, time::Instant};

/// Of a process that calls nothing.
const BUILDER_SLOTS: (usize, usize) = (4096, 4096);
pub(crate) const CANDIDATE_FILE: &str = "candidate.py";

impl Bench {
    /// Forks a cell for the candidate in its sandbox.
    pub(crate) fn candidate_cell(
        &mut self,
        sandbox: &mut Sandbox,
        source: &str,
        special: Special<'static>,
    ) -> Result<Cell> {
        if let Some(cell) = sandbox.take_waiting(special) {
            return Ok(cell);
        }
        let slots = self.take_slots()?;
        self.cell_over(slots, sandbox, source, special)
    }

    /// Where a process takes long until it can use the device, the cells that a candidate will need are forked while its
    /// kernels are built. They load nothing of it before their turn.
    fn fork_crew(&mut self, sandbox: &mut Sandbox, source: &str, crew: &[Special<'static>]) -> Result<()> {
        if !self.device.policy().starts_slowly || crew.is_empty() {
            return Ok(());
        }
        // A process that starts on the device disturbs whoever times there: then they start when they are needed.
        let Some(_lock) = self.lock_at_once()? else { return Ok(()) };
        let slots = self.take_slots()?;
        for special in crew {
            let Some(shared) = slots.shared() else { continue };
            let cell = self.cell_over(shared, sandbox, source, *special)?;
            sandbox.waiting.push((*special, cell));
        }
        Ok(())
    }

    /// While a compiler is at work the referee has time for truths. Elsewhere than on the processors they take none, and would
    /// need the device's lock.
    fn make_sets_meanwhile(&mut self) -> Result<()> {
        if !self.device.policy().is_the_processors {
            return Ok(());
        }
        for variant in 0..self.opened.variants.len() {
            for distribution in self.distributions(variant) {
                self.referee.set(variant, &distribution, 0)?;
            }
        }
        for number in 0..SLICES {
            self.referee.set(0, SLICE, number)?;
        }
        if self.options.no_timing || !self.options.place.is_timed() { Ok(()) } else { self.make_sets() }
    }

    /// Those that a variant is verified on: all for the problem's own sizes and weights.
    pub(super) fn distributions(&self, variant: usize) -> Vec<String> {
        let count = if variant == 0 { usize::MAX } else { 2 };
        self.opened.distributions.iter().take(count).cloned().collect()
    }

    /// The cells that a judgement needs, in their order. Where sets are large, the slots of the first are the baseline's
    /// before they are those of the cell that is timed, which is therefore not made yet.
    pub(crate) fn crew(&self) -> Vec<Special<'static>> {
        let skipping = Special { skip_kernels: true, ..self.ordinary() };
        let timed = (!self.options.no_timing && !self.slot_pool.large).then(Special::default);
        [self.ordinary(), skipping].into_iter().chain(timed).collect()
    }

    fn cell_over(&mut self, slots: Slots, sandbox: &mut Sandbox, source: &str, special: Special<'_>) -> Result<Cell> {
        let weights = self.referee.weights(&self.opened)?;
        let maker = self.spec_maker();
        let spec = maker.spec(Role::Candidate, source, CANDIDATE_FILE, special);
        let env = maker.environment(sandbox.scratch(), None);
        let fds: Vec<BorrowedFd<'_>> = weights.iter().map(Sealed::fd).collect();
        Cell::spawn(sandbox, &spec, &env, slots, &fds)
    }

    /// Forks a process that imports the candidate, so that its kernels are built, and calls nothing.
    pub(crate) fn builder(&self, sandbox: &mut Sandbox, source: &str, special: Special<'_>) -> Result<Cell> {
        let maker = self.spec_maker();
        let spec = maker.builder_spec(source, CANDIDATE_FILE, special);
        let env = maker.environment(sandbox.scratch(), None);
        Cell::spawn(sandbox, &spec, &env, Slots::plain(BUILDER_SLOTS)?, &[])
    }

    pub(super) fn ordinary(&self) -> Special<'static> {
        Special { interpret: self.options.place == Place::Interpreter, ..Special::default() }
    }

    /// Builder first, then the cell that finds the builder's objects in the same scratch.
    ///
    /// `crew` are the candidate's cells that will be needed: where that takes long they are forked meanwhile.
    pub(crate) fn build(
        &mut self,
        source: &str,
        crew: &[Special<'static>],
        outcome: &mut Outcome,
        observer: &dyn Observer,
    ) -> Tried<Arm> {
        observer.stage("building");
        let mut sandbox = outcome.timed(Stage::Sandbox, |_| self.enter(Role::Candidate, None))?;
        outcome.sandbox = sandbox.report.clone();
        let built = self.build_in(&mut sandbox, source, crew, outcome);
        outcome.log = sandbox.log.text();
        Ok(self.arm(sandbox, built?, Side::Candidate)?)
    }

    fn build_in(
        &mut self,
        sandbox: &mut Sandbox,
        source: &str,
        crew: &[Special<'static>],
        outcome: &mut Outcome,
    ) -> Tried<Cell> {
        let begun = Instant::now();
        outcome.timed(Stage::Build, |_| self.run_builder(sandbox, source, crew)).check("build")?;
        // Whatever the builder left running must not be there when its cell is.
        sandbox.clear_for_the_next()?;
        outcome.evidence = Evidence::Compiled;
        outcome.pass("build", format!("{:.2} s", begun.elapsed().as_secs_f64()));
        let mut cell = self.candidate_cell(sandbox, source, self.ordinary())?;
        cell.ask(sandbox, op::Import, self.options.timeout).check("import")?;
        Ok(cell)
    }

    fn run_builder(&mut self, sandbox: &mut Sandbox, source: &str, crew: &[Special<'static>]) -> Tried<op::Done> {
        let mut builder = self.builder(sandbox, source, self.ordinary())?;
        let question = builder.send(sandbox, op::Import, false)?;
        self.fork_crew(sandbox, source, crew)?;
        self.make_sets_meanwhile()?;
        builder.answer_in_time(sandbox, &question, self.options.timeout)
    }

    /// Ends the cell that something was tried with, whatever came of it. Where our own machinery failed nothing of it is
    /// used again.
    pub(super) fn end_arm(&mut self, arm: Arm, tried: Tried<()>, outcome: &mut Outcome) -> Tried<Sandbox> {
        outcome.log = arm.sandbox.log.text();
        let Arm { mut sandbox, cell, .. } = arm;
        if !matches!(tried, Err(Failure::Failed(_))) {
            self.end_cell(&mut sandbox, cell)?;
        }
        tried.map(|()| sandbox)
    }

    /// Makes every set that timing needs, so that nothing of ours computes while an arm is timed.
    pub(crate) fn make_sets(&mut self) -> Result<()> {
        for number in 0..RING {
            self.referee.set(0, OWN, number)?;
        }
        Ok(())
    }
}
