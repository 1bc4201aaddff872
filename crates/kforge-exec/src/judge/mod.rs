//! A session: one problem, a warm zygote, a referee, baselines; candidates are judged one after the other.

mod alone;
pub(crate) mod arm;
pub(crate) mod baseline;
mod bench;
mod beside;
mod blocks;
pub(crate) mod build;
mod clock;
mod compiled;
mod duel;
mod echo;
mod incumbents;
mod interpreted;
pub(crate) mod outcome;
mod provisional;
mod quiet;
mod redraws;
mod rows;
mod slot_pool;
mod slowest;
pub(crate) mod spec;
mod stage;
pub(crate) mod timing;
pub(crate) mod verify;
mod ways;

pub(crate) use crate::device::place;
use crate::{
    device::{
        self, Place,
        device_lock::DeviceLock,
        memory_reservation::{Lingering, Reservation, WHOLE},
    },
    error::{ExecError, Result},
    failure::{Failure, Tried},
    sandbox::{Folders, Limits, Sandbox},
    zygote::Zygote,
};
use arm::Arm;
use baseline::Baselines;
use bench::Bench;
pub use duel::Contender;
pub use incumbents::Incumbent;
use kforge_types::{Contract, EvalResult, Kind, SandboxLevel, SandboxReport, Target};
use outcome::Outcome;
use spec::Special;
use stage::Stage;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Which baselines are measured: each includes what the one before measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BaselineChoice {
    /// Without torch's compiler: quick, and named as such.
    Eager,
    /// And torch.compile of the quickest two.
    Compile,
    /// And max-autotune where it compiles within a minute.
    Auto,
    /// All of them, whatever they cost.
    All,
}

/// How long the whole of a device is waited for.
const PATIENCE: Duration = Duration::from_mins(10);

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
    /// Where its kernels run.
    pub place: Place,
    /// For what architecture kernels are compiled where nothing runs (`sm_90`).
    pub arch: String,
    /// Toolchain tables for `kforge_rt`, from the target's folder.
    pub toolchains: serde_json::Value,
    /// Flags over the problem's own contract.
    pub contract: Contract,
    /// Which baselines.
    pub baselines: BaselineChoice,
    /// Kernels of the user that are to be beaten too.
    pub incumbents: Vec<Incumbent>,
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
    /// How often a candidate is verified again on other draws of inputs, weights and limits.
    pub redraws: u32,
    /// Verify only.
    pub no_timing: bool,
    /// Refuse to time on a GPU that somebody else is using.
    pub require_idle: bool,
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
    pub(crate) bench: Bench,
    pub(crate) baselines: Baselines,
    /// Those of the options, once they were judged.
    incumbents: Vec<incumbents::Known>,
    pub(crate) profiles: crate::profile::Memory,
    /// Of opening it, for the first result.
    stages: Vec<(Stage, f64)>,
    /// What other sessions leave to this one of the device's memory. Given back last.
    reservation: Lingering,
}

impl Session {
    /// Starts Python, loads and examines the problem. On a device that others use as well it waits until there is memory.
    pub fn open(options: EvalOptions, problem: &Path, observer: &dyn Observer) -> Result<Self> {
        let mut reservation = None;
        match Self::open_in(&mut reservation, options.clone(), problem, observer) {
            Err(ExecError::NoRoom(text)) if has_company(reservation.as_ref())? => {
                drop(Lingering(reservation));
                Self::open_alone(options, problem, observer)?.ok_or(ExecError::NoRoom(text))
            }
            opened => opened,
        }
    }

    /// The same with nobody else of ours on the device; nothing where somebody who was there before stays for ten minutes.
    pub fn open_alone(options: EvalOptions, problem: &Path, observer: &dyn Observer) -> Result<Option<Self>> {
        let device = device::of(&options.place, options.threads)?;
        let Some(name) = device.reserved_as() else { return Self::open(options, problem, observer).map(Some) };
        let waiting = |who: &str| observer.stage(&device::waiting_for_memory(who));
        let mut reservation = Reservation::reserve(name, WHOLE, Some(PATIENCE), waiting)?;
        if reservation.is_none() {
            return Ok(None);
        }
        Self::open_in(&mut reservation, options, problem, observer).map(Some)
    }

    /// Whether others may have left too little of the device's memory to this session.
    pub fn has_company(&self) -> Result<bool> {
        has_company(self.reservation.0.as_ref())
    }

    /// Reserves as much as the problem seems to need, unless something is reserved already.
    fn open_in(
        reservation: &mut Option<Reservation>,
        options: EvalOptions,
        problem: &Path,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let (bench, stages) = Bench::open(reservation, options, problem, observer)?;
        Ok(Self {
            bench,
            baselines: Baselines::default(),
            incumbents: Vec::new(),
            profiles: crate::profile::Memory::default(),
            stages,
            reservation: Lingering(reservation.take()),
        })
    }

    /// Judges one candidate. `Err` means that our own machinery failed; everything a candidate does is a result.
    pub fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> Result<EvalResult> {
        self.know_incumbents(observer)?;
        let mut result = self.judge_alone(name, source, observer)?;
        self.hold_to_incumbents(source, &mut result, observer)?;
        Ok(result)
    }

    fn judge_alone(&mut self, name: &str, source: &str, observer: &dyn Observer) -> Result<EvalResult> {
        let mut outcome = Outcome::begin(self, name, source);
        for (stage, seconds) in self.stages.drain(..) {
            outcome.stage(stage, seconds);
        }
        let judged = match self.bench.options.place {
            Place::Interpreter => self.judge_interpreted(source, &mut outcome, observer),
            Place::Compiler => self.judge_compiled(source, &mut outcome, observer),
            _ => self.judge_measured(source, &mut outcome, observer),
        };
        outcome.record(judged)?;
        if matches!(outcome.verdict.kind, Some(Kind::Timeout | Kind::Crash | Kind::Launch | Kind::Exit)) {
            self.bench.device_recovered()?;
        }
        Ok(outcome.finish(self))
    }

    fn judge_measured(&mut self, source: &str, outcome: &mut Outcome, observer: &dyn Observer) -> Tried<()> {
        let crew = self.bench.crew();
        self.baselines.import_compiler(&mut self.bench)?;
        let (sandbox, checking) = self.pass_checks(source, &crew, outcome, observer)?;
        let sandbox = self.verify_on_other_draws(sandbox, source, outcome, observer)?;
        if self.bench.options.no_timing {
            return Ok(());
        }
        let _lock = self.have_baselines(checking, outcome, observer)?;
        let others = outcome.timed(Stage::Wait, |_| self.bench.wait_until_quiet(observer))?;
        observer.stage("timing");
        let begun = Instant::now();
        outcome.alone = self.baseline_alone(observer)?;
        let mut arm = self.timing_arm(sandbox, source, outcome)?;
        self.bench.device.begin_watch();
        let timed = self.time(&mut arm, outcome, observer);
        // How the machine was is told of one that is refused here, too.
        outcome.record(timed)?;
        self.bench.note_conditions(outcome);
        let Arm { mut sandbox, cell, .. } = arm;
        outcome.log = sandbox.log.text();
        self.bench.end_cell(&mut sandbox, cell)?;
        self.settle(others, outcome, observer)?;
        outcome.stage(Stage::Time, begun.elapsed().as_secs_f64());
        Ok(())
    }

    /// Builds a candidate and holds it against everything but the clock. Its sandbox, with what was built, and the shared
    /// lock that it still has.
    fn pass_checks(
        &mut self,
        source: &str,
        crew: &[Special<'static>],
        outcome: &mut Outcome,
        observer: &dyn Observer,
    ) -> Tried<(Sandbox, DeviceLock)> {
        // A compiler at work disturbs whoever times on the CPU, and nobody who times elsewhere.
        let disturbs = self.bench.device.policy().is_the_processors;
        let building = if disturbs { Some(self.bench.lock_shared(observer)?) } else { None };
        let mut arm = self.bench.build(source, crew, outcome, observer)?;
        let checking = building.map_or_else(|| self.bench.lock_shared(observer), Ok)?;
        observer.stage("verifying");
        let verified = outcome.timed(Stage::Verify, |outcome| self.verify(&mut arm, outcome));
        outcome.log = arm.sandbox.log.text();
        if let Err(Failure::Refused(refusal)) = verified {
            let Arm { mut sandbox, cell, .. } = arm;
            self.bench.end_cell(&mut sandbox, cell)?;
            return Err(Failure::Refused(refusal));
        }
        verified?;
        observer.stage("checking that the candidate's own kernels do the work");
        let sandbox = outcome.timed(Stage::Audit, |outcome| self.audit(arm, source, outcome))?;
        Ok((sandbox, checking))
    }

    /// The fastest baseline waits, every set is made, and the device is ours alone.
    fn have_baselines(
        &mut self,
        checking: DeviceLock,
        outcome: &mut Outcome,
        observer: &dyn Observer,
    ) -> Result<DeviceLock> {
        let begun = Instant::now();
        self.baselines.prepare(&mut self.bench, checking, observer)?;
        let started = begun.elapsed();
        let lock = self.bench.lock_for_timing(observer)?;
        let begun = Instant::now();
        self.baselines.ensure(&mut self.bench, observer)?;
        self.bench.slot_pool.keep_one();
        outcome.stage(Stage::Baselines, (started + begun.elapsed()).as_secs_f64());
        let begun = Instant::now();
        self.bench.make_sets()?;
        outcome.stage(Stage::Truths, begun.elapsed().as_secs_f64());
        Ok(lock)
    }

    /// Does something with a second referee for the same problem, at its own sizes or at smaller ones.
    pub(crate) fn at_other_sizes<T, E: From<ExecError>>(
        &mut self,
        reduced: bool,
        act: impl FnOnce(&mut Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.with_another_referee(reduced, self.bench.options.fresh, act)
    }

    /// The same; a `fresh` one has secrets of its own, and so other inputs, weights and limits.
    fn with_another_referee<T, E: From<ExecError>>(
        &mut self,
        reduced: bool,
        fresh: bool,
        act: impl FnOnce(&mut Self) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let kept = self.bench.open_again(reduced, fresh)?;
        let made = act(self);
        self.bench.put_back(kept);
        made
    }

    /// How long one ordinary call may take: generous against eager, never endless.
    pub(crate) fn call_limit(&self) -> Duration {
        let usual = Duration::from_secs_f64(self.baselines.slowest_us().unwrap_or(0.0) * 200.0 / 1e6);
        usual.clamp(Duration::from_secs(20).min(self.bench.options.timeout), self.bench.options.timeout)
    }
}

fn has_company(reservation: Option<&Reservation>) -> Result<bool> {
    reservation.map_or(Ok(false), Reservation::has_company)
}

/// Tries the sandbox without torch: what `doctor` and `--require-sandbox` go by.
pub fn probe_sandbox(python: &Path, cache: &Path) -> Result<SandboxReport> {
    let harness = crate::harness::unpack(cache)?;
    let mut zygote = Zygote::start(python, &harness, 1, false, &Place::Cpu)?;
    let root = bench::scratch_root();
    let sandbox = Sandbox::enter(&mut zygote, &root, &Limits::default(), &Folders::default(), true)?;
    Ok(sandbox.report.clone())
}
