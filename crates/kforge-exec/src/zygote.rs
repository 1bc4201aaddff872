//! The Python process that has torch imported and forks everything else.

use crate::{
    channel::{Channel, soon},
    error::{ExecError, Result},
    judge::place::Place,
    log::Log,
    wire::messages::Fork,
};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::{
        fd::{AsFd, AsRawFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{Child, Command, Stdio},
};

/// What the environment of cells is made of; nothing else of the user's environment gets in.
const PASSED: [&str; 9] =
    ["LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "KFORGE_NVCC", "ROCM_PATH", "SDKROOT"];

/// Until it answers; importing takes long on a cold disk.
const LIMIT_S: u64 = 180;

/// Versions that the zygote reports when it is ready.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Ready {
    pub(crate) python: String,
    pub(crate) torch: String,
    pub(crate) threads: usize,
    /// Whether CuTe DSL is installed.
    pub(crate) cutlass: bool,
    /// Whether this torch can use a GPU of NVIDIA's.
    pub(crate) cuda: bool,
    /// Which of its own kernels torch replaces.
    #[serde(default)]
    pub(crate) overrides: Vec<String>,
}

/// A running zygote; dropping the first one ends it and everything that was forked, the second one too.
pub(crate) struct Zygote {
    channel: Channel,
    /// None for one that another zygote has forked, and ends.
    process: Option<Child>,
    /// Whether it has yet to say that it is ready.
    importing: bool,
    log: Log,
    pub(crate) ready: Ready,
}

impl Zygote {
    /// Starts the interpreter; with `torch` false only the sandbox can be tried.
    pub(crate) fn start(python: &Path, harness: &Path, threads: usize, torch: bool, place: &Place) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().map_err(ExecError::io("cannot make a channel"))?;
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| ExecError::Io { what: "cannot make a pipe".to_owned(), cause: error.into() })?;
        rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())
            .map_err(|error| ExecError::Io { what: "cannot pass a channel".to_owned(), cause: error.into() })?;
        let output = Stdio::from(write.try_clone().map_err(ExecError::io("cannot copy a pipe"))?);
        let mut command = Command::new(python);
        command
            .args(["-I", "-X", "utf8"])
            .arg(harness.join("kforge_harness").join("zygote.py"))
            .arg(theirs.as_raw_fd().to_string())
            .args(if torch { &[][..] } else { &["--no-torch"][..] })
            .env_clear()
            .envs(clean_environment(threads, python))
            .envs(place.environment())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::from(write))
            .process_group(0);
        let process = command
            .spawn()
            .map_err(ExecError::io(format!("cannot start {}; name another one with --python", python.display())))?;
        drop(theirs);
        drop(command);
        let mut zygote = Self {
            channel: Channel::new(ours),
            process: Some(process),
            importing: false,
            log: Log::drain(read),
            ready: Ready::default(),
        };
        match zygote.channel.receive(soon(LIMIT_S)) {
            Ok(Some(ready)) => zygote.ready = ready,
            Ok(None) => return Err(ExecError::harness(format!("importing torch took more than {LIMIT_S} s"))),
            Err(_) => {
                std::thread::sleep(std::time::Duration::from_millis(50));
                return Err(ExecError::harness(format!("Python ended early: {}", zygote.log.text().trim())));
            }
        }
        Ok(zygote)
    }

    /// Waits until everything is imported.
    pub(crate) fn wait(&mut self) -> Result<()> {
        if self.importing {
            let ready: Option<Value> = self.channel.receive(soon(LIMIT_S))?;
            ready.ok_or_else(|| ExecError::harness(format!("importing took more than {LIMIT_S} s")))?;
            self.importing = false;
        }
        Ok(())
    }

    /// Forks a child for `message`; returns its end of a new channel and its process number.
    pub(crate) fn fork(&mut self, message: &Fork<'_>) -> Result<(Channel, u32)> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Forked {
            pid: u32,
        }
        self.wait()?;
        let (ours, theirs) = UnixStream::pair().map_err(ExecError::io("cannot make a channel"))?;
        self.channel.send(message, &[theirs.as_fd()])?;
        let answer: Option<Forked> = self.channel.receive(soon(LIMIT_S))?;
        let Forked { pid } = answer.ok_or_else(|| ExecError::harness("it does not fork"))?;
        Ok((Channel::new(ours), pid))
    }

    /// Forks the referee. It runs the user's own problem, so it gets the user's environment, less the secrets.
    pub(crate) fn fork_referee(&mut self, threads: usize, place: &Place) -> Result<Channel> {
        let mut env: BTreeMap<String, String> = std::env::vars().filter(|(name, _)| !looks_secret(name)).collect();
        env.extend(place.environment());
        let python_path: Vec<String> =
            std::env::var("PYTHONPATH").unwrap_or_default().split(':').map(str::to_owned).collect();
        let cwd = std::env::current_dir().map_err(ExecError::io("the working folder is gone"))?;
        let place = place.for_harness();
        self.fork(&Fork::Referee { env: &env, python_path: &python_path, cwd: &cwd, threads, place: &place })
            .map(|(channel, _)| channel)
    }

    /// Forks a second zygote, which imports torch's compiler at once while this one goes on.
    pub(crate) fn fork_with_compiler(&mut self, env: &BTreeMap<String, String>) -> Result<Self> {
        let (channel, _) = self.fork(&Fork::Zygote { env })?;
        Ok(Self { channel, process: None, importing: true, log: self.log.clone(), ready: self.ready.clone() })
    }

    pub(crate) fn log_text(&self) -> String {
        self.log.text()
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // Referee and supervisors end by themselves when their channels close; this is for one that hangs.
        let Some(process) = &mut self.process else { return };
        if let Some(group) = rustix::process::Pid::from_raw(process.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = process.wait();
    }
}

fn clean_environment(threads: usize, python: &Path) -> Vec<(OsString, OsString)> {
    let mut made: Vec<(OsString, OsString)> =
        PASSED.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?))).collect();
    // An environment's programs, such as ninja, lie beside its interpreter.
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = python.parent().map(Path::to_path_buf).into_iter().chain(std::env::split_paths(&inherited));
    if let Ok(path) = std::env::join_paths(folders) {
        made.push(("PATH".into(), path));
    }
    let fixed = [
        ("OMP_NUM_THREADS", threads.to_string()),
        ("MKL_NUM_THREADS", threads.to_string()),
        ("USER", "kforge".to_owned()),
        ("LOGNAME", "kforge".to_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        // Fixed, so that both arms get large outputs from the heap in the same way, whatever they allocated before.
        ("MALLOC_MMAP_THRESHOLD_", "33554432".to_owned()),
        ("MALLOC_TRIM_THRESHOLD_", "1073741824".to_owned()),
        // Large pages for the heap where the system has them: small ones lie contiguous or scattered by chance.
        ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1".to_owned()),
        ("TORCHINDUCTOR_COMPILE_THREADS", "1".to_owned()),
    ];
    made.extend(fixed.into_iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
    made
}

/// The problem is trusted, but a key that it does not need should not be in one more process.
fn looks_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    ["API_KEY", "SECRET", "TOKEN", "PASSWORD", "CREDENTIAL"].iter().any(|word| upper.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Folders, Limits, Sandbox};

    #[test]
    fn a_second_zygote_forks_the_same_sandboxes() {
        let python = std::env::var_os("KFORGE_PYTHON").map_or_else(|| "python3".into(), std::path::PathBuf::from);
        let cache = tempfile::tempdir().unwrap();
        let harness = crate::harness::unpack(cache.path()).unwrap();
        let mut first = Zygote::start(&python, &harness, 1, false, &Place::Cpu).unwrap();
        let mut second = first.fork_with_compiler(&BTreeMap::new()).unwrap();
        let root = tempfile::tempdir().unwrap();
        let level = |zygote: &mut Zygote| {
            let scratch = root.path().join("scratch");
            Sandbox::enter(zygote, &scratch, &Limits::default(), &Folders::default(), true).unwrap().report.level
        };
        assert_eq!(level(&mut second), level(&mut first));
        // It goes when the first one goes, whatever it was doing.
        drop(first);
        assert!(second.fork_with_compiler(&BTreeMap::new()).is_err());
    }
}
