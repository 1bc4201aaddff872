//! One model of the registry, with its provider's fields already filled in.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::key::KeySource;
use crate::{Effort, JsonFields, Prices};

/// How a model is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// `POST /chat/completions`, which almost every server understands.
    OpenaiChat,
    /// `POST /responses`.
    OpenaiResponses,
    /// `POST /messages`.
    Anthropic,
    /// `POST /models/NAME:streamGenerateContent`.
    Gemini,
    /// A program that reads a prompt and writes a reply.
    Command,
}

impl Wire {
    /// As registries name it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Command => "command",
        }
    }
}

/// How a server is told how long to think.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffortSupport {
    /// The form; the wire's own where it is not given.
    #[serde(default)]
    pub style: Option<EffortStyle>,
    /// What the model takes; the nearest one is sent for any other.
    pub levels: Vec<Effort>,
}

/// The forms that servers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffortStyle {
    /// `reasoning_effort = "high"`; the default of `openai-chat`.
    ReasoningEffort,
    /// `reasoning.effort = "high"`; the default of `openai-responses`.
    Reasoning,
    /// A number of tokens for thinking; the default of `anthropic`.
    ThinkingBudget,
    /// Anthropic: the model decides, guided by `output_config.effort`.
    Adaptive,
    /// Gemini: `thinkingLevel`; the default of `gemini`.
    ThinkingLevel,
}

/// Seconds to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// For a connection.
    pub connect: u64,
    /// Between two bytes, the first included: a model may think for minutes before it says anything.
    pub idle: u64,
    /// For one attempt from its beginning to its end.
    pub overall: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: 20, idle: 300, overall: 3600 }
    }
}

impl Timeouts {
    pub(crate) fn durations(self) -> [Duration; 3] {
        [self.connect, self.idle, self.overall].map(Duration::from_secs)
    }
}

/// One model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What the user calls it.
    pub name: String,
    /// The provider whose fields were taken over.
    #[serde(default)]
    pub provider: Option<String>,
    /// How it is spoken to.
    pub wire: Wire,
    /// Its name on the wire; may be empty for a command.
    #[serde(default)]
    pub model: String,
    /// Where the server is; empty for a command.
    #[serde(default)]
    pub base_url: String,
    /// The environment variable that holds the key.
    #[serde(default)]
    pub key_env: Option<String>,
    /// A program that prints the key.
    #[serde(default)]
    pub key_command: Option<Vec<String>>,
    /// The server wants no key.
    #[serde(default)]
    pub no_key: bool,
    /// The header that carries the key as it is, where it is not the wire's own.
    #[serde(default)]
    pub key_header: Option<String>,
    /// Tokens of prompt and reply together.
    #[serde(default)]
    pub context: Option<u64>,
    /// Tokens of a reply.
    #[serde(default)]
    pub max_output: Option<u64>,
    /// `max_tokens`, or what the server calls it (`openai-chat` only).
    #[serde(default)]
    pub max_tokens_field: Option<String>,
    /// `None`: not known, which is not zero.
    #[serde(default)]
    pub price: Option<Prices>,
    /// Whether it sees images.
    #[serde(default)]
    pub vision: bool,
    /// The server rejects a temperature, as reasoning models do: it is left out.
    #[serde(default)]
    pub no_temperature: bool,
    /// `None`: nothing is sent.
    #[serde(default)]
    pub effort: Option<EffortSupport>,
    /// Requests per minute on average, by everything that shares this registry; a tenth of them may come together.
    #[serde(default)]
    pub requests_per_minute: Option<u32>,
    /// Requests at the same time, likewise.
    #[serde(default)]
    pub max_parallel: Option<u32>,
    /// How long to wait for what; of a command only `overall` counts.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Merged into the body of each request, over what kforge puts there.
    #[serde(default)]
    pub extra: toml::Table,
    /// Sent with each request; no secrets, they have their own fields.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Program and arguments for `wire = "command"`.
    #[serde(default)]
    pub command: Vec<String>,
    /// Environment variables that the command gets besides the usual ones.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// The command prints a JSON object: where its fields are; `json = {}` for those of `claude --output-format json`.
    #[serde(default)]
    pub json: Option<JsonFields>,
}

/// Headers that carry secrets.
const SECRET_HEADERS: &[&str] =
    &["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key"];

impl Entry {
    /// Where the key comes from.
    pub(crate) fn key_source(&self) -> KeySource {
        match (&self.key_env, &self.key_command) {
            (Some(variable), _) => KeySource::Environment(variable.clone()),
            (None, Some(argv)) => KeySource::Command(argv.clone()),
            (None, None) => KeySource::None,
        }
    }

    /// What is wrong with it, as a fragment.
    pub(crate) fn fault(&self) -> Option<String> {
        let dollars =
            self.price.map_or([0.0; 3], |price| [price.input, price.output, price.cached_input.unwrap_or(0.0)]);
        if dollars.iter().any(|dollars| !dollars.is_finite() || *dollars < 0.0) {
            return Some("a price must be a number of dollars, not negative".into());
        }
        if self.timeouts.durations().contains(&Duration::ZERO) {
            return Some("timeouts must be positive".into());
        }
        if self.wire == Wire::Command {
            return self.command.is_empty().then(|| "wire = \"command\" needs command = [\"program\", ...]".into());
        }
        let keys =
            [self.key_env.is_some(), self.key_command.is_some(), self.no_key].iter().filter(|&&given| given).count();
        let secret = self.headers.keys().find(|name| SECRET_HEADERS.contains(&name.to_lowercase().as_str()));
        let not_positive = |value: Option<u64>| value == Some(0);
        if self.model.is_empty() {
            Some("model (the name on the wire) is missing".into())
        } else if keys != 1 {
            Some("give exactly one of key_env, key_command and no_key = true".into())
        } else if self.key_command.as_ref().is_some_and(Vec::is_empty) {
            Some("key_command is empty; give a program and its arguments".into())
        } else if let Some(name) = secret {
            Some(format!(
                "the header {name} would hold a secret in a file; use key_env or key_command, with key_header where needed"
            ))
        } else if !self.command.is_empty() {
            Some("command is for wire = \"command\"".into())
        } else if not_positive(self.context)
            || not_positive(self.max_output)
            || self.requests_per_minute == Some(0)
            || self.max_parallel == Some(0)
        {
            Some("context, max_output, requests_per_minute and max_parallel must be positive".into())
        } else {
            url_fault(&self.base_url)
        }
    }
}

fn url_fault(text: &str) -> Option<String> {
    match reqwest::Url::parse(text) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Some("base_url holds a user name or password; use key_env or key_command".into())
        }
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            // Not shown: `user:password@host` is read as an address whose scheme is `user`.
            Some("base_url must begin with http:// or https://".into())
        }
        Ok(url) if url.query().is_some() || url.fragment().is_some() => {
            Some("base_url must not have a ? or # part".into())
        }
        Ok(_) => None,
        Err(_) if text.is_empty() => Some("base_url is missing".into()),
        Err(error) => Some(format!("base_url is no address ({error}); it looks like https://host/v1")),
    }
}
