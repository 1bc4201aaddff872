//! Building a candidate and finding out whether its outputs are right. Nothing here is timed.

use super::{
    Place, Session,
    arm::{Arm, How},
    outcome::Outcome,
    spec::{Role, Special},
};
use crate::{
    cell::{Cell, Op},
    error::Result,
    memory::Sealed,
    referee::Repeat,
    sandbox::Sandbox,
    slots::Slots,
};
use kforge_types::{Evidence, Kind, Operators, Params, Verdict};
use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

pub(crate) const OWN: &str = "own";
const SLICE: &str = "slice";
/// Of a process that calls nothing.
const BUILDER_SLOTS: (usize, usize) = (4096, 4096);
pub(crate) const CANDIDATE_FILE: &str = "candidate.py";
/// After how long an output is looked at again.
const LATER: Duration = Duration::from_millis(25);

impl Session {
    /// Forks a cell for the candidate in its sandbox.
    pub(crate) fn candidate_cell(
        &mut self,
        sandbox: &mut Sandbox,
        source: &str,
        special: Special<'static>,
    ) -> Result<Cell> {
        if let Some(index) = self.spares.iter().position(|(waiting, _)| *waiting == special) {
            return Ok(self.spares.remove(index).1);
        }
        let slots = self.take_lane()?;
        self.cell_over(slots, sandbox, source, special)
    }

    /// On a GPU a process needs half a second until it can use the device: the cells that a candidate will need are
    /// forked while its kernels are built. They load nothing of it before their turn.
    fn fork_spares(&mut self, sandbox: &mut Sandbox, source: &str, crew: &[Special<'static>]) -> Result<()> {
        self.spares.clear();
        if !self.options.place.is_gpu() || crew.is_empty() {
            return Ok(());
        }
        // A process that starts on the device disturbs whoever times there: then they start when they are needed.
        let Some(_turn) = self.turn_at_once()? else { return Ok(()) };
        let slots = self.take_lane()?;
        for special in crew {
            let Some(shared) = slots.shared() else { continue };
            let cell = self.cell_over(shared, sandbox, source, *special)?;
            self.spares.push((*special, cell));
        }
        Ok(())
    }

    /// While a compiler is at work the referee has time for truths. On a GPU they take none, and would need a turn.
    fn make_sets_meanwhile(&mut self) -> Result<()> {
        if self.options.place.is_gpu() || self.sets_are_made {
            return Ok(());
        }
        self.sets_are_made = true;
        for variant in 0..self.opened.variants.len() {
            for distribution in self.distributions(variant) {
                self.referee.set(variant, &distribution, 0)?;
            }
        }
        self.referee.set(0, SLICE, 0)?;
        if self.options.no_timing || !self.options.place.is_timed() { Ok(()) } else { self.make_sets() }
    }

    /// Those that a variant is verified on: all for the problem's own sizes and weights.
    fn distributions(&self, variant: usize) -> Vec<String> {
        let count = if variant == 0 { usize::MAX } else { 2 };
        self.opened.distributions.iter().take(count).cloned().collect()
    }

    /// The cells that a judgement needs, in their order. Where sets are large, the slots of the first are the baseline's
    /// before they are those of the cell that is timed, which is therefore not made yet.
    pub(crate) fn crew(&self) -> Vec<Special<'static>> {
        let skipping = Special { skip_kernels: true, ..self.ordinary() };
        let timed = (!self.options.no_timing && !self.lanes.large).then(Special::default);
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
        Cell::spawn(sandbox, &spec, &env, Slots::host(BUILDER_SLOTS)?, &[])
    }

    fn ordinary(&self) -> Special<'static> {
        Special { interpret: self.options.place == Place::Interpreter, ..Special::default() }
    }

    /// Builder first, then the cell that finds the builder's objects in the same scratch.
    ///
    /// `crew` are the candidate's cells that will be needed: on a GPU they are forked meanwhile.
    pub(crate) fn build(
        &mut self,
        source: &str,
        crew: &[Special<'static>],
        outcome: &mut Outcome,
        observer: &dyn super::Observer,
    ) -> Result<Option<Arm>> {
        observer.stage("building");
        let begun = Instant::now();
        let mut sandbox = self.enter(Role::Candidate, false)?;
        outcome.sandbox = sandbox.report.clone();
        outcome.stage("sandbox", begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        let mut builder = self.builder(&mut sandbox, source, self.ordinary())?;
        let question = builder.send(&mut sandbox, Op::Import, false)?;
        self.fork_spares(&mut sandbox, source, crew)?;
        self.make_sets_meanwhile()?;
        let built = match question {
            Ok(question) => builder.answer_in_time(&mut sandbox, &question, self.options.timeout)?,
            Err(verdict) => Err(verdict),
        };
        outcome.stage("build", begun.elapsed().as_secs_f64());
        if let Err(verdict) = built {
            outcome.log = sandbox.log.text();
            outcome.fail("build", verdict);
            return Ok(None);
        }
        // Whatever the builder left running must not be there when its cell is.
        self.clear(&mut sandbox)?;
        outcome.evidence = Evidence::Compiled;
        outcome.pass("build", format!("{:.2} s", begun.elapsed().as_secs_f64()));
        let mut cell = self.candidate_cell(&mut sandbox, source, self.ordinary())?;
        if let Err(verdict) = cell.ask(&mut sandbox, Op::Import, self.options.timeout)? {
            outcome.log = sandbox.log.text();
            outcome.fail("import", verdict);
            return Ok(None);
        }
        Ok(Some(Arm::new(sandbox, cell, self.opened.mutates_inputs, self.key.clone())))
    }

    /// Every variant and distribution; the problem's own sizes and weights last, so that timing goes on from them.
    pub(crate) fn verify(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Result<bool> {
        for variant in (1..self.opened.variants.len()).chain([0]) {
            let first_limit = self.options.timeout;
            match arm.construct(variant, first_limit)? {
                Err(verdict) => return Ok(outcome.fail("construct", verdict)),
                Ok(answer) if variant == 0 => {
                    outcome.prepare_s = answer.inside_ns as f64 / 1e9;
                    let detail = match answer.a {
                        0 => "all of the reference's weights found a place".to_owned(),
                        n => format!("{n} of the reference's weights found no place by name or shape"),
                    };
                    outcome.pass("weights", detail);
                }
                Ok(_) => {}
            }
            if !self.verify_variant(arm, variant, outcome)? {
                return Ok(false);
            }
        }
        if self.opened.contract.params == Some(Params::PerCall) && !self.verify_swapped_weights(arm, outcome)? {
            return Ok(false);
        }
        outcome.evidence = Evidence::CorrectOnly;
        Ok(true)
    }

    fn verify_variant(&mut self, arm: &mut Arm, variant: usize, outcome: &mut Outcome) -> Result<bool> {
        let described = self.opened.variants[variant]["described"].as_str().unwrap_or_default().to_owned();
        let mut first = true;
        for distribution in &self.distributions(variant) {
            let limit = if first { self.options.timeout } else { self.call_limit() };
            let repeat = if variant == 0 && first { Repeat::First } else { Repeat::No };
            first = false;
            let set = self.referee.set(variant, distribution, 0)?;
            let how = How { repeat, ..How::untimed(limit) };
            let name = format!("values: {distribution}{described}");
            match arm.call(&mut self.referee, &mut self.evictor, &set, how)? {
                Err(verdict) => return Ok(outcome.fail(&name, verdict)),
                Ok(sample) => outcome.pass(&name, format!("largest error {:.2} of what is allowed", sample.error)),
            }
        }
        if variant > 0 {
            return Ok(true);
        }
        Ok(self.verify_repeat(arm, outcome)? && self.verify_later(arm, outcome)? && self.verify_slice(arm, outcome)?)
    }

    fn verify_repeat(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Result<bool> {
        let set = self.referee.set(0, OWN, 0)?;
        let how = How { repeat: Repeat::Again, ..How::untimed(self.call_limit()) };
        match arm.call(&mut self.referee, &mut self.evictor, &set, how)? {
            Err(verdict) => Ok(outcome.fail("same input twice", verdict)),
            Ok(sample) if sample.repeated => {
                outcome.pass("same input twice", "equal bit by bit");
                Ok(true)
            }
            Ok(_) if self.opened.contract.deterministic == Some(true) => {
                let text = "two runs on the same input differ; the contract demands equal bits";
                Ok(outcome.fail("same input twice", Verdict::of(Kind::Nondeterministic, text)))
            }
            Ok(_) => {
                outcome.pass("same input twice", "differ by less than a quarter of the tolerance");
                Ok(true)
            }
        }
    }

    /// A thread that goes on writing to the returned tensor would spoil it for whoever uses it.
    fn verify_later(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Result<bool> {
        std::thread::sleep(LATER);
        let limit = self.call_limit();
        if let Some(verdict) = arm.recheck(&mut self.referee, limit)? {
            return Ok(outcome.fail("looked at again", verdict));
        }
        outcome.pass("looked at again", "unchanged");
        Ok(true)
    }

    /// Right after the set it was made from: an output that is remembered by part of its input is found out.
    fn verify_slice(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Result<bool> {
        let set = self.referee.set(0, SLICE, 0)?;
        let how = How::untimed(self.call_limit());
        if let Err(verdict) = arm.call(&mut self.referee, &mut self.evictor, &set, how)? {
            return Ok(outcome.fail("one slice changed", verdict));
        }
        outcome.pass("one slice changed", "the output follows");
        Ok(true)
    }

    fn verify_swapped_weights(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Result<bool> {
        for variant in [1, 0] {
            if let Err(verdict) = arm.ask(Op::LoadWeights(variant as u64), self.call_limit())? {
                return Ok(outcome.fail("weights changed between calls", verdict));
            }
            let set = self.referee.set(variant, OWN, 0)?;
            let how = How::untimed(self.call_limit());
            if let Err(verdict) = arm.call(&mut self.referee, &mut self.evictor, &set, how)? {
                return Ok(outcome.fail("weights changed between calls", verdict));
            }
        }
        outcome.pass("weights changed between calls", "the output follows");
        Ok(true)
    }

    /// Who computes: framework operators by name and time, and whether the candidate's own kernels matter at all.
    ///
    /// The arm's cell is ended; its sandbox is given back where the audit found nothing against the candidate.
    pub(crate) fn audit(&mut self, mut arm: Arm, source: &str, outcome: &mut Outcome) -> Result<Option<Sandbox>> {
        let set = self.referee.set(0, OWN, 1)?;
        let limit = self.call_limit();
        arm.cell.slots.lay(&mut self.referee, &set, false)?;
        let answer = match arm.ask(Op::Audit, limit)? {
            Err(verdict) => {
                outcome.fail("audit", verdict);
                return Ok(None);
            }
            Ok(answer) => answer,
        };
        let operators = arm.cell.detail_text().replace('\n', ", ");
        let share = answer.b as f64 / answer.inside_ns.max(1) as f64;
        outcome.framework_share = Some(share.clamp(0.0, 1.0));
        if self.opened.contract.operators == Some(Operators::Own) && !operators.is_empty() {
            let text = format!("framework operators compute ({operators}); the contract wants own kernels only");
            outcome.fail("operators", Verdict::of(Kind::FrameworkOperator, text));
            return Ok(None);
        }
        let named = if operators.is_empty() { "none".to_owned() } else { operators };
        outcome.pass("framework operators", named);
        // What the verified cell left running must not be there: it could spoil this one, and timing starts anew anyway.
        let Arm { mut sandbox, cell, .. } = arm;
        self.end_cell(&mut sandbox, cell)?;
        let skipping = Special { skip_kernels: true, ..self.ordinary() };
        let mut cell = self.candidate_cell(&mut sandbox, source, skipping)?;
        let honest = self.audit_own_kernels(&mut sandbox, &mut cell, outcome)?;
        outcome.log = sandbox.log.text();
        self.end_cell(&mut sandbox, cell)?;
        Ok(honest.then_some(sandbox))
    }

    /// The same candidate with its kernels switched off: if the output is still right, they were a decoy.
    fn audit_own_kernels(&mut self, sandbox: &mut Sandbox, cell: &mut Cell, outcome: &mut Outcome) -> Result<bool> {
        let limit = self.options.timeout;
        let set = self.referee.set(0, OWN, 0)?;
        cell.slots.lay(&mut self.referee, &set, false)?;
        for op in [Op::Import, Op::Construct(0)] {
            if cell.ask(sandbox, op, limit)?.is_err() {
                outcome.pass("own kernels", "nothing works without them");
                return Ok(true);
            }
        }
        let Ok(answer) = cell.ask(sandbox, Op::Audit, limit)? else {
            outcome.pass("own kernels", "nothing works without them");
            return Ok(true);
        };
        cell.slots.take(&mut self.referee)?;
        let still_right = self.referee.compare(&cell.slots, &set, Repeat::No)?.failure().is_none();
        match (answer.a, still_right) {
            (0, true) => {
                outcome.pass("own kernels", "none ran: framework operators only");
                outcome.verdict.kind = Some(Kind::FrameworkOnly);
                Ok(true)
            }
            (launches, true) => {
                let text = format!(
                    "the output is right without the candidate's own kernels ({launches} launches were skipped): \
                     they do not contribute to it"
                );
                Ok(outcome.fail("own kernels", Verdict::of(Kind::FakeKernel, text)))
            }
            (launches, false) => {
                outcome.pass("own kernels", format!("the output depends on them ({launches} launches)"));
                Ok(true)
            }
        }
    }
}
