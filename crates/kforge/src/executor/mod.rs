//! Who evaluates: this process, or others to whom jobs go out and from whom answers come in.
//!
//! Owns sessions on this machine, waiting for others, and what their answers mean to the one who asked. Refuses to believe
//! an answer more than it must: it has to be for the job that was sent, and names nothing on this machine.

mod bootstrap;
mod company;
mod connection;
mod folder;
mod gate;
mod local;
mod remote;
#[cfg(test)]
pub(crate) mod scripted;
mod ssh;

pub(crate) use connection::Destination;
pub(crate) use folder::FolderTransport;
pub(crate) use local::{HereRequest, Local};
pub(crate) use remote::Remote;
pub(crate) use ssh::SshTransport;

use crate::{
    job::{JobResult, Packed, exchange::Submitted},
    usage::Usage,
};
use kforge_exec::{Contender, Observer, ProfileOptions, python};
use kforge_types::{DuelOutcome, EvalResult, Profile, SanitizerReport};

/// Verdicts, times and profiles of one problem. `Err` means that our machinery failed, never that a kernel is bad.
pub(crate) trait Executor {
    /// Finds what is needed, or makes it, and says so; whoever does not ask for it gets it without a word.
    fn prepare(&mut self, _progress: &dyn python::Progress) -> anyhow::Result<()> {
        Ok(())
    }

    /// Sends a candidate off to be judged. Nothing where there is nobody to send it to.
    fn submit(&mut self, _name: &str, _source: &str, _observer: &dyn Observer) -> anyhow::Result<Option<Ticket>> {
        Ok(None)
    }

    fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult>;

    fn profile(&mut self, source: &str, options: ProfileOptions, observer: &dyn Observer) -> anyhow::Result<Profile>;

    /// Looks for accesses that are wrong, with compute-sanitizer.
    fn sanitize(&mut self, _source: &str, _observer: &dyn Observer) -> anyhow::Result<SanitizerReport> {
        Err(Usage("--sanitize works in place only: run it where the GPU is".to_owned()).into())
    }

    /// Interleaves two candidates that were judged before.
    fn duel(&mut self, contenders: [Contender<'_>; 2], observer: &dyn Observer) -> anyhow::Result<DuelOutcome>;

    /// Judges once more with new secret inputs in fresh processes.
    fn confirm(&mut self, name: &str, source: &str, observer: &dyn Observer) -> anyhow::Result<EvalResult>;
}

/// A job that is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The job's id.
    pub job: String,
    /// Whether its answer is there already, from an earlier time.
    pub answered: bool,
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

/// How jobs reach a worker and answers come back. Both are idempotent by the job's id.
pub(crate) trait Transport {
    fn submit(&mut self, packed: &Packed, observer: &dyn Observer) -> anyhow::Result<Submitted>;

    fn wait(&mut self, id: &str, observer: &dyn Observer) -> anyhow::Result<JobResult>;
}
