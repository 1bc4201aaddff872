//! OpenAI's chat completions, which almost every other server speaks too.

use serde_json::{Map, Value, json};

use super::{Outgoing, Partial, count, data_url, effort, error_in, output_limit, put_effort_name, seen_images};
use crate::fault::Fault;
use crate::registry::{EffortStyle, Entry};
use crate::{Request, Speaker, Stop};

pub(super) fn build(entry: &Entry, request: &Request) -> Outgoing {
    let mut notes = Vec::new();
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for (index, turn) in request.turns.iter().enumerate() {
        let images = if index + 1 == request.turns.len() { seen_images(entry, request) } else { &[] };
        let role = match turn.speaker {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        let content = if images.is_empty() {
            json!(turn.text)
        } else {
            let mut parts = vec![json!({ "type": "text", "text": turn.text })];
            parts.extend(
                images.iter().map(|image| json!({ "type": "image_url", "image_url": { "url": data_url(image) } })),
            );
            Value::Array(parts)
        };
        messages.push(json!({ "role": role, "content": content }));
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(entry.model));
    body.insert("messages".into(), Value::Array(messages));
    body.insert("stream".into(), json!(true));
    body.insert("stream_options".into(), json!({ "include_usage": true }));
    if let Some(limit) = output_limit(entry, request) {
        let field = entry.max_tokens_field.clone().unwrap_or_else(|| "max_tokens".into());
        body.insert(field, json!(limit));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    if let Some((style, level)) = effort(entry, request, EffortStyle::ReasoningEffort, &mut notes) {
        put_effort_name(&mut body, style, level);
    }
    Outgoing { path: "chat/completions".into(), headers: Vec::new(), body: Value::Object(body), notes }
}

pub(super) fn event(partial: &mut Partial, json: &Value) -> Result<(), Fault> {
    take(partial, json, "delta")
}

pub(super) fn whole(partial: &mut Partial, json: &Value) -> Result<(), Fault> {
    take(partial, json, "message")
}

/// A chunk and a whole completion differ in the name of one field. Reasoning has fields of its own, which are not read.
fn take(partial: &mut Partial, json: &Value, message: &str) -> Result<(), Fault> {
    if let Some(fault) = error_in(json) {
        return Err(fault);
    }
    partial.name_model(&json["model"]);
    let choice = &json["choices"][0];
    if let Some(fault) = error_in(choice) {
        return Err(fault);
    }
    let said = &choice[message];
    match &said["content"] {
        Value::String(text) => partial.say(text)?,
        Value::Array(parts) => {
            for part in parts.iter().filter(|part| part["type"] == "text") {
                partial.say(part["text"].as_str().unwrap_or_default())?;
            }
        }
        _ => {}
    }
    let refusal = said["refusal"].as_str().filter(|text| !text.is_empty());
    if let Some(text) = refusal {
        partial.say(text)?;
    }
    if let Some(reason) = choice["finish_reason"].as_str() {
        partial.stop = Some(match reason {
            "stop" | "eos" | "end_turn" => Stop::End,
            "length" | "max_tokens" => Stop::Length,
            "content_filter" | "refusal" => Stop::Refused,
            _ => Stop::Unknown,
        });
    }
    if refusal.is_some() {
        partial.stop = Some(Stop::Refused);
    }
    let usage = &json["usage"];
    if usage.is_object() {
        let counted = &mut partial.usage;
        counted.input = count(usage, "/prompt_tokens").or(counted.input);
        counted.output = count(usage, "/completion_tokens").or(counted.output);
        counted.cached_input = count(usage, "/prompt_tokens_details/cached_tokens")
            .or_else(|| count(usage, "/prompt_cache_hit_tokens"))
            .or(counted.cached_input);
        counted.reasoning = count(usage, "/completion_tokens_details/reasoning_tokens").or(counted.reasoning);
    }
    Ok(())
}
