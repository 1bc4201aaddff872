//! What compute-sanitizer says of a winner.

use kforge_types::{Check, EvalResult, SANITIZER, SanitizerReport};

/// Outputs that are right do not excuse accesses that are wrong: such a winner goes back. A tool that did not run has
/// found nothing, which is not the same as nothing to be found.
pub(super) fn gate(result: &mut EvalResult, report: &SanitizerReport) {
    for tool in &report.tools {
        let name = format!("{SANITIZER} {}", tool.name);
        let passed = tool.ran && (tool.errors == 0 || tool.advisory);
        result.checks.push(Check { name, passed, detail: tool.detail.clone() });
    }
    if let Some(verdict) = report.verdict() {
        (result.state, result.kind, result.reason) = (verdict.state, verdict.kind, verdict.reason);
        (result.speedup, result.speedup_ci) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::scripted::verdict, *};
    use kforge_types::{Kind, SanitizerTool, State};

    #[test]
    fn a_winner_with_bad_accesses_goes_back_and_an_advisory_finding_is_only_noted() {
        let report = |advisory| SanitizerReport {
            sizes: "reduced sizes".to_owned(),
            tools: vec![SanitizerTool {
                name: "racecheck".to_owned(),
                ran: true,
                errors: 1,
                advisory,
                ..SanitizerTool::default()
            }],
        };
        let mut sent_back = verdict("a", "# speedup 2.0");
        gate(&mut sent_back, &report(false));
        assert_eq!((sent_back.state, sent_back.kind), (State::RuntimeError, Some(Kind::Sanitizer)));
        assert!(sent_back.reason.contains("racecheck") && sent_back.speedup.is_none());
        assert!(sent_back.checks.iter().any(|check| check.name == "compute-sanitizer racecheck" && !check.passed));
        let mut noted = verdict("a", "# speedup 2.0");
        gate(&mut noted, &report(true));
        assert!(noted.state == State::Correct && noted.speedup.is_some());
        assert!(noted.checks.iter().all(|check| check.passed));
    }

    #[test]
    fn a_tool_that_did_not_run_has_not_passed_and_does_not_send_back() {
        let detail = "compute-sanitizer is not installed".to_owned();
        let tool = SanitizerTool { name: "memcheck".to_owned(), detail, ..SanitizerTool::default() };
        let mut winner = verdict("a", "# speedup 2.0");
        gate(&mut winner, &SanitizerReport { sizes: String::new(), tools: vec![tool] });
        assert_eq!(winner.state, State::Correct);
        assert!(winner.checks.iter().any(|check| check.name == "compute-sanitizer memcheck" && !check.passed));
    }
}
