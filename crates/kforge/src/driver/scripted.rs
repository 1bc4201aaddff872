//! A run for tests: the problem is always the same, and a scripted executor judges.

use super::{Agent, Driver, Progress, Task, ask::Params, hooks::Hook, inputs::Material};
use crate::{
    evaluator::{
        Evaluator,
        scripted::{PROBLEM, PROBLEM_FILE, target},
    },
    prompt::{Edits, Prompts},
    run::{
        artifacts::Artifacts,
        event::{Line, Start},
        history::History,
        journal::Journal,
    },
    search::{Ablation, Base, Limits, Rules, Strategy},
};
use kforge_exec::Observer;
use kforge_models::Model;
use kforge_types::{Contract, Versions};
use std::{path::Path, time::Instant};

pub(crate) fn task() -> Task {
    Task {
        name: "sums".to_owned(),
        file: PROBLEM_FILE.to_owned(),
        hash: "0".repeat(16),
        source: PROBLEM.to_owned(),
        target: target(),
    }
}

pub(crate) fn rules() -> Rules {
    Rules {
        start: false,
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
        start: None,
        words: String::new(),
        contract: Contract::default(),
        device: kforge_exec::machine::cpu(2),
        arch: "native".to_owned(),
        versions: Versions::default(),
        timed: true,
        runs: true,
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

/// What the user has already, where a run starts from something.
const GIVEN: &str = "# speedup 1.5\nfrom torch import nn\n\n\nclass NewModel(nn.Module):\n    def forward(self, x):\n        return x\n";

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
    let start = setup.rules.start.then(|| GIVEN.to_owned());
    play(folder, setup, &task(), &Material { start, ..material() }, progress)
}

/// The same, on a task that is not the tests' own.
pub(crate) fn play(
    folder: &Path,
    setup: &Setup<'_>,
    task: &Task,
    material: &Material,
    progress: &dyn Progress,
) -> anyhow::Result<History> {
    let (journal, lines, _note) = if folder.join(crate::run::journal::FILE).exists() {
        Journal::open(folder)?
    } else {
        (Journal::create(folder)?, Vec::new(), None)
    };
    let mut evaluator = Evaluator::scripted(material.guard.clone());
    let agent = || Agent { model: setup.model.clone(), params: setup.params.clone() };
    let mut driver = Driver {
        task,
        rules: setup.rules,
        generator: agent(),
        analyst: agent(),
        prompts: setup.prompts,
        material,
        hooks: setup.hooks,
        evaluator: &mut evaluator,
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
