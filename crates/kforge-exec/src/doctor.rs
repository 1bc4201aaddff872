//! What works on this machine, and the exact command that would mend what does not.
//!
//! Looks only: nothing is installed, and torch is not imported. All probes run side by side, each with a time limit,
//! so that one program that hangs costs that limit and no more.

mod cuda;
mod targets;
mod tools;

use crate::python::advice::{Interpreter, requirement_words};
use crate::python::{self, PythonEnv, PythonError, PythonRequest, can_make};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tools::{TOOLS, Tool};

/// What to diagnose.
#[derive(Debug, Clone)]
pub struct DoctorRequest {
    /// Where Python, and with its search path every other program, is looked for.
    pub python: PythonRequest,
    /// What the sandbox can enforce here, as its own module found out.
    pub sandbox: Vec<Row>,
    /// Places of CUDA's tools that the environment names: `KFORGE_NVCC`, and the folders `CUDA_HOME` and `CUDA_PATH`.
    pub nvcc: Option<PathBuf>,
    /// See `nvcc`.
    pub cuda_homes: Vec<PathBuf>,
    /// How long one program may take to answer.
    pub limit: Duration,
}

impl DoctorRequest {
    /// For this process's environment, with rows about the sandbox and the value of `--python`.
    #[must_use]
    pub fn from_environment(flag: Option<PathBuf>, sandbox: Vec<Row>) -> Self {
        let path = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            python: PythonRequest::from_environment(flag),
            sandbox,
            nvcc: path("KFORGE_NVCC"),
            cuda_homes: ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(path).collect(),
            limit: Duration::from_millis(1500),
        }
    }
}

/// The part of the machine that a row is about, in the order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Vendor and programming model.
    Target,
    /// The interpreter and its packages.
    Python,
    /// Compilers and what they need.
    Toolchain,
    /// What tells where time goes.
    Profiler,
    /// What keeps candidates in.
    Sandbox,
}

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All of it works.
    Ok,
    /// Some of it works.
    Limited,
    /// It is not there.
    Missing,
}

/// One line of the diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Where it belongs.
    pub section: Section,
    /// What it is about.
    pub name: String,
    /// How it is.
    pub status: Status,
    /// Version and place, or what is wrong.
    pub detail: String,
    /// The command that would mend it on this machine, where there is one.
    pub mend: Option<String>,
}

impl Row {
    /// A row with nothing to mend.
    pub fn new(section: Section, name: &str, status: Status, detail: impl Into<String>) -> Self {
        Self { section, name: name.to_owned(), status, detail: detail.into(), mend: None }
    }

    /// The same row with more to say.
    #[must_use]
    fn with(mut self, more: &str) -> Self {
        self.detail = format!("{}; {more}", self.detail);
        self
    }

    /// The same row with a command.
    #[must_use]
    pub fn mended_by(mut self, command: Option<String>) -> Self {
        self.mend = command;
        self
    }
}

/// Looks at everything; rows come by section.
#[must_use]
pub fn diagnose(request: &DoctorRequest) -> Vec<Row> {
    let mut python = request.python.clone();
    python.probe_limit = python.probe_limit.min(request.limit);
    let (env, mut rows, gpus) = thread::scope(|scope| {
        let gpus = scope.spawn(|| targets::nvidia_gpus(&python, request.limit));
        let tool_row = |tool: &'static Tool| {
            let python = &python;
            scope.spawn(move || tool.row(python, request.limit))
        };
        let tools: Vec<_> = TOOLS.iter().map(tool_row).collect();
        let (env, mut rows) = diagnose_python(&python);
        rows.extend(tools.into_iter().filter_map(|tool| tool.join().ok()));
        (env, rows, gpus.join().unwrap_or_default())
    });
    rows.extend(package_rows(env.as_ref(), &python));
    rows.extend(cuda::rows(env.as_ref(), request));
    rows.extend(targets::rows(env.as_ref(), &gpus, &rows, &python));
    rows.extend(request.sandbox.iter().cloned());
    // Stable: within a section the order above.
    rows.sort_by_key(|row| row.section);
    rows
}

fn diagnose_python(request: &PythonRequest) -> (Option<PythonEnv>, Vec<Row>) {
    let row = |name, status, detail| Row::new(Section::Python, name, status, detail);
    match python::find(request) {
        Ok(found) => match found.env {
            Some(env) => {
                let rows = vec![
                    row(
                        "python",
                        Status::Ok,
                        format!("{} at {} ({})", env.version, env.executable.display(), env.source),
                    ),
                    row("torch", Status::Ok, env.torch.clone()),
                    row("numpy", Status::Ok, env.numpy.clone()),
                ];
                (Some(env), rows)
            }
            None => (None, vec![without_torch(request)]),
        },
        Err(error) => (None, vec![python_error(error)]),
    }
}

/// No interpreter has torch; kforge makes one unless it cannot.
fn without_torch(request: &PythonRequest) -> Row {
    if let Err(error) = can_make(request) {
        return python_error(error);
    }
    let place = request.cache.as_ref().map(crate::cache::CacheDirs::python).unwrap_or_default();
    let detail = format!(
        "none has torch and numpy; the first evaluation makes one in {} (about {} GB)",
        place.display(),
        if request.machine().accelerators().is_empty() { "0.8 to 5.7" } else { "5.7" }
    );
    let own = format!(
        "python3 -m venv kforge-env && kforge-env/bin/python -m pip install {} && export KFORGE_PYTHON=\"$PWD/kforge-env/bin/python\"",
        requirement_words()
    );
    Row::new(Section::Python, "python", Status::Limited, detail).mended_by(Some(own))
}

fn python_error(error: PythonError) -> Row {
    let (detail, command) = match error {
        PythonError::Named { origin, executable, reason, command, .. } => {
            (format!("{} ({origin}) {reason}", executable.display()), command)
        }
        PythonError::NoBase { problem, command, .. } => (problem, command),
        other => (other.to_string(), None),
    };
    Row::new(Section::Python, "python", Status::Missing, detail).mended_by(command)
}

/// Triton, ninja and torch's own profiler: packages of the interpreter that was found.
fn package_rows(env: Option<&PythonEnv>, request: &PythonRequest) -> Vec<Row> {
    let Some(env) = env else { return Vec::new() };
    let package = |name: &str, version: Option<&String>, without: &str| match version {
        Some(version) => Row::new(Section::Toolchain, name, Status::Ok, version.as_str()),
        None => Row::new(Section::Toolchain, name, Status::Missing, without)
            .mended_by(Some(Interpreter::of(env, request).command(name))),
    };
    let mut triton = package("triton", env.triton.as_ref(), "not installed; nvidia/triton needs it");
    if env.triton.is_none() && cfg!(target_os = "macos") {
        triton = Row { detail: "not made for macOS".to_owned(), mend: None, ..triton };
    }
    vec![
        triton,
        package("ninja", env.ninja.as_ref(), "not installed; candidates that use load_inline need it"),
        Row::new(Section::Profiler, "torch profiler", Status::Ok, format!("with torch {}", env.torch)),
    ]
}

/// The command that lets ordinary users make user namespaces, where a setting of this kernel forbids it.
///
/// `root` is `/`, or a folder in a test.
#[must_use]
pub fn user_namespace_mend(root: &Path) -> Option<String> {
    let settings = [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    ];
    let holds = |file: &str, value: &str| {
        std::fs::read_to_string(root.join("proc/sys").join(file)).is_ok_and(|text| text.trim() == value)
    };
    let setting = settings.into_iter().find(|(file, bad, _)| holds(file, bad));
    setting.map(|(_, _, good)| format!("sudo sysctl {good}"))
}

#[cfg(test)]
mod tests;
