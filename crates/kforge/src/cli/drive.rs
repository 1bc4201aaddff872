//! A run as a person watches it: what `optimize` and `resume` have in common.

use super::{Usage, interrupt, printer::Printer, progress::RunProgress};
use crate::{
    run::{
        event::{Line, StopReason},
        history::History,
        journal::Journal,
    },
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
    let history = History::of(lines);
    let left = setup.time_left(&history);
    let progress = RunProgress::new(printer, json, setup.iterations(), left, &history);
    let resume = format!("resume with `kforge resume {}`", run.display());
    let last_words = || format!("kforge: interrupted; kept: {}; {resume}", progress.kept());
    let done = interrupt::with_last_words(printer, &last_words, || setup.drive(run, journal, lines, &progress))?;
    printer.idle();
    let history = done.inspect_err(|_| {
        printer.note(&format!("kforge: what was done is kept; {resume}"));
    })?;
    let any = history.attempts.iter().any(|attempt| attempt.judged.is_some());
    let no_model = history.stopped.as_ref().filter(|(reason, _)| *reason == StopReason::Model);
    if !json && (any || no_model.is_none()) {
        printer.answer(&view::story(&history, run, false, Printer::width()));
    }
    if let Some((_, why)) = no_model {
        return Err(Usage(format!("{why}; then {resume}")).into());
    }
    Ok(if history.best().is_some() { 0 } else { NONE_FOUND })
}
