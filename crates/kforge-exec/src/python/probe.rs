//! Asking an interpreter what it is and has.

use super::{OLDEST_PYTHON, OLDEST_TORCH, PythonEnv, PythonSource, Unusable, major_minor};
use crate::process::{is_executable, run_bounded};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SCRIPT: &str = include_str!("probe.py");
/// Before the answer, because start-up files of an interpreter may print too.
const MARK: &str = "kforge-probe ";

/// What the probe prints; an interpreter that is too old gives its version only.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "the answers to as many plain questions")]
pub(super) struct Facts {
    pub(super) version: String,
    pub(super) executable: PathBuf,
    pub(super) torch: Option<String>,
    pub(super) numpy: Option<String>,
    pub(super) triton: Option<String>,
    pub(super) ninja: Option<String>,
    pub(super) cute: Option<String>,
    pub(super) nvcc: Option<PathBuf>,
    pub(super) nvrtc: Option<PathBuf>,
    pub(super) uv: Option<String>,
    pub(super) cuda: Option<String>,
    pub(super) hip: Option<String>,
    pub(super) pip: bool,
    pub(super) venv: bool,
    pub(super) headers: bool,
    pub(super) externally_managed: bool,
    pub(super) user_site: Option<PathBuf>,
    pub(super) scripts: PathBuf,
    pub(super) prefixes: Vec<PathBuf>,
}

/// Runs the interpreter once, isolated from `PYTHON*` variables, the user's site folder and the current folder.
pub(super) fn probe(executable: &Path, limit: Duration) -> Result<Facts, Unusable> {
    if !executable.exists() {
        return Err(Unusable::Absent);
    }
    if !is_executable(executable) {
        return Err(Unusable::NotExecutable);
    }
    let mut command = Command::new(executable);
    command.args(["-I", "-c", SCRIPT]);
    let output = run_bounded(&mut command, limit, 256 * 1024).map_err(Unusable::Process)?;
    let stdout = output.stdout_text();
    let answer = stdout.lines().rev().find_map(|line| line.strip_prefix(MARK));
    let Some(answer) = answer else {
        let said = if output.status.success() { stdout } else { output.stderr_text() };
        return Err(Unusable::Garbage(format!("{}, {}", output.status, first_line(&said))));
    };
    let mut facts: Facts = serde_json::from_str(answer).map_err(|error| Unusable::Garbage(error.to_string()))?;
    // Behind a shim or a link the interpreter knows its own place better than we do.
    if !facts.executable.is_absolute() {
        facts.executable = executable.to_path_buf();
    }
    match major_minor(&facts.version) {
        Some(version) if version >= OLDEST_PYTHON => Ok(facts),
        Some(_) => Err(Unusable::TooOld(facts.version)),
        None => Err(Unusable::Garbage(format!("version {:?}", facts.version))),
    }
}

fn first_line(text: &str) -> String {
    match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("saying: {}", line.trim().chars().take(160).collect::<String>()),
        None => "saying nothing".to_owned(),
    }
}

impl Facts {
    /// The environment, if it has what the harness needs.
    pub(super) fn into_env(self, source: PythonSource) -> Result<PythonEnv, Unusable> {
        let without = |missing| Unusable::Without { missing, user_site: self.user_site.clone() };
        let (torch, numpy) = match (self.torch, self.numpy) {
            (Some(torch), Some(numpy)) => (torch, numpy),
            (None, Some(_)) => return Err(without("torch")),
            (None, None) => return Err(without("torch and numpy")),
            (Some(_), None) => return Err(Unusable::Without { missing: "numpy", user_site: None }),
        };
        if major_minor(&torch).is_none_or(|version| version < OLDEST_TORCH) {
            return Err(Unusable::TorchTooOld(torch));
        }
        Ok(PythonEnv {
            executable: self.executable,
            source,
            version: self.version,
            torch,
            numpy,
            triton: self.triton,
            ninja: self.ninja,
            cute: self.cute,
            nvcc: self.nvcc,
            nvrtc: self.nvrtc,
            cuda: self.cuda,
            hip: self.hip,
            headers: self.headers,
            pip: self.pip,
            externally_managed: self.externally_managed,
            scripts: self.scripts,
            prefixes: self.prefixes,
        })
    }
}
