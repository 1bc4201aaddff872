//! Who is faster, in words.

use super::{table, trimmed};
use kforge_types::{Duel, EvalResult, Winner};

/// "1.09x its speed (1.04 to 1.14): faster".
pub(crate) fn duel(duel: &Duel) -> String {
    let said = match duel.winner() {
        Winner::First => "faster",
        Winner::Second => "slower",
        Winner::Neither => "equal, as far as can be told",
    };
    format!("{:.3}x its speed ({:.3} to {:.3}): {said}", duel.ratio, duel.interval.low, duel.interval.high)
}

/// A row for each candidate, the fastest first.
pub(crate) fn compared(results: &[EvalResult], width: Option<u16>) -> String {
    let mut sorted: Vec<&EvalResult> = results.iter().collect();
    sorted.sort_by(|a, b| f64::total_cmp(&b.speedup.unwrap_or(-1.0), &a.speedup.unwrap_or(-1.0)));
    let mut made = table(width);
    made.set_header(["candidate", "verdict", "speedup", "95 % interval", "median"]);
    for result in sorted {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        made.add_row([
            result.candidate_file.clone(),
            result.state.label().to_owned(),
            or_none(result.speedup.map(|speedup| format!("{speedup:.2}x"))),
            or_none(result.speedup_ci.map(|ci| format!("{:.2} to {:.2}", ci.low, ci.high))),
            or_none(result.candidate.as_ref().map(|timing| super::result::micros(timing.median_us))),
        ]);
    }
    format!("Candidates\n{}", trimmed(&made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kforge_types::Interval;

    #[test]
    fn a_duel_says_who_is_faster_and_how_sure_that_is() {
        let told = |ratio: f64| {
            let interval = Interval { low: ratio * 0.98, high: ratio * 1.02 };
            let names = ["a".to_owned(), "b".to_owned()];
            duel(&Duel { names, ratio, interval, medians_us: [1.0, ratio], n: 60, pairs: 3 })
        };
        assert_eq!(told(1.1), "1.100x its speed (1.078 to 1.122): faster");
        assert!(told(0.9).ends_with("slower") && told(1.01).ends_with("equal, as far as can be told"));
    }
}
