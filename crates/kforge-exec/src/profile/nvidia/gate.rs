//! compute-sanitizer on a winner: what it finds sends a candidate back, whatever its outputs look like.

use super::{
    super::{DOES_NOT_BUILD, NOT_CONSTRUCTED, refused},
    capture::Under,
    sanitizer::{self, Ended, TOOLS},
    sass::Facts,
    session::Built,
    tool::{self, Call, Program, Running},
};
use crate::{
    error::{ExecError, Result},
    failure::{OnFailure, Tried},
    judge::{
        Observer, Session,
        arm::{Arm, How},
        outcome::Outcome,
        spec::Special,
        verify::OWN,
    },
};
use kforge_types::{SanitizerReport, SanitizerTool};
use std::time::Duration;

const LIMIT: Duration = Duration::from_mins(2);
/// Every tool has a process with torch of its own; more at once would not fit into one candidate's memory.
const AT_ONCE: usize = 2;
/// Instances must not listen on each other's ports.
const FIRST_PORT: usize = 49_152;
const PORTS_EACH: usize = 16;
const REDUCED: &str = "reduced sizes";
const OWN_SIZES: &str = "the problem's own sizes";

impl Session {
    /// Runs all four tools on one candidate, at reduced sizes where its output is right there, else at the problem's own.
    ///
    /// `Err` means that our own machinery failed. `SanitizerReport::digest` says whether the candidate is to go back.
    pub fn sanitize(&mut self, source: &str, observer: &dyn Observer) -> Result<SanitizerReport> {
        let Some(device) = self.checked_by_sanitizer() else {
            return Ok(none("there is no GPU in this session: compute-sanitizer checks kernels where they run"));
        };
        let Some(program) = Program::find("compute-sanitizer") else {
            return Ok(none("compute-sanitizer is not there; it comes with the CUDA toolkit"));
        };
        let _lock = self.bench.lock_shared(observer)?;
        observer.stage("looking for smaller sizes");
        if let Some(report) = self.sanitize_reduced(device, &program, source, observer)? {
            return Ok(report);
        }
        match self.right_arm(OWN_SIZES, source, observer).or_reason()? {
            Ok(arm) => self.run_tools(arm, device, &program, source, OWN_SIZES, observer),
            Err(reason) => Ok(none(&reason)),
        }
    }

    /// None where the problem cannot be made smaller, or the candidate is written for its own sizes.
    fn sanitize_reduced(
        &mut self,
        device: &str,
        program: &Program,
        source: &str,
        observer: &dyn Observer,
    ) -> Result<Option<SanitizerReport>> {
        let made = self.at_other_sizes(true, |session| session.sanitize_here(device, program, source, observer));
        match made {
            // What cannot be made smaller is checked as it is.
            Err(ExecError::Problem(_) | ExecError::NoRoom(_)) => Ok(None),
            made => made,
        }
    }

    fn sanitize_here(
        &mut self,
        device: &str,
        program: &Program,
        source: &str,
        observer: &dyn Observer,
    ) -> Result<Option<SanitizerReport>> {
        let smaller =
            self.bench.opened.variants.first().is_some_and(|v| v["sizes"].as_object().is_some_and(|s| !s.is_empty()));
        if !smaller {
            return Ok(None);
        }
        match self.right_arm(REDUCED, source, observer).or_reason()? {
            Ok(arm) => self.run_tools(arm, device, program, source, REDUCED, observer).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Built, constructed and called once, with the right output.
    fn right_arm(&mut self, sizes: &str, source: &str, observer: &dyn Observer) -> Tried<Arm> {
        let mut outcome = Outcome::begin(self, sizes, source);
        let built = self.bench.build(source, &[Special::default()], &mut outcome, observer);
        let mut arm = built.because(DOES_NOT_BUILD)?;
        arm.construct(0, self.bench.options.timeout).because(NOT_CONSTRUCTED)?;
        let set = self.bench.referee.set(0, OWN, 0)?;
        let called = self.bench.call(&mut arm, &set, How::untimed(self.bench.options.timeout));
        called.denied(|verdict| refused(verdict, "not checked"))?;
        Ok(arm)
    }

    fn run_tools(
        &mut self,
        mut arm: Arm,
        device: &str,
        program: &Program,
        source: &str,
        sizes: &str,
        observer: &dyn Observer,
    ) -> Result<SanitizerReport> {
        observer.stage("checking memory and races with compute-sanitizer");
        let mut built = Built::default();
        self.read_instructions(&mut arm.sandbox, &mut built)?;
        let by_mbarrier = built.facts.values().any(Facts::synchronises_by_mbarrier);
        // The candidate's own process would only take memory from the tools.
        arm.sandbox.clear(&[])?;
        let mut sandbox = arm.sandbox;
        let weights = self.bench.referee.weights(&self.bench.opened)?;
        let Some(weights) = weights.first() else { return Ok(none("the problem has no sizes")) };
        let under = Under { device, source, weights };
        let mut report = SanitizerReport { sizes: sizes.to_owned(), tools: Vec::new() };
        let numbered: Vec<(usize, &(&str, &[&str]))> = TOOLS.iter().enumerate().collect();
        for together in numbered.chunks(AT_ONCE) {
            let mut running: Vec<(&str, std::result::Result<Running, String>)> = Vec::new();
            for (number, (name, options)) in together {
                let call = call(program, *number, name, options);
                // No call to warm up: every access counts.
                running.push((name, self.start_solo(&mut sandbox, &call, under, 0).or_reason()?));
            }
            for (name, running) in running {
                let tool = match running {
                    Ok(running) => match running.collect(&mut sandbox).or_reason()? {
                        Ok(ended) => {
                            tool::keep_raw(name, &ended);
                            let how = Ended {
                                timed_out: ended.timed_out,
                                limit_s: LIMIT.as_secs(),
                                seconds: ended.seconds,
                                program: ended.program(),
                                finished: ended.status.done,
                            };
                            sanitizer::judge(name, &ended.log, &how, by_mbarrier)
                        }
                        Err(reason) => failed(name, &reason),
                    },
                    Err(reason) => failed(name, &reason),
                };
                report.tools.push(tool);
            }
        }
        Ok(report)
    }
}

fn call(program: &Program, number: usize, name: &str, options: &[&str]) -> Call {
    let port = (FIRST_PORT + number * PORTS_EACH).to_string();
    let common = [
        "--tool",
        name,
        "--print-limit",
        "20",
        "--show-backtrace",
        "no",
        "--target-processes",
        "application-only",
        "--launch-timeout",
        "0",
        "--error-exitcode",
        "99",
        "--port",
        &port,
    ];
    Call {
        program: program.path.clone(),
        arguments: common.iter().chain(options).map(|word| (*word).to_owned()).collect(),
        // One allocation for each tensor: in a pool an access behind one tensor's end is inside of the next.
        environment: [("PYTORCH_NO_CUDA_MEMORY_CACHING".to_owned(), "1".to_owned())].into(),
        limit: LIMIT,
        // A slow checker beside another would only be slower, and run into its limit.
        waits: true,
    }
}

fn failed(name: &str, reason: &str) -> SanitizerTool {
    SanitizerTool { name: name.to_owned(), detail: reason.to_owned(), ..SanitizerTool::default() }
}

/// The same reason for all of them.
fn none(reason: &str) -> SanitizerReport {
    let tools = TOOLS.iter().map(|(name, _)| failed(name, reason)).collect();
    SanitizerReport { sizes: OWN_SIZES.to_owned(), tools }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_its_own_ports_and_options() {
        let program = Program { path: "/x/compute-sanitizer".into(), version: "1".into() };
        let lines: Vec<String> = TOOLS
            .iter()
            .enumerate()
            .map(|(n, (name, options))| call(&program, n, name, options).arguments.join(" "))
            .collect();
        assert!(lines[0].contains("--tool memcheck") && lines[0].ends_with("--report-api-errors no --leak-check no"));
        assert!(lines[1].contains("--port 49168") && lines[1].ends_with("--racecheck-report analysis"));
        assert_eq!(none("x").digest(), None);
        assert!(none("x").tools.iter().all(|tool| !tool.ran && tool.detail == "x"));
    }
}
