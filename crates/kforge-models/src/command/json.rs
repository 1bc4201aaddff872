//! Programs that print their reply as a JSON object, with what it cost.

use crate::Usage;
use crate::fault::bounded;
use serde::Deserialize;
use serde_json::Value;

/// Where things stand in the object, as JSON pointers. The defaults are those of `claude --output-format json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JsonFields {
    /// The reply's text.
    pub result: String,
    /// Whether the result is an error's text: `true`, or anything but `false`, `null` and the empty string.
    pub is_error: String,
    /// Tokens of the prompt: the sum of these.
    pub input: Vec<String>,
    /// Of them, cached.
    pub cached_input: String,
    /// Tokens of the reply.
    pub output: String,
    /// Of them, reasoning.
    pub reasoning: String,
    /// Dollars.
    pub cost_usd: String,
    /// Who answered: a text, or an object that has the names as keys.
    pub model: String,
}

impl Default for JsonFields {
    fn default() -> Self {
        Self {
            result: "/result".into(),
            is_error: "/is_error".into(),
            input: ["/usage/input_tokens", "/usage/cache_creation_input_tokens", "/usage/cache_read_input_tokens"]
                .map(str::to_owned)
                .into(),
            cached_input: "/usage/cache_read_input_tokens".into(),
            output: "/usage/output_tokens".into(),
            reasoning: "/usage/reasoning_tokens".into(),
            cost_usd: "/total_cost_usd".into(),
            model: "/modelUsage".into(),
        }
    }
}

/// What the object says.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) is_error: bool,
    pub(super) usage: Option<Usage>,
    pub(super) cost_usd: Option<f64>,
    pub(super) model: Option<String>,
}

/// The reply in a program's output: the whole of it is the object, or its last line is, or the last object of a list.
pub(super) fn read(output: &str, fields: &JsonFields) -> Result<Said, String> {
    let object = object(output).ok_or("no JSON object is in its output")?;
    let text = match object.pointer(&fields.result) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
    let inputs: Vec<u64> = fields.input.iter().filter_map(|pointer| number(pointer)).collect();
    let usage = Usage {
        input: (!inputs.is_empty()).then(|| inputs.iter().fold(0, |sum, count| count.saturating_add(sum))),
        cached_input: number(&fields.cached_input),
        output: number(&fields.output),
        reasoning: number(&fields.reasoning),
        estimated: false,
    };
    let is_error = match object.pointer(&fields.is_error) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    };
    if text.is_empty() && !is_error {
        return Err(format!("its JSON object has no text at {}", fields.result));
    }
    Ok(Said {
        text,
        is_error,
        usage: (usage.input.is_some() || usage.output.is_some()).then_some(usage),
        cost_usd: object.pointer(&fields.cost_usd).and_then(Value::as_f64).filter(|cost| *cost >= 0.0),
        model: object.pointer(&fields.model).and_then(names),
    })
}

fn object(output: &str) -> Option<Value> {
    let last_line = output.trim().lines().next_back()?;
    let value = [output, last_line].into_iter().find_map(|text| serde_json::from_str::<Value>(text).ok())?;
    match value {
        Value::Array(items) => items.into_iter().rfind(Value::is_object),
        other => Some(other).filter(Value::is_object),
    }
}

fn names(value: &Value) -> Option<String> {
    let names = match value {
        Value::String(name) => name.clone(),
        Value::Object(entries) => entries.keys().cloned().collect::<Vec<_>>().join(", "),
        _ => return None,
    };
    Some(bounded(&names, 200)).filter(|names| !names.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"Hello","total_cost_usd":0.0123,
        "usage":{"input_tokens":4,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":7},
        "modelUsage":{"claude-x":{"inputTokens":4}}}"#;

    #[test]
    fn the_default_fields_read_text_tokens_cost_and_name() {
        let said = read(CLAUDE, &JsonFields::default()).unwrap();
        let usage = said.usage.unwrap();
        assert_eq!((said.text.as_str(), said.is_error, said.cost_usd), ("Hello", false, Some(0.0123)));
        assert_eq!((usage.input, usage.cached_input, usage.output), (Some(1104), Some(1000), Some(7)));
        assert_eq!((usage.reasoning, said.model.as_deref()), (None, Some("claude-x")));
        let odd = CLAUDE.replace("claude-x", &format!("a\\u001b[31mb{}", "x".repeat(5000)));
        let name = read(&odd, &JsonFields::default()).unwrap().model.unwrap();
        assert!(name.starts_with("a [31mb") && name.chars().count() < 220, "{name}");
    }

    #[test]
    fn lines_before_it_and_lists_are_taken() {
        let line = CLAUDE.replace('\n', " ");
        assert_eq!(read(&format!("warming up\n{line}\n"), &JsonFields::default()).unwrap().text, "Hello");
        assert_eq!(read(&format!("[{{\"type\":\"system\"}}, {line}]"), &JsonFields::default()).unwrap().text, "Hello");
    }

    #[test]
    fn what_is_not_said_is_unknown() {
        let fields: JsonFields =
            serde_json::from_str(r#"{"result": "/message/text", "cost_usd": "/cost", "is_error": "/error"}"#).unwrap();
        let said = read(r#"{"message": {"text": "hi"}, "cost": -3, "error": null}"#, &fields).unwrap();
        assert_eq!((said.usage, said.cost_usd, said.model, said.is_error), (None, None, None, false));
        assert!(read(r#"{"message": {"text": "hi"}, "error": {"code": 1}}"#, &fields).unwrap().is_error);
    }

    #[test]
    fn other_output_is_refused_with_the_cause() {
        assert!(read("plain words", &JsonFields::default()).unwrap_err().contains("no JSON"));
        assert!(read("", &JsonFields::default()).is_err());
        assert!(read("[1, 2]", &JsonFields::default()).is_err());
        assert!(read(r#"{"answer": 1}"#, &JsonFields::default()).unwrap_err().contains("/result"));
    }
}
