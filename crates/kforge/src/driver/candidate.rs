//! From a reply to a verdict: find the candidate and have it judged.

use super::Progress;
use crate::{
    evaluator::{Evaluator, GaveUp},
    reply::{ExtractError, extract},
    run::{
        event::{CallFailure, Judged},
        history::START,
    },
};
use kforge_exec::ExecError;
use kforge_models::{Reply, Stop};
use kforge_types::{EvalResult, Kind, Verdict};

/// The verdict on the candidate in a reply.
pub(crate) fn judge(
    reply: &Reply,
    attempt: u32,
    evaluator: &mut Evaluator,
    progress: &dyn Progress,
) -> anyhow::Result<Judged> {
    let notes = reply.notes.iter().cloned();
    let found = match extract(&reply.text) {
        Ok(found) => found,
        Err(error) => {
            let verdict = no_candidate(reply.stop, &error);
            return Ok(Judged { notes: notes.collect(), ..nothing(attempt, evaluator, verdict) });
        }
    };
    let result = result(&found.source, attempt, reply.stop, evaluator, progress)?;
    Ok(Judged {
        source: Some(found.source),
        idea: found.idea.unwrap_or_default(),
        notes: notes.chain(found.notes).collect(),
        result,
        seconds: 0.0,
    })
}

/// The verdict on a kernel that the user has already.
pub(crate) fn judge_given(source: &str, evaluator: &mut Evaluator, progress: &dyn Progress) -> anyhow::Result<Judged> {
    Ok(Judged {
        source: Some(source.to_owned()),
        idea: "the kernel that the run starts from".to_owned(),
        notes: Vec::new(),
        result: result(source, START, Stop::End, evaluator, progress)?,
        seconds: 0.0,
    })
}

/// A call that failed is a generation failure: the loop goes on.
pub(crate) fn no_reply(failure: &CallFailure, attempt: u32, evaluator: &Evaluator) -> Judged {
    nothing(attempt, evaluator, Verdict::of(Kind::NoReply, format!("no reply from the model: {}", failure.text)))
}

fn nothing(attempt: u32, evaluator: &Evaluator, verdict: Verdict) -> Judged {
    let result = evaluator.refused(&name(attempt), b"", Vec::new(), verdict);
    Judged { source: None, idea: String::new(), notes: Vec::new(), result, seconds: 0.0 }
}

fn name(attempt: u32) -> String {
    format!("attempt {attempt}")
}

fn result(
    source: &str,
    attempt: u32,
    stop: Stop,
    evaluator: &mut Evaluator,
    progress: &dyn Progress,
) -> anyhow::Result<EvalResult> {
    let candidate = match evaluator.admit(&name(attempt), source.as_bytes()) {
        Ok(candidate) => candidate,
        Err(refused) => return Ok(*refused),
    };
    let refused = |evaluator: &Evaluator, verdict| {
        evaluator.refused(candidate.name(), source.as_bytes(), candidate.findings().to_vec(), verdict)
    };
    if stop == Stop::Length {
        let text = "the reply was cut off at the limit on its length; answer more briefly";
        return Ok(refused(evaluator, Verdict::of(Kind::Truncated, text)));
    }
    match evaluator.judge(&candidate, progress) {
        Err(error) if error.is::<GaveUp>() => Ok(refused(evaluator, Verdict::of(Kind::Protocol, error.to_string()))),
        // The next candidate may do without it.
        Err(error) if matches!(error.downcast_ref(), Some(ExecError::Uninterpretable(_))) => {
            Ok(refused(evaluator, Verdict::of(Kind::Exception, error.to_string())))
        }
        judged => judged,
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
