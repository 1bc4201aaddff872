//! Models for people.

use super::{table, trimmed};
use kforge_models::{Registry, Reply, Wire};
use std::fmt::Write;

pub(crate) fn models(registry: &Registry, width: Option<u16>) -> String {
    let mut made = table(width);
    made.set_header(["name", "wire", "key", "context", "dollars per million tokens, in and out"]);
    for entry in registry.entries() {
        let price =
            entry.price.as_ref().map_or_else(|| "unknown".to_owned(), |p| format!("{} and {}", p.input, p.output));
        let key = match (&entry.key_env, entry.no_key) {
            _ if entry.wire == Wire::Command => "its own login".to_owned(),
            (_, true) => "none needed".to_owned(),
            (Some(name), _) if std::env::var_os(name).is_some() => format!("{name} is set"),
            (Some(name), _) => format!("{name} is not set"),
            (None, _) => "by a command".to_owned(),
        };
        let context = entry.context.map(|tokens| tokens.to_string()).unwrap_or_default();
        made.add_row([entry.name.clone(), format!("{:?}", entry.wire), key, context, price]);
    }
    let prefixes: Vec<String> = registry.prefixes().map(|prefix| format!("{prefix}:NAME")).collect();
    format!(
        "{}\nAny other model of these: {}\nmailbox:DIR is answered by files, replay:DIR from a recording. `kforge models test NAME` makes one small call.",
        trimmed(&made),
        prefixes.join(", ")
    )
}

pub(crate) fn model_reply(name: &str, reply: &Reply) -> String {
    let tokens = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let cost = reply.cost_usd.map_or_else(|| "price unknown".to_owned(), |usd| format!("${usd:.6}"));
    let text: String = reply.text.trim().chars().take(300).collect();
    let mut said = format!(
        "{name} answered as {} after {:.2} s and {} tries: {text}\n{} tokens in, {} out ({} reasoning), {cost}",
        reply.model,
        reply.seconds,
        reply.attempts,
        tokens(reply.usage.input),
        tokens(reply.usage.output),
        tokens(reply.usage.reasoning)
    );
    for note in &reply.notes {
        let _ = write!(said, "\n  {note}");
    }
    said
}
