//! Over ssh, with a connection that may be lost.

use super::{
    Transport,
    connection::{Connection, Destination, Event},
};
use crate::job::{JobResult, Packed, exchange::Submitted, exchange::parse_answer, frame::Message};
use anyhow::{Context, bail};
use kforge_exec::Observer;
use std::{
    collections::BTreeMap,
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

const LOOK: Duration = Duration::from_millis(500);
/// Pauses before each new try to connect.
const BACKOFF_S: [u64; 6] = [1, 2, 4, 8, 16, 30];

pub(crate) struct SshTransport {
    to: Destination,
    timeout: Option<Duration>,
    connection: Option<Connection>,
    /// Sent, and not answered yet: sent again over a new connection.
    open: BTreeMap<String, Packed>,
    answers: BTreeMap<String, JobResult>,
}

impl SshTransport {
    pub(crate) fn new(to: Destination, timeout: Option<Duration>) -> Self {
        Self { to, timeout, connection: None, open: BTreeMap::new(), answers: BTreeMap::new() }
    }

    fn connect(&mut self, observer: &dyn Observer) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.to, &|text| observer.stage(text))?;
        for packed in self.open.values() {
            connection
                .send(&Message::Job { id: packed.job.id.clone() }, &packed.contents()?)
                .with_context(|| format!("cannot send a job to {}", self.to.host))?;
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// Jobs are idempotent by id, and a worker finishes what it has: nothing is judged twice for a lost connection.
    fn reconnect(&mut self, why: &str, observer: &dyn Observer) -> anyhow::Result<()> {
        self.connection = None;
        let mut last = anyhow::anyhow!("{why}");
        for (number, pause) in BACKOFF_S.iter().enumerate() {
            let tries = BACKOFF_S.len();
            let host = &self.to.host;
            observer.stage(&format!("{why}; connecting to {host} again in {pause} s ({} of {tries})", number + 1));
            std::thread::sleep(Duration::from_secs(*pause));
            match self.connect(observer) {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last.context(format!(
            "lost the connection to {}; what was finished there is kept: run the same command again, or resume the run",
            self.to.host
        )))
    }

    fn take(&mut self, event: Event, observer: &dyn Observer) -> anyhow::Result<()> {
        match event {
            Event::Message(Message::Stage { text }, _) => {
                observer.stage(&crate::text::one_line(&format!("{}: {text}", self.to.host), 300));
            }
            Event::Message(Message::Result { id }, files) => {
                if self.open.contains_key(&id) {
                    let bytes = files.first().map(|file| file.bytes.as_slice()).unwrap_or_default();
                    self.answers.insert(id.clone(), parse_answer(bytes, &id)?);
                    self.open.remove(&id);
                }
            }
            Event::Message(Message::Failed { text }, _) => {
                bail!("the worker on {} failed: {}", self.to.host, crate::text::one_line(&text, 2000));
            }
            Event::Message(..) => {}
            Event::Lost(why) => self.reconnect(&why, observer)?,
        }
        Ok(())
    }
}

impl Transport for SshTransport {
    fn submit(&mut self, packed: &Packed, observer: &dyn Observer) -> anyhow::Result<Submitted> {
        let id = &packed.job.id;
        if self.answers.contains_key(id) {
            return Ok(Submitted::Answered);
        }
        if self.open.insert(id.clone(), packed.clone()).is_some() {
            return Ok(Submitted::Waiting);
        }
        match &mut self.connection {
            // A first connection that fails is not tried again: the user sees what ssh says.
            None => self.connect(observer)?,
            Some(connection) => {
                if let Err(error) = connection.send(&Message::Job { id: id.clone() }, &packed.contents()?) {
                    self.reconnect(&format!("the connection broke: {error}"), observer)?;
                }
            }
        }
        Ok(Submitted::New)
    }

    fn wait(&mut self, id: &str, observer: &dyn Observer) -> anyhow::Result<JobResult> {
        let begun = Instant::now();
        loop {
            if let Some(result) = self.answers.remove(id) {
                return Ok(result);
            }
            if self.timeout.is_some_and(|limit| begun.elapsed() >= limit) {
                bail!("no answer from {} in time; it is kept there: run the same command again", self.to.host);
            }
            let connection = self.connection.as_ref().context("there is no connection")?;
            match connection.events.recv_timeout(LOOK) {
                Ok(event) => self.take(event, observer)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.reconnect("the connection ended", observer)?,
            }
        }
    }
}
