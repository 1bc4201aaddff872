//! Who judges: the real evaluator, opened when the first candidate is there.

use kforge_exec::{EvalOptions, ExecError, Observer, ProfileOptions, Session};
use kforge_types::{Check, EvalResult, Kind, Profile, SANITIZER, SanitizerReport, State};
use std::path::PathBuf;

const STAYED: &str = "; other kforge sessions held a part of the device's memory all the while";

/// Verdicts, times and profiles. `Err` means that our machinery failed, never that a kernel is bad.
pub(crate) trait Evaluator {
    fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult>;

    fn profile(&mut self, source: &str, options: ProfileOptions, observer: &dyn Observer) -> anyhow::Result<Profile>;

    /// Judges once more with new secret inputs in fresh processes.
    fn confirm(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult>;
}

/// The machinery failed twice on one candidate and works otherwise: the run goes on without that candidate.
#[derive(Debug)]
pub(crate) struct GaveUp(pub(crate) String);

impl std::fmt::Display for GaveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the evaluator failed on this candidate twice: {}", self.0)
    }
}

impl std::error::Error for GaveUp {}

/// A session of `kforge-exec` that is made when it is needed.
pub(crate) struct LiveEvaluator {
    options: EvalOptions,
    problem: PathBuf,
    session: Option<Session>,
}

impl LiveEvaluator {
    pub(crate) fn new(options: EvalOptions, problem: PathBuf) -> Self {
        Self { options, problem, session: None }
    }

    fn session(&mut self, observer: &dyn Observer) -> anyhow::Result<&mut Session> {
        if self.session.is_none() {
            self.session = Some(Session::open(self.options.clone(), &self.problem, observer)?);
        }
        self.session.as_mut().ok_or_else(|| anyhow::anyhow!("no session"))
    }

    /// Whether there was no memory while others had some of it: nobody knows whose fault that is.
    fn was_crowded(&self, judged: &Result<EvalResult, ExecError>) -> Result<bool, ExecError> {
        let no_memory = match judged {
            Ok(result) => result.kind == Some(Kind::OutOfMemory),
            Err(error) => matches!(error, ExecError::NoRoom(_)),
        };
        match &self.session {
            Some(session) if no_memory => session.has_company(),
            _ => Ok(false),
        }
    }

    /// Once more with the whole device, which is held for this candidate only. What was said before stands where others
    /// stay on it.
    fn judge_alone(
        &mut self,
        name: &str,
        source: &str,
        observer: &dyn Observer,
        before: Result<EvalResult, ExecError>,
    ) -> anyhow::Result<EvalResult> {
        self.session = None;
        if let Some(mut session) = Session::open_alone(self.options.clone(), &self.problem, observer)? {
            return Ok(session.judge(name, source, observer)?);
        }
        let mut result = before?;
        result.reason.push_str(STAYED);
        Ok(result)
    }
}

impl Evaluator for LiveEvaluator {
    /// A session that failed is thrown away, and the candidate judged in a new one: once.
    fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        let first = self.session(observer)?.judge(name, source, observer);
        if self.was_crowded(&first)? {
            return self.judge_alone(name, source, observer, first);
        }
        match first {
            Ok(result) => Ok(result),
            Err(error) if stays(&error) => Err(error.into()),
            Err(error) => {
                tracing::warn!("the evaluator failed and is started anew: {error}");
                self.session = None;
                let again = self.session(observer)?.judge(name, source, observer);
                again.map_err(|error| {
                    self.session = None;
                    if stays(&error) { error.into() } else { GaveUp(error.to_string()).into() }
                })
            }
        }
    }

    fn profile(&mut self, source: &str, options: ProfileOptions, observer: &dyn Observer) -> anyhow::Result<Profile> {
        let profile = self.session(observer)?.profile(source, options, observer);
        if profile.is_err() {
            self.session = None;
        }
        Ok(profile?)
    }

    fn confirm(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        self.session = None;
        // Secret inputs are drawn anew; baselines that were kept stay, and are measured beside the winner again.
        let options = EvalOptions { fresh: true, ..self.options.clone() };
        let mut session = Session::open(options, &self.problem, observer)?;
        let mut result = session.judge(name, source, observer)?;
        if result.state == State::Correct && session.runs_on_gpu() {
            match session.sanitize(source, observer) {
                Ok(report) => gate(&mut result, &report),
                Err(error) => {
                    tracing::warn!("compute-sanitizer could not be run: {error}");
                    let detail = format!("not tried: {error}");
                    result.checks.push(Check { name: SANITIZER.to_owned(), passed: false, detail });
                }
            }
        }
        Ok(result)
    }
}

/// Whether another try would find the same problem and the same machine. A device that is out of use above all: the
/// candidate that stopped it must not come to another one by itself.
fn stays(error: &ExecError) -> bool {
    match error {
        ExecError::Problem(_)
        | ExecError::NoRoom(_)
        | ExecError::Toolchain(_)
        | ExecError::Sandbox(_)
        | ExecError::Busy(_)
        | ExecError::OutOfUse(_) => true,
        ExecError::Harness(_) | ExecError::Io { .. } => false,
    }
}

/// Outputs that are right do not excuse accesses that are wrong: such a winner goes back. A tool that did not run has
/// found nothing, which is not the same as nothing to be found.
fn gate(result: &mut EvalResult, report: &SanitizerReport) {
    for tool in &report.tools {
        let name = format!("{SANITIZER} {}", tool.name);
        let passed = tool.ran && (tool.errors == 0 || tool.advisory);
        result.checks.push(Check { name, passed, detail: tool.detail.clone() });
    }
    if let Some(verdict) = report.verdict() {
        (result.state, result.kind, result.reason) = (verdict.state, verdict.kind, verdict.reason);
        (result.speedup, result.speedup_ci) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::scripted::verdict;
    use kforge_types::SanitizerTool;

    #[test]
    fn a_winner_with_bad_accesses_goes_back_and_an_advisory_finding_is_only_noted() {
        let report = |advisory| SanitizerReport {
            sizes: "reduced sizes".to_owned(),
            tools: vec![SanitizerTool {
                name: "racecheck".to_owned(),
                ran: true,
                errors: 1,
                advisory,
                ..SanitizerTool::default()
            }],
        };
        let mut sent_back = verdict("a", "# speedup 2.0");
        gate(&mut sent_back, &report(false));
        assert_eq!((sent_back.state, sent_back.kind), (State::RuntimeError, Some(Kind::Sanitizer)));
        assert!(sent_back.reason.contains("racecheck") && sent_back.speedup.is_none());
        assert!(sent_back.checks.iter().any(|check| check.name == "compute-sanitizer racecheck" && !check.passed));
        let mut noted = verdict("a", "# speedup 2.0");
        gate(&mut noted, &report(true));
        assert!(noted.state == State::Correct && noted.speedup.is_some());
        assert!(noted.checks.iter().all(|check| check.passed));
    }

    #[test]
    fn a_tool_that_did_not_run_has_not_passed_and_does_not_send_back() {
        let detail = "compute-sanitizer is not installed".to_owned();
        let tool = SanitizerTool { name: "memcheck".to_owned(), detail, ..SanitizerTool::default() };
        let mut winner = verdict("a", "# speedup 2.0");
        gate(&mut winner, &SanitizerReport { sizes: String::new(), tools: vec![tool] });
        assert_eq!(winner.state, State::Correct);
        assert!(winner.checks.iter().any(|check| check.name == "compute-sanitizer memcheck" && !check.passed));
    }

    #[test]
    fn nothing_is_tried_again_on_a_device_that_is_out_of_use() {
        assert!(stays(&ExecError::OutOfUse("GPU 0 does not answer".to_owned())));
        assert!(!stays(&ExecError::Harness("it ended".to_owned())));
    }
}
