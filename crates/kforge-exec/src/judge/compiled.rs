//! Kernels for a device that is not here: built, constructed, never called.

use super::{Observer, Session, outcome::Outcome};
use crate::error::Result;

impl Session {
    pub(crate) fn judge_compiled(
        &mut self,
        source: &str,
        outcome: &mut Outcome,
        observer: &dyn Observer,
    ) -> Result<()> {
        let Some(arm) = self.build(source, &[], outcome, observer)? else { return Ok(()) };
        outcome.log = arm.sandbox.log.text();
        outcome.provisional = "nothing was run";
        let detail = format!(
            "nothing was run: kernels were compiled for {}, and whether they are right is unknown",
            self.options.arch
        );
        outcome.pass("run", detail);
        Ok(())
    }
}
