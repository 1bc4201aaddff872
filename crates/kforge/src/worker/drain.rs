//! Does what waits in an exchange folder, group by group, the group of the oldest job first.

use super::Performer;
use crate::job::{
    Job, JobResult, Unfit,
    claim::{Answered, Claim, Claimed},
    exchange::Exchange,
};
use kforge_exec::Observer;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How often an empty folder is looked at.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a warm session waits for another job: it holds memory of the device that others may need.
const WARM: Duration = Duration::from_mins(1);

/// One job that was done.
pub(crate) struct Finished<'a> {
    pub(crate) job: &'a Job,
    pub(crate) result: &'a JobResult,
    pub(crate) answered: Answered,
}

/// What a worker did.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) jobs: usize,
    /// The machinery failed on them.
    pub(crate) failed: usize,
    pub(crate) refused: usize,
    pub(crate) wall_s: f64,
    /// In which a device was checking or timing for at least one of the jobs.
    pub(crate) device_s: f64,
    /// Folders that were left alone, with the reason: half-copied, or damaged.
    pub(crate) left_alone: BTreeMap<String, String>,
    /// Devices that stopped working, after which their workers took no more jobs.
    pub(crate) out_of_use: BTreeSet<String>,
}

impl Report {
    /// Of several workers side by side.
    pub(crate) fn together(self, other: Self) -> Self {
        Self {
            jobs: self.jobs + other.jobs,
            failed: self.failed + other.failed,
            refused: self.refused + other.refused,
            wall_s: self.wall_s.max(other.wall_s),
            device_s: self.device_s.max(other.device_s),
            left_alone: self.left_alone.into_iter().chain(other.left_alone).collect(),
            out_of_use: self.out_of_use.into_iter().chain(other.out_of_use).collect(),
        }
    }
}

/// A worker at an exchange folder.
pub(crate) struct Drain<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) performer: &'a mut dyn Performer,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) report: Report,
    /// The group at hand goes on while it has jobs.
    group: Option<String>,
    /// Groups that workers of this process are at, so that each takes another where there are several.
    at_work: &'a Mutex<BTreeMap<String, usize>>,
    /// How long a session without work stays warm.
    pub(crate) warm: Duration,
    /// What was read of jobs that wait, so that a look at many costs little.
    seen: BTreeMap<String, Job>,
}

impl<'a> Drain<'a> {
    pub(crate) fn new(
        exchange: &'a Exchange,
        performer: &'a mut dyn Performer,
        observer: &'a dyn Observer,
        at_work: &'a Mutex<BTreeMap<String, usize>>,
    ) -> Self {
        let (report, seen) = (Report::default(), BTreeMap::new());
        Self { exchange, performer, observer, report, group: None, at_work, warm: WARM, seen }
    }

    /// Leaves the group at hand, and goes to another.
    fn move_to(&mut self, group: Option<String>) {
        if self.group == group {
            return;
        }
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = self.group.as_ref().and_then(|left| at_work.get_mut(left)) {
            *count = count.saturating_sub(1);
        }
        if let Some(next) = &group {
            *at_work.entry(next.clone()).or_default() += 1;
        }
        self.group = group;
    }

    /// Everything that waits; with `watch` also what comes later. Ends before the next job once `limit` has passed, or the
    /// device is out of use: the jobs that wait are for a worker that has one.
    pub(crate) fn run(
        &mut self,
        watch: bool,
        limit: Option<Duration>,
        finished: &mut dyn FnMut(&Finished<'_>),
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        let time_left = || limit.is_none_or(|limit| begun.elapsed() < limit);
        let mut worked = Instant::now();
        while time_left() {
            if let Some(why) = self.performer.out_of_use() {
                self.report.out_of_use.insert(why);
                break;
            }
            if self.one(finished)? {
                worked = Instant::now();
                continue;
            }
            if !watch {
                break;
            }
            if worked.elapsed() > self.warm {
                self.performer.rest();
            }
            self.observer.stage("waiting for jobs");
            std::thread::sleep(PAUSE);
        }
        self.move_to(None);
        self.report.wall_s = begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// One job, or false where none can be had.
    pub(crate) fn one(&mut self, finished: &mut dyn FnMut(&Finished<'_>)) -> anyhow::Result<bool> {
        for id in self.exchange.put_back_expired() {
            self.observer.stage(&format!("{id} waits again: its worker has been silent for too long"));
        }
        for id in self.in_order() {
            match self.exchange.claim(&id, self.performer.name())? {
                Claimed::Mine(claim) => {
                    self.perform(*claim, finished)?;
                    return Ok(true);
                }
                Claimed::Gone => {}
                Claimed::Unfit(Unfit::Incomplete(why)) => {
                    self.report.left_alone.insert(id, why);
                }
                Claimed::Unfit(Unfit::Refused { text, .. }) => {
                    self.report.refused += 1;
                    self.observer.stage(&format!("{id} is refused: {text}"));
                }
            }
        }
        Ok(false)
    }

    /// Ids in the order in which they are tried.
    fn in_order(&mut self) -> Vec<String> {
        let mut before = std::mem::take(&mut self.seen);
        self.report.left_alone.clear();
        let mut jobs: Vec<Job> = Vec::new();
        let mut unfit: Vec<String> = Vec::new();
        for id in self.exchange.waiting() {
            match before.remove(&id).map_or_else(|| self.exchange.head(&id), Ok) {
                Ok(job) => jobs.push(job),
                Err(Unfit::Incomplete(why)) => {
                    self.report.left_alone.insert(id, why);
                }
                // To be refused when it is claimed.
                Err(Unfit::Refused { .. }) => unfit.push(id),
            }
        }
        let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut oldest: BTreeMap<String, jiff::Timestamp> = BTreeMap::new();
        for job in &jobs {
            let first = oldest.entry(job.group()).or_insert(job.created);
            *first = job.created.min(*first);
        }
        jobs.sort_by_cached_key(|job| {
            let group = job.group();
            let other = self.group.as_ref() != Some(&group);
            let taken = at_work.get(&group).copied().unwrap_or(0);
            (other, taken, oldest.get(&group).copied(), group, job.created, job.id.clone())
        });
        unfit.extend(jobs.iter().map(|job| job.id.clone()));
        self.seen = jobs.into_iter().map(|job| (job.id.clone(), job)).collect();
        unfit
    }

    fn perform(&mut self, claim: Claim, finished: &mut dyn FnMut(&Finished<'_>)) -> anyhow::Result<()> {
        let job = claim.packed.job.clone();
        self.move_to(Some(job.group()));
        let (result, files) = if claim.is_hopeless() {
            (JobResult::new(&job.id, self.performer.name(), 0.0, claim.hopeless()), Vec::new())
        } else {
            self.performer.perform(&claim.packed, self.observer)
        };
        let answered = claim.answer(&result, files)?;
        self.report.jobs += 1;
        self.report.failed += usize::from(!result.is_final());
        finished(&Finished { job: &job, result: &result, answered });
        Ok(())
    }
}
