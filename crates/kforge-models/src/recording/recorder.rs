//! Keeps what a model said, beside giving it on.

use super::{Exchange, INDEX, Index, MAX_FILE, kept_prompt, stem};
use crate::disk::{Unusable, lock_folder, read_text, slug, write_whole};
use crate::support::text_hash;
use crate::{CallError, Label, Model, Reply, Request, Watch};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model whose exchanges are written to a folder.
pub struct Recorder {
    inner: Arc<dyn Model>,
    dir: PathBuf,
}

impl Recorder {
    /// Records `inner` under `dir`, which is made when the first reply comes.
    pub fn new(inner: Arc<dyn Model>, dir: impl Into<PathBuf>) -> Self {
        Self { inner, dir: dir.into() }
    }

    fn record(&self, request: &Request, reply: &Reply) -> Result<(), String> {
        let label = &request.label;
        let folder = self.place(label)?;
        let failed = |error: std::io::Error| format!("{} cannot be written ({error})", folder.display());
        fs::create_dir_all(&folder).map_err(failed)?;
        let lock = lock_folder(&folder, || false).map_err(failed)?;
        // Read again: another thread or process may have added to it.
        let mut index = read_index(&folder)?.unwrap_or_else(|| Index::new(label));
        if !index.is_for(label) {
            // Another problem of this name was quicker: the place is chosen anew.
            drop(lock);
            return self.record(request, reply);
        }
        let prompt = kept_prompt(request);
        index.exchanges.retain(|exchange| (exchange.role.as_str(), exchange.ordinal) != (&label.role, label.ordinal));
        index.exchanges.push(Exchange {
            role: label.role.clone(),
            ordinal: label.ordinal,
            model: self.inner.name().to_owned(),
            answered_by: reply.model.clone(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            stop: reply.stop,
            seconds: reply.seconds,
            attempts: reply.attempts,
            prompt_hash: text_hash(&prompt),
            cost_usd: reply.cost_usd,
            usage: reply.usage,
        });
        index.exchanges.sort_by(|a, b| (a.ordinal, &a.role).cmp(&(b.ordinal, &b.role)));
        let text = toml::to_string(&index).map_err(|error| format!("{INDEX} cannot be written ({error})"))?;
        let stem = stem(&label.role, label.ordinal);
        // The index last: what it names is there.
        write_whole(&folder, &format!("{stem}.prompt.md"), prompt.as_bytes()).map_err(failed)?;
        write_whole(&folder, &format!("{stem}.reply.md"), reply.text.as_bytes()).map_err(failed)?;
        write_whole(&folder, INDEX, text.as_bytes()).map_err(failed)
    }

    /// The folder for a problem and target. Another problem of the same name has its hash in the folder's name, and nothing
    /// of another problem or of an unreadable recording is overwritten.
    fn place(&self, label: &Label) -> Result<PathBuf, String> {
        let (problem, target) = (slug(&label.problem, 80), slug(&label.target, 40));
        let hashed = format!("{problem}-{}", slug(&label.problem_hash, 8));
        let mut fault = String::new();
        for name in [problem, hashed] {
            let folder = self.dir.join(name).join(&target);
            match read_index(&folder) {
                Ok(index) if index.as_ref().is_none_or(|index| index.is_for(label)) => return Ok(folder),
                Ok(_) => fault = format!("{} belongs to another problem", folder.display()),
                Err(why) => fault = why,
            }
        }
        Err(fault)
    }
}

fn read_index(folder: &Path) -> Result<Option<Index>, String> {
    let why = match read_text(&folder.join(INDEX), MAX_FILE) {
        Err(Unusable::Absent) => return Ok(None),
        Err(Unusable::Because(why)) => why,
        Ok(text) => match Index::parse(&text) {
            Ok(index) => return Ok(Some(index)),
            Err(why) => why,
        },
    };
    Err(format!("{} {why}", folder.join(INDEX).display()))
}

impl Model for Recorder {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn ask(&self, request: &Request, watch: &dyn Watch) -> Result<Reply, CallError> {
        let mut reply = self.inner.ask(request, watch)?;
        // The reply was paid for: it is given on also where it cannot be kept.
        if let Err(why) = self.record(request, &reply) {
            reply.notes.push(format!("not recorded: {why}; move it away or record to another folder"));
        }
        Ok(reply)
    }
}
