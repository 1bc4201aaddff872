//! The worker's side of an exchange folder: claiming, staying alive, answering.

use super::{
    Content, FileEntry, Job, JobResult, Outcome, Packed, Unfit, VERSION,
    disk::{discard, hidden, is_name, move_to, open_folder, read_below, write_below},
    exchange::{ANSWER, COMPLETE, Complete, Exchange},
    folder,
    result::Failure,
};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread::JoinHandle,
    time::{Duration, SystemTime},
};

const LEASE_FILE: &str = "lease.json";
const TRIES_FILE: &str = "tries";
/// Workers that died over one job before it is given up: it may be what killed them.
const MOST_TRIES: u32 = 3;

/// A job that this worker alone works on, while the claim lives.
pub(crate) struct Claim {
    pub(crate) packed: Packed,
    folder: PathBuf,
    exchange: Exchange,
    worker: String,
    /// Workers that had it before and died.
    pub(crate) tries: u32,
    stop: Option<mpsc::Sender<()>>,
    renewal: Option<JoinHandle<()>>,
}

#[derive(Serialize, Deserialize)]
struct Lease {
    worker: String,
    seconds: f64,
}

/// What came of an attempt to claim.
pub(crate) enum Claimed {
    Mine(Box<Claim>),
    /// Another worker was faster, or it was done before.
    Gone,
    /// It is not executed: left alone or, by now, refused.
    Unfit(Unfit),
}

/// How an answer ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    Delivered,
    /// The claim had run out, and another worker has the job now.
    TooLate,
}

impl Exchange {
    /// The ids of what waits.
    pub(crate) fn waiting(&self) -> Vec<String> {
        self.names("pending").into_iter().filter(|name| is_name(name)).collect()
    }

    /// What the `job.json` of a waiting job says.
    pub(crate) fn head(&self, id: &str) -> Result<Job, Unfit> {
        folder::head(&self.pending(id), id)
    }

    pub(crate) fn claim(&self, id: &str, worker: &str) -> anyhow::Result<Claimed> {
        let pending = self.pending(id);
        if matches!(self.answer(id), Ok(Some(before)) if before.is_final()) {
            discard(&self.root, &pending);
            return Ok(Claimed::Gone);
        }
        // Read before it is claimed: what is half there must stay where somebody copies it to.
        let read = Packed::read(&pending, Some(id));
        if let Err(unfit @ Unfit::Incomplete(_)) = read {
            return Ok(Claimed::Unfit(unfit));
        }
        // The lease is there before the claim is, so that no claim is ever without one.
        if write_lease(&pending, worker, self.lease, true).is_err() {
            return Ok(Claimed::Gone);
        }
        let folder = self.root.join("claimed").join(format!("{id}~{worker}"));
        if fs::rename(&pending, &folder).is_err() {
            return Ok(Claimed::Gone);
        }
        match read {
            Ok(packed) => {
                let tries = tries(&folder);
                let mut claim = Claim {
                    packed,
                    folder,
                    exchange: self.clone(),
                    worker: worker.to_owned(),
                    tries,
                    stop: None,
                    renewal: None,
                };
                let _ = fs::write(claim.folder.join(TRIES_FILE), (tries + 1).to_string());
                claim.keep_alive();
                Ok(Claimed::Mine(Box::new(claim)))
            }
            Err(unfit) => {
                if let Unfit::Refused { found, text } = &unfit {
                    let outcome = Outcome::Refused { found: *found, knows: VERSION, text: text.clone() };
                    let result = JobResult::new(id, worker, 0.0, outcome);
                    deliver(self, id, &folder, &result, Vec::new())?;
                }
                Ok(Claimed::Unfit(unfit))
            }
        }
    }

    /// Claims whose workers have been silent for too long wait again. Returns their ids.
    pub(crate) fn put_back_expired(&self) -> Vec<String> {
        let claims: Vec<String> = self.names("claimed");
        if claims.is_empty() {
            return Vec::new();
        }
        let Some(now) = self.clock() else { return Vec::new() };
        let mut back = Vec::new();
        for name in claims {
            let Some((id, _)) = name.split_once('~') else { continue };
            let folder = self.root.join("claimed").join(&name);
            if !is_expired(&folder, now, self.lease) {
                continue;
            }
            match move_to(&folder, &self.pending(id)) {
                Ok(true) => back.push(id.to_owned()),
                // A copy waits already.
                Ok(false) => discard(&self.root, &folder),
                // Another worker put it back.
                Err(_) => {}
            }
        }
        back
    }

    /// The time by the clock of the file system: machines that share it may disagree about theirs.
    fn clock(&self) -> Option<SystemTime> {
        let probe = self.root.join(hidden("clock"));
        fs::write(&probe, "x").ok()?;
        let time = fs::metadata(&probe).and_then(|about| about.modified()).ok();
        let _ = fs::remove_file(probe);
        time
    }
}

impl Claim {
    /// True where so many workers died over this job that it is not tried again.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.tries >= MOST_TRIES
    }

    pub(crate) fn hopeless(&self) -> Outcome {
        let text = format!("{} workers ended while they had this job: look at their logs", self.tries);
        Outcome::Failed { class: Failure::GaveUp, text }
    }

    /// The answer with what belongs to it (below `out/`), by rename, with `done.json` last.
    pub(crate) fn answer(mut self, result: &JobResult, beside: Vec<Content>) -> anyhow::Result<Answered> {
        self.let_go();
        if !self.folder.join(folder::HEAD).exists() {
            return Ok(Answered::TooLate);
        }
        // The lease is still good for its whole length: time enough to write the answer.
        let _ = write_lease(&self.folder, &self.worker, self.exchange.lease, false);
        deliver(&self.exchange, &self.packed.job.id, &self.folder, result, beside)
    }

    fn keep_alive(&mut self) {
        let (stop, stopped) = mpsc::channel::<()>();
        let (folder, worker, lease) = (self.folder.clone(), self.worker.clone(), self.exchange.lease);
        self.stop = Some(stop);
        self.renewal = Some(std::thread::spawn(move || {
            while stopped.recv_timeout(lease / 6) == Err(RecvTimeoutError::Timeout) {
                // A claim that was taken away stays lost; a full disk may become less full.
                let _ = write_lease(&folder, &worker, lease, false);
            }
        }));
    }

    fn let_go(&mut self) {
        self.stop = None;
        if let Some(renewal) = self.renewal.take() {
            let _ = renewal.join();
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.let_go();
    }
}

fn deliver(
    exchange: &Exchange,
    id: &str,
    claimed: &Path,
    result: &JobResult,
    beside: Vec<Content>,
) -> anyhow::Result<Answered> {
    write_answer(claimed, id, result, beside)?;
    for name in [LEASE_FILE, TRIES_FILE] {
        let _ = fs::remove_file(claimed.join(name));
    }
    let done = exchange.done(id);
    for _ in 0..3 {
        if move_to(claimed, &done).with_context(|| format!("cannot put the answer into {}", done.display()))? {
            return Ok(Answered::Delivered);
        }
        // Somebody has answered before. What is final stays; what failed gives way, as does what is broken.
        if matches!(exchange.answer(id), Ok(Some(before)) if before.is_final()) {
            discard(&exchange.root, claimed);
            return Ok(Answered::TooLate);
        }
        discard(&exchange.root, &done);
    }
    anyhow::bail!("{} cannot be replaced: remove it", done.display())
}

/// `out/` and `done.json` into a job's folder.
pub(crate) fn write_answer(folder: &Path, id: &str, result: &JobResult, beside: Vec<Content>) -> anyhow::Result<()> {
    let failed = || format!("cannot write the answer to {}: make room", folder.display());
    let _ = fs::remove_file(folder.join(COMPLETE));
    discard(folder, &folder.join("out"));
    let mut files = beside;
    files.push(Content::new(ANSWER, answer_bytes(result)?));
    let complete = Complete { version: VERSION, job: id.to_owned(), files: files.iter().map(FileEntry::of).collect() };
    files.push(Content::new(COMPLETE, serde_json::to_vec_pretty(&complete)?));
    write_below(folder, &files).with_context(failed)
}

/// What cannot be read back must not be sent: numbers that are none have no place in JSON.
fn answer_bytes(result: &JobResult) -> anyhow::Result<Vec<u8>> {
    let bytes = serde_json::to_vec_pretty(result)?;
    if serde_json::from_slice::<JobResult>(&bytes).is_ok() {
        return Ok(bytes);
    }
    let text = "the result has a number that is none; report this".to_owned();
    let failed = Outcome::Failed { class: Failure::Machinery, text };
    Ok(serde_json::to_vec_pretty(&JobResult { outcome: failed, ..result.clone() })?)
}

fn write_lease(folder: &Path, worker: &str, lease: Duration, create: bool) -> std::io::Result<()> {
    let text = serde_json::to_string(&Lease { worker: worker.to_owned(), seconds: lease.as_secs_f64() })?;
    let path = folder.join(LEASE_FILE);
    // A link here would be somebody's trap.
    if path.is_symlink() {
        fs::remove_file(&path)?;
    }
    let mut file = OpenOptions::new().write(true).create(create).truncate(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn is_expired(folder: &Path, now: SystemTime, usual: Duration) -> bool {
    let about = fs::symlink_metadata(folder.join(LEASE_FILE)).or_else(|_| fs::symlink_metadata(folder));
    let Ok(renewed) = about.and_then(|about| about.modified()) else { return false };
    let read = open_folder(folder).and_then(|folder| read_below(&folder, LEASE_FILE, 4096));
    let lease = read.ok().and_then(|bytes| serde_json::from_slice::<Lease>(&bytes).ok());
    let seconds = lease.map(|lease| lease.seconds).filter(|seconds| (0.0..=86400.0).contains(seconds));
    let lease = seconds.map_or(usual, Duration::from_secs_f64);
    now.duration_since(renewed).is_ok_and(|silent| silent > lease)
}

fn tries(folder: &Path) -> u32 {
    let read = open_folder(folder).and_then(|folder| read_below(&folder, TRIES_FILE, 16));
    read.ok().and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse().ok()).unwrap_or(0)
}
