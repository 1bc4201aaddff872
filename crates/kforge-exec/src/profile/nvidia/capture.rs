//! Nsight Compute on one candidate: started, and asked again where the first answer was of no use.

use super::{
    counters,
    metrics::{self, Kept},
    names, ncu,
    tool::{self, Call, Program, Running, Solo},
};
use crate::{
    failure::{Failure, Tried},
    judge::{Session, build::CANDIDATE_FILE, verify::OWN},
    memory::Sealed,
    sandbox::Sandbox,
};
use std::time::Duration;

const WARM_UP: u64 = 3;
const CHOSEN_LIMIT: Duration = Duration::from_mins(1);
const FULL_LIMIT: Duration = Duration::from_mins(3);
/// Starts of the profiler until it has all metrics that it knows.
const MOST_STARTS: usize = 4;

/// The candidate that a tool is to run.
#[derive(Clone, Copy)]
pub(super) struct Under<'a> {
    pub(super) device: &'a str,
    pub(super) source: &'a str,
    pub(super) weights: &'a Sealed,
}

/// What Nsight Compute is asked, once and again.
pub(super) struct Asking {
    pub(super) program: Program,
    chip: String,
    pub(super) kept: Kept,
    pattern: Option<String>,
    everything: bool,
}

impl Asking {
    /// `own` are the mangled names of the kernels to look at.
    pub(super) fn new(session: &Session, program: Program, own: &[String], everything: bool) -> Self {
        let chip = format!("{} {}", session.bench.options.arch, session.bench.device_info.name);
        let kept = Kept::open(&session.bench.options.cache, &chip, &program.version);
        Self { program, chip, kept, pattern: names::pattern(own), everything }
    }

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
            // Nobody else uses the GPU meanwhile.
            waits: false,
        }
    }
}

impl Session {
    /// Starts a tool with the candidate under it.
    pub(super) fn start_solo(
        &mut self,
        sandbox: &mut Sandbox,
        call: &Call,
        under: Under<'_>,
        warm_up: u64,
    ) -> Tried<Running> {
        let set = self.bench.referee.set(0, OWN, 0)?;
        let maker = self.bench.spec_maker();
        let mut spec = maker.solo(under.source, CANDIDATE_FILE, under.device);
        spec["warm_up"] = warm_up.into();
        spec["calls"] = 1.into();
        let environment = maker.environment(sandbox.scratch(), None);
        let input_bytes = self.bench.opened.input_bytes;
        let solo = Solo { spec, environment, inputs: &set, input_bytes, weights: under.weights };
        Running::start(sandbox, call, &solo, &mut self.bench.referee)
    }

    /// Starts the profiler; the candidate runs under it as soon as torch is imported.
    pub(super) fn start_counting(
        &mut self,
        sandbox: &mut Sandbox,
        asking: &Asking,
        under: Under<'_>,
    ) -> Tried<Running> {
        self.start_solo(sandbox, &asking.call(), under, WARM_UP)
    }

    /// The numbers, asking again without what this chip does not have, or without the filter that nothing fitted.
    pub(super) fn count_on_gpu(
        &mut self,
        sandbox: &mut Sandbox,
        asking: &mut Asking,
        first: Running,
        under: Under<'_>,
    ) -> Tried<ncu::Log> {
        let mut running = first;
        for start in 1..=MOST_STARTS {
            let limit_s = asking.call().limit.as_secs();
            let ended = running.collect(sandbox)?;
            tool::keep_raw(&format!("ncu-{start}"), &ended);
            let log = ncu::parse(&ended.log);
            let missing = log.lacks(&metrics::asked(&asking.kept.absent));
            let news = asking.kept.add(&asking.chip, &asking.program.version, &missing);
            if !log.launches.is_empty() {
                return Ok(log);
            }
            // Kernels that are only ever in memory are on no list of what was built, and fit no filter made of it.
            let nothing_fitted = ended.status.done && log.connected && log.errors.is_empty();
            let unfiltered = !news && nothing_fitted && asking.pattern.take().is_some();
            if (!news && !unfiltered) || start == MOST_STARTS {
                let failed = if ended.status.done { String::new() } else { ended.program() };
                let program = format!("{failed}\n{}", ended.output);
                return Err(Failure::Denied(ncu::denied(&log, &program, ended.timed_out, limit_s)));
            }
            running = self.start_counting(sandbox, asking, under)?;
        }
        Err(Failure::Denied("Nsight Compute was asked often enough".to_owned()))
    }
}
