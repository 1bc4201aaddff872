//! Compilers and profilers: how each is found, asked for its version, and installed.

use super::{Row, Section, Status};
use crate::process::{find_program, run_bounded};
use crate::python::PythonRequest;
use crate::python::advice::shell_word;
use crate::python::machine::{Machine, PackageManager};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use PackageManager::{Apt, Brew, Dnf, Pacman, Zypper};

/// A program that a row is about.
pub(super) struct Tool {
    section: Section,
    name: &'static str,
    /// Names of the program, the preferred first.
    programs: &'static [&'static str],
    /// What makes it print its version.
    arguments: &'static [&'static str],
    /// Where vendors put it, outside of the search path.
    folders: &'static [&'static str],
    /// Its package by package manager.
    packages: &'static [(PackageManager, &'static str)],
    /// Said when it is not there.
    without: &'static str,
}

const CUDA: &[&str] = &["usr/local/cuda/bin"];

/// Every program that is looked for: those that something here uses.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        section: Section::Toolchain,
        name: "c++",
        programs: &["c++", "g++", "clang++"],
        arguments: &["--version"],
        folders: &[],
        packages: &[(Apt, "g++"), (Dnf, "gcc-c++"), (Zypper, "gcc-c++"), (Pacman, "gcc"), (Brew, "gcc")],
        without: "no C++ compiler found; cpu/cpp and torch.compile need one",
    },
    Tool {
        section: Section::Profiler,
        name: "perf",
        programs: &["perf"],
        arguments: &["--version"],
        folders: &[],
        packages: &[(Apt, "linux-perf"), (Dnf, "perf"), (Zypper, "perf"), (Pacman, "perf")],
        without: "not found; CPU kernels are profiled by torch alone",
    },
    Tool {
        section: Section::Profiler,
        name: "ncu",
        programs: &["ncu"],
        arguments: &["--version"],
        folders: CUDA,
        packages: &[(Apt, "nsight-compute"), (Pacman, "nsight-compute")],
        without: "not found; NVIDIA kernels are profiled by torch alone",
    },
    Tool {
        section: Section::Profiler,
        name: "compute-sanitizer",
        programs: &["compute-sanitizer"],
        arguments: &["--version"],
        folders: CUDA,
        packages: &[(Apt, "nvidia-cuda-toolkit"), (Pacman, "cuda")],
        without: "not found; NVIDIA kernels are not searched for races and stray accesses",
    },
    Tool {
        section: Section::Profiler,
        name: "cuobjdump",
        programs: &["cuobjdump"],
        arguments: &["--version"],
        folders: CUDA,
        packages: &[(Apt, "nvidia-cuda-toolkit"), (Pacman, "cuda")],
        without: "not found; the one that Triton brings along shows machine code",
    },
];

impl Tool {
    /// Finds the program, runs it once, and for some looks closer.
    pub(super) fn row(&self, request: &PythonRequest, limit: Duration) -> Row {
        let machine = request.machine();
        let Some((program, on_path)) = self.find(&machine) else {
            return self.say(Status::Missing, self.without.to_owned()).mended_by(self.install(&machine));
        };
        let place = program.display();
        let version = match version(&program, self.arguments, limit / 2) {
            Ok(version) => version,
            Err(cause) => {
                let detail = format!("{place} does not run: {cause}");
                return self.say(Status::Limited, detail).mended_by(self.install(&machine));
            }
        };
        let detail = format!("{version} at {place}");
        if !on_path {
            let folder = program.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
            let command = format!("export PATH={}:\"$PATH\"", shell_word(&folder));
            return self.say(Status::Limited, format!("{detail}, which is not on PATH")).mended_by(Some(command));
        }
        match self.name {
            "perf" => counters(&machine, &program, limit / 2, self.say(Status::Ok, detail)),
            "ncu" => permission(&machine, self.say(Status::Ok, detail)),
            _ => self.say(Status::Ok, detail),
        }
    }

    fn say(&self, status: Status, detail: String) -> Row {
        Row::new(self.section, self.name, status, detail)
    }

    fn find(&self, machine: &Machine<'_>) -> Option<(PathBuf, bool)> {
        let in_folders = |folders: &[PathBuf]| self.programs.iter().find_map(|name| find_program(name, folders));
        let folders: Vec<PathBuf> = self.folders.iter().map(|folder| machine.root.join(folder)).collect();
        in_folders(machine.path).map(|program| (program, true)).or_else(|| Some((in_folders(&folders)?, false)))
    }

    fn install(&self, machine: &Machine<'_>) -> Option<String> {
        let package = |manager| self.packages.iter().find(|(known, _)| *known == manager).map(|(_, package)| *package);
        let command = machine.install(|manager| match (self.name, manager) {
            // Ubuntu's belongs to the running kernel.
            ("perf", Apt) if machine.is_ubuntu() => Some("linux-tools-common linux-tools-$(uname -r)"),
            _ => package(manager),
        });
        let apple = cfg!(target_os = "macos") && self.name == "c++";
        command.or_else(|| apple.then(|| "xcode-select --install".to_owned()))
    }
}

/// The first line that has a version number in it; NVIDIA's tools begin with their name and copyright.
pub(super) fn version(program: &Path, arguments: &[&str], limit: Duration) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C");
    let output = run_bounded(&mut command, limit, 16 * 1024).map_err(|error| error.to_string())?;
    let (stdout, stderr) = (output.stdout_text(), output.stderr_text());
    let lines = || stdout.lines().chain(stderr.lines()).map(str::trim).filter(|line| !line.is_empty());
    if !output.status.success() {
        return Err(format!("{}, {}", output.status, lines().next_back().unwrap_or("saying nothing")));
    }
    let line = lines().find(|line| has_number(line)).or_else(|| lines().next());
    Ok(line.unwrap_or("unknown version").chars().take(120).collect())
}

/// Whether there is something like `12.2`.
fn has_number(line: &str) -> bool {
    line.as_bytes().windows(3).any(|w| w[0].is_ascii_digit() && w[1] == b'.' && w[2].is_ascii_digit())
}

/// Whether perf reads hardware counters, and which setting stands in the way.
fn counters(machine: &Machine<'_>, perf: &Path, limit: Duration, row: Row) -> Row {
    let mut command = Command::new(perf);
    command.args(["stat", "-x", ",", "-e", "instructions", "true"]).env("LC_ALL", "C");
    let answer = run_bounded(&mut command, limit, 16 * 1024);
    let counted = answer.as_ref().is_ok_and(|output| {
        let text = output.stderr_text();
        output.status.success() && text.lines().any(|line| line.starts_with(|c: char| c.is_ascii_digit()))
    });
    if counted {
        return Row { detail: format!("{}; hardware counters work", row.detail), ..row };
    }
    let paranoid: i32 = machine.read("proc/sys/kernel/perf_event_paranoid").parse().unwrap_or(0);
    let forbidden = paranoid > 2 && !rustix::process::geteuid().is_root();
    let (why, mend) = if forbidden {
        ("counters are forbidden by kernel.perf_event_paranoid", Some("sudo sysctl kernel.perf_event_paranoid=1"))
    } else {
        ("no hardware counters here, as in most virtual machines; sampling by clock only", None)
    };
    Row { status: Status::Limited, detail: format!("{}; {why}", row.detail), mend: mend.map(str::to_owned), ..row }
}

/// Whether the driver keeps counters for the administrator.
fn permission(machine: &Machine<'_>, row: Row) -> Row {
    let restricted = machine.read("proc/driver/nvidia/params").lines().any(|line| line == "RmProfilingAdminOnly: 1");
    if !restricted || rustix::process::geteuid().is_root() {
        return row;
    }
    let option = "options nvidia NVreg_RestrictProfilingToAdminUsers=0";
    let command = format!("echo '{option}' | sudo tee /etc/modprobe.d/nvidia-profiling.conf && sudo reboot");
    let detail = format!("{}; the driver gives counters to the administrator only", row.detail);
    Row { status: Status::Limited, detail, mend: Some(command), ..row }
}
