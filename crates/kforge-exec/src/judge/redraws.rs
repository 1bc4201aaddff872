//! A verdict must not depend on the draw: what was verified is verified again on other inputs, with other weights, and with
//! limits that were found anew, over what was built once.

use super::{Observer, Session, arm::Side, outcome::Outcome, stage::Stage};
use crate::{
    failure::{Failure, OnFailure, Refusal, Tried},
    sandbox::Sandbox,
    wire::op,
};
use kforge_types::Verdict;
use std::time::Instant;

const CHECK: &str = "other draws";

impl Session {
    /// As often as the options say.
    pub(super) fn verify_on_other_draws(
        &mut self,
        mut sandbox: Sandbox,
        source: &str,
        outcome: &mut Outcome,
        observer: &dyn Observer,
    ) -> Tried<Sandbox> {
        let times = self.bench.options.redraws;
        if times == 0 {
            return Ok(sandbox);
        }
        let begun = Instant::now();
        // Those that wait know this referee's weights and sizes.
        sandbox.waiting.clear();
        let reduced = !self.bench.options.place.is_timed();
        let mut worst: f64 = 0.0;
        for number in 1..=times {
            observer.stage(&format!("verifying on other draws ({number} of {times})"));
            let mut again = Outcome::begin(self, CHECK, source);
            let verified =
                self.with_another_referee(reduced, true, |session| session.verify_here(sandbox, source, &mut again));
            if let Err(Failure::Refused(Refusal { verdict, .. })) = verified {
                outcome.log = again.log;
                let reason = format!("on draw {number} of {times} more: {}", verdict.reason);
                return Err(Verdict { reason, ..verdict }).check(CHECK);
            }
            sandbox = verified?;
            worst = worst.max(again.error);
            outcome.reuses_buffers = again.reuses_buffers;
        }
        outcome.stage(Stage::Redraws, begun.elapsed().as_secs_f64());
        outcome.pass(
            CHECK,
            format!(
                "right on {times} more draws of inputs, weights and limits; max error: {:.0} % of tolerance",
                100.0 * worst
            ),
        );
        Ok(sandbox)
    }

    /// In a process of its own, which finds what was built before in the same sandbox.
    fn verify_here(&mut self, mut sandbox: Sandbox, source: &str, outcome: &mut Outcome) -> Tried<Sandbox> {
        let cell = self.bench.candidate_cell(&mut sandbox, source, self.bench.ordinary())?;
        let mut arm = self.bench.arm(sandbox, cell, Side::Candidate)?;
        let imported = arm.ask(op::Import, self.bench.options.timeout);
        let verified = imported.and_then(|_| self.verify(&mut arm, outcome));
        self.bench.end_arm(arm, verified, outcome)
    }
}
