//! What can be said of a candidate before anything runs.

use crate::{
    config::{self, RuleName, SourceRules},
    refusal::of_findings,
    usage::Usage,
};
use kforge_guard::{Pattern, Settings};
use kforge_types::{Finding, Kind, Verdict};
use serde::Deserialize;

/// What a guard file says.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct GuardFile {
    ban: Vec<Pattern>,
    require: Vec<Pattern>,
    off: Vec<RuleName>,
    imports: Vec<String>,
}

/// What the rules are to look for, where a target offers these packages.
pub(crate) fn source_rules(wanted: &SourceRules, mut imports: Vec<String>) -> Result<Settings, Usage> {
    let file = match &wanted.guard_file {
        None => GuardFile::default(),
        Some(path) => config::read(path).map_err(|error| Usage(error.to_string()))?.ok_or_else(|| {
            Usage(format!("there is no guard file {}; write one or leave the flag out", path.display()))
        })?,
    };
    imports.extend(wanted.imports.iter().cloned().chain(file.imports));
    let off = if wanted.no_guard {
        kforge_guard::rules().iter().map(|rule| rule.name.to_owned()).collect()
    } else {
        wanted.off.iter().chain(&file.off).map(ToString::to_string).collect()
    };
    Ok(Settings {
        off,
        imports: Some(imports),
        banned: wanted.ban.iter().cloned().chain(file.ban).collect(),
        required: wanted.require.iter().cloned().chain(file.require).collect(),
    })
}

/// The text that may be run, or the verdict on what may not; with everything that the rules found.
pub(crate) fn look<'a>(source: &'a [u8], rules: &Settings) -> (Result<&'a str, Verdict>, Vec<Finding>) {
    let refuse = |kind, reason: &str| (Err(Verdict::of(kind, reason)), Vec::new());
    let Ok(text) = std::str::from_utf8(source) else {
        return refuse(Kind::Syntax, "the file is not UTF-8 text");
    };
    if text.contains('\0') {
        return refuse(Kind::Syntax, "the file contains NUL bytes");
    }
    let report = kforge_guard::check(text, rules);
    if report.empty {
        return refuse(Kind::Empty, "the file has no code");
    }
    (of_findings(&report.findings).map_or(Ok(text), Err), report.findings)
}
