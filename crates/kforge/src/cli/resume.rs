//! `kforge resume`: go on with a run.

use super::{Usage, printer::Printer, run_setup::Setup};
use crate::{
    config::Settings,
    run::{file::RunFile, journal::Journal},
};
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

/// Go on with a run that was interrupted, or that a limit ended.
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

pub(crate) fn resume(args: &ResumeArgs, printer: &Printer) -> anyhow::Result<u8> {
    let run = std::fs::canonicalize(&args.run)
        .map_err(|error| Usage(format!("cannot open the run {}: {error}", args.run.display())))?;
    let file = RunFile::read(&run)?;
    let kept: Settings =
        file.settings.clone().try_into().with_context(|| format!("the settings in {}/run.toml", run.display()))?;
    let settings = Settings::resolve_over(args.settings.clone(), kept).map_err(|error| Usage(error.to_string()))?;
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
    // What the run was told by relative paths is found from where it began.
    let _ = std::env::set_current_dir(&file.folder);
    let setup = Setup::new(&file, settings, source, printer)?;
    setup.drive(&run, journal, &lines, args.json, printer)
}
