//! Does what the search says and writes down what came of it.
//!
//! The loop is: ask [`next`] for the one next action, perform it, append the event. Nothing is remembered here that
//! the journal does not say, so a process that goes on with a run is in the same place as the one that was killed.

pub(crate) mod ask;
#[cfg(test)]
mod bench;
pub(crate) mod candidate;
pub(crate) mod hooks;
pub(crate) mod inputs;
#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
mod tests;

use crate::{
    evaluator::{Candidate, Evaluator},
    prompt::Prompts,
    run::{
        artifacts::Artifacts,
        event::{Advice, Event, Line, Role, Start},
        history::{Answer, History, START},
        journal::Journal,
    },
    search::{
        Rules,
        next::{Action, next},
    },
};
use anyhow::Context;
use hooks::Hook;
use kforge_exec::ProfileOptions;
use kforge_models::Model;
use kforge_types::{Profile, ProfileSource};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Told of every event and of what is going on, for people who wait.
pub(crate) trait Progress: kforge_exec::Observer + Sync {
    fn event(&self, line: &Line, history: &History);
    fn note(&self, text: &str);
}

/// One of the two agents.
pub(crate) struct Agent {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) params: ask::Params,
}

/// What a run works on.
pub(crate) struct Task {
    pub(crate) name: String,
    /// As the user gave it.
    pub(crate) file: String,
    pub(crate) hash: String,
    pub(crate) source: String,
    pub(crate) target: kforge_types::Target,
}

/// One run in one process.
pub(crate) struct Driver<'a> {
    pub(crate) task: &'a Task,
    pub(crate) rules: &'a Rules,
    pub(crate) generator: Agent,
    pub(crate) analyst: Agent,
    pub(crate) prompts: &'a Prompts,
    pub(crate) material: &'a inputs::Material,
    pub(crate) hooks: &'a [Hook],
    pub(crate) evaluator: &'a mut Evaluator,
    pub(crate) progress: &'a dyn Progress,
    pub(crate) journal: Journal,
    pub(crate) history: History,
    pub(crate) artifacts: Artifacts,
    pub(crate) begun: Instant,
    /// Seconds that earlier processes worked on this run.
    pub(crate) elapsed_before: f64,
    /// How long a limit pauses the run at the least.
    pub(crate) least_pause: Duration,
}

const FULL_DISK_TRIES: u32 = 60;
const FULL_DISK_PAUSE: Duration = Duration::from_secs(5);

fn is_full(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::StorageFull)
}

impl Driver<'_> {
    /// Until there is nothing left to do.
    pub(crate) fn run(&mut self, start: Start) -> anyhow::Result<()> {
        if self.history.start.is_none() {
            self.record(Event::Started(Box::new(start)))?;
        } else {
            let lost = self.history.in_flight.map(|(_, role, ordinal)| format!("{} {ordinal}", role.name()));
            self.record(Event::Resumed { lost })?;
        }
        self.elapsed_before = self.history.active_s;
        loop {
            let elapsed = self.elapsed_before + self.begun.elapsed().as_secs_f64();
            match next(&self.history, self.rules, elapsed) {
                Action::Nothing => return Ok(()),
                action => self.perform(action)?,
            }
        }
    }

    fn perform(&mut self, action: Action) -> anyhow::Result<()> {
        match action {
            Action::Begin { attempt, plan } => self.record(Event::Planned { attempt, plan }),
            Action::Profile { attempt } => self.profile(attempt),
            Action::Ask { attempt, role, ordinal, repair } => self.ask(attempt, role, ordinal, repair),
            Action::Advise { attempt } => self.advise(attempt),
            Action::Judge { attempt } => self.judge(attempt),
            Action::Duel { attempt, against } => self.duel(attempt, against),
            Action::Hook { attempt, hook } => self.hook(attempt, hook),
            Action::Confirm { attempt } => self.confirm(attempt),
            Action::Stop { reason, text } => self.record(Event::Stopped { reason, text }),
            Action::Finish { best } => {
                self.artifacts.finish(&self.history, best)?;
                self.record(Event::Finished { best })
            }
            Action::Nothing => Ok(()),
        }
    }

    /// On disk first, then known.
    fn record(&mut self, event: Event) -> anyhow::Result<()> {
        let line = self.append(event)?;
        self.history.apply(&line);
        self.artifacts.write(&line, &self.history)?;
        self.progress.event(&line, &self.history);
        Ok(())
    }

    /// A full disk may become less full, and what is to be written may be paid for.
    fn append(&mut self, event: Event) -> anyhow::Result<Line> {
        for _ in 0..FULL_DISK_TRIES {
            match self.journal.append(event.clone()) {
                Err(error) if is_full(&error) => {
                    self.progress.note(&format!("{error:#}; trying again for a while"));
                    std::thread::sleep(FULL_DISK_PAUSE);
                }
                done => return done,
            }
        }
        self.journal.append(event)
    }

    /// The candidate of an attempt that was judged before.
    fn candidate(&self, attempt: u32) -> Candidate {
        let source = self.history.attempt(attempt).and_then(|found| found.source()).unwrap_or_default();
        Candidate::admitted(format!("attempt {attempt}"), source)
    }

    fn profile(&mut self, attempt: u32) -> anyhow::Result<()> {
        let found = self.history.attempt(attempt);
        let candidate = self.candidate(attempt);
        let time_us = found.and_then(|a| a.result()?.candidate.as_ref().map(|timing| timing.median_us));
        let options = ProfileOptions { time_us, all_metrics: self.rules.ablation.all_metrics };
        let begun = Instant::now();
        let profile = self.evaluator.profile(&candidate, options, self.progress).unwrap_or_else(|error| {
            self.progress.note(&format!("no profile: {error:#}"));
            let source =
                ProfileSource { name: "profile".to_owned(), had: false, detail: format!("{error:#}"), seconds: 0.0 };
            Profile { sources: vec![source], ..Profile::default() }
        });
        self.record(Event::Profiled { attempt, profile, seconds: begun.elapsed().as_secs_f64() })
    }

    fn advise(&mut self, attempt: u32) -> anyhow::Result<()> {
        let found = self.history.attempt(attempt);
        let answer = found.and_then(|a| Some((a.plan.pass, &a.last_call(Role::Analyst)?.answer)));
        let (advice, note) = match answer {
            Some((pass, Answer::Reply(reply))) => match Advice::parse(pass, &reply.text) {
                Ok(advice) => (Some(advice), String::new()),
                Err(why) => (None, format!("the analyst's answer cannot be read: {why}")),
            },
            Some((_, Answer::Failed(failure))) => (None, format!("the analyst gave no answer: {}", failure.text)),
            Some((_, Answer::Waiting)) | None => (None, "the analyst was not asked".to_owned()),
        };
        self.record(Event::Advised { attempt, advice, note })
    }

    fn judge(&mut self, attempt: u32) -> anyhow::Result<()> {
        let begun = Instant::now();
        let answer = self.history.attempt(attempt).and_then(|a| a.last_call(Role::Generator));
        let mut judged = match answer.map(|call| &call.answer) {
            _ if attempt == START => {
                let source = self.material.start.as_deref().context("the kernel to start from is gone")?;
                candidate::judge_given(source, self.evaluator, self.progress)?
            }
            Some(Answer::Reply(reply)) => candidate::judge(reply, attempt, self.evaluator, self.progress)?,
            Some(Answer::Failed(failure)) => candidate::no_reply(failure, attempt, self.evaluator),
            Some(Answer::Waiting) | None => anyhow::bail!("attempt {attempt} has no reply to judge"),
        };
        judged.seconds = begun.elapsed().as_secs_f64();
        self.record(Event::Judged { attempt, judged: Box::new(judged) })
    }

    /// One that cannot be held decides nothing: then the earlier one stays.
    fn duel(&mut self, attempt: u32, against: u32) -> anyhow::Result<()> {
        self.progress.stage(&format!("comparing attempt {attempt} with attempt {against}, call by call"));
        let begun = Instant::now();
        let [first, second] = [attempt, against].map(|id| self.candidate(id));
        let (outcome, note) = match self.evaluator.duel([&first, &second], self.progress) {
            Ok(outcome) => (Some(outcome), String::new()),
            Err(error) => (None, format!("{error:#}")),
        };
        let seconds = begun.elapsed().as_secs_f64();
        self.record(Event::Duelled { attempt, against, outcome, note, seconds })
    }

    fn hook(&mut self, attempt: Option<u32>, number: usize) -> anyhow::Result<()> {
        let wanted = if attempt.is_some() { hooks::When::Evaluation } else { hooks::When::End };
        let Some(hook) = self.hooks.iter().filter(|hook| hook.on == wanted).nth(number) else {
            anyhow::bail!("there is no hook {number}");
        };
        self.progress.stage(&format!("running hook {}", hook.command.join(" ")));
        let input = hooks::input(&self.history, attempt, &self.artifacts);
        let report = hooks::run(hook, &input);
        if !report.ok {
            self.progress.note(&format!("hook {} failed: {}", report.command, report.text));
        }
        self.record(Event::Hooked { attempt, hook: number, report })
    }

    /// A winner must win again, with inputs drawn anew, in processes that know nothing of the first time.
    fn confirm(&mut self, attempt: u32) -> anyhow::Result<()> {
        self.progress.stage("judging the winner again in a fresh process");
        let candidate = self.candidate(attempt);
        match self.evaluator.confirm(&candidate, self.progress) {
            Ok(result) => self.record(Event::Confirmed { attempt, result: Box::new(result) }),
            Err(error) => self.record(Event::Unconfirmed { attempt, why: format!("{error:#}") }),
        }
    }
}
