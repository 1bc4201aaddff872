//! One evaluation for people: a headline, the baselines, the checks, where the time went.

use super::{table, trimmed};
use kforge_types::{Check, EvalResult, Evidence, State};
use std::fmt::Write;

pub(crate) fn result(result: &EvalResult, width: Option<u16>) -> String {
    let mut text = headline(result);
    text.push('\n');
    if !result.reason.is_empty() {
        for line in result.reason.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    if !result.baselines.is_empty() || result.candidate.is_some() {
        let _ = write!(text, "\nTimes, cold caches\n{}", trimmed(&times(result, width)));
    }
    if !result.checks.is_empty() {
        let _ = write!(text, "\nChecks\n{}", trimmed(&checks(&result.checks, width)));
    }
    notes(result, &mut text);
    if !result.stages_s.is_empty() {
        let parts: Vec<String> = result.stages_s.iter().map(|(name, s)| format!("{name} {s:.2} s")).collect();
        let total: f64 = result.stages_s.values().sum();
        let _ = write!(text, "\nWhere {total:.2} s went: {}", parts.join(", "));
    }
    text
}

fn headline(result: &EvalResult) -> String {
    let place = format!("{} on {}, {} threads", result.precision, result.device.name, result.device.threads);
    match (result.state, result.speedup, &result.baseline) {
        (State::Correct, Some(speedup), Some(baseline)) => {
            let interval = result
                .speedup_ci
                .map(|ci| format!(" (95 % interval {:.2} to {:.2})", ci.low, ci.high))
                .unwrap_or_default();
            let provisional = if result.provisional { ", provisional" } else { "" };
            format!(
                "{}: correct, {speedup:.2}x the speed of {}{interval}{provisional}; {place}",
                result.candidate_file,
                baseline_label(&baseline.name)
            )
        }
        (State::Correct, _, _) => {
            let what = match result.evidence {
                Evidence::CorrectOnly => "correct, not timed",
                Evidence::Compiled => "compiled, not run: nothing is known of its outputs",
                _ => "correct",
            };
            format!("{}: {what}; {place}", result.candidate_file)
        }
        (state, _, _) => {
            let kind = result.kind.map(|kind| format!(" ({})", kind.name())).unwrap_or_default();
            format!("{}: {}{kind}", result.candidate_file, state.label())
        }
    }
}

pub(crate) fn baseline_label(name: &str) -> &str {
    match name {
        "compile" => "torch.compile",
        "max-autotune" => "torch.compile max-autotune",
        other => other,
    }
}

fn times(result: &EvalResult, width: Option<u16>) -> comfy_table::Table {
    let mut made = table(width);
    made.set_header(["", "median", "p20 to p80", "calls", ""]);
    if let Some(own) = &result.candidate {
        let told = [
            own.warm_median_us.map(|us| format!("{} with warm caches", micros(us))),
            own.call_median_us.map(|us| format!("{} on an idle device", micros(us))),
            own.graph_median_us.map(|us| format!("{} as a graph", micros(us))),
            own.framework_share.map(|s| format!("framework operators {:.0} %", 100.0 * s)),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        let spread = format!("{} to {}", micros(own.p20), micros(own.p80));
        made.add_row(["candidate", &micros(own.median_us), &spread, &own.n.to_string(), &told.join(", ")]);
    }
    for baseline in &result.baselines {
        let beside = result.baseline.as_ref().filter(|fastest| fastest.name == baseline.name);
        let mut note = baseline.note.clone();
        if let Some(fastest) = beside {
            let idle =
                fastest.call_median_us.map(|us| format!(", {} on an idle device", micros(us))).unwrap_or_default();
            note = format!("fastest; {} beside the candidate{idle} {note}", micros(fastest.median_us));
        } else if baseline.cached {
            note = format!("kept from before {note}");
        }
        let median = baseline.median_us.map_or_else(|| "-".to_owned(), micros);
        let spread = match (baseline.p20, baseline.p80) {
            (Some(low), Some(high)) => format!("{} to {}", micros(low), micros(high)),
            _ => "-".to_owned(),
        };
        made.add_row([baseline_label(&baseline.name), &median, &spread, &baseline.n.to_string(), note.trim()]);
    }
    made
}

fn checks(checks: &[Check], width: Option<u16>) -> comfy_table::Table {
    let mut made = table(width);
    for check in checks {
        let first = check.detail.lines().next().unwrap_or_default();
        made.add_row([if check.passed { "ok" } else { "NO" }, &check.name, first]);
    }
    made
}

fn notes(result: &EvalResult, text: &mut String) {
    let mut lines = Vec::new();
    lines.extend(result.problem.flags.iter().map(|flag| format!("problem flagged: {flag}")));
    lines.extend(result.problem.notes.iter().cloned());
    if result.problem.truth == "native" {
        lines.push(
            "the reference cannot run in float64: judged against its native output, with a wider band".to_owned(),
        );
    }
    if !result.device.note.is_empty() {
        lines.push(result.device.note.clone());
    }
    if result.provisional {
        lines.push(format!("provisional: {}", result.provisional_reason));
    }
    if !result.sandbox.missing.is_empty() && result.evidence != Evidence::Syntax {
        let level = format!("{:?}", result.sandbox.level).to_lowercase();
        lines.push(format!("sandbox: {level} ({})", result.sandbox.missing.join("; ")));
    }
    if !lines.is_empty() {
        text.push_str("\nNotes\n");
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
}

/// Three significant digits are enough for people; JSON has all of them.
fn micros(us: f64) -> String {
    match us {
        us if us >= 1e5 => format!("{:.0} ms", us / 1e3),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.1} us"),
    }
}
