//! Which model answers: a name of the registry, a mailbox, a program, or recordings.

use crate::usage::Usage;
use include_dir::{Dir, include_dir};
use kforge_models::{CallError, Model, Prices, Recorder, Registry, Replay, Reply, Request, Route, Watch};
use kforge_types::Target;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

static RECORDINGS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/recordings");

/// The model that answers where none is configured.
pub(crate) const RECORDED: &str = "recorded";

/// A model and what is known of it.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) prices: Option<Prices>,
    /// Whether nothing can be billed: a recording.
    pub(crate) recorded: bool,
    /// How many candidates a recording holds, where that is known.
    pub(crate) attempts: Option<u32>,
    /// What is taken for granted of a model that the registry does not know.
    pub(crate) assumed: Option<String>,
}

/// A model that costs what the user says.
struct Priced {
    model: Arc<dyn Model>,
    prices: Prices,
}

impl Model for Priced {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn ask(&self, request: &Request, watch: &dyn Watch) -> Result<Reply, CallError> {
        let reply = self.model.ask(request, watch)?;
        Ok(Reply { cost_usd: self.prices.cost(&reply.usage), ..reply })
    }
}

/// What a run asks.
pub(crate) struct Models {
    pub(crate) generator: Opened,
    pub(crate) analyst: Opened,
}

impl Models {
    /// What is taken for granted of them, each thing once.
    pub(crate) fn assumed(&self) -> Vec<String> {
        let mut told: Vec<String> =
            [&self.generator, &self.analyst].into_iter().filter_map(|one| one.assumed.clone()).collect();
        told.dedup();
        told
    }
}

/// The registry with the user's own entries.
pub(crate) fn registry(file: Option<&Path>, config_folder: Option<&Path>) -> Result<Registry, Usage> {
    let usual = config_folder.map(|folder| folder.join("models.toml")).filter(|path| path.exists());
    let user: Option<PathBuf> = file.map(Path::to_owned).or(usual);
    Registry::load(user.as_deref()).map_err(|error| Usage(error.text))
}

/// The name of a model, with the folder in it where `place` puts it.
pub(crate) fn placed(name: &str, place: &dyn Fn(&Path) -> PathBuf) -> String {
    for kind in ["mailbox:", "replay:"] {
        if let Some(folder) = name.strip_prefix(kind) {
            return format!("{kind}{}", place(Path::new(folder)).display());
        }
    }
    name.to_owned()
}

/// The model of this name, at this price where one is given. Nothing is sent yet.
pub(crate) fn open(
    name: &str,
    registry: &Registry,
    record: Option<&Path>,
    price: Option<Prices>,
) -> Result<Opened, Usage> {
    let usage = |error: CallError| Usage(error.text);
    let (known, recorded) = match registry.route(name).map_err(usage)? {
        Route::Http(entry) | Route::Command(entry) => (entry.price, false),
        Route::Replay(_) => (None, true),
        Route::Mailbox(_) => (None, false),
    };
    let mut model: Arc<dyn Model> = Arc::from(kforge_models::open(name, registry).map_err(usage)?);
    if let Some(prices) = price.filter(|_| !recorded) {
        model = Arc::new(Priced { model, prices });
    }
    if let Some(folder) = record {
        model = Arc::new(Recorder::new(model, folder));
    }
    let prices = if recorded { None } else { price.or(known) };
    Ok(Opened { model, prices, recorded, attempts: None, assumed: registry.assumed(name) })
}

/// The replies that kforge brings along.
pub(crate) fn embedded() -> Replay {
    let mut files: Vec<(PathBuf, &'static str)> = Vec::new();
    let mut folders = vec![&RECORDINGS];
    while let Some(folder) = folders.pop() {
        folders.extend(folder.dirs());
        files.extend(folder.files().filter_map(|file| Some((file.path().to_owned(), file.contents_utf8()?))));
    }
    Replay::from_entries(files.into_iter()).named(RECORDED)
}

/// The target that replies to this problem were recorded for, where a recording answers.
pub(crate) fn recorded_target(generator: Option<&str>, problem_hash: &str) -> Option<Target> {
    let replay = match generator {
        None => embedded(),
        Some(name) => Replay::open(name.strip_prefix("replay:")?).ok()?,
    };
    replay.problems().into_iter().find(|known| known.problem_hash == problem_hash)?.target.parse().ok()
}

/// Recordings of this problem, or an error that names the ways to a model.
pub(crate) fn without_configuration(problem: &str, hash: &str, target: &str) -> Result<Opened, Usage> {
    let replay = embedded();
    if replay.has(hash, target) {
        let attempts = Some(replay.replies(hash, target, "generator"));
        return Ok(Opened { model: Arc::new(replay), prices: None, recorded: true, attempts, assumed: None });
    }
    let known: Vec<String> =
        replay.problems().iter().map(|known| format!("{} on {}", known.problem, known.target)).collect();
    Err(Usage(format!(
        "no model is configured, and there is no recording of {problem} on {target}. Five ways to a model:\n\
         \x20 1. an API key: set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, then --model gpt-5, claude-opus-4-5 or the like\n\
         \x20 2. a compatible server: --model vllm:NAME@http://HOST:8000/v1, openrouter:NAME, together:NAME, ...\n\
         \x20 3. a local server: --model ollama:NAME or lmstudio:NAME\n\
         \x20 4. an agent program on this machine: --model claude-cli, codex-cli or gemini-cli, or an entry of your own with wire = \"command\" in models.toml\n\
         \x20 5. a mailbox: --model mailbox:DIR, answered by a person or a program that writes files\n\
         Without a model these can be tried, from recorded replies: {}",
        known.join(", ")
    )))
}
