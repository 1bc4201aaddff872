//! The options of an evaluation that travel. Python, cache and toolchains are the worker's own.

use crate::{
    config::{Baselines, Evaluation, Precision as Lowest},
    target,
};
use anyhow::ensure;
use kforge_exec::{BaselineChoice, EvalOptions, Incumbent, Place, machine, nvidia};
use kforge_types::{Contract, Math, Operators, Params, Precision, Redraw, SandboxLevel, Target};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

/// Nothing here takes longer than a day.
const MOST_SECONDS: f64 = 86400.0;

/// How a candidate is judged, wherever that is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct JobOptions {
    pub(crate) target: Target,
    /// The target's own where nothing is said.
    pub(crate) arch: Option<String>,
    pub(crate) contract: Contract,
    pub(crate) baselines: Baselines,
    /// Kernels of the user that must be beaten too.
    pub(crate) incumbents: Vec<Incumbent>,
    /// All cores of the worker where nothing is said.
    pub(crate) threads: Option<usize>,
    pub(crate) timeout_s: f64,
    pub(crate) problem_timeout_s: f64,
    pub(crate) time_budget_s: f64,
    pub(crate) fresh: bool,
    pub(crate) kept_baselines: bool,
    pub(crate) redraws: u32,
    pub(crate) no_timing: bool,
    pub(crate) require_idle: bool,
    pub(crate) require_sandbox: SandboxLevel,
    pub(crate) namespaces: bool,
    pub(crate) memory_gib: f64,
}

/// What an evaluation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A verdict and times.
    Judge,
    /// A verdict, nothing is timed.
    Verify,
    /// Where time goes; no baseline is needed.
    Profile,
}

/// Examining a problem may take this long, however short the other limits are.
const LEAST_PROBLEM_TIMEOUT: Duration = Duration::from_mins(2);

/// What a machine that evaluates has.
#[derive(Debug, Clone)]
pub(crate) struct Here {
    /// The interpreter with torch.
    pub(crate) python: PathBuf,
    /// kforge's cache folder.
    pub(crate) cache: PathBuf,
    /// Which of its GPUs, counted from 0; the first one where nothing is said.
    pub(crate) device: Option<usize>,
}

impl JobOptions {
    /// What the settings say. Every setting is named here: a new one does not compile before its place is known.
    pub(crate) fn of(settings: &Evaluation, target: &Target, incumbents: Vec<Incumbent>, purpose: Purpose) -> Self {
        let Evaluation {
            baselines,
            timeout,
            time_budget,
            memory,
            redraws,
            require_sandbox,
            require_idle,
            fresh,
            // The contract has these.
            fast_math: _,
            params_per_call: _,
            given_inputs: _,
            deterministic: _,
            own_operators: _,
            precision: _,
            no_namespaces,
            arch,
            threads,
            problem_timeout,
            // Who evaluates, on which device, and how long that is waited for is nothing that travels.
            executor: _,
            executor_timeout: _,
            device: _,
            // Already chosen: what is set is only one of the ways to it.
            target: _,
        } = settings.clone();
        let profiling = purpose == Purpose::Profile;
        let problem_timeout = problem_timeout.map_or(timeout.0.max(LEAST_PROBLEM_TIMEOUT), |span| span.0);
        Self {
            target: target.clone(),
            arch,
            contract: contract(settings),
            baselines: if profiling { Baselines::Eager } else { baselines },
            incumbents,
            threads: threads.map(std::num::NonZero::get),
            timeout_s: timeout.0.as_secs_f64(),
            problem_timeout_s: problem_timeout.as_secs_f64(),
            time_budget_s: time_budget.0.as_secs_f64(),
            fresh,
            kept_baselines: profiling || !fresh,
            redraws,
            no_timing: purpose != Purpose::Judge,
            require_idle,
            require_sandbox: require_sandbox.into(),
            namespaces: !no_namespaces,
            memory_gib: memory.0,
        }
    }

    /// The same on this machine.
    pub(crate) fn here(&self, here: &Here) -> anyhow::Result<EvalOptions> {
        let pack = target::find(&self.target)?;
        let seconds = [self.timeout_s, self.problem_timeout_s, self.time_budget_s];
        let sane = |value: &f64| *value > 0.0 && *value <= MOST_SECONDS;
        ensure!(seconds.iter().all(sane), "time limits must be above 0 s and at most a day");
        ensure!(self.memory_gib > 0.0 && self.memory_gib < 1e6, "the memory limit must be above 0 GiB");
        let (place, own_arch) = place(&pack, here.device)?;
        Ok(EvalOptions {
            python: here.python.clone(),
            cache: here.cache.clone(),
            target: self.target.clone(),
            place,
            arch: self.arch.clone().unwrap_or(own_arch),
            toolchains: serde_json::to_value(&pack.toolchain)?,
            contract: self.contract.clone(),
            baselines: match self.baselines {
                Baselines::Auto => BaselineChoice::Auto,
                Baselines::All => BaselineChoice::All,
                Baselines::Compile => BaselineChoice::Compile,
                Baselines::Eager => BaselineChoice::Eager,
            },
            incumbents: self.incumbents.clone(),
            threads: self.threads.unwrap_or_else(machine::default_threads).max(1),
            timeout: Duration::from_secs_f64(self.timeout_s),
            problem_timeout: Duration::from_secs_f64(self.problem_timeout_s.max(1.0)),
            time_budget: Duration::from_secs_f64(self.time_budget_s),
            fresh: self.fresh,
            kept_baselines: self.kept_baselines,
            redraws: self.redraws,
            no_timing: self.no_timing,
            require_idle: self.require_idle,
            require_sandbox: self.require_sandbox,
            namespaces: self.namespaces,
            memory_bytes: (self.memory_gib.max(0.5) * f64::from(1 << 30)) as u64,
        })
    }
}

/// What the user declares over the problem's own contract.
fn contract(settings: &Evaluation) -> Contract {
    let (mul, acc) = match settings.precision {
        None => (None, None),
        Some(Lowest::Strict) => (Some(Precision::Fp32), Some(Precision::Fp32)),
        Some(Lowest::Tf32) => (Some(Precision::Tf32), Some(Precision::Fp32)),
        Some(Lowest::Mixed) => (Some(Precision::Bf16), Some(Precision::Fp32)),
    };
    Contract {
        mul,
        acc,
        math: settings.fast_math.then_some(Math::Fast),
        params: settings.params_per_call.then_some(Params::PerCall),
        inputs: settings.given_inputs.then_some(Redraw::Given),
        deterministic: settings.deterministic.then_some(true),
        operators: settings.own_operators.then_some(Operators::Own),
        ..Contract::default()
    }
}

/// Where a target's kernels run on this machine, and for what architecture they are compiled.
pub(crate) fn place(pack: &target::TargetPack, device: Option<usize>) -> anyhow::Result<(Place, String)> {
    if pack.device != "cuda" {
        return Ok((Place::Cpu, pack.default_arch.clone()));
    }
    let found = nvidia::gpus();
    let number = device.unwrap_or(0);
    if let Some(gpu) = found.as_ref().ok().and_then(|gpus| gpus.get(number)) {
        return Ok((Place::Gpu { name: gpu.uuid.clone() }, gpu.arch()));
    }
    if device.is_some() {
        let why = match found {
            Ok(gpus) => format!("{} GPUs are visible", gpus.len()),
            Err(reason) => reason,
        };
        anyhow::bail!("there is no GPU {number}: {why}; see `kforge doctor`");
    }
    let without = if pack.name.model == "triton" { Place::Interpreter } else { Place::Compiler };
    Ok((without, pack.default_arch.clone()))
}
