//! Anthropic's messages.

use serde_json::{Map, Value, json};

use super::{
    Outgoing, Partial, base64, count, effort, effort_name, error_in, output_limit, seen_images, thinking_budget,
};
use crate::fault::{self, Fault};
use crate::registry::{EffortStyle, Entry};
use crate::{Effort, Request, Speaker, Stop};

/// The format wants a limit; this is one that every model of the last generations takes.
pub(crate) const DEFAULT_LIMIT: u64 = 32_000;
/// The server takes no smaller budget for thinking.
const SMALLEST_BUDGET: u64 = 1024;

pub(super) fn build(entry: &Entry, request: &Request) -> Outgoing {
    let mut notes = Vec::new();
    let mut messages = Vec::new();
    for (index, turn) in request.turns.iter().enumerate() {
        let role = match turn.speaker {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        let mut parts = Vec::new();
        if index + 1 == request.turns.len() {
            parts.extend(seen_images(entry, request).iter().map(|image| {
                let source = json!({ "type": "base64", "media_type": image.media_type, "data": base64(image) });
                json!({ "type": "image", "source": source })
            }));
        }
        parts.push(json!({ "type": "text", "text": turn.text }));
        messages.push(json!({ "role": role, "content": parts }));
    }
    let limit = output_limit(entry, request).unwrap_or(DEFAULT_LIMIT);
    let mut body = Map::new();
    body.insert("model".into(), json!(entry.model));
    body.insert("messages".into(), Value::Array(messages));
    body.insert("max_tokens".into(), json!(limit));
    body.insert("stream".into(), json!(true));
    if !request.system.is_empty() {
        body.insert("system".into(), json!(request.system));
    }
    let mut thinks = false;
    match effort(entry, request, EffortStyle::ThinkingBudget, &mut notes) {
        Some((EffortStyle::Adaptive, level)) => {
            // This form begins at low.
            let name = effort_name(level).replace("minimal", "low");
            body.insert("thinking".into(), json!({ "type": "adaptive" }));
            body.insert("output_config".into(), json!({ "effort": name }));
            thinks = true;
        }
        Some((_, level)) => {
            // Thinking counts against the limit: half of it is left for the reply.
            let budget = thinking_budget(level).min(limit / 2);
            if budget >= SMALLEST_BUDGET {
                body.insert("thinking".into(), json!({ "type": "enabled", "budget_tokens": budget }));
                thinks = true;
            } else if level != Effort::Minimal {
                notes.push("effort left out: the limit on the reply leaves no room for thinking".into());
            }
        }
        None => {}
    }
    match request.temperature {
        Some(_) if thinks => notes.push("temperature left out: the model takes none while it thinks".into()),
        Some(temperature) => _ = body.insert("temperature".into(), json!(temperature)),
        None => {}
    }
    let headers = vec![("anthropic-version", "2023-06-01".to_owned())];
    Outgoing { path: "messages".into(), headers, body: Value::Object(body), notes }
}

pub(super) fn event(partial: &mut Partial, json: &Value) -> Result<(), Fault> {
    match json["type"].as_str().unwrap_or_default() {
        "message_start" => {
            partial.name_model(&json["message"]["model"]);
            take_usage(partial, &json["message"]["usage"]);
            // A placeholder; the count comes with `message_delta`.
            partial.usage.output = None;
        }
        "content_block_start" if json["content_block"]["type"] == "text" => {
            partial.say(json["content_block"]["text"].as_str().unwrap_or_default())?;
        }
        // Thinking comes in deltas of its own.
        "content_block_delta" if json["delta"]["type"] == "text_delta" => {
            partial.say(json["delta"]["text"].as_str().unwrap_or_default())?;
        }
        "message_delta" => {
            take_stop(partial, &json["delta"]["stop_reason"]);
            take_usage(partial, &json["usage"]);
        }
        "message_stop" => {
            partial.stop.get_or_insert(Stop::Unknown);
            partial.done = true;
        }
        "error" => return Err(fault::of_error(json)),
        _ => return error_in(json).map_or(Ok(()), Err),
    }
    Ok(())
}

pub(super) fn whole(partial: &mut Partial, json: &Value) -> Result<(), Fault> {
    if let Some(fault) = error_in(json) {
        return Err(fault);
    }
    partial.name_model(&json["model"]);
    for part in json["content"].as_array().into_iter().flatten().filter(|part| part["type"] == "text") {
        partial.say(part["text"].as_str().unwrap_or_default())?;
    }
    take_stop(partial, &json["stop_reason"]);
    take_usage(partial, &json["usage"]);
    Ok(())
}

fn take_stop(partial: &mut Partial, reason: &Value) {
    partial.stop = match reason.as_str() {
        Some("end_turn" | "stop_sequence") => Some(Stop::End),
        Some("max_tokens" | "model_context_window_exceeded") => Some(Stop::Length),
        Some("refusal") => Some(Stop::Refused),
        Some(_) => Some(Stop::Unknown),
        None => partial.stop,
    };
}

/// Here the prompt's tokens are counted apart: fresh, read from a cache, written to it.
fn take_usage(partial: &mut Partial, usage: &Value) {
    if let Some(fresh) = count(usage, "/input_tokens") {
        let read = count(usage, "/cache_read_input_tokens");
        let written = count(usage, "/cache_creation_input_tokens").unwrap_or(0);
        let total = fresh.saturating_add(read.unwrap_or(0)).saturating_add(written);
        // Some servers repeat the prompt's count as zero at the end.
        if partial.usage.input.is_none_or(|before| total >= before) {
            partial.usage.input = Some(total);
            partial.usage.cached_input = read.or(partial.usage.cached_input);
        }
    }
    partial.usage.output = count(usage, "/output_tokens").or(partial.usage.output);
}
