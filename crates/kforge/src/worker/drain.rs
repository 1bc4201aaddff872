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
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How often an empty folder is looked at.
const PAUSE: Duration = Duration::from_millis(500);

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
    /// In stages in which the device works.
    pub(crate) device_s: f64,
    /// Folders that were left alone, with the reason: half-copied, or damaged.
    pub(crate) left_alone: BTreeMap<String, String>,
}

/// A worker at an exchange folder.
pub(crate) struct Drain<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) performer: &'a mut dyn Performer,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) report: Report,
    /// The group at hand goes on while it has jobs.
    group: Option<String>,
    /// What was read of jobs that wait, so that a look at many costs little.
    seen: BTreeMap<String, Job>,
}

impl<'a> Drain<'a> {
    pub(crate) fn new(exchange: &'a Exchange, performer: &'a mut dyn Performer, observer: &'a dyn Observer) -> Self {
        Self { exchange, performer, observer, report: Report::default(), group: None, seen: BTreeMap::new() }
    }

    /// Everything that waits; with `watch` also what comes later. Ends before the next job once `limit` has passed.
    pub(crate) fn run(
        &mut self,
        watch: bool,
        limit: Option<Duration>,
        finished: &mut dyn FnMut(&Finished<'_>),
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        let time_left = || limit.is_none_or(|limit| begun.elapsed() < limit);
        while time_left() {
            if self.one(finished)? {
                continue;
            }
            if !watch {
                break;
            }
            self.observer.stage("waiting for jobs");
            std::thread::sleep(PAUSE);
        }
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
        let mut oldest: BTreeMap<String, jiff::Timestamp> = BTreeMap::new();
        for job in &jobs {
            let first = oldest.entry(job.group()).or_insert(job.created);
            *first = job.created.min(*first);
        }
        jobs.sort_by_cached_key(|job| {
            let group = job.group();
            let other = self.group.as_ref() != Some(&group);
            (other, oldest.get(&group).copied(), group, job.created, job.id.clone())
        });
        unfit.extend(jobs.iter().map(|job| job.id.clone()));
        self.seen = jobs.into_iter().map(|job| (job.id.clone(), job)).collect();
        unfit
    }

    fn perform(&mut self, claim: Claim, finished: &mut dyn FnMut(&Finished<'_>)) -> anyhow::Result<()> {
        let job = claim.packed.job.clone();
        self.group = Some(job.group());
        let (result, files) = if claim.is_hopeless() {
            (JobResult::new(&job.id, self.performer.name(), 0.0, claim.hopeless()), Vec::new())
        } else {
            self.performer.perform(&claim.packed, self.observer)
        };
        let answered = claim.answer(&result, files)?;
        self.report.jobs += 1;
        self.report.failed += usize::from(!result.is_final());
        self.report.device_s += result.device_s();
        finished(&Finished { job: &job, result: &result, answered });
        Ok(())
    }
}
