//! `kforge targets`: what kernels can be written for.

use super::printer::Printer;
use crate::target;
use clap::Args;

/// List the targets that this version knows.
#[derive(Args)]
pub(crate) struct TargetsArgs {}

pub(crate) fn targets(_args: &TargetsArgs, printer: &Printer) -> anyhow::Result<u8> {
    for pack in target::all()? {
        printer.answer(&format!("{:<16} {} (device: {})", pack.name.to_string(), pack.summary, pack.device));
    }
    printer.note("`kforge doctor` says which of them work on this machine");
    Ok(0)
}
