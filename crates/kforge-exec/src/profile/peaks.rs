//! What this machine can give at most, measured once by a small program of our own and kept.

use super::kept;
use crate::process::{find_program, run_bounded};
use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const SOURCE: &str = include_str!("peaks.cpp");
const COMPILE_LIMIT: Duration = Duration::from_secs(30);
const RUN_LIMIT: Duration = Duration::from_secs(30);
const ENOUGH_RUNS: u32 = 3;
const SMALLEST_ARRAY: u64 = 32 << 20;
const LARGEST_ARRAY: u64 = 192 << 20;

/// Measured limits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Peaks {
    /// Bytes per second of plain reads by all threads.
    pub(super) read: f64,
    /// Bytes per second of `a[i] = b[i] + s * c[i]`, three arrays counted once each.
    pub(super) triad: f64,
    /// Operations per second of independent single-precision multiply-adds, two each.
    pub(super) flops: f64,
}

/// What is kept: a busy machine shows less than it can, so the first few runs are put together.
#[derive(Serialize, Deserialize)]
struct Kept {
    runs: u32,
    peaks: Peaks,
}

impl Peaks {
    fn or_better(self, other: Self) -> Self {
        Self { read: self.read.max(other.read), triad: self.triad.max(other.triad), flops: self.flops.max(other.flops) }
    }

    pub(super) fn bandwidth(&self) -> f64 {
        self.read.max(self.triad)
    }
}

/// Where and how it is measured.
pub(super) struct Bench<'a> {
    pub(super) cache: &'a Path,
    /// Of the target's toolchain, the preferred first.
    pub(super) compilers: Vec<String>,
    pub(super) cpu: &'a str,
    pub(super) threads: usize,
    pub(super) last_level_cache: u64,
    /// Measure again whatever is kept.
    pub(super) fresh: bool,
}

impl Bench<'_> {
    /// Kept or new figures, or why there are none. With `again` they are measured whatever is kept.
    pub(super) fn peaks(&self, again: bool) -> Result<Peaks, String> {
        let key = kforge_types::short_hash(&[self.cpu, &self.threads.to_string(), SOURCE]);
        let file = self.cache.join("peaks").join(format!("{key}.json"));
        let kept: Option<Kept> = kept::read(&file).filter(|_| !self.fresh || again);
        if let Some(kept) = kept.as_ref().filter(|kept| kept.runs >= ENOUGH_RUNS && !again) {
            return Ok(kept.peaks);
        }
        let peaks = match (self.measure(), &kept) {
            (Ok(new), Some(kept)) => new.or_better(kept.peaks),
            (Ok(new), None) => new,
            (Err(_), Some(kept)) => return Ok(kept.peaks),
            (Err(reason), None) => return Err(reason),
        };
        let runs = kept.map_or(0, |kept| kept.runs).saturating_add(1);
        kept::write(&file, &Kept { runs, peaks }, "measured peaks");
        Ok(peaks)
    }

    fn measure(&self) -> Result<Peaks, String> {
        let path: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        let compiler = self.compilers.iter().find_map(|name| find_program(name, &path));
        let compiler = compiler.ok_or("there is no C++ compiler to build the measurement with; install g++")?;
        let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let (source, program) = (folder.path().join("peaks.cpp"), folder.path().join("peaks"));
        std::fs::write(&source, SOURCE).map_err(|error| format!("no temporary file: {error}"))?;
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-pthread"]);
        command.arg(&source).arg("-o").arg(&program);
        let built = run_bounded(&mut command, COMPILE_LIMIT, 16 * 1024).map_err(|error| error.to_string())?;
        if !built.status.success() {
            let said = built.stderr_text();
            return Err(format!("the measurement does not build: {}", said.lines().next().unwrap_or_default()));
        }
        let array = (2 * self.last_level_cache).clamp(SMALLEST_ARRAY, LARGEST_ARRAY);
        let mut command = Command::new(&program);
        command.arg(self.threads.to_string()).arg(array.to_string());
        let output = run_bounded(&mut command, RUN_LIMIT, 4096).map_err(|error| error.to_string())?;
        parse(&output.stdout_text()).ok_or_else(|| "the measurement gave no figures".to_owned())
    }
}

fn parse(text: &str) -> Option<Peaks> {
    let figure = |name: &str| -> Option<f64> {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())?;
        (value.is_finite() && value > 0.0).then_some(value)
    };
    Some(Peaks { read: figure("read ")?, triad: figure("triad ")?, flops: figure("flops ")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_or_refused() {
        let peaks = parse("read 2.0e10\ntriad 1.5e10\nflops 3.0e11\n").unwrap();
        assert!((peaks.bandwidth() - 2.0e10).abs() < 1.0);
        assert!(parse("read 2.0e10\ntriad inf\nflops 1\n").is_none() && parse("").is_none());
    }

    #[test]
    fn kept_figures_are_used_and_without_a_compiler_there_are_none() {
        let cache = tempfile::tempdir().unwrap();
        let bench = Bench {
            cache: cache.path(),
            compilers: vec!["no-such-compiler".to_owned()],
            cpu: "a cpu",
            threads: 1,
            last_level_cache: 0,
            fresh: false,
        };
        assert!(bench.peaks(false).unwrap_err().contains("install g++"));
        let peaks = Peaks { read: 1.0, triad: 2.0, flops: 3.0 };
        let better = peaks.or_better(Peaks { read: 4.0, triad: 1.0, flops: 3.5 });
        assert_eq!(better, Peaks { read: 4.0, triad: 2.0, flops: 3.5 });
        let kept = Kept { runs: 1, peaks };
        let key = kforge_types::short_hash(&["a cpu", "1", SOURCE]);
        std::fs::create_dir(cache.path().join("peaks")).unwrap();
        let file = cache.path().join("peaks").join(format!("{key}.json"));
        std::fs::write(file, serde_json::to_string(&kept).unwrap()).unwrap();
        assert_eq!(bench.peaks(false).unwrap(), peaks);
        assert_eq!(bench.peaks(true).unwrap(), peaks);
    }
}
