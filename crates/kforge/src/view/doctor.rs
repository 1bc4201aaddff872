//! The diagnosis as a table, with the commands that mend beneath it.

use super::{table, trimmed};
use kforge_exec::doctor::{Row, Section, Status};
use std::fmt::Write;

pub(crate) fn doctor(rows: &[Row], width: Option<u16>) -> String {
    let mut text = String::new();
    let sections = [Section::Target, Section::Python, Section::Toolchain, Section::Profiler, Section::Sandbox];
    for section in sections {
        let mut part = table(width);
        for row in rows.iter().filter(|row| row.section == section) {
            let status = match row.status {
                Status::Ok => "ok",
                Status::Limited => "limited",
                Status::Missing => "missing",
            };
            part.add_row([status, &row.name, &row.detail]);
        }
        let title = format!("{section:?}");
        let _ = write!(text, "{title}\n{}", trimmed(&part));
    }
    let mends: Vec<&Row> = rows.iter().filter(|row| row.mend.is_some() && row.status != Status::Ok).collect();
    if !mends.is_empty() {
        text.push_str("To fix\n");
        for row in mends {
            let _ = writeln!(text, "  {:<16} {}", row.name, row.mend.as_deref().unwrap_or_default());
        }
    }
    text.trim_end().to_owned()
}
