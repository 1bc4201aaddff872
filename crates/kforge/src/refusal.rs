//! The result of a candidate that never ran.

use kforge_types::{
    Contract, DeviceInfo, EvalResult, Evidence, Finding, SandboxLevel, SandboxReport, Severity, Target, Verdict,
    Versions,
};

/// What is known of it all the same.
pub(crate) struct Refused<'a> {
    pub(crate) problem_file: &'a str,
    pub(crate) problem_source: &'a [u8],
    pub(crate) candidate_name: &'a str,
    pub(crate) candidate_source: &'a [u8],
    pub(crate) target: &'a Target,
    pub(crate) contract: Contract,
    pub(crate) device: DeviceInfo,
    pub(crate) findings: Vec<Finding>,
}

impl Refused<'_> {
    pub(crate) fn result(self, verdict: Verdict) -> EvalResult {
        EvalResult {
            version: kforge_types::RESULT_VERSION,
            problem_file: self.problem_file.to_owned(),
            candidate_file: self.candidate_name.to_owned(),
            hash: kforge_types::content_hash(&[self.problem_source, self.candidate_source]),
            target: self.target.clone(),
            state: verdict.state,
            kind: verdict.kind,
            evidence: Evidence::Syntax,
            reason: verdict.reason,
            speedup: None,
            speedup_ci: None,
            estimate: None,
            by_distribution: Vec::new(),
            baseline: None,
            baselines: Vec::new(),
            candidate: None,
            checks: Vec::new(),
            contract: self.contract,
            precision: String::new(),
            provisional: false,
            provisional_reason: String::new(),
            sandbox: SandboxReport { level: SandboxLevel::None, missing: vec!["nothing ran".to_owned()] },
            stages_s: std::collections::BTreeMap::new(),
            device: self.device,
            versions: Versions {
                kforge: env!("CARGO_PKG_VERSION").to_owned(),
                os: kforge_exec::machine::os(),
                ..Versions::default()
            },
            problem: kforge_types::ProblemReport::default(),
            findings: self.findings,
            log: String::new(),
        }
    }
}

/// The verdict that the hard ones among findings stand for; nothing where there are none.
pub(crate) fn of_findings(findings: &[Finding]) -> Option<Verdict> {
    let hard: Vec<&Finding> = findings.iter().filter(|finding| finding.severity == Severity::Hard).collect();
    hard.first().map(|first| guardrail(first, hard.len()))
}

/// The verdict that a hard finding stands for.
fn guardrail(first: &Finding, count: usize) -> Verdict {
    let more = if count > 1 { format!(" ({} more findings)", count - 1) } else { String::new() };
    let text = format!("{}: {}\n  at line {}: {}{more}", first.rule, first.message, first.line, first.excerpt.trim());
    Verdict::of(kforge_types::Kind::Guardrail, text)
}
