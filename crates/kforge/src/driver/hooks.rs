//! The user's own scripts, after each evaluation and at the end.
//!
//! A script gets one argument, the path of a JSON file with what happened and where its files are. It may print a JSON
//! object as its last line: `{"score": 1.9, "measurements": {"watts": 80}}`. A script that fails is reported; the run goes on.

use crate::run::{
    artifacts::Artifacts,
    event::HookReport,
    history::{Attempt, History},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

const KEPT_BYTES: usize = 64 << 10;
const TEXT_BYTES: usize = 2000;
const MOST_MEASUREMENTS: usize = 64;

/// One script.
#[derive(Debug, Clone)]
pub(crate) struct Hook {
    pub(crate) on: When,
    pub(crate) command: Vec<String>,
    /// The folder that it runs in.
    pub(crate) folder: PathBuf,
    pub(crate) timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Evaluation,
    End,
}

/// What a script may answer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    score: Option<f64>,
    #[serde(default)]
    measurements: BTreeMap<String, f64>,
}

/// What a script is told, written into a file of the run.
pub(crate) struct Input {
    value: Value,
    file: PathBuf,
}

pub(crate) fn input(history: &History, attempt: Option<u32>, artifacts: &Artifacts) -> Input {
    let found = attempt.or_else(|| history.best().map(|best| best.id)).and_then(|id| history.attempt(id));
    let folder = found.map(|attempt| artifacts.attempt_folder(attempt.id));
    let value = json!({
        "event": if attempt.is_some() { "evaluation" } else { "end" },
        "run": artifacts.run_folder(),
        "attempt": found.map(|attempt| attempt.id),
        "folder": folder,
        "candidate": folder.as_ref().map(|folder| folder.join("candidate.py")),
        "result": found.and_then(|attempt| attempt.result()),
        "score": found.and_then(Attempt::score),
    });
    let file = match (&folder, attempt) {
        (Some(folder), Some(_)) => folder.join("hook.json"),
        _ => artifacts.run_folder().join("hook.json"),
    };
    Input { value, file }
}

pub(crate) fn run(hook: &Hook, input: &Input) -> HookReport {
    let begun = Instant::now();
    let done = perform(hook, input);
    let mut report = HookReport {
        command: hook.command.join(" "),
        ok: true,
        text: String::new(),
        score: None,
        measurements: BTreeMap::new(),
        seconds: begun.elapsed().as_secs_f64(),
    };
    match done {
        Ok((answer, text)) => {
            report.score = answer.score;
            report.measurements = answer.measurements;
            report.text = text;
        }
        Err(text) => {
            report.ok = false;
            report.text = text;
        }
    }
    report
}

fn perform(hook: &Hook, input: &Input) -> Result<(Answer, String), String> {
    let text = serde_json::to_string_pretty(&input.value).map_err(|error| error.to_string())?;
    std::fs::write(&input.file, text).map_err(|error| format!("cannot write {}: {error}", input.file.display()))?;
    let (program, arguments) = hook.command.split_first().ok_or("the hook has no command")?;
    let mut command = Command::new(program);
    command.args(arguments).arg(&input.file).current_dir(&hook.folder);
    let output =
        kforge_exec::process::run_bounded(&mut command, hook.timeout, KEPT_BYTES).map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("{}: {}", output.status, tail(&output.stderr_text())));
    }
    let said = output.stdout_text();
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if !last.starts_with('{') {
        return Ok((Answer::default(), tail(&said)));
    }
    let answer: Answer = serde_json::from_str(last).map_err(|error| {
        format!(
            "its last line is no answer ({error}); an answer is {{\"score\": 1.0, \"measurements\": {{\"name\": 1.0}}}}"
        )
    })?;
    if answer.measurements.len() > MOST_MEASUREMENTS {
        return Err(format!("it gave {} measurements; {MOST_MEASUREMENTS} are taken", answer.measurements.len()));
    }
    if answer.score.is_some_and(|score| !score.is_finite() || score < 0.0) {
        return Err("its score is not a number of 0 or more".to_owned());
    }
    Ok((answer, String::new()))
}

fn tail(text: &str) -> String {
    let start = text.ceil_char_boundary(text.len().saturating_sub(TEXT_BYTES));
    text[start..].trim().to_owned()
}
