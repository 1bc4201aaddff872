//! `kforge python`: the interpreter that evaluations run with.

use super::printer::Printer;
use clap::Args;
use kforge_exec::python::{self, PythonRequest};
use std::path::PathBuf;

/// Print the Python that evaluations use; make the managed environment first if there is none with torch.
#[derive(Args)]
pub(crate) struct PythonArgs {
    /// Look at this one instead.
    #[arg(long)]
    python: Option<PathBuf>,
}

pub(crate) fn python(args: &PythonArgs, printer: &Printer) -> anyhow::Result<u8> {
    let env = python::ensure(&PythonRequest::from_environment(args.python.clone()), printer)?;
    printer.note(&format!("Python {} with torch {} ({})", env.version, env.torch, env.source));
    printer.answer(&env.executable.display().to_string());
    Ok(0)
}
