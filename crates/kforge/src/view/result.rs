//! One evaluation for people: a headline, the baselines, each distribution, the checks, where the time went.

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
    // One row would only repeat the headline.
    if result.by_distribution.len() > 1 {
        let _ = write!(text, "\nBy distribution\n{}", trimmed(&by_distribution(result, width)));
    }
    if !result.checks.is_empty() {
        let _ = write!(text, "\nChecks\n{}", trimmed(&checks(&result.checks, width)));
    }
    notes(result, &mut text);
    if !result.stages_s.is_empty() {
        let parts: Vec<String> = result.stages_s.iter().map(|(name, s)| format!("{name} {s:.2} s")).collect();
        let total: f64 = result.stages_s.values().sum();
        let _ = write!(text, "\nTime spent ({total:.2} s): {}", parts.join(", "));
    }
    text
}

fn headline(result: &EvalResult) -> String {
    let name = &result.candidate_file;
    let threads = counted(result.device.threads, "thread");
    let place = format!("{} on {}, {threads}", result.precision, result.device.name);
    match result.state {
        State::Correct => format!(
            "{name}: {}; {place}",
            correct(result, &Words { speed: "x the speed of", interval: "95 % interval " })
        ),
        state => {
            let kind = result.kind.map(|kind| format!(" ({})", kind.name())).unwrap_or_default();
            format!("{name}: {}{kind}", state.label())
        }
    }
}

/// How much is said around the numbers.
pub(super) struct Words {
    pub(super) speed: &'static str,
    pub(super) interval: &'static str,
}

/// Of a correct candidate: what it is worth, or why no number stands.
pub(super) fn correct(result: &EvalResult, words: &Words) -> String {
    let kind = result.kind.map(|kind| format!(" ({})", kind.name())).unwrap_or_default();
    let (Some(speedup), Some(baseline)) = (result.speedup, &result.baseline) else {
        return match result.withheld() {
            Some(why) => format!("correct{kind}, no speedup: {why}"),
            None => format!("correct{kind}, not timed"),
        };
    };
    let at_least = if result.is_least() { "at least " } else { "" };
    let interval =
        result.speedup_ci.map(|ci| format!(" ({}{:.2} to {:.2})", words.interval, ci.low, ci.high)).unwrap_or_default();
    let provisional = if result.provisional { ", provisional" } else { "" };
    let over = format!("{} {}", words.speed, baseline_label(&baseline.name));
    format!("correct{kind}, {at_least}{speedup:.2}{over}{interval}{provisional}")
}

/// "1 thread", "2 threads".
fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `torch.compile (cast-weights, channels_last)`.
pub(crate) fn baseline_label(name: &str) -> String {
    let (how, switches) = name.split_once('+').unwrap_or((name, ""));
    let how = match how {
        "compile" => "torch.compile",
        "max-autotune" => "torch.compile max-autotune",
        "reduce-overhead" => "torch.compile reduce-overhead",
        other => other,
    };
    if switches.is_empty() { how.to_owned() } else { format!("{how} ({})", switches.replace('+', ", ")) }
}

fn times(result: &EvalResult, width: Option<u16>) -> comfy_table::Table {
    let mut made = table(width);
    made.set_header(["", "median", "p20 to p80", "calls", ""]);
    if let Some(own) = &result.candidate {
        let told = [
            (own.row_calls > 1).then(|| format!("in batches of {}", own.row_calls)),
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
            note = format!(
                "fastest; {} interleaved with the candidate (used for the speedup){idle} {note}",
                micros(fastest.median_us)
            );
        } else if baseline.cached {
            note = format!("kept from before {note}");
        }
        let median = baseline.median_us.map_or_else(|| "-".to_owned(), micros);
        let spread = match (baseline.p20, baseline.p80) {
            (Some(low), Some(high)) => format!("{} to {}", micros(low), micros(high)),
            _ => "-".to_owned(),
        };
        made.add_row([&baseline_label(&baseline.name), &median, &spread, &baseline.n.to_string(), note.trim()]);
    }
    made
}

fn by_distribution(result: &EvalResult, width: Option<u16>) -> comfy_table::Table {
    let mut made = table(width);
    made.set_header(["inputs", "speedup", "95 % interval", "calls"]);
    for one in &result.by_distribution {
        let name = if one.name == "own" { "problem's inputs" } else { &one.name };
        let interval = format!("{:.2} to {:.2}", one.interval.low, one.interval.high);
        made.add_row([name, &format!("{:.2}x", one.speedup), &interval, &one.n.to_string()]);
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
pub(super) fn micros(us: f64) -> String {
    match us {
        us if us >= 1e5 => format!("{:.0} ms", us / 1e3),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.1} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kforge_types::{DistributionRatio, Interval, Kind};

    fn correct_one() -> EvalResult {
        serde_json::from_value(serde_json::json!({
            "version": 1, "problem_file": "sums.py", "candidate_file": "k.py", "hash": "", "target": "cpu/cpp",
            "state": "correct", "evidence": "measured", "reason": "",
            "speedup": 1.5, "speedup_ci": {"low": 1.4, "high": 1.6},
            "baseline": {"name": "compile", "median_us": 150.0}, "baselines": [], "checks": [], "contract": {},
            "precision": "fp32", "provisional": false, "sandbox": {"level": "full", "missing": []}, "stages_s": {},
            "device": {"name": "EPYC", "threads": 1, "last_level_cache": 0, "note": ""},
            "versions": {"kforge": "", "python": "", "torch": "", "compiler": "", "os": ""},
            "problem": {"flags": [], "notes": [], "truth": "float64", "reduction": 1, "distributions": []},
            "findings": [], "log": "",
        }))
        .unwrap()
    }

    fn headline_with(change: impl FnOnce(&mut EvalResult)) -> String {
        let mut made = correct_one();
        change(&mut made);
        result(&made, Some(100)).lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_headline_has_state_speed_precision_and_device() {
        let plain =
            "k.py: correct, 1.50x the speed of torch.compile (95 % interval 1.40 to 1.60); fp32 on EPYC, 1 thread";
        assert_eq!(headline_with(|_| ()), plain);
        let two = headline_with(|made| made.device.threads = 2);
        assert!(two.ends_with("on EPYC, 2 threads"), "{two}");
    }

    #[test]
    fn a_coarse_number_is_at_least_what_is_claimed() {
        let coarse = headline_with(|made| made.speedup = Some(1.4));
        assert!(
            coarse.contains("correct, at least 1.40x the speed of torch.compile (95 % interval 1.40 to 1.60)"),
            "{coarse}"
        );
    }

    #[test]
    fn a_number_that_is_withheld_has_its_reason_in_the_headline() {
        let none = headline_with(|made| {
            (made.speedup, made.speedup_ci) = (None, None);
            "fp32 (unproven)".clone_into(&mut made.precision);
            made.checks.push(Check::withheld("no inputs can tell the contract's precision from a lower one"));
        });
        let wanted = "k.py: correct, no speedup: no inputs can tell the contract's precision from a lower one; fp32 (unproven) on EPYC";
        assert!(none.starts_with(wanted), "{none}");
        let untimed = headline_with(|made| (made.speedup, made.baseline) = (None, None));
        assert!(untimed.starts_with("k.py: correct, not timed; fp32 on"), "{untimed}");
    }

    #[test]
    fn who_has_no_kernel_of_its_own_is_called_so_in_the_headline() {
        let named = headline_with(|made| made.kind = Some(Kind::FrameworkOnly));
        assert!(named.starts_with("k.py: correct (framework_only), 1.50x the speed of torch.compile"), "{named}");
        let unconfirmed = headline_with(|made| made.provisional = true);
        assert!(unconfirmed.contains("1.60), provisional; fp32"), "{unconfirmed}");
    }

    #[test]
    fn every_distribution_has_its_row_where_there_are_several() {
        let ratio = |name: &str, speedup: f64| DistributionRatio {
            name: name.to_owned(),
            speedup,
            interval: Interval { low: speedup - 0.1, high: speedup + 0.1 },
            n: 64,
        };
        let mut made = correct_one();
        made.by_distribution.push(ratio("own", 1.5));
        assert!(!result(&made, Some(100)).contains("By distribution"));
        made.by_distribution.push(ratio("zeros", 1.25));
        let text = result(&made, Some(100));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let table: Vec<String> =
            text.lines().skip_while(|line| *line != "By distribution").map(words).take(4).collect();
        let wanted = [
            "By distribution",
            "inputs speedup 95 % interval calls",
            "problem's inputs 1.50x 1.40 to 1.60 64",
            "zeros 1.25x 1.15 to 1.35 64",
        ];
        assert_eq!(table, wanted);
    }

    /// Everything that a measured result can show.
    fn full_one() -> EvalResult {
        let mut made = correct_one();
        let own = serde_json::json!({
            "median_us": 101.25, "p20": 99.5, "p80": 108.0, "n": 640, "clock": "outside", "row_calls": 8,
            "inside_median_us": 100.0, "resolution_us": 0.5, "warm_median_us": 80.0, "call_median_us": 130.0,
            "launching_median_us": null, "graph_median_us": 95.0, "cold": "", "prepare_s": 0.0, "framework_share": 0.25,
        });
        let baselines = serde_json::json!([
            {"name": "eager", "median_us": 420.0, "p20": 400.0, "p80": 455.5, "n": 50, "note": "", "cached": true},
            {"name": "compile+channels_last", "median_us": 151.0, "p20": 149.0, "p80": 156.0, "n": 80, "note": "",
             "cached": false},
            {"name": "max-autotune", "median_us": null, "p20": null, "p80": null, "n": 0,
             "note": "compiles for more than a minute", "cached": false},
        ]);
        made.candidate = Some(serde_json::from_value(own).unwrap());
        made.baselines = serde_json::from_value(baselines).unwrap();
        made.baseline = Some(kforge_types::BaselineRef {
            name: "compile+channels_last".to_owned(),
            median_us: 150.0,
            call_median_us: Some(190.0),
        });
        for (name, speedup) in [("own", 1.5), ("zeros", 1.25)] {
            let interval = Interval { low: speedup - 0.1, high: speedup + 0.1 };
            made.by_distribution.push(DistributionRatio { name: name.to_owned(), speedup, interval, n: 64 });
        }
        for (name, passed, detail) in
            [("output", true, "max error: 1 % of tolerance"), ("bits", false, "2 of 4 differ")]
        {
            made.checks.push(Check { name: name.to_owned(), passed, detail: detail.to_owned() });
        }
        made.problem.flags.push("the output does not depend on the input".to_owned());
        made.problem.truth = "native".to_owned();
        made.provisional = true;
        made.provisional_reason = "other programs used the machine".to_owned();
        made.sandbox.missing.push("namespaces: not allowed here".to_owned());
        made.device.note = "clocks are not fixed".to_owned();
        made.stages_s = [("build", 1.25), ("time", 2.5), ("verify", 0.75)].map(|(s, t)| (s.to_owned(), t)).into();
        made
    }

    #[test]
    fn a_measured_result_shows_everything() {
        insta::assert_snapshot!(result(&full_one(), Some(110)));
    }

    #[test]
    fn a_wrong_output_shows_where() {
        let mut wrong = correct_one();
        (wrong.state, wrong.kind) = (State::Mismatch, Some(Kind::Numeric));
        "worst at (3, 17): got 0.0, expected 0.25\n12 of 4096 values are outside".clone_into(&mut wrong.reason);
        (wrong.speedup, wrong.speedup_ci, wrong.baseline) = (None, None, None);
        wrong.checks.push(Check { name: "output".to_owned(), passed: false, detail: "worst at (3, 17)".to_owned() });
        insta::assert_snapshot!(result(&wrong, Some(110)));
    }

    #[test]
    fn a_candidate_that_never_ran_shows_why() {
        let mut refused = correct_one();
        (refused.state, refused.kind) = (State::GenerationFailure, Some(Kind::Guardrail));
        refused.evidence = Evidence::Syntax;
        "hidden_fallback: the fallback computes with the framework\n  line 12: except Exception:"
            .clone_into(&mut refused.reason);
        (refused.speedup, refused.speedup_ci, refused.baseline) = (None, None, None);
        refused.sandbox.missing.push("nothing ran".to_owned());
        insta::assert_snapshot!(result(&refused, Some(110)));
    }
}
