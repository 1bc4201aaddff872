//! `kforge runs`: which runs there are.

use super::{printer::Printer, settings};
use crate::{config::Settings, run::list, view};
use clap::Args;
use std::path::PathBuf;

/// List the runs of this folder, the newest first: state, best speedup, cost.
#[derive(Args)]
pub(crate) struct RunsArgs {
    /// The folder that runs are kept in [default: runs, or what kforge.toml says].
    runs: Option<PathBuf>,
    /// Print one JSON object per run and line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn runs(args: &RunsArgs, printer: &Printer) -> anyhow::Result<u8> {
    let folder = match &args.runs {
        Some(folder) => folder.clone(),
        None => settings::resolve(&Settings::default())?.search.runs,
    };
    let rows = view::runs(&list::in_folder(&folder));
    if args.json {
        for row in &rows {
            printer.answer(&serde_json::to_string(row)?);
        }
        return Ok(0);
    }
    if rows.is_empty() {
        printer.note(&format!("kforge: there is no run in {}", folder.display()));
        return Ok(0);
    }
    printer.answer(&view::runs_table(&rows, Printer::width()));
    Ok(0)
}

/// The run that is meant, which is said where it was not named.
pub(super) fn meant(named: Option<&std::path::Path>, flags: &Settings, printer: &Printer) -> anyhow::Result<PathBuf> {
    let runs = settings::resolve(&Settings { runs: flags.runs.clone(), ..Settings::default() })?.search.runs;
    let run = list::named(named, &runs)?;
    if named.is_none() {
        printer.note(&format!("kforge: the last run is {}", run.display()));
    }
    Ok(run)
}
