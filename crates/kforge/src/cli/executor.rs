//! Who evaluates: the flags that several commands share, and from a name to a way there.

use super::{Usage, printer::Printer};
use crate::{
    config::{Executor, Span},
    executor::{Destination, FolderTransport, RemoteEvaluator, SshTransport, Transport},
    job::{JobOptions, Problem},
};
use clap::Args;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Who evaluates.
#[derive(Args)]
pub(crate) struct ExecutorArgs {
    /// Who evaluates: in-place is this process; exchange:DIR puts jobs into a folder, where `kforge worker drain DIR` on
    /// any machine that sees the folder, or a copy of it, does them; ssh:HOST runs a worker on that machine and copies
    /// kforge there once; ssh:HOST:PATH uses the kforge that is there.
    #[arg(long, value_name = "EXECUTOR", default_value = "in-place")]
    pub(crate) executor: Executor,
    /// Give up when a job has no answer after this time: 90s, 30m, 2h [default: wait].
    #[arg(long, value_name = "TIME")]
    executor_timeout: Option<Span>,
    /// Send this too: a file or folder beside the problem that its imports do not show; may be repeated.
    #[arg(long, value_name = "PATH")]
    carry: Vec<PathBuf>,
    /// With exchange:DIR the same question finds the answer that it was given before. Another tag asks it anew.
    #[arg(long, default_value = "")]
    tag: String,
}

/// What a command asks others about.
pub(crate) struct Asked<'a> {
    pub(crate) executor: &'a Executor,
    pub(crate) timeout: Option<Duration>,
    pub(crate) problem: &'a Path,
    /// As results name the problem.
    pub(crate) problem_file: String,
    pub(crate) carry: &'a [PathBuf],
    pub(crate) tag: String,
    pub(crate) options: JobOptions,
    pub(crate) python: Option<&'a Path>,
}

impl ExecutorArgs {
    /// The way to others; nothing where this process evaluates.
    pub(crate) fn remote(
        &self,
        problem: &Path,
        options: JobOptions,
        python: Option<&Path>,
    ) -> anyhow::Result<Option<RemoteEvaluator>> {
        let mut tag = self.tag.clone();
        if tag.is_empty() && matches!(self.executor, Executor::Ssh { .. }) {
            // Whoever asks again over ssh wants to have it measured again; a folder is how answers are come back for.
            tag = jiff::Timestamp::now().to_string();
        }
        let asked = Asked {
            executor: &self.executor,
            timeout: self.executor_timeout.map(|span| span.0),
            problem,
            problem_file: problem.display().to_string(),
            carry: &self.carry,
            tag,
            options,
            python,
        };
        asked.remote()
    }
}

impl Asked<'_> {
    pub(crate) fn remote(self) -> anyhow::Result<Option<RemoteEvaluator>> {
        let Some(transport) = self.transport()? else {
            if !self.carry.is_empty() {
                let text = "--carry is for exchange:DIR and ssh:HOST: in place the problem's folder is there";
                return Err(Usage(text.to_owned()).into());
            }
            return Ok(None);
        };
        Ok(Some(RemoteEvaluator {
            transport,
            problem: Problem::load(self.problem, self.carry)?,
            problem_file: self.problem_file,
            options: self.options,
            tag: self.tag,
        }))
    }

    fn transport(&self) -> anyhow::Result<Option<Box<dyn Transport>>> {
        Ok(match self.executor {
            Executor::InPlace => None,
            Executor::Exchange(folder) => {
                if self.python.is_some() {
                    let text =
                        "with exchange:DIR the worker chooses its Python: give --python to `kforge worker drain`";
                    return Err(Usage(text.to_owned()).into());
                }
                Some(Box::new(FolderTransport::open(folder, self.timeout)?))
            }
            Executor::Ssh { host, program } => {
                let mut words = Vec::new();
                if let Some(python) = self.python.and_then(Path::to_str) {
                    if python.contains('\'') {
                        return Err(Usage(format!("{python} has a quote in its name: choose another path")).into());
                    }
                    words.extend(["--python".to_owned(), python.to_owned()]);
                }
                let to = Destination { host: host.clone(), program: program.clone(), words };
                Some(Box::new(SshTransport::new(to, self.timeout)))
            }
        })
    }
}

/// A name that is the same wherever the command is run from.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// An answer that was there already was measured earlier: said, so that nobody takes it for new.
pub(crate) fn say_answered(id: &str, printer: &Printer) {
    printer.note(&format!("kforge: job {id} was answered before; --tag TEXT asks it anew"));
}
