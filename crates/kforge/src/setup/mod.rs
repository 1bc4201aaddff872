//! From settings to a run: what `optimize` and `resume` have in common, and what anything else that starts runs needs.

mod agents;
mod estimate;
mod rules;

use crate::{
    config::{self, Asking, Executor, Resolved},
    driver::{
        Agent, Driver, Progress, Task,
        ask::Params,
        hooks::{Hook, When},
        inputs::Material,
    },
    evaluator::{Evaluator, Purpose, Request},
    models::{Models, Opened},
    prompt::{EditPlan, EditSpecs, Prompts},
    run::{
        artifacts::Artifacts,
        event::{Line, Start},
        file::RunFile,
        history::History,
        journal::Journal,
    },
    search::Rules,
    target,
    usage::Usage,
};
use agents::{check_prices, open_models};
use kforge_exec::{machine, python};
use rules::{hooks, rules};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Everything a run needs but its journal.
pub(crate) struct Setup {
    pub(crate) task: Task,
    pub(crate) settings: Resolved,
    /// What the user is to know before the run begins.
    pub(crate) notes: Vec<String>,
    models: Models,
    prompts: Prompts,
    material: Material,
    rules: Rules,
    hooks: Vec<Hook>,
    evaluator: Evaluator,
}

impl Setup {
    /// Reads everything that the run needs, so that a mistake shows before a model is asked.
    pub(crate) fn new(
        file: &RunFile,
        settings: Resolved,
        source: String,
        progress: &dyn python::Progress,
    ) -> anyhow::Result<Self> {
        let usage = |error: &dyn std::fmt::Display| Usage(error.to_string());
        let Some(target) = settings.evaluation.target.clone() else {
            return Err(Usage("the run names no target: name one with --target".to_owned()).into());
        };
        target::find(&target).map_err(|error| usage(&error))?;
        let task = Task {
            name: problem_name(&file.problem),
            file: file.problem.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            hash: file.problem_hash.clone(),
            source,
            target,
        };
        let models = open_models(file, &settings, &task)?;
        let search = &settings.search;
        if search.strategy == config::Strategy::SampleRefine && search.samples > search.iterations {
            let text = "--samples is larger than --iterations: nothing would be left to refine".to_owned();
            return Err(Usage(text).into());
        }
        if search.budget_usd.is_some() {
            check_prices(&models, search.self_refine)?;
        }
        let specs = EditSpecs {
            overrides: file.extras.prompt_override.clone(),
            appends: file.extras.prompt_append.clone(),
            aux: file.extras.aux.clone(),
            reference_impl: file.extras.reference_impl.clone(),
            reference_target: file.extras.reference_target.clone(),
        };
        let plan = EditPlan::parse(&specs).map_err(|error| usage(&error))?;
        let edits = plan.placed(&|path| file.at(path)).load().map_err(|error| usage(&error))?;
        let prompts = Prompts::new(&target::texts(&task.target)?, edits).map_err(|error| usage(&error))?;
        let mut evaluator = Evaluator::open(&request(file, &settings, &task))?;
        evaluator.prepare(progress)?;
        let outlook = evaluator.outlook();
        let mut notes = models.assumed();
        if !outlook.runs {
            notes.push(format!(
                "no GPU is visible here: kernels for {} are compiled and never run, so no correct one can be \
                 found; --executor names a machine that has a GPU",
                task.target
            ));
        }
        let material = Material {
            words: file.extras.task.clone().unwrap_or_default(),
            start: file.extras.start.as_deref().map(|path| read_start(&file.at(path))).transpose()?,
            contract: evaluator.contract().clone(),
            device: outlook.device.clone(),
            arch: outlook.arch.clone(),
            versions: kforge_types::Versions {
                kforge: env!("CARGO_PKG_VERSION").to_owned(),
                os: machine::os(),
                ..kforge_types::Versions::default()
            },
            timed: outlook.timed,
            runs: outlook.runs,
            guard: evaluator.rules().clone(),
        };
        let hooks = hooks(&settings.search, &file.folder);
        // A configuration file may be somebody else's: what it runs is said.
        notes.extend(hooks.iter().map(|hook| {
            let when = if hook.on == When::End { "at the end" } else { "after each correct candidate" };
            format!("will run {when}: {}", hook.command.join(" "))
        }));
        let mut rules = rules(&settings.search, &hooks, material.timed, !file.extras.no_confirm);
        rules.start = material.start.is_some();
        // More attempts than were recorded cannot be made.
        rules.iterations = rules.iterations.min(models.generator.attempts.unwrap_or(u32::MAX));
        Ok(Self { task, settings, notes, models, prompts, material, rules, hooks, evaluator })
    }

    /// How many candidates there may be at most.
    pub(crate) fn iterations(&self) -> u32 {
        self.rules.iterations
    }

    /// How much time a run with this history has left, where it has a limit.
    pub(crate) fn time_left(&self, history: &History) -> Option<Duration> {
        let limit = self.rules.limits.seconds?;
        Some(Duration::from_secs_f64((limit - history.active_s).max(0.0)))
    }

    /// Goes on from what the journal says until there is nothing left to do.
    pub(crate) fn drive(
        &mut self,
        run: &Path,
        journal: Journal,
        lines: &[Line],
        progress: &dyn Progress,
    ) -> anyhow::Result<History> {
        let history = History::of(lines);
        let search = &self.settings.search;
        let agent = |opened: &Opened, asking: Asking| Agent {
            model: opened.model.clone(),
            params: Params {
                max_output_tokens: asking.max_output_tokens.map(|tokens| u64::from(tokens.get())),
                temperature: asking.temperature.map(|temperature| temperature.0),
                effort: asking.effort.map(Into::into),
                prices: opened.prices,
            },
        };
        let generator_name = self.models.generator.model.name().to_owned();
        // All attempts of a run lie together, also where another model goes on.
        let began_with = history.start.as_ref().map_or(&generator_name, |start| &start.generator);
        let artifacts = Artifacts::new(run, &self.task.name, began_with);
        // What a killed process had recorded, but not yet written for people.
        let last = history.attempts.last().map(|attempt| attempt.id);
        for line in lines.iter().filter(|line| line.event.attempt().is_some_and(|id| Some(id) == last)) {
            artifacts.write(line, &history)?;
        }
        let mut driver = Driver {
            task: &self.task,
            rules: &self.rules,
            generator: agent(&self.models.generator, search.asking_generator()),
            analyst: agent(&self.models.analyst, search.asking_analyst()),
            prompts: &self.prompts,
            material: &self.material,
            hooks: &self.hooks,
            evaluator: &mut self.evaluator,
            progress,
            journal,
            history,
            artifacts,
            begun: Instant::now(),
            elapsed_before: 0.0,
            least_pause: Duration::from_secs(15),
        };
        driver.run(Start {
            kforge: env!("CARGO_PKG_VERSION").to_owned(),
            problem: self.task.name.clone(),
            problem_hash: self.task.hash.clone(),
            target: self.task.target.to_string(),
            generator: generator_name,
            analyst: (!self.rules.ablation.self_refine).then(|| self.models.analyst.model.name().to_owned()),
            recorded: self.models.generator.recorded,
        })?;
        Ok(driver.history)
    }
}

fn read_start(path: &Path) -> Result<String, Usage> {
    std::fs::read_to_string(path)
        .map_err(|error| Usage(format!("cannot read the kernel to start from, {}: {error}", path.display())))
}

/// `softmax` for `examples/softmax/problem.py`, else the file's own name.
fn problem_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
    match folder {
        Some(folder) if stem == "problem" => folder.into_owned(),
        _ => stem.into_owned(),
    }
}

/// What the evaluator is asked for, with paths as they are seen from here.
fn request(file: &RunFile, settings: &Resolved, task: &Task) -> Request {
    let (mut rules, mut evaluation) = (settings.rules.clone(), settings.evaluation.clone());
    rules.guard_file = rules.guard_file.map(|path| file.at(&path));
    if let Executor::Exchange(folder) = &mut evaluation.executor {
        *folder = file.at(folder);
    }
    // Behind ssh it is a program of that machine.
    let here = evaluation.executor == Executor::InPlace;
    let python = file.extras.python.as_deref();
    let python = python.map(|python| if here { file.program_at(python) } else { python.to_owned() });
    let all = |paths: &[PathBuf]| paths.iter().map(|path| file.at(path)).collect();
    Request {
        problem: file.problem.clone(),
        target: task.target.clone(),
        rules,
        evaluation,
        purpose: Purpose::Judge,
        baselines: all(&file.extras.baseline),
        python,
        carry: all(&file.extras.carry),
        // A run that goes on asks under the same tag, and finds what was answered meanwhile.
        tag: file.started.clone(),
    }
}
