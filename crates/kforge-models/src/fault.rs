//! Why one attempt failed, read from status, headers and whatever the server wrote, and whether another is worth while.
//!
//! Servers of all vendors are judged by one table: the wire formats differ more in how they say yes than in how they say no.

use std::time::Duration;

use serde_json::Value;

use crate::CallErrorKind;
use crate::duration::leading_duration;

/// So much of a server's words is shown.
const LONGEST_MESSAGE: usize = 600;

/// One attempt's failure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub kind: CallErrorKind,
    /// What happened; may hold the server's words, bounded but not yet scrubbed.
    pub message: String,
    /// Another attempt may help.
    pub retry: bool,
    /// The server said when.
    pub retry_in: Option<Duration>,
    /// The server may have counted tokens.
    pub billed: bool,
}

impl Fault {
    /// A failure that would come again.
    pub(crate) fn lasting(kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry: false, retry_in: None, billed: false }
    }

    /// A failure that may pass.
    pub(crate) fn passing(kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self { retry: true, ..Self::lasting(kind, message) }
    }

    /// The same, after the server began to work.
    pub(crate) fn billed(self) -> Self {
        Self { billed: true, ..self }
    }

    /// What came back is not the wire format.
    pub(crate) fn garbled(what: &str, sample: &[u8]) -> Self {
        let sample = bounded(&String::from_utf8_lossy(&sample[..sample.len().min(1000)]), 200);
        Self::lasting(CallErrorKind::Garbled, format!("the server's answer is not what was expected: {what}: {sample}"))
            .billed()
    }
}

/// A text on one line, without control characters, not longer than so many characters.
pub(crate) fn bounded(text: &str, limit: usize) -> String {
    let mut words = String::new();
    for c in text.trim().chars() {
        let c = if c.is_control() || c.is_whitespace() { ' ' } else { c };
        if !(c == ' ' && words.ends_with(' ')) {
            words.push(c);
        }
        if words.len() > 4 * limit {
            break;
        }
    }
    match words.char_indices().nth(limit) {
        Some((end, _)) => format!("{} [...]", &words[..end]),
        None => words,
    }
}

/// What a server says is wrong: its message, and the codes that vendors put beside it.
struct Complaint {
    message: String,
    /// Codes, types, statuses and reasons, lower case, separated by spaces.
    codes: String,
    retry_in: Option<Duration>,
}

/// Judges a reply with a status that is no success.
pub(crate) fn of_status(status: u16, body: &[u8], retry_after: Option<Duration>) -> Fault {
    let complaint = match serde_json::from_slice::<Value>(body) {
        Ok(json) => Complaint::read(&json),
        Err(_) => {
            Complaint { message: String::from_utf8_lossy(body).into_owned(), codes: String::new(), retry_in: None }
        }
    };
    judge(Some(status), &complaint, retry_after)
}

/// Judges an error that came inside a stream or with status 200.
pub(crate) fn of_error(json: &Value) -> Fault {
    let complaint = Complaint::read(json);
    let status = complaint.codes.split(' ').find_map(|code| code.parse().ok()).filter(|code| (400..600).contains(code));
    judge(status, &complaint, None).billed()
}

impl Complaint {
    /// Finds the message in the forms of OpenAI, Anthropic, Gemini, vLLM, FastAPI, Ollama and their relatives.
    fn read(json: &Value) -> Self {
        let json = json.get(0).unwrap_or(json);
        let error = match json.get("error") {
            Some(error) if !error.is_null() => error,
            _ => json,
        };
        let message = match error {
            Value::String(text) => text.clone(),
            _ => ["message", "detail", "msg", "error_description"].iter().find_map(|name| error.get(name)).map_or_else(
                || error.to_string(),
                |found| found.as_str().map_or_else(|| found.to_string(), str::to_owned),
            ),
        };
        let details = error.get("details").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut codes: Vec<String> = Vec::new();
        for place in std::iter::once(error).chain(details.iter().take(20)) {
            for name in ["code", "type", "status", "reason"] {
                match place.get(name) {
                    Some(Value::String(code)) => codes.push(code.to_lowercase()),
                    Some(Value::Number(code)) => codes.push(code.to_string()),
                    _ => {}
                }
            }
        }
        let told = details
            .iter()
            .find_map(|detail| detail.get("retryDelay"))
            .and_then(Value::as_str)
            .and_then(leading_duration);
        let retry_in = told.or_else(|| in_words(&message));
        Self { message, codes: codes.join(" "), retry_in }
    }

    fn says(&self, needles: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        needles.iter().any(|needle| self.codes.contains(needle) || message.contains(needle))
    }
}

const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "contextwindowexceeded",
    "exceed_context_size",
    "maximum context length",
    "context window",
    "context limit",
    "context length",
    "context size",
    "prompt is too long",
    "input is too long",
    "input token count",
    "reduce the length",
    "request_too_large",
    "request too large for",
];
const LIMIT: &[&str] = &[
    "insufficient_quota",
    "insufficient balance",
    "credit balance",
    "billing_hard_limit",
    "insufficient credits",
    "quota_exceeded",
];
// The last one is what litellm's proxy says of a key that it does not know.
const KEY: &[&str] = &[
    "api_key_invalid",
    "invalid_api_key",
    "authentication_error",
    "api key not valid",
    "permission_error",
    "no_db_connection",
];
const RATE: &[&str] = &["rate_limit", "resource_exhausted", "ratelimiterror", "throttling"];
const OVERLOADED: &[&str] = &[
    "overloaded",
    "server_error",
    "internal_error",
    "api_error",
    "unavailable",
    "internalservererror",
    "timeout_error",
];

/// The one table. Words go before numbers where vendors use one status for several things.
fn judge(status: Option<u16>, complaint: &Complaint, retry_after: Option<Duration>) -> Fault {
    let words = bounded(&complaint.message, LONGEST_MESSAGE);
    let place = status.map_or_else(|| "in its stream".to_owned(), |status| format!("with status {status}"));
    let said = if words.is_empty() {
        format!("the server answered {place}")
    } else {
        format!("the server answered {place}: {words}")
    };
    let retry_in = retry_after.or(complaint.retry_in);
    let lasting = |kind| Fault::lasting(kind, said.clone());
    let passing = |kind| Fault { retry_in, ..Fault::passing(kind, said.clone()) };
    let client_error = status.is_none_or(|status| matches!(status, 400 | 402 | 413 | 422 | 429));
    match status {
        _ if client_error && complaint.says(LIMIT) => lasting(CallErrorKind::LimitReached { lifted_in: retry_in }),
        _ if client_error && complaint.says(TOO_LONG) => lasting(CallErrorKind::TooLong),
        Some(400) | None if complaint.says(KEY) => lasting(CallErrorKind::KeyRefused),
        None if complaint.says(RATE) => passing(CallErrorKind::RateLimited),
        None if complaint.says(OVERLOADED) => passing(CallErrorKind::Server),
        Some(401 | 403) => lasting(CallErrorKind::KeyRefused),
        Some(402) => lasting(CallErrorKind::LimitReached { lifted_in: retry_in }),
        Some(413) => lasting(CallErrorKind::TooLong),
        Some(429) => passing(CallErrorKind::RateLimited),
        Some(408 | 409 | 425 | 500..) => passing(CallErrorKind::Server),
        _ => lasting(CallErrorKind::Rejected),
    }
}

/// `Retry-After`: seconds, or a date.
pub(crate) fn retry_after(header: &str, now: jiff::Timestamp) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(header).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

/// "Please try again in 1m30s." and "Please retry in 12.5s."
fn in_words(message: &str) -> Option<Duration> {
    let message = message.to_lowercase();
    let start = ["try again in ", "retry in ", "retry after "]
        .iter()
        .find_map(|words| Some(message.find(words)? + words.len()))?;
    leading_duration(&message[start..])
}

#[cfg(test)]
mod tests;
