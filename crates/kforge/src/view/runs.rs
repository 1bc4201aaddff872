//! Runs for people and for programs.

use super::{run::short, table, trimmed};
use crate::run::{
    account::dollars,
    history::{History, Standing},
    journal,
    list::{self, Found},
};
use jiff::tz::TimeZone;
use serde::Serialize;

/// One run as it is listed.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    run: String,
    problem: String,
    target: String,
    state: String,
    attempts: usize,
    /// Of the best kernel over the fastest baseline.
    speedup: Option<f64>,
    best: String,
    usd: Option<f64>,
    cost: String,
    started: Option<jiff::Timestamp>,
}

/// What is known of each of these runs; one that cannot be read says why.
pub(crate) fn runs(found: &[Found]) -> Vec<Row> {
    found.iter().map(row).collect()
}

fn row(found: &Found) -> Row {
    let run = found.folder.display().to_string();
    match list::history(&found.folder) {
        Ok(history) => known(run, found.started, &history, journal::is_busy(&found.folder)),
        Err(error) => Row {
            run,
            problem: "?".to_owned(),
            target: "?".to_owned(),
            state: format!("{error:#}"),
            attempts: 0,
            speedup: None,
            best: String::new(),
            usd: None,
            cost: String::new(),
            started: found.started,
        },
    }
}

fn known(run: String, started: Option<jiff::Timestamp>, history: &History, busy: bool) -> Row {
    let start = history.start.as_ref();
    let named = |name: Option<&String>| name.cloned().unwrap_or_else(|| "?".to_owned());
    let best = history.best().and_then(|best| best.result());
    let state = match history.standing() {
        Standing::Over => "finished",
        Standing::UnderWay | Standing::NoModel if busy => "running",
        Standing::UnderWay => "interrupted",
        Standing::NoModel => "waits for its model",
    };
    Row {
        run,
        problem: named(start.map(|start| &start.problem)),
        target: named(start.map(|start| &start.target)),
        state: state.to_owned(),
        attempts: history.attempts.iter().filter(|attempt| attempt.judged.is_some()).count(),
        speedup: best.and_then(|best| best.speedup),
        best: best.map_or_else(|| "none".to_owned(), short),
        usd: (history.spend.unpriced == 0).then_some(history.spend.usd),
        cost: dollars(history),
        started,
    }
}

/// The rows as a table.
pub(crate) fn runs_table(rows: &[Row], width: Option<u16>) -> String {
    let mut made = table(width);
    made.set_header(["run", "problem", "target", "state", "attempts", "best", "cost", "started"]);
    for row in rows {
        let started = row.started.map(|at| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string());
        made.add_row([
            &row.run,
            &row.problem,
            &row.target,
            &row.state,
            &row.attempts.to_string(),
            &row.best,
            &row.cost,
            &started.unwrap_or_default(),
        ]);
    }
    trimmed(&made).trim_end().to_owned()
}
