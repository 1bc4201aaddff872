//! Triton without a GPU: interpreted on the CPU for correctness, compiled ahead of time for what the compiler says.

use super::{Observer, Session, compiled::AHEAD_OF_TIME, outcome::Outcome, stage::Stage};
use crate::{
    error::ExecError,
    failure::{Failure, OnFailure, Tried},
    sandbox::Sandbox,
    wire::op,
};
use kforge_types::{Kind, State, Verdict};

/// How a cell says that it met something of this sort; `Uninterpretable` in
/// `harness/kforge_harness/hostile/failure.py`.
const CANNOT_RUN: &str = "Triton's interpreter cannot run `";
/// What has no meaning without a GPU, by the name that a candidate's text has for it.
const NEEDS_GPU: [&str; 13] = [
    "CUDAGraph",
    "atomic_add",
    "convert_custom_float8_sm70",
    "convert_custom_float8_sm80",
    "globaltimer",
    "gluon",
    "graph",
    "inline_asm_elementwise",
    "make_graphed_callables",
    "map_elementwise",
    "num_threads",
    "num_warps",
    "smid",
];
/// Functions of NVIDIA's library for devices: most run, the rest is too long to name.
const LIBRARY: &str = "libdevice.";

/// A candidate that was right under the interpreter.
struct Interpreted {
    sandbox: Sandbox,
    /// Distinct ones, of Triton's kernels.
    launches: u64,
}

impl Session {
    pub(crate) fn judge_interpreted(
        &mut self,
        source: &str,
        outcome: &mut Outcome,
        observer: &dyn Observer,
    ) -> Tried<()> {
        let Interpreted { sandbox, launches } = self.interpret(source, outcome, observer)?;
        let mut sandbox = self.verify_on_other_draws(sandbox, source, outcome, observer)?;
        observer.stage("compiling kernels ahead of time");
        let compiled = outcome.timed(Stage::AheadOfTime, |outcome| match launches {
            0 => {
                outcome.pass(AHEAD_OF_TIME, "no Triton kernel was launched");
                Ok(())
            }
            _ => self.bench.compile_kernels(&mut sandbox, source, outcome),
        });
        outcome.log = sandbox.log.text();
        compiled
    }

    /// At reduced sizes first; a kernel that is written for the problem's own sizes gets a second chance there.
    fn interpret(&mut self, source: &str, outcome: &mut Outcome, observer: &dyn Observer) -> Tried<Interpreted> {
        let reduced =
            self.bench.opened.variants.first().is_some_and(|v| v["sizes"].as_object().is_some_and(|s| !s.is_empty()));
        let at_reduced = match self.interpret_once(source, outcome, observer) {
            Err(Failure::Refused(refusal)) if reduced && may_be_specialised(&refusal.verdict) => refusal.verdict,
            tried => return tried,
        };
        observer.stage("trying the problem's own sizes");
        outcome.restart();
        let interpreted = self.at_other_sizes(false, |session| {
            outcome.report = Some(session.bench.opened.report.clone());
            session.interpret_once(source, outcome, observer)
        })?;
        outcome.pass("other sizes", format!("right at the problem's own sizes only; {}", at_reduced.reason));
        Ok(interpreted)
    }

    fn interpret_once(&mut self, source: &str, outcome: &mut Outcome, observer: &dyn Observer) -> Tried<Interpreted> {
        self.build_and_interpret(source, outcome, observer).map_err(|failure| match failure {
            Failure::Refused(refusal) => match uninterpretable(&refusal.verdict, source) {
                Some(construct) => ExecError::Uninterpretable(construct).into(),
                None => Failure::Refused(refusal),
            },
            other => other,
        })
    }

    fn build_and_interpret(
        &mut self,
        source: &str,
        outcome: &mut Outcome,
        observer: &dyn Observer,
    ) -> Tried<Interpreted> {
        let mut arm = self.bench.build(source, &[], outcome, observer)?;
        observer.stage("verifying under Triton's interpreter");
        let right = outcome.timed(Stage::Verify, |outcome| self.verify(&mut arm, outcome));
        outcome.log = arm.sandbox.log.text();
        right?;
        // Before the audit clears the sandbox: the launches are kept in the scratch folder.
        let launches = arm.ask(op::KeepLaunches, self.bench.options.timeout).check(AHEAD_OF_TIME)?.launches;
        let sandbox = outcome.timed(Stage::Audit, |outcome| self.audit(arm, source, outcome))?;
        Ok(Interpreted { sandbox, launches })
    }
}

fn may_be_specialised(verdict: &Verdict) -> bool {
    matches!(verdict.state, State::Mismatch | State::RuntimeError)
}

/// What the candidate asks of a GPU, where that is why it failed. A cell is not believed by itself: the candidate's text
/// has to name it, and it has to be known that an interpreter cannot do it.
fn uninterpretable(verdict: &Verdict, source: &str) -> Option<String> {
    if verdict.kind != Some(Kind::Exception) {
        return None;
    }
    let (construct, _) = verdict.reason.strip_prefix(CANNOT_RUN)?.split_once('`')?;
    let name = construct.strip_prefix(LIBRARY).unwrap_or(construct);
    let known = construct.starts_with(LIBRARY) || NEEDS_GPU.contains(&name);
    let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let mut words = source.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    (known && is_word(name) && words.any(|word| word == name)).then(|| construct.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_gpu_is_believed_where_the_text_names_it() {
        let said = |construct: &str| Verdict::of(Kind::Exception, format!("{CANNOT_RUN}{construct}`"));
        let source = "y = tl.inline_asm_elementwise(...)\nz = libdevice.fma_ru(y, y, y)\nw = smids(z) + exp(z)\n";
        let found = |construct: &str| uninterpretable(&said(construct), source);
        assert_eq!(found("inline_asm_elementwise").as_deref(), Some("inline_asm_elementwise"));
        assert_eq!(found("libdevice.fma_ru").as_deref(), Some("libdevice.fma_ru"));
        for unconfirmed in ["smid", "exp", "libdevice.fma_rd", "libdevice.", ""] {
            assert_eq!(found(unconfirmed), None, "{unconfirmed}");
        }
        let other = Verdict::of(Kind::Timeout, format!("{CANNOT_RUN}inline_asm_elementwise`"));
        assert_eq!(uninterpretable(&other, source), None);
        let raised = Verdict::of(Kind::Exception, "RuntimeError: inline_asm_elementwise");
        assert_eq!(uninterpretable(&raised, source), None);
    }
}
