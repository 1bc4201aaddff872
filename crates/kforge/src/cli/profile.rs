//! `kforge profile`: where a candidate's time goes, in words.

use super::{Usage, eval, executor::ExecutorArgs, guard_args::GuardArgs, pick_target, printer::Printer};
use crate::{config::Baselines, driver::evaluator::Evaluator, job::JobOptions, target, view};
use clap::Args;
use kforge_exec::{ProfileOptions, Session};
use kforge_types::{Contract, Profile, SandboxLevel, Severity, State, Target};
use std::path::PathBuf;

/// Say where a candidate's time goes and what stands in its way.
///
/// On an NVIDIA GPU it tries Nsight Compute on the candidate's own kernels, what the compiler gave them, their machine
/// code, torch's profiler, and a roofline from the GPU's clocks and widths. On the CPU it tries hardware counters, samples by clock, the compiler's vectorisation report, disassembly, torch's profiler on
/// the reference, and a roofline that is measured on this machine. Each either gives findings or the reason why it
/// cannot, with what would mend that. The candidate runs in a sandbox; its verdict is the business of `kforge eval`.
///
/// Exit code: 0 when the candidate ran, 11 when it did not or compute-sanitizer found an error, 13 when a source rule refuses it, 2 for wrong use, a
/// problem that cannot be judged or a compiler that is missing here, 70 for a failure of kforge itself.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ProfileArgs {
    /// The problem: a Python file with Model, get_inputs and get_init_inputs.
    problem: PathBuf,
    /// The candidate.
    candidate: PathBuf,
    /// Accelerator and programming model (see `kforge targets`) [default: seen by what the candidate imports and builds].
    #[arg(long)]
    target: Option<Target>,
    /// Print the profile as one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Microseconds of one call as `kforge eval` measured it [default: a few calls are timed].
    #[arg(long, value_name = "MICROSECONDS")]
    time_us: Option<f64>,
    /// Threads of the candidate [default: all cores].
    #[arg(long)]
    threads: Option<usize>,
    /// Seconds that building, constructing or one call may take.
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// Memory of the candidate's processes together, in GiB.
    #[arg(long, default_value_t = 4.0)]
    memory: f64,
    /// Measure the machine's limits anew instead of using kept ones.
    #[arg(long)]
    fresh: bool,
    /// On an NVIDIA GPU: the chosen metrics of Nsight Compute, or all of its full set, which takes much longer.
    #[arg(long, value_enum, default_value_t = Metrics::Chosen)]
    metrics: Metrics,
    /// On an NVIDIA GPU: check the candidate with compute-sanitizer too (memory, races, uninitialised reads, barriers).
    #[arg(long)]
    sanitize: bool,
    #[command(flatten)]
    rules: GuardArgs,
    /// The Python with torch [default: KFORGE_PYTHON, an active environment, python3, or one that kforge makes].
    #[arg(long)]
    python: Option<PathBuf>,
    /// Which GPU, counted from 0 among those that are visible [default: the first one, if there is any].
    #[arg(long)]
    device: Option<usize>,
    #[command(flatten)]
    executor: ExecutorArgs,
}

/// How much a profiler is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Metrics {
    /// Those that go with run time over many kernels, and what findings need.
    Chosen,
    /// The full set.
    All,
}

impl ProfileArgs {
    fn wanted(&self) -> ProfileOptions {
        ProfileOptions { time_us: self.time_us, all_metrics: self.metrics == Metrics::All }
    }
}

pub(crate) fn profile(args: &ProfileArgs, printer: &Printer) -> anyhow::Result<u8> {
    if args.time_us.is_some_and(|us| !(us.is_finite() && us > 0.0)) {
        return Err(Usage("--time-us takes a positive number of microseconds".to_owned()).into());
    }
    std::fs::metadata(&args.problem)
        .map_err(|error| Usage(format!("cannot read the problem {}: {error}", args.problem.display())))?;
    let source = std::fs::read_to_string(&args.candidate)
        .map_err(|error| Usage(format!("cannot read the candidate {}: {error}", args.candidate.display())))?;
    let name = args.candidate.display().to_string();
    let target = pick_target::for_candidates(args.target.as_ref(), [(&*name, &*source)].into_iter(), printer)?;
    let imports = target::imports(Some(&target)).map_err(|error| Usage(error.to_string()))?;
    let report = kforge_guard::check(&source, &args.rules.settings(imports)?);
    if let Some(hard) = report.findings.iter().find(|finding| finding.severity == Severity::Hard) {
        printer.note(&format!("{name}:{}: {}: {}; `kforge guard` says more", hard.line, hard.rule, hard.message));
        return Ok(State::GenerationFailure.exit_code());
    }
    let options = options(args, target);
    let remote = args.executor.remote(&args.problem, options.clone(), args.python.as_deref())?;
    let (found, checked) = if let Some(mut remote) = remote {
        if args.sanitize {
            return Err(Usage("--sanitize works in place only: run it where the GPU is".to_owned()).into());
        }
        (remote.profile(&source, args.wanted(), printer)?, None)
    } else {
        let options = options.here(&eval::here(args.python.clone(), args.device, printer)?)?;
        let mut session = Session::open(options, &args.problem, printer)?;
        let found = session.profile(&source, args.wanted(), printer)?;
        (found, if args.sanitize { Some(session.sanitize(&source, printer)?) } else { None })
    };
    printer.idle();
    printer.answer(&if args.json {
        let mut answer = serde_json::to_value(&found)?;
        if let (Some(fields), Some(checked)) = (answer.as_object_mut(), &checked) {
            fields.insert("sanitizer".to_owned(), serde_json::to_value(checked)?);
        }
        answer.to_string()
    } else {
        let checked = checked.as_ref().map(|checked| format!("\n\n{}", view::sanitizer(checked))).unwrap_or_default();
        format!("{}{checked}", view::profile(&name, &found))
    });
    let sent_back = checked.is_some_and(|checked| checked.digest().is_some());
    Ok(if ran(&found) && !sent_back { 0 } else { State::RuntimeError.exit_code() })
}

/// The first rung is the candidate itself.
fn ran(profile: &Profile) -> bool {
    profile.sources.first().is_some_and(|source| source.had)
}

fn options(args: &ProfileArgs, target: Target) -> JobOptions {
    let timeout = args.timeout.max(1) as f64;
    JobOptions {
        target,
        arch: None,
        contract: Contract::default(),
        baselines: Baselines::Eager,
        threads: args.threads,
        timeout_s: timeout,
        problem_timeout_s: timeout,
        time_budget_s: 1.0,
        fresh: args.fresh,
        kept_baselines: true,
        no_timing: true,
        require_idle: false,
        require_sandbox: SandboxLevel::None,
        namespaces: true,
        memory_gib: args.memory,
    }
}
