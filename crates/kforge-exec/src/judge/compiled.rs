//! Kernels for a device that is not here: compiled, never called. Whoever comes through here is at best
//! [`kforge_types::State::Compiled`].

use super::{Observer, Session, arm::Arm, bench::Bench, outcome::Outcome, spec::Special};
use crate::{
    failure::{OnFailure, Tried},
    sandbox::Sandbox,
    wire::op,
};

pub(super) const AHEAD_OF_TIME: &str = "ahead of time";

impl Session {
    pub(crate) fn judge_compiled(&mut self, source: &str, outcome: &mut Outcome, observer: &dyn Observer) -> Tried<()> {
        let Arm { mut sandbox, cell, .. } = self.bench.build(source, &[], outcome, observer)?;
        self.bench.end_cell(&mut sandbox, cell)?;
        let compiled = if self.bench.options.target.model == "cute" {
            // Importing a file of CuTe DSL compiles nothing yet.
            observer.stage("compiling kernels ahead of time");
            self.bench.compile_kernels(&mut sandbox, source, outcome)
        } else {
            Ok(())
        };
        outcome.log = sandbox.log.text();
        compiled
    }
}

impl Bench {
    /// In a process that imports the candidate and runs nothing.
    pub(crate) fn compile_kernels(&mut self, sandbox: &mut Sandbox, source: &str, outcome: &mut Outcome) -> Tried<()> {
        let limit = self.options.timeout;
        let special = Special { ahead_of_time: true, ..Special::default() };
        let mut cell = self.builder(sandbox, source, special)?;
        cell.ask(sandbox, op::Import, limit).check(AHEAD_OF_TIME)?;
        let answer = cell.ask(sandbox, op::CompileKernels, limit).check(AHEAD_OF_TIME)?;
        let unchecked = match answer.unchecked {
            0 => String::new(),
            n => format!(", {n} could not be checked ({})", cell.detail_text()),
        };
        outcome
            .pass(AHEAD_OF_TIME, format!("{} kernels compiled for {}{unchecked}", answer.kernels, self.options.arch));
        Ok(())
    }
}
