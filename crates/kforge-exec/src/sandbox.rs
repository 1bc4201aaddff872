//! One sandbox: a supervisor process, its policy, and the children that it forks for us.

use crate::{
    cell::Cell,
    channel::{Channel, soon},
    compilers::Compilers,
    error::{ExecError, Result},
    judge::spec::Special,
    log::{Log, bounded},
    seccomp,
    wire::messages::{Fork, Limit, Order, Policy},
    zygote::Zygote,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use kforge_types::{SandboxLevel, SandboxReport};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::Instant,
};

/// Limits of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) processes: u32,
    /// The device whose driver's files may be used, by the name of its package in the harness; `cpu` needs none.
    pub(crate) device: String,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_bytes: 6 << 30, scratch_bytes: 1 << 30, processes: 64, device: "cpu".to_owned() }
    }
}

/// What a supervisor reports without being asked.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum Event {
    /// A child ended, with its wait status.
    Exited { exited: u64, status: i32 },
    /// A limit was broken, and everything was killed.
    Limit { limit: Limit },
}

/// How everything inside was stopped.
#[derive(Debug, Deserialize)]
pub(crate) struct Frozen {
    /// Whether no task of any process runs.
    pub(crate) stopped: bool,
    /// Processes that have not ended.
    pub(crate) living: u64,
    /// What it took to look at them all, once they had stopped.
    pub(crate) looked_us: f64,
}

/// A supervisor with its scratch folder; dropping it ends everything inside.
pub(crate) struct Sandbox {
    channel: Channel,
    /// Of the process whose descendants are everything inside, as seen from here.
    pub(crate) pid: u32,
    scratch: tempfile::TempDir,
    next_child: u64,
    /// Reports that nobody has looked at yet.
    pub(crate) events: VecDeque<Event>,
    pub(crate) report: SandboxReport,
    pub(crate) log: Log,
    log_writer: OwnedFd,
    /// What may be missing for whoever is inside.
    pub(crate) compilers: Option<Compilers>,
    /// Cells that were forked before their turn.
    pub(crate) waiting: Vec<(Special<'static>, Cell)>,
}

#[derive(Deserialize)]
struct Entered {
    level: SandboxLevel,
    missing: Vec<String>,
    /// Namespaces were made but could not be furnished: nothing inside can be trusted.
    unusable: bool,
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
        private_folder(scratch_root)?;
        let scratch = tempfile::Builder::new()
            .prefix("cell-")
            .tempdir_in(scratch_root)
            .map_err(ExecError::io(format!("cannot create a scratch folder in {}", scratch_root.display())))?;
        let programs = |whose: seccomp::For| -> Vec<String> {
            seccomp::programs(whose).iter().map(|program| STANDARD.encode(program)).collect()
        };
        let policy = Policy {
            scratch: scratch.path(),
            scratch_bytes: limits.scratch_bytes,
            memory_bytes: limits.memory_bytes,
            process_limit: limits.processes,
            readable: &folders.readable,
            writable: &folders.writable,
            seccomp: programs(seccomp::For::Cells),
            tool_seccomp: programs(seccomp::For::Tools),
            namespaces,
            device: &limits.device,
        };
        let (mut channel, pid) = zygote.fork(&Fork::Supervisor { policy })?;
        let entered: Entered = channel
            .receive(soon(30))?
            .ok_or_else(|| ExecError::harness(format!("the sandbox does not start: {}", zygote.log_text())))?;
        if entered.unusable {
            drop(channel);
            let mut plain = Self::enter(zygote, scratch_root, limits, folders, false)?;
            plain.report.missing = entered.missing;
            return Ok(plain);
        }
        let (read, log_writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| ExecError::Io { what: "cannot make a pipe".to_owned(), cause: error.into() })?;
        Ok(Self {
            channel,
            pid,
            scratch,
            next_child: 0,
            events: VecDeque::new(),
            report: SandboxReport { level: entered.level, missing: entered.missing },
            log: Log::drain(read),
            log_writer,
            compilers: None,
            waiting: Vec::new(),
        })
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Forks a child that runs the cell's loop over `fds`; its number, and a handle of its process where the system has
    /// such.
    pub(crate) fn spawn(
        &mut self,
        spec: &Value,
        env: &BTreeMap<String, String>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(u64, Option<OwnedFd>)> {
        self.next_child += 1;
        let mut all = fds.to_vec();
        all.push(self.log_writer.as_fd());
        self.channel.send(&Order::Spawn { id: self.next_child, spec, env }, &all)?;
        let deadline = soon(30);
        loop {
            let (message, mut handles): (Value, Vec<OwnedFd>) = self.channel.receive_with_fds(deadline)?;
            if message.get("spawned").is_some() {
                return Ok((self.next_child, handles.pop()));
            }
            self.keep(message)?;
        }
    }

    /// Kills every child but `keep`; the scratch folder stays.
    pub(crate) fn clear(&mut self, keep: &[u64]) -> Result<()> {
        self.channel.send(&Order::Clear { keep }, &[])?;
        self.answer("cleared")?;
        self.events.retain(|event| matches!(event, Event::Exited { exited, .. } if keep.contains(exited)));
        Ok(())
    }

    /// Kills every child but those that wait for their turn.
    pub(crate) fn clear_for_the_next(&mut self) -> Result<()> {
        let waiting: Vec<u64> = self.waiting.iter().map(|(_, cell)| cell.number()).collect();
        self.clear(&waiting)
    }

    /// One that waits for its turn, if there is such a one.
    pub(crate) fn take_waiting(&mut self, special: Special<'static>) -> Option<Cell> {
        let index = self.waiting.iter().position(|(waiting, _)| *waiting == special)?;
        Some(self.waiting.remove(index).1)
    }

    /// Stops every process inside, and says whether every task of theirs stands still.
    pub(crate) fn freeze(&mut self) -> Result<Frozen> {
        self.channel.send(&Order::Freeze, &[])?;
        let told = self.answer("frozen")?;
        serde_json::from_value(told).map_err(|error| ExecError::harness(format!("the sandbox says nonsense: {error}")))
    }

    /// Wakes every process inside, and does not wait for it: a clock is running.
    pub(crate) fn thaw(&mut self) -> Result<()> {
        self.channel.send(&Order::Thaw, &[])
    }

    /// How many processes are inside, the supervisor apart.
    pub(crate) fn process_count(&mut self) -> Result<u64> {
        self.channel.send(&Order::Count, &[])?;
        self.answer("count")?.as_u64().ok_or_else(|| ExecError::harness("the sandbox does not count"))
    }

    /// Waits for the message that has `field`; reports that come before it are kept.
    fn answer(&mut self, field: &str) -> Result<Value> {
        let deadline = soon(30);
        loop {
            match self.channel.receive::<Value>(deadline)? {
                Some(message) => match message.get(field) {
                    Some(value) => return Ok(value.clone()),
                    None => self.keep(message)?,
                },
                None => return Err(ExecError::harness(format!("the sandbox does not answer ({field})"))),
            }
        }
    }

    fn keep(&mut self, message: Value) -> Result<()> {
        self.events.push_back(event(message)?);
        Ok(())
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// Takes in one message, if one comes before `deadline`.
    pub(crate) fn listen(&mut self, deadline: Instant) -> Result<()> {
        self.channel.receive(deadline)?.map_or(Ok(()), |message| self.keep(message))
    }
}

/// A folder in a place that others may write to must be ours and closed to them.
fn private_folder(path: &Path) -> Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    let made = std::fs::DirBuilder::new().mode(0o700).create(path);
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700));
    let found = std::fs::symlink_metadata(path).map_err(ExecError::io(format!("cannot create {}", path.display())))?;
    let ours =
        found.is_dir() && found.uid() == rustix::process::getuid().as_raw() && found.mode().trailing_zeros() >= 6;
    if made.is_err() && !ours {
        let taken = std::io::Error::other("it is there and not a private folder of yours; remove it, or set TMPDIR");
        return Err(ExecError::io(format!("cannot use {}", path.display()))(taken));
    }
    Ok(())
}

/// What a supervisor said without being asked.
fn event(message: Value) -> Result<Event> {
    let said = message.to_string();
    serde_json::from_value(message)
        .map_err(|_| ExecError::harness(format!("the sandbox says something unknown: {}", bounded(&said, 200))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_supervisor_cannot_say_is_refused() {
        assert!(matches!(event(json!({"exited": 3, "status": 9})), Ok(Event::Exited { exited: 3, status: 9 })));
        assert!(matches!(event(json!({"limit": "disk_limit"})), Ok(Event::Limit { limit: Limit::Disk })));
        for unknown in [
            json!({"limit": "patience"}),
            json!({"limit": "disk_limit", "more": 1}),
            json!({"exited": -1, "status": 0}),
            json!({"exited": 1}),
            json!({"done": true}),
            json!(7),
        ] {
            let text = event(unknown.clone()).unwrap_err().to_string();
            assert!(
                text.contains("the sandbox says something unknown") && text.contains(&unknown.to_string()),
                "{text}"
            );
        }
    }
}
