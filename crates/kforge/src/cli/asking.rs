//! What commands that judge given candidates have in common: flags, files, and from both to an evaluator.

use super::{Usage, pick_target, printer::Printer, settings};
use crate::{
    config::{EvaluationFlags, Executor, Resolved, RuleFlags, Settings},
    evaluator::{Evaluator, Purpose, Request},
};
use clap::Args;
use std::path::{Path, PathBuf};

/// The settings of an evaluation, and what goes with one that is asked for by hand.
#[derive(Args)]
pub(super) struct AskingArgs {
    #[command(flatten)]
    evaluation: EvaluationFlags,
    #[command(flatten)]
    rules: RuleFlags,
    /// The Python with torch [default: KFORGE_PYTHON, an active environment, python3, or one that kforge makes].
    #[arg(long)]
    python: Option<PathBuf>,
    /// Send this too: a file or folder beside the problem that its imports do not show (not with in-place); may be repeated.
    #[arg(long, value_name = "PATH")]
    carry: Vec<PathBuf>,
    /// With exchange:DIR the same question finds the answer that it was given before. Another tag asks it again.
    #[arg(long, default_value = "", hide_default_value = true)]
    tag: String,
}

/// A candidate's file.
pub(super) struct File {
    /// As the user named it.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

impl File {
    pub(super) fn read(path: &Path) -> Result<Self, Usage> {
        let bytes = std::fs::read(path)
            .map_err(|error| Usage(format!("cannot read the candidate {}: {error}", path.display())))?;
        Ok(Self { name: path.display().to_string(), bytes })
    }

    fn text(&self) -> (&str, &str) {
        (&self.name, std::str::from_utf8(&self.bytes).unwrap_or_default())
    }
}

impl AskingArgs {
    /// What holds in this folder with these flags.
    pub(super) fn settings(&self) -> anyhow::Result<Resolved> {
        let resolved = settings::resolve(&self.rules.within(self.evaluation.within(Settings::default())))?;
        if !self.tag.is_empty() && resolved.evaluation.executor == Executor::InPlace {
            let text = "--tag is for exchange:DIR and ssh:HOST: in place every evaluation is a new one";
            return Err(Usage(text.to_owned()).into());
        }
        Ok(resolved)
    }

    /// The evaluator for these candidates; without a target in the settings they show what they are written for.
    pub(super) fn evaluator(
        &self,
        settings: Resolved,
        problem: &Path,
        candidates: &[File],
        purpose: Purpose,
        baselines: &[PathBuf],
        printer: &Printer,
    ) -> anyhow::Result<Evaluator> {
        let named = settings.evaluation.target.as_ref();
        let target = pick_target::for_candidates(named, candidates.iter().map(File::text), printer)?;
        Evaluator::open(&Request {
            problem: problem.to_owned(),
            target,
            rules: settings.rules,
            evaluation: settings.evaluation,
            purpose,
            baselines: baselines.to_vec(),
            python: self.python.clone(),
            carry: self.carry.clone(),
            tag: self.tag.clone(),
        })
    }
}
