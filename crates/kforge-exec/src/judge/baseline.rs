//! What a candidate must beat: the reference in every way that PyTorch offers under the same contract (`ways.rs`), in
//! cells of the same kind that never saw it. What does not keep the contract is no baseline.
//!
//! Their times are kept by content, so that a later session starts only the fastest; that one is measured again
//! beside every candidate, and a short control finds out whether what is kept still holds.

mod kept;
mod making;

use super::{
    BaselineChoice, Observer,
    arm::{Arm, How},
    bench::Bench,
    spec::INDUCTOR_CACHE,
    timing::{RING, WARM_UP_CALLS},
    verify::OWN,
    ways::is_compiled,
};
use crate::{device::device_lock::DeviceLock, error::Result, failure::OnFailure, zygote::Zygote};
use kforge_types::{Baseline, Summary};
use making::Made;
use std::{collections::BTreeMap, time::Duration};

/// Raised when what is kept of baselines, or how their compiler chooses, is another.
pub(super) const FORM: u32 = 7;
const ROUNDS: usize = 6;
/// Beyond this the machine is another than when the times were kept.
const DRIFT: f64 = 0.3;
const COMPILE_LIMIT: Duration = Duration::from_mins(5);
/// By which ways are chosen that are worth compiling.
const ROUGH_CALLS: usize = 3;
/// Or a note for the table.
type Started = std::result::Result<Made, String>;

#[derive(Default)]
pub(crate) struct Baselines {
    /// Has torch's compiler imported, for those that use it.
    compiling: Option<Zygote>,
    known: Vec<Baseline>,
    /// Not yet timed.
    started: BTreeMap<String, Started>,
    /// Names of what torch's compiler makes, once they are chosen.
    compiled: Option<Vec<String>>,
    control: Option<(String, Arm)>,
    ready: bool,
    /// Whether one of them found no memory on the device beside a candidate and the referee: it might be the fastest.
    pub(crate) without_room: bool,
}

impl Baselines {
    pub(crate) fn list(&self) -> Vec<Baseline> {
        self.known.clone()
    }

    pub(crate) fn slowest_us(&self) -> Option<f64> {
        self.known.iter().filter_map(|b| b.median_us).max_by(f64::total_cmp)
    }

    /// Of the one that candidates are timed against.
    pub(crate) fn fastest_us(&self) -> Option<f64> {
        self.fastest().and_then(|baseline| baseline.median_us)
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

    /// Imports torch's compiler, once per session, in a process of its own while the candidate is built and checked.
    pub(crate) fn import_compiler(&mut self, bench: &mut Bench) -> Result<()> {
        let useful = bench.device.policy().imports_compiler && !bench.options.no_timing;
        let wanted = useful && !self.ready && self.compiling.is_none();
        let compiles = |known: &[Baseline]| match fastest(known) {
            Some(fastest) => is_compiled(&fastest.name),
            None => bench.options.baselines != BaselineChoice::Eager,
        };
        if wanted && compiles(&kept::read(bench)) {
            let folder = bench.inductor_cache()?.to_string_lossy().into_owned();
            let env = BTreeMap::from([INDUCTOR_CACHE, "TMPDIR"].map(|name| (name.to_owned(), folder.clone())));
            self.compiling = Some(bench.zygote.fork_with_compiler(&env)?);
        }
        Ok(())
    }

    /// Makes and compiles what will be timed, before the device is ours; `checking` ends with that. Large ones wait for it,
    /// since no two of them may be in memory together.
    pub(crate) fn prepare(
        &mut self,
        bench: &mut Bench,
        mut checking: DeviceLock,
        observer: &dyn Observer,
    ) -> Result<()> {
        if self.ready {
            return Ok(());
        }
        if self.compiling.is_some() {
            // Nobody has to wait for this import but ourselves.
            drop(checking);
            self.await_compiler(observer);
            checking = bench.lock_shared(observer)?;
        }
        if bench.slot_pool.large {
            return Ok(());
        }
        self.known = kept::read(bench);
        let names = match self.fastest() {
            Some(fastest) => vec![fastest.name.clone()],
            None => [bench.opened.ways.clone(), self.names_to_compile(bench, observer)?].concat(),
        };
        for name in names {
            if !self.started.contains_key(&name) {
                let made = self.make(bench, &name, observer).or_reason()?;
                self.started.insert(name, made);
            }
        }
        // Compilers disturb whoever times on a CPU. Elsewhere they do not, and whoever times there would wait for them.
        let _compiling = Some(checking).filter(|_| bench.device.policy().is_the_processors);
        self.compile_started(bench, observer)
    }

    /// Those of the ways without a compiler that are worth it, by a few calls; where there is but one, without any.
    fn names_to_compile(&mut self, bench: &mut Bench, observer: &dyn Observer) -> Result<Vec<String>> {
        if let Some(chosen) = &self.compiled {
            return Ok(chosen.clone());
        }
        let mut quickest = Vec::new();
        let only = bench.opened.ways.len() == 1 && !bench.device.policy().records_graphs;
        for way in bench.opened.ways.clone() {
            if only || bench.options.baselines == BaselineChoice::Eager {
                quickest.push((way, 0.0));
                continue;
            }
            let mut started = self.take_started(bench, &way, observer).or_reason()?;
            if let Ok(made) = &mut started {
                let mut least = f64::MAX;
                for number in 0..ROUGH_CALLS {
                    let set = bench.referee.set(0, OWN, number % RING)?;
                    let how = How::idle(COMPILE_LIMIT);
                    if let Ok(sample) = bench.call(&mut made.arm, &set, how).or_reason()? {
                        least = least.min(sample.inside_us);
                    }
                }
                quickest.push((way.clone(), least));
            }
            self.started.insert(way, started);
        }
        quickest.sort_by(|a, b| f64::total_cmp(&a.1, &b.1));
        let chosen = bench.options.baselines.compiled(&quickest, bench.device.policy().records_graphs);
        self.compiled = Some(chosen.clone());
        Ok(chosen)
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

    /// Compiles them, which takes long. Elsewhere than on the processors nothing is called meanwhile: somebody else may be timing
    /// there, and the compiler would choose kernels by times that others disturb.
    fn compile_started(&mut self, bench: &mut Bench, observer: &dyn Observer) -> Result<()> {
        for (name, made) in std::mem::take(&mut self.started) {
            let made = match made {
                Ok(made) if bench.device.policy().is_the_processors => {
                    self.run_first(bench, &name, made, observer).or_reason()?
                }
                Ok(made) if is_compiled(&name) => self.compile_only(bench, &name, made, observer).or_reason()?,
                made => made,
            };
            self.started.insert(name, made);
        }
        Ok(())
    }

    /// Once per session: the fastest baseline runs and waits.
    pub(crate) fn ensure(&mut self, bench: &mut Bench, observer: &dyn Observer) -> Result<()> {
        if self.ready {
            return Ok(());
        }
        self.known = kept::read(bench);
        if self.known.is_empty() || !self.start_control(bench, observer)? {
            self.measure_all(bench, observer)?;
            if !self.without_room {
                kept::write(bench, &self.known);
            }
        }
        // Somebody else may have measured them all meanwhile.
        for (_, started) in std::mem::take(&mut self.started) {
            if let Ok(Made { arm: Arm { mut sandbox, cell, .. }, .. }) = started {
                bench.end_cell(&mut sandbox, cell)?;
            }
        }
        self.ready = true;
        Ok(())
    }

    /// Starts the fastest kept baseline; false when its time has drifted and all must be measured anew.
    fn start_control(&mut self, bench: &mut Bench, observer: &dyn Observer) -> Result<bool> {
        let Some(fastest) = self.fastest().cloned() else { return Ok(false) };
        let Ok(Made { mut arm, .. }) = self.take_started(bench, &fastest.name, observer).or_reason()? else {
            return Ok(false);
        };
        let mut times = Vec::new();
        for number in 0..WARM_UP_CALLS {
            times.extend(call(bench, &mut arm, number)?);
        }
        let (Some(now), Some(then)) = (Summary::of(&times), fastest.median_us) else { return Ok(false) };
        let ratio = now.median / then;
        if !(1.0 / (1.0 + DRIFT)..=1.0 + DRIFT).contains(&ratio) {
            tracing::info!("{} drifted from {then:.0} us to {:.0} us: measuring again", fastest.name, now.median);
            return Ok(false);
        }
        self.control = Some((fastest.name, arm));
        Ok(true)
    }

    /// All of them, the fastest of which stays. Small ones take turns, so that a change of the machine meets them all
    /// alike; large ones follow one another, so that no more than two lie in memory.
    fn measure_all(&mut self, bench: &mut Bench, observer: &dyn Observer) -> Result<()> {
        self.known.clear();
        let ways = bench.opened.ways.clone();
        if !bench.slot_pool.large {
            let names = [ways, self.names_to_compile(bench, observer)?].concat();
            return self.measure_together(bench, &names, observer);
        }
        for way in ways {
            self.measure_together(bench, &[way], observer)?;
        }
        let time_of = |known: &Baseline| Some((known.name.clone(), known.median_us?));
        let mut quickest: Vec<(String, f64)> = self.known.iter().filter_map(time_of).collect();
        quickest.sort_by(|a, b| f64::total_cmp(&a.1, &b.1));
        for name in bench.options.baselines.compiled(&quickest, bench.device.policy().records_graphs) {
            self.measure_together(bench, &[name], observer)?;
        }
        Ok(())
    }

    fn measure_together(&mut self, bench: &mut Bench, names: &[String], observer: &dyn Observer) -> Result<()> {
        let mut arms: Vec<(Baseline, Option<Arm>)> = Vec::new();
        for name in names {
            let mut entry = empty(name);
            let arm = match self.take_started(bench, name, observer).or_reason()? {
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
        take_turns(bench, &mut arms)?;
        // Those whose launches can be queued would look better than the others: then all are timed on an idle device.
        let queue = |arms: &[(Baseline, Option<Arm>)], wanted| {
            arms.iter().filter_map(|(_, arm)| arm.as_ref()).any(|arm| arm.queues == wanted)
        };
        if queue(&arms, true) && queue(&arms, false) {
            arms.iter_mut().filter_map(|(_, arm)| arm.as_mut()).for_each(|arm| arm.queues = false);
            take_turns(bench, &mut arms)?;
        }
        self.keep_fastest(bench, arms)
    }

    /// Of those that were just measured and the one that was the fastest before.
    fn keep_fastest(&mut self, bench: &mut Bench, arms: Vec<(Baseline, Option<Arm>)>) -> Result<()> {
        self.known.extend(arms.iter().map(|(entry, _)| entry.clone()));
        let fastest = self.fastest().map(|b| b.name.clone());
        for (entry, arm) in arms {
            let Some(arm) = arm else { continue };
            let loser = if Some(&entry.name) == fastest.as_ref() {
                self.control.replace((entry.name, arm)).map(|(_, before)| before)
            } else {
                Some(arm)
            };
            if let Some(Arm { mut sandbox, cell, .. }) = loser {
                bench.end_cell(&mut sandbox, cell)?;
            }
        }
        Ok(())
    }

    /// One that failed beside a candidate is none; the next fastest takes its place, now and in later sessions.
    pub(crate) fn disqualify(
        &mut self,
        bench: &mut Bench,
        name: &str,
        arm: Arm,
        reason: &str,
        observer: &dyn Observer,
    ) -> Result<()> {
        tracing::warn!("baseline {name} {reason}");
        let Arm { mut sandbox, cell, .. } = arm;
        bench.end_cell(&mut sandbox, cell)?;
        for baseline in self.known.iter_mut().filter(|baseline| baseline.name == name) {
            *baseline = Baseline { note: format!("{reason}, in a timed call"), ..empty(name) };
        }
        while let Some(next) = self.fastest().map(|baseline| baseline.name.clone()) {
            match self.take_started(bench, &next, observer).or_reason()? {
                Ok(Made { arm, .. }) => {
                    self.control = Some((next, arm));
                    break;
                }
                Err(note) => {
                    for baseline in self.known.iter_mut().filter(|baseline| baseline.name == next) {
                        *baseline = Baseline { note: note.clone(), ..empty(&next) };
                    }
                }
            }
        }
        kept::write(bench, &self.known);
        Ok(())
    }
}

fn take_turns(bench: &mut Bench, arms: &mut [(Baseline, Option<Arm>)]) -> Result<()> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); arms.len()];
    for round in 0..ROUNDS {
        for (index, (_, arm)) in arms.iter_mut().enumerate() {
            if let Some(arm) = arm {
                for number in 0..2 {
                    times[index].extend(call(bench, arm, 2 * round + number)?);
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

/// The time of one call, if it was right.
pub(super) fn call(bench: &mut Bench, arm: &mut Arm, number: usize) -> Result<Option<f64>> {
    let set = bench.referee.set(0, OWN, number % RING)?;
    let called = bench.call(arm, &set, How::cold(COMPILE_LIMIT)).or_reason()?;
    Ok(called.ok().map(|sample| sample.inside_us))
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
