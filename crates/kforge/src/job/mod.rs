//! A job: one evaluation as a directory that any worker can execute.
//!
//! Owns the form of `job.json`, of the answer, and of the exchange folder in which jobs and answers wait. Refuses to run
//! anything: that is the worker's business. Nothing that is read here is believed before its hashes agree, and no path of
//! another machine is ever used.

pub(crate) mod claim;
pub(crate) mod disk;
pub(crate) mod exchange;
pub(crate) mod folder;
pub(crate) mod frame;
mod imports;
mod options;
mod pack;
mod result;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use disk::Content;
pub(crate) use folder::{Packed, Unfit};
pub use options::Purpose;
pub(crate) use options::{Here, JobOptions, place};
pub(crate) use pack::Problem;
pub(crate) use result::{Failure, JobResult, Outcome};

use serde::{Deserialize, Serialize};
use sha2::Digest;

/// Version of the form of jobs and answers. A worker executes exactly this one.
pub(crate) const VERSION: u32 = 2;

pub(crate) const PROBLEM: &str = "problem.py";
pub(crate) const CANDIDATE: &str = "candidate.py";
/// Of a duel, who the candidate meets.
pub(crate) const OTHER: &str = "other.py";
pub(crate) const AUX: &str = "aux/";

/// What `job.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Job {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// From the content alone: the same work asked for again has the same id, and finds its answer.
    pub(crate) id: String,
    /// The oldest is done first; no part of the id.
    pub(crate) created: jiff::Timestamp,
    /// The kforge that made it; no part of the id.
    pub(crate) kforge: String,
    pub(crate) work: Work,
    /// Every file beside `job.json`.
    pub(crate) files: Vec<FileEntry>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    /// The candidate, as messages name it.
    pub(crate) name: String,
    /// The problem's own file name: a module beside it may import it.
    pub(crate) problem_name: String,
    /// Sets apart what is equal in all else, such as the same text in two runs.
    pub(crate) tag: String,
    pub(crate) options: JobOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Kind {
    /// Judge the candidate.
    Eval,
    /// Judge it with new secret inputs in fresh processes.
    Confirm,
    /// Interleave it with another one.
    Duel,
    /// Say where its time goes.
    Profile {
        time_us: Option<f64>,
        #[serde(default)]
        all_metrics: bool,
    },
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Eval => "eval",
            Self::Confirm => "confirm",
            Self::Duel => "duel",
            Self::Profile { .. } => "profile",
        }
    }
}

/// A file and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileEntry {
    /// `problem.py`, `candidate.py`, `other.py` or below `aux/`.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl FileEntry {
    pub(crate) fn of(content: &Content) -> Self {
        Self { path: content.path.clone(), bytes: content.bytes.len() as u64, sha256: sha256(&content.bytes) }
    }
}

/// As `sha256sum` prints it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    kforge_types::hex(&sha2::Sha256::digest(bytes))
}

impl Job {
    /// The id that this content has.
    pub(crate) fn computed_id(work: &Work, files: &[FileEntry]) -> String {
        let text = |value: serde_json::Result<String>| value.unwrap_or_default();
        let parts = [VERSION.to_string(), text(serde_json::to_string(work)), text(serde_json::to_string(files))];
        let hash = kforge_types::content_hash(&parts);
        let stem = work.problem_name.strip_suffix(".py").unwrap_or(&work.problem_name);
        format!("{}-{}-{}", disk::word(stem, 24), work.kind.name(), &hash[..24])
    }

    /// Jobs of one group share a session: problem, its modules and all options are the same.
    pub(crate) fn group(&self) -> String {
        let shared: Vec<&FileEntry> =
            self.files.iter().filter(|file| ![CANDIDATE, OTHER].contains(&file.path.as_str())).collect();
        let parts = [
            serde_json::to_string(&shared).unwrap_or_default(),
            self.work.problem_name.clone(),
            serde_json::to_string(&self.work.options).unwrap_or_default(),
        ];
        kforge_types::short_hash(&parts)
    }
}
