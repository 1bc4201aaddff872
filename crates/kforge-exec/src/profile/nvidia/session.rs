//! The rungs in their order. What can be done while a profiler's process still imports torch is done meanwhile.

use super::{
    super::{
        CANDIDATE, DOES_NOT_BUILD, ProfileOptions, ROOFLINE, kept,
        ladder::{Ladder, Report, Rung},
        operators::Reference,
        reference::REFERENCE_LIMIT,
        roofline, timed,
    },
    capture::{Asking, Under},
    counters,
    device::{Device, Multiply},
    findings::Scene,
    kernels::{self, Seen},
    resources::{self, Resources},
    sass::{self, Facts, Wants},
    tool::{self, Part, Program},
};
use crate::{
    device::Profiler,
    error::Result,
    failure::{OnFailure, Tried},
    judge::{Observer, Session, arm::Arm, outcome::Outcome, spec::Special},
    sandbox::Sandbox,
    wire::op,
};
use kforge_types::{Precision, Profile, Roofline};
use std::{collections::BTreeMap, time::Instant};

const NCU: &str = "Nsight Compute";
const RESOURCES: &str = "compiler resources";
const SASS: &str = "machine code";
const KERNELS: &str = "torch profiler, candidate";

const KERNEL_CALLS: u64 = 5;
const NO_READER: &str = "cuobjdump is not there; it comes with the CUDA toolkit and with Triton";

/// What was built, as far as it could be read.
#[derive(Default)]
pub(super) struct Built {
    /// Mangled names.
    pub(super) own: Vec<String>,
    pub(super) facts: BTreeMap<String, Facts>,
    resources: BTreeMap<String, Resources>,
    triton: Vec<resources::TritonKernel>,
    tool: String,
    code_tool: String,
    /// Files with device code, read or not.
    found: usize,
}

impl Built {
    /// Whether there is code that this tool would have read, were it there.
    fn unread(&self, tool: &str) -> bool {
        self.found > 0 && tool.is_empty()
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
        // Its version is asked for while the candidate is built.
        let looking = std::thread::spawn(|| Program::find("ncu"));
        let begun = Instant::now();
        let mut outcome = Outcome::begin(self, CANDIDATE, source);
        let built = self.bench.build(source, &[Special::default()], &mut outcome, observer);
        let mut arm = match built.because(DOES_NOT_BUILD).or_reason()? {
            Ok(arm) => arm,
            Err(reason) => {
                ladder.note(CANDIDATE, begun.elapsed().as_secs_f64(), Err(reason));
                return Ok(ladder.finish(None));
            }
        };
        observer.stage("running the candidate");
        let called = self.call_a_few(&mut arm, source, options.time_us).or_reason()?;
        let time_us = called.as_ref().ok().copied().or(options.time_us);
        let runs = called.is_ok();
        ladder.note(CANDIDATE, begun.elapsed().as_secs_f64(), called.map(timed));
        if !runs {
            return Ok(ladder.finish(None));
        }
        observer.stage("looking at what was built");
        let begun = Instant::now();
        let mut built = self.read_built(&mut arm.sandbox).or_reason()?;
        let built_s = begun.elapsed().as_secs_f64();
        observer.stage("profiling with Nsight Compute");
        let begun = Instant::now();
        let weights = self.bench.referee.weights(&self.bench.opened)?;
        let under = weights.first().map(|weights| Under { device, source, weights });
        let own = built.as_ref().map(|built| built.own.clone()).unwrap_or_default();
        let program = looking.join().unwrap_or_default();
        let mut asking = program.map(|program| Asking::new(self, program, &own, options.all_metrics));
        let running = match (&asking, under) {
            (Some(asking), Some(under)) => {
                Some((self.start_counting(&mut arm.sandbox, asking, under).or_reason()?, under))
            }
            _ => None,
        };
        // From here on the profiler's process imports torch, and goes on by itself.
        let code_begun = Instant::now();
        if let Ok(built) = &mut built {
            self.read_instructions(&mut arm.sandbox, built)?;
        }
        let code_s = code_begun.elapsed().as_secs_f64();
        let counted = match (&mut asking, running) {
            (Some(asking), Some((Ok(running), under))) => {
                self.count_on_gpu(&mut arm.sandbox, asking, running, under).or_reason()?
            }
            (_, Some((Err(reason), _))) => Err(reason),
            _ => Err("ncu is not there; install Nsight Compute, or put it on PATH".to_owned()),
        };
        let counted_s = begun.elapsed().as_secs_f64();
        let mut reference_rung = Ladder::default();
        let reference = self.reference(&mut reference_rung, observer)?;
        let chip = match self.bench.device.profiler() {
            Profiler::Nvidia { gpu, .. } => Device::from(gpu),
            Profiler::Processors | Profiler::Missing(_) => Device::default(),
        };
        let scene = self.scene(&reference, &chip, time_us);
        let mut ran: Vec<String> = counted.iter().flat_map(|log| &log.launches).map(|l| l.kernel.clone()).collect();
        let told = counted.and_then(|log| {
            let (version, absent) =
                asking.map(|asking| (asking.program.version, asking.kept.absent)).unwrap_or_default();
            let detail = format!("Nsight Compute {version}, cold caches, clocks as they are");
            let facts = built.as_ref().map(|built| built.facts.clone()).unwrap_or_default();
            counters::report(&detail, &log, &own, &facts, &scene, &absent)
        });
        let begun = Instant::now();
        let seen = self.kernels(&mut arm, source, told.is_err() || options.all_metrics)?;
        let seen_s = begun.elapsed().as_secs_f64();
        if ran.is_empty() {
            ran = seen.as_ref().map(|(seen, _)| seen.own()).unwrap_or_default();
        }
        ladder.note(NCU, counted_s, told);
        note_code(&mut ladder, (built_s, code_s), built, &ran, &scene);
        if let Some((seen, kept)) = &seen {
            let told = kernels::report(&self.bench.versions.torch, seen, time_us);
            ladder.note(KERNELS, seen_s, told.map(|report| if *kept { report.kept_before() } else { report }));
        }
        ladder.append(reference_rung);
        let roofline = time_us.and_then(|time_us| self.place_on_gpu(&reference, &chip, time_us, &mut ladder));
        Ok(ladder.finish(roofline))
    }

    /// The candidate's kernels by torch's profiler, whose start takes seconds: where they are wanted, else those of an
    /// earlier time, which is said.
    fn kernels(&mut self, arm: &mut Arm, source: &str, wanted: bool) -> Result<Option<(Seen, bool)>> {
        let file = self.kept_profile(&["kernels", source]);
        if !wanted {
            let kept = kept::read(&file).filter(|_| !self.bench.options.fresh);
            return Ok(kept.map(|seen| (seen, true)));
        }
        let seen = kernels_of(arm)?;
        if seen.error.is_none() && !seen.kernels.is_empty() {
            kept::write(&file, &seen, "the candidate's kernels");
        }
        Ok(Some((seen, false)))
    }

    /// Names and resources of what was built.
    pub(super) fn read_built(&mut self, sandbox: &mut Sandbox) -> Tried<Built> {
        let environment = self.bench.spec_maker().environment(sandbox.scratch(), None);
        let code = tool::code(sandbox, &environment, Part::Resources)?;
        let mut built = Built { triton: code.triton, tool: code.tool, found: code.found, ..Built::default() };
        // Newest first: of several builds of one kernel the last is the one that ran.
        for (name, found) in code.files.iter().flat_map(|file| resources::parse(&file.usage)) {
            built.resources.entry(name).or_insert(found);
        }
        built.own = built.resources.keys().cloned().chain(built.triton.iter().map(|k| k.name.clone())).collect();
        built.own.sort();
        built.own.dedup();
        Ok(built)
    }

    /// Adds what its instructions are.
    pub(super) fn read_instructions(&mut self, sandbox: &mut Sandbox, built: &mut Built) -> Result<()> {
        let environment = self.bench.spec_maker().environment(sandbox.scratch(), None);
        let code = tool::code(sandbox, &environment, Part::Sass).or_reason()?.unwrap_or_default();
        built.code_tool = code.tool;
        for (name, found) in code.files.iter().flat_map(|file| sass::parse(&file.sass)) {
            built.facts.entry(name).or_insert(found);
        }
        Ok(())
    }

    fn scene(&self, reference: &Reference, device: &Device, time_us: Option<f64>) -> Scene {
        Scene {
            products: reference.product_flops.is_some_and(|flops| flops > 0.0),
            tensor_cores: self.multiply() != Multiply::Plain,
            multiprocessors: Some(device.multiprocessors).filter(|count| *count > 0.0),
            least_bytes: self.least_bytes(),
            time_us,
        }
    }

    fn multiply(&self) -> Multiply {
        match self.bench.opened.contract.mul {
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

/// By torch's profiler, in the candidate's own process.
fn kernels_of(arm: &mut Arm) -> Result<Seen> {
    Ok(match arm.ask(op::Kernels(KERNEL_CALLS), REFERENCE_LIMIT).or_reason()? {
        Ok(_) => serde_json::from_str(&arm.cell.whole_detail()).unwrap_or_else(|error| Seen {
            error: Some(format!("its answer cannot be read: {error}")),
            ..Seen::default()
        }),
        Err(reason) => Seen { error: Some(reason), ..Seen::default() },
    })
}

fn note_code(
    ladder: &mut Ladder,
    (built_s, code_s): (f64, f64),
    built: std::result::Result<Built, String>,
    ran: &[String],
    scene: &Scene,
) {
    let built = match built {
        Ok(built) => built,
        Err(reason) => {
            ladder.note(RESOURCES, built_s, Err(reason.clone()));
            ladder.note(SASS, code_s, Err(reason));
            return;
        }
    };
    let because = |tool: &str, reason: String| if built.unread(tool) { NO_READER.to_owned() } else { reason };
    let resources: Rung = resources::report(&built.tool, &built.resources, &built.triton);
    ladder.note(RESOURCES, built_s, resources.map_err(|reason| because(&built.tool, reason)));
    let wants = Wants { products: scene.products, tensor_cores: scene.tensor_cores };
    let code = sass::report(&built.code_tool, &built.facts, ran, wants);
    ladder.note(SASS, code_s, code.map_err(|reason| because(&built.code_tool, reason)));
}
