//! Durations as servers and programs write them: `20ms`, `1m30s`, `2 hours 34 minutes`, `an hour`.

use std::time::Duration;

/// The duration at the very start of a lower-case text; whatever follows it is left alone.
pub(crate) fn leading_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, None);
    loop {
        let part = rest.trim_start_matches([' ', ',']);
        let part = part.strip_prefix("and ").unwrap_or(part);
        let (count, after) = if let Some(after) = part.strip_prefix("an ").or_else(|| part.strip_prefix("a ")) {
            (1.0, after)
        } else {
            let end = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
            let Ok(count) = part[..end].parse::<f64>() else { break };
            (count, &part[end..])
        };
        let (unit, after) = word(after.trim_start());
        let seconds = match unit {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            "week" | "weeks" => 604_800.0,
            _ => break,
        };
        total = Some(total.unwrap_or(0.0) + count * seconds);
        rest = after;
    }
    total.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// The letters at the start of a text, and the rest.
pub(crate) fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, milliseconds) in [
            ("20ms", 20),
            ("1.5s", 1500),
            ("34.5s", 34_500),
            ("1m30s. Visit", 90_000),
            ("2 hours 34 minutes", 154 * 60_000),
            ("1 day, 2 hours and 3 s", 26 * 3_600_000 + 3000),
            ("an hour", 3_600_000),
        ] {
            assert_eq!(leading_duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "5", "s", "a while", "soon", "-3s", "1..5s", "99999999999999999999999999h"] {
            assert_eq!(leading_duration(text), None, "{text}");
        }
    }
}
