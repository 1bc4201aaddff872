//! The rungs in their order. What can be done while a profiler's process still imports torch is done meanwhile.

use super::{
    super::{
        CANDIDATE, ProfileOptions, REFERENCE_LIMIT, ROOFLINE,
        ladder::{Ladder, Report, Tried},
        operators::Reference,
        roofline, timed,
    },
    counters,
    device::{Device, Multiply},
    findings::Scene,
    kernels::{self, Seen},
    metrics::{self, Kept},
    names, ncu,
    resources::{self, Resources},
    sass::{self, Facts, Wants},
    tool::{self, Call, Part, Program, Running, Solo},
};
use crate::{
    cell::Op,
    error::Result,
    judge::{
        Observer, Session,
        arm::Arm,
        outcome::Outcome,
        spec::Special,
        verify::{CANDIDATE_FILE, OWN},
    },
    memory::Sealed,
    sandbox::Sandbox,
};
use kforge_types::{Precision, Profile, Roofline};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

const NCU: &str = "Nsight Compute";
const RESOURCES: &str = "compiler resources";
const SASS: &str = "machine code";
const KERNELS: &str = "torch profiler, candidate";

const WARM_UP: u64 = 3;
const KERNEL_CALLS: u64 = 5;
const CHOSEN_LIMIT: Duration = Duration::from_mins(1);
const FULL_LIMIT: Duration = Duration::from_mins(3);
/// Starts of the profiler until it has all metrics that it knows.
const MOST_STARTS: usize = 4;

/// What was built, as far as it could be read.
#[derive(Default)]
pub(super) struct Built {
    /// Mangled names.
    pub(super) own: Vec<String>,
    pub(super) facts: BTreeMap<String, Facts>,
    resources: BTreeMap<String, Resources>,
    triton: Vec<resources::TritonKernel>,
    tool: String,
    /// Why code that is there could not be read.
    missing: Option<&'static str>,
}

/// What Nsight Compute is asked, once and again.
struct Asking {
    program: Program,
    chip: String,
    kept: Kept,
    pattern: Option<String>,
    everything: bool,
}

impl Asking {
    fn call(&self) -> Call {
        Call {
            program: self.program.path.clone(),
            arguments: counters::arguments(
                &metrics::asked(&self.kept.absent),
                self.everything,
                self.pattern.as_deref(),
            ),
            environment: [("NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT".to_owned(), "1".to_owned())].into(),
            limit: if self.everything { FULL_LIMIT } else { CHOSEN_LIMIT },
        }
    }
}

impl Session {
    /// Profiles one candidate on the GPU `device`, which this session's cells use.
    pub(in crate::profile) fn profile_on_gpu(
        &mut self,
        device: &str,
        source: &str,
        options: ProfileOptions,
        observer: &dyn Observer,
    ) -> Result<Profile> {
        let mut ladder = Ladder::default();
        let begun = Instant::now();
        let mut outcome = Outcome::begin(self, CANDIDATE, source);
        let Some(mut arm) = self.build(source, &[Special::default()], &mut outcome, observer)? else {
            let reason = format!("it does not build: {}", outcome.verdict.reason);
            ladder.note(CANDIDATE, begun.elapsed().as_secs_f64(), Err(reason));
            return Ok(ladder.finish(None));
        };
        observer.stage("running the candidate");
        let called = self.call_a_few(&mut arm, source, options.time_us)?;
        let time_us = called.as_ref().ok().copied().or(options.time_us);
        let runs = called.is_ok();
        ladder.note(CANDIDATE, begun.elapsed().as_secs_f64(), called.map(timed));
        if !runs {
            return Ok(ladder.finish(None));
        }
        observer.stage("looking at what was built");
        let begun = Instant::now();
        let mut built = self.read_built(&mut arm.sandbox)?;
        let mut code_s = begun.elapsed().as_secs_f64();
        observer.stage("profiling with Nsight Compute");
        let begun = Instant::now();
        let weights = self.referee.weights(&self.opened)?;
        let mut asking = Program::find("ncu").map(|program| {
            let chip = format!("{} {}", self.options.arch, self.device.name);
            let kept = Kept::open(&self.options.cache, &chip, &program.version);
            let pattern = built.as_ref().ok().and_then(|built| names::pattern(&built.own));
            Asking { program, chip, kept, pattern, everything: options.all_metrics }
        });
        let running = match (&asking, weights.first()) {
            (Some(asking), Some(weights)) => {
                Some(self.start_solo(&mut arm.sandbox, &asking.call(), device, source, weights, WARM_UP)?)
            }
            _ => None,
        };
        // From here on the profiler's process imports torch.
        if let Ok(built) = &mut built {
            let begun = Instant::now();
            self.read_instructions(&mut arm.sandbox, built)?;
            code_s += begun.elapsed().as_secs_f64();
        }
        let seen_begun = Instant::now();
        let seen = kernels_of(&mut arm)?;
        let seen_s = seen_begun.elapsed().as_secs_f64();
        let mut reference_rung = Ladder::default();
        let reference = self.reference(&mut reference_rung, observer)?;
        let scene = self.scene(&reference, &seen.device);
        let counted = match (&mut asking, running) {
            (Some(asking), Some(running)) => {
                let log = match running {
                    Ok(running) => {
                        let largest = seen.largest_own().map(names::plain);
                        let again = Again { device, source, weights: &weights, largest };
                        self.count_on_gpu(&mut arm.sandbox, asking, running, &again)?
                    }
                    Err(reason) => Err(reason),
                };
                let detail = format!("Nsight Compute {}, cold caches, clocks as they are", asking.program.version);
                let empty = Built::default();
                let built = built.as_ref().unwrap_or(&empty);
                log.and_then(|log| {
                    counters::report(&detail, &log, &built.own, &built.facts, &scene, &asking.kept.absent)
                })
            }
            _ => Err("ncu is not there; install Nsight Compute, or put it on PATH".to_owned()),
        };
        ladder.note(NCU, begun.elapsed().as_secs_f64(), counted);
        note_code(&mut ladder, code_s, built, &seen, &scene);
        ladder.note(KERNELS, seen_s, kernels::report(&self.versions.torch, &seen, time_us));
        ladder.append(reference_rung);
        let roofline = time_us.and_then(|time_us| self.place_on_gpu(&reference, &seen.device, time_us, &mut ladder));
        Ok(ladder.finish(roofline))
    }

    /// Names and resources of what was built.
    pub(super) fn read_built(&mut self, sandbox: &mut Sandbox) -> Result<std::result::Result<Built, String>> {
        let environment = self.spec_maker().environment(sandbox.scratch(), None);
        Ok(tool::code(sandbox, &environment, Part::Resources)?.map(|code| {
            let mut built = Built { triton: code.triton, tool: code.tool, ..Built::default() };
            // Newest first: of several builds of one kernel the last is the one that ran.
            for (name, found) in code.files.iter().flat_map(|file| resources::parse(&file.usage)) {
                built.resources.entry(name).or_insert(found);
            }
            built.own = built.resources.keys().cloned().chain(built.triton.iter().map(|k| k.name.clone())).collect();
            built.own.sort();
            built.own.dedup();
            if code.found > 0 && built.tool.is_empty() {
                built.missing = Some("cuobjdump is not there; it comes with the CUDA toolkit and with Triton");
            }
            built
        }))
    }

    /// Adds what its instructions are.
    pub(super) fn read_instructions(&mut self, sandbox: &mut Sandbox, built: &mut Built) -> Result<()> {
        let environment = self.spec_maker().environment(sandbox.scratch(), None);
        let code = tool::code(sandbox, &environment, Part::Sass)?.unwrap_or_default();
        for (name, found) in code.files.iter().flat_map(|file| sass::parse(&file.sass)) {
            built.facts.entry(name).or_insert(found);
        }
        Ok(())
    }

    /// Starts a tool with the candidate under it.
    pub(super) fn start_solo(
        &mut self,
        sandbox: &mut Sandbox,
        call: &Call,
        device: &str,
        source: &str,
        weights: &Sealed,
        warm_up: u64,
    ) -> Result<std::result::Result<Running, String>> {
        let set = self.referee.set(0, OWN, 0)?;
        let maker = self.spec_maker();
        let mut spec = maker.solo(source, CANDIDATE_FILE, device);
        spec["warm_up"] = warm_up.into();
        spec["calls"] = 1.into();
        let environment = maker.environment(sandbox.scratch(), None);
        let input_bytes = self.opened.input_bytes;
        let solo = Solo { spec, environment, inputs: &set, input_bytes, weights };
        Running::start(sandbox, call, &solo, &mut self.referee)
    }

    /// The numbers, asking again without what this chip does not have, or without the filter that nothing fitted.
    fn count_on_gpu(
        &mut self,
        sandbox: &mut Sandbox,
        asking: &mut Asking,
        first: Running,
        again: &Again<'_>,
    ) -> Result<std::result::Result<ncu::Log, String>> {
        let mut running = first;
        for start in 1..=MOST_STARTS {
            let limit_s = asking.call().limit.as_secs();
            let ended = match running.collect(sandbox)? {
                Ok(ended) => ended,
                Err(reason) => return Ok(Err(reason)),
            };
            tool::keep_raw(&format!("ncu-{start}"), &ended);
            let log = ncu::parse(&ended.log);
            let missing: Vec<String> = log.unknown.iter().chain(&log.empty).cloned().collect();
            let news = asking.kept.add(&asking.chip, &asking.program.version, &missing);
            // Kernels that are only ever in memory are on no list of what was built, and fit no filter made of it.
            let names: Vec<String> = log.launches.iter().map(|launch| names::plain(&launch.kernel)).collect();
            let seen = again.largest.as_ref().is_none_or(|largest| names.contains(largest));
            if !names.is_empty() && (seen || asking.pattern.is_none() || start == MOST_STARTS) {
                return Ok(Ok(log));
            }
            let unfiltered = !news && asking.pattern.take().is_some();
            if (!news && !unfiltered) || start == MOST_STARTS {
                let program = if ended.status.done { ended.output.clone() } else { ended.program() };
                return Ok(Err(ncu::denied(&log, &program, ended.timed_out, limit_s)));
            }
            let Some(weights) = again.weights.first() else { break };
            running = match self.start_solo(sandbox, &asking.call(), again.device, again.source, weights, WARM_UP)? {
                Ok(running) => running,
                Err(reason) => return Ok(Err(reason)),
            };
        }
        Ok(Err("Nsight Compute was asked often enough".to_owned()))
    }

    fn scene(&self, reference: &Reference, device: &Device) -> Scene {
        Scene {
            products: reference.product_flops.is_some_and(|flops| flops > 0.0),
            tensor_cores: self.multiply() != Multiply::Plain,
            multiprocessors: Some(device.multiprocessors).filter(|count| *count > 0.0),
            least_bytes: self.least_bytes(),
        }
    }

    fn multiply(&self) -> Multiply {
        match self.opened.contract.mul {
            Some(Precision::Tf32) => Multiply::Tf32,
            Some(Precision::Fp16 | Precision::Bf16) => Multiply::Half,
            Some(Precision::Fp8) => Multiply::Eighth,
            _ => Multiply::Plain,
        }
    }

    fn place_on_gpu(
        &self,
        reference: &Reference,
        device: &Device,
        time_us: f64,
        ladder: &mut Ladder,
    ) -> Option<Roofline> {
        let Some(peaks) = device.peaks(self.multiply()) else {
            let reason = "the driver does not say this GPU's clocks and widths".to_owned();
            ladder.note(ROOFLINE, 0.0, Err(reason));
            return None;
        };
        let products = reference.product_flops.zip(peaks.products);
        let others = reference.other_flops.zip(peaks.fp32);
        let seconds =
            products.map_or(0.0, |(flops, peak)| flops / peak) + others.map_or(0.0, |(flops, peak)| flops / peak);
        let flops = reference.flops();
        let flops_per_s = flops.filter(|_| seconds > 0.0).map(|flops| flops / seconds);
        let load = roofline::Load { bytes: self.least_bytes(), flops, bandwidth: peaks.bytes, flops_per_s };
        let roofline = roofline::place(load, time_us);
        let detail = format!(
            "{}: {:.0} GB/s and {} from its highest clocks; bytes: inputs, weights and outputs once each; products at \
             the contract's precision, other operators in single precision",
            device.name,
            peaks.bytes / 1e9,
            peaks.products.map_or("no figure for products".to_owned(), |peak| format!("{:.0} TFLOP/s", peak / 1e12))
        );
        let found = vec![roofline::words(&roofline, roofline::Limits::Rated)];
        ladder.note(ROOFLINE, 0.0, Ok(Report { detail, found, documents: Vec::new() }));
        Some(roofline)
    }
}

/// What a further start needs.
struct Again<'a> {
    device: &'a str,
    source: &'a str,
    weights: &'a [Sealed],
    /// The own kernel that takes longest, by another profiler.
    largest: Option<String>,
}

/// By torch's profiler, in the candidate's own process.
fn kernels_of(arm: &mut Arm) -> Result<Seen> {
    Ok(match arm.ask(Op::Kernels(KERNEL_CALLS), REFERENCE_LIMIT)? {
        Ok(_) => serde_json::from_str(&arm.cell.whole_detail()).unwrap_or_else(|error| Seen {
            error: Some(format!("its answer cannot be read: {error}")),
            ..Seen::default()
        }),
        Err(verdict) => Seen { error: Some(verdict.reason), ..Seen::default() },
    })
}

fn note_code(ladder: &mut Ladder, seconds: f64, built: std::result::Result<Built, String>, seen: &Seen, scene: &Scene) {
    let built = match built {
        Ok(built) => built,
        Err(reason) => {
            ladder.note(RESOURCES, seconds, Err(reason.clone()));
            ladder.note(SASS, 0.0, Err(reason));
            return;
        }
    };
    let because = |reason: String| built.missing.map_or(reason, str::to_owned);
    let resources: Tried = resources::report(&built.tool, &built.resources, &built.triton);
    ladder.note(RESOURCES, seconds, resources.map_err(because));
    let wants = Wants { products: scene.products, tensor_cores: scene.tensor_cores };
    let code = sass::report(&built.tool, &built.facts, &seen.own(), wants);
    ladder.note(SASS, 0.0, code.map_err(because));
}
