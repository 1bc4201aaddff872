//! Running a program that may hang, flood or not exist.
//!
//! Owns the one way in which kforge runs helper programs: a process group of its own, nothing on standard input,
//! at most so many bytes of output, at most so much time. Refuses to judge what the program said: a non-zero exit
//! status is an answer, not an error.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the pipes may stay silent after the program's end before they are given up. A descendant that left
/// the process group can hold them open for ever.
const GRACE: Duration = Duration::from_millis(200);

/// What a program said before it ended.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output, at most the given number of bytes: head and tail where it was more.
    pub stdout: Vec<u8>,
    /// Standard error, likewise.
    pub stderr: Vec<u8>,
    /// Whether bytes in the middle of either were dropped.
    pub truncated: bool,
}

impl Output {
    /// Standard output as text; bytes that are not UTF-8 become replacement characters.
    #[must_use]
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// A program that could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no such program.
    #[error("cannot find the program {program}: install it, or add its folder to PATH")]
    Missing {
        /// As it was asked for.
        program: String,
    },
    /// The operating system did not start it.
    #[error("cannot start {program}: {source}; check that the file is executable and made for this machine")]
    Start {
        /// As it was asked for.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// It was still running at the time limit and was killed with its group.
    #[error("{program} gave no answer within {} s and was stopped: run it by hand to see what it waits for", limit.as_secs_f64())]
    TimedOut {
        /// As it was asked for.
        program: String,
        /// The limit.
        limit: Duration,
        /// What it had said until then, standard output first.
        said: Vec<u8>,
    },
    /// The operating system would not say how it ended.
    #[error("cannot wait for {program}: {source}; try again")]
    Wait {
        /// As it was asked for.
        program: String,
        /// The cause.
        source: io::Error,
    },
}

/// Runs `command` to its end, for at most `timeout`, keeping at most `max_bytes` of each of its two streams.
///
/// The program gets its own process group and an empty standard input. What is left of the group when the program
/// ends, or when the time is up, is killed.
pub fn run_bounded(command: &mut Command, timeout: Duration, max_bytes: usize) -> Result<Output, ProcessError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|source| start_error(&program, source))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ended = AtomicBool::new(false);
    let (waited, stdout, stderr) = thread::scope(|scope| {
        let stdout = scope.spawn(|| drain(out, max_bytes, &ended));
        let stderr = scope.spawn(|| drain(err, max_bytes, &ended));
        let waited = wait_and_kill_group(&mut child, started, timeout);
        ended.store(true, Ordering::Release);
        (waited, stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default())
    });
    let (stdout, cut_out) = stdout.into_bytes();
    let (stderr, cut_err) = stderr.into_bytes();
    match waited {
        Ok(Some(status)) => Ok(Output { status, stdout, stderr, truncated: cut_out || cut_err }),
        Ok(None) => Err(ProcessError::TimedOut { program, limit: timeout, said: [stdout, stderr].concat() }),
        Err(source) => Err(ProcessError::Wait { program, source }),
    }
}

/// The first executable file called `name` in the folders `path`; a `name` with a slash is taken as it is.
#[must_use]
pub fn find_program(name: &str, path: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| is_executable(file));
    }
    path.iter().map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// Whether somebody may execute the file.
pub(crate) fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Sorts what `spawn` reports into "there is none" and "it does not start".
pub(crate) fn start_error(program: &str, source: io::Error) -> ProcessError {
    let program = program.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => ProcessError::Missing { program },
        _ => ProcessError::Start { program, source },
    }
}

/// `None` when the time was up. The group is killed before its leader is reaped: until then the leader's number
/// cannot be given to a stranger.
fn wait_and_kill_group(child: &mut Child, started: Instant, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut pause = Duration::from_millis(1);
    let in_time = loop {
        if has_ended(child, pid)? {
            break true;
        }
        let Some(left) = timeout.checked_sub(started.elapsed()) else { break false };
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    if let Some(pid) = pid {
        // It fails where nothing is left to kill, which is what is wanted.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait()?;
    Ok(in_time.then_some(status))
}

/// Looks without reaping.
fn has_ended(child: &mut Child, pid: Option<Pid>) -> io::Result<bool> {
    let Some(pid) = pid else { return Ok(child.try_wait()?.is_some()) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

/// Reads until the end of the pipe, or until it falls silent after the program's end.
fn drain<P: Read + AsFd>(pipe: Option<P>, max_bytes: usize, ended: &AtomicBool) -> Capture {
    let mut capture = Capture::new(max_bytes);
    let Some(mut pipe) = pipe else { return capture };
    let mut buffer = vec![0; 64 * 1024];
    let mut deadline = None;
    loop {
        if ended.load(Ordering::Acquire) {
            let until = *deadline.get_or_insert_with(|| Instant::now() + GRACE);
            if Instant::now() >= until {
                return capture;
            }
        }
        if !is_readable(&pipe, Duration::from_millis(20)) {
            continue;
        }
        match pipe.read(&mut buffer) {
            Ok(0) => return capture,
            Ok(count) => capture.push(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return capture,
        }
    }
}

/// Whether a read would return at once, with bytes, the end or an error.
pub(crate) fn is_readable<P: AsFd>(pipe: &P, wait: Duration) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::IN)];
    let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
    poll(&mut fds, Some(&wait)).is_ok_and(|ready| ready > 0)
}

/// The first and the last bytes of a stream, within a limit.
#[derive(Default)]
struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    dropped: usize,
}

impl Capture {
    fn new(limit: usize) -> Self {
        Self { head_limit: limit / 2, tail_limit: limit - limit / 2, ..Self::default() }
    }

    fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        let skipped = rest.len().saturating_sub(self.tail_limit);
        let kept = &rest[skipped..];
        let overflow = (self.tail.len() + kept.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..overflow);
        self.tail.extend(kept);
        self.dropped += skipped + overflow;
    }

    fn into_bytes(self) -> (Vec<u8>, bool) {
        let mut bytes = self.head;
        if self.dropped > 0 {
            bytes.extend_from_slice(format!("\n[{} bytes left out]\n", self.dropped).as_bytes());
        }
        bytes.extend(self.tail);
        (bytes, self.dropped > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_and_the_status_come_back() {
        let output = run_bounded(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(10), 1000).unwrap();
        assert_eq!((output.stdout_text().as_str(), output.stderr_text().as_str()), ("out\n", "err\n"));
        assert_eq!(output.status.code(), Some(3));
        assert!(!output.truncated);
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let started = Instant::now();
        let error =
            run_bounded(&mut shell("echo before; sleep 60 & sleep 60"), Duration::from_millis(300), 1000).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        let ProcessError::TimedOut { said, .. } = error else { panic!("{error}") };
        assert_eq!(said, b"before\n");
    }

    #[test]
    fn a_flood_keeps_head_and_tail() {
        let script = "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last";
        let output = run_bounded(&mut shell(script), Duration::from_secs(20), 1000).unwrap();
        let text = output.stdout_text();
        assert!(output.truncated && text.len() < 1100, "{}", text.len());
        assert!(text.starts_with("first\n") && text.ends_with("last\n"));
        assert!(text.contains("bytes left out"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error =
            run_bounded(&mut Command::new("/nonexistent/tool"), Duration::from_secs(1), 10).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/tool") && error.contains("install"), "{error}");
    }

    #[test]
    fn what_the_program_leaves_behind_does_not_keep_us_waiting() {
        let started = Instant::now();
        let output = run_bounded(&mut shell("sleep 60 & echo done"), Duration::from_secs(30), 1000).unwrap();
        assert_eq!(output.stdout, b"done\n");
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }

    #[test]
    fn standard_input_is_empty() {
        let output = run_bounded(&mut shell("wc -c"), Duration::from_secs(10), 1000).unwrap();
        assert_eq!(output.stdout_text().trim(), "0");
    }
}
