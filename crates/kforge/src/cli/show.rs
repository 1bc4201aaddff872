//! `kforge show`: the story of a run.

use super::{Usage, printer::Printer, runs::meant};
use crate::{
    config::Settings,
    run::{
        event::{Role, StopReason},
        history::{Answer, History},
        journal,
    },
    view,
};
use clap::Args;
use std::{fmt::Write, path::PathBuf};

/// Print the story of a run: per attempt the idea, verdict, speedup and cost.
#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The run's folder, or its name in the runs folder; it may still be going on [default: the last one].
    run: Option<PathBuf>,
    /// Show what changed from the candidate that an attempt began with: its number, or `all`.
    #[arg(long, value_name = "ATTEMPT")]
    diff: Option<String>,
    /// Show the full result of an attempt as `kforge eval` prints it.
    #[arg(long, value_name = "ATTEMPT")]
    result: Option<u32>,
    /// Print the events, one JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn show(args: &ShowArgs, printer: &Printer) -> anyhow::Result<u8> {
    let run = meant(args.run.as_deref(), &Settings::default(), printer)?;
    let lines = journal::look(&run).map_err(|error| Usage(format!("{error:#}")))?;
    if args.json {
        for line in &lines {
            printer.answer(&serde_json::to_string(line)?);
        }
        return Ok(0);
    }
    let history = History::of(&lines);
    if let Some(number) = args.result {
        let found = history.attempt(number).and_then(|attempt| attempt.result());
        let result =
            found.ok_or_else(|| Usage(format!("attempt {number} has no result; `kforge show` lists attempts")))?;
        printer.answer(&view::result(result, Printer::width()));
        return Ok(0);
    }
    if let Some(which) = &args.diff {
        let wanted: Option<u32> = match which.as_str() {
            "all" => None,
            text => Some(text.parse().map_err(|_| Usage(format!("{text:?} is no attempt; give its number, or all")))?),
        };
        printer.answer(&diffs(&history, wanted)?);
        return Ok(0);
    }
    let busy = journal::is_busy(&run);
    printer.answer(&view::story(&history, &run, busy, Printer::width()));
    if let Some((StopReason::Model, why)) = &history.stopped {
        printer.note(&format!("kforge: {why}"));
    }
    if let Some((_, role, ordinal)) = history.in_flight {
        let when = if busy { "is being asked" } else { "was being asked when the process ended" };
        printer.note(&format!("kforge: {} {ordinal} {when}", role.name()));
    }
    Ok(0)
}

fn diffs(history: &History, wanted: Option<u32>) -> Result<String, Usage> {
    if let Some(number) = wanted
        && history.attempt(number).is_none()
    {
        return Err(Usage(format!("there is no attempt {number}; the run has {}", history.attempts.len())));
    }
    let mut text = String::new();
    for attempt in history.attempts.iter().filter(|attempt| wanted.is_none_or(|wanted| attempt.id == wanted)) {
        let base = attempt.plan.base.and_then(|base| history.attempt(base));
        let old = base.and_then(|base| base.source()).unwrap_or_default();
        let from = base.map_or_else(|| "nothing".to_owned(), |base| format!("attempt {}", base.id));
        let to = format!("attempt {}", attempt.id);
        if let Some(new) = attempt.source() {
            text += &similar::TextDiff::from_lines(old, new).unified_diff().header(&from, &to).to_string();
        } else {
            let replied = attempt.last_call(Role::Generator).is_some_and(|c| matches!(c.answer, Answer::Reply(_)));
            let why = if replied { "its reply holds no candidate" } else { "it has no reply" };
            let _ = writeln!(text, "{to}: {why}");
        }
    }
    Ok(text)
}
