//! Wire formats: a request as a JSON body, and a server's bytes as a reply. Pure; nothing here opens a connection.
//!
//! Each format has three functions: `build` makes the request, `event` takes one event of a stream, `whole` takes a reply that
//! came in one piece because the server does not stream. What they share is in [`Partial`] and [`Decoder`].

mod anthropic;
mod gemini;
mod openai_chat;
mod openai_responses;
mod think;

pub(crate) use anthropic::DEFAULT_LIMIT as ANTHROPIC_LIMIT;

use serde_json::{Map, Value, json};

use crate::fault::{self, Fault};
use crate::registry::{EffortStyle, Entry, Wire};
use crate::sse::{self, Event};
use crate::{CallErrorKind, Effort, Image, Request, Stop, Usage};

/// No reply may be larger; the longest real ones are a hundredth of it.
const LARGEST_TEXT: usize = 16 << 20;

/// What goes out, apart from the key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outgoing {
    /// Put behind the base URL.
    pub path: String,
    /// Besides the entry's own.
    pub headers: Vec<(&'static str, String)>,
    pub body: Value,
    /// What could not be sent as asked.
    pub notes: Vec<String>,
}

/// What has come back so far.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Partial {
    pub text: String,
    pub characters: usize,
    pub model: String,
    pub stop: Option<Stop>,
    pub usage: Usage,
    /// The format's end marker was seen; nothing that matters can follow.
    pub done: bool,
    pub notes: Vec<String>,
}

impl Partial {
    /// Adds text; reasoning never comes here.
    fn say(&mut self, text: &str) -> Result<(), Fault> {
        if self.text.len() + text.len() > LARGEST_TEXT {
            return Err(Fault::lasting(CallErrorKind::Garbled, "the reply is larger than 16 MiB").billed());
        }
        self.text.push_str(text);
        self.characters += text.chars().count();
        Ok(())
    }

    fn name_model(&mut self, name: &Value) {
        if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
            self.model = fault::bounded(name, 200);
        }
    }
}

/// Makes the request of an entry's format.
pub(crate) fn build(entry: &Entry, request: &Request) -> Outgoing {
    if entry.no_temperature && request.temperature.is_some() {
        let mut outgoing = build(entry, &Request { temperature: None, ..request.clone() });
        outgoing.notes.push(format!("temperature left out: {} takes none", entry.name));
        return outgoing;
    }
    let mut outgoing = match entry.wire {
        Wire::OpenaiChat | Wire::Command => openai_chat::build(entry, request),
        Wire::OpenaiResponses => openai_responses::build(entry, request),
        Wire::Anthropic => anthropic::build(entry, request),
        Wire::Gemini => gemini::build(entry, request),
    };
    if !request.images.is_empty() && !entry.vision {
        let count = request.images.len();
        outgoing.notes.push(format!("{count} image(s) left out: the registry does not say that {} sees", entry.name));
    }
    if let Ok(extra) = serde_json::to_value(&entry.extra) {
        merge(&mut outgoing.body, extra);
    }
    outgoing
}

/// The header that carries the key, and what stands before the key.
pub(crate) fn key_header(entry: &Entry) -> (&str, &'static str) {
    match (&entry.key_header, entry.wire) {
        (Some(name), _) => (name, ""),
        (None, Wire::Anthropic) => ("x-api-key", ""),
        (None, Wire::Gemini) => ("x-goog-api-key", ""),
        (None, _) => ("authorization", "Bearer "),
    }
}

/// Tables are merged, everything else replaced.
fn merge(body: &mut Value, extra: Value) {
    match (body, extra) {
        (Value::Object(body), Value::Object(extra)) => {
            for (name, value) in extra {
                merge(body.entry(name).or_insert(Value::Null), value);
            }
        }
        (body, extra) => *body = extra,
    }
}

/// What the reply may hold: the smaller one of what is asked and what the model can.
fn output_limit(entry: &Entry, request: &Request) -> Option<u64> {
    request.max_output_tokens.into_iter().chain(entry.max_output).min()
}

fn seen_images<'a>(entry: &Entry, request: &'a Request) -> &'a [Image] {
    if entry.vision { &request.images } else { &[] }
}

fn base64(image: &Image) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(&image.bytes)
}

fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media_type, base64(image))
}

fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

/// The effort to send and its form; a note where it is not the one asked for.
fn effort(
    entry: &Entry,
    request: &Request,
    style: EffortStyle,
    notes: &mut Vec<String>,
) -> Option<(EffortStyle, Effort)> {
    let asked = request.effort?;
    let Some(support) = entry.effort.as_ref().filter(|support| !support.levels.is_empty()) else {
        notes.push(format!("effort left out: the registry names no effort for {}", entry.name));
        return None;
    };
    let nearest = support.levels.iter().copied().min_by_key(|level| (*level as i8 - asked as i8).abs())?;
    if nearest != asked {
        notes.push(format!(
            "effort {} sent instead of {}: {} has no other",
            effort_name(nearest),
            effort_name(asked),
            entry.name
        ));
    }
    Some((support.style.unwrap_or(style), nearest))
}

/// Puts an effort into a body whose format takes it by name.
fn put_effort_name(body: &mut Map<String, Value>, style: EffortStyle, level: Effort) {
    match style {
        EffortStyle::Reasoning => body.insert("reasoning".into(), json!({ "effort": effort_name(level) })),
        _ => body.insert("reasoning_effort".into(), json!(effort_name(level))),
    };
}

/// Tokens for thinking, where an effort is a number.
fn thinking_budget(level: Effort) -> u64 {
    match level {
        Effort::Minimal => 0,
        Effort::Low => 4096,
        Effort::Medium => 12_288,
        Effort::High => 24_576,
    }
}

fn count(json: &Value, path: &str) -> Option<u64> {
    json.pointer(path).and_then(Value::as_u64)
}

/// An error object inside a reply that began as a success.
fn error_in(json: &Value) -> Option<Fault> {
    json.get("error").filter(|error| !error.is_null()).map(|_| fault::of_error(json))
}

/// Reads a body of status 200, streamed or not.
#[derive(Debug)]
pub(crate) struct Decoder {
    wire: Wire,
    body: Body,
    /// The first bytes, for an error text.
    head: Vec<u8>,
    pub partial: Partial,
}

#[derive(Debug)]
enum Body {
    /// Only white space so far.
    Unknown,
    Stream(sse::Parser),
    Whole(Vec<u8>),
}

impl Decoder {
    pub(crate) fn new(wire: Wire) -> Self {
        Self { wire, body: Body::Unknown, head: Vec::new(), partial: Partial::default() }
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let room = 1000usize.saturating_sub(self.head.len());
        self.head.extend(bytes.iter().take(room));
        if matches!(self.body, Body::Unknown) {
            // Servers lie in their content type, or have none; JSON begins like JSON.
            match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return Ok(()),
                Some(b'{' | b'[') => self.body = Body::Whole(Vec::new()),
                Some(_) => self.body = Body::Stream(sse::Parser::default()),
            }
        }
        let events = match &mut self.body {
            Body::Unknown => return Ok(()),
            Body::Whole(whole) => {
                if whole.len() + bytes.len() > sse::LARGEST_EVENT {
                    return Err(Fault::garbled("larger than 16 MiB", &self.head));
                }
                whole.extend_from_slice(bytes);
                return Ok(());
            }
            Body::Stream(parser) => {
                parser.push(bytes).map_err(|sse::TooLarge| Fault::garbled("an event larger than 16 MiB", &self.head))?
            }
        };
        self.take(&events)
    }

    /// The body has ended as the server wanted: says whether the reply is complete.
    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        match std::mem::replace(&mut self.body, Body::Unknown) {
            Body::Unknown => {
                return Err(
                    Fault::passing(CallErrorKind::Cut, "the server closed the connection without a reply").billed()
                );
            }
            Body::Stream(parser) => {
                let events = parser
                    .finish()
                    .map_err(|sse::TooLarge| Fault::garbled("an event larger than 16 MiB", &self.head))?;
                self.take(&events)?;
            }
            Body::Whole(whole) => self.take_whole(&whole)?,
        }
        if self.complete() {
            return Ok(());
        }
        if self.partial == Partial::default() {
            return Err(Fault::garbled("neither a stream of events nor JSON", &self.head));
        }
        Err(Fault::passing(CallErrorKind::Cut, "the stream ended before its end marker").billed())
    }

    /// Whether all of the reply has come; a broken connection after that does no harm.
    pub(crate) fn complete(&self) -> bool {
        self.partial.done || self.partial.stop.is_some()
    }

    fn take(&mut self, events: &[Event]) -> Result<(), Fault> {
        for event in events {
            if self.partial.done {
                break;
            }
            let data = event.data.trim();
            if data == "[DONE]" {
                self.partial.done = true;
                continue;
            }
            if data.is_empty() {
                continue;
            }
            let json: Value = serde_json::from_str(data)
                .map_err(|error| Fault::garbled(&format!("an event that is no JSON ({error})"), data.as_bytes()))?;
            if event.name == "error" && json.get("error").is_none() {
                return Err(fault::of_error(&json));
            }
            self.event(&json)?;
        }
        Ok(())
    }

    fn event(&mut self, json: &Value) -> Result<(), Fault> {
        let partial = &mut self.partial;
        match self.wire {
            Wire::OpenaiChat | Wire::Command => openai_chat::event(partial, json),
            Wire::OpenaiResponses => openai_responses::event(partial, json),
            Wire::Anthropic => anthropic::event(partial, json),
            Wire::Gemini => gemini::event(partial, json),
        }
    }

    fn take_whole(&mut self, whole: &[u8]) -> Result<(), Fault> {
        let json: Value = serde_json::from_slice(whole).map_err(|error| {
            if error.is_eof() {
                Fault::passing(CallErrorKind::Cut, "the reply ended in the middle").billed()
            } else {
                Fault::garbled(&format!("it begins like JSON and is none ({error})"), &self.head)
            }
        })?;
        match self.wire {
            Wire::OpenaiChat | Wire::Command => openai_chat::whole(&mut self.partial, &json)?,
            Wire::OpenaiResponses => openai_responses::whole(&mut self.partial, &json)?,
            Wire::Anthropic => anthropic::whole(&mut self.partial, &json)?,
            Wire::Gemini => gemini::whole(&mut self.partial, &json)?,
        }
        if self.partial == Partial::default() {
            return Err(Fault::garbled("JSON of another form", &self.head));
        }
        self.partial.done = true;
        Ok(())
    }

    /// The reply, with reasoning that a server left inside the text taken out.
    pub(crate) fn into_partial(mut self) -> Partial {
        if let Some(text) = think::without_reasoning(&self.partial.text) {
            self.partial.text = text.to_owned();
            self.partial.notes.push("reasoning inside the text left out".into());
        }
        self.partial
    }
}

#[cfg(test)]
mod tests;
