//! What has happened so far: a fold of the events, and nothing else.

use super::event::{
    Advice, CallFailure, Estimate, Event, HookReport, Judged, Line, Plan, Role, Spend, Start, StopReason,
};
use kforge_models::{Reply, Usage};
use kforge_types::{Duel, DuelOutcome, EvalResult, Interval, Profile, State, Winner};

/// The attempt that is no attempt: the kernel that the user has already.
pub(crate) const START: u32 = 0;

/// The state of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) start: Option<Start>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) stopped: Option<(StopReason, String)>,
    pub(crate) confirmed: Option<(u32, EvalResult)>,
    pub(crate) end_hooks: Vec<HookReport>,
    pub(crate) finished: bool,
    /// The winner could not be judged again.
    pub(crate) unconfirmed: bool,
    /// A process went on after the run had been stopped: what stopped it may not hold any more.
    pub(crate) reconsider: bool,
    /// Failures of attempts that were judged, up to this one, are no reasons to stop: somebody went on knowing them.
    pub(crate) forgiven: u32,
    /// A request that was sent and has not come back.
    pub(crate) in_flight: Option<(u32, Role, u32)>,
    /// Requests that were in flight when a process ended: they may be billed twice.
    pub(crate) lost_calls: u32,
    pub(crate) spend: Spend,
    /// Seconds in which some process worked on this run.
    pub(crate) active_s: f64,
    /// What the request in flight is thought to cost by itself.
    asked: Estimate,
    last_at: Option<jiff::Timestamp>,
    events: u64,
}

/// Where a run stands, whoever works on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Standing {
    /// No end is written down: a process works on it, or was ended.
    UnderWay,
    /// It waits for a model that could not be asked.
    NoModel,
    /// Nothing more is to be done, unless a limit is raised.
    Over,
}

/// One turn of the loop.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    /// Counts from 1; [`START`] is what the run starts from.
    pub(crate) id: u32,
    pub(crate) plan: Plan,
    pub(crate) calls: Vec<Call>,
    pub(crate) advice: Advised,
    pub(crate) judged: Option<Judged>,
    pub(crate) profile: Option<Profile>,
    pub(crate) hooks: Vec<HookReport>,
    /// Against the best of its time, where speedups could not tell them apart.
    pub(crate) duel: Option<Met>,
    pub(crate) spend: Spend,
    /// What a second judgement said, where it was not correct: such a one cannot win.
    pub(crate) disproved: Option<EvalResult>,
}

/// A duel with an earlier attempt.
#[derive(Debug, Clone)]
pub(crate) struct Met {
    pub(crate) against: u32,
    /// Nothing where it could not be held.
    pub(crate) duel: Option<Duel>,
    pub(crate) seconds: f64,
}

impl Met {
    /// Who does not win is not better, whatever its speedup says.
    pub(crate) fn won(&self) -> bool {
        self.duel.as_ref().is_some_and(|duel| duel.winner() == Winner::First)
    }
}

/// What came of asking the analyst.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Advised {
    NotYet,
    /// It was asked and gave nothing usable.
    Nothing,
    With(Advice),
}

impl Advised {
    pub(crate) fn advice(&self) -> Option<&Advice> {
        match self {
            Self::With(advice) => Some(advice),
            Self::NotYet | Self::Nothing => None,
        }
    }
}

/// One request of an attempt and what came of it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) role: Role,
    pub(crate) ordinal: u32,
    pub(crate) answer: Answer,
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Waiting,
    Reply(Reply),
    Failed(CallFailure),
}

impl Attempt {
    fn new(id: u32, plan: Plan) -> Self {
        Self {
            id,
            plan,
            calls: Vec::new(),
            advice: Advised::NotYet,
            judged: None,
            profile: None,
            hooks: Vec::new(),
            duel: None,
            spend: Spend::default(),
            disproved: None,
        }
    }

    pub(crate) fn last_call(&self, role: Role) -> Option<&Call> {
        self.calls.iter().rev().find(|call| call.role == role)
    }

    pub(crate) fn result(&self) -> Option<&EvalResult> {
        self.disproved.as_ref().or(self.judged.as_ref().map(|judged| &judged.result))
    }

    pub(crate) fn source(&self) -> Option<&str> {
        self.judged.as_ref().and_then(|judged| judged.source.as_deref())
    }

    pub(crate) fn is_correct(&self) -> bool {
        self.result().is_some_and(|result| result.state == State::Correct)
    }

    /// Compiled and nothing more, because nothing could run it: neither right nor wrong.
    pub(crate) fn is_compiled(&self) -> bool {
        self.result().is_some_and(|result| result.state == State::Compiled)
    }

    /// What attempts are ranked by: what a hook says, else the speedup, else what the clocks inside say, where the problem
    /// allows no speedup, else that it is correct at all.
    pub(crate) fn score(&self) -> Option<f64> {
        if !self.is_correct() {
            return None;
        }
        let by_clock = self.result().and_then(|result| result.speedup.or(result.estimate));
        Some(self.hook_score().or(by_clock).unwrap_or(0.0))
    }

    /// What a user's script says it is worth.
    pub(crate) fn hook_score(&self) -> Option<f64> {
        self.hooks.iter().rev().find_map(|report| report.score)
    }

    /// Where its speedup lies, if that is what it is ranked by.
    pub(crate) fn interval(&self) -> Option<Interval> {
        self.result().filter(|_| self.is_correct() && self.hook_score().is_none()).and_then(|result| result.speedup_ci)
    }

    /// Whether another one can be made from it: one whose reply held no candidate can be repaired.
    pub(crate) fn can_be_base(&self) -> bool {
        let replied = |call: &Call| matches!(call.answer, Answer::Reply(_));
        self.id == START || self.last_call(Role::Generator).is_some_and(replied)
    }

    /// A model that could not be asked at all leaves no attempt behind that would count.
    fn counts(&self) -> bool {
        if self.id == START {
            return false;
        }
        let last = self.last_call(Role::Generator).map(|call| &call.answer);
        !matches!(last, Some(Answer::Failed(failure)) if failure.fatal)
    }
}

impl History {
    pub(crate) fn of(lines: &[Line]) -> Self {
        let mut history = Self::default();
        for line in lines {
            history.apply(line);
        }
        history
    }

    pub(crate) fn apply(&mut self, line: &Line) {
        self.events += 1;
        let resumed = matches!(line.event, Event::Resumed { .. });
        if let (Some(last), false) = (self.last_at, resumed) {
            self.active_s += line.at.duration_since(last).as_secs_f64().max(0.0);
        }
        self.last_at = Some(line.at);
        match line.event.clone() {
            Event::Started(start) => self.start = Some(*start),
            Event::Resumed { .. } => {
                if self.in_flight.take().is_some() {
                    self.lost_calls += 1;
                    self.charge(self.asked, 1);
                }
                self.reconsider = true;
                self.forgiven = self.attempts.last().map_or(0, |attempt| attempt.id);
                if let Some(last) = self.attempts.last_mut().filter(|last| last.judged.is_none()) {
                    last.forgive();
                }
            }
            Event::Planned { attempt, plan } => {
                self.goes_on();
                self.attempts.push(Attempt::new(attempt, plan));
            }
            Event::Profiled { attempt, profile, .. } => self.with(attempt, |a| a.profile = Some(profile)),
            Event::Asked { attempt, role, ordinal, estimate, .. } => {
                self.asked = estimate;
                self.goes_on();
                self.in_flight = Some((attempt, role, ordinal));
                self.with(attempt, |a| {
                    if a.calls.last().is_none_or(|call| call.role != role || call.ordinal != ordinal) {
                        a.calls.push(Call { role, ordinal, answer: Answer::Waiting });
                    }
                });
            }
            Event::Replied { attempt, role, ordinal, reply } => {
                self.in_flight = None;
                self.spend.add(&reply.usage, reply.cost_usd, reply.seconds);
                self.with(attempt, |a| {
                    a.spend.add(&reply.usage, reply.cost_usd, reply.seconds);
                    a.answer(role, ordinal, Answer::Reply(reply));
                });
            }
            Event::CallFailed { attempt, role, ordinal, failure } => {
                self.in_flight = None;
                if failure.may_be_billed {
                    self.charge(self.asked, failure.attempts.max(1));
                }
                self.with(attempt, |a| a.answer(role, ordinal, Answer::Failed(failure)));
            }
            Event::Advised { attempt, advice, .. } => {
                self.with(attempt, |a| a.advice = advice.map_or(Advised::Nothing, Advised::With));
            }
            Event::Judged { attempt, judged } => self.with(attempt, |a| a.judged = Some(*judged)),
            Event::Duelled { attempt, against, outcome, seconds, .. } => {
                let duel = match outcome {
                    Some(DuelOutcome::Fought(duel)) => Some(duel),
                    Some(DuelOutcome::Unfit { .. }) | None => None,
                };
                self.with(attempt, |a| a.duel = Some(Met { against, duel, seconds }));
            }
            Event::Hooked { attempt: Some(attempt), report, .. } => self.with(attempt, |a| a.hooks.push(report)),
            Event::Hooked { attempt: None, report, .. } => self.end_hooks.push(report),
            Event::Confirmed { attempt, result } if result.state == State::Correct => {
                self.confirmed = Some((attempt, *result));
            }
            // Whoever could not run it has disproved nothing.
            Event::Confirmed { result, .. } if result.state == State::Compiled => self.unconfirmed = true,
            Event::Confirmed { attempt, result } => self.with(attempt, |a| a.disproved = Some(*result)),
            Event::Unconfirmed { .. } => self.unconfirmed = true,
            Event::Stopped { reason, text } => {
                self.stopped = Some((reason, text));
                self.reconsider = false;
                self.finished = false;
            }
            Event::Finished { .. } => self.finished = true,
        }
    }

    /// What a call without a reply may have cost.
    fn charge(&mut self, estimate: Estimate, times: u32) {
        for _ in 0..times {
            let usage = Usage { input: Some(estimate.input), output: Some(0), estimated: true, ..Usage::default() };
            self.spend.add(&usage, Some(estimate.usd), 0.0);
        }
    }

    /// What was said at the end of a run holds no more once it goes on.
    fn goes_on(&mut self) {
        if self.stopped.take().is_some() {
            self.confirmed = None;
            self.unconfirmed = false;
            self.end_hooks.clear();
            self.finished = false;
        }
    }

    fn with(&mut self, attempt: u32, change: impl FnOnce(&mut Attempt)) {
        if let Some(found) = self.attempts.iter_mut().rev().find(|a| a.id == attempt) {
            change(found);
        }
    }

    pub(crate) fn attempt(&self, id: u32) -> Option<&Attempt> {
        self.attempts.iter().find(|a| a.id == id)
    }

    /// The best correct attempt; among equals the earlier one.
    pub(crate) fn best(&self) -> Option<&Attempt> {
        self.ranked().into_iter().next()
    }

    /// Whom an attempt must beat: the best of those before it.
    pub(crate) fn best_before(&self, attempt: u32) -> Option<&Attempt> {
        let comparable = self.comparable();
        best_of(comparable.into_iter().filter(|a| a.id < attempt))
    }

    /// The baseline that no attempt beat, where the best is slower than PyTorch, and the evidence for it.
    pub(crate) fn framework_wins(&self) -> Option<(&str, &EvalResult)> {
        let best = self.best().filter(|best| best.hook_score().is_none())?;
        let again = self.confirmed.as_ref().filter(|(id, _)| *id == best.id).map(|(_, result)| result);
        let result = again.or(best.result())?;
        let name = &result.baseline.as_ref()?.name;
        (result.speedup? < 1.0 && !name.starts_with("incumbent")).then_some((name.as_str(), result))
    }

    /// Attempts that count against the limit on iterations.
    pub(crate) fn made(&self) -> u32 {
        self.attempts.iter().filter(|attempt| attempt.counts()).count() as u32
    }

    /// Correct attempts, the best first, the others by their scores.
    pub(crate) fn ranked(&self) -> Vec<&Attempt> {
        let mut correct = self.comparable();
        let best = best_of(correct.iter().copied()).map(|best| best.id);
        let key = |a: &Attempt| (best != Some(a.id), -a.score().unwrap_or(0.0), a.id);
        correct.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        });
        correct
    }

    /// Correct attempts. Where scripts give scores, an attempt whose script gave none cannot win by another measure.
    fn comparable(&self) -> Vec<&Attempt> {
        let scored = self.attempts.iter().any(|a| a.score().is_some() && a.hook_score().is_some());
        let comparable = |a: &&Attempt| !scored || a.hook_score().is_some();
        self.attempts.iter().filter(|a| a.score().is_some()).filter(comparable).collect()
    }

    /// Which call of this role the next one is.
    pub(crate) fn next_ordinal(&self, role: Role) -> u32 {
        let calls = self.attempts.iter().flat_map(|a| &a.calls).filter(|call| call.role == role);
        calls.map(|call| call.ordinal).max().unwrap_or(0) + 1
    }

    pub(crate) fn standing(&self) -> Standing {
        match &self.stopped {
            Some((StopReason::Model, _)) => Standing::NoModel,
            Some(_) if self.finished => Standing::Over,
            _ => Standing::UnderWay,
        }
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }
}

/// One after the other: who has met the best of its time is better if it won; all others are compared by their scores.
fn best_of<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> Option<&'a Attempt> {
    let mut best: Option<&Attempt> = None;
    for attempt in attempts {
        let better = best.is_none_or(|best| match &attempt.duel {
            Some(met) if met.against == best.id && met.duel.is_some() => met.won(),
            _ => attempt.score() > best.score(),
        });
        if better {
            best = Some(attempt);
        }
    }
    best
}

impl Attempt {
    /// Calls that could not be made are made again: whoever resumes has mended what stood in their way.
    fn forgive(&mut self) {
        for call in &mut self.calls {
            if matches!(&call.answer, Answer::Failed(failure) if failure.fatal) {
                call.answer = Answer::Waiting;
            }
        }
    }

    fn answer(&mut self, role: Role, ordinal: u32, answer: Answer) {
        if let Some(call) = self.calls.iter_mut().rev().find(|c| c.role == role && c.ordinal == ordinal) {
            call.answer = answer;
        }
    }
}
