//! The flags about source rules that several commands share.

use super::Usage;
use crate::config::{self, RuleName};
use clap::Args;
use kforge_guard::{Pattern, Settings};
use serde::Deserialize;
use std::path::PathBuf;

/// Which rules and patterns candidates are held to.
#[derive(Args, Default)]
pub(crate) struct GuardArgs {
    /// Switch a source rule off (see `kforge guard --list`); may be repeated.
    #[arg(long, value_name = "RULE")]
    pub(crate) allow_rule: Vec<RuleName>,
    /// Refuse candidates that use this: a name such as torch.matmul or torch.nn.functional.*, an attribute such as
    /// .half(), cpp:WORD for a word of native code, or re:REGEX; may be repeated.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) ban: Vec<Pattern>,
    /// Refuse candidates that do not use this; may be repeated.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) require: Vec<Pattern>,
    /// Read more of these from a TOML file with the lists ban, require, off (rules) and imports (packages).
    #[arg(long, value_name = "FILE")]
    pub(crate) guard_file: Option<PathBuf>,
}

/// What a guard file says.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct GuardFile {
    ban: Vec<Pattern>,
    require: Vec<Pattern>,
    off: Vec<RuleName>,
    imports: Vec<String>,
}

impl GuardArgs {
    /// What the rules are to look for, where a target offers these packages.
    pub(crate) fn settings(&self, mut imports: Vec<String>) -> anyhow::Result<Settings> {
        let file = match &self.guard_file {
            None => GuardFile::default(),
            Some(path) => config::read(path).map_err(|error| Usage(error.to_string()))?.ok_or_else(|| {
                Usage(format!("there is no guard file {}; write one or leave the flag out", path.display()))
            })?,
        };
        imports.extend(file.imports);
        Ok(Settings {
            off: self.allow_rule.iter().chain(&file.off).map(ToString::to_string).collect(),
            imports: Some(imports),
            banned: self.ban.iter().cloned().chain(file.ban).collect(),
            required: self.require.iter().cloned().chain(file.require).collect(),
        })
    }
}
