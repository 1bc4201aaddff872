//! What every judgement on a problem needs, and none of them changes.

use super::{
    EvalOptions, Observer, Place,
    arm::{Arm, Given, How, Row, Sample, Side},
    baseline::FORM,
    echo::Echo,
    outcome::Outcome,
    provisional::Provisional,
    slot_pool::SlotPool,
    spec::{Role, SpecMaker},
    stage::Stage,
};
use crate::{
    cell::Cell,
    compilers::Compilers,
    device::{self, Device, Examined, WAITING, Waiting, device_lock::DeviceLock, memory_reservation::Reservation},
    error::{ExecError, Result},
    failure::Tried,
    machine,
    referee::{InputSet, OpenRequest, Opened, Referee},
    sandbox::{Folders, Limits, Sandbox},
    wire::op::Audited,
    zygote::Zygote,
};
use kforge_types::{DeviceInfo, Versions};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The problem with its referee, the processes that others are forked from, and the device.
pub(crate) struct Bench {
    pub(crate) options: EvalOptions,
    pub(super) problem_file: PathBuf,
    pub(super) problem_source: String,
    pub(super) zygote: Zygote,
    pub(crate) referee: Referee,
    pub(crate) opened: Opened,
    pub(super) echo: Echo,
    pub(crate) device: Box<dyn Device>,
    /// What the device knows of the problem.
    pub(crate) examined: Examined,
    pub(super) slot_pool: SlotPool,
    /// Of the device, for results.
    pub(crate) device_info: DeviceInfo,
    pub(crate) versions: Versions,
}

/// What belongs to one referee.
pub(super) struct Aside {
    referee: Referee,
    opened: Opened,
    examined: Examined,
    /// They have its sizes and places.
    slot_pool: SlotPool,
}

impl Bench {
    /// With what opening took. Reserves as much of the device's memory as the problem seems to need, unless some is already.
    pub(super) fn open(
        reservation: &mut Option<Reservation>,
        options: EvalOptions,
        problem: &Path,
        observer: &dyn Observer,
    ) -> Result<(Self, Vec<(Stage, f64)>)> {
        let begun = Instant::now();
        observer.stage("starting Python with torch");
        let problem_source = std::fs::read_to_string(problem)
            .map_err(|error| ExecError::Problem(format!("cannot read the problem {}: {error}", problem.display())))?;
        let harness = crate::harness::unpack(&options.cache)?;
        let mut zygote = Zygote::start(&options.python, &harness, options.threads, true, &options.place)?;
        let mut device = device::of(&options.place, options.threads)?;
        device.check(&zygote.ready, &options.python)?;
        if options.target.model == "cute" && !zygote.ready.cutlass {
            return Err(ExecError::Problem(format!(
                "{} has no CuTe DSL, which {} needs: install nvidia-cutlass-dsl there, or name another Python with --python",
                options.python.display(),
                options.target
            )));
        }
        let started = begun.elapsed().as_secs_f64();
        observer.stage("examining the problem");
        let request = OpenRequest {
            path: problem,
            contract: &options.contract,
            store: &options.cache.join("truths"),
            fresh: options.fresh,
            // An interpreter is slow, and where nothing is run sizes do not matter.
            reduced: !options.place.is_timed(),
            threads: options.threads,
            limit_s: options.problem_timeout.as_secs(),
            place: &options.place,
            device: &*device,
        };
        let mut waiting = Waiting { device: &*device, observer, waited: Duration::ZERO };
        let (loaded, lock) = waiting.load(reservation, &mut zygote, &request)?;
        let waited = waiting.waited;
        let (mut referee, opened) = Referee::open(loaded, &request)?;
        let examined = device.examine(&mut referee, &opened)?;
        drop(lock);
        let device_info = match &options.place {
            Place::Interpreter => absent(&options, "run by Triton's interpreter on the CPU, compiled"),
            Place::Compiler => absent(&options, "nothing is run; compiled"),
            _ => device.info(options.threads),
        };
        let versions = Versions {
            kforge: env!("CARGO_PKG_VERSION").to_owned(),
            python: zygote.ready.python.clone(),
            torch: zygote.ready.torch.clone(),
            compiler: compiler_version(),
            os: machine::os(),
            torch_overrides: zygote.ready.overrides.clone(),
        };
        let slot_pool = SlotPool::new(&options, &opened, &mut referee, &*device)?;
        let waited = waited.as_secs_f64();
        let examining = begun.elapsed().as_secs_f64() - started - waited;
        let stages = vec![(Stage::Start, started), (Stage::Wait, waited), (Stage::Problem, examining)];
        let bench = Self {
            options,
            problem_file: problem.to_owned(),
            problem_source,
            zygote,
            referee,
            opened,
            echo: Echo::new()?,
            device,
            examined,
            slot_pool,
            device_info,
            versions,
        };
        Ok((bench, stages))
    }

    /// A sandbox for hostile code, at the demanded level or not at all; forked from another zygote where one is given.
    pub(super) fn enter(&mut self, role: Role, zygote: Option<&mut Zygote>) -> Result<Sandbox> {
        let folders = match role {
            Role::Candidate => Folders { readable: toolkits(), writable: Vec::new() },
            Role::Baseline => {
                Folders { readable: self.opened.search_path.clone(), writable: vec![self.inductor_cache()?] }
            }
        };
        let set_bytes = (self.opened.input_bytes + self.opened.output_bytes) as u64;
        let mut limits = Limits { memory_bytes: self.options.memory_bytes + 8 * set_bytes, ..Limits::default() };
        self.device.allow(&mut limits);
        let zygote = zygote.unwrap_or(&mut self.zygote);
        let mut sandbox = Sandbox::enter(zygote, &scratch_root(), &limits, &folders, self.options.namespaces)?;
        if sandbox.report.level < self.options.require_sandbox {
            return Err(ExecError::Sandbox(sandbox.report));
        }
        if role == Role::Candidate {
            let EvalOptions { python, toolchains, .. } = &self.options;
            sandbox.compilers = Some(Compilers { python: python.clone(), toolchains: toolchains.clone() });
        }
        Ok(sandbox)
    }

    /// Puts another referee in the place of this one, which is returned. A `fresh` one has secrets of its own, and so other
    /// inputs, weights and limits.
    pub(super) fn open_again(&mut self, reduced: bool, fresh: bool) -> Result<Aside> {
        let request = OpenRequest {
            path: &self.problem_file,
            contract: &self.options.contract,
            store: &self.options.cache.join("truths"),
            fresh,
            reduced,
            threads: self.options.threads,
            limit_s: self.options.problem_timeout.as_secs(),
            place: &self.options.place,
            device: &*self.device,
        };
        let loaded = Referee::load(&mut self.zygote, &request)?;
        let (mut referee, opened) = Referee::open(loaded, &request)?;
        let examined = self.device.examine(&mut referee, &opened)?;
        let slot_pool = SlotPool::new(&self.options, &opened, &mut referee, &*self.device)?;
        Ok(self.put_back(Aside { referee, opened, examined, slot_pool }))
    }

    /// Puts a referee back that was set aside; returns the one in its place.
    pub(super) fn put_back(&mut self, aside: Aside) -> Aside {
        Aside {
            referee: std::mem::replace(&mut self.referee, aside.referee),
            opened: std::mem::replace(&mut self.opened, aside.opened),
            examined: std::mem::replace(&mut self.examined, aside.examined),
            slot_pool: std::mem::replace(&mut self.slot_pool, aside.slot_pool),
        }
    }

    /// One call on a set of the store, compared.
    pub(crate) fn call(&mut self, arm: &mut Arm, set: &InputSet, how: How) -> Tried<Sample> {
        arm.call(&mut *self.device, &mut self.referee, set, how)
    }

    /// Calls one after the other, which nobody has compared.
    pub(crate) fn row(&mut self, arm: &mut Arm, given: Given<'_>, how: How) -> Tried<Row> {
        arm.row(&mut *self.device, &mut self.referee, given, how)
    }

    /// From now on the results of this arm's last row stay, and must stay as they are.
    pub(crate) fn hold(&mut self, arm: &mut Arm, limit: Duration) -> Tried<()> {
        arm.hold(&mut *self.device, &mut self.referee, limit)
    }

    /// Whether what is held was never written to again.
    pub(super) fn held_are_intact(&mut self, arm: &mut Arm) -> Result<bool> {
        self.device.held_are_intact(arm, &mut self.referee)
    }

    /// Lets an arm run for a while: it must not write to results that it has handed over.
    pub(super) fn stays_as_left(&mut self, arm: &mut Arm, pause: Duration) -> Tried<()> {
        arm.stays_as_left(&mut *self.device, &mut self.referee, pause)
    }

    /// Inputs for calls that nobody times.
    pub(crate) fn lay(&mut self, arm: &mut Arm, set: &InputSet) -> Result<()> {
        self.device.lay(arm, &mut self.referee, set)
    }

    /// One call under the eyes of the audit.
    pub(super) fn audited(&mut self, arm: &mut Arm, set: &InputSet, limit: Duration) -> Tried<Audited> {
        arm.audited(&mut *self.device, &mut self.referee, set, limit)
    }

    pub(crate) fn arm(&self, sandbox: Sandbox, cell: Cell, side: Side) -> Result<Arm> {
        Arm::new(sandbox, cell, side, &self.opened, self.device.policy().queues)
    }

    /// Nobody else of ours times on this device meanwhile, and strangers are named, or waited for.
    pub(crate) fn lock_for_timing(&mut self, observer: &dyn Observer) -> Result<DeviceLock> {
        let lock = DeviceLock::take(self.device.lock_name(), || observer.stage(WAITING))?;
        if self.options.require_idle {
            self.device.wait_until_idle(observer)?;
        }
        Ok(lock)
    }

    /// While nobody times.
    pub(crate) fn lock_shared(&self, observer: &dyn Observer) -> Result<DeviceLock> {
        DeviceLock::share(self.device.lock_name(), || observer.stage(WAITING))
    }

    /// The same, if nobody times just now.
    pub(super) fn lock_at_once(&self) -> Result<Option<DeviceLock>> {
        DeviceLock::try_share(self.device.lock_name())
    }

    /// What the device was doing while something was timed, as checks that people can read.
    pub(super) fn note_conditions(&mut self, outcome: &mut Outcome) {
        let seen = self.device.end_watch();
        outcome.checks.extend(seen.checks);
        if seen.shared {
            outcome.provisional.insert(Provisional::DeviceShared);
        }
    }

    /// After a candidate was killed.
    pub(super) fn device_recovered(&mut self) -> Result<()> {
        self.device.recover(&mut self.referee)
    }

    pub(crate) fn spec_maker(&self) -> SpecMaker<'_> {
        SpecMaker { options: &self.options, opened: &self.opened, device: &*self.device, examined: &self.examined }
    }

    /// Only baselines write here, so what they find here is their own.
    pub(super) fn inductor_cache(&self) -> Result<PathBuf> {
        let all = self.options.cache.join("inductor");
        let form = FORM.to_string();
        if !all.join(&form).exists() {
            crate::cache::forget_all_but(&all, &form);
        }
        let folder = all.join(form).join(&self.opened.key);
        std::fs::create_dir_all(&folder).map_err(ExecError::io(format!("cannot create {}", folder.display())))?;
        Ok(folder)
    }
}

/// The CPU, with a word on the device that is not here.
fn absent(options: &EvalOptions, what: &str) -> DeviceInfo {
    let note = format!("no GPU: {what} ahead of time for {}", options.arch);
    DeviceInfo { note, ..machine::cpu(options.threads) }
}

/// Where the user says that CUDA lies: a compiler there must be readable for those who build.
fn toolkits() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    // nvcc lies in `bin` of its toolkit.
    let nvcc = std::env::var_os("KFORGE_NVCC").map(PathBuf::from);
    let beside = nvcc.as_deref().and_then(Path::parent).and_then(Path::parent).map(Path::to_path_buf);
    named.chain(beside).filter(|path| path.is_absolute() && path.parent().is_some()).collect()
}

/// Scratch folders lie where temporary files belong; each is removed with its sandbox.
pub(super) fn scratch_root() -> PathBuf {
    std::env::temp_dir().join(format!("kforge-{}", rustix::process::getuid().as_raw()))
}

fn compiler_version() -> String {
    let mut command = std::process::Command::new("c++");
    command.arg("--version");
    crate::process::run_bounded(&mut command, Duration::from_secs(5), 4096)
        .map(|output| String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
        .unwrap_or_default()
}
