//! `kforge config`: which settings hold here, and where each comes from.

use super::{Usage, printer::Printer};
use crate::config::{Layer, Settings, user_dir};
use clap::Args;
use serde_json::{Map, Value, json};

/// Show the settings that `kforge optimize` would use in this folder, and where each comes from.
///
/// Flags win over kforge.toml in this folder, that over config.toml in KFORGE_CONFIG_DIR, else in kforge below
/// XDG_CONFIG_HOME or ~/.config, that over
/// the defaults.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    settings: Settings,
    /// Print one JSON object with a value and its origins for each setting.
    #[arg(long)]
    json: bool,
}

pub(crate) fn config(args: &ConfigArgs, printer: &Printer) -> anyhow::Result<u8> {
    let cwd = std::env::current_dir()?;
    let user = user_dir(|name| std::env::var_os(name));
    let (resolved, origins) =
        Settings::resolve(args.settings.clone(), &cwd, user.as_deref()).map_err(|error| Usage(error.to_string()))?;
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
    for (agent, model) in
        [("generator", resolved.generator()), ("analyst", resolved.analyst().or(resolved.generator()))]
    {
        printer.note(&format!("{agent}: {}", model.unwrap_or("no model is set")));
    }
    if resolved.target.is_none() {
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
