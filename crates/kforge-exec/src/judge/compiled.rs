//! Kernels for a device that is not here: compiled, never called.

use super::{Observer, Session, arm::Arm, outcome::Outcome};
use crate::error::Result;
use kforge_types::State;

impl Session {
    pub(crate) fn judge_compiled(
        &mut self,
        source: &str,
        outcome: &mut Outcome,
        observer: &dyn Observer,
    ) -> Result<()> {
        let Some(Arm { mut sandbox, cell, .. }) = self.build(source, &[], outcome, observer)? else { return Ok(()) };
        self.end_cell(&mut sandbox, cell)?;
        if self.options.target.model == "cute" {
            // Importing a file of CuTe DSL compiles nothing yet.
            observer.stage("compiling kernels ahead of time");
            self.compile_kernels(&mut sandbox, source, outcome)?;
        }
        outcome.log = sandbox.log.text();
        if outcome.verdict.state != State::Correct {
            return Ok(());
        }
        outcome.provisional = "nothing was run";
        let detail = format!(
            "nothing was run: kernels were compiled for {}, and whether they are right is unknown",
            self.options.arch
        );
        outcome.pass("run", detail);
        Ok(())
    }
}
