//! A result under construction.

use super::Session;
use kforge_types::{
    BaselineRef, Check, EvalResult, Evidence, Interval, ProblemReport, RESULT_VERSION, SandboxLevel, SandboxReport,
    State, Timing, Verdict,
};
use std::collections::BTreeMap;

/// What is known so far of one candidate.
pub(crate) struct Outcome {
    name: String,
    hash: String,
    pub(crate) verdict: Verdict,
    pub(crate) evidence: Evidence,
    pub(crate) checks: Vec<Check>,
    pub(crate) speedup: Option<(f64, Interval)>,
    pub(crate) baseline: Option<BaselineRef>,
    pub(crate) timing: Option<Timing>,
    pub(crate) prepare_s: f64,
    pub(crate) framework_share: Option<f64>,
    /// Why its number is not confirmed; empty where it is.
    pub(crate) provisional: &'static str,
    pub(crate) sandbox: SandboxReport,
    pub(crate) log: String,
    /// Where the problem was examined a second time, at other sizes.
    pub(crate) report: Option<ProblemReport>,
    stages: BTreeMap<String, f64>,
}

impl Outcome {
    pub(crate) fn begin(session: &Session, name: &str, source: &str) -> Self {
        Self {
            name: name.to_owned(),
            hash: kforge_types::content_hash(&[session.problem_source.as_str(), source]),
            verdict: Verdict::correct(),
            evidence: Evidence::Syntax,
            checks: Vec::new(),
            speedup: None,
            baseline: None,
            timing: None,
            prepare_s: 0.0,
            framework_share: None,
            provisional: "",
            sandbox: SandboxReport { level: SandboxLevel::None, missing: Vec::new() },
            log: String::new(),
            report: None,
            stages: BTreeMap::new(),
        }
    }

    /// Forgets checks and verdict for another try; returns the verdict.
    pub(crate) fn restart(&mut self) -> Verdict {
        self.checks.clear();
        self.evidence = Evidence::Syntax;
        std::mem::replace(&mut self.verdict, Verdict::correct())
    }

    pub(crate) fn stage(&mut self, name: &str, seconds: f64) {
        *self.stages.entry(name.to_owned()).or_default() += seconds;
    }

    pub(crate) fn pass(&mut self, name: &str, detail: impl Into<String>) {
        self.checks.push(Check { name: name.to_owned(), passed: true, detail: detail.into() });
    }

    /// Notes the failed check and what it means; always `false`, so that callers can end with it.
    pub(crate) fn fail(&mut self, name: &str, verdict: Verdict) -> bool {
        self.checks.push(Check { name: name.to_owned(), passed: false, detail: verdict.reason.clone() });
        self.verdict = verdict;
        false
    }

    pub(crate) fn finish(self, session: &Session) -> EvalResult {
        let correct = self.verdict.state == State::Correct;
        let proven = if session.referee.proven { "" } else { " (unproven)" };
        let mul = serde_json::to_value(session.opened.contract.mul).ok();
        let mul = mul.as_ref().and_then(serde_json::Value::as_str).unwrap_or("fp32");
        EvalResult {
            version: RESULT_VERSION,
            problem_file: session.problem_file.display().to_string(),
            candidate_file: self.name,
            hash: self.hash,
            target: session.options.target.clone(),
            state: self.verdict.state,
            kind: self.verdict.kind,
            evidence: self.evidence,
            reason: self.verdict.reason,
            speedup: self.speedup.filter(|_| correct).map(|(ratio, _)| ratio),
            speedup_ci: self.speedup.filter(|_| correct).map(|(_, interval)| interval),
            baseline: self.baseline,
            baselines: session.baselines.list(),
            candidate: self.timing,
            checks: self.checks,
            contract: session.opened.contract.clone(),
            precision: format!("{mul}{proven}"),
            provisional: !self.provisional.is_empty(),
            provisional_reason: self.provisional.to_owned(),
            sandbox: self.sandbox,
            stages_s: self.stages,
            device: session.device.clone(),
            versions: session.versions.clone(),
            problem: self.report.unwrap_or_else(|| session.opened.report.clone()),
            findings: Vec::new(),
            log: self.log,
        }
    }
}
