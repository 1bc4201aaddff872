//! `kforge guard`: the source rules alone.

use super::{Usage, asking::File, printer::Printer, settings};
use crate::{
    config::{RuleFlags, Settings},
    evaluator::{look, source_rules},
    target,
};
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
    rules: RuleFlags,
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
    let flags = Settings { target: args.target.clone(), ..Settings::default() };
    let settings = settings::resolve(&args.rules.within(flags))?;
    let imports = target::imports(settings.evaluation.target.as_ref()).map_err(|error| Usage(error.to_string()))?;
    let file = File::read(path)?;
    let (text, findings) = look(&file.bytes, &source_rules(&settings.rules, imports)?);
    if args.json {
        printer.answer(&serde_json::to_string(&findings)?);
    } else {
        for finding in &findings {
            let severity = if finding.severity == Severity::Hard { "error" } else { "note" };
            let place = format!("{}:{}:{}", file.name, finding.line, finding.column);
            printer.answer(&format!("{place}: {severity}: {}: {}", finding.rule, finding.message));
        }
        match &text {
            Ok(_) if findings.is_empty() => printer.answer("nothing found"),
            Err(verdict) if findings.is_empty() => printer.answer(&format!("{}: error: {}", file.name, verdict.reason)),
            _ => {}
        }
    }
    Ok(text.map_or_else(|verdict| verdict.state.exit_code(), |_| 0))
}
