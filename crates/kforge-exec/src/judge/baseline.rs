//! What a candidate must beat: eager, torch.compile, max-autotune, in cells of the same kind that never saw it.
//!
//! Their times are kept by content, so that a later session starts only the fastest; that one is measured again
//! beside every candidate, and a short control finds out whether what is kept still holds.

use super::{
    BaselineChoice, Observer, Session,
    arm::{Arm, How},
    spec::{INDUCTOR_CACHE, Role, Special},
    timing::{RING, WARM_UP_CALLS},
    verify::OWN,
};
use crate::{
    cell::{Cell, Op},
    error::Result,
    memory::Sealed,
    turn::Turn,
};
use kforge_types::{Baseline, Kind, Summary, Verdict, short_hash};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Raised when what is kept of baselines, or how their compiler chooses, is another.
pub(super) const FORM: u32 = 5;
const ROUNDS: usize = 6;
/// Beyond this the machine is another than when the times were kept.
const DRIFT: f64 = 0.3;
const COMPILE_LIMIT: Duration = Duration::from_mins(5);
const AUTOTUNE_LIMIT: Duration = Duration::from_mins(1);
/// On a GPU: until max-autotune has recorded its graphs, which cannot be queued.
const SETTLING_CALLS: usize = 3;
pub(crate) const EAGER: &str = "eager";
const MAX_AUTOTUNE: &str = "max-autotune";

/// A cell with the reference inside.
struct Made {
    arm: Arm,
    /// Until its first output was there.
    seconds: f64,
    /// Whether it has been called.
    ran: bool,
}

/// Or a note for the table.
type Started = std::result::Result<Made, String>;

#[derive(Default)]
pub(crate) struct Baselines {
    known: Vec<Baseline>,
    /// Not yet timed.
    started: BTreeMap<String, Started>,
    control: Option<(String, Arm)>,
    ready: bool,
    /// Whether one of them found no memory on the device beside a candidate and the referee: it might be the fastest.
    pub(crate) without_room: bool,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    form: u32,
    measured_at: String,
    baselines: Vec<Baseline>,
}

impl Baselines {
    pub(crate) fn list(&self) -> Vec<Baseline> {
        self.known.clone()
    }

    pub(crate) fn slowest_us(&self) -> Option<f64> {
        self.known.iter().filter_map(|b| b.median_us).max_by(f64::total_cmp)
    }

    pub(crate) fn take_control(&mut self) -> Option<(String, Arm)> {
        self.control.take()
    }

    pub(crate) fn put_control(&mut self, name: String, arm: Arm) {
        self.control = Some((name, arm));
    }

    fn fastest(&self) -> Option<&Baseline> {
        fastest(&self.known)
    }
}

impl BaselineChoice {
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Eager => &[EAGER],
            Self::Compile => &[EAGER, "compile"],
            Self::Auto | Self::All => &[EAGER, "compile", MAX_AUTOTUNE],
        }
    }

    fn limit(self, name: &str) -> Duration {
        match (self, name) {
            (Self::Auto, MAX_AUTOTUNE) => AUTOTUNE_LIMIT,
            _ => COMPILE_LIMIT,
        }
    }
}

impl Session {
    /// Imports torch's compiler, once per session, in a process of its own while the candidate is built and checked. It
    /// chooses a folder for compiled C++ headers meanwhile: on a CPU they would stay there, 150 MB for each problem.
    pub(crate) fn import_compiler(&mut self) -> Result<()> {
        let wanted = self.gpu.is_some() && !self.options.no_timing && !self.baselines.ready && self.compiling.is_none();
        if wanted && self.to_be_made(&self.kept_baselines()).iter().any(|name| name != EAGER) {
            let folder = self.inductor_cache()?.to_string_lossy().into_owned();
            let env = BTreeMap::from([INDUCTOR_CACHE, "TMPDIR"].map(|name| (name.to_owned(), folder.clone())));
            self.compiling = Some(self.zygote.fork_with_compiler(&env)?);
        }
        Ok(())
    }

    /// Makes and compiles what will be timed, before its turn comes; `checking` ends with that. Large ones wait for their
    /// turn, since no two of them may lie in memory together.
    pub(crate) fn prepare_baselines(&mut self, mut checking: Turn, observer: &dyn Observer) -> Result<()> {
        if self.baselines.ready {
            return Ok(());
        }
        if self.compiling.is_some() {
            // Nobody has to wait for this import but ourselves.
            drop(checking);
            self.await_compiler(observer);
            checking = self.shared_turn(observer)?;
        }
        if self.lanes.large {
            return Ok(());
        }
        self.baselines.known = self.kept_baselines();
        for name in self.to_be_made(&self.baselines.known) {
            let made = self.make(&name, observer)?;
            self.baselines.started.insert(name, made);
        }
        // Compilers disturb whoever times on a CPU. On a GPU they do not, and whoever times there would wait for them.
        let _compiling = Some(checking).filter(|_| self.gpu.is_none());
        self.compile_baselines(observer)
    }

    /// The fastest, where times were kept; all of them otherwise.
    fn to_be_made(&self, known: &[Baseline]) -> Vec<String> {
        match fastest(known) {
            Some(fastest) => vec![fastest.name.clone()],
            None => self.options.baselines.names().iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// One that cannot be imported says why in the baseline's own cell.
    fn await_compiler(&mut self, observer: &dyn Observer) {
        let Some(zygote) = &mut self.compiling else { return };
        observer.stage("importing torch's compiler");
        if let Err(error) = zygote.wait() {
            tracing::warn!("no zygote with torch's compiler: {error}");
            self.compiling = None;
        }
    }

    /// Compiles them, which takes long. On a GPU nothing is timed meanwhile: somebody else may be timing there, and the
    /// compiler would choose kernels by times that others disturb.
    fn compile_baselines(&mut self, observer: &dyn Observer) -> Result<()> {
        for (name, made) in std::mem::take(&mut self.baselines.started) {
            let made = match made {
                Ok(made) if self.gpu.is_none() => self.run_first(&name, made, observer)?,
                Ok(made) if name != EAGER => self.compile_only(&name, made, observer)?,
                made => made,
            };
            self.baselines.started.insert(name, made);
        }
        Ok(())
    }

    /// What an earlier session has measured, if it is all that is wanted now.
    fn kept_baselines(&self) -> Vec<Baseline> {
        let wanted = self.options.baselines.names();
        let kept = self.read_kept(&self.baseline_file()).filter(|kept| {
            wanted.iter().all(|name| {
                let found = kept.baselines.iter().find(|b| b.name == *name);
                // A baseline that was cut off by the ordinary limit is tried again when all are wanted.
                found.is_some_and(|b| b.median_us.is_some() || self.options.baselines != BaselineChoice::All)
            })
        });
        let mut known = kept.map(|kept| kept.baselines).unwrap_or_default();
        known.retain(|b| wanted.contains(&b.name.as_str()));
        for baseline in &mut known {
            baseline.cached = true;
        }
        known
    }

    /// Once per session: the fastest baseline runs and waits.
    pub(crate) fn ensure_baselines(&mut self, observer: &dyn Observer) -> Result<()> {
        if self.baselines.ready {
            return Ok(());
        }
        self.baselines.known = self.kept_baselines();
        if self.baselines.known.is_empty() || !self.start_control(observer)? {
            self.measure_all(observer)?;
            if !self.baselines.without_room {
                self.write_kept();
            }
        }
        // Somebody else may have measured them all meanwhile.
        for (_, started) in std::mem::take(&mut self.baselines.started) {
            if let Ok(Made { arm: Arm { mut sandbox, cell, .. }, .. }) = started {
                self.end_cell(&mut sandbox, cell)?;
            }
        }
        self.baselines.ready = true;
        Ok(())
    }

    /// Starts the fastest kept baseline; false when its time has drifted and all must be measured anew.
    fn start_control(&mut self, observer: &dyn Observer) -> Result<bool> {
        let Some(fastest) = self.baselines.fastest().cloned() else { return Ok(false) };
        let Ok(Made { mut arm, .. }) = self.take_started(&fastest.name, observer)? else { return Ok(false) };
        let mut times = Vec::new();
        for number in 0..WARM_UP_CALLS {
            times.extend(self.baseline_call(&mut arm, number)?);
        }
        let (Some(now), Some(then)) = (Summary::of(&times), fastest.median_us) else { return Ok(false) };
        let ratio = now.median / then;
        if !(1.0 / (1.0 + DRIFT)..=1.0 + DRIFT).contains(&ratio) {
            tracing::info!("{} drifted from {then:.0} us to {:.0} us: measuring again", fastest.name, now.median);
            return Ok(false);
        }
        self.baselines.control = Some((fastest.name, arm));
        Ok(true)
    }

    /// All of them, the fastest of which stays. Small ones take turns, so that a change of the machine meets them all
    /// alike; large ones follow one another, so that no more than two lie in memory.
    fn measure_all(&mut self, observer: &dyn Observer) -> Result<()> {
        let names = self.options.baselines.names();
        let together = if self.lanes.large { 1 } else { names.len() };
        self.baselines.known.clear();
        for group in names.chunks(together) {
            let mut arms: Vec<(Baseline, Option<Arm>)> = Vec::new();
            for name in group {
                let mut entry = empty(name);
                let arm = match self.take_started(name, observer)? {
                    Ok(Made { arm, seconds, .. }) => {
                        entry.compile_s = Some(seconds);
                        Some(arm)
                    }
                    Err(note) => {
                        entry.note = note;
                        None
                    }
                };
                arms.push((entry, arm));
            }
            observer.stage("timing baselines");
            self.take_turns(&mut arms)?;
            // Those whose launches can be queued would look better than the others: then all are timed on an idle device.
            let queue = |arms: &[(Baseline, Option<Arm>)], wanted| {
                arms.iter().filter_map(|(_, arm)| arm.as_ref()).any(|arm| arm.queues == wanted)
            };
            if self.gpu.is_some() && queue(&arms, true) && queue(&arms, false) {
                arms.iter_mut().filter_map(|(_, arm)| arm.as_mut()).for_each(|arm| arm.queues = false);
                self.take_turns(&mut arms)?;
            }
            self.keep_fastest(arms)?;
        }
        Ok(())
    }

    fn take_turns(&mut self, arms: &mut [(Baseline, Option<Arm>)]) -> Result<()> {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); arms.len()];
        for round in 0..ROUNDS {
            for (index, (_, arm)) in arms.iter_mut().enumerate() {
                if let Some(arm) = arm {
                    for call in 0..2 {
                        times[index].extend(self.baseline_call(arm, 2 * round + call)?);
                    }
                }
            }
        }
        for ((entry, _), sample) in arms.iter_mut().zip(&times) {
            if let Some(summary) = Summary::of(sample) {
                entry.median_us = Some(summary.median);
                entry.p20 = Some(summary.p20);
                entry.p80 = Some(summary.p80);
                entry.n = summary.n;
            } else if entry.note.is_empty() {
                "its output does not pass the checks".clone_into(&mut entry.note);
            }
        }
        Ok(())
    }

    /// Of those that were just measured and the one that was the fastest before.
    fn keep_fastest(&mut self, arms: Vec<(Baseline, Option<Arm>)>) -> Result<()> {
        self.baselines.known.extend(arms.iter().map(|(entry, _)| entry.clone()));
        let fastest = self.baselines.fastest().map(|b| b.name.clone());
        for (entry, arm) in arms {
            let Some(arm) = arm else { continue };
            let loser = if Some(&entry.name) == fastest.as_ref() {
                self.baselines.control.replace((entry.name, arm)).map(|(_, before)| before)
            } else {
                Some(arm)
            };
            if let Some(Arm { mut sandbox, cell, .. }) = loser {
                self.end_cell(&mut sandbox, cell)?;
            }
        }
        Ok(())
    }

    fn take_started(&mut self, name: &str, observer: &dyn Observer) -> Result<Started> {
        let made = self.baselines.started.remove(name).map_or_else(|| self.make(name, observer), Ok)?;
        made.map_or_else(|note| Ok(Err(note)), |made| self.run_first(name, made, observer))
    }

    /// The reference as it is, called before.
    pub(crate) fn start_reference(&mut self, observer: &dyn Observer) -> Result<std::result::Result<Arm, String>> {
        Ok(self.take_started(EAGER, observer)?.map(|made| made.arm))
    }

    fn make(&mut self, name: &str, observer: &dyn Observer) -> Result<Started> {
        observer.stage(&format!("starting baseline {name}"));
        let slots = self.take_lane()?;
        let mut sandbox = self.enter(Role::Baseline, name != EAGER)?;
        let inductor = self.inductor_cache()?;
        let weights = self.referee.weights(&self.opened)?;
        let maker = self.spec_maker();
        let file = self.problem_file.display().to_string();
        let special = Special { baseline: name, ..Special::default() };
        let spec = maker.spec(Role::Baseline, &self.problem_source, &file, special);
        let env = maker.environment(sandbox.scratch(), Some(&inductor));
        let fds: Vec<BorrowedFd<'_>> = weights.iter().map(Sealed::fd).collect();
        let cell = Cell::spawn(&mut sandbox, &spec, &env, slots, &fds)?;
        let mut arm = Arm::new(sandbox, cell, true, self.key.clone());
        let limit = self.options.baselines.limit(name);
        for op in [Op::Import, Op::Construct(0)] {
            if let Err(verdict) = arm.ask(op, limit)? {
                return Ok(Err(self.not_run(&verdict, limit)));
            }
        }
        Ok(Ok(Made { arm, seconds: 0.0, ran: false }))
    }

    fn compile_only(&mut self, name: &str, made: Made, observer: &dyn Observer) -> Result<Started> {
        observer.stage(&compiling(name));
        let Made { mut arm, .. } = made;
        let limit = self.options.baselines.limit(name);
        let begun = Instant::now();
        match arm.ask(Op::AheadOfTime, limit)? {
            Ok(_) => Ok(Ok(Made { arm, seconds: begun.elapsed().as_secs_f64(), ran: false })),
            Err(verdict) => Ok(Err(self.not_run(&verdict, limit))),
        }
    }

    /// A note for the table.
    fn not_run(&mut self, verdict: &Verdict, limit: Duration) -> String {
        self.baselines.without_room |= self.gpu.is_some() && verdict.kind == Some(Kind::OutOfMemory);
        not_run(verdict, limit)
    }

    /// Once; what is compiled is compiled now, as far as it has not been.
    fn run_first(&mut self, name: &str, made: Made, observer: &dyn Observer) -> Result<Started> {
        if made.ran {
            return Ok(Ok(made));
        }
        if name != EAGER {
            observer.stage(&compiling(name));
        }
        let Made { mut arm, seconds, .. } = made;
        let limit = self.options.baselines.limit(name);
        let begun = Instant::now();
        let set = self.referee.set(0, OWN, 0)?;
        match arm.call(&mut self.referee, &mut self.evictor, &set, How::untimed(limit))? {
            Ok(_) => {
                let seconds = seconds + begun.elapsed().as_secs_f64();
                for _ in 0..self.gpu.as_ref().map_or(0, |_| SETTLING_CALLS) {
                    let _ = arm.call(&mut self.referee, &mut self.evictor, &set, How::untimed(limit))?;
                }
                // As beside a candidate: two threads on one core would make the choice of the fastest a matter of luck.
                match arm.ask(Op::Pin(true), limit)? {
                    Ok(_) => Ok(Ok(Made { arm, seconds, ran: true })),
                    Err(verdict) => Ok(Err(self.not_run(&verdict, limit))),
                }
            }
            Err(verdict) => Ok(Err(self.not_run(&verdict, limit))),
        }
    }

    pub(crate) fn baseline_call(&mut self, arm: &mut Arm, number: usize) -> Result<Option<f64>> {
        let set = self.referee.set(0, OWN, number % RING)?;
        let called = arm.call(&mut self.referee, &mut self.evictor, &set, How::cold(COMPILE_LIMIT))?;
        Ok(called.ok().map(|sample| sample.inside_us))
    }

    fn baseline_file(&self) -> PathBuf {
        let key = short_hash(&[
            self.opened.key.as_str(),
            &self.device.name,
            &self.device.threads.to_string(),
            &self.versions.torch,
            &self.versions.compiler,
        ]);
        self.options.cache.join("baselines").join(format!("{key}.json"))
    }

    /// Not being able to keep times costs time later, nothing else.
    fn write_kept(&self) {
        let file = self.baseline_file();
        let measured_at = jiff::Timestamp::now().to_string();
        let kept = Kept { form: FORM, measured_at, baselines: self.baselines.known.clone() };
        let write = || -> std::io::Result<()> {
            if let Some(parent) = file.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let temporary = file.with_extension(format!("tmp{}", std::process::id()));
            std::fs::write(&temporary, serde_json::to_string_pretty(&kept)?)?;
            std::fs::rename(&temporary, &file)
        };
        if let Err(error) = write() {
            tracing::warn!("baseline times could not be kept: {error}");
        }
    }

    fn read_kept(&self, file: &Path) -> Option<Kept> {
        if !self.options.kept_baselines {
            return None;
        }
        let kept: Kept = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
        (kept.form == FORM).then_some(kept)
    }
}

fn fastest(known: &[Baseline]) -> Option<&Baseline> {
    let timed = known.iter().filter(|b| b.median_us.is_some());
    timed.min_by(|a, b| f64::total_cmp(&a.median_us.unwrap_or(f64::MAX), &b.median_us.unwrap_or(f64::MAX)))
}

fn empty(name: &str) -> Baseline {
    Baseline {
        name: name.to_owned(),
        median_us: None,
        p20: None,
        p80: None,
        n: 0,
        cached: false,
        compile_s: None,
        note: String::new(),
    }
}

fn compiling(name: &str) -> String {
    format!("compiling baseline {name} (kept for the next time)")
}

fn not_run(verdict: &Verdict, limit: Duration) -> String {
    match verdict.kind {
        Some(Kind::Timeout) => {
            format!("not run: compiling takes more than {} s (--baselines all waits)", limit.as_secs())
        }
        _ => format!("did not run: {}", verdict.reason.lines().next().unwrap_or_default()),
    }
}
