//! Running perf beside a candidate: it attaches from outside, by process number, and reads no file of the candidate.

use crate::process::{Output, find_program, run_bounded};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const MOST_PROCESSES: usize = 64;
/// What counting and sampling last.
const WATCHED_MS: u32 = 1000;
/// Torch's symbols that are asked for.
const MOST_SYMBOLS: usize = 40;

/// The program and its version.
pub(super) struct Perf {
    program: PathBuf,
    pub(super) version: String,
}

impl Perf {
    pub(super) fn find() -> Result<Self, String> {
        if !cfg!(target_os = "linux") {
            return Err("perf is there on Linux only".to_owned());
        }
        let missing = "perf is not installed; `kforge doctor` names its package";
        let program = on_path("perf").ok_or(missing)?;
        let mut command = Command::new(&program);
        command.arg("--version");
        let output = run_bounded(&mut command, Duration::from_secs(5), 4096).map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = super::ladder::quoted(&output.stderr_text(), 120);
            return Err(format!("perf does not run ({said}); `kforge doctor` names the package for this kernel"));
        }
        Ok(Self { program, version: super::ladder::quoted(&output.stdout_text(), 60) })
    }

    /// Counts `events` in these processes for a while.
    pub(super) fn stat(&self, pids: &[u32], events: &str) -> Command {
        let mut command = self.command();
        command.args(["stat", "-x", ",", "-e", events, "-p", &list(pids), "--timeout", &WATCHED_MS.to_string()]);
        command
    }

    /// Samples these processes by clock for a while. Build identities are left out: perf would read the libraries.
    pub(super) fn record(&self, pids: &[u32], file: &Path) -> Command {
        let mut command = self.command();
        command.args(["record", "-q", "-N", "-B", "-e", "cpu-clock", "-F", "997", "-p", &list(pids), "-o"]);
        command.arg(file).args(["--", "sleep", &format!("{:.1}", f64::from(WATCHED_MS) / 1e3)]);
        command
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("LC_ALL", "C");
        command
    }
}

/// Runs perf to its end; it is asked for a second, and a slow machine gets more.
pub(super) fn run(mut command: Command) -> Result<Output, String> {
    run_bounded(&mut command, Duration::from_millis(u64::from(WATCHED_MS) + 15_000), 64 * 1024)
        .map_err(|error| error.to_string())
}

/// Every process below `root`, as this process sees them.
pub(super) fn descendants(root: u32) -> Vec<u32> {
    let mut parents: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some(parent) = parent(pid) {
            parents.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut frontier = vec![root];
    while let Some(next) = frontier.pop() {
        let children = parents.remove(&next).unwrap_or_default();
        found.extend(&children);
        frontier.extend(children);
    }
    found.truncate(MOST_PROCESSES);
    found
}

/// A process's name may contain anything, so what counts stands behind the last parenthesis.
fn parent(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

pub(super) fn paranoid() -> i32 {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Names of the hottest places in torch's own libraries, by their part of the work. `scratch` is what a candidate
/// can write to: a file there is not read.
pub(super) fn torch_symbols(samples: &super::samples::Samples, scratch_root: &Path) -> BTreeMap<String, f64> {
    let mut files: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for ((file, offset), count) in &samples.by_offset {
        let trusted = Path::new(file)
            .canonicalize()
            .is_ok_and(|real| !real.starts_with(scratch_root) && real.to_string_lossy().contains("/torch/lib/"));
        if trusted {
            files.entry(file).or_default().push((*count, *offset));
        }
    }
    let mut named: BTreeMap<String, f64> = BTreeMap::new();
    let Some(addr2line) = on_path("addr2line") else { return named };
    for (file, mut places) in files {
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.truncate(MOST_SYMBOLS);
        let mut command = Command::new(&addr2line);
        command.args(["-f", "-C", "-e", file]).args(places.iter().map(|(_, offset)| format!("{offset:#x}")));
        let Ok(output) = run_bounded(&mut command, Duration::from_secs(10), 1 << 20) else { continue };
        // Two lines each: the function, and a place that is not known.
        for ((count, _), name) in places.iter().zip(output.stdout_text().lines().step_by(2)) {
            if name != "??" {
                *named.entry(name.to_owned()).or_default() += *count as f64 * samples.part();
            }
        }
    }
    named
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    find_program(name, &path)
}

fn list(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn children_are_found_by_their_parent() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        assert!(descendants(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
