//! Which models there are: the embedded list, the user's file over it, and providers that give any model by prefix.
//!
//! The registry knows names, addresses, limits and prices. It never holds a key, only where one is found.

mod entry;
mod near;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use toml::{Table, Value};

pub use entry::{EffortStyle, EffortSupport, Entry, Timeouts, Wire};

use crate::CallError;
use crate::http::Limiter;
use crate::support::setup;

const EMBEDDED: &str = include_str!("../../models.toml");
/// A registry is written by a person.
const LARGEST_FILE: u64 = 1 << 20;
/// Fields that say where a key is; a model's own replace all of its provider's.
const KEY_FIELDS: [&str; 3] = ["key_env", "key_command", "no_key"];

/// Whose models have names that begin so: a new one needs no entry.
const FAMILIES: [(&str, &str); 7] = [
    ("gpt-", "openai-responses"),
    ("o3-", "openai-responses"),
    ("o4-", "openai-responses"),
    ("o5", "openai-responses"),
    ("claude-", "anthropic"),
    ("gemini-", "gemini"),
    ("deepseek-", "deepseek"),
];

/// What a name stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Route {
    /// A server.
    Http(Box<Entry>),
    /// A program: `wire = "command"`.
    Command(Box<Entry>),
    /// `mailbox:FOLDER`.
    Mailbox(String),
    /// `replay:DIR`.
    Replay(String),
}

/// All known models.
#[derive(Debug)]
pub struct Registry {
    entries: BTreeMap<String, Entry>,
    providers: BTreeMap<String, Provider>,
    /// Two agents that use one model share its limits.
    limiters: Mutex<BTreeMap<String, Arc<Limiter>>>,
}

#[derive(Debug, Clone)]
struct Provider {
    takes_url: bool,
    defaults: Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    provider: Vec<Table>,
    #[serde(default)]
    model: Vec<Table>,
}

impl Registry {
    /// The embedded list, and the user's file over it.
    pub fn load(user: Option<&Path>) -> Result<Self, CallError> {
        let user = match user {
            Some(path) => Some((path.display().to_string(), read(path)?)),
            None => None,
        };
        Self::parse(user.as_ref().map(|(place, text)| (place.as_str(), text.as_str())))
    }

    /// The same from a text; `place` is for error texts.
    fn parse(user: Option<(&str, &str)>) -> Result<Self, CallError> {
        let mut providers = BTreeMap::new();
        let mut models: BTreeMap<String, (String, Table)> = BTreeMap::new();
        for (place, text) in std::iter::once(("the embedded list", EMBEDDED)).chain(user) {
            let file: File = toml::from_str(text)
                .map_err(|error| setup(format!("{place} is no registry; mend it: {}", error.to_string().trim_end())))?;
            for mut table in file.provider {
                let prefix = take_text(&mut table, "prefix", place, "a [[provider]]")?;
                let takes_url = table.remove("takes_url") == Some(Value::Boolean(true));
                providers.insert(prefix, Provider { takes_url, defaults: table });
            }
            let mut seen = std::collections::BTreeSet::new();
            for table in file.model {
                let name = take_text(&mut table.clone(), "name", place, "a [[model]]")?;
                if !seen.insert(name.clone()) {
                    return Err(setup(format!("{place} has two models of the name {name}; rename one")));
                }
                models.insert(name, (place.to_owned(), table));
            }
        }
        let mut entries = BTreeMap::new();
        for (name, (place, table)) in models {
            let wrong = |what: String| setup(format!("{place}, model {name}: {what}"));
            let entry = fill(&providers, table).map_err(wrong)?;
            entries.insert(name.clone(), entry);
        }
        for (prefix, provider) in &providers {
            // A provider with a wrong field must not wait for its first model.
            build(provider, prefix, "x").map_err(|what| setup(format!("provider {prefix}: {what}")))?;
        }
        Ok(Self { entries, providers, limiters: Mutex::default() })
    }

    /// All entries, by name.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The prefixes that give any model.
    pub fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    /// What a name stands for; an unknown one comes with near names and the ways to get a model.
    pub fn route(&self, name: &str) -> Result<Route, CallError> {
        match name.split_once(':') {
            Some(("mailbox", folder)) if !folder.is_empty() => return Ok(Route::Mailbox(folder.to_owned())),
            Some(("replay", file)) if !file.is_empty() => return Ok(Route::Replay(file.to_owned())),
            _ => {}
        }
        let entry = self.entry(name)?;
        Ok(if entry.wire == Wire::Command { Route::Command(Box::new(entry)) } else { Route::Http(Box::new(entry)) })
    }

    /// The entry of a name or of `PREFIX:NAME`.
    pub fn entry(&self, name: &str) -> Result<Entry, CallError> {
        if let Some(entry) = self.entries.get(name) {
            return Ok(entry.clone());
        }
        let Some((prefix, provider, model)) = self.provider_of(name) else { return Err(self.unknown(name)) };
        let (model, url) = apart(model);
        if model.is_empty() {
            return Err(setup(format!("{prefix}: names no model; write {prefix}:NAME")));
        }
        // Errors do not show the whole name: its address may hold a password.
        let wrong = |what: String| setup(format!("{prefix}:{model}: {what}"));
        let mut entry = build(provider, name, model).map_err(wrong)?;
        if let Some(url) = url {
            if !provider.takes_url {
                return Err(setup(format!(
                    "{prefix} has one address, and its key is not sent to another; \
                     make an entry in the registry with base_url for the other one"
                )));
            }
            entry.base_url = with_version(url);
        }
        if let Some(what) = entry.fault() {
            return Err(wrong(what));
        }
        Ok(self
            .entries
            .values()
            .find(|known| same_model(known, &entry))
            .map_or(entry, |known| Entry { name: name.to_owned(), ..known.clone() }))
    }

    /// `PREFIX:NAME` in its parts; a name alone shows by its beginning whose model it is.
    fn provider_of<'a>(&'a self, name: &'a str) -> Option<(&'a str, &'a Provider, &'a str)> {
        let (prefix, model) = name.split_once(':').or_else(|| {
            let (_, prefix) =
                FAMILIES.iter().find(|(beginning, _)| name.len() > beginning.len() && name.starts_with(beginning))?;
            Some((*prefix, name))
        })?;
        Some((prefix, self.providers.get(prefix)?, model))
    }

    /// What is taken for granted of a model that is in no list; nothing for one that is, and for what is no model by name.
    #[must_use]
    pub fn assumed(&self, name: &str) -> Option<String> {
        let listed = self.entries.contains_key(name) || matches!(name.split_once(':'), Some(("mailbox" | "replay", _)));
        let entry = self.entry(name).ok().filter(|_| !listed)?;
        if self.entries.values().any(|known| same_model(known, &entry)) {
            return None;
        }
        let (prefix, ..) = self.provider_of(name)?;
        let (wire, model) = (entry.wire.label(), &entry.model);
        let mut assumed =
            vec![format!("it speaks {wire} like other models of {prefix}"), "it takes a temperature".to_owned()];
        if entry.effort.is_none() {
            assumed.push("it takes no effort".to_owned());
        }
        if entry.max_output.is_none() {
            assumed.push(match entry.wire {
                Wire::Anthropic => format!("a reply has at most {} tokens", crate::wire::ANTHROPIC_LIMIT),
                _ => "the server limits a reply".to_owned(),
            });
        }
        if entry.price.is_none() {
            assumed.push("its price is not known".to_owned());
        }
        let what = "an entry in your models.toml says otherwise";
        Some(format!("{model} is not in the registry; assumed: {}; {what}", assumed.join(", ")))
    }

    /// The limits of a model on a server, shared by all who use it, under whatever name.
    pub(crate) fn limiter(&self, entry: &Entry) -> Arc<Limiter> {
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter = limiters
            .entry(format!("{} {}", entry.base_url, entry.model))
            .or_insert_with(|| Arc::new(Limiter::new(entry.requests_per_minute, entry.max_parallel)));
        Arc::clone(limiter)
    }

    fn unknown(&self, name: &str) -> CallError {
        let (name, _) = apart(name);
        let names: Vec<String> = self.entries.keys().cloned().collect();
        let mut near = near::nearest(name, &names);
        if let Some((prefix, rest)) = name.split_once(':') {
            let prefixes: Vec<String> = self.providers.keys().cloned().collect();
            near.extend(near::nearest(prefix, &prefixes).iter().map(|prefix| format!("{prefix}:{rest}")));
        }
        let hint = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) };
        setup(format!(
            "there is no model {name}.{hint} Five ways to get one: \
             (1) with an API key: openai:NAME, anthropic:NAME, gemini:NAME, openrouter:NAME, deepseek:NAME, together:NAME or fireworks:NAME; \
             (2) any compatible server: an entry with base_url in your registry; \
             (3) a local server: ollama:NAME, lmstudio:NAME, vllm:NAME@URL or sglang:NAME@URL; \
             (4) an agent CLI: an entry with wire = \"command\"; \
             (5) a folder where a person or a program answers: mailbox:FOLDER"
        ))
    }
}

fn read(path: &Path) -> Result<String, CallError> {
    let fail =
        |what: String| setup(format!("cannot read the registry {}: {what}; mend the path or the file", path.display()));
    let file = std::fs::File::open(path).map_err(|error| fail(error.to_string()))?;
    let mut text = String::new();
    let read = file.take(LARGEST_FILE + 1).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
    if read as u64 > LARGEST_FILE { Err(fail("it is larger than 1 MiB".into())) } else { Ok(text) }
}

fn take_text(table: &mut Table, field: &str, place: &str, what: &str) -> Result<String, CallError> {
    match table.remove(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(setup(format!("{place}: {what} has no {field}; give it one"))),
    }
}

/// Overlays a model's table on its provider's.
fn fill(providers: &BTreeMap<String, Provider>, table: Table) -> Result<Entry, String> {
    let mut merged = match table.get("provider") {
        None => Table::new(),
        Some(Value::String(prefix)) => {
            let provider =
                providers.get(prefix).ok_or_else(|| format!("there is no provider {prefix}; name another one"))?;
            provider.defaults.clone()
        }
        Some(_) => return Err("provider must be a text".into()),
    };
    if KEY_FIELDS.iter().any(|field| table.contains_key(*field)) {
        for field in KEY_FIELDS {
            merged.remove(field);
        }
    }
    merged.extend(table);
    let entry =
        Entry::deserialize(Value::Table(merged)).map_err(|error| error.to_string().trim().replace('\n', " "))?;
    match entry.fault() {
        Some(what) => Err(what),
        None => Ok(entry),
    }
}

fn build(provider: &Provider, name: &str, model: &str) -> Result<Entry, String> {
    let mut table = provider.defaults.clone();
    table.insert("name".into(), Value::String(name.to_owned()));
    table.insert("model".into(), Value::String(model.to_owned()));
    fill(&BTreeMap::new(), table)
}

/// `openai:gpt-4o` is the entry `gpt-4o`: same limits, same price.
fn same_model(known: &Entry, asked: &Entry) -> bool {
    known.wire == asked.wire
        && known.model == asked.model
        && known.base_url == asked.base_url
        && known.key_source() == asked.key_source()
}

/// `NAME@URL` in two parts.
fn apart(name: &str) -> (&str, Option<&str>) {
    match name.find("@http://").or_else(|| name.find("@https://")) {
        Some(at) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    }
}

/// People write the address of a server without the path at which its API lies.
fn with_version(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let path = url.splitn(4, '/').nth(3);
    if path.is_none() { format!("{url}/v1") } else { url.to_owned() }
}

#[cfg(test)]
mod tests;
