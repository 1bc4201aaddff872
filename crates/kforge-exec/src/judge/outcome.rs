//! A result under construction.

use super::{
    Session,
    alone::Alone,
    clock::Overhead,
    provisional::{self, Provisional},
    stage::Stage,
    timing::starts_threads,
};
use crate::{
    error::{ExecError, Result},
    failure::{Failure, Refusal, Tried},
    referee::Precision,
};
use kforge_types::{
    BaselineRef, Check, DistributionRatio, EvalResult, Evidence, Interval, ProblemReport, RESULT_VERSION, SandboxLevel,
    SandboxReport, State, Timing, Verdict,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

/// The baseline's time over the candidate's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Speedup {
    pub(crate) center: f64,
    pub(crate) interval: Interval,
}

/// A row of the baseline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BaselineRow {
    pub(crate) us: f64,
    pub(crate) overhead: Overhead,
    pub(crate) calls: usize,
    pub(crate) queues: bool,
}

impl Speedup {
    /// The same over a baseline that is so many times faster.
    pub(crate) fn over(self, factor: f64) -> Self {
        let Self { center, interval } = self;
        Self {
            center: center / factor,
            interval: Interval { low: interval.low / factor, high: interval.high / factor },
        }
    }
}

/// What is known so far of one candidate.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Outcome {
    name: String,
    hash: String,
    pub(crate) verdict: Verdict,
    pub(crate) evidence: Evidence,
    pub(crate) checks: Vec<Check>,
    /// Largest error of a verified output, as a share of the tolerance.
    pub(crate) error: f64,
    pub(crate) speedup: Option<Speedup>,
    /// By the clocks inside: it ranks candidates, and is no headline.
    pub(crate) estimate: Option<f64>,
    pub(crate) by_distribution: Vec<DistributionRatio>,
    /// Whether it starts threads by itself.
    pub(crate) own_threads: bool,
    /// Whether it returns memory that an earlier result still needs.
    pub(crate) reuses_buffers: bool,
    /// Whether its process holds so much memory that results may have been made ready before they were asked for.
    pub(crate) hoards: bool,
    /// Whether its results are not in memory when it hands them over.
    pub(crate) absent: bool,
    pub(crate) baseline: Option<BaselineRef>,
    /// What a row of the baseline took with no candidate beside it.
    pub(crate) alone: Option<Alone>,
    /// And beside this one.
    pub(crate) baseline_row: Option<BaselineRow>,
    pub(crate) timing: Option<Timing>,
    pub(crate) prepare_s: f64,
    pub(crate) framework_share: Option<f64>,
    /// Why its number is not confirmed.
    pub(crate) provisional: BTreeSet<Provisional>,
    pub(crate) sandbox: SandboxReport,
    pub(crate) log: String,
    /// Where the problem was examined a second time, at other sizes.
    pub(crate) report: Option<ProblemReport>,
    stages: BTreeMap<Stage, f64>,
}

impl Outcome {
    pub(crate) fn begin(session: &Session, name: &str, source: &str) -> Self {
        Self {
            name: name.to_owned(),
            hash: kforge_types::content_hash(&[session.bench.problem_source.as_str(), source]),
            verdict: Verdict::correct(),
            evidence: Evidence::Syntax,
            checks: Vec::new(),
            error: 0.0,
            speedup: None,
            estimate: None,
            by_distribution: Vec::new(),
            own_threads: starts_threads(source),
            reuses_buffers: false,
            hoards: false,
            absent: false,
            baseline: None,
            alone: None,
            baseline_row: None,
            timing: None,
            prepare_s: 0.0,
            framework_share: None,
            provisional: BTreeSet::new(),
            sandbox: SandboxReport { level: SandboxLevel::None, missing: Vec::new() },
            log: String::new(),
            report: None,
            stages: BTreeMap::new(),
        }
    }

    /// Forgets the checks for another try.
    pub(crate) fn restart(&mut self) {
        self.checks.clear();
        self.evidence = Evidence::Syntax;
        self.verdict = Verdict::correct();
    }

    /// Does something as a part of this stage.
    pub(crate) fn timed<T>(&mut self, stage: Stage, act: impl FnOnce(&mut Self) -> T) -> T {
        let begun = Instant::now();
        let made = act(self);
        self.stage(stage, begun.elapsed().as_secs_f64());
        made
    }

    pub(crate) fn stage(&mut self, stage: Stage, seconds: f64) {
        *self.stages.entry(stage).or_default() += seconds;
    }

    pub(crate) fn pass(&mut self, name: &str, detail: impl Into<String>) {
        self.checks.push(Check { name: name.to_owned(), passed: true, detail: detail.into() });
    }

    /// Notes the failed check and what it means.
    pub(crate) fn fail(&mut self, name: &str, verdict: Verdict) {
        self.checks.push(Check { name: name.to_owned(), passed: false, detail: verdict.reason.clone() });
        self.verdict = verdict;
    }

    /// Notes what the candidate was refused for, if it was.
    pub(crate) fn record(&mut self, judged: Tried<()>) -> Result<()> {
        match judged {
            Ok(()) => Ok(()),
            Err(Failure::Refused(Refusal { check, verdict })) => {
                self.fail(&check, verdict);
                Ok(())
            }
            Err(Failure::Denied(reason)) => Err(ExecError::harness(reason)),
            Err(Failure::Failed(error)) => Err(error),
        }
    }

    /// Why no speedup stands although all is right; empty where one does.
    fn withheld(&self, session: &Session) -> &'static str {
        let strict = session.bench.opened.contract.mul.is_none_or(|mul| mul == kforge_types::Precision::Fp32);
        match session.bench.referee.precision {
            _ if self.hoards => "its process holds enough memory to have results ready before they are asked for",
            _ if self.absent => "its results are not in its own memory when it returns them",
            _ if !session.bench.opened.varies => "no input varies between draws, so that a result could be remembered",
            _ if session.bench.referee.unmoved => "no change to a part of the inputs shows in the outputs",
            Precision::Unproven if strict => "no inputs can tell the contract's precision from a lower one",
            _ => "",
        }
    }

    pub(crate) fn finish(mut self, session: &Session) -> EvalResult {
        self.verdict = worth(self.verdict, self.evidence, &session.bench.options.arch);
        let correct = self.verdict.state == State::Correct;
        let withheld = self.withheld(session);
        if correct && !withheld.is_empty() && self.speedup.is_some() {
            self.speedup = None;
            self.checks.push(Check::withheld(withheld));
        }
        let proven = match session.bench.referee.precision {
            Precision::Proven => "",
            Precision::Unproven => " (unproven)",
            Precision::NotApplicable => " (no products: precision not applicable)",
        };
        let mul = serde_json::to_value(session.bench.opened.contract.mul).ok();
        let mul = mul.as_ref().and_then(serde_json::Value::as_str).unwrap_or("fp32");
        EvalResult {
            version: RESULT_VERSION,
            problem_file: session.bench.problem_file.display().to_string(),
            candidate_file: self.name,
            hash: self.hash,
            target: session.bench.options.target.clone(),
            state: self.verdict.state,
            kind: self.verdict.kind,
            evidence: self.evidence,
            reason: self.verdict.reason,
            speedup: self.speedup.filter(|_| correct).map(|speedup| speedup.center),
            speedup_ci: self.speedup.filter(|_| correct).map(|speedup| speedup.interval),
            estimate: self.estimate.filter(|_| correct),
            by_distribution: if correct { self.by_distribution } else { Vec::new() },
            baseline: self.baseline,
            baselines: session.baselines.list(),
            candidate: self.timing,
            checks: self.checks,
            contract: session.bench.opened.contract.clone(),
            precision: format!("{mul}{proven}"),
            provisional: !self.provisional.is_empty(),
            provisional_reason: provisional::told(&self.provisional),
            sandbox: self.sandbox,
            stages_s: self.stages.into_iter().map(|(stage, seconds)| (stage.name().to_owned(), seconds)).collect(),
            device: session.bench.device_info.clone(),
            versions: session.bench.versions.clone(),
            problem: self.report.unwrap_or_else(|| session.bench.opened.report.clone()),
            findings: Vec::new(),
            log: self.log,
        }
    }
}

/// A verdict begins as correct and stays so until a check fails. One whose outputs nobody has compared failed none, and
/// is not correct for that, whichever way led here.
fn worth(verdict: Verdict, evidence: Evidence, arch: &str) -> Verdict {
    match (verdict.state, evidence) {
        (State::Correct, Evidence::Syntax | Evidence::Compiled) => Verdict::compiled(format!(
            "compiled for {arch} and never called, since no device here runs it: nothing is known of its outputs, nor of \
             what it compiles in a call; judge it where such a device is (--executor)"
        )),
        _ => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kforge_types::Kind;

    #[test]
    fn only_compared_outputs_make_a_candidate_correct() {
        let state = |verdict, evidence| worth(verdict, evidence, "sm_90a").state;
        for evidence in [Evidence::Syntax, Evidence::Compiled] {
            assert_eq!(state(Verdict::correct(), evidence), State::Compiled);
            assert_eq!(state(Verdict::of(Kind::FrameworkOnly, ""), evidence), State::Compiled);
            assert_eq!(state(Verdict::of(Kind::Compiler, "no"), evidence), State::CompilationFailure);
        }
        for evidence in [Evidence::CorrectOnly, Evidence::Measured] {
            assert_eq!(state(Verdict::correct(), evidence), State::Correct);
        }
    }
}
