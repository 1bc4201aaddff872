//! A session: one problem, a warm zygote, a referee, baselines; candidates are judged one after the other.

pub(crate) mod arm;
pub(crate) mod baseline;
mod beside;
mod blocks;
mod clock;
mod compiled;
pub(crate) mod gpu;
mod interpreted;
mod lanes;
pub(crate) mod outcome;
pub(crate) mod place;
mod queued;
mod rows;
pub(crate) mod spec;
pub(crate) mod timing;
pub(crate) mod verify;

use crate::{
    cell::Cell,
    compilers::Compilers,
    digest::Key,
    error::{ExecError, Result},
    evict::Evictor,
    machine,
    nvidia::Watch,
    referee::{Loaded, OpenRequest, Opened, Referee},
    room::{LEAST, Lingering, Room, WHOLE},
    sandbox::{Folders, Limits, Sandbox},
    turn::Turn,
    zygote::Zygote,
};
use arm::Arm;
use baseline::Baselines;
use gpu::Gpu;
use kforge_types::{Contract, DeviceInfo, EvalResult, Kind, SandboxLevel, SandboxReport, Target, Versions};
use lanes::Lanes;
use outcome::Outcome;
pub use place::Place;
use spec::{Role, SpecMaker, Special};
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
    /// Eager and compile.
    Compile,
    /// Eager only: quick, and named as such.
    Eager,
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
    pub(crate) options: EvalOptions,
    problem_file: PathBuf,
    problem_source: String,
    zygote: Zygote,
    /// Has torch's compiler imported, for baselines that use it.
    compiling: Option<Zygote>,
    pub(crate) referee: Referee,
    pub(crate) opened: Opened,
    baselines: Baselines,
    pub(crate) evictor: Evictor,
    pub(crate) lanes: Lanes,
    pub(crate) gpu: Option<Gpu>,
    watch: Option<Watch>,
    /// Cells of the candidate at hand that wait for their turn.
    spares: Vec<(Special<'static>, Cell)>,
    key: Key,
    /// Whether the candidate at hand starts threads of its own.
    own_threads: bool,
    /// Whether the sets that every candidate is judged on are there.
    sets_are_made: bool,
    /// Distinct Triton launches of the candidate at hand.
    launches: u64,
    pub(crate) device: DeviceInfo,
    pub(crate) versions: Versions,
    pub(crate) profiles: crate::profile::Memory,
    stages: Vec<(&'static str, f64)>,
    /// What other sessions on the GPU leave to this one. Given back last.
    room: Lingering,
}

impl Session {
    /// Starts Python, loads and examines the problem. On a GPU that others use as well it waits until there is room.
    pub fn open(options: EvalOptions, problem: &Path, observer: &dyn Observer) -> Result<Self> {
        let mut room = None;
        match Self::open_in(&mut room, options.clone(), problem, observer) {
            Err(ExecError::NoRoom(text)) if has_company(room.as_ref())? => {
                drop(Lingering(room));
                Self::open_alone(options, problem, observer)?.ok_or(ExecError::NoRoom(text))
            }
            opened => opened,
        }
    }

    /// The same with nobody else of ours on the GPU; nothing where somebody who was there before stays for ten minutes.
    pub fn open_alone(options: EvalOptions, problem: &Path, observer: &dyn Observer) -> Result<Option<Self>> {
        let Place::Gpu { name } = &options.place else { return Self::open(options, problem, observer).map(Some) };
        let mut room = Room::reserve(name, WHOLE, Some(PATIENCE), |who| observer.stage(&gpu::waiting_for_room(who)))?;
        if room.is_none() {
            return Ok(None);
        }
        Self::open_in(&mut room, options, problem, observer).map(Some)
    }

    /// Whether others may have left too little of the GPU's memory to this session.
    pub fn has_company(&self) -> Result<bool> {
        has_company(self.room.0.as_ref())
    }

    /// Reserves as much as the problem seems to need, unless `room` is there already.
    fn open_in(room: &mut Option<Room>, options: EvalOptions, problem: &Path, observer: &dyn Observer) -> Result<Self> {
        let begun = Instant::now();
        observer.stage("starting Python with torch");
        let problem_source = std::fs::read_to_string(problem)
            .map_err(|error| ExecError::Problem(format!("cannot read the problem {}: {error}", problem.display())))?;
        let harness = crate::harness::unpack(&options.cache)?;
        let mut zygote = Zygote::start(&options.python, &harness, options.threads, true, &options.place)?;
        if options.place.is_gpu() && !zygote.ready.cuda {
            return Err(ExecError::Problem(format!(
                "torch {} of {} cannot use the GPU: install torch built for CUDA there, or name another Python with --python",
                zygote.ready.torch,
                options.python.display()
            )));
        }
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
        };
        let mut waited = Duration::ZERO;
        let (loaded, turn) = match &options.place {
            Place::Gpu { name } => {
                let mut waiting = Waiting { name, observer, waited: &mut waited };
                let (loaded, turn) = load_on_gpu(&mut waiting, room, &mut zygote, &request)?;
                (loaded, Some(turn))
            }
            // On a CPU a session may be opened while somebody times: it is soon over, and waiting would take longer.
            _ => (Referee::load(&mut zygote, &request)?, None),
        };
        let (mut referee, opened) = Referee::open(loaded, &request)?;
        let gpu = match options.place {
            Place::Gpu { .. } => Some(Gpu::open(&mut referee)?),
            _ => None,
        };
        drop(turn);
        let watch = match &options.place {
            Place::Gpu { name } => Watch::new(name).ok(),
            _ => None,
        };
        let device = match (&gpu, &options.place) {
            (Some(gpu), _) => gpu.info(options.threads),
            (None, Place::Interpreter) => absent(&options, "run by Triton's interpreter on the CPU, compiled"),
            (None, Place::Compiler) => absent(&options, "nothing is run; compiled"),
            (None, _) => machine::cpu(options.threads),
        };
        let versions = Versions {
            kforge: env!("CARGO_PKG_VERSION").to_owned(),
            python: zygote.ready.python.clone(),
            torch: zygote.ready.torch.clone(),
            compiler: compiler_version(),
            os: machine::os(),
        };
        let lanes = Lanes::new(&options, &opened, gpu.as_ref())?;
        let waited = waited.as_secs_f64();
        let stages =
            vec![("start", started), ("wait", waited), ("problem", begun.elapsed().as_secs_f64() - started - waited)];
        Ok(Self {
            evictor: if gpu.is_some() {
                Evictor::none()
            } else {
                Evictor::new(device.last_level_cache, options.threads)
            },
            gpu,
            watch,
            spares: Vec::new(),
            options,
            problem_file: problem.to_owned(),
            problem_source,
            zygote,
            compiling: None,
            referee,
            opened,
            baselines: Baselines::default(),
            lanes,
            key: Key::draw()?,
            own_threads: false,
            sets_are_made: false,
            launches: 0,
            device,
            versions,
            profiles: crate::profile::Memory::default(),
            stages,
            room: Lingering(room.take()),
        })
    }

    /// Judges one candidate. `Err` means that our own machinery failed; everything a candidate does is a result.
    pub fn judge(&mut self, name: &str, source: &str, observer: &dyn Observer) -> Result<EvalResult> {
        let mut outcome = Outcome::begin(self, name, source);
        for (stage, seconds) in self.stages.drain(..) {
            outcome.stage(stage, seconds);
        }
        match self.options.place {
            Place::Interpreter => self.judge_interpreted(source, &mut outcome, observer)?,
            Place::Compiler => self.judge_compiled(source, &mut outcome, observer)?,
            Place::Cpu | Place::Gpu { .. } => self.judge_measured(source, &mut outcome, observer)?,
        }
        if matches!(outcome.verdict.kind, Some(Kind::Timeout | Kind::Crash | Kind::Launch | Kind::Exit)) {
            self.device_recovered()?;
        }
        Ok(outcome.finish(self))
    }

    fn judge_measured(&mut self, source: &str, outcome: &mut Outcome, observer: &dyn Observer) -> Result<()> {
        let crew = self.crew();
        // A compiler at work disturbs whoever times on the CPU, and nobody who times on a GPU.
        let building = if self.options.place.is_gpu() { None } else { Some(self.shared_turn(observer)?) };
        self.import_compiler()?;
        let Some(mut arm) = self.build(source, &crew, outcome, observer)? else { return Ok(()) };
        let checking = building.map_or_else(|| self.shared_turn(observer), Ok)?;
        observer.stage("verifying");
        let begun = Instant::now();
        let verified = self.verify(&mut arm, outcome)?;
        outcome.stage("verify", begun.elapsed().as_secs_f64());
        outcome.log = arm.sandbox.log.text();
        if !verified {
            let Arm { mut sandbox, cell, .. } = arm;
            return self.end_cell(&mut sandbox, cell);
        }
        let begun = Instant::now();
        observer.stage("auditing who computes");
        let audited = self.audit(arm, source, outcome)?;
        outcome.stage("audit", begun.elapsed().as_secs_f64());
        let Some(sandbox) = audited.filter(|_| !self.options.no_timing) else { return Ok(()) };
        let begun = Instant::now();
        self.prepare_baselines(checking, observer)?;
        let started = begun.elapsed();
        let _turn = self.timing_turn(observer)?;
        let begun = Instant::now();
        self.ensure_baselines(observer)?;
        self.lanes.keep_one();
        outcome.stage("baselines", (started + begun.elapsed()).as_secs_f64());
        let begun = Instant::now();
        self.make_sets()?;
        outcome.stage("truths", begun.elapsed().as_secs_f64());
        observer.stage("timing");
        let begun = Instant::now();
        let Some(mut arm) = self.timing_arm(sandbox, source, outcome)? else { return Ok(()) };
        let before = self.watch.as_ref().map(Watch::moment);
        self.time(&mut arm, outcome)?;
        self.note_clocks(before, outcome);
        outcome.stage("time", begun.elapsed().as_secs_f64());
        let Arm { mut sandbox, cell, .. } = arm;
        outcome.log = sandbox.log.text();
        self.end_cell(&mut sandbox, cell)
    }

    /// A sandbox for hostile code, at the demanded level or not at all; in its cells torch's compiler may be imported.
    fn enter(&mut self, role: Role, compiler: bool) -> Result<Sandbox> {
        let folders = match role {
            Role::Candidate => Folders { readable: toolkits(), writable: Vec::new() },
            Role::Baseline => {
                Folders { readable: self.opened.search_path.clone(), writable: vec![self.inductor_cache()?] }
            }
        };
        let set_bytes = (self.opened.input_bytes + self.opened.output_bytes) as u64;
        // Each process that uses a GPU brings some hundred megabytes of the driver's along.
        let driver = if self.options.place.is_gpu() { 8 << 30 } else { 0 };
        let limits = Limits {
            memory_bytes: self.options.memory_bytes + 8 * set_bytes + driver,
            gpu: self.options.place.is_gpu(),
            ..Limits::default()
        };
        let root = scratch_root();
        let namespaces = self.options.namespaces;
        let mut entered = None;
        if let Some(zygote) = self.compiling.as_mut().filter(|_| compiler) {
            match Sandbox::enter(zygote, &root, &limits, &folders, namespaces) {
                Ok(sandbox) => entered = Some(sandbox),
                Err(error) => {
                    tracing::warn!(
                        "the zygote with torch's compiler is gone, and its cells import for themselves: {error}"
                    );
                    self.compiling = None;
                }
            }
        }
        let mut sandbox = match entered {
            Some(sandbox) => sandbox,
            None => Sandbox::enter(&mut self.zygote, &root, &limits, &folders, namespaces)?,
        };
        if sandbox.report.level < self.options.require_sandbox {
            return Err(ExecError::Sandbox(sandbox.report));
        }
        if role == Role::Candidate {
            let EvalOptions { python, toolchains, .. } = &self.options;
            sandbox.compilers = Some(Compilers { python: python.clone(), toolchains: toolchains.clone() });
        }
        Ok(sandbox)
    }

    /// Does something with a second referee for the same problem, at its own sizes or at smaller ones.
    pub(crate) fn at_other_sizes<T>(&mut self, reduced: bool, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let (referee, opened) = self.open_again(reduced)?;
        let lanes = Lanes::new(&self.options, &opened, self.gpu.as_ref())?;
        // Slots belong to their referee, and have its sizes.
        let kept = (
            std::mem::replace(&mut self.referee, referee),
            std::mem::replace(&mut self.opened, opened),
            std::mem::replace(&mut self.lanes, lanes),
        );
        self.spares.clear();
        let made = act(self);
        self.spares.clear();
        (self.referee, self.opened, self.lanes) = kept;
        made
    }

    fn open_again(&mut self, reduced: bool) -> Result<(Referee, Opened)> {
        let request = OpenRequest {
            path: &self.problem_file,
            contract: &self.options.contract,
            store: &self.options.cache.join("truths"),
            fresh: self.options.fresh,
            reduced,
            threads: self.options.threads,
            limit_s: self.options.problem_timeout.as_secs(),
            place: &self.options.place,
        };
        let loaded = Referee::load(&mut self.zygote, &request)?;
        Referee::open(loaded, &request)
    }

    pub(crate) fn spec_maker(&self) -> SpecMaker<'_> {
        SpecMaker { options: &self.options, opened: &self.opened, gpu: self.gpu.as_ref() }
    }

    /// Only baselines write here, so what they find here is their own.
    fn inductor_cache(&self) -> Result<PathBuf> {
        let all = self.options.cache.join("inductor");
        let form = baseline::FORM.to_string();
        if !all.join(&form).exists() {
            crate::cache::forget_all_but(&all, &form);
        }
        let folder = all.join(form).join(&self.opened.key);
        std::fs::create_dir_all(&folder).map_err(ExecError::io(format!("cannot create {}", folder.display())))?;
        Ok(folder)
    }

    /// How long one ordinary call may take: generous against eager, never endless.
    pub(crate) fn call_limit(&self) -> Duration {
        let usual = Duration::from_secs_f64(self.baselines.slowest_us().unwrap_or(0.0) * 200.0 / 1e6);
        usual.clamp(Duration::from_secs(20).min(self.options.timeout), self.options.timeout)
    }
}

/// For a device, with the seconds that it took.
struct Waiting<'a> {
    name: &'a str,
    observer: &'a dyn Observer,
    waited: &'a mut Duration,
}

impl Waiting<'_> {
    fn turn(&mut self) -> Result<Turn> {
        let begun = Instant::now();
        let turn = Turn::share(self.name, || self.observer.stage(gpu::WAITING));
        *self.waited += begun.elapsed();
        turn
    }

    fn room(&mut self, share: f64) -> Result<Option<Room>> {
        let begun = Instant::now();
        let room = Room::reserve(self.name, share, None, |who| self.observer.stage(&gpu::waiting_for_room(who)));
        *self.waited += begun.elapsed();
        room
    }
}

/// A referee with the problem, room for what judging it takes, unless there is some already, and a shared turn. The least
/// is reserved before anything is on the device, so that others know of it, and given back while more is waited for.
fn load_on_gpu(
    waiting: &mut Waiting<'_>,
    room: &mut Option<Room>,
    zygote: &mut Zygote,
    request: &OpenRequest<'_>,
) -> Result<(Loaded, Turn)> {
    let has_room = room.is_some();
    if !has_room {
        *room = waiting.room(LEAST)?;
    }
    let turn = waiting.turn()?;
    let mut loaded = Referee::load(zygote, request)?;
    let share = loaded.needed_share(request.limit_s)?;
    if has_room {
        return Ok((loaded, turn));
    }
    // Whoever waits for room holds no turn: those who have it may need that turn to end.
    drop(turn);
    *room = None;
    *room = waiting.room(share)?;
    Ok((loaded, waiting.turn()?))
}

fn has_company(room: Option<&Room>) -> Result<bool> {
    room.map_or(Ok(false), Room::has_company)
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

/// Tries the sandbox without torch: what `doctor` and `--require-sandbox` go by.
pub fn probe_sandbox(python: &Path, cache: &Path) -> Result<SandboxReport> {
    let harness = crate::harness::unpack(cache)?;
    let mut zygote = Zygote::start(python, &harness, 1, false, &Place::Cpu)?;
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
