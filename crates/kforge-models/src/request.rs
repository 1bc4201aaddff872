//! What is asked and what comes back.

use serde::{Deserialize, Serialize};

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What the call is for: recordings are found by it, mailboxes show it.
    pub label: Label,
    /// Who the model is and what holds for every call.
    pub system: String,
    /// The conversation, ending with the user.
    pub turns: Vec<Turn>,
    /// Shown with the last turn, to models that see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// At most this many tokens come back; the model's own limit otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Left to the server otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// For models that reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
}

/// What a call is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// The problem's name, for people.
    pub problem: String,
    /// Hash of the problem's text.
    pub problem_hash: String,
    /// `cpu/cpp`
    pub target: String,
    /// `generator` or `analyst`.
    pub role: String,
    /// Counts the calls of one role for one problem, from 1.
    pub ordinal: u32,
}

/// One side's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Whose.
    pub speaker: Speaker,
    /// The words.
    pub text: String,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// kforge.
    User,
    /// The model.
    Assistant,
}

/// A picture, such as a profiler's chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// What it shows; also its file name in a mailbox.
    pub name: String,
    /// `image/png`
    pub media_type: String,
    /// The file's bytes.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// How long a reasoning model may think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// As little as it can.
    Minimal,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text, without reasoning.
    pub text: String,
    /// The model that answered, as the server names it.
    pub model: String,
    /// Why it ended.
    pub stop: Stop,
    /// What was counted.
    pub usage: Usage,
    /// Dollars of all attempts; `None` where the price is not known, which is not zero.
    pub cost_usd: Option<f64>,
    /// Wall time of all attempts.
    pub seconds: f64,
    /// How many times it was asked.
    pub attempts: u32,
    /// What a person should know: drift of a recording, counted tokens estimated, images left out.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model had said what it had to say.
    End,
    /// The limit on tokens cut it off.
    Length,
    /// The model or a filter declined.
    Refused,
    /// The server said nothing known.
    Unknown,
}

/// Tokens of one call, all attempts together. `None`: not said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Of the prompt, cached ones included.
    pub input: Option<u64>,
    /// Of the prompt, at the price of a cache.
    pub cached_input: Option<u64>,
    /// Of the reply, reasoning included.
    pub output: Option<u64>,
    /// Of the reply, spent on reasoning.
    pub reasoning: Option<u64>,
    /// Whether input and output were estimated from the length of the text.
    pub estimated: bool,
}
