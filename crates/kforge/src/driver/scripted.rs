//! An evaluator and a run for tests: verdicts are read off the candidate's own first lines.

use super::{Agent, Driver, Progress, Task, ask::Params, evaluator::Evaluator, hooks::Hook, inputs::Material};
use crate::{
    prompt::{Edits, Prompts},
    refusal::Refused,
    run::{
        artifacts::Artifacts,
        event::{Line, Start},
        history::History,
        journal::Journal,
    },
    search::{Ablation, Base, Limits, Rules, Strategy},
};
use kforge_exec::{Observer, ProfileOptions};
use kforge_models::Model;
use kforge_types::{
    BaselineRef, Contract, EvalResult, Evidence, Interval, Kind, Profile, Roofline, Timing, Verdict, Versions,
};
use std::{path::Path, time::Instant};

/// `# speedup 1.5` is correct and that fast, `# kind numeric` is that failure.
#[derive(Default)]
pub(crate) struct ScriptedEvaluator {
    pub(crate) judged: u32,
    pub(crate) profiled: u32,
}

impl Evaluator for ScriptedEvaluator {
    fn judge(&mut self, name: &str, source: &str, _observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        self.judged += 1;
        if word(source, "breaks ").is_some() {
            return Err(super::evaluator::GaveUp("as the script says".to_owned()).into());
        }
        Ok(verdict(name, source))
    }

    fn profile(&mut self, _source: &str, options: ProfileOptions, _observer: &dyn Observer) -> anyhow::Result<Profile> {
        self.profiled += 1;
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

    /// `# again numeric` is that failure the second time.
    fn confirm(&mut self, name: &str, source: &str, _observer: &dyn Observer) -> anyhow::Result<EvalResult> {
        let second = word(source, "again ").map(|kind| format!("# kind {kind}\n"));
        Ok(verdict(name, second.as_deref().unwrap_or(source)))
    }
}

fn word<'a>(source: &'a str, key: &str) -> Option<&'a str> {
    source.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(key)).map(str::trim)
}

pub(super) fn verdict(name: &str, source: &str) -> EvalResult {
    let task = task();
    let refused = Refused {
        problem_file: &task.file,
        problem_source: task.source.as_bytes(),
        candidate_name: name,
        candidate_source: source.as_bytes(),
        target: &task.target,
        contract: Contract::default(),
        device: kforge_exec::machine::cpu(2),
        findings: Vec::new(),
    };
    if let Some(kind) = word(source, "kind ").and_then(Kind::from_name) {
        return refused.result(Verdict::of(kind, "as the script says"));
    }
    let speedup: f64 = word(source, "speedup ").and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let mut result = refused.result(Verdict::correct());
    result.evidence = Evidence::Measured;
    result.speedup = Some(speedup);
    result.speedup_ci = Some(Interval { low: speedup * 0.95, high: speedup * 1.05 });
    result.baseline = Some(BaselineRef { name: "eager".to_owned(), median_us: 1000.0, call_median_us: None });
    result.candidate = Some(Timing {
        median_us: 1000.0 / speedup,
        p20: 990.0 / speedup,
        p80: 1010.0 / speedup,
        n: 20,
        clock: "inside".to_owned(),
        outside_median_us: 1000.0 / speedup,
        warm_median_us: None,
        unseen_median_us: None,
        call_median_us: None,
        launching_median_us: None,
        graph_median_us: None,
        cold: String::new(),
        prepare_s: 0.0,
        framework_share: None,
    });
    result
}

pub(crate) fn task() -> Task {
    Task {
        name: "sums".to_owned(),
        file: "sums.py".to_owned(),
        hash: "0".repeat(16),
        source: "class Model: pass\n".to_owned(),
        target: kforge_types::Target { vendor: "cpu".to_owned(), model: "cpp".to_owned() },
    }
}

pub(crate) fn rules() -> Rules {
    Rules {
        iterations: 4,
        strategy: Strategy::Refine,
        base: Base::Best,
        ablation: Ablation::default(),
        limits: Limits::default(),
        plateau: 0,
        near_floor: None,
        measured: true,
        hooks_after_evaluation: 0,
        hooks_at_end: 0,
        confirm: true,
    }
}

pub(crate) fn material() -> Material {
    Material {
        words: String::new(),
        contract: Contract::default(),
        device: kforge_exec::machine::cpu(2),
        arch: "native".to_owned(),
        versions: Versions::default(),
        timed: true,
        guard: kforge_guard::Settings::default(),
    }
}

pub(crate) fn prompts() -> Prompts {
    let texts = crate::target::texts(&task().target).unwrap();
    Prompts::new(&texts, Edits::default()).unwrap()
}

/// Nobody watches; after so many events the process is gone.
pub(crate) struct Doomed {
    pub(crate) after: Option<u64>,
}

impl Observer for Doomed {
    fn stage(&self, _text: &str) {}
}

impl Progress for Doomed {
    fn event(&self, line: &Line, _history: &History) {
        if self.after == Some(line.seq) {
            // As near to a kill as a test can come: nothing after this line runs.
            std::panic::resume_unwind(Box::new("killed"));
        }
    }

    fn note(&self, _text: &str) {}
}

/// A candidate as a model would send it.
pub(crate) fn reply(first_line: &str) -> String {
    format!(
        "Idea: {first_line}\n\n```python\n# {first_line}\nimport torch\nfrom torch import nn\n\n\nclass NewModel(nn.Module):\n    def forward(self, x):\n        return x\n```\n"
    )
}

pub(crate) struct Setup<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) model: std::sync::Arc<dyn Model>,
    pub(crate) hooks: &'a [Hook],
    pub(crate) params: Params,
    pub(crate) prompts: &'a Prompts,
}

/// Starts a run in `folder`, or goes on with it.
pub(crate) fn go(folder: &Path, setup: &Setup<'_>, progress: &dyn Progress) -> anyhow::Result<History> {
    let (journal, lines, _note) = if folder.join(crate::run::journal::FILE).exists() {
        Journal::open(folder)?
    } else {
        (Journal::create(folder)?, Vec::new(), None)
    };
    let (task, material) = (task(), material());
    let agent = || Agent { model: setup.model.clone(), params: setup.params.clone() };
    let mut driver = Driver {
        task: &task,
        rules: setup.rules,
        generator: agent(),
        analyst: agent(),
        prompts: setup.prompts,
        material: &material,
        hooks: setup.hooks,
        evaluator: &mut ScriptedEvaluator::default(),
        progress,
        journal,
        history: History::of(&lines),
        artifacts: Artifacts::new(folder, &task.name, setup.model.name()),
        begun: Instant::now(),
        elapsed_before: 0.0,
        least_pause: std::time::Duration::from_millis(1),
    };
    driver.run(Start {
        kforge: "test".to_owned(),
        problem: task.name.clone(),
        problem_hash: task.hash.clone(),
        target: task.target.to_string(),
        generator: setup.model.name().to_owned(),
        analyst: None,
        recorded: false,
    })?;
    Ok(driver.history)
}
