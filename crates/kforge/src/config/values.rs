//! Choices among few, as flags and files name them.

use super::{file::suggestion, units::Span};
use clap::ValueEnum;
use kforge_types::SandboxLevel;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// How candidates follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// One candidate after another, each from an earlier one (see base).
    Refine,
    /// One candidate.
    Single,
    /// Several independent candidates.
    Sample,
    /// Several candidates, then refining the best.
    SampleRefine,
    /// The best few are refined side by side.
    Beam,
}

/// Which candidate the next one starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Base {
    /// The fastest correct one.
    Best,
    /// The last one that has a reply, correct or not.
    Latest,
}

/// Which baselines are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Baselines {
    /// All that compile within a minute.
    Auto,
    /// All, whatever they cost.
    All,
    /// Without max-autotune.
    Compile,
    /// Without torch's compiler.
    Eager,
}

/// The lowest precision that a candidate may compute in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// fp32.
    Strict,
    /// TF32 products, accumulated in fp32.
    Tf32,
    /// bf16 products, accumulated in fp32.
    Mixed,
}

/// The least sandbox that candidates may run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    /// Namespaces, file rules, system-call rules and limits.
    Full,
    /// All but namespaces.
    Partial,
    /// Whatever the machine allows.
    None,
}

impl From<Sandbox> for SandboxLevel {
    fn from(sandbox: Sandbox) -> Self {
        match sandbox {
            Sandbox::Full => Self::Full,
            Sandbox::Partial => Self::Partial,
            Sandbox::None => Self::None,
        }
    }
}

/// How much a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// As little as the model offers.
    Minimal,
    /// Less than usual.
    Low,
    /// As usual.
    Medium,
    /// More than usual.
    High,
}

impl From<Effort> for kforge_models::Effort {
    fn from(effort: Effort) -> Self {
        match effort {
            Effort::Minimal => Self::Minimal,
            Effort::Low => Self::Low,
            Effort::Medium => Self::Medium,
            Effort::High => Self::High,
        }
    }
}

/// The name of a source rule that there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RuleName(String);

impl FromStr for RuleName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known: Vec<&str> = kforge_guard::rules().iter().map(|rule| rule.name).collect();
        if known.contains(&text) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("there is no rule `{text}`{}", suggestion(text, &known)))
    }
}

impl TryFrom<String> for RuleName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RuleName> for String {
    fn from(name: RuleName) -> Self {
        name.0
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A command of the user's that runs when something has happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// When it runs.
    pub on: HookEvent,
    /// Program and arguments, without a shell.
    pub command: Command,
    /// How long it may take.
    #[serde(default = "hook_timeout")]
    pub timeout: Span,
}

/// What a hook waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookEvent {
    /// A candidate was judged and is correct.
    Evaluation,
    /// The run is over.
    End,
}

/// A program and its arguments; there is always a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Command(pub Vec<String>);

impl TryFrom<Vec<String>> for Command {
    type Error = &'static str;

    fn try_from(words: Vec<String>) -> Result<Self, Self::Error> {
        if words.first().is_none_or(String::is_empty) {
            return Err("a command is a list that begins with a program, such as [\"notify-send\", \"done\"]");
        }
        Ok(Self(words))
    }
}

impl From<Command> for Vec<String> {
    fn from(command: Command) -> Self {
        command.0
    }
}

fn hook_timeout() -> Span {
    Span::from_secs(30)
}
