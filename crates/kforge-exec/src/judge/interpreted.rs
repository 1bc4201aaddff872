//! Triton without a GPU: interpreted on the CPU for correctness, compiled ahead of time for what the compiler says.

use super::{Observer, Session, outcome::Outcome, spec::Special};
use crate::{cell::Op, error::Result, sandbox::Sandbox};
use kforge_types::State;
use std::time::Instant;

const AHEAD_OF_TIME: &str = "ahead of time";

impl Session {
    pub(crate) fn judge_interpreted(
        &mut self,
        source: &str,
        outcome: &mut Outcome,
        observer: &dyn Observer,
    ) -> Result<()> {
        let Some(mut sandbox) = self.interpret(source, outcome, observer)? else { return Ok(()) };
        observer.stage("compiling kernels ahead of time");
        let begun = Instant::now();
        self.compile_ahead_of_time(&mut sandbox, source, outcome)?;
        outcome.stage("ahead_of_time", begun.elapsed().as_secs_f64());
        outcome.log = sandbox.log.text();
        Ok(())
    }

    /// At reduced sizes first; a kernel that is written for the problem's own sizes gets a second chance there.
    fn interpret(&mut self, source: &str, outcome: &mut Outcome, observer: &dyn Observer) -> Result<Option<Sandbox>> {
        let first = self.interpret_once(source, outcome, observer)?;
        let reduced =
            self.opened.variants.first().is_some_and(|v| v["sizes"].as_object().is_some_and(|s| !s.is_empty()));
        let may_be_specialised = matches!(outcome.verdict.state, State::Mismatch | State::RuntimeError);
        if first.is_some() || !reduced || !may_be_specialised {
            return Ok(first);
        }
        observer.stage("trying the problem's own sizes");
        let at_reduced = outcome.restart();
        let second = self.at_other_sizes(false, |session| {
            outcome.report = Some(session.opened.report.clone());
            session.interpret_once(source, outcome, observer)
        })?;
        if second.is_some() {
            outcome.pass("other sizes", format!("right at the problem's own sizes only; {}", at_reduced.reason));
        }
        Ok(second)
    }

    fn interpret_once(
        &mut self,
        source: &str,
        outcome: &mut Outcome,
        observer: &dyn Observer,
    ) -> Result<Option<Sandbox>> {
        let Some(mut arm) = self.build(source, &[], outcome, observer)? else { return Ok(None) };
        observer.stage("verifying under Triton's interpreter");
        let begun = Instant::now();
        let right = self.verify(&mut arm, outcome)?;
        outcome.stage("verify", begun.elapsed().as_secs_f64());
        outcome.log = arm.sandbox.log.text();
        if !right {
            return Ok(None);
        }
        let begun = Instant::now();
        // Before the audit clears the sandbox: the launches are kept in the scratch folder.
        match arm.ask(Op::AheadOfTime, self.options.timeout)? {
            Ok(answer) => self.launches = answer.a,
            Err(verdict) => {
                outcome.fail(AHEAD_OF_TIME, verdict);
                return Ok(None);
            }
        }
        let audited = self.audit(arm, source, outcome)?;
        outcome.stage("audit", begun.elapsed().as_secs_f64());
        Ok(audited)
    }

    fn compile_ahead_of_time(&mut self, sandbox: &mut Sandbox, source: &str, outcome: &mut Outcome) -> Result<()> {
        if self.launches == 0 {
            outcome.pass(AHEAD_OF_TIME, "no Triton kernel was launched");
            return Ok(());
        }
        self.compile_kernels(sandbox, source, outcome)
    }

    /// In a process that imports the candidate and runs nothing.
    pub(crate) fn compile_kernels(&mut self, sandbox: &mut Sandbox, source: &str, outcome: &mut Outcome) -> Result<()> {
        let limit = self.options.timeout;
        let special = Special { ahead_of_time: true, ..Special::default() };
        let mut cell = self.builder(sandbox, source, special)?;
        let mut last = cell.ask(sandbox, Op::Import, limit)?;
        if last.is_ok() {
            last = cell.ask(sandbox, Op::AheadOfTime, limit)?;
        }
        match last {
            Err(verdict) => {
                outcome.fail(AHEAD_OF_TIME, verdict);
            }
            Ok(answer) => {
                let unchecked = match answer.b {
                    0 => String::new(),
                    n => format!(", {n} could not be checked ({})", cell.detail_text()),
                };
                outcome
                    .pass(AHEAD_OF_TIME, format!("{} kernels compiled for {}{unchecked}", answer.a, self.options.arch));
            }
        }
        Ok(())
    }
}
