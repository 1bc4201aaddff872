//! What prompts are made of, taken from the history.

use super::{Driver, Task};
use crate::{
    prompt::{
        AnalystInput, AnalystPass, AnalystRepair, Attempt as Earlier, Beside, Failure, GeneratorInput, GeneratorPass,
        Job, Optimise, Profiled, Prompts, Rendered, Repair, Wanted,
    },
    run::{
        event::{Advice, Pass, Role},
        history::{Answer, Attempt, History},
    },
};
use kforge_models::{Speaker, Turn, estimate_tokens};
use kforge_types::{Contract, DeviceInfo, EvalResult, Profile, Versions};

/// What stays the same over a run and is not the problem itself.
#[derive(Debug, Clone)]
pub(crate) struct Material {
    /// The user's own words about the task.
    pub(crate) words: String,
    /// A kernel that the user has already.
    pub(crate) start: Option<String>,
    pub(crate) contract: Contract,
    pub(crate) device: DeviceInfo,
    /// What kernels are compiled for.
    pub(crate) arch: String,
    pub(crate) versions: Versions,
    /// Whether candidates are timed here.
    pub(crate) timed: bool,
    /// Whether they are run here at all, or compiled and nothing more.
    pub(crate) runs: bool,
    pub(crate) guard: kforge_guard::Settings,
}

/// The prompt that a run begins with, for an estimate.
pub(crate) fn first_prompt(prompts: &Prompts, task: &Task, material: &Material) -> anyhow::Result<Rendered> {
    let job = job(task, material, &History::default());
    let input = GeneratorInput { job, iteration: 1, pass: GeneratorPass::First, history: Vec::new() };
    Ok(prompts.generator(&input)?)
}

/// What a model is told.
pub(crate) struct Conversation {
    pub(crate) system: String,
    pub(crate) turns: Vec<Turn>,
}

impl Conversation {
    pub(crate) fn tokens(&self) -> u64 {
        let turns: u64 = self.turns.iter().map(|turn| estimate_tokens(&turn.text)).sum();
        estimate_tokens(&self.system) + turns
    }

    fn of(rendered: Rendered) -> Self {
        Self { system: rendered.system, turns: vec![user(rendered.user)] }
    }
}

fn user(text: String) -> Turn {
    Turn { speaker: Speaker::User, text }
}

impl Driver<'_> {
    pub(crate) fn render(&self, attempt: &Attempt, role: Role, repair: bool) -> anyhow::Result<Conversation> {
        let job = job(self.task, self.material, &self.history);
        let base = attempt.plan.base.and_then(|id| self.history.attempt(id));
        let history = earlier(&self.history, attempt.id);
        let iteration = attempt.id;
        if role == Role::Generator {
            let advice = attempt.advice.advice().cloned();
            let pass = generator_pass(base, advice);
            return Ok(Conversation::of(self.prompts.generator(&GeneratorInput { job, iteration, pass, history })?));
        }
        let base = base.ok_or_else(|| anyhow::anyhow!("the analyst is asked about nothing"))?;
        let pass = match attempt.plan.pass {
            Pass::Functional => AnalystPass::Correction(failure(base)),
            Pass::Optimisation => AnalystPass::Optimisation(Box::new(Profiled {
                candidate: base.source().unwrap_or_default().to_owned(),
                result: base.result().cloned().ok_or_else(|| anyhow::anyhow!("attempt {} has no result", base.id))?,
                profile: shown(base.profile.clone().unwrap_or_default(), self.rules.ablation.all_metrics),
                images: Vec::new(),
            })),
        };
        let mut asked = Conversation::of(self.prompts.analyst(&AnalystInput { job, iteration, pass, history })?);
        if repair {
            let input = analyst_repair(attempt);
            asked.turns.push(Turn { speaker: Speaker::Assistant, text: input.reply.clone() });
            asked.turns.push(user(self.prompts.analyst_repair(&input)?));
        }
        Ok(asked)
    }
}

/// Findings with the numbers behind them are chosen; whole reports are shown only where everything is asked for.
fn shown(profile: Profile, everything: bool) -> Profile {
    if everything { profile } else { Profile { documents: Vec::new(), ..profile } }
}

fn job(task: &Task, material: &Material, history: &History) -> Job {
    let judged = history.attempts.iter().filter_map(Attempt::result).find(|result| !result.stages_s.is_empty());
    Job {
        problem_file: task.file.clone(),
        problem_source: task.source.clone(),
        target: task.target.clone(),
        task: material.words.clone(),
        contract: judged.map_or_else(|| material.contract.clone(), |result| result.contract.clone()),
        device: judged.map_or_else(|| material.device.clone(), |result| result.device.clone()),
        arch: material.arch.clone(),
        versions: judged.map_or_else(|| material.versions.clone(), |result| result.versions.clone()),
        problem: judged.map(|result| result.problem.clone()),
        timed: material.timed,
        runs: material.runs,
        rules_off: material.guard.off.clone(),
        bans: material.guard.banned.iter().map(ToString::to_string).collect(),
        requires: material.guard.required.iter().map(ToString::to_string).collect(),
    }
}

fn generator_pass(base: Option<&Attempt>, advice: Option<Advice>) -> GeneratorPass {
    let Some(base) = base else { return GeneratorPass::First };
    match (base.is_correct(), base.source(), base.result()) {
        (true, Some(source), Some(result)) => GeneratorPass::Optimise(Box::new(Optimise {
            candidate: source.to_owned(),
            result: result.clone(),
            roofline: base.profile.as_ref().and_then(|profile| profile.roofline.clone()),
            recommendation: match advice {
                Some(Advice::Recommendation(recommendation)) => Some(recommendation),
                _ => None,
            },
        })),
        _ => GeneratorPass::Repair(Repair {
            failure: failure(base),
            correction: match advice {
                Some(Advice::Correction(correction)) => Some(correction),
                _ => None,
            },
        }),
    }
}

fn failure(base: &Attempt) -> Failure {
    match (base.source(), base.result()) {
        (Some(source), Some(result)) => {
            Failure::Judged { candidate: source.to_owned(), result: Box::new(result.clone()) }
        }
        (_, result) => Failure::NoCandidate {
            reply: match base.last_call(Role::Generator).map(|call| &call.answer) {
                Some(Answer::Reply(reply)) => reply.text.clone(),
                _ => String::new(),
            },
            error: result.map(|result| result.reason.clone()).unwrap_or_default(),
        },
    }
}

fn analyst_repair(attempt: &Attempt) -> AnalystRepair {
    let reply = attempt.calls.iter().find_map(|call| match &call.answer {
        Answer::Reply(reply) if call.role == Role::Analyst => Some(reply.text.clone()),
        _ => None,
    });
    let reply = reply.unwrap_or_default();
    AnalystRepair {
        iteration: attempt.id,
        wanted: match attempt.plan.pass {
            Pass::Functional => Wanted::Correction,
            Pass::Optimisation => Wanted::Recommendation,
        },
        error: Advice::parse(attempt.plan.pass, &reply).err().unwrap_or_default(),
        reply,
    }
}

fn earlier(history: &History, before: u32) -> Vec<Earlier> {
    history
        .attempts
        .iter()
        .filter(|attempt| attempt.id < before)
        .map(|attempt| {
            let judged = attempt.judged.as_ref();
            let advice = attempt.advice.advice();
            let result = attempt.result();
            let baseline_us = result.and_then(|result| Some(result.baseline.as_ref()?.median_us));
            Earlier {
                iteration: attempt.id,
                idea: judged.map(|j| j.idea.clone()).unwrap_or_default(),
                advised: advice.map(|a| a.headline().to_owned()).unwrap_or_default(),
                state: judged.filter(|j| j.source.is_some()).and(result).map(|result| result.state),
                speedup: result.and_then(|result| result.speedup),
                interval: result.and_then(|result| result.speedup_ci),
                times_us: time_us(attempt).zip(baseline_us),
                beside: beside(history, attempt),
                held_back_by: result.map(held_back_by).unwrap_or_default(),
                reason: result.map(|result| result.withheld().unwrap_or(&result.reason).to_owned()).unwrap_or_default(),
            }
        })
        .collect()
}

fn time_us(attempt: &Attempt) -> Option<f64> {
    Some(attempt.result()?.candidate.as_ref()?.median_us)
}

/// Beside the best of its time: by their duel, else by what each took in its own evaluation.
fn beside(history: &History, attempt: &Attempt) -> Option<Beside> {
    if !attempt.is_correct() {
        return None;
    }
    if let Some((met, duel)) = attempt.duel.as_ref().and_then(|met| Some((met, met.duel.as_ref()?))) {
        return Some(Beside { iteration: met.against, ratio: duel.ratio, interval: Some(duel.interval) });
    }
    let best = history.best_before(attempt.id)?;
    // Speedups stand for the same work on the same machine; times alone may be of two machines.
    let speedup = |attempt: &Attempt| attempt.result()?.speedup;
    let ratio = speedup(attempt)? / speedup(best).filter(|speedup| *speedup > 0.0)?;
    Some(Beside { iteration: best.id, ratio, interval: None })
}

/// A distribution on which a candidate is this much slower than on the problem's own inputs is worth a word.
const CLEARLY_SLOWER: f64 = 0.95;
/// A share of framework operators that is worth a word.
const MUCH_FRAMEWORK: f64 = 0.1;

/// What the measurement itself says of why a candidate is no faster.
fn held_back_by(result: &EvalResult) -> String {
    let mut told = Vec::new();
    let own = result.by_distribution.first();
    let slowest = result.by_distribution.iter().min_by(|a, b| a.speedup.total_cmp(&b.speedup));
    if let (Some(own), Some(slowest)) = (own, slowest)
        && slowest.speedup < own.speedup * CLEARLY_SLOWER
    {
        told.push(format!(
            "{:.2}x on inputs drawn as `{}`, {:.2}x on the problem's",
            slowest.speedup, slowest.name, own.speedup
        ));
    }
    if let Some(share) =
        result.candidate.as_ref().and_then(|own| own.framework_share).filter(|share| *share > MUCH_FRAMEWORK)
    {
        told.push(format!("framework operators take {:.0} % of its time", 100.0 * share));
    }
    let failed = result.checks.iter().filter(|check| !check.passed);
    told.extend(failed.map(|check| format!("{}: {}", check.name, check.detail)));
    told.join("; ")
}

#[cfg(test)]
mod tests {
    use super::{super::scripted, *};

    #[test]
    fn the_users_patterns_go_into_the_job() {
        let mut material = scripted::material();
        material.guard.off = vec!["fast_math".to_owned()];
        material.guard.banned = vec!["torch.matmul()".parse().unwrap()];
        material.guard.required = vec!["cpp:omp".parse().unwrap()];
        let job = job(&scripted::task(), &material, &History::default());
        assert_eq!((job.bans.concat(), job.requires.concat()), ("torch.matmul()".into(), "cpp:omp".into()));
        assert_eq!(job.rules_off, ["fast_math"]);
    }
}
