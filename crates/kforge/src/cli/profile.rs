//! `kforge profile`: where a candidate's time goes, in words.

use super::{Usage, eval, executor::ExecutorArgs, guard_args::GuardArgs, printer::Printer};
use crate::{
    config::Baselines,
    driver::evaluator::{Evaluator, LiveEvaluator},
    job::JobOptions,
    target, view,
};
use clap::Args;
use kforge_types::{Contract, Profile, SandboxLevel, Severity, State, Target};
use std::path::PathBuf;

/// Say where a candidate's time goes and what stands in its way (target cpu/cpp).
///
/// Tries hardware counters, samples by clock, the compiler's vectorisation report, disassembly, torch's profiler on
/// the reference, and a roofline that is measured on this machine. Each either gives findings or the reason why it
/// cannot, with what would mend that. The candidate runs in a sandbox; its verdict is the business of `kforge eval`.
///
/// Exit code: 0 when the candidate ran, 11 when it did not, 13 when a source rule refuses it, 2 for wrong use or a
/// problem that cannot be judged, 70 for a failure of kforge itself.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ProfileArgs {
    /// The problem: a Python file with Model, get_inputs and get_init_inputs.
    problem: PathBuf,
    /// The candidate.
    candidate: PathBuf,
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
    #[command(flatten)]
    rules: GuardArgs,
    /// The Python with torch [default: KFORGE_PYTHON, an active environment, python3, or one that kforge makes].
    #[arg(long)]
    python: Option<PathBuf>,
    #[command(flatten)]
    executor: ExecutorArgs,
}

pub(crate) fn profile(args: &ProfileArgs, printer: &Printer) -> anyhow::Result<u8> {
    if args.time_us.is_some_and(|us| !(us.is_finite() && us > 0.0)) {
        return Err(Usage("--time-us takes a positive number of microseconds".to_owned()).into());
    }
    std::fs::metadata(&args.problem)
        .map_err(|error| Usage(format!("cannot read the problem {}: {error}", args.problem.display())))?;
    let source = std::fs::read_to_string(&args.candidate)
        .map_err(|error| Usage(format!("cannot read the candidate {}: {error}", args.candidate.display())))?;
    let report = kforge_guard::check(&source, &args.rules.settings(target::imports(Some(&target()))?)?);
    if let Some(hard) = report.findings.iter().find(|finding| finding.severity == Severity::Hard) {
        let place = format!("{}:{}", args.candidate.display(), hard.line);
        printer.note(&format!("{place}: {}: {}; `kforge guard` says more", hard.rule, hard.message));
        return Ok(State::GenerationFailure.exit_code());
    }
    let options = options(args);
    let remote = args.executor.remote(&args.problem, options.clone(), args.python.as_deref())?;
    let found = if let Some(mut remote) = remote {
        remote.profile(&source, args.time_us, printer)?
    } else {
        let options = options.here(&eval::here(args.python.clone(), printer)?)?;
        LiveEvaluator::new(options, args.problem.clone()).profile(&source, args.time_us, printer)?
    };
    printer.idle();
    let name = args.candidate.display().to_string();
    printer.answer(&if args.json { serde_json::to_string(&found)? } else { view::profile(&name, &found) });
    Ok(if ran(&found) { 0 } else { State::RuntimeError.exit_code() })
}

/// The first rung is the candidate itself.
fn ran(profile: &Profile) -> bool {
    profile.sources.first().is_some_and(|source| source.had)
}

/// The one target that can be profiled so far.
fn target() -> Target {
    Target { vendor: "cpu".to_owned(), model: "cpp".to_owned() }
}

fn options(args: &ProfileArgs) -> JobOptions {
    let timeout = args.timeout.max(1) as f64;
    JobOptions {
        target: target(),
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
        require_sandbox: SandboxLevel::None,
        namespaces: true,
        memory_gib: args.memory,
    }
}
