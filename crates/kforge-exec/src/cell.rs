//! The hostile side's handle: fixed 64-byte records with a nonce, and a clock around them.

use crate::{
    channel::wait_readable,
    error::{ExecError, Result},
    log::{bounded, printable},
    memory::Shared,
    sandbox::{Event, Sandbox, limit_kind},
    slots::Slots,
};
use kforge_types::{Kind, Verdict};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

const MAGIC: u32 = 0x4B46_524B;
const RECORD: usize = 64;
const DETAIL_BYTES: usize = 64 * 1024;
/// For how long an answer that is timed is waited for awake.
const AWAKE: Duration = Duration::from_millis(10);
/// What a cell's failure is called that is a compiler's absence; the compiler's name follows.
const MISSING: &str = "missing:";
const READY_LIMIT: Duration = Duration::from_mins(1);

/// What a cell can be asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    Import,
    Construct(u64),
    Call,
    LoadWeights(u64),
    Audit,
    /// Triton's launches: kept by an interpreting cell, compiled by another.
    AheadOfTime,
    /// Threads on cores of their own, or free to go where the system puts them.
    Pin(bool),
    /// Whether the tensor that was returned last is still the one that was copied.
    Recheck,
    /// Of a baseline: operators with their times, over so many calls.
    Profile(u64),
    /// So many calls without outputs, while a profiler looks on.
    Repeat(u64),
    /// On a GPU: so many replays of a call as one CUDA graph.
    Graph(u64),
    /// Of an inspector: a report on what was built, or a step of a tool.
    Inspect(u64),
    /// Kernels on the GPU with their times, over so many calls.
    Kernels(u64),
    /// On a GPU: so many calls that are launched before their inputs are there.
    Queue(u64),
    /// The end of so many calls that were queued.
    Collect(u64),
}

impl Op {
    fn code(self) -> (u32, u64) {
        match self {
            Self::Import => (1, 0),
            Self::Construct(variant) => (2, variant),
            Self::Call => (3, 0),
            Self::LoadWeights(variant) => (4, variant),
            Self::Audit => (5, 0),
            Self::AheadOfTime => (6, 0),
            Self::Pin(apart) => (7, u64::from(apart)),
            Self::Recheck => (8, 0),
            Self::Profile(calls) => (9, calls),
            Self::Inspect(what) => (10, what),
            Self::Repeat(calls) => (11, calls),
            Self::Graph(replays) => (12, replays),
            Self::Kernels(calls) => (13, calls),
            Self::Queue(calls) => (14, calls),
            Self::Collect(calls) => (15, calls),
        }
    }
}

/// A good answer: claims from inside, and the time seen from outside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) inside_ns: u64,
    pub(crate) outside_ns: u64,
    pub(crate) a: u64,
    pub(crate) b: u64,
}

/// What was asked, and when.
pub(crate) struct Question {
    op: Op,
    nonce: [u8; 8],
    asked: Instant,
}

/// Either an answer or a verdict on whoever failed to give one.
pub(crate) type Asked = std::result::Result<Answer, Verdict>;

/// One cell with its slots.
pub(crate) struct Cell {
    channel: OwnedFd,
    child: u64,
    pub(crate) slots: Slots,
    detail: Shared,
    handle: Option<OwnedFd>,
    ready: bool,
    dead: bool,
}

impl Cell {
    /// Forks a cell in `sandbox`; the first question waits until it is ready. `weights` are files of the store, one for each variant of the spec.
    pub(crate) fn spawn(
        sandbox: &mut Sandbox,
        spec: &Value,
        env: &BTreeMap<String, String>,
        slots: Slots,
        weights: &[BorrowedFd<'_>],
    ) -> Result<Self> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| ExecError::Io { what: "cannot make a channel".to_owned(), cause: error.into() })?;
        let detail = Shared::new("kforge-detail", DETAIL_BYTES)?;
        let [input, output] = slots.fds();
        let mut fds = vec![theirs.as_fd(), input, output, detail.fd()];
        fds.extend_from_slice(weights);
        let (child, handle) = sandbox.spawn(spec, env, &fds)?;
        drop(fds);
        drop(theirs);
        Ok(Self { channel: ours, child, slots, detail, handle, ready: false, dead: false })
    }

    /// Its number in the sandbox.
    pub(crate) fn number(&self) -> u64 {
        self.child
    }

    /// For another cell, once every process that maps them has ended.
    pub(crate) fn into_slots(self) -> Slots {
        self.slots
    }

    /// A cell that ends before it is ready has not loaded hostile code yet: the failure is ours.
    fn wait_until_ready(&mut self, sandbox: &mut Sandbox) -> Result<()> {
        let deadline = Instant::now() + READY_LIMIT;
        let ready = wait_readable(&[self.channel.as_fd()], deadline)?[0];
        let mut record = [0; RECORD];
        let (length, _) = recv(&self.channel, &mut record, RecvFlags::DONTWAIT).unwrap_or((0, 0));
        if !ready || length != RECORD || !record[44..].starts_with(b"ready\0") {
            let why = self.ended(sandbox)?.reason;
            return Err(ExecError::harness(format!("a cell does not start: {why}\n{}", sandbox.log.text().trim())));
        }
        self.ready = true;
        Ok(())
    }

    /// Asks once and waits. A wrong nonce, a short record or an unknown word is a protocol failure.
    pub(crate) fn ask(&mut self, sandbox: &mut Sandbox, op: Op, limit: Duration) -> Result<Asked> {
        let question = match self.send(sandbox, op, false)? {
            Ok(question) => question,
            Err(verdict) => return Ok(Err(verdict)),
        };
        self.answer_in_time(sandbox, &question, limit)
    }

    /// Asks without waiting.
    ///
    /// With `thaw` the sandbox is asleep and is woken by this: after the clock has started, so that nothing is gained.
    pub(crate) fn send(
        &mut self,
        sandbox: &mut Sandbox,
        op: Op,
        thaw: bool,
    ) -> Result<std::result::Result<Question, Verdict>> {
        if !self.ready {
            self.wait_until_ready(sandbox)?;
        }
        if self.dead {
            return Ok(Err(Verdict::of(Kind::Exit, "its process has ended")));
        }
        let mut nonce = [0; 8];
        fill_random(&mut nonce)?;
        let (code, argument) = op.code();
        let mut record = [0; RECORD];
        record[..4].copy_from_slice(&MAGIC.to_le_bytes());
        record[4..8].copy_from_slice(&code.to_le_bytes());
        record[8..16].copy_from_slice(&nonce);
        record[16..24].copy_from_slice(&argument.to_le_bytes());
        let asked = Instant::now();
        if send(&self.channel, &record, SendFlags::NOSIGNAL).is_err() {
            return self.ended(sandbox).map(Err);
        }
        if thaw {
            self.wake();
            sandbox.thaw()?;
        }
        Ok(Ok(Question { op, nonce, asked }))
    }

    /// The answer to what was asked last, if it comes within `limit` from now.
    pub(crate) fn answer(
        &mut self,
        sandbox: &mut Sandbox,
        question: &Question,
        limit: Duration,
    ) -> Result<Option<Asked>> {
        let deadline = Instant::now() + limit;
        if matches!(question.op, Op::Collect(_)) {
            self.look_out();
        }
        loop {
            if let Some(verdict) = self.bad_news(sandbox) {
                return Ok(Some(Err(verdict)));
            }
            let ready = wait_readable(&[self.channel.as_fd(), sandbox.fd()], deadline)?;
            let outside_ns = question.asked.elapsed().as_nanos() as u64;
            if ready[0] {
                let mut reply = [0; RECORD + 1];
                let (length, _) = recv(&self.channel, &mut reply, RecvFlags::DONTWAIT).unwrap_or((0, 0));
                if length == 0 {
                    return self.ended(sandbox).map(|verdict| Some(Err(verdict)));
                }
                return self.read_reply(&reply[..length], question.nonce, outside_ns, sandbox).map(Some);
            }
            if !ready[1] {
                return Ok(None);
            }
            sandbox.listen(deadline)?;
        }
    }

    /// Waits awake for a while: being woken would take longer than what is measured.
    fn look_out(&self) {
        let begun = Instant::now();
        let mut nothing = [0; 1];
        while begun.elapsed() < AWAKE
            && recv(&self.channel, &mut nothing, RecvFlags::DONTWAIT | RecvFlags::PEEK) == Err(rustix::io::Errno::AGAIN)
        {
            std::hint::spin_loop();
        }
    }

    /// The answer, or the verdict on a cell that gives none within `limit` from now: it is given up.
    pub(crate) fn answer_in_time(
        &mut self,
        sandbox: &mut Sandbox,
        question: &Question,
        limit: Duration,
    ) -> Result<Asked> {
        if let Some(answer) = self.answer(sandbox, question, limit)? {
            return Ok(answer);
        }
        self.dead = true;
        let text = format!("no answer within {:.0} s ({})", limit.as_secs_f64(), describe(question.op));
        // Importing is running code: only while a compiler is at work beside the cell is it the build that hangs.
        let building = matches!(question.op, Op::Import) && sandbox.process_count()? > 1;
        Ok(Err(Verdict::of(if building { Kind::BuildTimeout } else { Kind::Timeout }, text)))
    }

    /// At once; whoever else is in the sandbox is woken by its supervisor.
    fn wake(&self) {
        #[cfg(target_os = "linux")]
        if let Some(handle) = &self.handle {
            let _ = rustix::process::pidfd_send_signal(handle, rustix::process::Signal::CONT);
        }
    }

    fn read_reply(&mut self, reply: &[u8], nonce: [u8; 8], outside_ns: u64, sandbox: &Sandbox) -> Result<Asked> {
        let word = |at: usize| u64::from_le_bytes(reply[at..at + 8].try_into().unwrap_or_default());
        if reply.len() != RECORD || reply[..4] != MAGIC.to_le_bytes() || reply[8..16] != nonce {
            self.dead = true;
            return Ok(Err(Verdict::of(Kind::Protocol, "its process sent something that is not an answer")));
        }
        let kind_bytes = &reply[44..64];
        let end = kind_bytes.iter().position(|&b| b == 0).unwrap_or(kind_bytes.len());
        let name = String::from_utf8_lossy(&kind_bytes[..end]).into_owned();
        if name == "ok" {
            return Ok(Ok(Answer { inside_ns: word(16), outside_ns, a: word(24), b: word(32) }));
        }
        if let Some(tool) = name.strip_prefix(MISSING) {
            return match sandbox.compilers.as_ref().and_then(|compilers| compilers.missing(tool)) {
                Some(text) => Err(ExecError::Toolchain(text)),
                // Not true: a failure to build like others.
                None => Ok(Err(Verdict::of(Kind::Compiler, self.detail_text()))),
            };
        }
        Ok(Err(match Kind::from_name(&name) {
            Some(kind) if kind != Kind::FrameworkOnly => Verdict::of(kind, self.detail_text()),
            _ => Verdict::of(Kind::Protocol, "its process answered with an unknown word"),
        }))
    }

    /// Text that the cell left in shared memory, bounded and printable.
    pub(crate) fn detail_text(&self) -> String {
        bounded(&self.whole_detail(), 4000)
    }

    /// All of that text: at most the size of its region.
    pub(crate) fn whole_detail(&self) -> String {
        let bytes = self.detail.bytes();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        printable(&String::from_utf8_lossy(&bytes[..end]))
    }

    /// What the supervisor has reported so far, where it means the end of this cell.
    pub(crate) fn bad_news(&mut self, sandbox: &mut Sandbox) -> Option<Verdict> {
        while let Some(event) = sandbox.events.pop_front() {
            if let Some(verdict) = self.heard(&event) {
                return Some(verdict);
            }
        }
        None
    }

    fn heard(&mut self, event: &Event) -> Option<Verdict> {
        let verdict = match event {
            Event::Limit { limit } => {
                let (kind, text) = limit_kind(limit);
                Verdict::of(kind, text)
            }
            Event::Exited { exited, status } if *exited == self.child => exit_verdict(*status),
            Event::Exited { .. } => return None,
        };
        self.dead = true;
        Some(verdict)
    }

    /// The channel is closed: the supervisor says why, shortly.
    fn ended(&mut self, sandbox: &mut Sandbox) -> Result<Verdict> {
        self.dead = true;
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            if let Some(verdict) = self.bad_news(sandbox) {
                return Ok(verdict);
            }
            sandbox.listen(deadline)?;
        }
        Ok(Verdict::of(Kind::Protocol, "its process closed the channel and did not end"))
    }
}

fn exit_verdict(status: i32) -> Verdict {
    const SIGXFSZ: i32 = 25;
    const SIGXCPU: i32 = 24;
    let signal = status & 0x7f;
    match signal {
        0 => Verdict::of(Kind::Exit, format!("its process ended by itself with exit code {}", (status >> 8) & 0xff)),
        SIGXFSZ => Verdict::of(Kind::DiskLimit, "a file grew beyond the scratch folder's limit"),
        SIGXCPU => Verdict::of(Kind::Timeout, "its process used up its processor time"),
        _ => Verdict::of(Kind::Crash, format!("its process was killed by signal {signal} ({})", signal_name(signal))),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        2 => "SIGINT, interrupt",
        4 => "SIGILL, illegal instruction: was it built for another CPU?",
        6 => "SIGABRT, abort: an assertion or an uncaught C++ exception",
        7 => "SIGBUS, bad memory access",
        8 => "SIGFPE, integer division by zero",
        9 => "SIGKILL",
        11 => "SIGSEGV, segmentation fault: an index out of range or a wrong pointer",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => "unexpected",
    }
}

fn describe(op: Op) -> &'static str {
    match op {
        Op::Import => "importing the file and building its kernels",
        Op::Construct(_) | Op::LoadWeights(_) => "constructing the module",
        Op::Call | Op::Audit | Op::Repeat(_) | Op::Graph(_) | Op::Queue(_) | Op::Collect(_) => "running forward",
        Op::AheadOfTime => "compiling kernels ahead of time",
        Op::Pin(_) => "placing threads",
        Op::Recheck => "looking at an output again",
        Op::Profile(_) => "profiling the reference",
        Op::Kernels(_) => "profiling its kernels",
        Op::Inspect(_) => "looking at what was built",
    }
}

pub(crate) fn fill_random(buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        filled += rustix::rand::getrandom(&mut buffer[filled..], rustix::rand::GetRandomFlags::empty())
            .map_err(|error| ExecError::Io { what: "no randomness".to_owned(), cause: error.into() })?;
    }
    Ok(())
}
