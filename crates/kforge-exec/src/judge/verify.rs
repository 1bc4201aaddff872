//! Finding out whether a candidate's outputs are right, and who computes them. Nothing here is timed.

use super::{
    Session,
    arm::{Arm, How, Side},
    outcome::Outcome,
    spec::Special,
};
use crate::{
    failure::{OnFailure, Tried},
    referee::{InputSet, Repeat},
    sandbox::Sandbox,
    wire::op::{self, Audited},
};
use kforge_types::{Evidence, Kind, Operators, Params, Verdict, median};
use std::time::Duration;

pub(crate) const OWN: &str = "own";
pub(super) const SLICE: &str = "slice";
/// Of different sizes.
pub(super) const SLICES: usize = 4;
const OWN_KERNELS: &str = "own kernels";
/// To see who computes.
const AUDITED_CALLS: usize = 4;
/// After how long an output is looked at again.
const LATER: Duration = Duration::from_millis(25);

impl Session {
    /// Every variant and distribution; the problem's own sizes and weights last, so that timing goes on from them.
    pub(crate) fn verify(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Tried<()> {
        for variant in (1..self.bench.opened.variants.len()).chain([0]) {
            let answer = arm.construct(variant, self.bench.options.timeout).check("construct")?;
            if variant == 0 {
                outcome.prepare_s = answer.prepare_ns as f64 / 1e9;
                let detail = match answer.unplaced {
                    0 => "all reference weights loaded".to_owned(),
                    n => format!("{n} reference weights not loaded: nothing in the module has their name or shape"),
                };
                outcome.pass("weights", detail);
            }
            self.verify_variant(arm, variant, outcome)?;
        }
        if self.bench.opened.contract.params == Some(Params::PerCall) {
            self.verify_swapped_weights(arm, outcome)?;
        }
        outcome.evidence = Evidence::CorrectOnly;
        Ok(())
    }

    fn verify_variant(&mut self, arm: &mut Arm, variant: usize, outcome: &mut Outcome) -> Tried<()> {
        let described = self.bench.opened.variants[variant]["described"].as_str().unwrap_or_default().to_owned();
        let mut first = true;
        for distribution in &self.bench.distributions(variant) {
            let limit = if first { self.bench.options.timeout } else { self.call_limit() };
            let repeat = if variant == 0 && first { Repeat::First } else { Repeat::No };
            first = false;
            let set = self.bench.referee.set(variant, distribution, 0)?;
            let how = How { repeat, ..How::untimed(limit) };
            let name = format!("values: {}{described}", called(distribution));
            let sample = self.bench.call(arm, &set, how).check(&name)?;
            outcome.error = outcome.error.max(sample.error);
            outcome.pass(&name, format!("max error: {:.0} % of tolerance", 100.0 * sample.error));
        }
        if variant == 0 {
            self.verify_repeat(arm, outcome)?;
            self.verify_memory(arm, outcome)?;
            self.verify_later(arm, outcome)?;
            self.verify_slices(arm, outcome)?;
        }
        Ok(())
    }

    fn verify_repeat(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Tried<()> {
        const CHECK: &str = "same input twice";
        let set = self.bench.referee.set(0, OWN, 0)?;
        let how = How { repeat: Repeat::Again, ..How::untimed(self.call_limit()) };
        let sample = self.bench.call(arm, &set, how).check(CHECK)?;
        if sample.repeated {
            outcome.pass(CHECK, "equal bit by bit");
        } else if self.bench.opened.contract.deterministic == Some(true) {
            let text = "two runs on the same input differ; the contract demands equal bits";
            return Err(Verdict::of(Kind::Nondeterministic, text)).check(CHECK);
        } else {
            outcome.pass(CHECK, "differ by less than a quarter of the tolerance");
        }
        Ok(())
    }

    /// Whether it returns memory that an earlier result still needs: then results are copied, as a part of the call. From
    /// here on the memory of results is filled with a pattern once they are taken.
    fn verify_memory(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Tried<()> {
        const CHECK: &str = "memory of results";
        outcome.reuses_buffers = arm.reuses;
        arm.clones = arm.reuses;
        arm.fills = true;
        arm.ask(op::CopyResults(arm.clones), self.call_limit()).check(CHECK)?;
        let set = self.bench.referee.set(0, OWN, 1)?;
        for _ in 0..2 {
            let how = How::untimed(self.call_limit());
            self.bench.call(arm, &set, how).check(CHECK)?;
        }
        let detail = if arm.clones {
            "used again for the next result: each is copied as a part of the call"
        } else {
            "of their own"
        };
        outcome.pass(CHECK, detail);
        Ok(())
    }

    /// A thread that goes on writing to the returned tensor would spoil it for whoever uses it.
    fn verify_later(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Tried<()> {
        const CHECK: &str = "re-check after the call";
        self.bench.stays_as_left(arm, LATER).check(CHECK)?;
        outcome.pass(CHECK, "output unchanged");
        Ok(())
    }

    /// Right after the set that they were made from: an output that is remembered by a part of its input, or that leaves a
    /// part of it out, is found out.
    fn verify_slices(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Tried<()> {
        const CHECK: &str = "slices changed";
        let how = How::untimed(self.call_limit());
        for number in 0..SLICES {
            for set in [self.bench.referee.set(0, OWN, 0)?, self.bench.referee.set(0, SLICE, number)?] {
                self.bench.call(arm, &set, how).check(CHECK)?;
            }
        }
        outcome.pass(CHECK, format!("the output follows, {SLICES} times"));
        Ok(())
    }

    fn verify_swapped_weights(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Tried<()> {
        const CHECK: &str = "weights changed between calls";
        for variant in [1, 0] {
            arm.ask(op::LoadWeights(variant as u64), self.call_limit()).check(CHECK)?;
            let set = self.bench.referee.set(variant, OWN, 0)?;
            let how = How::untimed(self.call_limit());
            self.bench.call(arm, &set, how).check(CHECK)?;
        }
        outcome.pass(CHECK, "the output follows");
        Ok(())
    }

    /// Who computes: framework operators by name and time, and whether the candidate's own kernels matter at all.
    ///
    /// The arm's cell is ended; its sandbox is given back where the audit found nothing against the candidate.
    pub(crate) fn audit(&mut self, mut arm: Arm, source: &str, outcome: &mut Outcome) -> Tried<Sandbox> {
        let set = self.bench.referee.set(0, OWN, 1)?;
        let limit = self.call_limit();
        let mut shares = Vec::new();
        for _ in 0..AUDITED_CALLS {
            let answer = self.bench.audited(&mut arm, &set, limit).check("audit")?;
            shares.push((answer.operators_ns as f64 / answer.inside_ns.max(1) as f64).clamp(0.0, 1.0));
        }
        let operators = arm.cell.detail_text().replace('\n', ", ");
        // The first call under a watch also pays for what the watch loads.
        outcome.framework_share = median(&shares[1..]);
        if self.bench.opened.contract.operators == Some(Operators::Own) && !operators.is_empty() {
            let text = format!("framework operators compute ({operators}); the contract wants own kernels only");
            return Err(Verdict::of(Kind::FrameworkOperator, text)).check("operators");
        }
        let named = if operators.is_empty() { "none".to_owned() } else { operators };
        outcome.pass("framework operators", named);
        // What the verified cell left running must not be there: it could spoil this one, and timing starts anew anyway.
        let Arm { mut sandbox, cell, .. } = arm;
        self.bench.end_cell(&mut sandbox, cell)?;
        let skipping = Special { skip_kernels: true, ..self.bench.ordinary() };
        let cell = self.bench.candidate_cell(&mut sandbox, source, skipping)?;
        let mut arm = self.bench.arm(sandbox, cell, Side::Candidate)?;
        let honest = self.audit_own_kernels(&mut arm, outcome).check(OWN_KERNELS);
        self.bench.end_arm(arm, honest, outcome)
    }

    /// The same candidate with its kernels switched off: if the output is still right, they were a decoy.
    fn audit_own_kernels(&mut self, arm: &mut Arm, outcome: &mut Outcome) -> Tried<()> {
        let set = self.bench.referee.set(0, OWN, 0)?;
        let Ok(answer) = self.call_without_kernels(arm, &set).or_reason()? else {
            outcome.pass(OWN_KERNELS, "nothing works without them");
            return Ok(());
        };
        let still_right = self.bench.referee.compare(&set, Side::Candidate, Repeat::No)?.passed().is_ok();
        match (answer.launches, still_right) {
            (0, true) => {
                outcome.pass(OWN_KERNELS, "none ran: framework operators only");
                outcome.verdict.kind = Some(Kind::FrameworkOnly);
                // What is left of its time is Python, and launches of the framework's kernels.
                outcome.framework_share = Some(1.0);
            }
            (launches, true) => {
                let text = format!(
                    "the output is right without the candidate's own kernels ({} skipped): they do not contribute to it",
                    counted(launches)
                );
                return Err(Verdict::of(Kind::FakeKernel, text).into());
            }
            (launches, false) => {
                outcome.pass(OWN_KERNELS, format!("the output depends on them ({})", counted(launches)));
            }
        }
        Ok(())
    }

    fn call_without_kernels(&mut self, arm: &mut Arm, set: &InputSet) -> Tried<Audited> {
        let limit = self.bench.options.timeout;
        arm.ask(op::Import, limit)?;
        arm.ask(op::Construct(0), limit)?;
        self.bench.audited(arm, set, limit)
    }
}

/// A distribution in words.
fn called(distribution: &str) -> &str {
    if distribution == OWN { "problem's inputs" } else { distribution }
}

/// "1 launch", "2 launches".
fn counted(launches: u64) -> String {
    format!("{launches} launch{}", if launches == 1 { "" } else { "es" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_and_distributions_are_called_by_words_that_people_know() {
        assert_eq!([counted(1), counted(2)], ["1 launch", "2 launches"]);
        assert_eq!([called(OWN), called("heavy")], ["problem's inputs", "heavy"]);
    }
}
