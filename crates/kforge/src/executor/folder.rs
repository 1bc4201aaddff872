//! Through an exchange folder.

use super::Transport;
use crate::job::{
    JobResult, Packed,
    exchange::{Exchange, Place, Submitted},
};
use kforge_exec::Observer;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct FolderTransport {
    exchange: Exchange,
    folder: PathBuf,
    timeout: Option<Duration>,
}

impl FolderTransport {
    pub(crate) fn open(folder: &Path, timeout: Option<Duration>) -> anyhow::Result<Self> {
        Ok(Self { exchange: Exchange::open(folder)?, folder: folder.to_owned(), timeout })
    }

    fn progress(&self, id: &str) -> String {
        let folder = self.folder.display();
        match self.exchange.place(id) {
            Place::Pending => format!("waiting for a worker on {folder}: run `kforge worker drain {folder}` there"),
            Place::Claimed(worker) => format!("worker {worker} has the job"),
            Place::Done => format!("waiting until {folder}/done/{id} is whole"),
            Place::Nowhere => format!("the job was taken out of {folder}: waiting for its answer in {folder}/done"),
        }
    }
}

impl Transport for FolderTransport {
    fn submit(&mut self, packed: &Packed, _observer: &dyn Observer) -> anyhow::Result<Submitted> {
        self.exchange.submit(packed)
    }

    fn wait(&mut self, id: &str, observer: &dyn Observer) -> anyhow::Result<JobResult> {
        let begun = Instant::now();
        let mut pause = SHORTEST_PAUSE;
        loop {
            if let Some(result) = self.exchange.told(id)? {
                self.exchange.collected(id, &result);
                return Ok(result);
            }
            observer.stage(&self.progress(id));
            if let Some(limit) = self.timeout.filter(|limit| begun.elapsed() >= *limit) {
                anyhow::bail!(
                    "no answer to job {id} within {} s; it stays in {}: run `kforge worker drain` there, then the same command again",
                    limit.as_secs_f64(),
                    self.folder.display()
                );
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
