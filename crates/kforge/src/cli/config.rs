//! `kforge config`: which settings hold here, and where each comes from.

use super::{printer::Printer, settings};
use crate::{
    config::{Layer, Settings, user_dir},
    environment::{Audience, VARIABLES, Variable},
    models,
};
use clap::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Show the settings that kforge would use in this folder, and where each comes from.
///
/// Flags win over kforge.toml in this folder, that over config.toml in KFORGE_CONFIG_DIR, else in kforge below
/// XDG_CONFIG_HOME or ~/.config, that over
/// the defaults.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    settings: Settings,
    /// Print one JSON object with a value and its origins for each setting, or one JSON list of variables.
    #[arg(long)]
    json: bool,
    /// Show the environment variables that kforge reads instead, and which of them are set. Of keys no value is shown.
    #[arg(long)]
    env: bool,
}

pub(crate) fn config(args: &ConfigArgs, printer: &Printer) -> anyhow::Result<u8> {
    if args.env {
        return variables(args.json, printer);
    }
    let (resolved, origins) = settings::with_origins(&args.settings)?;
    let values = serde_json::to_value(&resolved)?;
    let mut all = Map::new();
    for origin in &origins {
        let value = values.get(origin.key).cloned().unwrap_or_default();
        let entry = all.entry(origin.key).or_insert_with(|| json!({ "value": value, "from": [] }));
        if let Some(Value::Array(from)) = entry.get_mut("from") {
            from.push(origin.layer.to_string().into());
        }
    }
    if args.json {
        printer.answer(&Value::Object(all).to_string());
        return Ok(0);
    }
    let search = &resolved.search;
    for (agent, model) in [("generator", search.generator()), ("analyst", search.analyst().or(search.generator()))] {
        printer.note(&format!("{agent}: {}", model.unwrap_or("no model is set")));
    }
    if resolved.evaluation.target.is_none() {
        printer.note("target: none is set, a run takes the best one for its machine");
    }
    let mut lines: Vec<String> = Vec::new();
    for (key, entry) in origins.iter().map(|origin| origin.key).filter_map(|key| all.remove_entry(key)) {
        let unset = entry["value"].is_null() || entry["value"] == json!([]);
        if unset && entry["from"] == json!([Layer::Default.to_string()]) {
            continue;
        }
        let from: Vec<&str> = entry["from"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        lines.push(format!("{:<32} # {}", format!("{key} = {}", entry["value"]), from.join(", ")));
    }
    printer.answer(&lines.join("\n"));
    Ok(0)
}

/// One variable as it is shown.
#[derive(serde::Serialize)]
struct Shown {
    name: String,
    meaning: String,
    default: String,
    set: bool,
    /// Of a key nothing, whether it is set or not.
    value: Option<String>,
}

impl Shown {
    fn of(variable: &Variable) -> Self {
        let value = variable.value().map(|value| value.to_string_lossy().into_owned());
        Self {
            name: variable.name.to_owned(),
            meaning: variable.meaning.to_owned(),
            default: variable.default.to_owned(),
            set: value.is_some(),
            value,
        }
    }

    fn of_key(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            meaning: "A key for models (see `kforge models`).".to_owned(),
            default: "models that need it cannot be asked".to_owned(),
            set: std::env::var_os(name).is_some_and(|value| !value.is_empty()),
            value: None,
        }
    }

    fn text(&self) -> String {
        let state = match (&self.value, self.set) {
            (Some(value), _) => format!(" = {value}"),
            (None, true) => " is set".to_owned(),
            (None, false) => String::new(),
        };
        format!("{}{state}\n    {}\n    default: {}", self.name, self.meaning, self.default)
    }
}

fn variables(as_json: bool, printer: &Printer) -> anyhow::Result<u8> {
    let registry = models::registry(None, user_dir(|name| std::env::var_os(name)).as_deref())?;
    let keys: BTreeSet<&str> = registry.entries().filter_map(|entry| entry.key_env.as_deref()).collect();
    let users = VARIABLES.iter().filter(|variable| variable.audience == Audience::User);
    let shown: Vec<Shown> = users.map(Shown::of).chain(keys.into_iter().map(Shown::of_key)).collect();
    printer.answer(&if as_json {
        serde_json::to_string(&shown)?
    } else {
        shown.iter().map(Shown::text).collect::<Vec<_>>().join("\n")
    });
    Ok(0)
}
