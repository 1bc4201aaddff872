//! What models are asked: Jinja templates per role and pass, filled with bounded, cleaned facts.
//!
//! Templates lie in `prompts/`; a target adds its guide and one-shot pair and may replace any template by a file of the same
//! name below its own `prompts/`; the user may override a prompt for some iterations. `input` is what a caller gives,
//! `view` is what a template gets to see, `caps` says how much of it. Nothing here talks to a model, and only `files`
//! touches the disk.

mod caps;
mod edits;
mod files;
mod filters;
mod history;
mod input;
mod view;

pub(crate) use edits::{EditPlan, EditSpecs, Role, Slot};
pub(crate) use files::Edits;
pub(crate) use input::{
    AnalystInput, AnalystPass, AnalystRepair, Attempt, Beside, Failure, GeneratorInput, GeneratorPass, Job, Optimise,
    Profiled, Repair, Wanted,
};

use crate::{
    reply::{Correction, Recommendation, schema},
    target::TargetTexts,
    text,
};
use include_dir::{Dir, include_dir};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context, syntax::SyntaxConfig, value::Serde};

static PROMPTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/prompts");

/// A prompt cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PromptError {
    /// A flag that cannot be understood.
    #[error("{0}")]
    Spec(String),
    /// A file that cannot be read.
    #[error("{0}")]
    File(String),
    /// A template that cannot be read or filled.
    #[error("the template {name} fails: {message}; fix it or leave it out")]
    Template {
        /// Which one: an embedded name or the user's file.
        name: String,
        /// What the engine said.
        message: String,
    },
}

/// A finished prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) system: String,
    pub(crate) user: String,
}

/// The prompts of one run: one target, one set of edits.
pub(crate) struct Prompts {
    environment: Environment<'static>,
    edits: Edits,
}

impl Prompts {
    /// Reads all templates; a mistake in any of them shows here and not in the middle of a run.
    pub(crate) fn new(target: &TargetTexts, edits: Edits) -> Result<Self, PromptError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
        environment.set_syntax(syntax.map_err(|error| template_error("of the engine".to_owned(), &error))?);
        filters::add(&mut environment);
        let mut add = |name: String, source: String| {
            let shown = name.clone();
            environment.add_template_owned(name, source).map_err(|error| template_error(shown, &error))
        };
        for (name, source) in embedded() {
            add(name, source)?;
        }
        add("target/guide.md.j2".to_owned(), target.guide.clone())?;
        for (name, source) in &target.prompts {
            add(name.clone(), source.clone())?;
        }
        for (number, edit) in edits.overrides.iter().enumerate() {
            let name = override_name(number);
            environment
                .add_template_owned(name, edit.template.clone())
                .map_err(|error| template_error(edit.file.clone(), &error))?;
        }
        let example =
            context! { problem => target.example_problem.as_str(), candidate => target.example_candidate.as_str() };
        environment.add_global("example", example);
        Ok(Self { environment, edits })
    }

    /// A prompt for the generator.
    pub(crate) fn generator(&self, input: &GeneratorInput) -> Result<Rendered, PromptError> {
        let (slot, pass) = match &input.pass {
            GeneratorPass::First => (Slot::GeneratorFunctional, context! { first => true }),
            GeneratorPass::Repair(repair) => (
                Slot::GeneratorFunctional,
                context! {
                    first => false,
                    failure => seen(view::FailureView::of(&repair.failure)),
                    correction => seen(&repair.correction),
                },
            ),
            GeneratorPass::Optimise(optimise) => (
                Slot::GeneratorOptimise,
                context! {
                    candidate => text::tame(&optimise.candidate, caps::CANDIDATE),
                    measurement => seen(view::MeasurementView::of(&optimise.result)),
                    roofline => seen(optimise.roofline.as_ref().map(view::RooflineView::of)),
                    recommendation => seen(&optimise.recommendation),
                },
            ),
        };
        let values = self.values(&input.job, &input.history, input.iteration, pass);
        Ok(Rendered {
            system: self.render(Slot::GeneratorSystem, input.iteration, &values)?,
            user: self.user(slot, Role::Generator, input.iteration, &values)?,
        })
    }

    /// A prompt for the analyst.
    pub(crate) fn analyst(&self, input: &AnalystInput) -> Result<Rendered, PromptError> {
        let (slot, pass) = match &input.pass {
            AnalystPass::Correction(failure) => (
                Slot::AnalystCorrection,
                context! { failure => seen(view::FailureView::of(failure)), schema => schema::<Correction>() },
            ),
            AnalystPass::Optimisation(profiled) => (
                Slot::AnalystOptimisation,
                context! {
                    candidate => text::tame(&profiled.candidate, caps::CANDIDATE),
                    measurement => seen(view::MeasurementView::of(&profiled.result)),
                    roofline => seen(profiled.profile.roofline.as_ref().map(view::RooflineView::of)),
                    profile => seen(view::ProfileView::of(&profiled.profile, &profiled.images)),
                    schema => schema::<Recommendation>(),
                },
            ),
        };
        let values = self.values(&input.job, &input.history, input.iteration, pass);
        Ok(Rendered {
            system: self.render(Slot::AnalystSystem, input.iteration, &values)?,
            user: self.user(slot, Role::Analyst, input.iteration, &values)?,
        })
    }

    /// The user's turn that asks the analyst once more; it stands alone, or follows the answer as the next turn.
    pub(crate) fn analyst_repair(&self, input: &AnalystRepair) -> Result<String, PromptError> {
        let schema = match input.wanted {
            Wanted::Correction => schema::<Correction>(),
            Wanted::Recommendation => schema::<Recommendation>(),
        };
        let values = context! {
            iteration => input.iteration,
            reply => text::tame(&input.reply, caps::BAD_REPLY),
            error => text::tame(&input.error, caps::REASON),
            schema,
        };
        self.render(Slot::AnalystRepair, input.iteration, &values)
    }

    fn values(&self, job: &Job, history: &[Attempt], iteration: u32, pass: Value) -> Value {
        let shared = context! {
            job => seen(view::JobView::of(job)),
            extra => seen(view::ExtraView::of(&self.edits, iteration)),
            history => history::history(history),
            iteration,
        };
        context! { ..pass, ..shared }
    }

    /// The prompt of a pass with the user's texts at its end.
    fn user(&self, slot: Slot, role: Role, iteration: u32, values: &Value) -> Result<String, PromptError> {
        let mut prompt = self.render(slot, iteration, values)?;
        let appended = self.edits.appends.iter().filter(|edit| edit.role == role && edit.range.contains(iteration));
        for edit in appended {
            prompt.push('\n');
            prompt.push_str(text::tame(&edit.text, caps::APPEND).trim());
            prompt.push('\n');
        }
        Ok(prompt)
    }

    /// The user's template for this iteration, the last one given first, else the target's, else the embedded one.
    fn render(&self, slot: Slot, iteration: u32, values: &Value) -> Result<String, PromptError> {
        let mut edits = self.edits.overrides.iter().enumerate().rev();
        let edit = edits.find(|(_, edit)| edit.slot == slot && edit.range.contains(iteration));
        let (name, shown) = match edit {
            Some((number, edit)) => (override_name(number), edit.file.clone()),
            None => (slot.template(), slot.template()),
        };
        let template = self.environment.get_template(&name).map_err(|error| template_error(shown.clone(), &error))?;
        let text = template.render(values.clone()).map_err(|error| template_error(shown, &error))?;
        Ok(tidy(&text))
    }
}

/// At most one blank line in a row, outside of fenced blocks: sections that are empty leave theirs behind.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fence: Option<usize> = None;
    for line in text.trim().lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            None if ticks >= 3 && !line[ticks..].contains('`') => fence = Some(ticks),
            Some(open) if ticks >= open && line.len() == ticks => fence = None,
            _ => {}
        }
        if fence.is_none() && line.trim().is_empty() && out.ends_with("\n\n") {
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn seen<T: serde::Serialize>(view: T) -> Value {
    Value::from(Serde(view))
}

fn override_name(number: usize) -> String {
    format!("override/{number}")
}

fn template_error(name: String, error: &minijinja::Error) -> PromptError {
    // The outer error of an include says only that it failed; the inner one says why.
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        message = format!("{message}: {inner}");
        source = inner.source();
    }
    PromptError::Template { name, message }
}

fn embedded() -> Vec<(String, String)> {
    crate::target::text_files(&PROMPTS)
}

#[cfg(test)]
mod tests;
