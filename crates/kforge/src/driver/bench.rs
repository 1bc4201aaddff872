//! What the loop itself costs, with models and evaluations that cost nothing. Run by `benches/driver`; asserts nothing.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use super::{
    ask::Params,
    scripted::{Doomed, Setup, go, prompts, reply, rules},
};
use crate::{
    run::{
        event::{Event, Line},
        history::History,
        journal::{self, Journal},
    },
    search::Rules,
};
use kforge_models::Scripted;
use std::{sync::Arc, time::Duration, time::Instant};

const QUIET: Doomed = Doomed { after: None };
const ADVICE: &str =
    r#"{"bottleneck": "memory", "method": "fuse", "plan": "one pass", "expected_gain": "2x", "metrics_used": []}"#;

fn model(delay: Duration) -> Arc<Scripted> {
    let scripted = Scripted::new(|request, call| {
        Ok(Scripted::reply(match request.label.role.as_str() {
            "generator" => reply(&format!("speedup {}", 1.0 + call as f64 / 100.0)),
            _ => ADVICE.to_owned(),
        }))
    });
    Arc::new(scripted.delayed(delay))
}

fn status(key: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

/// Seconds of processor time of this process, at a hundred ticks a second.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(f64::NAN);
    (ticks(11) + ticks(12)) / 100.0
}

#[test]
#[ignore = "a benchmark: run benches/driver"]
fn overhead_of_an_iteration() {
    let (rules, prompts) = (Rules { iterations: 100, ..rules() }, prompts());
    let folder = tempfile::tempdir().unwrap();
    let setup =
        Setup { rules: &rules, model: model(Duration::ZERO), hooks: &[], params: Params::default(), prompts: &prompts };
    let begun = Instant::now();
    let history = go(folder.path(), &setup, &QUIET).unwrap();
    let each = begun.elapsed().as_secs_f64() * 1e3 / history.attempts.len() as f64;
    println!(
        "overhead of an iteration: {each:.2} ms ({} iterations, {} events, synced)",
        history.attempts.len(),
        history.events()
    );
}

#[test]
#[ignore = "a benchmark: run benches/driver"]
fn two_hundred_at_once() {
    let (rules, prompts) = (Rules { iterations: 5, ..rules() }, prompts());
    let folder = tempfile::tempdir().unwrap();
    let model = model(Duration::from_secs(1));
    let (begun, processor) = (Instant::now(), processor_s());
    std::thread::scope(|scope| {
        for number in 0..200 {
            let run = folder.path().join(number.to_string());
            let (rules, prompts, model) = (&rules, &prompts, model.clone());
            scope.spawn(move || {
                std::fs::create_dir(&run).unwrap();
                let setup = Setup { rules, model, hooks: &[], params: Params::default(), prompts };
                go(&run, &setup, &QUIET).unwrap();
            });
        }
    });
    let wall = begun.elapsed().as_secs_f64();
    println!(
        "200 problems at once, a model that takes 1 s: {wall:.1} s, {:.2} cores, {:.0} MB at the most",
        (processor_s() - processor) / wall,
        status("VmHWM")
    );
}

#[test]
#[ignore = "a benchmark: run benches/driver"]
fn resume_of_ten_thousand_events() {
    let (rules, prompts) = (Rules { iterations: 30, ..rules() }, prompts());
    let folder = tempfile::tempdir().unwrap();
    let setup =
        Setup { rules: &rules, model: model(Duration::ZERO), hooks: &[], params: Params::default(), prompts: &prompts };
    go(folder.path(), &setup, &QUIET).unwrap();
    let made: Vec<Line> = journal::look(folder.path()).unwrap();
    let mut text = String::new();
    let repeated = made.iter().cycle().filter(|line| !matches!(line.event, Event::Finished { .. })).take(10_000);
    for (seq, line) in repeated.enumerate() {
        text += &serde_json::to_string(&Line { seq: seq as u64, ..line.clone() }).unwrap();
        text.push('\n');
    }
    std::fs::write(folder.path().join(journal::FILE), &text).unwrap();
    let begun = Instant::now();
    let (_journal, lines, _note) = Journal::open(folder.path()).unwrap();
    let history = History::of(&lines);
    println!(
        "opening a run of {} events ({:.0} MB): {:.3} s, {} attempts",
        lines.len(),
        text.len() as f64 / 1e6,
        begun.elapsed().as_secs_f64(),
        history.attempts.len()
    );
}
