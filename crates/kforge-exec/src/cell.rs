//! The hostile side's handle: fixed 64-byte records with a nonce, and a clock around them.

use crate::{
    channel::wait_readable,
    claims::{self, Claims, OutputField},
    error::{ExecError, Result},
    failure::Tried,
    log::{bounded, printable},
    memory::Shared,
    sandbox::{Event, Sandbox},
    slots::Slots,
    window::Window,
    wire::{
        self, CLAIMS_AT, DETAIL_BYTES, MAX_FDS, Nonce, RECORD, Reply, Word,
        op::{Op, Request},
    },
};
use kforge_types::{Kind, Verdict};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType, recv,
    recvmsg, send, socketpair,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::IoSliceMut,
    marker::PhantomData,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// For how long an answer that is timed is waited for awake.
const AWAKE: Duration = Duration::from_millis(10);
const READY_LIMIT: Duration = Duration::from_mins(1);

/// Bytes, by what `/proc/PID/status` says. Shared memory too: a store of results may lie there as well.
fn held_by(status: &str) -> Option<u64> {
    let kib = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB"))?;
        found.trim().parse::<u64>().ok()
    };
    Some((kib("RssAnon:")? + kib("RssShmem:").unwrap_or_default()) * 1024)
}

/// What was asked.
pub(crate) struct Question<R> {
    nonce: Nonce,
    asked: PhantomData<R>,
}

/// One cell with its slots.
pub(crate) struct Cell {
    channel: OwnedFd,
    child: u64,
    pub(crate) slots: Slots,
    detail: Shared,
    handle: Option<OwnedFd>,
    /// Its memory; nothing where results must be copied.
    window: Option<Window>,
    /// Pieces of a device's memory that came with the last answer.
    handed_over: Vec<OwnedFd>,
    ready: bool,
    dead: bool,
}

/// What a signal makes of a process.
#[derive(Debug, Clone, Copy)]
enum Awake {
    Yes,
    No,
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
        Ok(Self {
            channel: ours,
            child,
            slots,
            detail,
            handle,
            window: None,
            handed_over: Vec::new(),
            ready: false,
            dead: false,
        })
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
        let mut record = [0; RECORD + 1];
        let (length, _) = recv(&self.channel, &mut record, RecvFlags::DONTWAIT).unwrap_or((0, 0));
        if !ready || !Reply::is_hello(&record[..length.min(record.len())]) {
            let why = self.ended(sandbox)?.reason;
            return Err(ExecError::harness(format!("a cell does not start: {why}\n{}", sandbox.log.text().trim())));
        }
        self.ready = true;
        // Before anything of a candidate's runs in there: what it forbids later does not matter any more.
        self.window = self.handle.as_ref().and_then(pid_of).and_then(Window::open);
        Ok(())
    }

    /// Memory of its own that it holds, as the system counts it.
    pub(crate) fn held_bytes(&self) -> Option<u64> {
        let pid = self.handle.as_ref().and_then(pid_of)?;
        // A thread that has ended tells nothing, be it the first one: then any other tells it.
        let mut tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        tasks.find_map(|task| held_by(&std::fs::read_to_string(task.path().join("status")).ok()?))
    }

    /// Its memory, where results are read there.
    pub(crate) fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    /// Where it says that the results of its last row lie; nothing where that makes no sense.
    pub(crate) fn claims(&mut self, fields: &[OutputField], calls: usize) -> Option<(Claims, Vec<OwnedFd>)> {
        let files = std::mem::take(&mut self.handed_over);
        let told = self.detail.bytes()[CLAIMS_AT..].to_vec();
        claims::read(&told, fields, calls, files.len()).map(|claims| (claims, files))
    }

    /// Asks once and waits. A record that is no answer, an unknown word or a number that cannot be is a protocol failure.
    pub(crate) fn ask<R: Request>(&mut self, sandbox: &mut Sandbox, request: R, limit: Duration) -> Tried<R::Answer> {
        let question = self.send(sandbox, request, false)?;
        self.answer_in_time(sandbox, &question, limit)
    }

    /// Asks without waiting.
    ///
    /// With `thaw` the sandbox is asleep and is woken by this: after the clock has started, so that nothing is gained.
    pub(crate) fn send<R: Request>(&mut self, sandbox: &mut Sandbox, request: R, thaw: bool) -> Tried<Question<R>> {
        if !self.ready {
            self.wait_until_ready(sandbox)?;
        }
        if self.dead {
            return Err(Verdict::of(Kind::Exit, "its process has ended").into());
        }
        let mut nonce = [0; 8];
        fill_random(&mut nonce)?;
        let record = wire::request(request, nonce);
        if send(&self.channel, &record, SendFlags::NOSIGNAL).is_err() {
            return Err(self.ended(sandbox)?.into());
        }
        if thaw {
            // In a row nobody else works, and a supervisor that wakes everybody would take a processor from those who do.
            let woken = self.signal(Awake::Yes);
            if !(woken && R::OP == Op::Row) {
                sandbox.thaw()?;
            }
        }
        Ok(Question { nonce, asked: PhantomData })
    }

    /// The answer to what was asked last, if it comes within `limit` from now.
    pub(crate) fn answer<R: Request>(
        &mut self,
        sandbox: &mut Sandbox,
        question: &Question<R>,
        limit: Duration,
    ) -> Tried<Option<R::Answer>> {
        let deadline = Instant::now() + limit;
        if R::OP == Op::Collect {
            self.look_out();
        }
        loop {
            self.is_there(sandbox)?;
            let ready = wait_readable(&[self.channel.as_fd(), sandbox.fd()], deadline)?;
            if ready[0] {
                let mut reply = [0; RECORD + 1];
                let length = self.receive(&mut reply);
                if length == 0 {
                    return Err(self.ended(sandbox)?.into());
                }
                return self.read_reply::<R>(&reply[..length], question.nonce, sandbox).map(Some);
            }
            if !ready[1] {
                return Ok(None);
            }
            sandbox.listen(deadline)?;
        }
    }

    /// One record, with what comes along.
    fn receive(&mut self, reply: &mut [u8]) -> usize {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(reply)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let length = recvmsg(&self.channel, &mut parts, &mut ancillary, flags).map_or(0, |received| received.bytes);
        self.handed_over.clear();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.handed_over.extend(files);
            }
        }
        length
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
    pub(crate) fn answer_in_time<R: Request>(
        &mut self,
        sandbox: &mut Sandbox,
        question: &Question<R>,
        limit: Duration,
    ) -> Tried<R::Answer> {
        if let Some(answer) = self.answer(sandbox, question, limit)? {
            return Ok(answer);
        }
        self.dead = true;
        let text = format!("no answer within {:.0} s ({})", limit.as_secs_f64(), R::OP.describe());
        // Importing is running code: only while a compiler is at work beside the cell is it the build that hangs.
        let building = R::OP == Op::Import && sandbox.process_count()? > 1;
        Err(Verdict::of(if building { Kind::BuildTimeout } else { Kind::Timeout }, text).into())
    }

    /// Wakes or stops its process at once, without a detour through the supervisor; whether that could be done.
    fn signal(&self, awake: Awake) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(handle) = &self.handle {
            let signal = match awake {
                Awake::Yes => rustix::process::Signal::CONT,
                Awake::No => rustix::process::Signal::STOP,
            };
            return rustix::process::pidfd_send_signal(handle, signal).is_ok();
        }
        let _ = awake;
        false
    }

    /// Threads that spin for their next piece of work would keep the supervisor, who stops everybody, from its processor.
    pub(crate) fn stop(&self) {
        self.signal(Awake::No);
    }

    fn read_reply<R: Request>(&mut self, reply: &[u8], nonce: Nonce, sandbox: &Sandbox) -> Tried<R::Answer> {
        let Some(reply) = Reply::to::<R>(reply, nonce) else {
            self.dead = true;
            return Err(Verdict::of(Kind::Protocol, "its process sent something that is not an answer").into());
        };
        Err(match reply.word() {
            Word::Good(answer) => return Ok(answer),
            Word::Failed(kind) => Verdict::of(kind, self.detail_text()).into(),
            Word::Missing(tool) => match sandbox.compilers.as_ref().and_then(|compilers| compilers.missing(&tool)) {
                Some(text) => ExecError::Toolchain(text).into(),
                // Not true: a failure to build like others.
                None => Verdict::of(Kind::Compiler, self.detail_text()).into(),
            },
            Word::Impossible => Verdict::of(Kind::Protocol, "its process answered with numbers that cannot be").into(),
            Word::Unknown => Verdict::of(Kind::Protocol, "its process answered with an unknown word").into(),
        })
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

    /// A verdict where something that the supervisor has reported so far means the end of this cell.
    pub(crate) fn is_there(&mut self, sandbox: &mut Sandbox) -> std::result::Result<(), Verdict> {
        while let Some(event) = sandbox.events.pop_front() {
            self.survives(&event)?;
        }
        Ok(())
    }

    fn survives(&mut self, event: &Event) -> std::result::Result<(), Verdict> {
        let verdict = match event {
            Event::Limit { limit } => {
                let (kind, text) = limit.told();
                Verdict::of(kind, text)
            }
            Event::Exited { exited, status } if *exited == self.child => exit_verdict(*status),
            Event::Exited { .. } => return Ok(()),
        };
        self.dead = true;
        Err(verdict)
    }

    /// The channel is closed: the supervisor says why, shortly.
    fn ended(&mut self, sandbox: &mut Sandbox) -> Result<Verdict> {
        self.dead = true;
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            if let Err(verdict) = self.is_there(sandbox) {
                return Ok(verdict);
            }
            sandbox.listen(deadline)?;
        }
        Ok(Verdict::of(Kind::Protocol, "its process closed the channel and did not end"))
    }
}

/// As this process sees it, whatever namespaces it has.
fn pid_of(handle: &OwnedFd) -> Option<u32> {
    let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).ok()?;
    told.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok())
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

pub(crate) fn fill_random(buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        filled += rustix::rand::getrandom(&mut buffer[filled..], rustix::rand::GetRandomFlags::empty())
            .map_err(|error| ExecError::Io { what: "no randomness".to_owned(), cause: error.into() })?;
    }
    Ok(())
}
