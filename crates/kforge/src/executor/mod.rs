//! Who evaluates where this process does not: jobs go out, answers come in.
//!
//! Owns waiting, and what an answer means to the one who asked. Refuses to believe an answer more than it must: it has to
//! be for the job that was sent, and names nothing on this machine.

mod bootstrap;
mod connection;
mod folder;
mod remote;
mod ssh;

pub(crate) use connection::Destination;
pub(crate) use folder::FolderTransport;
pub(crate) use remote::RemoteEvaluator;
pub(crate) use ssh::SshTransport;

use crate::job::{JobResult, Packed, exchange::Submitted};
use kforge_exec::Observer;

/// How jobs reach a worker and answers come back. Both are idempotent by the job's id.
pub(crate) trait Transport {
    fn submit(&mut self, packed: &Packed, observer: &dyn Observer) -> anyhow::Result<Submitted>;

    fn wait(&mut self, id: &str, observer: &dyn Observer) -> anyhow::Result<JobResult>;
}
