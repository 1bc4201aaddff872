//! An evaluator that asks others.

use super::Transport;
use crate::{
    driver::evaluator::{Evaluator, GaveUp},
    job::{Failure, JobOptions, JobResult, Kind, Outcome, Packed, Problem, exchange::Submitted},
    usage::Usage,
};
use anyhow::bail;
use kforge_exec::{Observer, ProfileOptions};
use kforge_types::{EvalResult, Profile};

pub(crate) struct RemoteEvaluator {
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) problem: Problem,
    /// The problem's file as results name it.
    pub(crate) problem_file: String,
    pub(crate) options: JobOptions,
    /// Sets the jobs of one run apart from those of another.
    pub(crate) tag: String,
}

impl RemoteEvaluator {
    /// The job of judging a candidate, on its way.
    pub(crate) fn submit(
        &mut self,
        name: &str,
        source: &str,
        observer: &dyn Observer,
    ) -> anyhow::Result<(String, Submitted)> {
        let packed = self.job(Kind::Eval, name, source);
        let submitted = self.transport.submit(&packed, observer)?;
        Ok((packed.job.id, submitted))
    }

    fn job(&self, kind: Kind, name: &str, source: &str) -> Packed {
        self.problem.job(kind, name, source, &self.tag, &self.options)
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
            "worker {worker} failed on job {}: {text}; mend that there and run the same command again",
            answer.job
        ),
        Outcome::Refused { text, .. } => anyhow::anyhow!("worker {worker} refuses job {}: {text}", answer.job),
        Outcome::Judged { .. } | Outcome::Profiled { .. } => {
            anyhow::anyhow!("worker {worker} answered job {} with something else: look at that worker", answer.job)
        }
    }
}

impl Evaluator for RemoteEvaluator {
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

    fn confirm(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        self.judged(Kind::Confirm, name, source, observer)
    }
}
