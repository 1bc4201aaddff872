//! This process evaluates: a session of `kforge-exec`, opened when it is needed.

use super::{
    Executor, GaveUp,
    company::{Case, Seat, judge_beside_others},
    gate::gate,
};
use crate::job::{Here, JobOptions};
use anyhow::Context;
use kforge_exec::{
    CacheDirs, Contender, EvalOptions, ExecError, Observer, ProfileOptions, Session,
    python::{self, PythonRequest},
};
use kforge_types::{Check, DuelOutcome, EvalResult, Profile, SANITIZER, SanitizerReport, State};
use std::path::PathBuf;

/// Where the interpreter and the cache of this machine are looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct HereRequest {
    /// The Python with torch, where one is named.
    pub(crate) python: Option<PathBuf>,
    /// kforge's cache folder, where it is not the usual one.
    pub(crate) cache: Option<CacheDirs>,
    /// Which of its GPUs, counted from 0.
    pub(crate) device: Option<usize>,
}

impl HereRequest {
    /// Finds the interpreter, or makes one.
    pub(crate) fn find(&self, progress: &dyn python::Progress) -> anyhow::Result<Here> {
        let mut request = PythonRequest::from_environment(self.python.clone());
        let cache = match &self.cache {
            Some(chosen) => chosen.clone(),
            None => CacheDirs::from_environment()?,
        };
        request.cache = Some(cache.clone());
        let python = python::ensure(&request, progress)?.executable;
        Ok(Here { python, cache: cache.create("eval").context("preparing the cache")?, device: self.device })
    }
}

/// Evaluates here.
pub(crate) struct Local {
    problem: PathBuf,
    wanted: JobOptions,
    here: HereRequest,
    /// Once the interpreter is found.
    options: Option<EvalOptions>,
    session: Option<Session>,
}

impl Local {
    /// Nothing is looked for yet.
    pub(crate) fn new(wanted: JobOptions, here: HereRequest, problem: PathBuf) -> Self {
        Self { problem, wanted, here, options: None, session: None }
    }

    /// Where everything is found already.
    pub(crate) fn at(here: &Here, wanted: JobOptions, problem: PathBuf) -> anyhow::Result<Self> {
        let options = wanted.here(here)?;
        Ok(Self { options: Some(options), ..Self::new(wanted, HereRequest::default(), problem) })
    }

    fn options(&mut self) -> anyhow::Result<EvalOptions> {
        self.prepare(&python::Silent)?;
        self.options.clone().context("no options")
    }

    fn session(&mut self, observer: &dyn Observer) -> anyhow::Result<&mut Session> {
        if self.session.is_none() {
            let options = self.options()?;
            self.session = Some(Session::open(options, &self.problem, observer)?);
        }
        self.session.as_mut().context("no session")
    }

    /// In `session`, and where others left it too little of the device, in one that has the device for itself.
    fn judge_in(
        &self,
        session: Session,
        options: &EvalOptions,
        case: &Case<'_>,
    ) -> Result<(Seat<Session>, EvalResult), ExecError> {
        let alone = || Session::open_alone(options.clone(), &self.problem, case.observer);
        judge_beside_others(session, alone, case)
    }
}

impl Executor for Local {
    fn prepare(&mut self, progress: &dyn python::Progress) -> anyhow::Result<()> {
        if self.options.is_none() {
            self.options = Some(self.wanted.here(&self.here.find(progress)?)?);
        }
        Ok(())
    }

    /// A session that failed is thrown away, and the candidate judged in a new one: once.
    fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        let case = Case { name, source, observer };
        let options = self.options()?;
        let mut first_try = true;
        loop {
            self.session(observer)?;
            let Some(session) = self.session.take() else { anyhow::bail!("no session") };
            match self.judge_in(session, &options, &case) {
                Ok((seat, result)) => {
                    self.session = seat.usual();
                    return Ok(result);
                }
                Err(error) if stays(&error) => return Err(error.into()),
                Err(error) if first_try => tracing::warn!("the evaluator failed and is started again: {error}"),
                Err(error) => return Err(GaveUp(error.to_string()).into()),
            }
            first_try = false;
        }
    }

    fn profile(&mut self, source: &str, options: ProfileOptions, observer: &dyn Observer) -> anyhow::Result<Profile> {
        let profile = self.session(observer)?.profile(source, options, observer);
        if profile.is_err() {
            self.session = None;
        }
        Ok(profile?)
    }

    fn sanitize(&mut self, source: &str, observer: &dyn Observer) -> anyhow::Result<SanitizerReport> {
        let report = self.session(observer)?.sanitize(source, observer);
        if report.is_err() {
            self.session = None;
        }
        Ok(report?)
    }

    fn duel(&mut self, contenders: [Contender<'_>; 2], observer: &dyn Observer) -> anyhow::Result<DuelOutcome> {
        let outcome = self.session(observer)?.duel(contenders, observer);
        if outcome.is_err() {
            self.session = None;
        }
        Ok(outcome?)
    }

    fn confirm(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        self.session = None;
        // Secret inputs are drawn again; baselines that were kept stay, and are measured beside the winner again.
        let options = EvalOptions { fresh: true, ..self.options()? };
        let session = Session::open(options.clone(), &self.problem, observer)?;
        let (seat, mut result) = self.judge_in(session, &options, &Case { name, source, observer })?;
        if result.state == State::Correct
            && let Some(mut session) = seat.any().filter(Session::runs_on_gpu)
        {
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
        | ExecError::Uninterpretable(_)
        | ExecError::Sandbox(_)
        | ExecError::Busy(_)
        | ExecError::OutOfUse(_) => true,
        ExecError::Harness(_) | ExecError::Baseline(_) | ExecError::Io { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_tried_again_on_a_device_that_is_out_of_use() {
        assert!(stays(&ExecError::OutOfUse("GPU 0 does not answer".to_owned())));
        assert!(!stays(&ExecError::Harness("it ended".to_owned())));
    }
}
