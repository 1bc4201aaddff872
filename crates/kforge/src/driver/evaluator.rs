//! Who judges: the real evaluator, opened when the first candidate is there.

use kforge_exec::{EvalOptions, ExecError, Observer, Session};
use kforge_types::{EvalResult, Profile};
use std::path::PathBuf;

/// Verdicts, times and profiles. `Err` means that our machinery failed, never that a kernel is bad.
pub(crate) trait Evaluator {
    fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult>;

    fn profile(&mut self, source: &str, time_us: Option<f64>, observer: &dyn Observer) -> anyhow::Result<Profile>;

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
}

impl Evaluator for LiveEvaluator {
    /// A session that failed is thrown away, and the candidate judged in a new one: once.
    fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        let first = self.session(observer)?.judge(name, source, observer);
        match first {
            Ok(result) => Ok(result),
            // Another try would find the same problem and the same machine.
            Err(error @ (ExecError::Problem(_) | ExecError::Sandbox(_))) => Err(error.into()),
            Err(error) => {
                tracing::warn!("the evaluator failed and is started anew: {error}");
                self.session = None;
                let again = self.session(observer)?.judge(name, source, observer);
                again.map_err(|error| {
                    self.session = None;
                    GaveUp(error.to_string()).into()
                })
            }
        }
    }

    fn profile(&mut self, source: &str, time_us: Option<f64>, observer: &dyn Observer) -> anyhow::Result<Profile> {
        let profile = self.session(observer)?.profile(source, time_us, observer);
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
        Ok(session.judge(name, source, observer)?)
    }
}
