//! What profilers say of a candidate on the CPU, rung by rung, each with its reason where it gives nothing.
//!
//! Nothing here decides on a verdict. The candidate runs in a sandbox as everywhere; perf attaches to it from outside;
//! compiler reports and disassembly are made inside its sandbox by a process that loads none of its code. What comes
//! out of it is hostile text: bounded, printable, never more than a finding. docs/design/profile.md says what is
//! measured how.

mod counters;
mod disassembly;
mod instruction;
mod kept;
mod ladder;
mod loops;
mod nvidia;
mod operators;
mod peaks;
mod perf;
mod recording;
mod reference;
mod roofline;
mod samples;
mod vectorise;
mod words;

use crate::{
    cell::Cell,
    device::Profiler,
    error::Result,
    failure::{Failure, OnFailure, Tried},
    judge::{
        Observer, Session,
        arm::{Arm, How},
        outcome::Outcome,
        timing::{RING, starts_threads},
        verify::OWN,
    },
    sandbox::Sandbox,
    slots::Slots,
    wire::op::{self, Look},
};
use disassembly::{Heat, Library, Width};
use kforge_types::{Profile, Roofline, State, Verdict, median};
use ladder::{Ladder, Report};
use operators::Reference;
use perf::Perf;
pub(crate) use reference::Memory;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

const CANDIDATE: &str = "candidate";
const COUNTERS: &str = "perf counters";
const SAMPLES: &str = "perf samples";
const REPORT: &str = "vectorisation report";
const DISASSEMBLY: &str = "disassembly";
const ROOFLINE: &str = "roofline";

const DOES_NOT_BUILD: &str = "it does not build";
const NOT_CONSTRUCTED: &str = "its module cannot be constructed";

const WARM_UP: usize = 3;
/// Calls whose time is taken where nobody gave one.
const TIMED_CALLS: usize = 9;
const INSPECT_LIMIT: Duration = Duration::from_mins(3);
/// Of what perf writes in a second.
const MOST_RECORDED: u64 = 64 << 20;
const FEWEST_SAMPLES: u64 = 20;
/// Where an inspector leaves its answers.
const ANSWER_BYTES: usize = 32 << 20;

/// What a profile is wanted for.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProfileOptions {
    /// The candidate's time where it was judged; else a few calls are timed.
    pub time_us: Option<f64>,
    /// Everything that a profiler can count instead of the chosen metrics, which takes much longer.
    pub all_metrics: bool,
}

/// What perf looks at.
struct Watched {
    perf: Perf,
    pids: Vec<u32>,
    /// Calls that are asked for at once: a twentieth of a second, about.
    calls: u64,
}

/// What the clock saw, until the functions are known that it saw.
struct Sampled {
    version: String,
    seconds: f64,
    samples: std::result::Result<samples::Samples, String>,
}

impl Session {
    /// Profiles one candidate.
    ///
    /// `Err` means that our own machinery failed. A candidate that does not build or run has a profile that says so.
    pub fn profile(&mut self, source: &str, options: ProfileOptions, observer: &dyn Observer) -> Result<Profile> {
        let _lock = self.bench.lock_for_timing(observer)?;
        match self.bench.device.profiler() {
            Profiler::Nvidia { torch_name, .. } => self.profile_on_gpu(torch_name, source, options, observer),
            Profiler::Processors => self.profile_on_cpu(source, options.time_us, observer),
            Profiler::Missing(reason) => {
                let mut ladder = Ladder::default();
                ladder.note(CANDIDATE, 0.0, Err(reason));
                Ok(ladder.finish(None))
            }
        }
    }

    /// Whether cells run on a GPU, where a sanitizer can check them.
    #[must_use]
    pub fn runs_on_gpu(&self) -> bool {
        self.checked_by_sanitizer().is_some()
    }

    /// As torch names the device, where compute-sanitizer can check kernels on it.
    fn checked_by_sanitizer(&self) -> Option<&'static str> {
        match self.bench.device.profiler() {
            Profiler::Nvidia { torch_name, .. } => Some(torch_name),
            Profiler::Processors | Profiler::Missing(_) => None,
        }
    }

    fn profile_on_cpu(&mut self, source: &str, time_us: Option<f64>, observer: &dyn Observer) -> Result<Profile> {
        let mut ladder = Ladder::default();
        if !self.bench.options.place.is_timed() {
            let reason = "the CPU profile reads compiled C++; kernels of this target are not run on their device here";
            ladder.note(CANDIDATE, 0.0, Err(reason.to_owned()));
            return Ok(ladder.finish(None));
        }
        let begun = Instant::now();
        let mut outcome = Outcome::begin(self, CANDIDATE, source);
        let built = self.bench.build(source, &[], &mut outcome, observer).because(DOES_NOT_BUILD).or_reason()?;
        let mut arm = match built {
            Ok(arm) => arm,
            Err(reason) => {
                ladder.note(CANDIDATE, begun.elapsed().as_secs_f64(), Err(reason));
                return Ok(ladder.finish(None));
            }
        };
        observer.stage("running the candidate");
        let called = self.call_a_few(&mut arm, source, time_us).or_reason()?;
        let time_us = called.as_ref().ok().copied().or(time_us);
        ladder.note(CANDIDATE, begun.elapsed().as_secs_f64(), called.map(timed));
        let sampled = if ladder.has(CANDIDATE) {
            observer.stage("profiling with perf");
            self.watch(&mut arm, time_us.unwrap_or(1e6), &mut ladder)?
        } else {
            None
        };
        observer.stage("looking at what was built");
        self.inspect(arm.sandbox, sampled, &mut ladder)?;
        observer.stage("profiling the reference");
        let reference = self.reference(&mut ladder, observer)?;
        let roofline = time_us.map(|time_us| self.place(&reference, time_us, &mut ladder, observer));
        Ok(ladder.finish(roofline))
    }

    /// Verified calls with cold caches: the first ones warm up, the others are timed.
    fn call_a_few(&mut self, arm: &mut Arm, source: &str, known_us: Option<f64>) -> Tried<f64> {
        arm.construct(0, self.bench.options.timeout).because(NOT_CONSTRUCTED)?;
        let calls = if known_us.is_some() { WARM_UP } else { WARM_UP + TIMED_CALLS };
        let mut times = Vec::new();
        for number in 0..calls {
            // As in timing: once the pools have their threads, each is held on a core of its own.
            if number == WARM_UP - 1 {
                let placed = arm.ask(op::Pin(!starts_threads(source)), self.call_limit());
                placed.because("its threads cannot be placed")?;
            }
            let set = self.bench.referee.set(0, OWN, number % RING)?;
            let limit = if number == 0 { self.bench.options.timeout } else { self.call_limit() };
            let how = if number < WARM_UP { How::idle(limit) } else { How::cold(limit) };
            let called = self.bench.call(arm, &set, how);
            let sample = called.denied(|verdict| refused(verdict, "not profiled"))?;
            if number >= WARM_UP {
                times.push(sample.inside_us);
            }
        }
        Ok(known_us.or_else(|| median(&times)).ok_or_else(|| "no call was timed".to_owned())?)
    }

    /// Hardware counters, then samples by clock, while the candidate is called again and again.
    fn watch(&mut self, arm: &mut Arm, time_us: f64, ladder: &mut Ladder) -> Result<Option<Sampled>> {
        let begun = Instant::now();
        let perf = match Perf::find() {
            Ok(perf) => perf,
            Err(reason) => {
                ladder.note(COUNTERS, begun.elapsed().as_secs_f64(), Err(reason.clone()));
                ladder.note(SAMPLES, 0.0, Err(reason));
                return Ok(None);
            }
        };
        let pids = perf::descendants(arm.sandbox.pid);
        if pids.is_empty() {
            let reason = "the candidate's processes cannot be seen from here, so perf cannot attach; run kforge and its \
                          Python in the same process namespace";
            ladder.note(COUNTERS, begun.elapsed().as_secs_f64(), Err(reason.to_owned()));
            ladder.note(SAMPLES, 0.0, Err(reason.to_owned()));
            return Ok(None);
        }
        let calls = (50_000.0 / time_us).clamp(1.0, 500.0) as u64;
        let watched = Watched { perf, pids, calls };
        let counted = self.count(arm, &watched).or_reason()?;
        ladder.note(COUNTERS, begun.elapsed().as_secs_f64(), counted);
        let begun = Instant::now();
        let samples = self.sample(arm, &watched).or_reason()?;
        Ok(Some(Sampled { version: watched.perf.version, seconds: begun.elapsed().as_secs_f64(), samples }))
    }

    fn count(&mut self, arm: &mut Arm, watched: &Watched) -> Tried<Report> {
        let Watched { perf, pids, calls } = watched;
        let said = self.beside(arm, *calls, perf.stat(pids, counters::EVENTS))?.stderr_text();
        let mut counts = counters::parse(&said);
        if !counts.contains_key("cycles") {
            return Err(Failure::Denied(no_perf(&said)));
        }
        // In a run of its own: one event that perf does not know ends it for all.
        if let Some(events) = counters::float_events(&cpuinfo())
            && let Ok(output) = self.beside(arm, *calls, perf.stat(pids, events)).or_reason()?
        {
            counts.extend(counters::parse(&output.stderr_text()));
        }
        let nothing = || Err("perf counted no cycles; the candidate may have slept all the time".to_owned());
        Ok(counters::report(&perf.version, &counts).unwrap_or_else(nothing)?)
    }

    fn sample(&mut self, arm: &mut Arm, watched: &Watched) -> Tried<samples::Samples> {
        let Watched { perf, pids, calls } = watched;
        let folder = tempfile::tempdir().map_err(|_| "there is no temporary folder".to_owned())?;
        let file = folder.path().join("perf.data");
        let output = self.beside(arm, *calls, perf.record(pids, &file))?;
        if !output.status.success() || !file.exists() {
            return Err(Failure::Denied(no_perf(&output.stderr_text())));
        }
        let scratch = arm.sandbox.scratch().to_string_lossy().into_owned();
        let size = std::fs::metadata(&file).map_or(0, |meta| meta.len());
        let data = if size <= MOST_RECORDED { std::fs::read(&file).unwrap_or_default() } else { Vec::new() };
        let why = match samples::parse(&data, &scratch) {
            Some(samples) if samples.total >= FEWEST_SAMPLES => return Ok(samples),
            Some(_) => "perf took too few samples; the candidate may have slept, or the machine is busy",
            None => "what perf recorded cannot be read; its version may be too new",
        };
        Err(Failure::Denied(why.to_owned()))
    }

    /// Runs a command while the candidate is called with the same inputs, warm.
    fn beside(&mut self, arm: &mut Arm, calls: u64, command: Command) -> Tried<crate::process::Output> {
        let set = self.bench.referee.set(0, OWN, 0)?;
        let again = self.bench.opened.writes;
        let calls = if again { 1 } else { calls };
        let limit = self.bench.options.timeout;
        // Its end is waited for, whatever comes of the calls.
        std::thread::scope(|scope| {
            let running = scope.spawn(move || perf::run(command));
            while !running.is_finished() {
                if again {
                    self.bench.lay(arm, &set)?;
                }
                arm.ask(op::Repeat(calls), limit).because("a call failed while perf looked on")?;
            }
            Ok(running.join().unwrap_or_else(|_| Err("perf could not be waited for".to_owned()))?)
        })
    }

    /// Compiler reports and disassembly, by a process in the candidate's sandbox; then the samples' functions.
    fn inspect(&mut self, mut sandbox: Sandbox, sampled: Option<Sampled>, ladder: &mut Ladder) -> Result<()> {
        #[derive(Deserialize)]
        struct Builds {
            #[serde(default)]
            builds: Vec<vectorise::Build>,
            error: Option<String>,
        }
        #[derive(Deserialize)]
        struct Codes {
            #[serde(default)]
            tool: String,
            #[serde(default)]
            libraries: Vec<disassembly::Code>,
            error: Option<String>,
        }
        sandbox.clear(&[])?;
        let scratch = sandbox.scratch().to_string_lossy().into_owned();
        let spec = json!({"role": "inspector", "output_bytes": ANSWER_BYTES});
        let env = self.bench.spec_maker().environment(sandbox.scratch(), None);
        let mut cell = Cell::spawn(&mut sandbox, &spec, &env, Slots::plain((4096, ANSWER_BYTES))?, &[])?;
        let begun = Instant::now();
        let reported = ask::<Builds>(&mut cell, &mut sandbox, Look::Report).or_reason()?;
        let reported = reported.and_then(|answer| answer.error.map_or_else(|| vectorise::report(&answer.builds), Err));
        let report_s = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let codes = ask::<Codes>(&mut cell, &mut sandbox, Look::Disassemble).or_reason()?;
        let codes = codes.and_then(|codes| codes.error.clone().map_or(Ok(codes), Err));
        let libraries: Vec<Library> =
            codes.as_ref().map(|codes| codes.libraries.iter().map(disassembly::parse).collect()).unwrap_or_default();
        let listed_s = begun.elapsed().as_secs_f64();
        let heat = sampled.map(|sampled| heat(sampled, &libraries, &scratch, ladder)).unwrap_or_default();
        ladder.note(REPORT, report_s, reported);
        let machine = Width::of(&cpuinfo());
        let told = codes.and_then(|codes| disassembly::report(&codes.tool, &libraries, &heat, machine));
        ladder.note(DISASSEMBLY, listed_s, told);
        Ok(())
    }

    fn place(&mut self, reference: &Reference, time_us: f64, ladder: &mut Ladder, observer: &dyn Observer) -> Roofline {
        observer.stage("measuring peak bandwidth and FLOP/s");
        let begun = Instant::now();
        let named = self.bench.options.toolchains.pointer("/cpp/compilers").and_then(Value::as_array);
        let compilers = named.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let bench = peaks::Bench {
            cache: &self.bench.options.cache,
            compilers,
            cpu: &self.bench.device_info.name,
            threads: self.bench.options.threads,
            last_level_cache: self.bench.device_info.last_level_cache,
            fresh: self.bench.options.fresh,
        };
        let least = self.least_bytes();
        let load = |peaks: &peaks::Peaks| roofline::Load {
            bytes: least,
            flops: reference.flops(),
            bandwidth: peaks.bandwidth(),
            flops_per_s: Some(peaks.flops),
        };
        let mut measured = bench.peaks(false);
        // A candidate that beats the machine is a reason to look at the machine again before it is said.
        if measured.as_ref().is_ok_and(|peaks| time_us < roofline::place(load(peaks), time_us).floor_us) {
            measured = bench.peaks(true);
        }
        let (load, how) = match measured {
            Ok(peaks) => (load(&peaks), "memory by reads and a triad".to_owned()),
            Err(reason) => {
                self.bench.device.empty_caches();
                self.bench.device.empty_caches();
                let bandwidth = self.bench.device.bandwidth_seen().unwrap_or_default();
                let load = roofline::Load { bytes: least, flops: reference.flops(), bandwidth, flops_per_s: None };
                (load, format!("memory by plain reads only, no arithmetic ({reason})"))
            }
        };
        let roofline = roofline::place(load, time_us);
        let detail = format!(
            "{how}, {} threads; bytes: inputs, weights and outputs once each; operations: products, convolutions and \
             attention exactly, one for each element of other operators",
            self.bench.options.threads
        );
        let report = Report {
            detail,
            found: vec![roofline::words(&roofline, roofline::Limits::Measured)],
            documents: Vec::new(),
        };
        ladder.note(ROOFLINE, begun.elapsed().as_secs_f64(), Ok(report));
        roofline
    }

    /// Inputs, weights and outputs of the problem's own sizes, once each.
    fn least_bytes(&self) -> f64 {
        self.bench.opened.variants.first().map_or(0.0, least_bytes)
    }
}

/// Notes what was sampled; parts of the time by function and loop.
fn heat<'a>(sampled: Sampled, libraries: &'a [Library], scratch: &str, ladder: &mut Ladder) -> Heat<'a> {
    let mut heat = Heat::default();
    let told = sampled.samples.map(|samples| {
        heat.functions = samples::shares(&samples, libraries, scratch);
        heat.loops = samples::hot_loops(&samples, libraries, scratch);
        let root = Path::new(scratch).parent().unwrap_or(Path::new(scratch));
        samples::report(&sampled.version, &samples, &heat.functions, &perf::torch_symbols(&samples, root))
    });
    ladder.note(SAMPLES, sampled.seconds, told);
    heat
}

/// One answer of an inspector. It loads none of the candidate's code, but all that it reads was written by it.
fn ask<T: DeserializeOwned>(cell: &mut Cell, sandbox: &mut Sandbox, look: Look) -> Tried<T> {
    let asked = cell.ask(sandbox, op::Inspect(look), INSPECT_LIMIT);
    let answer = asked.because("what was built could not be looked at")?;
    let said = cell.slots.said(answer.length)?;
    Ok(serde_json::from_slice(&said).map_err(|error| format!("what was built could not be read: {error}"))?)
}

/// Why perf gave nothing, by what it said.
fn no_perf(said: &str) -> String {
    counters::reason(said, perf::paranoid(), rustix::process::geteuid().is_root())
}

/// Why a candidate that does not give the right output goes no further.
fn refused(verdict: &Verdict, outcome: &str) -> String {
    let what = if verdict.state == State::Mismatch { "its output is wrong" } else { "a call fails" };
    format!("{what}: {outcome}; {}", verdict.reason)
}

fn timed(time_us: f64) -> Report {
    Report { detail: format!("runs; {time_us:.1} us a call with cold caches"), ..Report::default() }
}

fn least_bytes(variant: &Map<String, Value>) -> f64 {
    let field = |value: &Value| value.get("nbytes").and_then(Value::as_f64).unwrap_or(0.0);
    let all = |name: &str| variant.get(name).and_then(Value::as_array).into_iter().flatten();
    let weights = all("weights").filter_map(|weight| weight.get("field"));
    all("inputs").chain(all("outputs")).chain(weights).map(field).sum()
}

fn cpuinfo() -> String {
    std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kforge_types::Kind;

    #[test]
    fn a_wrong_output_is_called_so_with_its_reason() {
        let wrong = Verdict::of(Kind::Numeric, "3 of 9 elements differ");
        assert_eq!(refused(&wrong, "not profiled"), "its output is wrong: not profiled; 3 of 9 elements differ");
        let raised = Verdict::of(Kind::Exception, "ValueError");
        assert_eq!(refused(&raised, "not checked"), "a call fails: not checked; ValueError");
    }
}
