//! `kforge doctor`: what works on this machine, and the command that would fix what does not.

use super::printer::Printer;
use crate::view;
use clap::Args;
use kforge_exec::{
    CacheDirs,
    doctor::{DoctorRequest, Row, Section, Status, diagnose, user_namespace_mend},
    probe_sandbox,
    python::{self, PythonRequest},
};
use kforge_types::{SandboxLevel, SandboxReport};
use std::path::{Path, PathBuf};

/// Look at Python, toolchains, profilers and the sandbox; say what is missing and how to fix it.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// The Python to look at [default: as `kforge eval` finds it].
    #[arg(long)]
    python: Option<PathBuf>,
    /// Print the rows as one JSON list.
    #[arg(long)]
    json: bool,
}

pub(crate) fn doctor(args: &DoctorArgs, printer: &Printer) -> anyhow::Result<u8> {
    printer.working("looking around");
    let sandbox = sandbox_rows(args);
    let rows = diagnose(&DoctorRequest::from_environment(args.python.clone(), sandbox));
    printer.idle();
    let text = if args.json { serde_json::to_string(&rows)? } else { view::doctor(&rows, Printer::width()) };
    printer.answer(&text);
    Ok(0)
}

/// The sandbox is tried for real, by any Python that is there: it needs no torch.
fn sandbox_rows(args: &DoctorArgs) -> Vec<Row> {
    let request = PythonRequest::from_environment(args.python.clone());
    let named = python::find(&request).ok().and_then(|found| found.env).map(|env| env.executable);
    let interpreter = named.unwrap_or_else(|| PathBuf::from("python3"));
    let tried = CacheDirs::from_environment()
        .and_then(|dirs| dirs.create("eval"))
        .map_err(|error| error.to_string())
        .and_then(|cache| probe_sandbox(&interpreter, &cache).map_err(|error| error.to_string()));
    match tried {
        Ok(report) => vec![level_row(&report)],
        Err(error) => vec![Row::new(Section::Sandbox, "sandbox", Status::Missing, error)],
    }
}

fn level_row(report: &SandboxReport) -> Row {
    let status = match report.level {
        SandboxLevel::Full => Status::Ok,
        SandboxLevel::Partial => Status::Limited,
        SandboxLevel::None => Status::Missing,
    };
    let level = format!("level {}", format!("{:?}", report.level).to_lowercase());
    let detail = if report.missing.is_empty() {
        format!("{level}: namespaces, file rules, system-call rules, limits; tried just now")
    } else {
        format!("{level}; {}", report.missing.join("; "))
    };
    let mend =
        report.missing.iter().any(|text| text.starts_with("namespaces")).then(|| user_namespace_mend(Path::new("/")));
    Row::new(Section::Sandbox, "sandbox", status, detail).mended_by(mend.flatten())
}
