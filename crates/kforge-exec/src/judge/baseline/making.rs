//! Starting a baseline: its cell, what its compiler makes, and its first call.

use super::{
    super::{
        BaselineChoice, Observer,
        arm::{Arm, How, Side},
        bench::Bench,
        spec::{Role, Special},
        verify::OWN,
        ways::{EAGER, MAX_AUTOTUNE, how, is_compiled},
    },
    Baselines, COMPILE_LIMIT,
};
use crate::{
    cell::Cell,
    error::Result,
    failure::{Failure, OnFailure, Tried},
    memory::Sealed,
    sandbox::Sandbox,
    wire::op,
};
use kforge_types::{Kind, Verdict};
use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

const AUTOTUNE_LIMIT: Duration = Duration::from_mins(1);
/// Sets of each distribution that a way must be right on, and by how much of what the contract allows.
const PROBES: usize = 2;
const MARGIN: f64 = 0.8;

/// A cell with the reference inside.
pub(super) struct Made {
    pub(super) arm: Arm,
    /// Until its first output was there.
    pub(super) seconds: f64,
    /// Whether it has been called.
    ran: bool,
}

impl BaselineChoice {
    fn limit(self, name: &str) -> Duration {
        match (self, how(name)) {
            (Self::Auto, MAX_AUTOTUNE) => AUTOTUNE_LIMIT,
            _ => COMPILE_LIMIT,
        }
    }
}

impl Baselines {
    pub(super) fn take_started(&mut self, bench: &mut Bench, name: &str, observer: &dyn Observer) -> Tried<Made> {
        let made = match self.started.remove(name) {
            Some(started) => started?,
            None => self.make(bench, name, observer)?,
        };
        self.run_first(bench, name, made, observer)
    }

    /// The reference as it is, called before.
    pub(crate) fn start_reference(&mut self, bench: &mut Bench, observer: &dyn Observer) -> Tried<Arm> {
        Ok(self.take_started(bench, EAGER, observer)?.arm)
    }

    /// A sandbox for one of them; in its cells torch's compiler may be imported.
    fn enter(&mut self, bench: &mut Bench, name: &str) -> Result<Sandbox> {
        if let Some(zygote) = self.compiling.as_mut().filter(|_| is_compiled(name)) {
            match bench.enter(Role::Baseline, Some(zygote)) {
                Ok(sandbox) => return Ok(sandbox),
                Err(error) => {
                    tracing::warn!(
                        "the zygote with torch's compiler is gone, and its cells import for themselves: {error}"
                    );
                    self.compiling = None;
                }
            }
        }
        bench.enter(Role::Baseline, None)
    }

    pub(super) fn make(&mut self, bench: &mut Bench, name: &str, observer: &dyn Observer) -> Tried<Made> {
        observer.stage(&format!("starting baseline {name}"));
        let slots = bench.take_slots()?;
        let mut sandbox = self.enter(bench, name)?;
        let inductor = bench.inductor_cache()?;
        let weights = bench.referee.weights(&bench.opened)?;
        let maker = bench.spec_maker();
        let file = bench.problem_file.display().to_string();
        let special = Special { baseline: name, ..Special::default() };
        let spec = maker.spec(Role::Baseline, &bench.problem_source, &file, special);
        let env = maker.environment(sandbox.scratch(), Some(&inductor));
        let fds: Vec<BorrowedFd<'_>> = weights.iter().map(Sealed::fd).collect();
        let cell = Cell::spawn(&mut sandbox, &spec, &env, slots, &fds)?;
        let mut arm = bench.arm(sandbox, cell, Side::Baseline)?;
        let limit = bench.options.baselines.limit(name);
        arm.ask(op::Import, limit).denied(|verdict| self.not_run(bench, verdict, limit))?;
        arm.ask(op::Construct(0), limit).denied(|verdict| self.not_run(bench, verdict, limit))?;
        Ok(Made { arm, seconds: 0.0, ran: false })
    }

    pub(super) fn compile_only(
        &mut self,
        bench: &mut Bench,
        name: &str,
        made: Made,
        observer: &dyn Observer,
    ) -> Tried<Made> {
        observer.stage(&compiling(name));
        let Made { mut arm, .. } = made;
        let limit = bench.options.baselines.limit(name);
        let begun = Instant::now();
        arm.ask(op::CompileOnly, limit).denied(|verdict| self.not_run(bench, verdict, limit))?;
        Ok(Made { arm, seconds: begun.elapsed().as_secs_f64(), ran: false })
    }

    /// A note for the table.
    fn not_run(&mut self, bench: &Bench, verdict: &Verdict, limit: Duration) -> String {
        self.without_room |= bench.device.reserved_as().is_some() && verdict.kind == Some(Kind::OutOfMemory);
        not_run(verdict, limit)
    }

    /// Once; what is compiled is compiled now, as far as it has not been.
    pub(super) fn run_first(
        &mut self,
        bench: &mut Bench,
        name: &str,
        made: Made,
        observer: &dyn Observer,
    ) -> Tried<Made> {
        if made.ran {
            return Ok(made);
        }
        if is_compiled(name) {
            observer.stage(&compiling(name));
        }
        let Made { mut arm, seconds, .. } = made;
        let limit = bench.options.baselines.limit(name);
        let begun = Instant::now();
        let set = bench.referee.set(0, OWN, 0)?;
        let called = bench.call(&mut arm, &set, How::untimed(limit));
        called.denied(|verdict| self.not_run(bench, verdict, limit))?;
        let seconds = seconds + begun.elapsed().as_secs_f64();
        if name != EAGER {
            keeps_the_contract(bench, &mut arm, limit)?;
        }
        for _ in 0..bench.device.policy().settling_calls {
            let _ = bench.call(&mut arm, &set, How::untimed(limit)).or_reason()?;
        }
        // As beside a candidate: two threads on one core would make the choice of the fastest a matter of luck.
        arm.ask(op::Pin(true), limit).denied(|verdict| self.not_run(bench, verdict, limit))?;
        Ok(Made { arm, seconds, ran: true })
    }
}

/// Held to what a candidate is held to, with something to spare: a baseline must not fail in the middle of timing.
fn keeps_the_contract(bench: &mut Bench, arm: &mut Arm, limit: Duration) -> Tried<()> {
    for distribution in bench.opened.distributions.clone() {
        for number in 0..PROBES {
            let set = bench.referee.set(0, &distribution, number)?;
            let called = bench.call(arm, &set, How::untimed(limit)).or_reason()?;
            let wrong = match called {
                Ok(sample) if sample.error <= MARGIN => continue,
                Ok(sample) => format!("error at {:.0} % of tolerance", 100.0 * sample.error),
                Err(reason) => reason,
            };
            let wrong = wrong.lines().next().unwrap_or_default();
            let note = format!("does not keep the contract on inputs drawn as {distribution:?}: {wrong}");
            return Err(Failure::Denied(note));
        }
    }
    Ok(())
}

fn compiling(name: &str) -> String {
    format!("compiling baseline {name} (kept for the next time)")
}

fn not_run(verdict: &Verdict, limit: Duration) -> String {
    match verdict.kind {
        Some(Kind::Timeout) => {
            format!("not run: compiling takes more than {} s (--baselines all waits)", limit.as_secs())
        }
        _ => format!("did not run: {}", verdict.reason.lines().next().unwrap_or_default()),
    }
}
