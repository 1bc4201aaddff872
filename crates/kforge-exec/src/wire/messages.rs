//! Messages on trusted channels: what the zygote, a supervisor and the referee are asked for.

use crate::claims::Claim;
use kforge_types::{Contract, Kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What the zygote forks.
#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(crate) enum Fork<'a> {
    Referee {
        env: &'a BTreeMap<String, String>,
        python_path: &'a [String],
        cwd: &'a Path,
        threads: usize,
        place: &'a str,
    },
    Supervisor {
        policy: Policy<'a>,
    },
    Zygote {
        env: &'a BTreeMap<String, String>,
    },
}

/// What a sandbox enforces.
#[derive(Debug, Serialize)]
pub(crate) struct Policy<'a> {
    pub(crate) scratch: &'a Path,
    pub(crate) scratch_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) process_limit: u32,
    pub(crate) readable: &'a [PathBuf],
    pub(crate) writable: &'a [PathBuf],
    /// Filters of system calls, in base64.
    pub(crate) seccomp: Vec<String>,
    pub(crate) tool_seccomp: Vec<String>,
    pub(crate) namespaces: bool,
    /// The package of the harness that says which files its driver needs.
    pub(crate) device: &'a str,
}

/// What a supervisor does.
#[derive(Debug, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Order<'a> {
    Spawn { id: u64, spec: &'a Value, env: &'a BTreeMap<String, String> },
    Freeze,
    Thaw,
    Count,
    Clear { keep: &'a [u64] },
}

/// Which limit was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Limit {
    #[serde(rename = "process_limit")]
    Processes,
    #[serde(rename = "out_of_memory")]
    Memory,
    #[serde(rename = "disk_limit")]
    Disk,
}

impl Limit {
    /// In a verdict.
    pub(crate) fn told(self) -> (Kind, &'static str) {
        match self {
            Self::Processes => (Kind::ProcessLimit, "it started more processes than the limit; everything was killed"),
            Self::Disk => (Kind::DiskLimit, "it wrote more than its scratch folder may hold"),
            Self::Memory => (Kind::OutOfMemory, "it used more memory than the limit; everything was killed"),
        }
    }
}

/// What the referee is asked for.
#[derive(Debug, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Ask<'a> {
    Load {
        path: &'a Path,
    },
    Look {
        contract: &'a Contract,
    },
    Open {
        contract: &'a Contract,
        store: &'a Path,
        session_store: &'a Path,
        secret: &'a str,
        fresh: bool,
        reduced: bool,
    },
    Attach {
        places: usize,
        input_stride: usize,
    },
    Set {
        variant: usize,
        distribution: &'a str,
        number: usize,
    },
    Draw {
        distribution: &'a str,
        truths: &'a [bool],
    },
    CompareRow {
        calls: usize,
        with_baseline: bool,
    },
    Compare {
        id: &'a str,
        side: usize,
        remember: bool,
        again: bool,
    },
    // On a device, where the referee lays inputs and takes outputs itself.
    /// Slots for a cell; those of `gone` are nobody's any more.
    Lane {
        gone: &'a [u64],
    },
    Export {
        id: &'a str,
    },
    Lay {
        lane: u64,
        cold: bool,
        #[serde(flatten)]
        inputs: Inputs<'a>,
    },
    Shut {
        lane: u64,
        count: usize,
    },
    Reveal {
        lane: u64,
        cold: bool,
        #[serde(flatten)]
        inputs: Inputs<'a>,
    },
    Take {
        lane: u64,
        cell: u64,
        side: usize,
        variant: usize,
        calls: &'a [Vec<Claim>],
        segments: &'a [u64],
    },
    Stamp {
        lane: u64,
        fill: bool,
    },
    Hold {
        lane: u64,
    },
    Held {
        lane: u64,
    },
    Left {
        lane: u64,
    },
    Unchanged {
        lane: u64,
        #[serde(flatten)]
        inputs: Inputs<'a>,
    },
    Wipe {
        lane: u64,
    },
    Alive,
    Device,
}

/// A set of the store, or so many of those that were drawn last.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Inputs<'a> {
    Id(&'a str),
    Fresh(usize),
}

/// That it was done, or how a look at something came out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Done {
    pub(crate) done: bool,
}
