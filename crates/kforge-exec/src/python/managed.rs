//! The environment that kforge makes for itself, once.
//!
//! `python/<version>-<hash>` in the cache folder. It is built in place, because a virtual environment cannot be
//! moved, and counts only with its `ready` file, which is written last; without one it is removed and made anew.

use super::find::{find_managed, on_path};
use super::install::{CPU_INDEX, Failure, Installer};
use super::machine::PackageManager;
use super::probe::{Facts, probe};
use super::{OLDEST_PYTHON, Progress, PythonEnv, PythonError, PythonRequest, PythonSource, REQUIREMENTS, major_minor};
use crate::process::{find_program, run_bounded};
use kforge_types::short_hash;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const READY: &str = "ready";
/// The newest minor version that is looked for by name; `python3` may be newer still.
const NEWEST_MINOR: u32 = 14;
const GIGABYTE: u64 = 1_000_000_000;

/// Which build of torch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Build {
    /// Without accelerator libraries.
    Cpu,
    /// What the default index has.
    Default,
}

impl Build {
    /// Bytes on disk, about; seen once on x86-64 Linux.
    fn size(self) -> u64 {
        match self {
            Self::Cpu => GIGABYTE * 8 / 10,
            Self::Default if cfg!(target_os = "macos") => GIGABYTE * 8 / 10,
            Self::Default => GIGABYTE * 57 / 10,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Cpu => "CPU build",
            Self::Default => "default build",
        }
    }
}

/// What the `ready` file says.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    requirements: Vec<String>,
    architecture: String,
    python: String,
    torch: String,
    build: Build,
    bytes: u64,
}

/// The interpreters of finished environments that suit this machine, the newest Python first.
pub(super) fn existing(request: &PythonRequest) -> Vec<PathBuf> {
    let Some(folder) = request.cache.as_ref().map(crate::cache::CacheDirs::python) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let accelerated = !request.machine().accelerators().is_empty();
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((read_marker(&entry.path())?, entry.path().join("bin/python"))))
        .filter(|(marker, _)| {
            // A home folder may be shared by machines with and without accelerators, and of two architectures.
            marker.requirements == REQUIREMENTS
                && marker.architecture == std::env::consts::ARCH
                && !(accelerated && marker.build == Build::Cpu)
        })
        .map(|(marker, python)| (major_minor(&marker.python), python))
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, python)| python).collect()
}

fn read_marker(folder: &Path) -> Option<Marker> {
    serde_json::from_str(&fs::read_to_string(folder.join(READY)).ok()?).ok()
}

/// Makes the environment, or waits for another kforge that is making it.
pub(super) fn make(request: &PythonRequest, progress: &dyn Progress) -> Result<PythonEnv, PythonError> {
    let folder = request.cache()?.create("python")?;
    let lock = lock(&folder, progress)?;
    if let Some(env) = find_managed(request) {
        return Ok(env);
    }
    let base = newest_base(request)?;
    let installer = Installer {
        uv: match find_program("uv", &request.path) {
            Some(program) => vec![program],
            None if base.uv.is_some() => {
                [base.executable.as_path(), Path::new("-m"), Path::new("uv")].map(Path::to_path_buf).to_vec()
            }
            None => Vec::new(),
        },
        folder: folder.join(folder_name(&base.version, !request.machine().accelerators().is_empty())),
        base: base.executable,
    };
    remove(&installer.folder)?;
    let made = fill(request, &installer, &lock, progress);
    progress.done();
    if made.is_err() {
        // Half an environment is of no use, and may be what filled the disk.
        let _ = fs::remove_dir_all(&installer.folder);
    }
    made
}

/// One folder for each set of requirements, Python, architecture and kind of machine.
fn folder_name(version: &str, accelerated: bool) -> String {
    let (major, minor) = major_minor(version).unwrap_or(OLDEST_PYTHON);
    let kind = if accelerated { "accelerated" } else { "plain" };
    let python = format!("{major}.{minor}");
    let parts = REQUIREMENTS.into_iter().chain([python.as_str(), std::env::consts::ARCH, kind]);
    format!("{python}-{}", short_hash(&parts.collect::<Vec<_>>()))
}

/// Held until the file is closed.
fn lock(folder: &Path, progress: &dyn Progress) -> Result<File, PythonError> {
    let path = folder.join("lock");
    let open = File::options().read(true).write(true).create(true).truncate(true).open(&path);
    let file = open.map_err(PythonError::file("open the lock", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            progress.message("another kforge is making the Python environment; waiting for it");
            file.lock().map_err(PythonError::file("lock", &path))?;
        }
        Err(TryLockError::Error(source)) => return Err(PythonError::File { what: "lock", path, source }),
    }
    Ok(file)
}

fn remove(folder: &Path) -> Result<(), PythonError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(PythonError::file("remove the unfinished environment", folder)(error))
        }
        _ => Ok(()),
    }
}

/// The newest interpreter on the search path that an environment can be made from.
pub(super) fn newest_base(request: &PythonRequest) -> Result<Facts, PythonError> {
    let minors: Vec<String> = (OLDEST_PYTHON.1..=NEWEST_MINOR).rev().map(|minor| format!("python3.{minor}")).collect();
    let names: Vec<&str> = minors.iter().map(String::as_str).chain(["python3", "python"]).collect();
    let programs = on_path(&names, &request.path);
    let mut found: Vec<Facts> = thread::scope(|scope| {
        let probes: Vec<_> =
            programs.iter().map(|file| scope.spawn(move || probe(file, request.probe_limit).ok())).collect();
        probes.into_iter().filter_map(|probe| probe.join().ok().flatten()).collect()
    });
    // Stable: of equals, the one that the search path prefers.
    found.sort_by_key(|facts| std::cmp::Reverse(major_minor(&facts.version)));
    let uv = find_program("uv", &request.path).is_some();
    let newest = found.first().map(|facts| facts.executable.clone());
    if let Some(base) = found.into_iter().find(|facts| uv || facts.uv.is_some() || facts.venv) {
        return Ok(base);
    }
    let problem = match newest {
        None => format!("there is no Python {}.{} or newer on PATH", OLDEST_PYTHON.0, OLDEST_PYTHON.1),
        Some(python) => format!("{} has no venv module, and there is no uv", python.display()),
    };
    let command = request.machine().install(|manager| match manager {
        PackageManager::Apt => Some("python3 python3-venv"),
        PackageManager::Dnf | PackageManager::Zypper => Some("python3"),
        PackageManager::Pacman => Some("python"),
        PackageManager::Brew => Some("python@3.13"),
    });
    let mend = match &command {
        Some(command) => format!("run `{command}`, or name a Python that has torch with --python"),
        None => "install Python 3.10 or newer, or name one that has torch with --python".to_owned(),
    };
    Err(PythonError::NoBase { problem, mend, command })
}

fn fill(
    request: &PythonRequest,
    installer: &Installer,
    lock: &File,
    progress: &dyn Progress,
) -> Result<PythonEnv, PythonError> {
    let started = Instant::now();
    let place = installer.folder.display();
    progress.message(&format!("no Python with torch found: making one in {place}; this is done once"));
    installer.create(lock, progress).map_err(|failure| failed("make a virtual environment", &failure))?;
    let plain = request.machine().accelerators().is_empty() && cfg!(target_os = "linux");
    if plain {
        progress.step("looking for the smaller CPU build of torch");
    }
    if !(plain && installer.reaches_cpu_index() && try_cpu_build(request, installer, lock, progress)?) {
        announce(Build::Default, request, installer, progress)?;
        installer.install(&REQUIREMENTS, None, lock, progress).map_err(|failure| failed("install torch", &failure))?;
    }
    progress.step("importing torch once");
    check_import(installer)?;
    let env = probe(&installer.python(), request.probe_limit)
        .and_then(|facts| facts.into_env(PythonSource::Managed))
        .map_err(|reason| {
        failed("use the new environment", &Failure { cause: reason.to_string(), log: Vec::new() })
    })?;
    let bytes = disk_usage(&installer.folder);
    write_marker(installer, &env, bytes)?;
    progress.message(&format!(
        "made Python {} with torch {} in {} s; it takes {} on disk in {place}",
        env.version,
        env.torch,
        started.elapsed().as_secs(),
        human(bytes)
    ));
    Ok(env)
}

/// `false` where the CPU build cannot be had after all; the default build is tried then.
fn try_cpu_build(
    request: &PythonRequest,
    installer: &Installer,
    lock: &File,
    progress: &dyn Progress,
) -> Result<bool, PythonError> {
    announce(Build::Cpu, request, installer, progress)?;
    // The index has torch and what it depends on; the rest comes from where the user's packages come from.
    let (torch, rest) = REQUIREMENTS.split_at(1);
    let outcome = installer
        .install(torch, Some(CPU_INDEX), lock, progress)
        .and_then(|()| installer.install(rest, None, lock, progress));
    if let Err(failure) = &outcome {
        let cause = failure.log.last().unwrap_or(&failure.cause);
        progress.message(&format!("the CPU build cannot be had ({cause}); taking the default build"));
    }
    Ok(outcome.is_ok())
}

/// Says what will be installed, and refuses where it will not fit.
fn announce(
    build: Build,
    request: &PythonRequest,
    installer: &Installer,
    progress: &dyn Progress,
) -> Result<(), PythonError> {
    let names = REQUIREMENTS.map(|name| name.split(['>', '=']).next().unwrap_or(name)).join(", ");
    let what = format!("{names} ({})", build.label());
    let free = (request.free_space)(&installer.folder)
        .map_err(PythonError::file("read the free space of", &installer.folder))?;
    // The installer unpacks and caches beside what it installs.
    let needed = build.size() * 3 / 2;
    if free < needed {
        return Err(PythonError::NoSpace { what, path: installer.folder.clone(), free, needed });
    }
    progress.message(&format!(
        "installing {what} with {}: about {} on disk, {} free",
        installer.name(),
        human(build.size()),
        human(free)
    ));
    Ok(())
}

/// An environment that cannot import torch is not ready, whatever its metadata says.
fn check_import(installer: &Installer) -> Result<(), PythonError> {
    let what = "import torch in the new environment";
    let mut command = Command::new(installer.python());
    command.args(["-I", "-c", "import numpy, torch; torch.ones(2).numpy()"]);
    let output = run_bounded(&mut command, Duration::from_mins(5), 64 * 1024)
        .map_err(|error| failed(what, &Failure { cause: error.to_string(), log: Vec::new() }))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = output.stderr_text();
    let lines: Vec<&str> = stderr.lines().collect();
    let log = lines[lines.len().saturating_sub(20)..].iter().map(|&line| line.to_owned()).collect();
    Err(failed(what, &Failure { cause: format!("Python ended with {}", output.status), log }))
}

fn write_marker(installer: &Installer, env: &PythonEnv, bytes: u64) -> Result<(), PythonError> {
    let marker = Marker {
        requirements: REQUIREMENTS.map(str::to_owned).to_vec(),
        architecture: std::env::consts::ARCH.to_owned(),
        python: env.version.clone(),
        torch: env.torch.clone(),
        build: if env.torch.ends_with("+cpu") { Build::Cpu } else { Build::Default },
        bytes,
    };
    let path = installer.folder.join(READY);
    let unfinished = installer.folder.join("ready.new");
    let text = serde_json::to_vec(&marker).unwrap_or_default();
    File::create(&unfinished)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&unfinished, &path))
        .map_err(PythonError::file("write", &path))
}

/// Bytes that the files of a folder take on disk; links are not followed.
fn disk_usage(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => disk_usage(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

fn human(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / GIGABYTE as f64)
}

fn failed(what: &str, failure: &Failure) -> PythonError {
    let log = failure.log.join("\n");
    let lower = log.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let advice = if says(&["no space left"]) {
        "make room on the disk, or set KFORGE_CACHE_DIR (and TMPDIR) to folders on another"
    } else if says(&["no matching distribution", "no solution found", "no wheels"]) {
        "no index offers torch for this Python: put another Python 3 first on PATH"
    } else if says(&["dns", "name or service", "name resolution", "timed out", "connect", "certificate", "proxy"]) {
        "check the network; behind a proxy or mirror set HTTPS_PROXY, or PIP_INDEX_URL (for uv UV_INDEX_URL)"
    } else {
        "try again"
    };
    let mend = format!("{advice}; or make an environment with torch and numpy yourself and name it with --python");
    PythonError::Installer { what: what.to_owned(), cause: failure.cause.clone(), log, mend }
}

#[cfg(test)]
mod tests;
