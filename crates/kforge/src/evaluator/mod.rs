//! Evaluations as a library: from a candidate's bytes to its verdict, wherever it is judged.
//!
//! Owns what `kforge eval`, `profile`, `optimize` and `worker` have in common: the source rules, the choice of a target,
//! who evaluates, and the result of a candidate that never runs. It prints nothing, ends nothing, and leaves the process as
//! it is; whoever waits is told through an [`Observer`].

mod intake;
mod open;
mod origin;
mod outlook;
mod target;

pub use crate::{executor::Ticket, job::Purpose};
pub(crate) use crate::{
    executor::{GaveUp, HereRequest},
    job::Here,
};
pub(crate) use intake::{look, source_rules};
pub use open::Request;
pub use outlook::Outlook;
pub(crate) use target::best_here;
pub use target::written_for;

#[cfg(test)]
pub(crate) use crate::executor::scripted;

use crate::{
    executor::{Executor, Local},
    job::JobOptions,
    refusal::Refused,
};
use kforge_exec::{Contender, Observer, ProfileOptions, python};
use kforge_guard::Settings;
use kforge_types::{Contract, DuelOutcome, EvalResult, Finding, Profile, SanitizerReport, Target, Verdict};
use std::path::PathBuf;

/// Judges candidates for one problem on one target. `Err` means that our own machinery failed, or that what was asked for
/// cannot be done here; everything that a candidate does is a result.
pub struct Evaluator {
    /// As results name it.
    problem_file: String,
    problem_source: Vec<u8>,
    target: Target,
    contract: Contract,
    rules: Settings,
    outlook: Outlook,
    executor: Box<dyn Executor>,
}

/// A candidate that the source rules let through.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    name: String,
    source: String,
    findings: Vec<Finding>,
}

impl Candidate {
    /// One that was let through elsewhere: by whoever sent the job, or earlier in a run.
    pub(crate) fn admitted(name: impl Into<String>, source: impl Into<String>) -> Self {
        Self { name: name.into(), source: source.into(), findings: Vec::new() }
    }

    /// As results name it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text that is run.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What the source rules noted all the same.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn contender(&self) -> Contender<'_> {
        Contender { name: &self.name, source: &self.source }
    }
}

impl Evaluator {
    /// For a job of others, whose source rules were applied before it was made.
    pub(crate) fn for_job(here: &Here, options: &JobOptions, problem: PathBuf) -> anyhow::Result<Self> {
        let threads = options.threads.unwrap_or_else(kforge_exec::machine::default_threads);
        Ok(Self {
            problem_file: problem.display().to_string(),
            problem_source: std::fs::read(&problem).unwrap_or_default(),
            target: options.target.clone(),
            contract: options.contract.clone(),
            rules: Settings::default(),
            outlook: Outlook::of_cpu(threads, options.arch.clone().unwrap_or_default()),
            executor: Box::new(Local::at(here, options.clone(), problem)?),
        })
    }

    /// With verdicts that a candidate's own lines say.
    #[cfg(test)]
    pub(crate) fn scripted(rules: Settings) -> Self {
        use crate::executor::scripted::{PROBLEM, PROBLEM_FILE, Scripted, target};
        Self {
            problem_file: PROBLEM_FILE.to_owned(),
            problem_source: PROBLEM.into(),
            target: target(),
            contract: Contract::default(),
            rules,
            outlook: Outlook::of_cpu(2, "native".to_owned()),
            executor: Box::new(Scripted),
        }
    }

    /// What is known of the machine that evaluates before it has answered.
    #[must_use]
    pub fn outlook(&self) -> &Outlook {
        &self.outlook
    }

    /// The user's flags over the problem's own contract.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// What candidates' sources are held to.
    #[must_use]
    pub fn rules(&self) -> &Settings {
        &self.rules
    }

    /// Applies the source rules: a candidate that can be judged, or the result of one that is not run.
    pub fn admit(&self, name: &str, source: &[u8]) -> Result<Candidate, Box<EvalResult>> {
        let (text, findings) = look(source, &self.rules);
        match text {
            Ok(source) => Ok(Candidate { name: name.to_owned(), source: source.to_owned(), findings }),
            Err(verdict) => {
                let mut refused = self.refused(name, source, findings, verdict);
                origin::point_at(&mut refused, "");
                Err(Box::new(refused))
            }
        }
    }

    /// The result of a candidate that is not run, for a reason of the caller's.
    #[must_use]
    pub fn refused(&self, name: &str, source: &[u8], findings: Vec<Finding>, verdict: Verdict) -> EvalResult {
        let refused = Refused {
            problem_file: &self.problem_file,
            problem_source: &self.problem_source,
            candidate_name: name,
            candidate_source: source,
            target: &self.target,
            contract: self.contract.clone(),
            device: self.outlook.device.clone(),
            findings,
        };
        refused.result(verdict)
    }

    /// Finds the Python that evaluates here, or makes it, and says so. Without this the first candidate does it silently.
    pub fn prepare(&mut self, progress: &dyn python::Progress) -> anyhow::Result<()> {
        self.executor.prepare(progress)
    }

    /// Sends a candidate to the workers, so that they have several at once. Nothing where this process evaluates.
    pub fn submit(&mut self, candidate: &Candidate, observer: &dyn Observer) -> anyhow::Result<Option<Ticket>> {
        self.executor.submit(&candidate.name, &candidate.source, observer)
    }

    /// The verdict, and how fast it is.
    pub fn judge(&mut self, candidate: &Candidate, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        let mut result = self.executor.judge(&candidate.name, &candidate.source, observer)?;
        result.findings.clone_from(&candidate.findings);
        origin::point_at(&mut result, &candidate.source);
        Ok(result)
    }

    /// Judges once more with new secret inputs in fresh processes; on a GPU compute-sanitizer has a say too.
    pub fn confirm(&mut self, candidate: &Candidate, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        self.executor.confirm(&candidate.name, &candidate.source, observer)
    }

    /// Interleaves two candidates that were judged before.
    pub fn duel(&mut self, candidates: [&Candidate; 2], observer: &dyn Observer) -> anyhow::Result<DuelOutcome> {
        self.executor.duel(candidates.map(Candidate::contender), observer)
    }

    /// Where its time goes.
    pub fn profile(
        &mut self,
        candidate: &Candidate,
        options: ProfileOptions,
        observer: &dyn Observer,
    ) -> anyhow::Result<Profile> {
        self.executor.profile(&candidate.source, options, observer)
    }

    /// Looks for accesses that are wrong, with compute-sanitizer; on this machine only.
    pub fn sanitize(&mut self, candidate: &Candidate, observer: &dyn Observer) -> anyhow::Result<SanitizerReport> {
        self.executor.sanitize(&candidate.source, observer)
    }
}

#[cfg(test)]
mod tests;
