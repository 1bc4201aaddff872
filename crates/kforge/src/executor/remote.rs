//! Others evaluate.

use super::{Executor, GaveUp, Ticket, Transport};
use crate::{
    job::{Failure, JobOptions, JobResult, Kind, Outcome, Packed, Problem, exchange::Submitted},
    text::file_name,
    usage::Usage,
};
use anyhow::bail;
use kforge_exec::{Contender, Observer, ProfileOptions};
use kforge_types::{Duel, DuelOutcome, EvalResult, Profile};
use std::path::Path;

/// Has one problem's candidates judged by a worker.
pub(crate) struct Remote {
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) problem: Problem,
    /// The problem's file as results name it.
    pub(crate) problem_file: String,
    pub(crate) options: JobOptions,
    /// Sets the jobs of one run apart from those of another.
    pub(crate) tag: String,
}

impl Remote {
    /// Its name is the same wherever the command is run from, and so is its id.
    fn job(&self, kind: Kind, name: &str, source: &str) -> Packed {
        self.problem.job(kind, &file_name(Path::new(name)), source, &self.tag, &self.options)
    }

    fn ask(&mut self, packed: &Packed, observer: &dyn Observer) -> anyhow::Result<JobResult> {
        self.transport.submit(packed, observer)?;
        self.transport.wait(&packed.job.id, observer)
    }

    fn judged(&mut self, kind: Kind, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        let answer = self.ask(&self.job(kind, name, source), observer)?;
        let Outcome::Judged { mut result } = answer.outcome else { return Err(failure(answer)) };
        let hash = kforge_types::content_hash(&[self.problem.source.as_str(), source]);
        if result.hash != hash {
            bail!("worker {} answered job {} about another candidate: look at that worker", answer.worker, answer.job);
        }
        result.problem_file.clone_from(&self.problem_file);
        name.clone_into(&mut result.candidate_file);
        Ok(*result)
    }
}

/// What an answer that is no result means here.
fn failure(answer: JobResult) -> anyhow::Error {
    let worker = answer.worker;
    match answer.outcome {
        Outcome::Failed { class: Failure::Input, text } => Usage(format!("{text} (said by worker {worker})")).into(),
        Outcome::Failed { class: Failure::GaveUp, text } => GaveUp(format!("{text} (said by worker {worker})")).into(),
        Outcome::Failed { class: Failure::Machinery, text } => anyhow::anyhow!(
            "worker {worker} failed on job {}: {text}; fix that there and run the same command again",
            answer.job
        ),
        Outcome::Refused { text, .. } => anyhow::anyhow!("worker {worker} refuses job {}: {text}", answer.job),
        Outcome::Judged { .. } | Outcome::Profiled { .. } | Outcome::Duelled { .. } => {
            anyhow::anyhow!("worker {worker} answered job {} with something else: look at that worker", answer.job)
        }
    }
}

impl Executor for Remote {
    fn submit(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<Option<Ticket>> {
        let packed = self.job(Kind::Eval, name, source);
        let submitted = self.transport.submit(&packed, observer)?;
        Ok(Some(Ticket { job: packed.job.id, answered: submitted == Submitted::Answered }))
    }

    fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        self.judged(Kind::Eval, name, source, observer)
    }

    fn profile(&mut self, source: &str, options: ProfileOptions, observer: &dyn Observer) -> anyhow::Result<Profile> {
        let kind = Kind::Profile { time_us: options.time_us, all_metrics: options.all_metrics };
        let answer = self.ask(&self.job(kind, "candidate", source), observer)?;
        match answer.outcome {
            Outcome::Profiled { profile } => Ok(*profile),
            _ => Err(failure(answer)),
        }
    }

    fn duel(&mut self, contenders: [Contender<'_>; 2], observer: &dyn Observer) -> anyhow::Result<DuelOutcome> {
        let packed = self.problem.duel(contenders, &self.tag, &self.options);
        let answer = self.ask(&packed, observer)?;
        match answer.outcome {
            Outcome::Duelled { outcome: DuelOutcome::Fought(duel) } => {
                let names = contenders.map(|one| one.name.to_owned());
                Ok(DuelOutcome::Fought(Duel { names, ..duel }))
            }
            Outcome::Duelled { outcome } => Ok(outcome),
            _ => Err(failure(answer)),
        }
    }

    fn confirm(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        self.judged(Kind::Confirm, name, source, observer)
    }
}
