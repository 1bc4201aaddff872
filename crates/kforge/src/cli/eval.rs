//! `kforge eval`: judge candidates.

use super::{
    Usage,
    executor::{ExecutorArgs, file_name, say_answered},
    guard_args::GuardArgs,
    pick_target,
    printer::Printer,
};
use crate::{
    config,
    driver::evaluator::{Evaluator, LiveEvaluator},
    executor::RemoteEvaluator,
    job::{Here, JobOptions, exchange::Submitted},
    refusal::{Refused, guardrail},
    target, view,
};
use anyhow::Context;
use clap::{Args, ValueEnum};
use kforge_exec::{
    CacheDirs, machine,
    python::{self, PythonRequest},
};
use kforge_types::{
    Contract, EvalResult, Finding, Kind, Math, Operators, Params, Precision, Redraw, SandboxLevel, Severity, Target,
    Verdict,
};
use std::path::{Path, PathBuf};

/// Judge candidates: right or wrong, and how much faster than the best that PyTorch offers.
///
/// Every candidate is built and run in a sandbox and asked for outputs only. Inputs come from secret seeds, every
/// output is compared with a float64 truth in another process, also those of timed calls. The speedup is against
/// the fastest of the baselines, with a 95 % interval.
///
/// Exit code: 0 correct, 10 mismatch, 11 runtime error, 12 compilation failure, 13 generation failure or guardrail,
/// 2 wrong use, a problem that cannot be judged or a compiler that is missing here, 70 a failure of kforge itself. For
/// several candidates: 0 if all are correct, else that of the first one that is not.
///
/// A problem may declare a contract, which the flags below override:
///   KFORGE = dict(mul="fp32", acc="fp32", math="exact", params="constant", inputs="redraw",
///                 shapes=[dict(batch_size=3)], deterministic=False, operators="any")
#[derive(Args)]
#[command(verbatim_doc_comment)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct EvalArgs {
    /// The problem: a Python file with Model, get_inputs and get_init_inputs.
    problem: PathBuf,
    /// One or more candidates; they share one warm worker and are judged in this order.
    #[arg(required = true)]
    candidates: Vec<PathBuf>,
    /// Accelerator and programming model (see `kforge targets`) [default: seen by what the candidates import and build].
    #[arg(long)]
    target: Option<Target>,
    /// Which GPU, counted from 0 among those that are visible [default: the first one, if there is any].
    #[arg(long)]
    device: Option<usize>,
    /// Time nothing on a GPU that somebody else uses: wait two minutes for it, then give up.
    #[arg(long)]
    require_idle: bool,
    /// Architecture that kernels are compiled for where there is no device to ask [default: the target's].
    #[arg(long)]
    arch: Option<String>,
    /// Print one JSON object per candidate and line on stdout.
    #[arg(long)]
    json: bool,
    /// Which baselines to measure: auto leaves out max-autotune where it compiles for more than a minute.
    #[arg(long, value_enum, default_value = "auto")]
    baselines: config::Baselines,
    /// Verify only, time nothing.
    #[arg(long)]
    no_timing: bool,
    /// Threads of every arm [default: all cores].
    #[arg(long)]
    threads: Option<usize>,
    /// Seconds that building, constructing or one call may take.
    #[arg(long, default_value_t = 120.0)]
    timeout: f64,
    /// Seconds that examining the problem may take.
    #[arg(long, default_value_t = 120)]
    problem_timeout: u64,
    /// Seconds of timed calls per candidate, about.
    #[arg(long, default_value_t = 1.0)]
    time_budget: f64,
    /// Memory of one candidate's processes together, in GiB.
    #[arg(long, default_value_t = 4.0)]
    memory: f64,
    /// Draw new secret inputs and measure baselines anew instead of using kept ones.
    #[arg(long)]
    fresh: bool,
    /// Lowest precision allowed: strict (fp32), tf32, or mixed (bf16 multiply, fp32 accumulate) [default: the
    /// problem's contract, else the inputs' own].
    #[arg(long, value_enum)]
    precision: Option<config::Precision>,
    /// Allow approximate transcendental functions and -ffast-math.
    #[arg(long)]
    fast_math: bool,
    /// Weights may change between calls: `prepare` is not called.
    #[arg(long)]
    params_per_call: bool,
    /// Use only values that get_inputs gives, under secret seeds.
    #[arg(long)]
    given_inputs: bool,
    /// Demand equal bits for equal inputs.
    #[arg(long)]
    deterministic: bool,
    /// Only the candidate's own kernels may compute.
    #[arg(long)]
    own_operators: bool,
    /// Refuse to run with less sandbox than this (see `kforge doctor`).
    #[arg(long, value_enum, default_value = "none")]
    require_sandbox: SandboxArg,
    /// Do not use namespaces even where they are allowed: the sandbox is then `partial`.
    #[arg(long)]
    no_namespaces: bool,
    #[command(flatten)]
    rules: GuardArgs,
    /// Switch all source rules off; patterns and the checks at run time stay.
    #[arg(long)]
    no_guard: bool,
    /// The Python with torch [default: KFORGE_PYTHON, an active environment, python3, or one that kforge makes].
    #[arg(long)]
    python: Option<PathBuf>,
    #[command(flatten)]
    executor: ExecutorArgs,
    /// Put the jobs into the exchange folder, print their ids and end; the same command without this waits for the
    /// answers.
    #[arg(long)]
    submit: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SandboxArg {
    Full,
    Partial,
    None,
}

/// A candidate as read from disk, or the verdict that it is none.
struct Candidate {
    name: String,
    bytes: Vec<u8>,
    source: Result<String, Verdict>,
    findings: Vec<Finding>,
}

pub(crate) fn eval(args: &EvalArgs, printer: &Printer) -> anyhow::Result<u8> {
    let problem = read(&args.problem, "the problem")?;
    let files: Vec<(String, Vec<u8>)> = args.candidates.iter().map(read_candidate).collect::<Result<_, _>>()?;
    let texts = files.iter().map(|(name, bytes)| (name.as_str(), std::str::from_utf8(bytes).unwrap_or_default()));
    let target = pick_target::for_candidates(args.target.as_ref(), texts, printer)?;
    let pack = target::find(&target).map_err(|error| Usage(error.to_string()))?;
    let mut rules = args.rules.settings(pack.imports.clone())?;
    if args.no_guard {
        rules.off = kforge_guard::rules().iter().map(|rule| rule.name.to_owned()).collect();
    }
    let candidates: Vec<Candidate> = files.into_iter().map(|(name, bytes)| inspect(&rules, name, bytes)).collect();
    let options = options(args, target)?;
    let mut judges = match args.executor.remote(&args.problem, options.clone(), args.python.as_deref())? {
        None => Judges::Here { options, evaluator: None },
        Some(remote) => Judges::There(Box::new(remote)),
    };
    if let Judges::There(remote) = &mut judges {
        submit(args, &candidates, remote, printer)?;
        if args.submit {
            return Ok(0);
        }
    } else if args.submit {
        return Err(Usage("--submit needs a folder to put jobs into: give --executor exchange:DIR".to_owned()).into());
    }
    let mut code = 0;
    for candidate in &candidates {
        let result = match &candidate.source {
            Err(verdict) => refused(args, &pack.name, &problem, candidate, verdict.clone()),
            Ok(source) => {
                let mut result = judges.judge(args, candidate, source, printer)?;
                result.findings.clone_from(&candidate.findings);
                result
            }
        };
        printer.idle();
        let text = if args.json { serde_json::to_string(&result)? } else { view::result(&result, Printer::width()) };
        printer.answer(&text);
        if code == 0 {
            code = result.state.exit_code();
        }
    }
    Ok(code)
}

/// Who judges.
enum Judges {
    Here { options: JobOptions, evaluator: Option<Box<LiveEvaluator>> },
    There(Box<RemoteEvaluator>),
}

impl Judges {
    fn judge(
        &mut self,
        args: &EvalArgs,
        candidate: &Candidate,
        source: &str,
        printer: &Printer,
    ) -> anyhow::Result<EvalResult> {
        match self {
            Self::Here { options, evaluator } => {
                if evaluator.is_none() {
                    let options = options.here(&here(args.python.clone(), args.device, printer)?)?;
                    *evaluator = Some(Box::new(LiveEvaluator::new(options, args.problem.clone())));
                }
                let evaluator = evaluator.as_mut().context("no evaluator")?;
                evaluator.judge(&candidate.name, source, printer)
            }
            Self::There(remote) => {
                let mut result = remote.judge(&file_name(Path::new(&candidate.name)), source, printer)?;
                result.candidate_file.clone_from(&candidate.name);
                Ok(result)
            }
        }
    }
}

/// All jobs at once, so that a worker has them together, and several workers share them.
fn submit(
    args: &EvalArgs,
    candidates: &[Candidate],
    remote: &mut RemoteEvaluator,
    printer: &Printer,
) -> anyhow::Result<()> {
    if args.submit && !matches!(args.executor.executor, config::Executor::Exchange(_)) {
        let text = "--submit leaves jobs in a folder, over ssh there is none: leave it out, or use exchange:DIR";
        return Err(Usage(text.to_owned()).into());
    }
    for candidate in candidates {
        let id = match &candidate.source {
            Ok(source) => {
                let (id, submitted) = remote.submit(&file_name(Path::new(&candidate.name)), source, printer)?;
                if submitted == Submitted::Answered {
                    say_answered(&id, printer);
                }
                Some(id)
            }
            Err(verdict) => {
                printer.note(&format!("kforge: {} needs no worker: {}", candidate.name, verdict.reason));
                None
            }
        };
        if args.submit {
            printer.idle();
            let line = serde_json::json!({ "candidate": candidate.name, "job": id });
            printer.answer(&if args.json { line.to_string() } else { id.unwrap_or_default() });
        }
    }
    Ok(())
}

fn read(path: &PathBuf, what: &str) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Usage(format!("cannot read {what} {}: {error}", path.display())).into())
}

fn read_candidate(path: &PathBuf) -> anyhow::Result<(String, Vec<u8>)> {
    Ok((path.display().to_string(), read(path, "the candidate")?))
}

/// What can be said of a candidate before anything runs.
fn inspect(rules: &kforge_guard::Settings, name: String, bytes: Vec<u8>) -> Candidate {
    let mut findings = Vec::new();
    let source = match String::from_utf8(bytes.clone()) {
        Err(_) => Err(Verdict::of(Kind::Syntax, "the file is not UTF-8 text")),
        Ok(text) if text.contains('\0') => Err(Verdict::of(Kind::Syntax, "the file contains NUL bytes")),
        Ok(text) => {
            let report = kforge_guard::check(&text, rules);
            if report.empty {
                Err(Verdict::of(Kind::Empty, "the file has no code"))
            } else {
                findings = report.findings;
                let hard: Vec<&Finding> = findings.iter().filter(|f| f.severity == Severity::Hard).collect();
                hard.first().map_or(Ok(text), |first| Err(guardrail(first, hard.len())))
            }
        }
    };
    Candidate { name, bytes, source, findings }
}

/// The result of a candidate that never ran.
fn refused(args: &EvalArgs, target: &Target, problem: &[u8], candidate: &Candidate, verdict: Verdict) -> EvalResult {
    let refused = Refused {
        problem_file: &args.problem.display().to_string(),
        problem_source: problem,
        candidate_name: &candidate.name,
        candidate_source: &candidate.bytes,
        target,
        contract: contract(args),
        device: machine::cpu(args.threads.unwrap_or_else(machine::default_threads)),
        findings: candidate.findings.clone(),
    };
    refused.result(verdict)
}

/// The interpreter with torch, and kforge's cache folder.
pub(crate) fn here(python: Option<PathBuf>, device: Option<usize>, printer: &Printer) -> anyhow::Result<Here> {
    let env = python::ensure(&PythonRequest::from_environment(python), printer)?;
    let cache = CacheDirs::from_environment()?.create("eval").context("preparing the cache")?;
    Ok(Here { python: env.executable, cache, device })
}

fn options(args: &EvalArgs, target: Target) -> anyhow::Result<JobOptions> {
    if !(args.timeout.is_finite() && args.timeout > 0.0 && args.time_budget.is_finite() && args.time_budget > 0.0) {
        return Err(Usage("--timeout and --time-budget take positive numbers of seconds".to_owned()).into());
    }
    Ok(JobOptions {
        target,
        arch: args.arch.clone(),
        contract: contract(args),
        baselines: args.baselines,
        threads: args.threads,
        timeout_s: args.timeout,
        problem_timeout_s: args.problem_timeout.max(1) as f64,
        time_budget_s: args.time_budget,
        fresh: args.fresh,
        kept_baselines: !args.fresh,
        no_timing: args.no_timing,
        require_idle: args.require_idle,
        require_sandbox: match args.require_sandbox {
            SandboxArg::Full => SandboxLevel::Full,
            SandboxArg::Partial => SandboxLevel::Partial,
            SandboxArg::None => SandboxLevel::None,
        },
        namespaces: !args.no_namespaces,
        memory_gib: args.memory,
    })
}

fn contract(args: &EvalArgs) -> Contract {
    Contract {
        math: args.fast_math.then_some(Math::Fast),
        params: args.params_per_call.then_some(Params::PerCall),
        inputs: args.given_inputs.then_some(Redraw::Given),
        deterministic: args.deterministic.then_some(true),
        operators: args.own_operators.then_some(Operators::Own),
        ..precision_contract(args.precision)
    }
}

/// What `--precision` says of a contract.
pub(crate) fn precision_contract(precision: Option<config::Precision>) -> Contract {
    let (mul, acc) = match precision {
        None => (None, None),
        Some(config::Precision::Strict) => (Some(Precision::Fp32), Some(Precision::Fp32)),
        Some(config::Precision::Tf32) => (Some(Precision::Tf32), Some(Precision::Fp32)),
        Some(config::Precision::Mixed) => (Some(Precision::Bf16), Some(Precision::Fp32)),
    };
    Contract { mul, acc, ..Contract::default() }
}
