//! A job as a folder: written with `job.json` last, read only where every hash agrees.

use super::{
    AUX, CANDIDATE, Content, FileEntry, Job, Kind, OTHER, PROBLEM, VERSION, Work,
    disk::{self, MOST_FILE, MOST_FILES, MOST_TOTAL, is_name, is_path, read_below},
};
use serde_json::Value;
use std::{io, os::fd::OwnedFd, path::Path};

pub(crate) const HEAD: &str = "job.json";
const MOST_HEAD: u64 = 1 << 20;

/// A whole job in memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Packed {
    pub(crate) job: Job,
    pub(crate) files: Vec<Content>,
}

/// Why a folder is not executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It may still be being copied, or was damaged: it is left alone. In words.
    Incomplete(String),
    /// It is whole, but of another form or without sense: it is refused. In words, with the form it has.
    Refused { found: Option<u64>, text: String },
}

impl Packed {
    pub(crate) fn new(work: Work, mut files: Vec<Content>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let entries: Vec<FileEntry> = files.iter().map(FileEntry::of).collect();
        let job = Job {
            version: VERSION,
            id: Job::computed_id(&work, &entries),
            created: jiff::Timestamp::now(),
            kforge: env!("CARGO_PKG_VERSION").to_owned(),
            work,
            files: entries,
        };
        Self { job, files }
    }

    /// All files, `job.json` last.
    pub(crate) fn contents(&self) -> io::Result<Vec<Content>> {
        let head = serde_json::to_vec_pretty(&self.job)?;
        Ok(self.files.iter().cloned().chain([Content::new(HEAD, head)]).collect())
    }

    /// A job that came as a list of files.
    pub(crate) fn of_contents(mut files: Vec<Content>) -> Result<Self, Unfit> {
        let Some(at) = files.iter().position(|file| file.path == HEAD) else {
            return Err(Unfit::Incomplete(format!("there is no {HEAD}")));
        };
        let job = parse(&files.remove(at).bytes)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let agrees = files.iter().map(FileEntry::of).eq(job.files.iter().cloned());
        if agrees {
            Ok(Self { job, files })
        } else {
            Err(Unfit::Incomplete("its files are not what it says".to_owned()))
        }
    }

    /// A job that lies in a folder, whose name must be its id where `name` is given.
    pub(crate) fn read(folder: &Path, name: Option<&str>) -> Result<Self, Unfit> {
        let opened = open(folder)?;
        let job = head_in(&opened, name)?;
        let mut files = Vec::new();
        for entry in &job.files {
            let bytes = read_below(&opened, &entry.path, entry.bytes)
                .map_err(|error| Unfit::Incomplete(format!("{}: {error}", entry.path)))?;
            let content = Content::new(entry.path.clone(), bytes);
            if FileEntry::of(&content) != *entry {
                return Err(Unfit::Incomplete(format!("{} is not what {HEAD} says", entry.path)));
            }
            files.push(content);
        }
        Ok(Self { job, files })
    }

    pub(crate) fn text(&self, path: &str) -> Result<String, String> {
        let found = self.files.iter().find(|file| file.path == path).ok_or_else(|| format!("there is no {path}"))?;
        String::from_utf8(found.bytes.clone()).map_err(|_| format!("{path} is not UTF-8 text"))
    }
}

/// What `job.json` in a folder says; the files beside it are not looked at.
pub(crate) fn head(folder: &Path, name: &str) -> Result<Job, Unfit> {
    head_in(&open(folder)?, Some(name))
}

fn open(folder: &Path) -> Result<OwnedFd, Unfit> {
    disk::open_folder(folder).map_err(|error| Unfit::Incomplete(format!("it cannot be opened: {error}")))
}

fn head_in(folder: &OwnedFd, name: Option<&str>) -> Result<Job, Unfit> {
    let bytes = read_below(folder, HEAD, MOST_HEAD).map_err(|error| Unfit::Incomplete(format!("{HEAD}: {error}")))?;
    let job = parse(&bytes)?;
    if name.is_some_and(|name| name != job.id) {
        return Err(refused(format!("its folder should be called {}", job.id)));
    }
    Ok(job)
}

fn refused(text: String) -> Unfit {
    Unfit::Refused { found: Some(u64::from(VERSION)), text }
}

fn parse(bytes: &[u8]) -> Result<Job, Unfit> {
    // A file that was cut off is no JSON; one of another version is, and says so.
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| Unfit::Incomplete(format!("{HEAD} is not whole: {error}")))?;
    let found = value.get("version").and_then(Value::as_u64);
    if found != Some(u64::from(VERSION)) {
        let named = found.map_or_else(|| "of no known form".to_owned(), |found| format!("of form {found}"));
        let text = format!(
            "the job is {named}, this kforge ({}) executes form {VERSION}: use the same version of kforge on both machines",
            env!("CARGO_PKG_VERSION")
        );
        return Err(Unfit::Refused { found, text });
    }
    let job: Job = serde_json::from_value(value).map_err(|error| refused(format!("{HEAD} makes no sense: {error}")))?;
    check(&job).map_err(|text| refused(format!("{HEAD} makes no sense: {text}")))?;
    Ok(job)
}

fn check(job: &Job) -> Result<(), String> {
    let paths: Vec<&str> = job.files.iter().map(|file| file.path.as_str()).collect();
    let known = |path: &&str| [PROBLEM, CANDIDATE, OTHER].contains(path) || (path.starts_with(AUX) && is_path(path));
    if let Some(wrong) = paths.iter().find(|path| !known(path)) {
        return Err(format!("there must be no file {wrong:?}"));
    }
    if !paths.is_sorted_by(|a, b| a < b) {
        return Err("its files must be listed in order, each once".to_owned());
    }
    if ![PROBLEM, CANDIDATE].iter().all(|path| paths.contains(path)) {
        return Err(format!("{PROBLEM} and {CANDIDATE} must be listed"));
    }
    if paths.contains(&OTHER) != (job.work.kind == Kind::Duel) {
        return Err(format!("{OTHER} is for comparisons, and only for them"));
    }
    // What is listed is bounded one by one first, so that the sum cannot overflow.
    if paths.len() > MOST_FILES || job.files.iter().any(|file| file.bytes > MOST_FILE) {
        return Err("its files are too many or too large".to_owned());
    }
    if job.files.iter().map(|file| file.bytes).sum::<u64>() > MOST_TOTAL {
        return Err("its files are too large together".to_owned());
    }
    if !is_name(&job.work.problem_name) {
        return Err(format!("{:?} cannot be the name of a problem", job.work.problem_name));
    }
    if job.id != Job::computed_id(&job.work, &job.files) {
        return Err("its id is not that of its content".to_owned());
    }
    Ok(())
}
