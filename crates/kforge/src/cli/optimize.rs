//! `kforge optimize`: from a PyTorch file to a verified faster kernel.

use super::{
    Usage,
    drive::{drive, say_notes},
    pick_target,
    printer::Printer,
    settings,
};
use crate::{
    config::Settings,
    run::{
        artifacts::safe,
        file::{Extras, RunFile},
        journal::Journal,
    },
    setup::Setup,
};
use anyhow::Context;
use clap::Args;
use std::path::{Path, PathBuf};

/// Make a faster kernel: two agents write and analyse, the evaluator judges.
///
/// A generator writes a kernel, it is built and judged as by `kforge eval`, an analyst reads
/// verdict, times and profile and gives one recommendation, and so on until a stop rule ends it.
/// The best kernel is judged a second time in a fresh process. Everything is kept in a run folder;
/// Ctrl-C loses at most the call under way, and says how to resume. `kforge runs` lists runs.
///
/// Without a model four examples (softmax, layernorm, rmsnorm, gelu_chain), and on an NVIDIA GPU
/// examples/gpu/depthwise_conv, run from recorded replies, with everything else for real:
///
///   kforge optimize examples/softmax/problem.py
///
/// With one:
///
///   kforge optimize my_problem.py --model anthropic:claude-opus-4-5 --iterations 10 --budget-usd 5
///
/// Settings come from flags, kforge.toml in this folder (`kforge init` writes one), and your own
/// configuration; `kforge config` shows what holds, defaults included.
///
/// Exit code: 0 a correct kernel was found, 20 none was (one that was compiled and never run, because
/// the device is not here, is none), 2 wrong use, or a model that cannot be asked (the server is down, the
/// key is wrong; `kforge resume` then makes the call again), 70 kforge's own failure.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct OptimizeArgs {
    /// The problem: a Python file with Model, get_inputs and get_init_inputs.
    problem: PathBuf,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    extras: Extras,
    /// Name the run's folder instead of letting kforge choose one below the runs folder.
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Print the events of the run on stdout as they happen, one JSON object a line.
    #[arg(long)]
    json: bool,
    /// Say on stdout about how much the run would ask and cost, with --json as one object, and stop there.
    #[arg(long)]
    estimate: bool,
}

pub(crate) fn optimize(args: &OptimizeArgs, printer: &Printer) -> anyhow::Result<u8> {
    let folder = std::env::current_dir().context("finding the current folder")?;
    let mut resolved = settings::resolve(&args.settings)?;
    let source = std::fs::read_to_string(&args.problem)
        .map_err(|error| Usage(format!("cannot read the problem {}: {error}", args.problem.display())))?;
    let problem_hash = kforge_types::content_hash(&[&source]);
    resolved.evaluation.target =
        Some(pick_target::for_run(&resolved, &problem_hash, args.extras.python.as_deref(), printer)?);
    let problem = std::fs::canonicalize(&args.problem).unwrap_or_else(|_| args.problem.clone());
    let file = RunFile {
        version: RunFile::version(),
        kforge: env!("CARGO_PKG_VERSION").to_owned(),
        started: jiff::Timestamp::now().to_string(),
        folder,
        problem_hash,
        problem,
        device: kforge_exec::machine::cpu(kforge_exec::machine::default_threads()).name,
        extras: args.extras.clone(),
        settings: toml::Table::try_from(&resolved).context("keeping the settings")?,
    };
    let mut setup = Setup::new(&file, resolved, source, printer)?;
    say_notes(&setup, printer);
    let estimate = setup.estimate()?;
    if args.estimate {
        printer.answer(&if args.json { serde_json::to_string(&estimate)? } else { estimate.to_string() });
        return Ok(0);
    }
    printer.note(&format!("kforge: {estimate}"));
    let run = match &args.run {
        Some(run) => given(run)?,
        None => new_folder(&setup.settings.search.runs, &setup.task.name, &setup.task.target.to_string())?,
    };
    // What a resumption needs first, then what makes the folder a run.
    file.write(&run)?;
    let journal = Journal::create(&run)?;
    std::fs::write(run.join("problem.py"), &setup.task.source).context("keeping the problem")?;
    drive(&mut setup, &run, journal, &[], args.json, printer)
}

/// `runs/20261115-081502-softmax-cpu-cpp`, or the next number where that is taken.
fn new_folder(runs: &Path, problem: &str, target: &str) -> anyhow::Result<PathBuf> {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let name = format!("{now}-{}-{}", safe(problem), safe(target));
    std::fs::create_dir_all(runs).map_err(|error| cannot_create(runs, &error))?;
    for number in 1..1000 {
        let run = runs.join(if number == 1 { name.clone() } else { format!("{name}-{number}") });
        match std::fs::create_dir(&run) {
            Ok(()) => return Ok(run),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_create(&run, &error).into()),
        }
    }
    Err(Usage(format!("{} is full of runs of this second: try again", runs.display())).into())
}

/// A folder of the user's choice must be new or empty: nothing in it is overwritten.
fn given(run: &Path) -> anyhow::Result<PathBuf> {
    if run.join(crate::run::journal::FILE).exists() {
        let text =
            format!("{} is a run already: resume it with `kforge resume {0}`, or name another folder", run.display());
        return Err(Usage(text).into());
    }
    std::fs::create_dir_all(run).map_err(|error| cannot_create(run, &error))?;
    let empty = std::fs::read_dir(run).is_ok_and(|mut entries| entries.next().is_none());
    if !empty {
        return Err(Usage(format!("{} is not empty: name a new folder for the run", run.display())).into());
    }
    Ok(run.to_owned())
}

fn cannot_create(folder: &Path, error: &std::io::Error) -> Usage {
    Usage(format!("cannot create {}: {error}; choose another place with --run or --runs", folder.display()))
}
