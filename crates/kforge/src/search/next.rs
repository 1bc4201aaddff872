//! The single next thing to do. The driver does it, appends what came of it, and asks again; after a crash the same
//! history gives the same answer, so resuming is nothing but asking.

use super::{
    Rules,
    stop::{cap, stop},
    strategy::{nothing_before, plan},
};
use crate::run::{
    event::{Advice, Plan, Role, StopReason},
    history::{Advised, Answer, Attempt, History, START},
};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Begin {
        attempt: u32,
        plan: Plan,
    },
    Profile {
        attempt: u32,
    },
    Ask {
        attempt: u32,
        role: Role,
        ordinal: u32,
        repair: bool,
    },
    /// Make advice of the analyst's reply.
    Advise {
        attempt: u32,
    },
    /// Make a candidate of the generator's reply, or of its failure, and judge it.
    Judge {
        attempt: u32,
    },
    /// Interleave it with the best so far.
    Duel {
        attempt: u32,
        against: u32,
    },
    Hook {
        attempt: Option<u32>,
        hook: usize,
    },
    Stop {
        reason: StopReason,
        text: String,
    },
    Confirm {
        attempt: u32,
    },
    Finish {
        best: Option<u32>,
    },
    Nothing,
}

pub(crate) fn next(history: &History, rules: &Rules, elapsed_s: f64) -> Action {
    if let Some((reason, _)) = &history.stopped
        && !(history.reconsider && may_go_on(history, rules, elapsed_s))
    {
        let other = cap(history, rules, elapsed_s).filter(|_| history.reconsider && *reason == StopReason::Model);
        return match other {
            // The model may be there again; what ends the run now is something else.
            Some((reason, text)) => Action::Stop { reason, text },
            None if history.finished => Action::Nothing,
            None => after_the_last(history, rules),
        };
    }
    if let Some(attempt) = history.attempts.last()
        && let Some(action) = within(history, attempt, rules)
    {
        // Money and time are looked at before each call and profile, not only between attempts.
        let costs = matches!(action, Action::Ask { .. } | Action::Profile { .. });
        return match cap(history, rules, elapsed_s).filter(|_| costs) {
            Some((reason, text)) => Action::Stop { reason, text },
            None => action,
        };
    }
    if rules.start && history.attempts.is_empty() {
        return Action::Begin { attempt: START, plan: nothing_before() };
    }
    if let Some((reason, text)) = stop(history, rules, elapsed_s) {
        return Action::Stop { reason, text };
    }
    match plan(history, rules) {
        Some(plan) => Action::Begin { attempt: history.attempts.last().map_or(START, |last| last.id) + 1, plan },
        None => Action::Stop { reason: StopReason::Exhausted, text: "the strategy has nothing more to try".to_owned() },
    }
}

/// Whether a limit that ended the run has been raised since.
fn may_go_on(history: &History, rules: &Rules, elapsed_s: f64) -> bool {
    let unfinished = history.attempts.last().is_some_and(|attempt| attempt.judged.is_none());
    if unfinished {
        cap(history, rules, elapsed_s).is_none()
    } else {
        stop(history, rules, elapsed_s).is_none() && plan(history, rules).is_some()
    }
}

/// What is left to do for the attempt at hand.
fn within(history: &History, attempt: &Attempt, rules: &Rules) -> Option<Action> {
    let id = attempt.id;
    if attempt.judged.is_none() && id == START {
        return Some(Action::Judge { attempt: id });
    }
    if attempt.judged.is_none() {
        if attempt.plan.advice && attempt.advice == Advised::NotYet {
            let base = attempt.plan.base.and_then(|base| history.attempt(base));
            return Some(match base {
                Some(base) if attempt.plan.profile && base.profile.is_none() => Action::Profile { attempt: base.id },
                _ => ask_or(history, attempt, Role::Analyst, Action::Advise { attempt: id }),
            });
        }
        return Some(ask_or(history, attempt, Role::Generator, Action::Judge { attempt: id }));
    }
    if attempt.is_correct() && attempt.hooks.len() < rules.hooks_after_evaluation {
        return Some(Action::Hook { attempt: Some(id), hook: attempt.hooks.len() });
    }
    duel(history, attempt, rules)
}

/// Speedups whose intervals overlap do not say which of two is faster.
fn duel(history: &History, attempt: &Attempt, rules: &Rules) -> Option<Action> {
    let best = history.best_before(attempt.id)?;
    if !rules.measured || attempt.duel.is_some() || attempt.source() == best.source() {
        return None;
    }
    let (own, theirs) = (attempt.interval()?, best.interval()?);
    let overlap = own.low <= theirs.high && theirs.low <= own.high;
    overlap.then_some(Action::Duel { attempt: attempt.id, against: best.id })
}

/// Asks, or asks again what was in flight, or goes on with the answer.
fn ask_or(history: &History, attempt: &Attempt, role: Role, with_answer: Action) -> Action {
    let made = attempt.calls.iter().filter(|call| call.role == role).count();
    let ask = |ordinal, repair| Action::Ask { attempt: attempt.id, role, ordinal, repair };
    match attempt.last_call(role) {
        None => ask(history.next_ordinal(role), false),
        Some(call) => match &call.answer {
            Answer::Waiting => ask(call.ordinal, made > 1),
            Answer::Failed(failure) if failure.paused => ask(call.ordinal, made > 1),
            // Nobody was asked, so there is no attempt to judge: whoever resumes asks again.
            Answer::Failed(failure) if failure.fatal => {
                Action::Stop { reason: StopReason::Model, text: failure.text.clone() }
            }
            // An answer that cannot be read is repaired once; then the run goes on without it.
            Answer::Reply(reply)
                if role == Role::Analyst && made == 1 && Advice::parse(attempt.plan.pass, &reply.text).is_err() =>
            {
                ask(history.next_ordinal(role), true)
            }
            Answer::Reply(_) | Answer::Failed(_) => with_answer,
        },
    }
}

fn after_the_last(history: &History, rules: &Rules) -> Action {
    let best = history.best().map(|attempt| attempt.id);
    // A run that waits for its model is not over: its winner is judged again, and hooks run, when it is.
    if matches!(history.stopped, Some((StopReason::Model, _))) {
        return Action::Finish { best };
    }
    if let Some(attempt) = best.filter(|_| rules.confirm && history.confirmed.is_none() && !history.unconfirmed) {
        return Action::Confirm { attempt };
    }
    if history.end_hooks.len() < rules.hooks_at_end {
        return Action::Hook { attempt: None, hook: history.end_hooks.len() };
    }
    Action::Finish { best }
}
