//! OpenAI's responses.

use serde_json::{Map, Value, json};

use super::{Outgoing, Partial, count, data_url, effort, error_in, output_limit, put_effort_name, seen_images};
use crate::fault::{self, Fault};
use crate::registry::{EffortStyle, Entry};
use crate::{Request, Speaker, Stop};

pub(super) fn build(entry: &Entry, request: &Request) -> Outgoing {
    let mut notes = Vec::new();
    let mut input = Vec::new();
    for (index, turn) in request.turns.iter().enumerate() {
        let (role, kind) = match turn.speaker {
            Speaker::User => ("user", "input_text"),
            Speaker::Assistant => ("assistant", "output_text"),
        };
        let mut parts = vec![json!({ "type": kind, "text": turn.text })];
        if index + 1 == request.turns.len() {
            let images = seen_images(entry, request).iter();
            parts.extend(images.map(|image| json!({ "type": "input_image", "image_url": data_url(image) })));
        }
        input.push(json!({ "type": "message", "role": role, "content": parts }));
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(entry.model));
    body.insert("input".into(), Value::Array(input));
    body.insert("stream".into(), json!(true));
    // Nothing of a user's code is to stay on the server longer than the call.
    body.insert("store".into(), json!(false));
    if !request.system.is_empty() {
        body.insert("instructions".into(), json!(request.system));
    }
    if let Some(limit) = output_limit(entry, request) {
        body.insert("max_output_tokens".into(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    if let Some((style, level)) = effort(entry, request, EffortStyle::Reasoning, &mut notes) {
        put_effort_name(&mut body, style, level);
    }
    Outgoing { path: "responses".into(), headers: Vec::new(), body: Value::Object(body), notes }
}

pub(super) fn event(partial: &mut Partial, json: &Value) -> Result<(), Fault> {
    match json["type"].as_str().unwrap_or_default() {
        "response.output_text.delta" => partial.say(json["delta"].as_str().unwrap_or_default()),
        "response.refusal.delta" => {
            partial.stop = Some(Stop::Refused);
            partial.say(json["delta"].as_str().unwrap_or_default())
        }
        "response.created" | "response.in_progress" => {
            partial.name_model(&json["response"]["model"]);
            Ok(())
        }
        "response.completed" | "response.incomplete" | "response.failed" | "response.done" => {
            end(partial, &json["response"])
        }
        "error" => Err(fault::of_error(json)),
        // Reasoning, items and parts beginning and ending: the text comes in the deltas.
        _ => error_in(json).map_or(Ok(()), Err),
    }
}

pub(super) fn whole(partial: &mut Partial, json: &Value) -> Result<(), Fault> {
    if json.get("output").is_none() && json.get("status").is_none() {
        return error_in(json).map_or(Ok(()), Err);
    }
    end(partial, json)
}

/// The complete response, which repeats the text.
fn end(partial: &mut Partial, response: &Value) -> Result<(), Fault> {
    if let Some(fault) = error_in(response) {
        return Err(fault);
    }
    partial.name_model(&response["model"]);
    let parts = response["output"].as_array().into_iter().flatten().filter(|item| item["type"] == "message");
    let mut refused = partial.stop == Some(Stop::Refused);
    let silent = partial.text.is_empty();
    for part in parts.flat_map(|item| item["content"].as_array().into_iter().flatten()) {
        let refusal = part["type"] == "refusal";
        refused |= refusal;
        if silent {
            partial.say(part[if refusal { "refusal" } else { "text" }].as_str().unwrap_or_default())?;
        }
    }
    partial.stop = Some(match (response["status"].as_str(), response["incomplete_details"]["reason"].as_str()) {
        _ if refused => Stop::Refused,
        (Some("completed"), _) => Stop::End,
        (Some("incomplete"), Some("max_output_tokens" | "max_tokens")) => Stop::Length,
        (Some("incomplete"), Some("content_filter")) => Stop::Refused,
        _ => Stop::Unknown,
    });
    let usage = &response["usage"];
    partial.usage.input = count(usage, "/input_tokens");
    partial.usage.cached_input = count(usage, "/input_tokens_details/cached_tokens");
    partial.usage.output = count(usage, "/output_tokens");
    partial.usage.reasoning = count(usage, "/output_tokens_details/reasoning_tokens");
    partial.done = true;
    Ok(())
}
