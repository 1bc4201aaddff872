//! Earlier attempts as a prompt shows them: one line each, with the numbers that say what a change was worth.

use super::{
    caps,
    input::{Attempt, Beside},
};
use crate::text::{cut, one_line};
use kforge_types::{Interval, State};
use std::fmt::Write;

const NOISE: &str = "no difference within noise";

/// One line per attempt, oldest first.
pub(super) fn history(attempts: &[Attempt]) -> String {
    let lines: Vec<String> = attempts.iter().map(attempt).collect();
    cut(&lines.join("\n"), caps::HISTORY)
}

fn attempt(attempt: &Attempt) -> String {
    let idea = if attempt.idea.trim().is_empty() { "(no idea given)" } else { attempt.idea.trim() };
    let advised = match attempt.advised.trim() {
        "" => String::new(),
        advised => format!(" (advised: {})", one_line(advised, caps::HISTORY_PART)),
    };
    let line = format!("- iteration {}: {idea}{advised} -> {}", attempt.iteration, outcome(attempt));
    one_line(&line, caps::HISTORY_LINE)
}

fn outcome(attempt: &Attempt) -> String {
    let reason = match attempt.reason.trim() {
        "" => String::new(),
        reason => format!(": {}", one_line(reason, caps::HISTORY_PART)),
    };
    match (attempt.state, attempt.speedup) {
        (None, _) => format!("no candidate{reason}"),
        // Of one that was never run the state says all there is.
        (Some(state @ State::Compiled), _) => state.label().to_owned(),
        (Some(State::Correct), Some(speedup)) => {
            format!("correct, {}{}", measured(attempt, speedup), compared(attempt))
        }
        (Some(State::Correct), None) => format!("correct{reason}{}", compared(attempt)),
        (Some(state), _) => format!("{}{reason}", state.label()),
    }
}

/// Against the fastest baseline.
fn measured(attempt: &Attempt, speedup: f64) -> String {
    let mut text = format!("{speedup:.3}x the fastest baseline");
    if let Some(interval) = attempt.interval {
        let _ = write!(text, " ({})", range(interval));
    }
    if let Some((own, baseline)) = attempt.times_us {
        let _ = write!(text, ", {own:.1} us against {baseline:.1} us");
    }
    if attempt.interval.is_some_and(is_noise) {
        let _ = write!(text, ", {NOISE}");
    }
    text
}

/// Against the best attempt before it, and what held it back.
fn compared(attempt: &Attempt) -> String {
    let Some(beside) = attempt.beside else { return String::new() };
    let Beside { iteration, ratio, interval } = beside;
    let faster = interval.map_or(ratio > 1.0, |interval| interval.low > 1.0);
    let word = if faster { "faster" } else { "slower" };
    let mut text = match interval {
        Some(interval) if is_noise(interval) => {
            format!("; beside iteration {iteration} {ratio:.3}x ({}), {NOISE}", range(interval))
        }
        Some(interval) => format!("; {word} than iteration {iteration}, {ratio:.3}x beside it ({})", range(interval)),
        None => format!("; {word} than iteration {iteration}, {ratio:.3}x"),
    };
    if !faster && !attempt.held_back_by.is_empty() {
        let _ = write!(text, "; {}", one_line(&attempt.held_back_by, caps::HISTORY_PART));
    }
    text
}

fn is_noise(interval: Interval) -> bool {
    interval.low <= 1.0 && 1.0 <= interval.high
}

fn range(interval: Interval) -> String {
    format!("{:.3} to {:.3}", interval.low, interval.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correct() -> Attempt {
        Attempt {
            iteration: 4,
            idea: "tiles".to_owned(),
            advised: String::new(),
            state: Some(State::Correct),
            speedup: Some(1.25),
            interval: Some(Interval { low: 1.2, high: 1.3 }),
            times_us: Some((80.0, 100.0)),
            beside: None,
            held_back_by: String::new(),
            reason: String::new(),
        }
    }

    fn line(change: impl FnOnce(&mut Attempt)) -> String {
        let mut made = correct();
        change(&mut made);
        attempt(&made)
    }

    #[test]
    fn a_line_has_times_and_their_interval() {
        let plain =
            "- iteration 4: tiles -> correct, 1.250x the fastest baseline (1.200 to 1.300), 80.0 us against 100.0 us";
        assert_eq!(line(|_| ()), plain);
        let even = line(|one| one.interval = Some(Interval { low: 0.98, high: 1.03 }));
        assert!(even.ends_with("100.0 us, no difference within noise"), "{even}");
    }

    #[test]
    fn who_lost_is_shown_with_why() {
        let beside = |ratio, interval| Some(Beside { iteration: 2, ratio, interval });
        let lost = line(|one| {
            one.beside = beside(0.9, Some(Interval { low: 0.88, high: 0.92 }));
            one.held_back_by = "slowest on `zeros`, 1.1x".to_owned();
        });
        assert!(
            lost.ends_with("; slower than iteration 2, 0.900x beside it (0.880 to 0.920); slowest on `zeros`, 1.1x")
        );
        let even = line(|one| one.beside = beside(0.99, Some(Interval { low: 0.97, high: 1.01 })));
        assert!(even.ends_with("; beside iteration 2 0.990x (0.970 to 1.010), no difference within noise"), "{even}");
        let won = line(|one| {
            one.beside = beside(1.5, None);
            one.held_back_by = "nothing".to_owned();
        });
        assert!(won.ends_with("; faster than iteration 2, 1.500x"), "{won}");
    }

    #[test]
    fn who_has_no_speedup_says_why() {
        let withheld = line(|one| {
            (one.speedup, one.interval, one.times_us) = (None, None, None);
            "no inputs can tell the contract's precision from a lower one".clone_into(&mut one.reason);
        });
        assert!(
            withheld.ends_with("-> correct: no inputs can tell the contract's precision from a lower one"),
            "{withheld}"
        );
    }
}
