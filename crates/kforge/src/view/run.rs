//! The story of a run for people.

use super::{
    result::{Words, correct},
    table, trimmed,
};
use crate::run::{
    account::{Seconds, dollars, failed_calls},
    event::{Event, Line, StopReason},
    history::{Attempt, History, Standing},
};
use kforge_types::{Check, DuelOutcome, EvalResult, SANITIZER, State};
use std::{fmt::Write, path::Path};

/// One line for an event that people want to see; none for the rest.
pub(crate) fn event(line: &Line, history: &History) -> Option<String> {
    match &line.event {
        Event::Started(start) => {
            let analyst = start.analyst.as_ref().map(|name| format!(", analyst {name}")).unwrap_or_default();
            Some(format!("{} on {}: generator {}{analyst}", start.problem, start.target, start.generator))
        }
        Event::Resumed { lost } => Some(match lost {
            None => format!("resuming after {} events", history.events() - 1),
            Some(call) => format!("resuming; {call} was in flight and is asked again (it may be billed twice)"),
        }),
        Event::Advised { attempt, advice: Some(advice), .. } => {
            Some(format!("{attempt}: advised: {}", advice.headline()))
        }
        Event::Advised { attempt, note, .. } => Some(format!("{attempt}: no advice: {note}")),
        // It ends the run, and its words are the last ones.
        Event::CallFailed { failure, .. } if failure.fatal => None,
        Event::CallFailed { attempt, failure, .. } => Some(format!("{attempt}: no reply: {}", failure.text)),
        Event::Judged { attempt, judged } => {
            let best = history.best().is_some_and(|best| best.id == *attempt && history.ranked().len() > 1);
            let mark = if best { ", the best so far" } else { "" };
            Some(format!("{attempt}: {}{mark}{}", verdict(&judged.result), idea(&judged.idea)))
        }
        Event::Duelled { attempt, against, outcome, note, .. } => Some(match outcome {
            Some(DuelOutcome::Fought(duel)) => format!("{attempt}: beside attempt {against}: {}", super::duel(duel)),
            Some(DuelOutcome::Unfit { reason, .. }) => format!("{attempt}: not compared with {against}: {reason}"),
            None => format!("{attempt}: not compared with {against}: {note}"),
        }),
        Event::Unconfirmed { why, .. } => Some(format!("the winner could not be judged again: {why}")),
        Event::Confirmed { result, .. } => Some(format!("the winner again, in a fresh process: {}", verdict(result))),
        Event::Hooked { report, .. } if report.ok => {
            let score = report.score.map(|score| format!(" (score {score})")).unwrap_or_default();
            Some(format!("hook {}{score}", report.command))
        }
        Event::Stopped { reason: StopReason::Model, .. } => None,
        Event::Stopped { text, .. } => Some(format!("no more attempts: {text}")),
        _ => None,
    }
}

fn idea(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}

/// A correct kernel's worth in a table.
pub(super) fn short(result: &EvalResult) -> String {
    match (result.speedup, result.is_least()) {
        (Some(speedup), true) => format!("at least {speedup:.2}x"),
        (Some(speedup), false) => format!("{speedup:.2}x"),
        (None, _) => "correct, no speedup".to_owned(),
    }
}

/// State and speed in a few words.
pub(crate) fn verdict(result: &EvalResult) -> String {
    match result.state {
        State::Correct => correct(result, &Words { speed: "x", interval: "" }),
        // Why it was not run is the same for all, and said once.
        State::Compiled => State::Compiled.label().to_owned(),
        state => {
            let kind = result.kind.map(|kind| format!(" ({})", kind.name())).unwrap_or_default();
            let reason = result.reason.lines().next().unwrap_or_default();
            let reason: String = reason.chars().take(120).collect();
            format!("{}{kind}: {reason}", state.label())
        }
    }
}

/// What a run that is ended now leaves behind.
pub(crate) fn kept(history: &History) -> String {
    let judged = history.attempts.iter().filter(|attempt| attempt.judged.is_some()).count();
    let best = match history.best() {
        Some(best) => format!(" (best: {}, attempt {})", best.result().map(verdict).unwrap_or_default(), best.id),
        None => String::new(),
    };
    let call =
        if history.in_flight.is_some() { "; the call under way is made again, and may be billed twice" } else { "" };
    let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!(
        "{} judged{best}, {}, {}{call}",
        counted(judged, "attempt"),
        counted(history.spend.calls as usize, "call"),
        dollars(history)
    )
}

/// Headline, a row per attempt, sums.
pub(crate) fn story(history: &History, run: &Path, busy: bool, width: Option<u16>) -> String {
    let mut text = headline(history, run, busy);
    text.push('\n');
    if let Some((name, _)) = history.framework_wins() {
        let file = run.join(history.start.as_ref().map_or("", |start| start.problem.as_str())).join("best/pytorch.py");
        let label = super::result::baseline_label(name);
        let _ = writeln!(
            text,
            "  PyTorch itself is faster than every kernel found ({label}): {} holds that.",
            file.display()
        );
    }
    if history.start.as_ref().is_some_and(|start| start.recorded) {
        text.push_str(
            "  The model's replies are recorded; building, checks, times and profiles are of this machine, now.\n",
        );
    }
    if history.attempts.iter().any(has_something) {
        let _ = write!(text, "\nAttempts\n{}", trimmed(&attempts(history, width)));
    }
    let _ = write!(text, "\n{}", sums(history));
    let _ = write!(text, "\nRun: {}", run.display());
    text
}

fn headline(history: &History, run: &Path, busy: bool) -> String {
    let start = history.start.as_ref();
    let problem = start.map_or("?", |start| start.problem.as_str());
    let target = start.map_or("?", |start| start.target.as_str());
    let Some(best) = history.best() else {
        return format!("{problem} on {target}: {}{}", no_winner(history), unfinished(history, run, busy));
    };
    let first = best.result().map(verdict).unwrap_or_default();
    match &history.confirmed {
        Some((_, again)) => {
            let (verdict, unchecked) = (verdict(again), unchecked(&again.checks));
            format!("{problem} on {target}: {verdict}; judged twice, the second time in a fresh process{unchecked}")
        }
        None if history.unconfirmed => format!("{problem} on {target}: {first}; it could not be judged a second time"),
        None => format!("{problem} on {target}: {first}{}", unfinished(history, run, busy)),
    }
}

/// What an unfinished run waits for; nothing where it is over.
fn unfinished(history: &History, run: &Path, busy: bool) -> String {
    let resume = format!("resume it with `kforge resume {}`", run.display());
    match history.standing() {
        Standing::Over => String::new(),
        Standing::NoModel => format!("; not finished, since a model could not be asked: {resume}"),
        Standing::UnderWay if busy => "; the run is still going on".to_owned(),
        Standing::UnderWay => format!("; not finished, the process that made it was ended: {resume}"),
    }
}

/// A kernel that was compiled is none that was found, and the user learns where it could become one.
fn no_winner(history: &History) -> String {
    let judged = history.attempts.iter().filter(|attempt| attempt.judged.is_some()).count();
    let yet = if history.standing() == Standing::Over { "" } else { " yet" };
    let attempts = if judged == 1 { "attempt" } else { "attempts" };
    let tried = format!("no correct kernel{yet} in {judged} {attempts}");
    match history.attempts.iter().rfind(|attempt| attempt.is_compiled()) {
        Some(attempt) => format!(
            "{tried}; attempt {} was compiled but never run: judge its candidate.py by `kforge eval` where the device is \
             (--executor)",
            attempt.id
        ),
        None => tried,
    }
}

/// What a winner is not known to be free of, because a tool that looks for it did not run.
fn unchecked(checks: &[Check]) -> String {
    let missing = checks.iter().filter(|check| check.name.starts_with(SANITIZER) && !check.passed);
    let reasons: Vec<String> = missing.map(|check| format!("{}: {}", check.name, check.detail)).collect();
    if reasons.is_empty() {
        return String::new();
    }
    format!(", accesses and races not all checked ({})", reasons.join("; "))
}

fn attempts(history: &History, width: Option<u16>) -> comfy_table::Table {
    let mut made = table(width);
    made.set_header(["", "pass", "from", "verdict", "idea", "tokens", "cost", "seconds"]);
    let best = history.best().map(|best| best.id);
    for attempt in history.attempts.iter().filter(|attempt| has_something(attempt)) {
        let mark = if best == Some(attempt.id) { format!("{} *", attempt.id) } else { attempt.id.to_string() };
        let judged = attempt.judged.as_ref();
        made.add_row([
            mark,
            attempt.plan.pass.name().to_owned(),
            attempt.plan.base.map(|base| base.to_string()).unwrap_or_default(),
            verdict_of(attempt),
            judged.map(|judged| judged.idea.clone()).unwrap_or_default(),
            attempt.spend.tokens().to_string(),
            cost(attempt),
            format!("{:.1}", Seconds::of(attempt).named().values().sum::<f64>()),
        ]);
    }
    made
}

/// One for which a model could not even be asked is none.
fn has_something(attempt: &Attempt) -> bool {
    attempt.judged.is_some() || attempt.spend.calls > 0
}

fn verdict_of(attempt: &Attempt) -> String {
    match (&attempt.judged, &attempt.disproved) {
        (None, _) => "not judged".to_owned(),
        (Some(judged), None) => verdict(&judged.result),
        (Some(judged), Some(again)) => format!("{}, but the second time {}", verdict(&judged.result), verdict(again)),
    }
}

fn cost(attempt: &Attempt) -> String {
    match (attempt.spend.calls, attempt.spend.unpriced) {
        (0, _) => "-".to_owned(),
        (_, 0) => format!("${:.4}", attempt.spend.usd),
        _ => "unknown".to_owned(),
    }
}

fn sums(history: &History) -> String {
    let spend = &history.spend;
    let parts: Vec<String> = Seconds::sum(history)
        .named()
        .into_iter()
        .filter(|(_, seconds)| *seconds >= 0.05)
        .map(|(name, seconds)| format!("{name} {seconds:.1} s"))
        .collect();
    let mut text = format!(
        "Models: {} calls, {} tokens in ({} cached), {} out ({} reasoning){}, {}\n",
        spend.calls,
        spend.input,
        spend.cached_input,
        spend.output,
        spend.reasoning,
        if spend.estimated > 0 { ", partly estimated" } else { "" },
        dollars(history)
    );
    if failed_calls(history) > 0 || history.lost_calls > 0 {
        let _ = writeln!(
            text,
            "Calls without a reply: {}; in flight when a process ended, perhaps billed twice: {}",
            failed_calls(history),
            history.lost_calls
        );
    }
    let _ = write!(text, "Time: {}", parts.join(", "));
    // Why a model could not be asked is whoever calls this to say, as the last word.
    if let Some((_, why)) = history.stopped.as_ref().filter(|(reason, _)| *reason != StopReason::Model) {
        let _ = write!(text, "\nEnded: {why}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_winner_that_the_sanitizer_did_not_see_is_said_to_be_unchecked() {
        let check = |name: &str, passed| Check { name: name.to_owned(), passed, detail: "not installed".to_owned() };
        assert_eq!(unchecked(&[check("compute-sanitizer racecheck", true), check("clocks", false)]), "");
        let text = unchecked(&[check("compute-sanitizer memcheck", false), check("clocks", false)]);
        assert!(text.ends_with("not all checked (compute-sanitizer memcheck: not installed)"), "{text}");
    }
}
