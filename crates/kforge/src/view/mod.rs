//! Results as text for people. Nothing here decides anything.

mod doctor;
mod duel;
mod job;
mod models;
mod profile;
mod result;
mod run;
mod runs;

pub(crate) use doctor::doctor;
pub(crate) use duel::{compared, duel};
pub(crate) use job::{job, job_exit_code};
pub(crate) use models::{model_reply, models};
pub(crate) use profile::{profile, sanitizer};
pub(crate) use result::result;
pub(crate) use run::{event, kept, story};
pub(crate) use runs::{runs, runs_table};

use comfy_table::{ContentArrangement, Table, presets};

/// A plain table without lines, as wide as the terminal.
fn table(width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.unwrap_or(140));
    table
}

/// Tables pad their last column; files and diffs should not show it.
fn trimmed(table: &Table) -> String {
    let lines: Vec<String> = table.to_string().lines().map(|line| format!("  {}", line.trim_end())).collect();
    if lines.is_empty() { String::new() } else { lines.join("\n") + "\n" }
}
