//! What can be wrong with an interpreter, and with the making of one.

use super::{OLDEST_PYTHON, OLDEST_TORCH, PythonSource};
use crate::cache::CacheError;
use crate::process::ProcessError;
use std::io;
use std::path::{Path, PathBuf};

/// Why an interpreter will not do; reads after its path.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// No such file.
    #[error("does not exist")]
    Absent,
    /// A file that is not a program.
    #[error("is not an executable file")]
    NotExecutable,
    /// It did not start, or hung.
    #[error("does not run ({0})")]
    Process(#[source] ProcessError),
    /// It ran and did not say what was asked.
    #[error("does not answer like a Python interpreter ({0})")]
    Garbage(String),
    /// Below [`OLDEST_PYTHON`].
    #[error("is Python {0}, which is older than {major}.{minor}", major = OLDEST_PYTHON.0, minor = OLDEST_PYTHON.1)]
    TooOld(String),
    /// torch or numpy is not installed.
    #[error("has no {missing}{}", hidden(user_site.as_deref()))]
    Without {
        /// What is missing: `torch`, `numpy` or `torch and numpy`.
        missing: &'static str,
        /// Where torch lies in the user's own site folder, which an isolated interpreter does not read.
        user_site: Option<PathBuf>,
    },
    /// Below [`OLDEST_TORCH`].
    #[error("has torch {0}, which is older than {major}.{minor}", major = OLDEST_TORCH.0, minor = OLDEST_TORCH.1)]
    TorchTooOld(String),
}

fn hidden(user_site: Option<&Path>) -> String {
    user_site
        .map(|folder| {
            format!(
                " that kforge can use (the one in {} belongs to the user site, which is not read in isolated mode)",
                folder.display()
            )
        })
        .unwrap_or_default()
}

/// No Python to judge with.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// The user named an interpreter that will not do.
    #[error("cannot use the Python {source}: {} {reason}; {mend}", executable.display(), source = origin)]
    Named {
        /// Who named it.
        origin: PythonSource,
        /// The interpreter.
        executable: PathBuf,
        /// What is wrong with it.
        reason: Box<Unusable>,
        /// What to do, in words.
        mend: String,
        /// What to do, as a command alone, where one would do.
        command: Option<String>,
    },
    /// Nothing to make a managed environment from.
    #[error("cannot make a Python environment: {problem}; {mend}")]
    NoBase {
        /// What is missing.
        problem: String,
        /// What to do, in words.
        mend: String,
        /// What to do, as a command alone, where one would do.
        command: Option<String>,
    },
    /// No place for a managed environment.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The disk is too full.
    #[error(
        "cannot install {what} in {}: about {needed} bytes are needed and {free} are free; make room, or set KFORGE_CACHE_DIR to a folder on another disk",
        path.display()
    )]
    NoSpace {
        /// What was to be installed.
        what: String,
        /// Where.
        path: PathBuf,
        /// Bytes free.
        free: u64,
        /// Bytes needed, about.
        needed: u64,
    },
    /// The installer gave up.
    #[error("cannot {what}: {cause}\n{log}\n{mend}")]
    Installer {
        /// What was tried.
        what: String,
        /// How it ended.
        cause: String,
        /// The last lines that the installer said.
        log: String,
        /// What to do.
        mend: String,
    },
    /// A file of the managed environment could not be read, written or removed.
    #[error("cannot {what} {}: {source}; remove the folder and try again, or set KFORGE_CACHE_DIR to another", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl PythonError {
    /// For `map_err`.
    pub(super) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { what, path, source }
    }
}
