//! Exchanges with models on disk, readable by people, and answered from there.
//!
//! Owns the layout: `DIR/<problem>/<target>/` holds `recording.toml` and, for each exchange, `<role>-<ordinal>.prompt.md` and
//! `<role>-<ordinal>.reply.md`. A reply is found by the hash of the problem's text, the target, the role and the ordinal;
//! never by the prompt, which contains timings. How far the prompt has drifted is said with every replayed reply.

mod recorder;
mod replay;
#[cfg(test)]
mod tests;

pub use recorder::Recorder;
pub use replay::{Recorded, Replay};

use crate::disk::slug;
use crate::support::headed_text;
use crate::{Label, Request, Stop, Usage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

const VERSION: u32 = 1;
const INDEX: &str = "recording.toml";
const MAX_FILE: u64 = 16 << 20;

/// `recording.toml`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Index {
    version: u32,
    problem: String,
    problem_hash: String,
    target: String,
    #[serde(default, rename = "exchange")]
    exchanges: Vec<Exchange>,
}

/// One call and what is known of its reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Exchange {
    role: String,
    ordinal: u32,
    /// As the user named it.
    model: String,
    /// As it named itself.
    answered_by: String,
    date: String,
    stop: Stop,
    seconds: f64,
    attempts: u32,
    prompt_hash: String,
    #[serde(default)]
    cost_usd: Option<f64>,
    #[serde(default)]
    usage: Usage,
}

impl Index {
    fn new(label: &Label) -> Self {
        Self {
            version: VERSION,
            problem: label.problem.clone(),
            problem_hash: label.problem_hash.clone(),
            target: label.target.clone(),
            exchanges: Vec::new(),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let told = |error: toml::de::Error| error.message().to_owned();
        match toml::from_str::<Version>(text).map_err(told)?.version {
            VERSION => toml::from_str(text).map_err(told),
            newer => Err(format!("has version {newer}, and this kforge reads version {VERSION}")),
        }
    }

    fn is_for(&self, label: &Label) -> bool {
        self.problem_hash == label.problem_hash && self.target == label.target
    }
}

/// `generator-01`: the files of an exchange begin with it.
fn stem(role: &str, ordinal: u32) -> String {
    format!("{}-{ordinal:02}", slug(role, 40))
}

/// The prompt as it is kept and compared.
fn kept_prompt(request: &Request) -> String {
    let mut text = headed_text(request);
    if !request.images.is_empty() {
        text.push_str("\n# Images\n\n");
        for image in &request.images {
            let _ = writeln!(text, "- {} ({})", image.name, image.media_type);
        }
    }
    text
}

/// The share of lines, 0 to 1, that only one of two prompts has. Numbers count as equal, empty lines and order do not count.
fn drift(recorded: &str, today: &str) -> f64 {
    let mut lines: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in recorded.lines().map(masked).filter(|line| !line.is_empty()) {
        lines.entry(line).or_default().0 += 1;
    }
    for line in today.lines().map(masked).filter(|line| !line.is_empty()) {
        lines.entry(line).or_default().1 += 1;
    }
    let (mut all, mut differing) = (0, 0);
    for (recorded, today) in lines.values() {
        all += recorded + today;
        differing += recorded.abs_diff(*today);
    }
    if all == 0 { 0.0 } else { differing as f64 / all as f64 }
}

/// A line with `#` for every number.
fn masked(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line.trim();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        text.push_str(&rest[..at]);
        text.push('#');
        let number = &rest[at..];
        let end = number.find(|c: char| !c.is_ascii_digit() && !".,".contains(c)).unwrap_or(number.len());
        // A full stop after a number is not part of it.
        let end = number[..end].trim_end_matches(['.', ',']).len();
        rest = &number[end..];
    }
    text.push_str(rest);
    text
}
