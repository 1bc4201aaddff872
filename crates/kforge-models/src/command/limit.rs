//! Reads "you have reached your limit" and when it is lifted out of what agent programs print.
//!
//! Owns wordings only. Pure: the time is an argument. Who calls decides which texts are worth a look: a message is short,
//! and a reply about limits in a kernel is none.

use crate::duration::{leading_duration, word};
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::time::Duration;

/// Longer texts are no messages.
pub(super) const LONGEST: usize = 2000;

/// A limit that lasts longer than this was misread.
const LONGEST_WAIT: Duration = Duration::from_hours(400 * 24);

/// A time of day that passed so recently is not meant for tomorrow: the clocks differ, or the message is a little old.
const JUST_PASSED_S: i64 = 600;

/// Any one says that an account's limit is reached.
const SURE: &[&str] = &[
    "usage limit reached",
    "rate limit reached",
    "rate limit exceeded",
    "rate limit hit",
    "rate_limit_error",
    "rate_limit_exceeded",
    "ratelimiterror",
    "limit will reset",
    "limit has been reached",
    "hour limit reached",
    "daily limit reached",
    "weekly limit reached",
    "monthly limit reached",
    "session limit reached",
    "quota exceeded",
    "exceeded your current quota",
    "quota will reset",
    "resource_exhausted",
    "insufficient_quota",
    "too many requests",
    "out of extra usage",
    "out of credits",
    "credit balance is too low",
];

/// `hit your weekly limit`, `exhausted your daily quota`: one of these, then, within a few words, one of `POSSESSIONS`.
const VERBS: &[&str] =
    &["hit your", "reached your", "exceeded your", "exhausted your", "used up your", "used all your"];
const POSSESSIONS: &[&str] = &["limit", "quota", "capacity", "credits", "allowance"];

/// After these words stands the time at which it goes on. The flag: they say so alone, without any word of a limit.
const ANCHORS: &[(&str, bool)] = &[
    ("try again", true),
    ("resets", true),
    ("reset at", true),
    ("reset in", true),
    ("reset after", true),
    ("reset on", true),
    ("retry in", true),
    ("retry after", true),
    ("retry-after", true),
    ("reset", false),
    ("until", false),
    ("available", false),
    ("lifted", false),
    ("limit reached|", false),
];

/// A limit of an account.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// `None`: until when is not said.
    pub(super) lifted_in: Option<Duration>,
}

/// The limit that `text` says is reached.
pub(super) fn limit_text(text: &str, now: &Zoned) -> Option<Limit> {
    let text = text.trim();
    if text.is_empty() || text.len() > 2 * LONGEST || text.chars().count() > LONGEST || text.contains("```") {
        return None;
    }
    // ASCII only, so that positions stay the same.
    let text = text.to_ascii_lowercase();
    let sure = SURE.iter().any(|phrase| text.contains(phrase)) || owns_a_limit(&text);
    let worded = sure || ["limit", "quota"].iter().any(|word| text.contains(word));
    let lifted = ANCHORS
        .iter()
        .filter(|(_, alone)| *alone || worded)
        .flat_map(|(anchor, _)| text.match_indices(anchor))
        .filter_map(|(at, anchor)| {
            let rest = &text[at + anchor.len()..];
            let header = || if anchor == "retry-after" { bare_seconds(rest) } else { None };
            moment_after(rest, now).or_else(header).map(|wait| (at, wait))
        })
        .min_by_key(|(at, _)| *at)
        .map(|(_, wait)| wait);
    (sure || lifted.is_some()).then(|| Limit { lifted_in: lifted.filter(|wait| *wait <= LONGEST_WAIT) })
}

fn owns_a_limit(text: &str) -> bool {
    VERBS.iter().flat_map(|verb| text.match_indices(verb)).any(|(at, verb)| {
        let rest: String = text[at + verb.len()..].chars().take(40).collect();
        POSSESSIONS.iter().any(|thing| rest.contains(thing))
    })
}

/// `retry-after: 30`, the header of HTTP.
fn bare_seconds(rest: &str) -> Option<Duration> {
    let digits = rest.strip_prefix(": ")?.split(|c: char| c.is_whitespace() || c == ',').next()?;
    digits.parse().ok().filter(|seconds| *seconds < 1_000_000).map(Duration::from_secs)
}

/// The first time or duration in the same sentence.
fn moment_after(rest: &str, now: &Zoned) -> Option<Duration> {
    let end = [". ", ".\n", "\n\n"].iter().filter_map(|stop| rest.find(stop)).min().unwrap_or(rest.len());
    let sentence = &rest[..end];
    let starts = sentence.char_indices().take(60).filter(|(at, character)| {
        character.is_ascii_alphanumeric()
            && !sentence[..*at].chars().next_back().is_some_and(|before| before.is_ascii_alphanumeric())
    });
    starts.map(|(at, _)| &sentence[at..]).find_map(|part| moment(part, now))
}

/// What stands at the very start of `text`: `2 hours 34 minutes`, `1763200000`, `2026-11-15T15:00:00Z`, `oct 9 at 3am`,
/// `3pm (europe/berlin)`.
fn moment(text: &str, now: &Zoned) -> Option<Duration> {
    leading_duration(text).or_else(|| epoch(text, now)).or_else(|| iso(text, now)).or_else(|| calendar(text, now))
}

/// Seconds or milliseconds since 1970, told from other numbers by their length.
fn epoch(text: &str, now: &Zoned) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).map_or(text, |end| &text[..end]);
    let number: i64 = digits.parse().ok()?;
    let seconds = match digits.len() {
        10 => number,
        13 => number / 1000,
        _ => return None,
    };
    Some(from_now(Timestamp::from_second(seconds).ok()?, now))
}

fn iso(text: &str, now: &Zoned) -> Option<Duration> {
    let (day, rest) = text.split_at_checked(10)?;
    let day: Date = day.parse().ok()?;
    let token = rest.split([' ', ')', ',', '"']).next().unwrap_or_default().trim_end_matches('.');
    let whole = format!("{day}{token}").to_ascii_uppercase();
    if let Ok(moment) = whole.parse::<Timestamp>() {
        return Some(from_now(moment, now));
    }
    if let Ok(local) = whole.parse::<DateTime>()
        && !token.is_empty()
    {
        return zoned(local, &rest[token.len()..], now);
    }
    let (time, rest) = clock(rest.trim_start_matches([' ', ','])).unwrap_or((Time::midnight(), rest));
    zoned(day.to_datetime(time), rest, now)
}

/// A date in words, a time of day, or both.
fn calendar(text: &str, now: &Zoned) -> Option<Duration> {
    if let Some(rest) = text.strip_prefix("tomorrow") {
        let (time, rest) = clock(after_date(rest)).unwrap_or((Time::midnight(), rest));
        return zoned(now.date().tomorrow().ok()?.to_datetime(time), rest, now);
    }
    if let Some((month, rest)) = month(text) {
        let (day, rest) = integer(rest.trim_start_matches([' ', '.']), 2)?;
        let rest = ["st", "nd", "rd", "th"].iter().find_map(|ending| rest.strip_prefix(ending)).unwrap_or(rest);
        let year = integer(rest.trim_start_matches([' ', ',']), 4).filter(|(year, _)| *year >= 2000);
        let (told, rest) = year.map_or((None, rest), |(year, rest)| (Some(year), rest));
        let (time, rest) = clock(after_date(rest)).unwrap_or((Time::midnight(), rest));
        let date = Date::new(told.unwrap_or(now.year()), month, i8::try_from(day).ok()?).ok()?;
        // `Jan 2` said in December is next year's.
        let past = told.is_none() && (now.date() - date).get_days() > 180;
        let date = if past { Date::new(now.year() + 1, month, date.day()).ok()? } else { date };
        return zoned(date.to_datetime(time), rest, now);
    }
    let (time, rest) = clock(text)?;
    let there = now.with_time_zone(zone(rest).unwrap_or_else(|| now.time_zone().clone()));
    let today = there.date().to_datetime(time).to_zoned(there.time_zone().clone()).ok()?;
    if today.timestamp().as_second() + JUST_PASSED_S >= now.timestamp().as_second() {
        return Some(from_now(today.timestamp(), now));
    }
    Some(from_now(today.tomorrow().ok()?.timestamp(), now))
}

fn after_date(text: &str) -> &str {
    let text = text.trim_start_matches([' ', ',']);
    text.strip_prefix("at ").unwrap_or(text).trim_start()
}

/// `3pm`, `3:05 pm`, `15:00`, `15:00:10`; a bare number is no time.
fn clock(text: &str) -> Option<(Time, &str)> {
    let (hour, mut rest) = integer(text, 2)?;
    let mut fields = [0, 0];
    let mut named = false;
    for field in &mut fields {
        let Some((value, after)) = rest.strip_prefix(':').and_then(|rest| integer(rest, 2)) else { break };
        (*field, rest, named) = (value, after, true);
    }
    let half = rest.trim_start();
    let halves = [("a.m.", 0), ("p.m.", 12), ("a.m", 0), ("p.m", 12), ("am", 0), ("pm", 12)];
    let half = halves.iter().find_map(|(name, hours)| half.strip_prefix(name).map(|rest| (*hours, rest)));
    let hour = match half {
        Some((hours, _)) if (1..=12).contains(&hour) => hour % 12 + hours,
        None if named => hour,
        _ => return None,
    };
    let field = |value: i16| i8::try_from(value).ok();
    let time = Time::new(field(hour)?, field(fields[0])?, field(fields[1])?, 0).ok()?;
    Some((time, half.map_or(rest, |(_, rest)| rest)))
}

/// At most `digits` digits, and no digit after them.
fn integer(text: &str, digits: usize) -> Option<(i16, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if end > digits {
        return None;
    }
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn month(text: &str) -> Option<(i8, &str)> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let (name, rest) = word(text);
    let at = MONTHS.iter().position(|month| name.len() >= 3 && month.starts_with(name))?;
    Some((i8::try_from(at + 1).ok()?, rest))
}

/// The zone named right after a time: `(Europe/Berlin)`, `UTC`, `PT`.
fn zone(text: &str) -> Option<TimeZone> {
    let text = text.trim_start().trim_start_matches('(');
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"/_+-".contains(c)).unwrap_or(text.len());
    match &text[..end] {
        "" => None,
        "utc" | "gmt" | "z" => Some(TimeZone::UTC),
        "pt" | "pst" | "pdt" => TimeZone::get("America/Los_Angeles").ok(),
        "et" | "est" | "edt" => TimeZone::get("America/New_York").ok(),
        name if name.contains('/') => TimeZone::get(name).ok(),
        _ => None,
    }
}

fn zoned(local: DateTime, rest: &str, now: &Zoned) -> Option<Duration> {
    let zone = zone(rest).unwrap_or_else(|| now.time_zone().clone());
    Some(from_now(local.to_zoned(zone).ok()?.timestamp(), now))
}

fn from_now(moment: Timestamp, now: &Zoned) -> Duration {
    let seconds = moment.as_second() - now.timestamp().as_second();
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sunday, 14:00 in Berlin, 13:00 UTC.
    fn now() -> Zoned {
        "2026-11-15T14:00:00[Europe/Berlin]".parse().unwrap()
    }

    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;

    #[test]
    fn wordings_with_a_time() {
        let epoch = now().timestamp().as_second() + 90;
        let piped = format!("Claude AI usage limit reached|{epoch}");
        let at = format!("You have reached your usage limit. It will reset at {epoch}.");
        let milliseconds = format!("usage limit reached, resets at {epoch}000");
        let table: &[(&str, u64)] = &[
            (&piped, 90),
            (&at, 90),
            (&milliseconds, 90),
            ("limit reached until 15:00", HOUR),
            ("Limit reached until 15:30:30.", HOUR + 30 * MINUTE + 30),
            ("try again in 5 minutes", 5 * MINUTE),
            ("Please try again in an hour.", HOUR),
            ("resets at 3pm", HOUR),
            ("5-hour limit reached ∙ resets 3pm", HOUR),
            ("You've hit your limit · resets 3:30pm (Europe/Berlin)", HOUR + 30 * MINUTE),
            ("You've hit your session limit · resets 9am (America/New_York)", HOUR),
            ("Claude usage limit reached. Your limit will reset at 3pm (Europe/Berlin).", HOUR),
            ("You've hit your weekly limit · resets Nov 17, 2pm (Europe/Berlin)", 2 * DAY),
            ("Weekly limit reached ∙ resets Nov 16 at 2am", 12 * HOUR),
            ("Opus weekly limit reached ∙ resets Jan 2, 2pm", 48 * DAY),
            ("You've hit your usage limit. Upgrade to Pro or try again in 2 hours 34 minutes.", 2 * HOUR + 34 * MINUTE),
            ("You've hit your usage limit. Try again in 5 days, 3 hours and 1 minute.", 5 * DAY + 3 * HOUR + MINUTE),
            ("You've hit your usage limit. Try again at 3:05 PM.", HOUR + 5 * MINUTE),
            ("You've hit your usage limit or try again at Nov 21st, 2026 3:00 PM.", 6 * DAY + HOUR),
            ("You've hit your usage limit. Try again tomorrow at 9am.", 19 * HOUR),
            ("Rate limit reached for gpt-5 on tokens per min. Please try again in 6m0s. Visit https://x.", 6 * MINUTE),
            ("You have exhausted your capacity on this model. Your quota will reset after 1h2m3s.", HOUR + 123),
            ("[429] You exceeded your current quota. Please retry in 37s.", 37),
            ("HTTP 429 Too Many Requests\nretry-after: 30 s", 30),
            ("Error 429: quota exceeded\nRetry-After: 45\ndate: Sun", 45),
            ("You have exceeded your rate limit. Please try again in 38 minutes", 38 * MINUTE),
            ("Usage limit reached, resets at 2026-11-15T15:00:00+01:00", HOUR),
            ("Usage limit reached; resets at 2026-11-15 14:00 UTC", HOUR),
            ("Usage limit reached; available again on 2026-11-16T14:00:00", DAY),
            // It has just passed: go on, do not wait for tomorrow.
            ("limit reached until 13:55", 0),
            ("limit reached until 13:00", 23 * HOUR),
        ];
        for (text, seconds) in table {
            assert_eq!(
                limit_text(text, &now()),
                Some(Limit { lifted_in: Some(Duration::from_secs(*seconds)) }),
                "{text}"
            );
        }
        let fraction = limit_text("Rate limit reached. Please try again in 1.898s.", &now());
        assert_eq!(fraction, Some(Limit { lifted_in: Some(Duration::from_millis(1898)) }));
    }

    #[test]
    fn wordings_without_a_time() {
        for text in [
            "Credit balance is too low",
            "You have exhausted your daily quota on this model.",
            "ERROR: exceeded retry limit, last status: 429 Too Many Requests",
            "Error: 429 RESOURCE_EXHAUSTED",
            "You've hit your usage limit. Try again later.",
            "usage limit reached, resets in 99999999 days",
        ] {
            assert_eq!(limit_text(text, &now()), Some(Limit { lifted_in: None }), "{text}");
        }
    }

    #[test]
    fn other_texts() {
        let long = format!("{}\nusage limit reached|1763200000", "a line of a reply\n".repeat(200));
        for text in [
            "",
            "OK",
            "The shared memory limit is reached at 48 KiB per block.",
            "The bandwidth limit reached 92 % of the peak.",
            "Loop until 15 tiles are done; the counter resets 3 times.",
            "if (tid < limit) { until = 15; }",
            "def reset(self): self.limit = 300",
            "The limit resets: 3",
            "Increase the tile size until occupancy drops.",
            "Error: Not logged in. Please run /login",
            "```python\nraise RuntimeError('rate limit exceeded, try again in 5 minutes')\n```",
            "connection refused: try again later",
            &long,
        ] {
            assert_eq!(limit_text(text, &now()), None, "{text}");
        }
    }

    #[test]
    fn odd_text_does_not_break_it() {
        for text in [
            "limit reached until 99:99",
            "limit resets 13pm",
            "limit resets Feb 31 at 3pm",
            "quota resets ü3pm",
            "limit until 2026-99-99",
            "try again in 99999999999999999999999999 hours",
            "try again in 1e400 s",
            "limit until 20261115",
            "limit until ααααααααα 3",
            "limit until",
        ] {
            let _ = limit_text(text, &now());
        }
    }
}
