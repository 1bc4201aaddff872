//! `kforge guard`: the source rules alone.

use super::{Usage, guard_args::GuardArgs, printer::Printer};
use crate::target;
use clap::Args;
use kforge_types::{Severity, Target};
use std::path::PathBuf;

/// Check a candidate's source against the rules, without running anything.
///
/// Exit code: 0 when nothing hard was found, 13 otherwise.
#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The candidate.
    #[arg(required_unless_present = "list")]
    candidate: Option<PathBuf>,
    /// List the rules.
    #[arg(long)]
    list: bool,
    /// Accelerator and programming model, which decide what may be imported [default: what any target allows].
    #[arg(long)]
    target: Option<Target>,
    #[command(flatten)]
    rules: GuardArgs,
    /// Print the findings as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn guard(args: &CheckArgs, printer: &Printer) -> anyhow::Result<u8> {
    let Some(path) = args.candidate.as_ref().filter(|_| !args.list) else {
        for rule in kforge_guard::rules() {
            let severity = if rule.severity == Severity::Hard { "hard" } else { "soft" };
            printer.answer(&format!("{:<18} {severity}  {}", rule.name, rule.summary()));
        }
        return Ok(0);
    };
    let imports = target::imports(args.target.as_ref()).map_err(|error| Usage(error.to_string()))?;
    let rules = args.rules.settings(imports)?;
    let source = std::fs::read_to_string(path)
        .map_err(|error| Usage(format!("cannot read the candidate {}: {error}", path.display())))?;
    let report = kforge_guard::check(&source, &rules);
    if args.json {
        printer.answer(&serde_json::to_string(&report.findings)?);
    } else {
        for finding in &report.findings {
            let severity = if finding.severity == Severity::Hard { "error" } else { "note" };
            let place = format!("{}:{}:{}", path.display(), finding.line, finding.column);
            printer.answer(&format!("{place}: {severity}: {}: {}", finding.rule, finding.message));
        }
        if report.findings.is_empty() {
            printer.answer("nothing found");
        }
    }
    let hard = report.findings.iter().any(|finding| finding.severity == Severity::Hard);
    Ok(if hard { kforge_types::State::GenerationFailure.exit_code() } else { 0 })
}
