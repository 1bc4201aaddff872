//! A folder in which requests wait for whoever answers them: a person, a program, another machine.
//!
//! Each request is a folder of its own that appears complete. Nothing in the mailbox is ever deleted: an answered folder is
//! the record, a cancelled one carries a marker, and an answer that cannot be used is set aside under another name. The
//! same request is asked once: whoever asks it again adopts what already waits or was answered.

mod letter;
#[cfg(test)]
mod tests;

use crate::disk::{self, Unusable, read_text};
use crate::fault::bounded;
use crate::support::{ESTIMATED, cancelled, estimated_usage, failure, pause, request_hash};
use crate::{CallError, CallErrorKind, Model, Reply, Request, Stop, Usage, Watch};
use serde::Deserialize;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const REPLY: &str = "reply.md";
const USAGE: &str = "usage.json";
const CANCELLED: &str = "cancelled";
const MAX_REPLY: u64 = 4 << 20;
const MAX_USAGE: u64 = 64 << 10;

/// An unusable answer is set aside after so many looks at which it was the same: somebody may be writing it in place.
const LOOKS_BEFORE_BAD: u32 = 10;

/// The model `mailbox:DIR`.
pub(crate) struct Mailbox {
    name: String,
    dir: PathBuf,
    look: Duration,
}

impl Mailbox {
    /// The folder is made when the first request is put into it.
    pub(crate) fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self { name: format!("mailbox:{}", dir.display()), dir, look: Duration::from_millis(150) }
    }

    /// Puts the request into the mailbox, or finds it there. True when it was there.
    fn post(&self, request: &Request, watch: &dyn Watch) -> Result<(PathBuf, bool), CallError> {
        fs::create_dir_all(&self.dir).map_err(|error| self.fault("cannot be made", &error))?;
        // The lock keeps two processes that ask the same from both putting it there.
        let Some(_lock) = self.lock(&|| watch.cancelled())? else { return Err(cancelled("the request")) };
        let hash = request_hash(request);
        if let Some(folder) = letter::find(&self.dir, &hash).map_err(|error| self.fault("cannot be listed", &error))? {
            let _ = fs::remove_file(folder.join(CANCELLED));
            return Ok((folder, true));
        }
        let folder = letter::put(&self.dir, request, &hash).map_err(|error| self.fault("cannot be written", &error))?;
        Ok((folder, false))
    }

    fn wait(&self, folder: &Path, watch: &dyn Watch) -> Result<String, CallError> {
        let mut seen: Option<Stamp> = None;
        let mut looks = 0;
        loop {
            if !folder.is_dir() {
                let text = format!(
                    "the request's folder {} was removed before it was answered: ask again, or choose another model",
                    folder.display()
                );
                return Err(failure(CallErrorKind::Setup, text));
            }
            // Another waiter of the same request may have been cancelled; this one still wants the answer.
            let _ = fs::remove_file(folder.join(CANCELLED));
            let stamp = Stamp::of(&folder.join(REPLY));
            looks = if stamp.is_some() && stamp == seen { looks + 1 } else { 0 };
            seen = stamp;
            if looks > 0 {
                match read_reply(folder) {
                    Ok(text) if Stamp::of(&folder.join(REPLY)) == seen => return Ok(text),
                    Ok(_) | Err(Unusable::Absent) => looks = 0,
                    Err(Unusable::Because(why)) if looks >= LOOKS_BEFORE_BAD => {
                        self.set_aside(folder, &why, watch)?;
                        looks = 0;
                    }
                    Err(Unusable::Because(_)) => {}
                }
            }
            if !pause(self.look, watch) {
                let _ = fs::write(
                    folder.join(CANCELLED),
                    "Nobody waits for this answer now. If the run is resumed, it is asked for again.\n",
                );
                return Err(cancelled("the wait for an answer"));
            }
        }
    }

    /// Renames an answer that cannot be used, so that the place is free for a better one.
    fn set_aside(&self, folder: &Path, why: &str, watch: &dyn Watch) -> Result<(), CallError> {
        let Some(_lock) = self.lock(&|| watch.cancelled())? else { return Ok(()) };
        // Another waiter may have done it already, and a good answer may have come since.
        if !matches!(read_reply(folder), Err(Unusable::Because(_))) {
            return Ok(());
        }
        let free = (1..10_000).map(|n| format!("reply.bad-{n}.md")).find(|name| !is_there(&folder.join(name)));
        let moved = match &free {
            Some(name) => fs::rename(folder.join(REPLY), folder.join(name)),
            None => Err(io::Error::other("there are too many bad replies")),
        };
        match moved {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failure(
                CallErrorKind::Setup,
                format!(
                    "{} {why} and cannot be set aside ({error}): remove it, and put a text file there by rename",
                    folder.join(REPLY).display()
                ),
            )),
            _ => {
                watch.waiting(&format!(
                    "the answer in {} {why}; it is now {}, and a text file named {REPLY} is waited for",
                    folder.display(),
                    free.unwrap_or_default()
                ));
                Ok(())
            }
        }
    }

    fn lock(&self, give_up: &dyn Fn() -> bool) -> Result<Option<disk::Lock>, CallError> {
        disk::lock(&self.dir, give_up).map_err(|error| self.fault("cannot be locked", &error))
    }

    fn fault(&self, what: &str, error: &io::Error) -> CallError {
        let text = format!(
            "the mailbox {} {what} ({error}): check the folder and its permissions, or name another one",
            self.dir.display()
        );
        failure(CallErrorKind::Setup, text)
    }
}

impl Model for Mailbox {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&self, request: &Request, watch: &dyn Watch) -> Result<Reply, CallError> {
        let started = Instant::now();
        let (folder, adopted) = self.post(request, watch)?;
        watch.waiting(&format!("waiting for {} (read request.md beside it)", folder.join(REPLY).display()));
        let text = self.wait(&folder, watch)?;
        watch.received(text.chars().count());
        let mut notes = Vec::new();
        if adopted {
            notes.push("this request was in the mailbox already and was not asked again".into());
        }
        let counted = Counted::read(&folder, &mut notes);
        let usage = counted.usage().unwrap_or_else(|| {
            notes.push(ESTIMATED.into());
            estimated_usage(request, &text)
        });
        Ok(Reply {
            text,
            model: counted.model.unwrap_or_else(|| self.name.clone()),
            stop: Stop::End,
            usage,
            cost_usd: counted.cost_usd,
            seconds: started.elapsed().as_secs_f64(),
            attempts: 1,
            notes,
        })
    }
}

/// Tells one state of a file from another without reading it.
#[derive(PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let meta = fs::symlink_metadata(path).ok()?;
        Some(Self { inode: meta.ino(), size: meta.size(), changed: (meta.ctime(), meta.ctime_nsec()) })
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn read_reply(folder: &Path) -> Result<String, Unusable> {
    let text = read_text(&folder.join(REPLY), MAX_REPLY)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim().is_empty() {
        return Err(Unusable::Because("is empty".into()));
    }
    Ok(text.to_owned())
}

/// What the answerer says it counted.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Counted {
    input: Option<u64>,
    cached_input: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
    cost_usd: Option<f64>,
    model: Option<String>,
}

impl Counted {
    /// An unusable file is said in a note: the answer itself is worth more than its bookkeeping.
    fn read(folder: &Path, notes: &mut Vec<String>) -> Self {
        let why = match read_text(&folder.join(USAGE), MAX_USAGE) {
            Err(Unusable::Absent) => return Self::default(),
            Err(Unusable::Because(why)) => why,
            Ok(text) => match serde_json::from_str::<Self>(&text) {
                Ok(counted) if counted.cost_usd.is_none_or(|cost| cost.is_finite() && cost >= 0.0) => {
                    let name = counted.model.map(|name| bounded(&name, 200)).filter(|name| !name.is_empty());
                    return Self { model: name, ..counted };
                }
                Ok(_) => "has a cost that is no amount of dollars".into(),
                Err(error) => format!("is not as request.md describes it ({error})"),
            },
        };
        notes.push(format!("{USAGE} {why} and was left aside"));
        Self::default()
    }

    fn usage(&self) -> Option<Usage> {
        let usage = Usage {
            input: self.input,
            cached_input: self.cached_input,
            output: self.output,
            reasoning: self.reasoning,
            estimated: false,
        };
        (usage != Usage::default()).then_some(usage)
    }
}
