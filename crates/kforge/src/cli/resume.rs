//! `kforge resume`: resume a run.

use super::{
    Usage,
    drive::{drive, say_notes},
    printer::Printer,
    runs::meant,
};
use crate::{
    config::{Executor, Settings},
    models,
    run::{artifacts::safe, file::RunFile, journal::Journal, list},
    setup::Setup,
};
use anyhow::Context;
use clap::Args;
use std::path::{Path, PathBuf};

/// Resume a run that was interrupted, or that a limit ended.
///
/// Replies that were received are not asked for again. Settings are those that the run began with; flags raise a
/// limit or change another setting from here on.
#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// The run's folder, or its name in the runs folder [default: the last one].
    run: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    /// Print the events on stdout as they happen, one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Verdicts of a run are about one text: with another one there is another run, which may begin with this one's best.
fn changed_problem(run: &Path, file: &RunFile) -> Usage {
    let problem = file.problem.display();
    let best = list::history(run).ok().and_then(|history| {
        let best = run.join(safe(&history.start.as_ref()?.problem)).join("best/candidate.py");
        best.exists().then(|| format!(" --start {}", best.display()))
    });
    let from = if best.is_some() { ", which begins with the best kernel of this one" } else { "" };
    Usage(format!(
        "{problem} has changed since the run began, so its verdicts do not hold for it. Begin a new run{from}: \
         `kforge optimize {problem}{}`. Or put the old text back and resume: `cp {}/problem.py {problem}`",
        best.unwrap_or_default(),
        run.display()
    ))
}

/// A folder that a flag names is meant from where the flag is typed.
fn from_here(name: &str) -> String {
    models::placed(name, &|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()))
}

pub(crate) fn resume(args: &ResumeArgs, printer: &Printer) -> anyhow::Result<u8> {
    let named = meant(args.run.as_deref(), &args.settings, printer)?;
    let run = std::fs::canonicalize(&named).map_err(|error| {
        Usage(format!("cannot open the run {}: {error}; `kforge runs` lists them", named.display()))
    })?;
    let file = RunFile::read(&run)?;
    let kept: Settings =
        file.settings.clone().try_into().with_context(|| format!("the settings in {}/run.toml", run.display()))?;
    let mut flags = args.settings.clone();
    for model in [&mut flags.model, &mut flags.generator_model, &mut flags.analyst_model] {
        *model = model.take().map(|name| from_here(&name));
    }
    if let Some(Executor::Exchange(folder)) = &mut flags.executor {
        *folder = std::path::absolute(&*folder)?;
    }
    flags.guard_file = flags.guard_file.map(std::path::absolute).transpose()?;
    let settings = Settings::resolve_over(flags, kept).map_err(|error| Usage(error.to_string()))?;
    let source = std::fs::read_to_string(&file.problem)
        .map_err(|error| Usage(format!("cannot read the problem {}: {error}", file.problem.display())))?;
    if kforge_types::content_hash(&[&source]) != file.problem_hash {
        return Err(changed_problem(&run, &file).into());
    }
    let (journal, lines, note) = Journal::open(&run)?;
    if let Some(note) = note {
        printer.note(&format!("kforge: {note}"));
    }
    // What was changed holds from here on, for the next resumption too.
    let changed = toml::Table::try_from(&settings).context("keeping the settings")?;
    if changed != file.settings {
        RunFile { settings: changed, ..file.clone() }.write(&run)?;
    }
    if std::env::current_dir().is_ok_and(|here| here != file.folder) {
        printer.note(&format!(
            "kforge: the run began in {}; if its problem reads files by relative paths, resume it there",
            file.folder.display()
        ));
    }
    let mut setup = Setup::new(&file, settings, source, printer)?;
    say_notes(&setup, printer);
    drive(&mut setup, &run, journal, &lines, args.json, printer)
}
