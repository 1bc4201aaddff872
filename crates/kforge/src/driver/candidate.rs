//! From a reply to a verdict: find the candidate, ask the source rules, have it judged.

use super::{
    Progress, Task,
    evaluator::{Evaluator, GaveUp},
    inputs::Material,
};
use crate::{
    refusal::Refused,
    reply::{ExtractError, extract},
    run::event::{CallFailure, Judged},
};
use kforge_models::{Reply, Stop};
use kforge_types::{EvalResult, Finding, Kind, Severity, Verdict};

/// A candidate, or the verdict that there is none.
struct Read {
    source: Option<String>,
    idea: String,
    notes: Vec<String>,
    findings: Vec<Finding>,
    refused: Option<Verdict>,
}

/// The verdict on the candidate in a reply.
pub(crate) fn judge(
    reply: &Reply,
    attempt: u32,
    task: &Task,
    material: &Material,
    evaluator: &mut dyn Evaluator,
    progress: &dyn Progress,
) -> anyhow::Result<Judged> {
    let read = read(reply, material);
    let name = format!("attempt {attempt}");
    let result = match (&read.source, &read.refused) {
        (Some(source), None) => {
            let mut result = match evaluator.judge(&name, source, progress) {
                Err(error) if error.is::<GaveUp>() => {
                    let verdict = Verdict::of(Kind::Protocol, error.to_string());
                    refused(&name, source, task, material, Vec::new(), verdict)
                }
                judged => judged?,
            };
            result.findings.clone_from(&read.findings);
            result
        }
        (source, refusal) => {
            let verdict = refusal.clone().unwrap_or_else(|| Verdict::of(Kind::NoCode, "the reply has no code"));
            refused(&name, source.as_deref().unwrap_or_default(), task, material, read.findings.clone(), verdict)
        }
    };
    Ok(Judged { source: read.source, idea: read.idea, notes: read.notes, result, seconds: 0.0 })
}

/// A call that failed is a generation failure: the loop goes on.
pub(crate) fn no_reply(failure: &CallFailure, attempt: u32, task: &Task, material: &Material) -> Judged {
    let verdict = Verdict::of(Kind::NoReply, format!("no reply from the model: {}", failure.text));
    let result = refused(&format!("attempt {attempt}"), "", task, material, Vec::new(), verdict);
    Judged { source: None, idea: String::new(), notes: Vec::new(), result, seconds: 0.0 }
}

fn refused(
    name: &str,
    source: &str,
    task: &Task,
    material: &Material,
    findings: Vec<Finding>,
    verdict: Verdict,
) -> EvalResult {
    let refused = Refused {
        problem_file: &task.file,
        problem_source: task.source.as_bytes(),
        candidate_name: name,
        candidate_source: source.as_bytes(),
        target: &task.target,
        contract: material.contract.clone(),
        device: material.device.clone(),
        findings,
    };
    refused.result(verdict)
}

fn read(reply: &Reply, material: &Material) -> Read {
    let nothing = |verdict| Read {
        source: None,
        idea: String::new(),
        notes: reply.notes.clone(),
        findings: Vec::new(),
        refused: Some(verdict),
    };
    let found = match extract(&reply.text) {
        Ok(found) => found,
        Err(error) => return nothing(no_candidate(reply.stop, &error)),
    };
    let report = kforge_guard::check(&found.source, &material.guard);
    let hard: Vec<&Finding> = report.findings.iter().filter(|f| f.severity == Severity::Hard).collect();
    let refused = match hard.first() {
        Some(first) => Some(crate::refusal::guardrail(first, hard.len())),
        None if reply.stop == Stop::Length => {
            Some(Verdict::of(Kind::Truncated, "the reply was cut off at the limit on its length; answer more briefly"))
        }
        None => None,
    };
    Read {
        source: Some(found.source),
        idea: found.idea.unwrap_or_default(),
        notes: reply.notes.iter().cloned().chain(found.notes).collect(),
        findings: report.findings,
        refused,
    }
}

fn no_candidate(stop: Stop, error: &ExtractError) -> Verdict {
    match stop {
        Stop::Length => {
            let text = format!("the reply was cut off at the limit on its length: {error}; answer more briefly");
            Verdict::of(Kind::Truncated, text)
        }
        Stop::Refused => Verdict::of(Kind::NoCode, format!("the model declined to answer: {error}")),
        Stop::End | Stop::Unknown => Verdict::of(Kind::NoCode, error.to_string()),
    }
}
