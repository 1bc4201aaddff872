//! Google's Gemini.

use serde_json::{Map, Value, json};

use super::{
    Outgoing, Partial, base64, count, effort, effort_name, error_in, output_limit, seen_images, thinking_budget,
};
use crate::fault::Fault;
use crate::registry::{EffortStyle, Entry};
use crate::{Request, Speaker, Stop};

pub(super) fn build(entry: &Entry, request: &Request) -> Outgoing {
    let mut notes = Vec::new();
    let mut contents = Vec::new();
    for (index, turn) in request.turns.iter().enumerate() {
        let role = match turn.speaker {
            Speaker::User => "user",
            Speaker::Assistant => "model",
        };
        let mut parts = vec![json!({ "text": turn.text })];
        if index + 1 == request.turns.len() {
            parts.extend(
                seen_images(entry, request)
                    .iter()
                    .map(|image| json!({ "inlineData": { "mimeType": image.media_type, "data": base64(image) } })),
            );
        }
        contents.push(json!({ "role": role, "parts": parts }));
    }
    let mut config = Map::new();
    if let Some(limit) = output_limit(entry, request) {
        config.insert("maxOutputTokens".into(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        config.insert("temperature".into(), json!(temperature));
    }
    match effort(entry, request, EffortStyle::ThinkingLevel, &mut notes) {
        Some((EffortStyle::ThinkingBudget, level)) => {
            config.insert("thinkingConfig".into(), json!({ "thinkingBudget": thinking_budget(level) }));
        }
        Some((_, level)) => {
            config.insert("thinkingConfig".into(), json!({ "thinkingLevel": effort_name(level) }));
        }
        None => {}
    }
    let mut body = Map::new();
    body.insert("contents".into(), Value::Array(contents));
    if !request.system.is_empty() {
        body.insert("systemInstruction".into(), json!({ "parts": [{ "text": request.system }] }));
    }
    if !config.is_empty() {
        body.insert("generationConfig".into(), Value::Object(config));
    }
    let model = entry.model.strip_prefix("models/").unwrap_or(&entry.model);
    let path = format!("models/{model}:streamGenerateContent?alt=sse");
    Outgoing { path, headers: Vec::new(), body: Value::Object(body), notes }
}

pub(super) fn event(partial: &mut Partial, json: &Value) -> Result<(), Fault> {
    if let Some(fault) = error_in(json) {
        return Err(fault);
    }
    partial.name_model(&json["modelVersion"]);
    let candidate = &json["candidates"][0];
    // Summaries of thoughts are marked as such.
    for part in candidate["content"]["parts"].as_array().into_iter().flatten().filter(|part| part["thought"] != true) {
        partial.say(part["text"].as_str().unwrap_or_default())?;
    }
    match candidate["finishReason"].as_str() {
        None => {}
        Some("STOP") => partial.stop = Some(Stop::End),
        Some("MAX_TOKENS") => partial.stop = Some(Stop::Length),
        Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE") => {
            partial.stop = Some(Stop::Refused);
        }
        Some(_) => partial.stop = Some(Stop::Unknown),
    }
    if json["promptFeedback"]["blockReason"].is_string() {
        partial.stop = Some(Stop::Refused);
    }
    let usage = &json["usageMetadata"];
    if usage.is_object() {
        let thoughts = count(usage, "/thoughtsTokenCount");
        let said = count(usage, "/candidatesTokenCount");
        let counted = &mut partial.usage;
        counted.input = count(usage, "/promptTokenCount").or(counted.input);
        counted.cached_input = count(usage, "/cachedContentTokenCount").or(counted.cached_input);
        counted.reasoning = thoughts.or(counted.reasoning);
        if said.is_some() || thoughts.is_some() {
            counted.output = Some(said.unwrap_or(0).saturating_add(thoughts.unwrap_or(0)));
        }
    }
    Ok(())
}

/// Without `alt=sse` the stream is one JSON array of the same objects.
pub(super) fn whole(partial: &mut Partial, json: &Value) -> Result<(), Fault> {
    match json {
        Value::Array(events) => events.iter().try_for_each(|json| event(partial, json)),
        single => event(partial, single),
    }
}
