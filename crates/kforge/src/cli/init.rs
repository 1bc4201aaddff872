//! `kforge init`: a file of settings to start from.

use super::{Usage, printer::Printer};
use crate::config;
use anyhow::Context;
use clap::Args;
use std::{fs::OpenOptions, io::Write, path::PathBuf};

/// Write a kforge.toml with every setting, its meaning and its default, all commented out.
#[derive(Args)]
pub(crate) struct InitArgs {
    /// The folder to write it into.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Replace a file that is there.
    #[arg(long)]
    force: bool,
}

pub(crate) fn init(args: &InitArgs, printer: &Printer) -> anyhow::Result<u8> {
    let path = args.folder.join(config::PROJECT_FILE);
    let mut options = OpenOptions::new();
    options.write(true);
    // Without force the system itself refuses to replace a file, whoever creates it meanwhile.
    let opened = if args.force { options.create(true).truncate(true) } else { options.create_new(true) }.open(&path);
    let mut file = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Usage(format!("{} is there already; --force replaces it", path.display())),
        _ => Usage(format!("cannot write {}: {error}; name a folder that you can write to", path.display())),
    })?;
    file.write_all(config::template().as_bytes()).with_context(|| format!("writing {}", path.display()))?;
    printer.answer(&path.display().to_string());
    Ok(0)
}
