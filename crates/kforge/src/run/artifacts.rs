//! Files for people: everything in them is in the journal too, except prompts, of which it has the hash.

use super::{
    event::{Event, Line, Role},
    history::History,
};
use anyhow::Context;
use kforge_models::{Request, Speaker};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The folder of a run.
pub(crate) struct Artifacts {
    run: PathBuf,
    problem: PathBuf,
    model: PathBuf,
}

impl Artifacts {
    pub(crate) fn new(run: &Path, problem: &str, model: &str) -> Self {
        let problem = run.join(safe(problem));
        let model = problem.join(safe(model));
        Self { run: run.to_owned(), problem, model }
    }

    pub(crate) fn run_folder(&self) -> &Path {
        &self.run
    }

    pub(crate) fn attempt_folder(&self, attempt: u32) -> PathBuf {
        self.model.join(format!("{attempt:02}"))
    }

    pub(crate) fn best_folder(&self) -> PathBuf {
        self.problem.join("best")
    }

    /// Before the call is made: a prompt that crashed a server is worth looking at.
    pub(crate) fn prompt(&self, attempt: u32, role: Role, ordinal: u32, request: &Request) -> anyhow::Result<()> {
        let folder = self.attempt_folder(attempt);
        let text: Vec<String> = request
            .turns
            .iter()
            .map(|turn| match turn.speaker {
                Speaker::User => turn.text.clone(),
                Speaker::Assistant => format!("(the model had said)\n\n{}", turn.text),
            })
            .collect();
        write(&folder.join(format!("{}prompt.md", prefix(role, ordinal))), &text.join("\n\n"))?;
        write(&folder.join(format!("{}system.md", prefix(role, ordinal))), &request.system)
    }

    /// What this event adds.
    pub(crate) fn write(&self, line: &Line, history: &History) -> anyhow::Result<()> {
        match &line.event {
            Event::Replied { attempt, role, ordinal, reply } => {
                let name = format!("{}reply.md", prefix(*role, *ordinal));
                write(&self.attempt_folder(*attempt).join(name), &reply.text)
            }
            Event::Advised { attempt, advice: Some(advice), .. } => {
                json(&self.attempt_folder(*attempt).join("recommendation.json"), advice)
            }
            Event::Profiled { attempt, profile, .. } => {
                let folder = self.attempt_folder(*attempt).join("profile");
                for document in &profile.documents {
                    write(&folder.join(format!("{}.txt", safe(&document.name))), &document.text)?;
                }
                json(&folder.join("profile.json"), profile)
            }
            Event::Judged { attempt, judged } => {
                let folder = self.attempt_folder(*attempt);
                if let Some(source) = &judged.source {
                    write(&folder.join("candidate.py"), source)?;
                }
                json(&folder.join("verdict.json"), &judged.result)?;
                if let Some(timing) = &judged.result.candidate {
                    let result = &judged.result;
                    let measurement = serde_json::json!({
                        "speedup": result.speedup, "speedup_ci": result.speedup_ci, "baseline": result.baseline,
                        "baselines": result.baselines, "candidate": timing, "device": result.device,
                        "provisional": result.provisional,
                    });
                    json(&folder.join("measurement.json"), &measurement)?;
                }
                if history.best().is_some_and(|best| best.id == *attempt) {
                    self.best(history, *attempt)
                } else {
                    Ok(())
                }
            }
            Event::Duelled { attempt, outcome, .. } => {
                if let Some(outcome) = outcome {
                    json(&self.attempt_folder(*attempt).join("duel.json"), outcome)?;
                }
                history.best().map_or(Ok(()), |best| self.best(history, best.id))
            }
            _ => Ok(()),
        }
    }

    fn best(&self, history: &History, attempt: u32) -> anyhow::Result<()> {
        let Some(found) = history.attempt(attempt) else { return Ok(()) };
        let folder = self.best_folder();
        write(&folder.join("candidate.py"), found.source().unwrap_or_default())?;
        let evidence = history.confirmed.as_ref().filter(|(id, _)| *id == attempt).map(|(_, result)| result);
        json(&folder.join("evidence.json"), &evidence.or(found.result()))
    }

    /// The winner, its evidence, and a file that needs kforge no more.
    pub(crate) fn finish(&self, history: &History, best: Option<u32>) -> anyhow::Result<()> {
        let Some(best) = best else {
            // What was there has been disproved since.
            let _ = std::fs::remove_dir_all(self.best_folder());
            return Ok(());
        };
        self.best(history, best)?;
        let source = history.attempt(best).and_then(|attempt| attempt.source()).unwrap_or_default();
        let headline =
            format!("Made by kforge {}; attempt {best} of {}", env!("CARGO_PKG_VERSION"), self.run.display());
        write(&self.best_folder().join("standalone.py"), &super::export::standalone(source, &headline))?;
        let framework = self.best_folder().join("pytorch.py");
        let Some((name, result)) = history.framework_wins() else {
            let _ = std::fs::remove_file(framework);
            return Ok(());
        };
        let problem = std::fs::read_to_string(self.run.join("problem.py")).unwrap_or_default();
        let mul = serde_json::to_value(result.contract.mul).unwrap_or_default();
        let headline = format!("What PyTorch itself does best, {name}: no kernel of {} beat it", self.run.display());
        let mul = mul.as_str().unwrap_or("fp32");
        write(&framework, &super::export::framework(&problem, name, mul, &headline))
    }
}

/// The generator's files have the plain names; the analyst is asked more than once where its answer was repaired.
fn prefix(role: Role, ordinal: u32) -> String {
    match role {
        Role::Generator => String::new(),
        Role::Analyst => format!("analyst-{ordinal:02}-"),
    }
}

/// A name that is one folder on every file system.
pub(crate) fn safe(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(kept).take(80).collect();
    if name.trim_matches('.').is_empty() { "unnamed".to_owned() } else { name }
}

fn json<T: Serialize>(path: &Path, value: &T) -> anyhow::Result<()> {
    write(path, &format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Whole or not at all.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let go = || -> std::io::Result<()> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let temporary = path.with_extension(format!("tmp{}", std::process::id()));
        std::fs::write(&temporary, text)?;
        std::fs::rename(&temporary, path)
    };
    go().with_context(|| format!("cannot write {}", path.display()))
}
