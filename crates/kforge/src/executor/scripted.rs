//! An executor for tests: verdicts are read off the candidate's own first lines.

use super::{Executor, GaveUp};
use crate::refusal::Refused;
use kforge_exec::{Contender, ExecError, Observer, ProfileOptions};
use kforge_types::{
    BaselineRef, Check, Contract, Duel, DuelOutcome, EvalResult, Evidence, Interval, Kind, Profile, Roofline, Target,
    Timing, Verdict,
};

/// The problem that is always the same.
pub(crate) const PROBLEM_FILE: &str = "sums.py";
pub(crate) const PROBLEM: &str = "class Model: pass\n";

pub(crate) fn target() -> Target {
    Target { vendor: "cpu".to_owned(), model: "cpp".to_owned() }
}

/// `# speedup 1.5` is correct and that fast, `# kind numeric` is that failure, `# compiled` was never run. With
/// `# withheld` no speedup is given.
pub(crate) struct Scripted;

impl Executor for Scripted {
    fn judge(&mut self, name: &str, source: &str, _observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        if word(source, "breaks ").is_some() {
            return Err(GaveUp("as the script says".to_owned()).into());
        }
        if let Some(construct) = word(source, "needs a GPU for ") {
            return Err(ExecError::Uninterpretable(construct.to_owned()).into());
        }
        Ok(verdict(name, source))
    }

    fn profile(&mut self, _source: &str, options: ProfileOptions, _observer: &dyn Observer) -> anyhow::Result<Profile> {
        let time_us = options.time_us.unwrap_or(1000.0);
        let roofline = Roofline {
            class: "memory".to_owned(),
            bytes: 1e6,
            flops: None,
            memory_bytes_per_s: 1e10,
            flops_per_s: None,
            floor_us: 100.0,
            time_us,
        };
        Ok(Profile { roofline: Some(roofline), ..Profile::default() })
    }

    /// As `# really 1.5` says, else as their speedups do, to the percent. With `# no duel` there is none.
    fn duel(&mut self, contenders: [Contender<'_>; 2], _observer: &dyn Observer) -> anyhow::Result<DuelOutcome> {
        let told = |one: Contender<'_>| {
            word(one.source, "really ").or_else(|| word(one.source, "speedup ")).and_then(|text| text.parse().ok())
        };
        let speed = |one: Contender<'_>| told(one).unwrap_or(1.0);
        if contenders.iter().any(|one| word(one.source, "no duel").is_some()) {
            anyhow::bail!("as the script says");
        }
        let [first, second]: [f64; 2] = contenders.map(speed);
        let ratio = first / second;
        Ok(DuelOutcome::Fought(Duel {
            names: contenders.map(|one| one.name.to_owned()),
            ratio,
            interval: Interval { low: ratio * 0.99, high: ratio * 1.01 },
            medians_us: [1000.0 / first, 1000.0 / second],
            n: 60,
            pairs: 3,
        }))
    }

    /// `# again numeric` is that failure the second time, `# again compiled` could not be run then.
    fn confirm(&mut self, name: &str, source: &str, _observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        let second = word(source, "again ").map(|kind| format!("# kind {kind}\n# {kind}\n"));
        Ok(verdict(name, second.as_deref().unwrap_or(source)))
    }
}

fn word<'a>(source: &'a str, key: &str) -> Option<&'a str> {
    source.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(key)).map(str::trim)
}

pub(crate) fn verdict(name: &str, source: &str) -> EvalResult {
    let refused = Refused {
        problem_file: PROBLEM_FILE,
        problem_source: PROBLEM.as_bytes(),
        candidate_name: name,
        candidate_source: source.as_bytes(),
        target: &target(),
        contract: Contract::default(),
        device: kforge_exec::machine::cpu(2),
        findings: Vec::new(),
    };
    if let Some(kind) = word(source, "kind ").and_then(Kind::from_name) {
        return refused.result(Verdict::of(kind, "as the script says"));
    }
    if source.lines().any(|line| line == "# compiled") {
        let mut result = refused.result(Verdict::compiled("as the script says"));
        result.evidence = Evidence::Compiled;
        return result;
    }
    let speedup: f64 = word(source, "speedup ").and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let mut result = refused.result(Verdict::correct());
    result.evidence = Evidence::Measured;
    result.estimate = Some(speedup);
    if word(source, "withheld").is_some() {
        result.checks.push(Check::withheld("as the script says"));
    } else {
        result.speedup = Some(speedup);
        result.speedup_ci = Some(Interval { low: speedup * 0.95, high: speedup * 1.05 });
    }
    result.baseline = Some(BaselineRef { name: "eager".to_owned(), median_us: 1000.0, call_median_us: None });
    result.candidate = Some(Timing {
        median_us: 1000.0 / speedup,
        p20: 990.0 / speedup,
        p80: 1010.0 / speedup,
        n: 20,
        clock: "outside".to_owned(),
        row_calls: 1,
        inside_median_us: 1000.0 / speedup,
        resolution_us: 5.0,
        warm_median_us: None,
        call_median_us: None,
        launching_median_us: None,
        graph_median_us: None,
        cold: String::new(),
        prepare_s: 0.0,
        framework_share: None,
    });
    result
}
