//! When to stop. Every rule has its reason in words, since people see it.

use super::Rules;
use crate::run::{
    event::StopReason,
    history::{Answer, Attempt, History, Met},
};

/// A kernel must be better by this much to count as progress.
const PROGRESS: f64 = 1.01;

/// The first rule that says that no further attempt is begun.
pub(crate) fn stop(history: &History, rules: &Rules, elapsed_s: f64) -> Option<(StopReason, String)> {
    if let Some(cap) = cap(history, rules, elapsed_s) {
        return Some(cap);
    }
    if !rules.measured && history.best().is_some() {
        return Some((
            StopReason::Exhausted,
            "one candidate holds, and nothing can be timed on this machine".to_owned(),
        ));
    }
    if let Some(stop) = only_compiled(history, rules) {
        return Some(stop);
    }
    let made = history.made();
    if made >= rules.iterations {
        return Some((StopReason::Iterations, format!("{made} of {} iterations made", rules.iterations)));
    }
    plateau(history, rules).or_else(|| near_floor(history, rules))
}

/// What ends an attempt in the middle, too: money, time, and models that cannot be asked. `elapsed_s` is the time that
/// processes have worked on this run.
pub(crate) fn cap(history: &History, rules: &Rules, elapsed_s: f64) -> Option<(StopReason, String)> {
    if let Some(failure) = fatal_failure(history) {
        return Some((StopReason::Model, failure));
    }
    let spend = &history.spend;
    if let Some(limit) = rules.limits.usd {
        if spend.unpriced > 0 {
            let text = "a reply came without a price, so the cap in dollars cannot hold".to_owned();
            return Some((StopReason::Dollars, text));
        }
        if spend.usd >= limit {
            return Some((StopReason::Dollars, format!("${:.4} of ${limit:.2} spent", spend.usd)));
        }
    }
    if let Some(limit) = rules.limits.tokens.filter(|limit| spend.tokens() >= *limit) {
        return Some((StopReason::Tokens, format!("{} of {limit} tokens used", spend.tokens())));
    }
    let limit = rules.limits.seconds.filter(|limit| elapsed_s >= *limit)?;
    Some((StopReason::Time, format!("{elapsed_s:.0} of {limit:.0} s used")))
}

fn fatal_failure(history: &History) -> Option<String> {
    let counts = |attempt: &&Attempt| attempt.judged.is_none() || attempt.id > history.forgiven;
    let last = history.attempts.last().filter(counts)?;
    last.calls.iter().find_map(|call| match &call.answer {
        Answer::Failed(failure) if failure.fatal => Some(failure.text.clone()),
        _ => None,
    })
}

/// Where kernels are compiled and never run, a further attempt would be judged by nobody either. Whoever goes on with the
/// run where they can be run goes on from what was compiled.
fn only_compiled(history: &History, rules: &Rules) -> Option<(StopReason, String)> {
    if history.best().is_some() {
        return None;
    }
    let counts = |attempt: &&Attempt| attempt.is_compiled() && (!rules.measured || attempt.id > history.forgiven);
    let compiled = history.attempts.iter().find(counts)?;
    let text = format!(
        "attempt {} was compiled but never run, since nothing there can run it; whether it is right is unknown",
        compiled.id
    );
    Some((StopReason::Exhausted, text))
}

fn plateau(history: &History, rules: &Rules) -> Option<(StopReason, String)> {
    if rules.plateau == 0 {
        return None;
    }
    let mut best = None::<f64>;
    let mut since = 0;
    for attempt in &history.attempts {
        let better = attempt.score().is_some_and(|score| best.is_none_or(|best| score > best * PROGRESS));
        // Who has met the best of its time is better if it won.
        let met = attempt.duel.as_ref().filter(|met| met.duel.is_some());
        if met.map_or(better, Met::won) {
            best = Some(attempt.score().unwrap_or(0.0).max(best.unwrap_or(0.0)));
            since = 0;
        } else if best.is_some() {
            since += 1;
        }
    }
    (since >= rules.plateau).then(|| (StopReason::Plateau, format!("no better kernel in {since} rounds")))
}

fn near_floor(history: &History, rules: &Rules) -> Option<(StopReason, String)> {
    let share = rules.near_floor?;
    let best = history.best()?;
    let floor = best.profile.as_ref()?.roofline.as_ref()?.floor_us;
    let time = best.result()?.candidate.as_ref()?.median_us;
    (floor > 0.0 && time <= floor * (1.0 + share)).then(|| {
        (
            StopReason::NearFloor,
            format!("{time:.1} us is within {:.0} % of the physical floor, {floor:.1} us", share * 100.0),
        )
    })
}
