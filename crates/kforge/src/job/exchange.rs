//! The exchange folder: `pending/`, `claimed/`, `done/`. Everything moves by rename, so that it is at one place, whole.
//!
//! The same folder may be seen by several machines, or be copied from one to another and back. What lies in it is
//! hostile: names are checked, links are not followed, reads are bounded, and an answer counts only when the hashes in
//! `done.json`, which is written last, agree.

use super::{
    Content, FileEntry, JobResult, Packed, VERSION,
    disk::{self, MOST_FILE, discard, is_name, open_folder, put_folder, read_below},
};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

pub(super) const ANSWER: &str = "out/result.json";
pub(super) const COMPLETE: &str = "done.json";
const MOST_COMPLETE: u64 = 1 << 20;

/// How long a worker may be silent before its job is given to another.
pub(crate) const LEASE: Duration = Duration::from_mins(1);

/// An exchange folder.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(super) root: PathBuf,
    pub(super) lease: Duration,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Pending,
    /// By this worker.
    Claimed(String),
    Done,
    /// It may have been carried away.
    Nowhere,
}

/// What came of putting a job in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Submitted {
    New,
    /// It waits or is worked on already.
    Waiting,
    /// It was answered before.
    Answered,
}

/// `done.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Complete {
    pub(super) version: u32,
    pub(super) job: String,
    pub(super) files: Vec<FileEntry>,
}

impl Exchange {
    /// The folder is made where there is none.
    pub(crate) fn open(root: &Path) -> anyhow::Result<Self> {
        for name in ["pending", "claimed", "done"] {
            let folder = root.join(name);
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot create {}: name a folder that you can write to", folder.display()))?;
        }
        Ok(Self { root: root.to_owned(), lease: LEASE })
    }

    pub(crate) fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    pub(super) fn pending(&self, id: &str) -> PathBuf {
        self.root.join("pending").join(id)
    }

    pub(super) fn done(&self, id: &str) -> PathBuf {
        self.root.join("done").join(id)
    }

    /// Puts a job in, once.
    pub(crate) fn submit(&self, packed: &Packed) -> anyhow::Result<Submitted> {
        let id = &packed.job.id;
        if self.told(id)?.is_some() {
            return Ok(Submitted::Answered);
        }
        if matches!(self.place(id), Place::Pending | Place::Claimed(_)) {
            return Ok(Submitted::Waiting);
        }
        let put = put_folder(&self.root, &self.pending(id), &packed.contents()?).with_context(|| {
            format!("cannot put a job into {}: make room or fix its permissions", self.root.display())
        })?;
        Ok(if put { Submitted::New } else { Submitted::Waiting })
    }

    pub(crate) fn place(&self, id: &str) -> Place {
        if self.done(id).join(COMPLETE).exists() {
            return Place::Done;
        }
        if self.pending(id).is_dir() {
            return Place::Pending;
        }
        let claimed = self.names("claimed");
        let worker = claimed.iter().find_map(|name| name.strip_prefix(id)?.strip_prefix('~'));
        worker.map_or(Place::Nowhere, |worker| Place::Claimed(worker.to_owned()))
    }

    /// The answer to a job; nothing while it is not there or not whole. An answer of another form is an error.
    pub(crate) fn answer(&self, id: &str) -> anyhow::Result<Option<JobResult>> {
        let Ok(folder) = open_folder(&self.done(id)) else { return Ok(None) };
        let Ok(bytes) = read_below(&folder, COMPLETE, MOST_COMPLETE) else { return Ok(None) };
        let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return Ok(None) };
        known_form(&value, id)?;
        let Ok(complete) = serde_json::from_value::<Complete>(value) else { return Ok(None) };
        let entry = complete.files.iter().find(|entry| entry.path == ANSWER);
        let Some(entry) = entry.filter(|entry| complete.job == id && entry.bytes <= MOST_FILE) else { return Ok(None) };
        let Ok(bytes) = read_below(&folder, ANSWER, entry.bytes) else { return Ok(None) };
        if FileEntry::of(&Content::new(ANSWER, bytes.as_slice())) != *entry {
            return Ok(None);
        }
        parse_answer(&bytes, id).map(Some)
    }

    /// The same for whoever waits for it: an answer that is an error is told once and put aside.
    pub(crate) fn told(&self, id: &str) -> anyhow::Result<Option<JobResult>> {
        self.answer(id).inspect_err(|_| self.set_aside(id))
    }

    /// What was waited for is taken note of: a copy that still waits needs not be done, and a failure that was told is
    /// put aside, so that asking again tries again.
    pub(crate) fn collected(&self, id: &str, result: &JobResult) {
        discard(&self.root, &self.pending(id));
        if !result.is_final() {
            self.set_aside(id);
        }
    }

    fn set_aside(&self, id: &str) {
        let aside = self.root.join("failed").join(id);
        let _ = fs::create_dir_all(self.root.join("failed"));
        discard(&self.root, &aside);
        let _ = disk::move_to(&self.done(id), &aside);
    }

    /// Forgets an answer that may be mended by doing the job again.
    pub(crate) fn drop_failure(&self, id: &str) {
        if !matches!(self.answer(id), Ok(Some(result)) if result.is_final()) {
            discard(&self.root, &self.done(id));
        }
    }

    /// Takes a job back that nobody has begun.
    pub(crate) fn withdraw(&self, id: &str) {
        discard(&self.root, &self.pending(id));
    }

    /// Removes the answers that `old` says so of, by their `done.json`.
    pub(crate) fn forget(&self, old: &dyn Fn(&Path) -> bool) {
        for id in self.names("done") {
            if old(&self.done(&id).join(COMPLETE)) {
                discard(&self.root, &self.done(&id));
            }
        }
    }

    /// Names in one of the three folders that could be ours, sorted.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name.split('~').all(is_name));
        names.sort();
        names
    }
}

fn known_form(value: &Value, id: &str) -> anyhow::Result<()> {
    let found = value.get("version").and_then(Value::as_u64);
    anyhow::ensure!(
        found == Some(u64::from(VERSION)),
        "the answer to job {id} is of form {}, this kforge ({}) reads form {VERSION}: use the same version of kforge on both machines",
        found.map_or_else(|| "unknown".to_owned(), |found| found.to_string()),
        env!("CARGO_PKG_VERSION")
    );
    Ok(())
}

/// An answer to this job, or an error that says what it is instead.
pub(crate) fn parse_answer(bytes: &[u8], id: &str) -> anyhow::Result<JobResult> {
    let mut value: Value =
        serde_json::from_slice(bytes).with_context(|| format!("the answer to job {id} is no JSON"))?;
    known_form(&value, id)?;
    clean(&mut value);
    let result: JobResult = serde_json::from_value(value).with_context(|| {
        format!("the answer to job {id} makes no sense: use the same version of kforge on both machines")
    })?;
    anyhow::ensure!(result.job == id, "the answer to job {id} says that it is for {}", result.job);
    Ok(result)
}

/// What another machine says ends up on a terminal and in prompts.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = crate::text::clean(text),
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(fields) => fields.values_mut().for_each(clean),
        _ => {}
    }
}
