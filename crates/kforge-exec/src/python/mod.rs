//! The Python that judges: found where the user has one with torch, made once where there is none.
//!
//! Owns the order of preference, the demands on versions, and the managed environment in the cache folder. Never
//! imports torch to find out about it (two seconds), and never takes another interpreter in place of one that the
//! user named: a named one that will not do is an error that ends with the command to mend it.

pub(crate) mod advice;
mod error;
mod find;
mod install;
pub(crate) mod machine;
mod managed;
mod probe;

pub use error::{PythonError, Unusable};
pub use find::{Found, Rejected, find};

use crate::cache::{CacheDirs, CacheError};
use machine::Machine;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The oldest Python that the harness runs on.
pub const OLDEST_PYTHON: (u32, u32) = (3, 10);
/// The oldest torch that the harness runs on.
pub const OLDEST_TORCH: (u32, u32) = (2, 4);
/// What a managed environment holds.
pub const REQUIREMENTS: [&str; 4] = ["torch>=2.4", "numpy", "ninja", "setuptools"];

/// An interpreter that has torch and numpy in versions that the harness takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PythonEnv {
    /// The interpreter; inside a virtual environment it is that environment's own.
    pub executable: PathBuf,
    /// How it was found.
    pub source: PythonSource,
    /// Its version, as `3.12.1`.
    pub version: String,
    /// Version of torch with its build, as `2.11.0+cu130`.
    pub torch: String,
    /// Version of numpy.
    pub numpy: String,
    /// Version of Triton, where it is installed.
    pub triton: Option<String>,
    /// Version of the ninja package, where it is installed.
    pub ninja: Option<String>,
    /// Version of CuTe DSL, where it is installed.
    pub cute: Option<String>,
    /// nvcc from NVIDIA's wheels, where it is installed.
    pub nvcc: Option<PathBuf>,
    /// NVRTC, which comes with torch for CUDA.
    pub nvrtc: Option<PathBuf>,
    /// The CUDA version that torch was built for; says nothing about a device.
    pub cuda: Option<String>,
    /// The HIP version that torch was built for.
    pub hip: Option<String>,
    /// Whether `Python.h` is there, without which Triton cannot launch on a GPU.
    pub headers: bool,
    /// Whether `python -m pip` works.
    pub pip: bool,
    /// Whether the operating system forbids pip to install into it.
    pub externally_managed: bool,
    /// Folder of the environment's programs, such as ninja.
    pub scripts: PathBuf,
    /// Resolved folders that must be readable for it to run, none inside another.
    pub prefixes: Vec<PathBuf>,
}

/// How an interpreter came to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PythonSource {
    /// `--python`.
    Flag,
    /// `KFORGE_PYTHON`.
    Variable,
    /// The active virtual or conda environment.
    VirtualEnv,
    /// An environment that kforge made.
    Managed,
    /// `python3` or `python` on the search path.
    Path,
}

impl fmt::Display for PythonSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "named by --python",
            Self::Variable => "named by KFORGE_PYTHON",
            Self::VirtualEnv => "active environment",
            Self::Managed => "made by kforge",
            Self::Path => "on PATH",
        })
    }
}

/// Where to look. The library reads no environment variable but through [`Self::from_environment`].
#[derive(Debug, Clone)]
pub struct PythonRequest {
    /// `--python`: a program, its name on the search path, or the folder of a virtual environment.
    pub flag: Option<PathBuf>,
    /// `KFORGE_PYTHON`, of the same form.
    pub variable: Option<PathBuf>,
    /// `VIRTUAL_ENV` and `CONDA_PREFIX`, as folders.
    pub environments: Vec<PathBuf>,
    /// The search path.
    pub path: Vec<PathBuf>,
    /// The cache folder; `None` where there is no telling.
    pub cache: Option<CacheDirs>,
    /// How long one interpreter may take to say what it has.
    pub probe_limit: Duration,
    /// The machine's files: `/`, or a folder in a test.
    pub root: PathBuf,
    pub(crate) free_space: fn(&Path) -> io::Result<u64>,
}

impl PythonRequest {
    /// What this process's environment says, and the value of `--python`.
    #[must_use]
    pub fn from_environment(flag: Option<PathBuf>) -> Self {
        Self::resolve(flag, |name| std::env::var_os(name))
    }

    /// [`Self::from_environment`] for any environment.
    pub fn resolve(flag: Option<PathBuf>, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let folder = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            flag,
            variable: folder("KFORGE_PYTHON"),
            environments: ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(folder).collect(),
            path: variable("PATH").map(|path| search_path(&path)).unwrap_or_default(),
            cache: CacheDirs::resolve(variable).ok(),
            probe_limit: Duration::from_secs(10),
            root: PathBuf::from("/"),
            free_space: machine::free_space,
        }
    }

    pub(crate) fn machine(&self) -> Machine<'_> {
        Machine { root: &self.root, path: &self.path }
    }

    fn cache(&self) -> Result<&CacheDirs, CacheError> {
        self.cache.as_ref().ok_or(CacheError::NoHome)
    }
}

/// Where the making of an environment reports to. Calls come from one thread.
pub trait Progress {
    /// A lasting line: what will be done, and what was.
    fn message(&self, text: &str);
    /// What is going on now, with seconds so far. It comes about once a second and replaces the one before; a
    /// reader that is no terminal should show few of them.
    fn step(&self, text: &str);
    /// Nothing is going on any more.
    fn done(&self);
}

/// A [`Progress`] that shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn message(&self, _text: &str) {}
    fn step(&self, _text: &str) {}
    fn done(&self) {}
}

/// Finds an interpreter, or makes the managed environment and returns that.
pub fn ensure(request: &PythonRequest, progress: &dyn Progress) -> Result<PythonEnv, PythonError> {
    let found = find(request)?;
    // An active environment is a strong hint of what the user meant, so passing over it is said; a `python3`
    // without torch is the usual case and matters only when nothing else is left.
    for rejected in &found.rejected {
        if rejected.source != PythonSource::Path || found.env.is_none() {
            progress.message(&format!("{rejected}; not used"));
        }
    }
    match found.env {
        Some(env) => Ok(env),
        None => managed::make(request, progress),
    }
}

/// Whether [`ensure`] could make an environment: there is an interpreter to make it from. Installs nothing.
pub fn can_make(request: &PythonRequest) -> Result<(), PythonError> {
    request.cache()?;
    managed::newest_base(request).map(|_| ())
}

/// The folders of `PATH`; relative ones would run whatever lies in the folder of a problem.
fn search_path(path: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect()
}

/// `(3, 12)` of `3.12.1`, `(2, 11)` of `2.11.0a0+cu130`.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
