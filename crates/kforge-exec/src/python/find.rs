//! The order of preference.

use super::advice::{Interpreter, requirement_words};
use super::probe::{Facts, probe};
use super::{PythonEnv, PythonError, PythonRequest, PythonSource, Unusable, managed};
use crate::process::find_program;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// What a search came to.
#[derive(Debug)]
pub struct Found {
    /// The first interpreter that will do.
    pub env: Option<PythonEnv>,
    /// Those that were preferred to it and will not do, in order.
    pub rejected: Vec<Rejected>,
}

/// An interpreter that was passed over.
#[derive(Debug)]
pub struct Rejected {
    /// How it came to be looked at.
    pub source: PythonSource,
    /// The interpreter.
    pub executable: PathBuf,
    /// What is wrong with it.
    pub reason: Unusable,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) {}", self.executable.display(), self.source, self.reason)
    }
}

/// Looks at `--python`, `KFORGE_PYTHON`, the active environment, the managed environment, and `python3` and
/// `python` on the search path, in this order, and takes the first that has torch and numpy.
///
/// One that was named is taken or is an error: never silently another.
pub fn find(request: &PythonRequest) -> Result<Found, PythonError> {
    let named = [(PythonSource::Flag, &request.flag), (PythonSource::Variable, &request.variable)];
    if let Some((origin, name)) = named.into_iter().find_map(|(source, name)| Some((source, name.as_ref()?))) {
        let executable = resolve_name(name, &request.path);
        let env = usable(&executable, origin, request)
            .map_err(|(reason, facts)| named_error(request, origin, executable, reason, facts.as_deref()))?;
        return Ok(Found { env: Some(env), rejected: Vec::new() });
    }
    let mut rejected = Vec::new();
    for (source, executable) in candidates(request) {
        match usable(&executable, source, request) {
            Ok(env) => return Ok(Found { env: Some(env), rejected }),
            Err((reason, _)) => rejected.push(Rejected { source, executable, reason }),
        }
    }
    Ok(Found { env: None, rejected })
}

/// The managed environment that is there already, if it still works.
pub(super) fn find_managed(request: &PythonRequest) -> Option<PythonEnv> {
    managed::existing(request).iter().find_map(|executable| usable(executable, PythonSource::Managed, request).ok())
}

fn usable(
    executable: &Path,
    source: PythonSource,
    request: &PythonRequest,
) -> Result<PythonEnv, (Unusable, Option<Box<Facts>>)> {
    let facts = probe(executable, request.probe_limit).map_err(|reason| (reason, None))?;
    facts.clone().into_env(source).map_err(|reason| (reason, Some(Box::new(facts))))
}

fn candidates(request: &PythonRequest) -> Vec<(PythonSource, PathBuf)> {
    let active = request.environments.iter().map(|folder| (PythonSource::VirtualEnv, folder.join("bin/python")));
    let managed = managed::existing(request).into_iter().map(|program| (PythonSource::Managed, program));
    let path = on_path(&["python3", "python"], &request.path).into_iter().map(|file| (PythonSource::Path, file));
    active.chain(managed).chain(path).collect()
}

/// All programs of these names on the search path, each once: a folder may be listed twice, or be a link to
/// another. The link from an environment to its base is not followed: it makes a different interpreter.
pub(super) fn on_path(names: &[&str], path: &[PathBuf]) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for name in names {
        for folder in path {
            let folder = std::slice::from_ref(folder);
            let Some(file) = find_program(name, folder) else { continue };
            let place = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
            if seen.insert((place(&folder[0]), place(&file))) {
                found.push(file);
            }
        }
    }
    found
}

/// The folder of an environment, the name of a program, or a program.
fn resolve_name(name: &Path, path: &[PathBuf]) -> PathBuf {
    if name.is_dir() {
        return name.join("bin/python");
    }
    let bare = name.to_str().filter(|text| !text.contains('/'));
    bare.and_then(|text| find_program(text, path))
        .or_else(|| std::path::absolute(name).ok())
        .unwrap_or_else(|| name.to_path_buf())
}

fn named_error(
    request: &PythonRequest,
    origin: PythonSource,
    executable: PathBuf,
    reason: Unusable,
    facts: Option<&Facts>,
) -> PythonError {
    let instead = match origin {
        PythonSource::Variable => "unset KFORGE_PYTHON",
        _ => "leave --python out",
    };
    let (command, advice) = match (&reason, facts) {
        (Unusable::Without { .. } | Unusable::TorchTooOld(_), Some(facts)) => {
            let interpreter = Interpreter {
                executable: &facts.executable,
                pip: facts.pip,
                externally_managed: facts.externally_managed,
                uv: find_program("uv", &request.path).is_some(),
            };
            let packages = requirement_words();
            (Some(interpreter.command(&packages)), interpreter.install(&packages))
        }
        _ => (None, "name one that works".to_owned()),
    };
    let mend = format!("{advice}, or {instead} and kforge finds or makes one");
    PythonError::Named { origin, executable, reason: Box::new(reason), mend, command }
}
