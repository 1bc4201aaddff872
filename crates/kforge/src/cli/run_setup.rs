//! From settings to a driver: what `optimize` and `resume` have in common.

use super::{Usage, eval, executor::Asked, printer::Printer, progress::RunProgress};
use crate::{
    config::{self, Resolved},
    driver::{
        Agent, Driver, Task,
        ask::Params,
        evaluator::{Evaluator, LiveEvaluator},
        hooks::{Hook, When},
        inputs::Material,
    },
    job::{JobOptions, place},
    models::{self, Models, Opened},
    prompt::{EditPlan, EditSpecs, Prompts},
    run::{
        artifacts::Artifacts,
        event::{Line, Start},
        file::RunFile,
        history::History,
        journal::Journal,
    },
    search::{Ablation, Base, Limits, Rules, Strategy},
    target, view,
};
use kforge_exec::{Place, machine, nvidia};
use kforge_models::estimate_tokens;
use kforge_types::Target;
use std::{
    cell::RefCell,
    path::Path,
    time::{Duration, Instant},
};

/// No correct kernel was found.
const NONE_FOUND: u8 = 20;
/// For the estimate: how long replies usually are.
const USUAL_REPLY: u64 = 6000;
const USUAL_ADVICE: u64 = 1500;

/// Everything a run needs but its journal.
pub(crate) struct Setup {
    pub(crate) task: Task,
    pub(crate) settings: Resolved,
    models: Models,
    prompts: Prompts,
    material: Material,
    rules: Rules,
    hooks: Vec<Hook>,
    evaluator: RefCell<Box<dyn Evaluator>>,
}

impl Setup {
    pub(crate) fn new(file: &RunFile, settings: Resolved, source: String, printer: &Printer) -> anyhow::Result<Self> {
        let usage = |error: &dyn std::fmt::Display| Usage(error.to_string());
        let Some(target) = settings.target.clone() else {
            return Err(Usage("the run names no target: name one with --target".to_owned()).into());
        };
        let pack = target::find(&target).map_err(|error| usage(&error))?;
        let task = Task {
            name: problem_name(&file.problem),
            file: file.problem.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            hash: file.problem_hash.clone(),
            source,
            target,
        };
        let models = open_models(file, &settings, &task)?;
        if settings.strategy == config::Strategy::SampleRefine && settings.samples > settings.iterations {
            let text = "--samples is larger than --iterations: nothing would be left to refine".to_owned();
            return Err(Usage(text).into());
        }
        if settings.budget_usd.is_some() {
            check_prices(&models)?;
        }
        let specs = EditSpecs {
            overrides: file.extras.prompt_override.clone(),
            appends: file.extras.prompt_append.clone(),
            aux: file.extras.aux.clone(),
            reference_impl: file.extras.reference_impl.clone(),
            reference_target: file.extras.reference_target.clone(),
        };
        let edits = EditPlan::parse(&specs).and_then(|plan| plan.load()).map_err(|error| usage(&error))?;
        let prompts = Prompts::new(&target::texts(&task.target)?, edits).map_err(|error| usage(&error))?;
        let options = eval_options(&settings, &task.target);
        let evaluator = RefCell::new(evaluator(&settings, &options, file, printer)?);
        let Machine { device, arch, timed } = machine(&settings, &pack)?;
        let material = Material {
            words: file.extras.task.clone().unwrap_or_default(),
            contract: options.contract.clone(),
            device,
            arch,
            versions: kforge_types::Versions {
                kforge: env!("CARGO_PKG_VERSION").to_owned(),
                os: machine::os(),
                ..kforge_types::Versions::default()
            },
            timed,
            guard: kforge_guard::Settings {
                off: settings.off.iter().map(ToString::to_string).collect(),
                imports: Some(pack.imports.iter().chain(&settings.imports).cloned().collect()),
                banned: settings.ban.clone(),
                required: settings.require.clone(),
            },
        };
        let hooks = hooks(&settings);
        for hook in &hooks {
            // A configuration file may be somebody else's: what it runs is said.
            let when = if hook.on == When::End { "at the end" } else { "after each correct candidate" };
            printer.note(&format!("kforge: will run {when}: {}", hook.command.join(" ")));
        }
        let mut rules = rules(&settings, &hooks, timed, !file.extras.no_confirm);
        // More attempts than were recorded cannot be made.
        rules.iterations = rules.iterations.min(models.generator.attempts.unwrap_or(u32::MAX));
        Ok(Self { task, settings, models, prompts, material, rules, hooks, evaluator })
    }

    /// What the run may ask and cost, in words.
    pub(crate) fn estimate(&self) -> anyhow::Result<String> {
        let input = crate::driver::inputs::first_prompt(&self.prompts, &self.task, &self.material)?;
        let input = estimate_tokens(&input.system) + estimate_tokens(&input.user) + USUAL_REPLY;
        let rounds = u64::from(self.rules.iterations);
        let advised = !self.rules.ablation.self_refine;
        let generator = (rounds * input, rounds * USUAL_REPLY);
        let analyst = if advised { ((rounds - 1) * input, (rounds - 1) * USUAL_ADVICE) } else { (0, 0) };
        let tokens = generator.0 + generator.1 + analyst.0 + analyst.1;
        let cost = |opened: &Opened, (input, output): (u64, u64)| {
            let prices = opened.prices.as_ref()?;
            Some((input as f64 * prices.input + output as f64 * prices.output) / 1e6)
        };
        let dollars = match (cost(&self.models.generator, generator), cost(&self.models.analyst, analyst)) {
            _ if self.models.generator.recorded => "nothing, the replies are recorded".to_owned(),
            (Some(a), Some(b)) => format!("about ${:.2}", a + b),
            _ => "an unknown sum, the registry has no price for this model".to_owned(),
        };
        let at_most = if self.rules.iterations == 1 { "1 attempt" } else { &format!("up to {rounds} attempts") };
        Ok(format!("{at_most} of about {} tokens in all, costing {dollars}", round(tokens)))
    }

    pub(crate) fn drive(
        &self,
        run: &Path,
        journal: Journal,
        lines: &[Line],
        json: bool,
        printer: &Printer,
    ) -> anyhow::Result<u8> {
        let history = History::of(lines);
        let left = self.rules.limits.seconds.map(|limit| Duration::from_secs_f64((limit - history.active_s).max(0.0)));
        let progress = RunProgress::new(printer, json, self.rules.iterations, left);
        let mut evaluator = self.evaluator.borrow_mut();
        let agent = |opened: &Opened| Agent {
            model: opened.model.clone(),
            params: Params {
                max_output_tokens: self.settings.max_output_tokens.map(|tokens| u64::from(tokens.get())),
                temperature: self.settings.temperature.map(|temperature| temperature.0),
                effort: self.settings.effort.map(Into::into),
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
            generator: agent(&self.models.generator),
            analyst: agent(&self.models.analyst),
            prompts: &self.prompts,
            material: &self.material,
            hooks: &self.hooks,
            evaluator: &mut **evaluator,
            progress: &progress,
            journal,
            history,
            artifacts,
            begun: Instant::now(),
            elapsed_before: 0.0,
            least_pause: Duration::from_secs(15),
        };
        let done = driver.run(Start {
            kforge: env!("CARGO_PKG_VERSION").to_owned(),
            problem: self.task.name.clone(),
            problem_hash: self.task.hash.clone(),
            target: self.task.target.to_string(),
            generator: generator_name,
            analyst: (!self.rules.ablation.self_refine).then(|| self.models.analyst.model.name().to_owned()),
            recorded: self.models.generator.recorded,
        });
        printer.idle();
        if let Err(error) = done {
            printer.note(&format!("kforge: what was done is kept; go on with `kforge resume {}`", run.display()));
            return Err(error);
        }
        if !json {
            printer.answer(&view::story(&driver.history, run, Printer::width()));
        }
        Ok(if driver.history.best().is_some() { 0 } else { NONE_FOUND })
    }
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

fn open_models(file: &RunFile, settings: &Resolved, task: &Task) -> anyhow::Result<Models> {
    let Some(generator) = settings.generator() else {
        if settings.analyst().is_some() {
            let text = "--analyst-model alone is not enough: give --model, or --generator-model too";
            return Err(Usage(text.to_owned()).into());
        }
        let recorded = models::without_configuration(&task.name, &task.hash, &task.target.to_string())?;
        return Ok(Models { generator: recorded.clone(), analyst: recorded });
    };
    let user = config::user_dir(|name| std::env::var_os(name));
    let registry = models::registry(file.extras.models_file.as_deref(), user.as_deref())?;
    let record = file.extras.record.as_deref();
    let analyst = settings.analyst().unwrap_or(generator);
    Ok(Models {
        generator: models::open(generator, &registry, record)?,
        analyst: models::open(analyst, &registry, record)?,
    })
}

/// A cap in dollars that cannot be checked is none.
fn check_prices(models: &Models) -> Result<(), Usage> {
    for opened in [&models.generator, &models.analyst] {
        if opened.prices.is_none() && !opened.recorded {
            let text = format!(
                "--budget-usd cannot hold: the price of {} is not known; add `price` to its entry in models.toml, or use --budget-tokens",
                opened.model.name()
            );
            return Err(Usage(text));
        }
    }
    Ok(())
}

/// What is known of the machine that evaluates before it has answered.
struct Machine {
    device: kforge_types::DeviceInfo,
    arch: String,
    timed: bool,
}

/// Of another machine nothing is known, except that it is there to time kernels.
fn machine(settings: &Resolved, pack: &target::TargetPack) -> anyhow::Result<Machine> {
    let threads = settings.threads.map_or_else(machine::default_threads, std::num::NonZero::get);
    if settings.executor != config::Executor::InPlace {
        let name = "not known before the first evaluation".to_owned();
        let device = kforge_types::DeviceInfo { name, threads, ..kforge_types::DeviceInfo::default() };
        return Ok(Machine { device, arch: pack.default_arch.clone(), timed: true });
    }
    let (place, arch) = place(pack, settings.device)?;
    let mut device = machine::cpu(threads);
    if let Place::Gpu { name } = &place {
        let found = nvidia::gpus().unwrap_or_default().into_iter().find(|gpu| gpu.uuid == *name);
        device.name = found.map_or_else(|| "a GPU".to_owned(), |gpu| gpu.name);
    }
    Ok(Machine { device, arch, timed: place.is_timed() })
}

fn evaluator(
    settings: &Resolved,
    options: &JobOptions,
    file: &RunFile,
    printer: &Printer,
) -> anyhow::Result<Box<dyn Evaluator>> {
    let asked = Asked {
        executor: &settings.executor,
        timeout: settings.executor_timeout.map(|span| span.0),
        problem: &file.problem,
        problem_file: file.problem.display().to_string(),
        carry: &file.extras.carry,
        // A run that goes on asks under the same tag, and finds what was answered meanwhile.
        tag: file.started.clone(),
        options: options.clone(),
        python: file.extras.python.as_deref(),
    };
    if let Some(remote) = asked.remote()? {
        return Ok(Box::new(remote));
    }
    let options = options.here(&eval::here(file.extras.python.clone(), settings.device, printer)?)?;
    Ok(Box::new(LiveEvaluator::new(options, file.problem.clone())))
}

fn eval_options(settings: &Resolved, target: &Target) -> JobOptions {
    let timeout_s = settings.timeout.0.as_secs_f64();
    JobOptions {
        target: target.clone(),
        arch: None,
        contract: eval::precision_contract(settings.precision),
        baselines: settings.baselines,
        threads: settings.threads.map(std::num::NonZero::get),
        timeout_s,
        problem_timeout_s: timeout_s.max(120.0),
        time_budget_s: settings.time_budget.0.as_secs_f64(),
        fresh: false,
        kept_baselines: true,
        no_timing: false,
        require_idle: false,
        require_sandbox: kforge_types::SandboxLevel::None,
        namespaces: true,
        memory_gib: settings.memory.0,
    }
}

fn hooks(settings: &Resolved) -> Vec<Hook> {
    settings
        .hook
        .iter()
        .map(|hook| Hook {
            on: match hook.on {
                config::HookEvent::Evaluation => When::Evaluation,
                config::HookEvent::End => When::End,
            },
            command: hook.command.0.clone(),
            timeout: hook.timeout.0,
        })
        .collect()
}

fn rules(settings: &Resolved, hooks: &[Hook], measured: bool, confirm: bool) -> Rules {
    let count = |when| hooks.iter().filter(|hook| hook.on == when).count();
    let samples = settings.samples.get();
    Rules {
        // Samples know nothing of each other: as many as were asked for.
        iterations: match settings.strategy {
            config::Strategy::Sample => samples,
            _ => settings.iterations.get(),
        },
        strategy: match settings.strategy {
            config::Strategy::Refine => Strategy::Refine,
            config::Strategy::Single => Strategy::Single,
            config::Strategy::Sample => Strategy::Sample { samples },
            config::Strategy::SampleRefine => Strategy::SampleRefine { samples },
            config::Strategy::Beam => Strategy::Beam { width: settings.beam_width.get() },
        },
        base: match settings.base {
            config::Base::Best => Base::Best,
            config::Base::Latest => Base::Latest,
        },
        ablation: Ablation {
            self_refine: settings.self_refine,
            correction_only: settings.correction_only,
            optimisation_only: settings.optimisation_only,
            no_profile: settings.no_profile,
            all_metrics: settings.all_metrics,
        },
        limits: Limits {
            usd: settings.budget_usd.map(|usd| usd.0),
            tokens: settings.budget_tokens.map(std::num::NonZero::get),
            seconds: settings.budget_time.map(|span| span.0.as_secs_f64()),
        },
        plateau: settings.plateau.map_or(0, std::num::NonZero::get),
        near_floor: settings.near_floor.map(|share| share.0),
        measured,
        hooks_after_evaluation: count(When::Evaluation),
        hooks_at_end: count(When::End),
        confirm,
    }
}

fn round(tokens: u64) -> String {
    if tokens >= 10_000 { format!("{} thousand", tokens.div_ceil(1000)) } else { tokens.to_string() }
}
