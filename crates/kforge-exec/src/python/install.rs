//! uv, or venv and pip: the commands that fill an environment, and their progress.
//!
//! Both inherit the user's own configuration: index and proxy variables, certificates, `pip.conf`, `uv.toml`.

use super::Progress;
use crate::process::{ProcessError, is_readable, run_bounded, start_error};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Where `PyTorch` publishes builds without accelerator libraries.
pub(super) const CPU_INDEX: &str = "https://download.pytorch.org/whl/cpu";
/// An installer is not stopped before this: a slow line needs an hour for the default build.
const LIMIT: Duration = Duration::from_hours(2);
/// How many lines of the installer's log an error keeps.
const TAIL: usize = 20;

/// The programs that make and fill an environment.
#[derive(Debug, Clone)]
pub(super) struct Installer {
    /// The interpreter that the environment is made from.
    pub(super) base: PathBuf,
    /// `uv`, or `python -m uv`; empty for venv and pip.
    pub(super) uv: Vec<PathBuf>,
    /// The environment.
    pub(super) folder: PathBuf,
}

/// An installer that did not succeed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) cause: String,
    pub(super) log: Vec<String>,
}

impl Installer {
    /// For messages.
    pub(super) fn name(&self) -> &'static str {
        if self.uv.is_empty() { "pip" } else { "uv" }
    }

    /// The interpreter of the environment.
    pub(super) fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// Makes the empty environment.
    pub(super) fn create(&self, lock: &File, progress: &dyn Progress) -> Result<(), Failure> {
        let command = if let Some(mut uv) = self.uv_command() {
            uv.arg("venv").arg("--python").arg(&self.base).arg(&self.folder);
            uv
        } else {
            let mut venv = self.command(&self.base);
            venv.args(["-I", "-m", "venv"]).arg(&self.folder);
            venv
        };
        stream(command, "making a virtual environment", lock, progress)
    }

    /// Installs packages, from `index` or from what the user has configured.
    pub(super) fn install(
        &self,
        packages: &[&str],
        index: Option<&str>,
        lock: &File,
        progress: &dyn Progress,
    ) -> Result<(), Failure> {
        let mut command = self.install_command();
        command.args(index.map(|url| ["--index-url", url]).into_iter().flatten()).args(packages);
        stream(command, "asking the package index", lock, progress)
    }

    fn install_command(&self) -> Command {
        if let Some(mut uv) = self.uv_command() {
            uv.args(["pip", "install", "--compile-bytecode", "--python"]).arg(self.python());
            return uv;
        }
        let mut pip = self.pip_command();
        pip.args(["install", "--no-input", "--progress-bar", "off"]);
        pip
    }

    /// Whether the index with CPU builds answers, asked through the installer so that its proxies count.
    pub(super) fn reaches_cpu_index(&self) -> bool {
        let mut command = if let Some(mut uv) = self.uv_command() {
            uv.args(["pip", "install", "--dry-run", "--no-deps", "--python"]).arg(self.python());
            uv.env("UV_HTTP_TIMEOUT", "5").env("UV_HTTP_CONNECT_TIMEOUT", "5").env("UV_HTTP_RETRIES", "0");
            uv
        } else {
            // Unlike a dry run, this never downloads a wheel to read its metadata.
            let mut pip = self.pip_command();
            pip.args(["index", "versions", "--timeout", "5", "--retries", "0"]);
            pip
        };
        command.args(["--index-url", CPU_INDEX, "torch"]);
        run_bounded(&mut command, Duration::from_secs(12), 64 * 1024).is_ok_and(|output| output.status.success())
    }

    fn uv_command(&self) -> Option<Command> {
        let (program, arguments) = self.uv.split_first()?;
        let mut command = self.command(program);
        command.args(arguments);
        Some(command)
    }

    fn pip_command(&self) -> Command {
        let mut command = self.command(&self.python());
        command.args(["-I", "-m", "pip", "--disable-pip-version-check"]);
        command
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // Elsewhere, the settings of whatever project the user stands in would take part.
        command.current_dir(self.folder.parent().unwrap_or(Path::new("/")));
        command.env("NO_COLOR", "1");
        // Settings that would put the packages somewhere else.
        for name in ["PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN", "UV_SYSTEM_PYTHON"] {
            command.env_remove(name);
        }
        command
    }
}

/// Runs the installer in the process group of kforge, so that an interrupt from the terminal ends both, and passes
/// on its lines; `first` is shown until there is one.
///
/// Its standard input is the lock file, which is empty: whoever inherits it holds the lock too. If kforge alone is
/// killed, the next kforge waits for the orphan instead of writing into the same folder.
fn stream(mut command: Command, first: &str, lock: &File, progress: &dyn Progress) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |cause: String| Failure { cause, log: Vec::new() };
    let start = |error: io::Error| failed(start_error(&program, error).to_string());
    let (reader, writer) = io::pipe().map_err(start)?;
    command.stdin(lock.try_clone().map_err(start)?);
    command.stdout(writer.try_clone().map_err(start)?).stderr(writer);
    let mut child = command.spawn().map_err(start)?;
    // The command holds our copies of the pipe's writing end; without this the pipe never ends.
    drop(command);
    let mut lines = Lines::new(first, progress);
    let status = follow(&mut child, reader, &mut lines).map_err(|error| failed(format!("cannot wait: {error}")))?;
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(Failure { cause: format!("{program} ended with {status}"), log: lines.tail.into() }),
        None => {
            let error = ProcessError::TimedOut { program, limit: LIMIT, said: Vec::new() };
            Err(Failure { cause: error.to_string(), log: lines.tail.into() })
        }
    }
}

/// Reads until the program has ended; `None` when the time was up.
fn follow(child: &mut Child, mut reader: PipeReader, lines: &mut Lines<'_>) -> io::Result<Option<ExitStatus>> {
    let mut buffer = vec![0; 16 * 1024];
    let mut open = true;
    loop {
        let readable = open && is_readable(&reader, Duration::from_millis(200));
        if readable {
            let count = reader.read(&mut buffer)?;
            open = count > 0;
            lines.push(&buffer[..count]);
        } else if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        } else if lines.started.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        } else if !open {
            std::thread::sleep(Duration::from_millis(20));
        }
        lines.beat();
    }
}

/// Cuts a stream into lines and reports them, with the time.
struct Lines<'a> {
    first: &'a str,
    progress: &'a dyn Progress,
    started: Instant,
    reported: Instant,
    partial: Vec<u8>,
    tail: VecDeque<String>,
}

impl<'a> Lines<'a> {
    fn new(first: &'a str, progress: &'a dyn Progress) -> Self {
        let now = Instant::now();
        Self { first, progress, started: now, reported: now, partial: Vec::new(), tail: VecDeque::new() }
    }

    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end_line(),
                _ if self.partial.len() < 4096 => self.partial.push(*byte),
                _ => {}
            }
        }
        if bytes.is_empty() {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.partial)).trim_end().to_owned();
        if line.is_empty() {
            return;
        }
        self.tail.push_back(line);
        if self.tail.len() > TAIL {
            self.tail.pop_front();
        }
        self.report();
    }

    /// Says again where things stand when the installer has been silent for a second.
    fn beat(&mut self) {
        if self.reported.elapsed() >= Duration::from_secs(1) {
            self.report();
        }
    }

    fn report(&mut self) {
        self.reported = Instant::now();
        let text = self.tail.back().map_or(self.first, |line| line.trim());
        self.progress.step(&format!("{text} ({} s)", self.started.elapsed().as_secs()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Recorder;
    use super::*;

    fn run(script: &str) -> (Result<(), Failure>, Vec<String>) {
        let progress = Recorder::default();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let result = stream(command, "starting", &tempfile::tempfile().unwrap(), &progress);
        let steps = progress.steps();
        (result, steps)
    }

    #[test]
    fn lines_of_both_streams_are_steps() {
        let (result, steps) = run("echo one; echo two >&2; printf three");
        assert!(result.is_ok());
        let texts: Vec<&str> = steps.iter().filter_map(|step| step.split(" (").next()).collect();
        assert!(texts.ends_with(&["one", "two", "three"]), "{steps:?}");
    }

    #[test]
    fn silence_still_shows_time() {
        let (_, steps) = run("echo working; sleep 2.5");
        assert!(steps.last().is_some_and(|step| step.starts_with("working (") && step != "working (0 s)"), "{steps:?}");
    }

    #[test]
    fn a_failure_keeps_the_last_lines() {
        let (result, _) = run("seq 100; echo the cause >&2; exit 7");
        let failure = result.unwrap_err();
        assert_eq!(failure.log.len(), TAIL);
        assert_eq!(failure.log.last().unwrap(), "the cause");
        assert!(failure.cause.contains('7'), "{}", failure.cause);
    }

    #[test]
    fn the_installer_holds_the_lock_as_long_as_it_lives() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lock = File::open(file.path()).unwrap();
        lock.lock().unwrap();
        // In effect, the orphan of a killed kforge.
        let mut command = Command::new("sleep");
        command.arg("1").stdin(lock.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        drop((lock, command));
        let second = File::open(file.path()).unwrap();
        assert!(second.try_lock().is_err());
        child.wait().unwrap();
        assert!(second.try_lock().is_ok());
    }
}
