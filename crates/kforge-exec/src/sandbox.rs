//! One sandbox: a supervisor process, its policy, and the children that it forks for us.

use crate::{
    channel::{Channel, soon},
    error::{ExecError, Result},
    log::Log,
    seccomp,
    zygote::Zygote,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use kforge_types::{Kind, SandboxLevel, SandboxReport};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    time::Instant,
};

/// Limits of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) processes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_bytes: 6 << 30, scratch_bytes: 1 << 30, processes: 64 }
    }
}

/// What a supervisor reports without being asked.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Event {
    /// A child ended, with its wait status.
    Exited { exited: u64, status: i32 },
    /// A limit was broken, and everything was killed.
    Limit { limit: String },
    /// An answer to a request.
    Other(Value),
}

/// A supervisor with its scratch folder; dropping it ends everything inside.
pub(crate) struct Sandbox {
    channel: Channel,
    scratch: tempfile::TempDir,
    next_child: u64,
    pub(crate) report: SandboxReport,
    pub(crate) log: Log,
    log_writer: std::os::fd::OwnedFd,
}

#[derive(Deserialize)]
struct Entered {
    level: SandboxLevel,
    missing: Vec<String>,
}

/// Folders beyond the usual ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folders {
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) writable: Vec<PathBuf>,
}

impl Sandbox {
    pub(crate) fn enter(
        zygote: &mut Zygote,
        scratch_root: &Path,
        limits: &Limits,
        folders: &Folders,
        namespaces: bool,
    ) -> Result<Self> {
        std::fs::create_dir_all(scratch_root)
            .map_err(ExecError::io(format!("cannot create {}", scratch_root.display())))?;
        let scratch = tempfile::Builder::new()
            .prefix("cell-")
            .tempdir_in(scratch_root)
            .map_err(ExecError::io(format!("cannot create a scratch folder in {}", scratch_root.display())))?;
        let programs: Vec<String> = seccomp::programs().iter().map(|program| STANDARD.encode(program)).collect();
        let mut channel = zygote.fork(&json!({
            "role": "supervisor",
            "policy": {
                "scratch": scratch.path(),
                "scratch_bytes": limits.scratch_bytes,
                "memory_bytes": limits.memory_bytes,
                "process_limit": limits.processes,
                "readable": folders.readable,
                "writable": folders.writable,
                "seccomp": programs,
                "namespaces": namespaces,
            },
        }))?;
        let entered: Entered = channel
            .receive(soon(30))?
            .ok_or_else(|| ExecError::harness(format!("the sandbox does not start: {}", zygote.log_text())))?;
        let (read, log_writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| ExecError::Io { what: "cannot make a pipe".to_owned(), source: error.into() })?;
        Ok(Self {
            channel,
            scratch,
            next_child: 0,
            report: SandboxReport { level: entered.level, missing: entered.missing },
            log: Log::drain(read),
            log_writer,
        })
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Forks a child that runs the cell's loop over `fds`.
    pub(crate) fn spawn(
        &mut self,
        spec: &Value,
        env: &BTreeMap<String, String>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<u64> {
        self.next_child += 1;
        let mut all = fds.to_vec();
        all.push(self.log_writer.as_fd());
        self.channel.send(&json!({"do": "spawn", "id": self.next_child, "spec": spec, "env": env}), &all)?;
        let _: Option<Value> = self.channel.receive(soon(30))?;
        Ok(self.next_child)
    }

    /// Kills every child; the scratch folder stays.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.order("clear", "cleared").map(|_| ())
    }

    /// How many processes are inside, the supervisor apart.
    pub(crate) fn process_count(&mut self) -> Result<u64> {
        Ok(self.number("count", "count")? as u64)
    }

    /// Processor time of all processes inside.
    pub(crate) fn cpu_seconds(&mut self) -> Result<f64> {
        self.number("cpu", "cpu_s")
    }

    fn number(&mut self, order: &str, field: &str) -> Result<f64> {
        self.channel.send(&json!({"do": order}), &[])?;
        let deadline = soon(30);
        while let Some(message) = self.channel.receive::<Value>(deadline)? {
            if let Some(number) = message.get(field).and_then(Value::as_f64) {
                return Ok(number);
            }
        }
        Err(ExecError::harness("the sandbox does not answer"))
    }

    /// Stops or wakes every process inside: an idle arm must not take a core from the other.
    pub(crate) fn freeze(&mut self, frozen: bool) -> Result<Option<Event>> {
        self.order(if frozen { "freeze" } else { "thaw" }, "done")
    }

    /// Sends an order and waits for its answer; an event that comes in between is handed back.
    fn order(&mut self, order: &str, answered_by: &str) -> Result<Option<Event>> {
        self.channel.send(&json!({"do": order}), &[])?;
        let deadline = soon(30);
        let mut meanwhile = None;
        loop {
            match self.channel.receive::<Event>(deadline)? {
                Some(Event::Other(message)) if message.get(answered_by).is_some() => return Ok(meanwhile),
                Some(Event::Other(_)) => {}
                Some(event) => meanwhile = Some(event),
                None => return Err(ExecError::harness(format!("the sandbox does not {order}"))),
            }
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    pub(crate) fn next_event(&mut self, deadline: Instant) -> Result<Option<Event>> {
        self.channel.receive(deadline)
    }
}

/// What a limit's name on the wire means.
pub(crate) fn limit_kind(name: &str) -> (Kind, &'static str) {
    match name {
        "process_limit" => (Kind::ProcessLimit, "it started more processes than the limit; everything was killed"),
        "disk_limit" => (Kind::DiskLimit, "it wrote more than its scratch folder may hold"),
        _ => (Kind::OutOfMemory, "it used more memory than the limit; everything was killed"),
    }
}
