//! The analyst's answers: exactly one JSON object each, strict in its types, tolerant of what stands around it.

use super::without_thinking;
use crate::text::tame;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Larger answers are refused unread.
const MAX_REPLY: usize = 256 << 10;
/// Bytes of a field that is a sentence or two.
const SHORT: usize = 1200;
/// Bytes of a plan.
const LONG: usize = 6000;
/// Metrics named, and bytes of each name.
const METRICS: usize = 32;
const METRIC: usize = 120;
/// Places where an object could begin that are tried.
const MOST_STARTS: usize = 10_000;

/// Why a candidate is not correct, and the smallest change that would fix it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Correction {
    /// The one defect that makes this candidate fail, with its place in the source.
    pub(crate) critical_issue: String,
    /// How that defect leads to the failure that was observed.
    pub(crate) why_it_matters: String,
    /// The smallest change that removes it, in words; no complete file.
    pub(crate) minimal_fix_hint: String,
}

/// The one next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Recommendation {
    /// What limits this candidate now, with the evidence.
    pub(crate) bottleneck: String,
    /// The one optimisation to apply, by name.
    pub(crate) method: String,
    /// What to change in the candidate, step by step, as one string.
    pub(crate) plan: String,
    /// The expected gain and why, for example "about 1.3x: one pass over memory instead of two".
    pub(crate) expected_gain: String,
    /// Names of the metrics that this rests on, as they were shown; empty if none.
    #[serde(default)]
    pub(crate) metrics_used: Vec<String>,
}

/// The answer cannot be used. The text is for the one repair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AdviceError {
    #[error("the answer is empty; answer with one JSON object")]
    Empty,
    #[error("the answer has {0} bytes, more than the {MAX_REPLY} that are read; answer with one JSON object only")]
    TooLarge(usize),
    #[error("the answer holds no complete JSON object{0}; answer with one JSON object and nothing else")]
    NoObject(String),
    #[error(
        "the answer holds {0} of them; exactly one is wanted: choose the most important and answer with one JSON object"
    )]
    Several(usize),
    #[error("{0}; answer with one JSON object that has all fields of the schema")]
    Fields(String),
}

/// Reads a correction.
pub(crate) fn correction(reply: &str) -> Result<Correction, AdviceError> {
    let mut fields = Fields::read(reply, &["critical_issue", "why_it_matters", "minimal_fix_hint"])?;
    let made = Correction {
        critical_issue: fields.text("critical_issue", SHORT),
        why_it_matters: fields.text("why_it_matters", SHORT),
        minimal_fix_hint: fields.text("minimal_fix_hint", LONG),
    };
    fields.done(made)
}

/// Reads a recommendation.
pub(crate) fn recommendation(reply: &str) -> Result<Recommendation, AdviceError> {
    let mut fields = Fields::read(reply, &["bottleneck", "method", "plan", "expected_gain"])?;
    let made = Recommendation {
        bottleneck: fields.text("bottleneck", SHORT),
        method: fields.text("method", SHORT),
        plan: fields.text("plan", LONG),
        expected_gain: fields.text("expected_gain", SHORT),
        metrics_used: fields.list("metrics_used"),
    };
    fields.done(made)
}

/// The JSON schema of an answer, as text for a prompt.
pub(crate) fn schema<T: JsonSchema>() -> String {
    serde_json::to_string_pretty(&schemars::schema_for!(T)).unwrap_or_default()
}

/// The object that was found, and what is wrong with its fields.
struct Fields {
    object: Map<String, Value>,
    wrong: Vec<String>,
}

impl Fields {
    fn read(reply: &str, wanted: &[&str]) -> Result<Self, AdviceError> {
        Ok(Self { object: the_object(reply, wanted)?, wrong: Vec::new() })
    }

    /// A string, or a list of strings joined to one.
    fn text(&mut self, name: &str, cap: usize) -> String {
        let text = match self.object.get(name) {
            None | Some(Value::Null) => {
                self.wrong.push(format!("the field {name:?} is missing"));
                return String::new();
            }
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Array(items)) => {
                items.iter().map(Value::as_str).collect::<Option<Vec<_>>>().map(|texts| texts.join("\n"))
            }
            Some(_) => None,
        };
        let Some(text) = text else {
            self.wrong.push(format!("the field {name:?} is not a string"));
            return String::new();
        };
        let text = tame(text.trim(), cap);
        if text.trim().is_empty() {
            self.wrong.push(format!("the field {name:?} is empty"));
        }
        text
    }

    /// A list of strings that may be left out.
    fn list(&mut self, name: &str) -> Vec<String> {
        let items = match self.object.get(name) {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::String(one)) => Some(vec![one.as_str()]),
            Some(Value::Array(items)) => items.iter().map(Value::as_str).collect(),
            Some(_) => None,
        };
        let Some(items) = items else {
            self.wrong.push(format!("the field {name:?} is not a list of strings"));
            return Vec::new();
        };
        let names = items.iter().map(|name| crate::text::one_line(name, METRIC)).filter(|name| !name.is_empty());
        names.take(METRICS).collect()
    }

    fn done<T>(self, made: T) -> Result<T, AdviceError> {
        if self.wrong.is_empty() { Ok(made) } else { Err(AdviceError::Fields(self.wrong.join(", "))) }
    }
}

fn the_object(reply: &str, wanted: &[&str]) -> Result<Map<String, Value>, AdviceError> {
    if reply.len() > MAX_REPLY {
        return Err(AdviceError::TooLarge(reply.len()));
    }
    let text = without_thinking(reply).ok_or_else(|| AdviceError::NoObject(": the reasoning never ends".to_owned()))?;
    if text.trim().is_empty() {
        return Err(AdviceError::Empty);
    }
    let (objects, problem) = objects(text);
    let mut found: Vec<Map<String, Value>> = Vec::new();
    for object in &objects {
        for inner in unwrapped(object, wanted) {
            // The same object twice, as a draft and as the answer, is one answer.
            if !found.contains(inner) {
                found.push(inner.clone());
            }
        }
    }
    match (found.len(), objects.len()) {
        (1, _) => Ok(found.remove(0)),
        (0, 0) => Err(AdviceError::NoObject(problem.map_or(String::new(), |error| format!(" ({error})")))),
        // One object, with none of the fields: the missing ones will be named.
        (0, 1) => Ok(objects.into_iter().next().unwrap_or_default()),
        (0, _) => Err(AdviceError::Fields(format!("no object has the fields {}", wanted.join(", ")))),
        (count, _) => Err(AdviceError::Several(count)),
    }
}

/// The object itself if it has one of the fields, or those that it wraps: `{"recommendations": [{...}]}`.
fn unwrapped<'a>(object: &'a Map<String, Value>, wanted: &[&str]) -> Vec<&'a Map<String, Value>> {
    let fits = |object: &Map<String, Value>| wanted.iter().any(|name| object.contains_key(*name));
    if fits(object) {
        return vec![object];
    }
    let values = object.values().flat_map(|value| match value {
        Value::Array(items) => items.iter().collect(),
        other => vec![other],
    });
    values.filter_map(Value::as_object).filter(|inner| fits(inner)).collect()
}

/// Every complete object at the outermost level of a text, and what was wrong with the first that was none.
fn objects(text: &str) -> (Vec<Map<String, Value>>, Option<serde_json::Error>) {
    let (mut found, mut problem) = (Vec::new(), None);
    let mut at = 0;
    for _ in 0..MOST_STARTS {
        let Some(start) = text[at..].find('{').map(|offset| at + offset) else { break };
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        match stream.next() {
            Some(Ok(Value::Object(object))) => {
                found.push(object);
                at = start + stream.byte_offset();
            }
            Some(Err(error)) => {
                problem.get_or_insert(error);
                at = start + 1;
            }
            _ => at = start + 1,
        }
    }
    (found, problem)
}

#[cfg(test)]
mod tests;
