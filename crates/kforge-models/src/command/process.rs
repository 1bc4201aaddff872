//! Runs one program to its end: its own group, bounded output, two clocks, and a watcher who may end it.

use crate::Watch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a look at the pipes lasts, and so how often the watcher is asked.
const LOOK: Duration = Duration::from_millis(50);

/// How long the pipes are read after the program's end. A descendant that left the group can hold them open for ever.
const GRACE: Duration = Duration::from_millis(300);

/// What is kept of standard error.
const STDERR_TAIL: usize = 16 << 10;

/// The bounds of one program.
pub(super) struct Bounds {
    pub(super) total: Duration,
    pub(super) idle: Duration,
    pub(super) stdout: usize,
}

/// How it ended.
pub(super) enum End {
    Exited(ExitStatus),
    TooLong,
    Silent,
    TooMuch,
    Cancelled,
}

/// What a program said, and how it ended.
pub(super) struct Ran {
    pub(super) end: End,
    pub(super) stdout: Vec<u8>,
    /// The last part of it.
    pub(super) stderr: Vec<u8>,
}

/// Runs `command`; what is left of its group at the end is killed.
pub(super) fn run(command: &mut Command, bounds: &Bounds, watch: &dyn Watch) -> io::Result<Ran> {
    let started = Instant::now();
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut group = Group { child: command.spawn()?, reaped: false };
    let mut stdout = Pipe::new(group.child.stdout.take().map(OwnedFd::from));
    let mut stderr = Pipe::new(group.child.stderr.take().map(OwnedFd::from));
    let (mut heard, mut characters) = (Instant::now(), 0);
    let end = loop {
        let (before, quiet) = (stdout.kept.len(), !read_ready(&mut stdout, &mut stderr)?);
        if !quiet {
            heard = Instant::now();
        }
        characters += stdout.kept[before..].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        if stdout.kept.len() > before {
            watch.received(characters);
        }
        if stderr.kept.len() > 2 * STDERR_TAIL {
            stderr.kept.drain(..stderr.kept.len() - STDERR_TAIL);
        }
        if stdout.kept.len() > bounds.stdout {
            break End::TooMuch;
        }
        if group.has_ended()? {
            break End::Exited(group.finish()?);
        }
        if watch.cancelled() {
            break End::Cancelled;
        }
        if started.elapsed() >= bounds.total {
            break End::TooLong;
        }
        if heard.elapsed() >= bounds.idle {
            break End::Silent;
        }
    };
    group.finish()?;
    let drained = Instant::now();
    while (stdout.open() || stderr.open()) && drained.elapsed() < GRACE && stdout.kept.len() <= bounds.stdout {
        read_ready(&mut stdout, &mut stderr)?;
    }
    let end = if stdout.kept.len() > bounds.stdout { End::TooMuch } else { end };
    let kept = stderr.kept.len().saturating_sub(STDERR_TAIL);
    Ok(Ran { end, stdout: stdout.kept, stderr: stderr.kept.split_off(kept) })
}

/// Waits a moment for bytes on either pipe and takes them; whether there were any.
fn read_ready(stdout: &mut Pipe, stderr: &mut Pipe) -> io::Result<bool> {
    let mut pipes: Vec<&mut Pipe> = [stdout, stderr].into_iter().filter(|pipe| pipe.open()).collect();
    if pipes.is_empty() {
        thread::sleep(LOOK / 2);
        return Ok(false);
    }
    let ready: Vec<bool> = {
        let mut fds: Vec<PollFd> =
            pipes.iter().filter_map(|pipe| pipe.fd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN))).collect();
        let wait = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
        match poll(&mut fds, Some(&wait)) {
            Ok(_) => fds.iter().map(|fd| !fd.revents().is_empty()).collect(),
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    };
    let mut any = false;
    for (pipe, ready) in pipes.iter_mut().zip(ready) {
        any |= ready && pipe.take()?;
    }
    Ok(any)
}

/// One end of a stream; closed at its end.
struct Pipe {
    fd: Option<OwnedFd>,
    kept: Vec<u8>,
}

impl Pipe {
    fn new(fd: Option<OwnedFd>) -> Self {
        Self { fd, kept: Vec::new() }
    }

    fn open(&self) -> bool {
        self.fd.is_some()
    }

    /// One read; false at the end of the stream.
    fn take(&mut self) -> io::Result<bool> {
        let Some(fd) = &self.fd else { return Ok(false) };
        let mut buffer = [0; 16 << 10];
        match rustix::io::read(fd.as_fd(), &mut buffer) {
            Ok(0) => self.fd = None,
            Ok(count) => self.kept.extend_from_slice(&buffer[..count]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.fd.is_some())
    }
}

/// A program and all that it started; killed when dropped.
struct Group {
    child: Child,
    reaped: bool,
}

impl Group {
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Looks without reaping.
    fn has_ended(&mut self) -> io::Result<bool> {
        let Some(pid) = self.pid() else { return Ok(self.child.try_wait()?.is_some()) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(pid), options)?.is_some())
    }

    /// The group is killed before its leader is reaped: until then the leader's number cannot be a stranger's.
    fn finish(&mut self) -> io::Result<ExitStatus> {
        if !self.reaped
            && let Some(pid) = self.pid()
        {
            // It fails where nothing is left to kill, which is what is wanted.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        self.reaped = true;
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
