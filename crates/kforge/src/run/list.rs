//! The runs below a folder, and which one is meant where none or only a name is said.

use super::{file::RunFile, history::History, journal};
use crate::usage::Usage;
use std::path::{Path, PathBuf};

/// One run, newest first.
pub(crate) struct Found {
    pub(crate) folder: PathBuf,
    pub(crate) started: Option<jiff::Timestamp>,
}

/// All runs in a folder. Where there is no such folder, there are none.
pub(crate) fn in_folder(runs: &Path) -> Vec<Found> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = entries.filter(|folder| folder.join(journal::FILE).is_file());
    let mut found: Vec<Found> = folders
        .map(|folder| {
            let started = RunFile::read(&folder).ok().and_then(|file| file.started.parse().ok());
            Found { folder, started }
        })
        .collect();
    found.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| b.folder.cmp(&a.folder)));
    found
}

/// The run of this name: a folder, or one among the runs; the newest where nothing is named.
pub(crate) fn named(name: Option<&Path>, runs: &Path) -> Result<PathBuf, Usage> {
    let Some(name) = name else {
        return in_folder(runs).into_iter().next().map(|found| found.folder).ok_or_else(|| {
            Usage(format!("there is no run in {}: name the folder of one, or its place with --runs", runs.display()))
        });
    };
    let among = runs.join(name);
    Ok(if !name.exists() && among.join(journal::FILE).is_file() { among } else { name.to_owned() })
}

/// What happened in it.
pub(crate) fn history(folder: &Path) -> anyhow::Result<History> {
    Ok(History::of(&journal::look(folder)?))
}
