//! What every judgement on a problem needs, and none of them changes.

use super::{
    EvalOptions, Observer, Place,
    arm::{Arm, Given, How, Row, Sample},
    baseline::FORM,
    echo::Echo,
    gpu::{self, Gpu},
    lanes::Lanes,
    spec::{Role, SpecMaker},
    stage::Stage,
};
use crate::{
    compilers::Compilers,
    error::{ExecError, Result},
    evict::Evictor,
    failure::Tried,
    machine,
    nvidia::Watch,
    referee::{InputSet, Loaded, OpenRequest, Opened, Referee},
    room::{LEAST, Room},
    sandbox::{Folders, Limits, Sandbox},
    turn::Turn,
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
    pub(crate) evictor: Evictor,
    pub(super) lanes: Lanes,
    pub(crate) gpu: Option<Gpu>,
    pub(super) watch: Option<Watch>,
    pub(crate) device: DeviceInfo,
    pub(crate) versions: Versions,
}

/// What belongs to one referee.
pub(super) struct Aside {
    referee: Referee,
    opened: Opened,
    /// They have its sizes and places.
    lanes: Lanes,
    gpu: Option<Gpu>,
}

impl Bench {
    /// With what opening took. Reserves as much room as the problem seems to need, unless there is some already.
    pub(super) fn open(
        room: &mut Option<Room>,
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
            torch_overrides: zygote.ready.overrides.clone(),
        };
        let lanes = Lanes::new(&options, &opened, gpu.as_ref())?;
        let waited = waited.as_secs_f64();
        let examined = begun.elapsed().as_secs_f64() - started - waited;
        let stages = vec![(Stage::Start, started), (Stage::Wait, waited), (Stage::Problem, examined)];
        let evictor = match gpu {
            Some(_) => Evictor::none(),
            None => Evictor::new(device.last_level_cache, options.threads),
        };
        let bench = Self {
            options,
            problem_file: problem.to_owned(),
            problem_source,
            zygote,
            referee,
            opened,
            echo: Echo::new()?,
            evictor,
            lanes,
            gpu,
            watch,
            device,
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
        // Each process that uses a GPU brings some hundred megabytes of the driver's along.
        let driver = if self.options.place.is_gpu() { 8 << 30 } else { 0 };
        let limits = Limits {
            memory_bytes: self.options.memory_bytes + 8 * set_bytes + driver,
            gpu: self.options.place.is_gpu(),
            ..Limits::default()
        };
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
        };
        let loaded = Referee::load(&mut self.zygote, &request)?;
        let (mut referee, opened) = Referee::open(loaded, &request)?;
        let gpu = if self.gpu.is_some() { Some(Gpu::open(&mut referee)?) } else { None };
        let lanes = Lanes::new(&self.options, &opened, gpu.as_ref())?;
        Ok(self.put_back(Aside { referee, opened, lanes, gpu }))
    }

    /// Puts a referee back that was set aside; returns the one in its place.
    pub(super) fn put_back(&mut self, aside: Aside) -> Aside {
        Aside {
            referee: std::mem::replace(&mut self.referee, aside.referee),
            opened: std::mem::replace(&mut self.opened, aside.opened),
            lanes: std::mem::replace(&mut self.lanes, aside.lanes),
            gpu: std::mem::replace(&mut self.gpu, aside.gpu),
        }
    }

    /// One call on a set of the store, compared.
    pub(crate) fn call(&mut self, arm: &mut Arm, set: &InputSet, how: How) -> Tried<Sample> {
        arm.call(&mut self.referee, &mut self.evictor, set, how)
    }

    /// Calls one after the other, which nobody has compared.
    pub(crate) fn row(&mut self, arm: &mut Arm, given: Given<'_>, how: How) -> Tried<Row> {
        arm.row(&mut self.referee, &mut self.evictor, given, how)
    }

    pub(crate) fn spec_maker(&self) -> SpecMaker<'_> {
        SpecMaker { options: &self.options, opened: &self.opened, gpu: self.gpu.as_ref() }
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
