//! A profile for people: the findings, then where each comes from and what was missing.

use super::{table, trimmed};
use kforge_types::{Profile, SanitizerReport};
use std::fmt::Write;

pub(crate) fn profile(name: &str, profile: &Profile) -> String {
    let mut text = match &profile.roofline {
        Some(roofline) => format!(
            "{name}: {}; {:.1} us, {:.2} times the floor of {:.1} us\n",
            match roofline.class.as_str() {
                "memory" => "bound by memory",
                "compute" => "bound by arithmetic",
                _ => "far from what memory and arithmetic allow",
            },
            roofline.time_us,
            roofline.time_us / roofline.floor_us.max(1e-9),
            roofline.floor_us
        ),
        // The first rung is the candidate itself: where it gave nothing, its reason is the answer.
        None => match profile.sources.first().filter(|source| !source.had) {
            Some(candidate) => format!("{name}: {}\n", candidate.detail),
            None => format!("{name}: no time to compare\n"),
        },
    };
    if !profile.findings.is_empty() {
        text.push_str("\nFindings\n");
        for (number, finding) in profile.findings.iter().enumerate() {
            let _ = writeln!(text, "  {:2}. {} [{}]", number + 1, finding.text, finding.source);
        }
    }
    let mut made = table(Some(140));
    for source in &profile.sources {
        let seconds = format!("{:.1} s", source.seconds);
        made.add_row([if source.had { "ok" } else { "none" }, &source.name, &seconds, &source.detail]);
    }
    let _ = write!(text, "\nSources\n{}", trimmed(&made));
    if !profile.documents.is_empty() {
        let names: Vec<&str> = profile.documents.iter().map(|document| document.name.as_str()).collect();
        let _ = write!(text, "\nLonger texts, with --json: {}", names.join(", "));
    }
    text.trim_end().to_owned()
}

/// What compute-sanitizer found, tool by tool.
pub(crate) fn sanitizer(report: &SanitizerReport) -> String {
    let mut text = match report.digest() {
        Some(digest) => format!("{digest}\n"),
        None => format!("compute-sanitizer, at {}\n", report.sizes),
    };
    let mut made = table(Some(140));
    for tool in &report.tools {
        let state = match tool {
            tool if !tool.ran => "none",
            tool if tool.errors == 0 => "clean",
            tool if tool.advisory => "note",
            _ => "error",
        };
        let first = tool.first.as_ref().map(|first| format!("; first: {first}")).unwrap_or_default();
        made.add_row([state, &tool.name, &format!("{:.1} s", tool.seconds), &format!("{}{first}", tool.detail)]);
    }
    let _ = write!(text, "{}", trimmed(&made));
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kforge_types::{ProfileFinding, ProfileSource, Roofline};

    #[test]
    fn findings_come_first_and_reasons_are_shown() {
        let shown = profile(
            "a.py",
            &Profile {
                sources: vec![ProfileSource {
                    name: "perf counters".to_owned(),
                    had: false,
                    detail: "perf is not installed".to_owned(),
                    seconds: 0.0,
                }],
                findings: vec![ProfileFinding {
                    text: "a loop is not vectorised".to_owned(),
                    source: "vectorisation report".to_owned(),
                    metrics: std::collections::BTreeMap::new(),
                }],
                roofline: Some(Roofline {
                    class: "memory".to_owned(),
                    bytes: 1e6,
                    flops: None,
                    memory_bytes_per_s: 1e10,
                    flops_per_s: None,
                    floor_us: 100.0,
                    time_us: 150.0,
                }),
                documents: Vec::new(),
            },
        );
        assert!(shown.starts_with("a.py: bound by memory; 150.0 us, 1.50 times the floor of 100.0 us\n"), "{shown}");
        assert!(shown.contains(" 1. a loop is not vectorised [vectorisation report]"), "{shown}");
        assert!(shown.contains("none") && shown.contains("perf is not installed"), "{shown}");
    }

    #[test]
    fn a_candidate_that_was_not_profiled_has_its_reason_in_the_first_line() {
        let candidate = ProfileSource {
            name: "candidate".to_owned(),
            had: false,
            detail: "its output is wrong: not profiled; 3 of 9 elements differ".to_owned(),
            seconds: 1.0,
        };
        let found = Profile { sources: vec![candidate], ..Profile::default() };
        let shown = profile("a.py", &found);
        assert!(shown.starts_with("a.py: its output is wrong: not profiled; 3 of 9 elements differ\n"), "{shown}");
    }

    #[test]
    fn each_tool_of_the_sanitizer_has_its_row() {
        let tool = |name: &str, ran, errors, advisory| kforge_types::SanitizerTool {
            name: name.to_owned(),
            ran,
            errors,
            advisory,
            ..kforge_types::SanitizerTool::default()
        };
        let report = SanitizerReport {
            sizes: "reduced sizes".to_owned(),
            tools: vec![
                tool("memcheck", true, 0, false),
                tool("racecheck", true, 2, true),
                tool("initcheck", false, 0, false),
                tool("synccheck", true, 1, false),
            ],
        };
        let shown = sanitizer(&report);
        assert!(shown.starts_with("compute-sanitizer, at reduced sizes: synccheck"), "{shown}");
        for word in ["clean", "note", "none", "error"] {
            assert!(shown.contains(word), "{shown}");
        }
    }
}
