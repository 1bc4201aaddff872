//! `kforge eval`: judge candidates.

use super::{
    Usage,
    asking::{AskingArgs, File},
    printer::Printer,
};
use crate::{
    config::Executor,
    evaluator::{Candidate, Evaluator, Purpose},
    view,
};
use clap::Args;
use kforge_exec::Observer;
use kforge_types::{DuelOutcome, EvalResult, State};
use std::path::PathBuf;

/// Judge candidates: right or wrong, and how much faster than the best that PyTorch offers.
///
/// Every candidate is built and run in a sandbox and asked for outputs only. Inputs come from
/// secret seeds, every output is compared with a float64 truth in another process, also those of
/// timed calls. The speedup is against the fastest of the baselines, with a 95 % interval.
///
/// Exit code: 0 correct, 10 mismatch, 11 runtime error, 12 compilation failure, 13 generation
/// failure or guardrail, 14 compiled and never run, which is all that can be said of CUDA C++, PTX
/// and CuTe DSL without a GPU, 2 wrong use, a problem that cannot be judged or a compiler that is
/// missing here, 70 a failure of kforge itself. For several candidates: 0 if all are correct, else
/// that of the first one that is not.
///
/// A problem may declare a contract, which the flags below override:
///   KFORGE = dict(mul="fp32", acc="fp32", math="exact", params="constant", inputs="redraw",
///                 shapes=[dict(batch_size=3)], deterministic=False, operators="any",
///                 fixed=[0], data_dependent=False)
#[derive(Args)]
#[command(verbatim_doc_comment)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct EvalArgs {
    /// The problem: a Python file with Model, get_inputs and get_init_inputs.
    problem: PathBuf,
    /// One or more candidates; they share one warm worker and are judged in this order.
    #[arg(required = true)]
    candidates: Vec<PathBuf>,
    /// Print one JSON object per candidate and line on stdout.
    #[arg(long)]
    json: bool,
    /// Verify only, time nothing.
    #[arg(long)]
    no_timing: bool,
    /// A kernel that must be beaten too, besides what PyTorch offers: the speedup is over the fastest of all; may be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    baseline: Vec<PathBuf>,
    /// Compare two candidates with each other too: both are called in turns on the same inputs, and the ratio of their times
    /// has an interval.
    #[arg(long, conflicts_with_all = ["submit", "no_timing"])]
    versus: bool,
    /// Put the jobs into the exchange folder, print their ids and end; the same command without this waits for the
    /// answers.
    #[arg(long)]
    submit: bool,
    #[command(flatten)]
    asking: AskingArgs,
}

/// What the source rules made of a file.
type Admitted = Result<Candidate, Box<EvalResult>>;

pub(crate) fn eval(args: &EvalArgs, printer: &Printer) -> anyhow::Result<u8> {
    check(args)?;
    let settings = args.asking.settings()?;
    let elsewhere = settings.evaluation.executor != Executor::InPlace;
    if args.submit {
        check_submit(&settings.evaluation.executor)?;
    }
    let files: Vec<File> = args.candidates.iter().map(|path| File::read(path)).collect::<Result<_, _>>()?;
    let purpose = if args.no_timing { Purpose::Verify } else { Purpose::Judge };
    let mut evaluator = args.asking.evaluator(settings, &args.problem, &files, purpose, &args.baseline, printer)?;
    let candidates: Vec<Admitted> = files.iter().map(|file| evaluator.admit(&file.name, &file.bytes)).collect();
    if elsewhere {
        // All before an answer is waited for, so that a worker has them together, and several workers share them.
        for candidate in &candidates {
            submit(args, candidate, &mut evaluator, printer)?;
        }
    }
    if args.submit {
        return Ok(0);
    }
    let mut code = 0;
    let mut results = Vec::new();
    for candidate in &candidates {
        let result = judge(candidate, &mut evaluator, printer)?;
        printer.idle();
        let text = if args.json { serde_json::to_string(&result)? } else { view::result(&result, Printer::width()) };
        printer.answer(&text);
        if code == 0 {
            code = result.state.exit_code();
        }
        results.push(result);
    }
    if args.versus {
        duel(args, &candidates, &results, &mut evaluator, printer)?;
    } else if results.len() > 1 && !args.json {
        printer.answer(&view::compared(&results, Printer::width()));
    }
    Ok(code)
}

fn check(args: &EvalArgs) -> Result<(), Usage> {
    if args.versus && args.candidates.len() != 2 {
        return Err(Usage(format!("--versus compares two candidates, and there are {}", args.candidates.len())));
    }
    std::fs::metadata(&args.problem)
        .map_err(|error| Usage(format!("cannot read the problem {}: {error}", args.problem.display())))?;
    Ok(())
}

fn check_submit(executor: &Executor) -> Result<(), Usage> {
    let text = match executor {
        Executor::Exchange(_) => return Ok(()),
        Executor::InPlace => "--submit needs a folder to put jobs into: give --executor exchange:DIR",
        Executor::Ssh { .. } => {
            "--submit leaves jobs in a folder, over ssh there is none: leave it out, or use exchange:DIR"
        }
    };
    Err(Usage(text.to_owned()))
}

fn judge(candidate: &Admitted, evaluator: &mut Evaluator, printer: &Printer) -> anyhow::Result<EvalResult> {
    match candidate {
        Err(refused) => Ok((**refused).clone()),
        Ok(candidate) => {
            evaluator.prepare(printer)?;
            evaluator.judge(candidate, printer)
        }
    }
}

/// Sends one candidate off.
fn submit(args: &EvalArgs, candidate: &Admitted, evaluator: &mut Evaluator, printer: &Printer) -> anyhow::Result<()> {
    let (name, id) = match candidate {
        Ok(candidate) => {
            let Some(ticket) = evaluator.submit(candidate, printer)? else { return Ok(()) };
            if ticket.answered {
                // Said, so that nobody takes for new what was measured earlier.
                printer.note(&format!("kforge: job {} was answered before; --tag TEXT asks it again", ticket.job));
            }
            (candidate.name(), Some(ticket.job))
        }
        Err(refused) => {
            printer.note(&format!("kforge: {} needs no worker: {}", refused.candidate_file, refused.reason));
            (refused.candidate_file.as_str(), None)
        }
    };
    if args.submit {
        printer.idle();
        let line = serde_json::json!({ "candidate": name, "job": id });
        printer.answer(&if args.json { line.to_string() } else { id.unwrap_or_default() });
    }
    Ok(())
}

/// Both, interleaved; whoever is not right is not compared.
fn duel(
    args: &EvalArgs,
    candidates: &[Admitted],
    results: &[EvalResult],
    evaluator: &mut Evaluator,
    printer: &Printer,
) -> anyhow::Result<()> {
    let wrong = results.iter().find(|result| result.state != State::Correct);
    if let Some(wrong) = wrong {
        printer.note(&format!("kforge: nothing to compare: {} is not correct", wrong.candidate_file));
        return Ok(());
    }
    let [Ok(first), Ok(second)] = candidates else { return Ok(()) };
    printer.stage(&format!("comparing {} with {}, call by call", first.name(), second.name()));
    let outcome = evaluator.duel([first, second], printer)?;
    printer.idle();
    printer.answer(&match &outcome {
        outcome if args.json => serde_json::json!({ "duel": outcome }).to_string(),
        DuelOutcome::Fought(duel) => format!("{} against {}: {}", first.name(), second.name(), view::duel(duel)),
        DuelOutcome::Unfit { place, reason } => {
            let unfit = if *place == 0 { first } else { second };
            format!("not compared: {} failed a check this time: {reason}", unfit.name())
        }
    });
    Ok(())
}
