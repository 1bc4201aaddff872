//! A session: one problem, a warm zygote, a referee, baselines; candidates are judged one after the other.

pub(crate) mod arm;
pub(crate) mod baseline;
mod clock;
mod interpreted;
mod lanes;
pub(crate) mod outcome;
pub(crate) mod spec;
pub(crate) mod timing;
pub(crate) mod verify;

use crate::{
    digest::Key,
    error::{ExecError, Result},
    evict::Evictor,
    machine,
    referee::{OpenRequest, Opened, Referee},
    sandbox::{Folders, Limits, Sandbox},
    zygote::Zygote,
};
use baseline::Baselines;
use kforge_types::{Contract, DeviceInfo, EvalResult, SandboxLevel, SandboxReport, Target, Versions};
use lanes::Lanes;
use outcome::Outcome;
use spec::{Role, SpecMaker};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Which baselines are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaselineChoice {
    /// Eager, compile, and max-autotune where it compiles within a minute.
    Auto,
    /// All three, whatever they cost.
    All,
    /// Eager only: quick, and named as such.
    Eager,
}

/// How candidates are judged.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct EvalOptions {
    /// The interpreter with torch.
    pub python: PathBuf,
    /// kforge's cache folder.
    pub cache: PathBuf,
    /// Accelerator and programming model.
    pub target: Target,
    /// For what architecture kernels are compiled where nothing runs (`sm_90`).
    pub arch: String,
    /// Toolchain tables for `kforge_rt`, from the target's folder.
    pub toolchains: serde_json::Value,
    /// Flags over the problem's own contract.
    pub contract: Contract,
    /// Which baselines.
    pub baselines: BaselineChoice,
    /// Threads of every arm.
    pub threads: usize,
    /// Seconds for import and build, construction, and first calls, each.
    pub timeout: Duration,
    /// Seconds for examining the problem.
    pub problem_timeout: Duration,
    /// Seconds of timed blocks, about.
    pub time_budget: Duration,
    /// New secret seeds and truths instead of kept ones.
    pub fresh: bool,
    /// Baselines' times may come from the cache; the fastest is measured beside the candidate all the same.
    pub kept_baselines: bool,
    /// Verify only.
    pub no_timing: bool,
    /// Refuse a sandbox below this level.
    pub require_sandbox: SandboxLevel,
    /// Whether namespaces are tried at all.
    pub namespaces: bool,
    /// Memory of one candidate's processes together.
    pub memory_bytes: u64,
}

/// Told what is going on, for people who wait.
pub trait Observer {
    /// A stage began.
    fn stage(&self, text: &str);
}

/// A problem that is open for candidates.
pub struct Session {
    pub(crate) options: EvalOptions,
    problem_file: PathBuf,
    problem_source: String,
    zygote: Zygote,
    pub(crate) referee: Referee,
    pub(crate) opened: Opened,
    baselines: Baselines,
    pub(crate) evictor: Evictor,
    pub(crate) lanes: Lanes,
    key: Key,
    /// Whether the candidate at hand starts threads of its own.
    own_threads: bool,
    /// Distinct Triton launches of the candidate at hand.
    launches: u64,
    pub(crate) device: DeviceInfo,
    pub(crate) versions: Versions,
    stages: Vec<(&'static str, f64)>,
}

impl Session {
    /// Starts Python, loads and examines the problem.
    pub fn open(options: EvalOptions, problem: &Path, observer: &dyn Observer) -> Result<Self> {
        let begun = Instant::now();
        observer.stage("starting Python with torch");
        let problem_source = std::fs::read_to_string(problem)
            .map_err(|error| ExecError::Problem(format!("cannot read the problem {}: {error}", problem.display())))?;
        let harness = crate::harness::unpack(&options.cache)?;
        let mut zygote = Zygote::start(&options.python, &harness, options.threads, true)?;
        let started = begun.elapsed().as_secs_f64();
        observer.stage("examining the problem");
        let request = OpenRequest {
            path: problem,
            contract: &options.contract,
            store: &options.cache.join("truths"),
            fresh: options.fresh,
            reduced: options.is_triton(),
            threads: options.threads,
            limit_s: options.problem_timeout.as_secs(),
        };
        let (referee, opened) = Referee::open(&mut zygote, &request)?;
        let mut device = machine::cpu(options.threads);
        if options.is_triton() {
            device.note =
                format!("no GPU: run by Triton's interpreter on the CPU, compiled ahead of time for {}", options.arch);
        }
        let versions = Versions {
            kforge: env!("CARGO_PKG_VERSION").to_owned(),
            python: zygote.ready.python.clone(),
            torch: zygote.ready.torch.clone(),
            compiler: compiler_version(),
            os: machine::os(),
        };
        let lanes = Lanes::new(&options, &opened)?;
        let stages = vec![("start", started), ("problem", begun.elapsed().as_secs_f64() - started)];
        Ok(Self {
            evictor: Evictor::new(device.last_level_cache, options.threads),
            options,
            problem_file: problem.to_owned(),
            problem_source,
            zygote,
            referee,
            opened,
            baselines: Baselines::default(),
            lanes,
            key: Key::draw()?,
            own_threads: false,
            launches: 0,
            device,
            versions,
            stages,
        })
    }

    /// Judges one candidate. `Err` means that our own machinery failed; everything a candidate does is a result.
    pub fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> Result<EvalResult> {
        let mut outcome = Outcome::begin(self, name, source);
        for (stage, seconds) in self.stages.drain(..) {
            outcome.stage(stage, seconds);
        }
        let judged = if self.options.is_triton() {
            self.judge_interpreted(source, &mut outcome, observer)
        } else {
            self.judge_measured(source, &mut outcome, observer)
        };
        judged?;
        Ok(outcome.finish(self))
    }

    fn judge_measured(&mut self, source: &str, outcome: &mut Outcome, observer: &dyn Observer) -> Result<()> {
        let Some(mut arm) = self.build(source, outcome, observer)? else { return Ok(()) };
        observer.stage("verifying");
        let begun = Instant::now();
        let verified = self.verify(&mut arm, outcome)?;
        outcome.stage("verify", begun.elapsed().as_secs_f64());
        if verified {
            let begun = Instant::now();
            observer.stage("auditing who computes");
            let audited = self.audit(&mut arm, source, outcome)?;
            outcome.stage("audit", begun.elapsed().as_secs_f64());
            if audited && !self.options.no_timing {
                let begun = Instant::now();
                self.ensure_baselines(observer)?;
                self.lanes.keep_one();
                outcome.stage("baselines", begun.elapsed().as_secs_f64());
                let begun = Instant::now();
                self.make_sets()?;
                outcome.stage("truths", begun.elapsed().as_secs_f64());
                observer.stage("timing");
                let begun = Instant::now();
                let Some(fresh) = self.timing_arm(arm, source, outcome)? else { return Ok(()) };
                arm = fresh;
                self.time(&mut arm, outcome)?;
                outcome.stage("time", begun.elapsed().as_secs_f64());
                outcome.log = arm.sandbox.log.text();
                return self.lanes.give_back(arm);
            }
        }
        outcome.log = arm.sandbox.log.text();
        Ok(())
    }

    /// A sandbox for hostile code, at the demanded level or not at all.
    fn enter(&mut self, role: Role) -> Result<Sandbox> {
        let folders = match role {
            Role::Candidate => Folders::default(),
            Role::Baseline => {
                Folders { readable: self.opened.search_path.clone(), writable: vec![self.inductor_cache()?] }
            }
        };
        let set_bytes = (self.opened.input_bytes + self.opened.output_bytes) as u64;
        let limits = Limits { memory_bytes: self.options.memory_bytes + 8 * set_bytes, ..Limits::default() };
        let root = scratch_root();
        let sandbox = Sandbox::enter(&mut self.zygote, &root, &limits, &folders, self.options.namespaces)?;
        if sandbox.report.level < self.options.require_sandbox {
            return Err(ExecError::Sandbox(sandbox.report));
        }
        Ok(sandbox)
    }

    /// A second referee for the same problem, at its own sizes or at smaller ones.
    pub(crate) fn open_again(&mut self, reduced: bool) -> Result<(Referee, Opened)> {
        let request = OpenRequest {
            path: &self.problem_file,
            contract: &self.options.contract,
            store: &self.options.cache.join("truths"),
            fresh: self.options.fresh,
            reduced,
            threads: self.options.threads,
            limit_s: self.options.problem_timeout.as_secs(),
        };
        Referee::open(&mut self.zygote, &request)
    }

    pub(crate) fn spec_maker(&self) -> SpecMaker<'_> {
        SpecMaker { options: &self.options, opened: &self.opened, store: self.referee.store() }
    }

    /// Only baselines write here, so what they find here is their own.
    fn inductor_cache(&self) -> Result<PathBuf> {
        let folder = self.options.cache.join("inductor").join(&self.opened.key);
        std::fs::create_dir_all(&folder).map_err(ExecError::io(format!("cannot create {}", folder.display())))?;
        Ok(folder)
    }

    /// How long one ordinary call may take: generous against eager, never endless.
    pub(crate) fn call_limit(&self) -> Duration {
        let usual = Duration::from_secs_f64(self.baselines.slowest_us().unwrap_or(0.0) * 200.0 / 1e6);
        usual.clamp(Duration::from_secs(20).min(self.options.timeout), self.options.timeout)
    }
}

impl EvalOptions {
    pub(crate) fn is_triton(&self) -> bool {
        self.target.model == "triton"
    }
}

/// Tries the sandbox without torch: what `doctor` and `--require-sandbox` go by.
pub fn probe_sandbox(python: &Path, cache: &Path) -> Result<SandboxReport> {
    let harness = crate::harness::unpack(cache)?;
    let mut zygote = Zygote::start(python, &harness, 1, false)?;
    let root = scratch_root();
    let sandbox = Sandbox::enter(&mut zygote, &root, &Limits::default(), &Folders::default(), true)?;
    Ok(sandbox.report.clone())
}

/// Scratch folders lie where temporary files belong; each is removed with its sandbox.
fn scratch_root() -> PathBuf {
    std::env::temp_dir().join(format!("kforge-{}", rustix::process::getuid().as_raw()))
}

fn compiler_version() -> String {
    let mut command = std::process::Command::new("c++");
    command.arg("--version");
    crate::process::run_bounded(&mut command, Duration::from_secs(5), 4096)
        .map(|output| String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
        .unwrap_or_default()
}
