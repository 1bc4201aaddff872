//! `kforge resume`: resume a run.

use super::{
    Usage,
    drive::{drive, say_notes},
    printer::Printer,
};
use crate::{
    config::{Executor, Settings},
    models,
    run::{file::RunFile, journal::Journal},
    setup::Setup,
};
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

/// Resume a run that was interrupted, or that a limit ended.
///
/// Replies that were received are not asked for again. Settings are those that the run began with; flags raise a
/// limit or change another setting from here on.
#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// The run's folder.
    run: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// Print the events on stdout as they happen, one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// A folder that a flag names is meant from where the flag is typed.
fn from_here(name: &str) -> String {
    models::placed(name, &|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()))
}

pub(crate) fn resume(args: &ResumeArgs, printer: &Printer) -> anyhow::Result<u8> {
    let run = std::fs::canonicalize(&args.run)
        .map_err(|error| Usage(format!("cannot open the run {}: {error}", args.run.display())))?;
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
        let text = format!(
            "{} has changed since the run began: put it back (a copy is {}/problem.py), or begin a new run",
            file.problem.display(),
            run.display()
        );
        return Err(Usage(text).into());
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
