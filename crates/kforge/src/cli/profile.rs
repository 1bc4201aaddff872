//! `kforge profile`: where a candidate's time goes, in words.

use super::{
    Usage,
    asking::{AskingArgs, File},
    printer::Printer,
};
use crate::{config::Executor, evaluator::Purpose, view};
use clap::Args;
use kforge_exec::ProfileOptions;
use kforge_types::{EvalResult, Profile, Severity, State};
use std::path::PathBuf;

/// Say where a candidate's time goes and what stands in its way.
///
/// On an NVIDIA GPU it tries Nsight Compute on the candidate's own kernels, what the compiler gave
/// them, their machine code, torch's profiler, and a roofline from the GPU's clocks and widths. On
/// the CPU it tries hardware counters, samples by clock, the compiler's vectorisation report,
/// disassembly, torch's profiler on the reference, and a roofline that is measured on this machine.
/// Each either gives findings or the reason why it cannot, with what would fix that. The candidate
/// runs in a sandbox; its verdict is the business of `kforge eval`.
///
/// The settings of an evaluation hold here too, so that both commands see the same candidate; those
/// about timing and baselines change nothing.
///
/// Exit code: 0 when the candidate ran, 11 when it did not or compute-sanitizer found an error, 13
/// when a source rule refuses it, 2 for wrong use, a problem that cannot be judged or a compiler
/// that is missing here, 70 for a failure of kforge itself.
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
    /// On an NVIDIA GPU: the chosen metrics of Nsight Compute, or all of its full set, which takes much longer.
    #[arg(long, value_enum, default_value_t = Metrics::Chosen)]
    metrics: Metrics,
    /// On an NVIDIA GPU: check the candidate with compute-sanitizer too (memory, races, uninitialised reads, barriers).
    #[arg(long)]
    sanitize: bool,
    #[command(flatten)]
    asking: AskingArgs,
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
    let settings = args.asking.settings()?;
    if args.sanitize && settings.evaluation.executor != Executor::InPlace {
        return Err(Usage("--sanitize works in place only: run it where the GPU is".to_owned()).into());
    }
    std::fs::metadata(&args.problem)
        .map_err(|error| Usage(format!("cannot read the problem {}: {error}", args.problem.display())))?;
    let file = [File::read(&args.candidate)?];
    let mut evaluator = args.asking.evaluator(settings, &args.problem, &file, Purpose::Profile, &[], printer)?;
    let [File { name, bytes }] = &file;
    let candidate = match evaluator.admit(name, bytes) {
        Ok(candidate) => candidate,
        Err(refused) => {
            printer.note(&why_refused(&refused));
            return Ok(refused.state.exit_code());
        }
    };
    evaluator.prepare(printer)?;
    let found = evaluator.profile(&candidate, args.wanted(), printer)?;
    let checked = if args.sanitize { Some(evaluator.sanitize(&candidate, printer)?) } else { None };
    printer.idle();
    printer.answer(&if args.json {
        let mut answer = serde_json::to_value(&found)?;
        if let (Some(fields), Some(checked)) = (answer.as_object_mut(), &checked) {
            fields.insert("sanitizer".to_owned(), serde_json::to_value(checked)?);
        }
        answer.to_string()
    } else {
        let checked = checked.as_ref().map(|checked| format!("\n\n{}", view::sanitizer(checked))).unwrap_or_default();
        format!("{}{checked}", view::profile(name, &found))
    });
    let sent_back = checked.is_some_and(|checked| checked.digest().is_some());
    Ok(if ran(&found) && !sent_back { 0 } else { State::RuntimeError.exit_code() })
}

/// With the line, where a rule has one.
fn why_refused(result: &EvalResult) -> String {
    let name = &result.candidate_file;
    match result.findings.iter().find(|finding| finding.severity == Severity::Hard) {
        Some(hard) => format!("{name}:{}: {}: {}; `kforge guard` says more", hard.line, hard.rule, hard.message),
        None => format!("{name}: {}", result.reason),
    }
}

/// The first rung is the candidate itself.
fn ran(profile: &Profile) -> bool {
    profile.sources.first().is_some_and(|source| source.had)
}
