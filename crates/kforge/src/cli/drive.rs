//! A run as a person watches it: what `optimize` and `resume` have in common.

use super::{printer::Printer, progress::RunProgress};
use crate::{
    run::{event::Line, history::History, journal::Journal},
    setup::Setup,
    view,
};
use std::path::Path;

/// No correct kernel was found.
const NONE_FOUND: u8 = 20;

/// What is to be known before it begins.
pub(super) fn say_notes(setup: &Setup, printer: &Printer) {
    for note in &setup.notes {
        printer.note(&format!("kforge: {note}"));
    }
}

/// To its end, with its story at last.
pub(super) fn drive(
    setup: &mut Setup,
    run: &Path,
    journal: Journal,
    lines: &[Line],
    json: bool,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let left = setup.time_left(&History::of(lines));
    let progress = RunProgress::new(printer, json, setup.iterations(), left);
    let done = setup.drive(run, journal, lines, &progress);
    printer.idle();
    let history = done.inspect_err(|_| {
        printer.note(&format!("kforge: what was done is kept; resume with `kforge resume {}`", run.display()));
    })?;
    if !json {
        printer.answer(&view::story(&history, run, Printer::width()));
    }
    Ok(if history.best().is_some() { 0 } else { NONE_FOUND })
}
