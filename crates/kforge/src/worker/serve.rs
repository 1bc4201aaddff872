//! A worker at the other end of a connection.
//!
//! Jobs that come are put into an exchange folder in the worker's cache and done from there, so that a lost connection
//! loses nothing: the job at hand is finished, its answer lies there, and whoever asks again finds it.

use super::{Drain, Performer};
use crate::job::{
    Content, Packed, Unfit, VERSION,
    exchange::{Exchange, Place},
    frame::{Message, receive, send},
};
use kforge_exec::Observer;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{Read, Write},
    path::Path,
    sync::mpsc::{self, RecvTimeoutError, TryRecvError},
    time::Duration,
};

const LOOK: Duration = Duration::from_millis(200);
/// Answers that nobody came for are kept so long.
const KEPT: Duration = Duration::from_hours(14 * 24);

/// Until the other side hangs up; then the job at hand is finished and this returns.
pub(crate) fn serve(
    exchange: &Exchange,
    performer: &mut dyn Performer,
    input: impl Read + Send + 'static,
    output: impl Write,
) -> anyhow::Result<()> {
    exchange.forget(&|answer| is_older(answer, KEPT));
    let line = Line { output: RefCell::new(output), broken: RefCell::new(false) };
    line.say(&Message::Hello { version: VERSION, kforge: env!("CARGO_PKG_VERSION").to_owned() }, &[]);
    let served = answer_all(exchange, performer, &listen(input), &line);
    if let Err(error) = &served {
        line.say(&Message::Failed { text: format!("{error:#}") }, &[]);
    }
    served
}

fn answer_all<W: Write>(
    exchange: &Exchange,
    performer: &mut dyn Performer,
    jobs: &mpsc::Receiver<Vec<Content>>,
    line: &Line<W>,
) -> anyhow::Result<()> {
    let mut wanted: BTreeMap<String, Packed> = BTreeMap::new();
    let at_work = std::sync::Mutex::default();
    let mut drain = Drain::new(exchange, performer, line, &at_work);
    loop {
        // Waits only where there is nothing to do, or where the worker of an earlier connection is at it.
        let worked = drain.one(&mut |_| {})?;
        answer(exchange, &mut wanted, line)?;
        if let Some(why) = drain.performer.out_of_use() {
            anyhow::bail!(why);
        }
        let mut next = if worked {
            jobs.try_recv().map_err(|error| error == TryRecvError::Disconnected)
        } else {
            jobs.recv_timeout(LOOK).map_err(|error| error == RecvTimeoutError::Disconnected)
        };
        while let Ok(files) = next {
            take(exchange, files, &mut wanted, line)?;
            next = jobs.try_recv().map_err(|error| error == TryRecvError::Disconnected);
        }
        if next == Err(true) {
            // Whoever asks for the rest again sends it again; nobody else is to wait for it.
            for id in wanted.keys() {
                exchange.withdraw(id);
            }
            return Ok(());
        }
    }
}

/// Reads in a thread of its own, so that the end of the connection is noticed while a job is done.
fn listen(mut input: impl Read + Send + 'static) -> mpsc::Receiver<Vec<Content>> {
    let (jobs, received) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            match receive(&mut input) {
                Ok(Some((Message::Job { .. }, files))) => {
                    if jobs.send(files).is_err() {
                        return;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    });
    received
}

fn take<W: Write>(
    exchange: &Exchange,
    files: Vec<Content>,
    wanted: &mut BTreeMap<String, Packed>,
    line: &Line<W>,
) -> anyhow::Result<()> {
    match Packed::of_contents(files) {
        Ok(packed) => {
            exchange.drop_failure(&packed.job.id);
            exchange.submit(&packed)?;
            wanted.insert(packed.job.id.clone(), packed);
        }
        Err(Unfit::Incomplete(text) | Unfit::Refused { text, .. }) => line.say(&Message::Failed { text }, &[]),
    }
    Ok(())
}

fn answer<W: Write>(exchange: &Exchange, wanted: &mut BTreeMap<String, Packed>, line: &Line<W>) -> anyhow::Result<()> {
    let ids: Vec<String> = wanted.keys().cloned().collect();
    for id in ids {
        if let Some(result) = exchange.answer(&id)? {
            let file = Content::new("out/result.json", serde_json::to_vec(&result)?);
            line.say(&Message::Result { id: id.clone() }, &[file]);
            wanted.remove(&id);
        } else if let Some(packed) = wanted.get(&id).filter(|_| exchange.place(&id) == Place::Nowhere) {
            // The worker of an earlier connection took back what it thought that nobody wants any more.
            exchange.submit(packed)?;
        }
    }
    Ok(())
}

/// The way back. Once it is broken nothing more is said, and the work goes on.
struct Line<W> {
    output: RefCell<W>,
    broken: RefCell<bool>,
}

impl<W: Write> Line<W> {
    fn say(&self, message: &Message, files: &[Content]) {
        let mut broken = self.broken.borrow_mut();
        if !*broken {
            *broken = send(&mut *self.output.borrow_mut(), message, files).is_err();
        }
    }
}

impl<W: Write> Observer for Line<W> {
    fn stage(&self, text: &str) {
        self.say(&Message::Stage { text: text.to_owned() }, &[]);
    }
}

fn is_older(path: &Path, age: Duration) -> bool {
    let modified = std::fs::metadata(path).and_then(|about| about.modified());
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|passed| passed > age))
}
