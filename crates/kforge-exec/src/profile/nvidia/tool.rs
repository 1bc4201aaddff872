//! One vendor tool with the program that it starts, inside a candidate's sandbox.

use super::super::ladder::quoted;
use crate::{
    cell::Cell,
    failure::{Failure, OnFailure, Tried},
    memory::Sealed,
    process::{find_program, run_bounded},
    referee::{InputSet, Referee},
    sandbox::Sandbox,
    slots::Slots,
    wire::op::{self, Look},
};
use kforge_types::SandboxLevel;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    time::Duration,
};

const ANSWER_BYTES: usize = 32 << 20;
const START_LIMIT: Duration = Duration::from_mins(1);
const CODE_LIMIT: Duration = Duration::from_mins(3);
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// A program of the vendor's on this machine.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) version: String,
}

impl Program {
    /// Looked for once: asking for its version starts it.
    pub(super) fn find(name: &str) -> Option<Self> {
        static FOUND: Mutex<BTreeMap<String, Option<Program>>> = Mutex::new(BTreeMap::new());
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        found.entry(name.to_owned()).or_insert_with(|| Self::look_for(name)).clone()
    }

    /// By the search path, then where its vendor puts it.
    fn look_for(name: &str) -> Option<Self> {
        let mut folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        folders.push("/usr/local/cuda/bin".into());
        folders.push("/usr/local/cuda/compute-sanitizer".into());
        let mut installed: Vec<PathBuf> = std::fs::read_dir("/opt/nvidia/nsight-compute")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        installed.sort();
        folders.extend(installed.into_iter().rev());
        let path = find_program(name, &folders)?;
        let mut command = Command::new(&path);
        command.arg("--version");
        let said = run_bounded(&mut command, VERSION_LIMIT, 16 * 1024).map(|output| output.stdout_text());
        Some(Self { version: version(&said.unwrap_or_default()), path })
    }
}

/// `Version 2025.3.0.0 (build 36273991) (public-release)`, in the middle of other lines.
fn version(said: &str) -> String {
    let line = said.lines().find_map(|line| line.trim().strip_prefix("Version "));
    line.and_then(|line| line.split_whitespace().next()).unwrap_or("of unknown version").to_owned()
}

/// How a tool is called.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) limit: Duration,
    /// The candidate leaves the GPU alone until `collect`: for tools that are started together.
    pub(super) waits: bool,
}

/// The candidate that runs under it.
pub(super) struct Solo<'a> {
    pub(super) spec: Value,
    /// Of the sandbox's children.
    pub(super) environment: BTreeMap<String, String>,
    pub(super) inputs: &'a InputSet,
    pub(super) input_bytes: usize,
    pub(super) weights: &'a Sealed,
}

/// What came of it. All texts were in hostile hands.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ended {
    pub(super) code: i64,
    pub(super) timed_out: bool,
    pub(super) seconds: f64,
    pub(super) log: String,
    pub(super) output: String,
    pub(super) status: Status,
    error: Option<String>,
}

/// What the candidate's process left behind.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) stage: String,
    pub(super) done: bool,
    pub(super) error: String,
    /// What each stage took, by the candidate's own account.
    pub(super) seconds: Value,
}

impl Ended {
    /// How far the candidate came, where it did not come to its end.
    pub(super) fn program(&self) -> String {
        match &self.status {
            Status { error, .. } if !error.is_empty() => error.clone(),
            Status { stage, done: false, .. } if !stage.is_empty() => {
                format!("it ended at `{stage}`: {}", first_error(&self.output))
            }
            _ => first_error(&self.output),
        }
    }
}

/// Code and resources of what was built.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Code {
    pub(super) tool: String,
    pub(super) files: Vec<CodeFile>,
    pub(super) triton: Vec<super::resources::TritonKernel>,
    /// Files with device code, read or not.
    pub(super) found: usize,
    error: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct CodeFile {
    pub(super) usage: String,
    pub(super) sass: String,
}

#[derive(Deserialize)]
struct Started {
    error: Option<String>,
}

/// A tool at work.
pub(super) struct Running {
    cell: Cell,
    limit: Duration,
}

impl Running {
    /// Starts it; a candidate that waits imports torch and does nothing else until `collect`.
    pub(super) fn start(sandbox: &mut Sandbox, how: &Call, solo: &Solo<'_>, referee: &mut Referee) -> Tried<Self> {
        if sandbox.report.level < SandboxLevel::Full {
            // Tools talk over network sockets, which nothing hostile gets outside of a network namespace of its own.
            let why = "the sandbox has no network of its own here, without which no tool that uses sockets is started; \
                       `kforge doctor` says what is missing";
            return Err(Failure::Denied(why.to_owned()));
        }
        let spec = json!({
            "role": "inspector",
            "tools": true,
            "output_bytes": ANSWER_BYTES,
            "tool": {
                "program": how.program,
                "arguments": how.arguments,
                "log_option": "--log-file",
                "environment": how.environment,
                "limit_s": how.limit.as_secs(),
                "waits": how.waits,
            },
            "solo": solo.spec,
        });
        let mut slots = Slots::plain((solo.input_bytes, ANSWER_BYTES))?;
        slots.lay_copy(referee, solo.inputs)?;
        let mut cell = Cell::spawn(sandbox, &spec, &solo.environment, slots, &[solo.weights.fd()])?;
        match ask::<Started>(&mut cell, sandbox, Look::Start, START_LIMIT)?.error {
            Some(reason) => Err(Failure::Denied(reason)),
            None => Ok(Self { cell, limit: how.limit }),
        }
    }

    /// Lets the candidate run, and waits for the end.
    pub(super) fn collect(mut self, sandbox: &mut Sandbox) -> Tried<Ended> {
        let ended: Ended = ask(&mut self.cell, sandbox, Look::Collect, self.limit + START_LIMIT)?;
        match ended.error {
            Some(reason) => Err(Failure::Denied(reason)),
            None => Ok(ended),
        }
    }
}

/// Which part of what was built is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Names and resources: a moment.
    Resources,
    /// The instructions.
    Sass,
}

/// Reads what was built, by a process that loads none of it.
pub(super) fn code(sandbox: &mut Sandbox, environment: &BTreeMap<String, String>, part: Part) -> Tried<Code> {
    let spec = json!({"role": "inspector", "output_bytes": ANSWER_BYTES});
    let mut cell = Cell::spawn(sandbox, &spec, environment, Slots::plain((4096, ANSWER_BYTES))?, &[])?;
    let look = if part == Part::Sass { Look::Sass } else { Look::Resources };
    let found: Code = ask(&mut cell, sandbox, look, CODE_LIMIT)?;
    match found.error {
        Some(reason) => Err(Failure::Denied(reason)),
        None => Ok(found),
    }
}

fn ask<T: DeserializeOwned>(cell: &mut Cell, sandbox: &mut Sandbox, look: Look, limit: Duration) -> Tried<T> {
    let answer = cell.ask(sandbox, op::Inspect(look), limit).because("the tool's process failed")?;
    let said = cell.slots.said(answer.length)?;
    Ok(serde_json::from_slice(&said).map_err(|error| format!("the tool's answer cannot be read: {error}"))?)
}

/// Of what a tool printed the line that says why it failed: the first one that sounds like it, else the first of all.
pub(super) fn first_error(output: &str) -> String {
    const SOUNDS: [&str; 10] = [
        "error",
        "cannot",
        "could not",
        "failed",
        "unable",
        "unrecognized",
        "unrecognised",
        "unknown",
        "invalid",
        "denied",
    ];
    // Python itself complains where the sandbox hides a file of the system's, and goes on.
    let mut lines = output.lines().map(str::trim);
    let mut told = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with("Error in sitecustomize") || line.starts_with("Error in usercustomize") {
            lines.next();
        } else if !line.is_empty() {
            told.push(line);
        }
    }
    let sounds = |line: &&&str| SOUNDS.iter().any(|word| line.to_lowercase().contains(word));
    let line = told.iter().find(sounds).or(told.first());
    line.map_or_else(|| "it said nothing".to_owned(), |line| quoted(line.trim_start_matches(['=', ' ']), 200))
}

/// Keeps what a tool said where a developer can find it: with `KFORGE_KEEP_PROFILES` set to a folder.
pub(super) fn keep_raw(name: &str, ended: &Ended) {
    let Some(folder) = std::env::var_os("KFORGE_KEEP_PROFILES").filter(|folder| !folder.is_empty()) else { return };
    let folder = Path::new(&folder);
    let text = format!(
        "code {} timed_out {} seconds {}\nstages {}\nstatus {:?}\n--- log\n{}\n--- output\n{}\n",
        ended.code, ended.timed_out, ended.seconds, ended.status.seconds, ended.status, ended.log, ended.output
    );
    let written =
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(folder.join(format!("{name}.txt")), text));
    if let Err(error) = written {
        tracing::warn!("what {name} said could not be kept: {error}");
    }
}

#[cfg(test)]
mod tests;
