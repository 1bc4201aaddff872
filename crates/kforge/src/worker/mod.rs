//! Executes jobs on this machine.
//!
//! Owns the warm session that jobs of one group share, and the order in which waiting jobs are done. What a job says of
//! paths is never used: its problem is unpacked into the worker's own cache.

mod drain;
mod serve;
#[cfg(test)]
mod tests;

pub(crate) use drain::{Drain, Finished, Report};
pub(crate) use serve::serve;

use crate::{
    evaluator::{Candidate, Evaluator, GaveUp, Here},
    job::{AUX, CANDIDATE, Content, Failure, JobResult, Kind, OTHER, Outcome, PROBLEM, Packed, disk::put_folder},
};
use anyhow::Context;
use kforge_exec::{ExecError, Observer, ProfileOptions};
use kforge_types::Profile;
use std::{
    cell::RefCell,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// Performs jobs. A test puts another in its place.
pub(crate) trait Performer {
    fn perform(&mut self, packed: &Packed, observer: &dyn Observer) -> (JobResult, Vec<Content>);
    fn name(&self) -> &str;

    /// Nothing to do for a while: what is held for a next job of the same kind goes back to the machine.
    fn rest(&mut self) {}

    /// Why no further job may come here.
    fn out_of_use(&self) -> Option<String> {
        None
    }
}

/// Why a device is out of use, for all workers that share it.
pub(crate) type Lost = Arc<Mutex<Option<String>>>;

/// The evaluator of this machine.
pub(crate) struct Worker {
    name: String,
    here: Here,
    /// The group at hand: Python is started, the problem examined, its baselines are known.
    open: Option<(String, Evaluator)>,
    lost: Lost,
}

impl Worker {
    pub(crate) fn new(here: Here, lost: Lost) -> Self {
        Self { name: worker_name(), here, open: None, lost }
    }

    fn outcome(&mut self, packed: &Packed, observer: &dyn Observer) -> anyhow::Result<Outcome> {
        let text = |file| packed.text(file).map_err(anyhow::Error::msg);
        let candidate = Candidate::admitted(&packed.job.work.name, text(CANDIDATE)?);
        let evaluator = self.evaluator(packed)?;
        Ok(match packed.job.work.kind {
            Kind::Eval => Outcome::Judged { result: Box::new(evaluator.judge(&candidate, observer)?) },
            Kind::Confirm => Outcome::Judged { result: Box::new(evaluator.confirm(&candidate, observer)?) },
            Kind::Duel => {
                let other = Candidate::admitted("the other", text(OTHER)?);
                Outcome::Duelled { outcome: evaluator.duel([&candidate, &other], observer)? }
            }
            Kind::Profile { time_us, all_metrics } => {
                let time_us = time_us.filter(|us| us.is_finite() && *us > 0.0);
                let options = ProfileOptions { time_us, all_metrics };
                Outcome::Profiled { profile: Box::new(evaluator.profile(&candidate, options, observer)?) }
            }
        })
    }

    fn evaluator(&mut self, packed: &Packed) -> anyhow::Result<&mut Evaluator> {
        let group = packed.job.group();
        if self.open.as_ref().is_none_or(|(open, _)| *open != group) {
            // The processes of one group end before those of another begin.
            self.open = None;
            let problem = self.unpack(packed)?;
            self.open = Some((group, Evaluator::for_job(&self.here, &packed.job.work.options, problem)?));
        }
        self.open.as_mut().map(|(_, evaluator)| evaluator).context("no evaluator")
    }

    /// The problem under its own name with its modules beside it, in a folder that outlives the job.
    fn unpack(&self, packed: &Packed) -> anyhow::Result<PathBuf> {
        let name = &packed.job.work.problem_name;
        let beside = packed.files.iter().filter_map(|file| Some((file.path.strip_prefix(AUX)?, &file.bytes)));
        let mut files: Vec<Content> =
            beside.filter(|(path, _)| path != name).map(|(path, bytes)| Content::new(path, bytes.as_slice())).collect();
        files.push(Content::new(name.as_str(), packed.text(PROBLEM).map_err(anyhow::Error::msg)?));
        let parts: Vec<&[u8]> = files.iter().flat_map(|file| [file.path.as_bytes(), &file.bytes]).collect();
        let root = self.here.cache.join("problems");
        let folder = root.join(kforge_types::short_hash(&parts));
        if !folder.exists() {
            let failed = || format!("cannot unpack the problem into {}: make room", folder.display());
            std::fs::create_dir_all(&root).with_context(failed)?;
            put_folder(&root, &folder, &files).with_context(failed)?;
        }
        Ok(folder.join(name))
    }
}

impl Performer for Worker {
    fn perform(&mut self, packed: &Packed, observer: &dyn Observer) -> (JobResult, Vec<Content>) {
        let begun = Instant::now();
        let log = Logged { observer, lines: RefCell::default(), begun };
        let outcome = self.outcome(packed, &log).unwrap_or_else(|error| {
            // A session that failed is not trusted with the next job.
            self.open = None;
            if let Some(ExecError::OutOfUse(why)) = error.downcast_ref() {
                *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
            }
            failed(&error)
        });
        let mut lines = log.lines.into_inner();
        if let Outcome::Judged { result } = &outcome {
            lines.push_str(&result.log);
        }
        let mut files = vec![Content::new("out/log.txt", lines)];
        if let Outcome::Profiled { profile } = &outcome {
            files.extend(documents(profile));
        }
        (JobResult::new(&packed.job.id, &self.name, begun.elapsed().as_secs_f64(), outcome), files)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn rest(&mut self) {
        self.open = None;
    }

    fn out_of_use(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What is going on, also for the answer's log.
struct Logged<'a> {
    observer: &'a dyn Observer,
    lines: RefCell<String>,
    begun: Instant,
}

impl Observer for Logged<'_> {
    fn stage(&self, text: &str) {
        use std::fmt::Write;
        let _ = writeln!(self.lines.borrow_mut(), "[{:8.3} s] {text}", self.begun.elapsed().as_secs_f64());
        self.observer.stage(text);
    }
}

fn failed(error: &anyhow::Error) -> Outcome {
    let class = match error.downcast_ref::<ExecError>() {
        Some(
            ExecError::Problem(_)
            | ExecError::NoRoom(_)
            | ExecError::Toolchain(_)
            | ExecError::Uninterpretable(_)
            | ExecError::Sandbox(_),
        ) => Failure::Input,
        _ if error.is::<GaveUp>() => Failure::GaveUp,
        _ => Failure::Machinery,
    };
    let text = error.downcast_ref::<GaveUp>().map_or_else(|| format!("{error:#}"), |gave_up| gave_up.0.clone());
    Outcome::Failed { class, text }
}

fn documents(profile: &Profile) -> Vec<Content> {
    let name = |number: usize, name: &str| format!("out/profile/{number}-{}.txt", crate::job::disk::word(name, 60));
    let texts = profile.documents.iter().enumerate();
    texts.map(|(number, document)| Content::new(name(number + 1, &document.name), document.text.as_str())).collect()
}

/// `gpubox-4711-1f3a`: unique, and a name that a person can find again.
fn worker_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let drawn = kforge_types::short_hash(&[format!("{host} {:?}", jiff::Timestamp::now())]);
    format!("{}-{}-{}", crate::job::disk::word(&host, 40), std::process::id(), &drawn[..4])
}
