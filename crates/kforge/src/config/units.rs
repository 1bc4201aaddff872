//! Quantities as people write them: `90s`, `30m`, `1h30m`, `$2.50`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{fmt, str::FromStr, time::Duration};

/// Nothing here takes longer than a year.
const MAX_SECONDS: f64 = 366.0 * 86400.0;
const MAX_USD: f64 = 1e6;

/// A length of time, more than none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span(pub Duration);

/// An amount of US dollars, more than none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usd(pub f64);

/// A finite number above zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Positive(pub f64);

/// How freely a model samples, 0 to 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temperature(pub f64);

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Of the prompt.
    pub input: f64,
    /// Of the reply.
    pub output: f64,
    /// Of the part of the prompt that came from a cache; the full price where it is not said.
    pub cached_input: Option<f64>,
}

impl Span {
    /// So many seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a length of time: write 90s, 30m, 2h, 1h30m or a number of seconds");
        let mut rest = text.trim();
        if let Some(seconds) = number(rest) {
            return span(seconds).ok_or_else(wrong);
        }
        let mut total = 0.0;
        let mut last = f64::INFINITY;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let (amount, after) = rest.split_at(digits);
            let unit = after.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            let seconds = match unit {
                "ms" => 1e-3,
                "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86400.0,
                _ => return Err(wrong()),
            };
            // `30m2h` is more likely a mistake than a sum.
            if seconds >= last {
                return Err(wrong());
            }
            last = seconds;
            total += number(amount).ok_or_else(wrong)? * seconds;
            rest = after[unit.len()..].trim_start();
        }
        span(total).ok_or_else(wrong)
    }
}

fn span(seconds: f64) -> Option<Span> {
    // What rounds to nothing is no time either.
    (seconds <= MAX_SECONDS).then(|| Span(Duration::from_secs_f64(seconds))).filter(|span| !span.0.is_zero())
}

/// A plain decimal number; Rust would also take `inf`, `nan` and `1e9`.
fn number(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    plain.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0.as_secs(), self.0.subsec_nanos());
        if rest != 0 {
            return write!(f, "{}s", self.0.as_secs_f64());
        }
        for (unit, name) in [(3600, "h"), (60, "m")] {
            if seconds >= unit && seconds.is_multiple_of(unit) {
                return write!(f, "{}{name}", seconds / unit);
            }
        }
        write!(f, "{seconds}s")
    }
}

impl FromStr for Usd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let plain = trimmed.strip_prefix('$').unwrap_or(trimmed);
        let plain = plain.strip_suffix("USD").or_else(|| plain.strip_suffix("usd")).unwrap_or(plain).trim();
        let amount = number(plain).filter(|usd| *usd > 0.0 && *usd <= MAX_USD);
        amount.map(Self).ok_or_else(|| format!("{text:?} is not an amount of US dollars: write 2.50, $2.50 or 2.50usd"))
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.2}", self.0)
    }
}

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let amount = |part: &str| {
            let part = part.trim();
            number(part.strip_prefix('$').unwrap_or(part)).filter(|usd| *usd <= MAX_USD)
        };
        let amounts: Option<Vec<f64>> = text.split(',').map(amount).collect();
        match amounts.as_deref() {
            Some([input, output]) => Ok(Self { input: *input, output: *output, cached_input: None }),
            Some([input, output, cached]) => Ok(Self { input: *input, output: *output, cached_input: Some(*cached) }),
            _ => Err(format!(
                "{text:?} is not a price: write dollars per million tokens read and written, such as 1.25,10, and what \
                 is read from a cache third: 1.25,10,0.125"
            )),
        }
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.input, self.output)?;
        self.cached_input.map_or(Ok(()), |cached| write!(f, ",{cached}"))
    }
}

impl From<Price> for kforge_models::Prices {
    fn from(price: Price) -> Self {
        Self { input: price.input, cached_input: price.cached_input, output: price.output }
    }
}

impl FromStr for Positive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = text.trim().parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
        known.map(Self).ok_or_else(|| format!("{text:?} is not a number above zero"))
    }
}

impl FromStr for Temperature {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = text.trim().parse().ok().filter(|value| (0.0..=2.0).contains(value));
        known.map(Self).ok_or_else(|| format!("{text:?} is not a temperature: write a number from 0 to 2"))
    }
}

/// In a file, numbers may be written as numbers.
fn text_or_number<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = String>,
    D: Deserializer<'de>,
{
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a number or a text was expected")]
    enum Raw {
        Integer(i64),
        Float(f64),
        Text(String),
    }
    let text = match Raw::deserialize(deserializer)? {
        Raw::Integer(value) => value.to_string(),
        Raw::Float(value) => value.to_string(),
        Raw::Text(value) => value,
    };
    text.parse().map_err(D::Error::custom)
}

macro_rules! in_files {
    ($($name:ident writes $value:expr;)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text_or_number(deserializer)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let value: fn(&Self) -> _ = $value;
                value(self).serialize(serializer)
            }
        }
    )*};
}

in_files! {
    Span writes |span| span.to_string();
    Usd writes |usd| usd.0;
    Price writes |price| price.to_string();
    Positive writes |value| value.0;
    Temperature writes |value| value.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_written() {
        let cases = [
            ("90", 90.0),
            ("90s", 90.0),
            ("1.5", 1.5),
            (" 30m ", 1800.0),
            ("2h", 7200.0),
            ("1h30m", 5400.0),
            ("1h 30m 5s", 5405.0),
            ("500ms", 0.5),
            ("1d", 86400.0),
            ("0.5h", 1800.0),
        ];
        for (text, seconds) in cases {
            assert_eq!(text.parse::<Span>().map(|span| span.0.as_secs_f64()), Ok(seconds), "{text}");
        }
        let wrong = [
            "",
            "s",
            "-1",
            "-1s",
            "0",
            "0s",
            "inf",
            "nan",
            "1e9",
            "5x",
            "30m2h",
            "0.0000000001s",
            "1m1m",
            "1..2s",
            "9999999h",
            "5 5",
            "½h",
        ];
        for text in wrong {
            let error = text.parse::<Span>().expect_err(text);
            assert!(error.contains("write 90s, 30m"), "{error}");
        }
    }

    #[test]
    fn lengths_of_time_are_written_as_they_are_read() {
        for text in ["90s", "30m", "2h", "1.5s", "3601s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn money_is_read_with_and_without_its_sign() {
        for text in ["2.50", "$2.50", "2.5usd", "2.5 USD", " $2.5 "] {
            assert_eq!(text.parse::<Usd>(), Ok(Usd(2.5)), "{text}");
        }
        for text in ["", "$", "-1", "0", "nan", "inf", "2,50", "€2", "1e3", "99999999999"] {
            assert!(text.parse::<Usd>().is_err(), "{text}");
        }
        assert_eq!(Usd(5.0).to_string(), "$5.00");
    }

    #[test]
    fn prices_are_read_as_they_are_written() {
        let price = |input, output, cached_input| Price { input, output, cached_input };
        let cases = [
            ("1.25,10", price(1.25, 10.0, None)),
            (" $1.25, $10, 0.125 ", price(1.25, 10.0, Some(0.125))),
            ("0,0", price(0.0, 0.0, None)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Price>(), Ok(expected), "{text}");
            assert_eq!(expected.to_string().parse::<Price>(), Ok(expected), "{text}");
        }
        for text in ["", "1", "1,", "1,2,3,4", "-1,2", "a,b", "nan,1", "1;2", "99999999,1"] {
            assert!(text.parse::<Price>().unwrap_err().contains("1.25,10,0.125"), "{text}");
        }
    }

    #[test]
    fn numbers_have_bounds() {
        assert_eq!("0.1".parse(), Ok(Positive(0.1)));
        assert!(["0", "-1", "inf", "NaN", ""].iter().all(|text| text.parse::<Positive>().is_err()));
        assert_eq!("0".parse(), Ok(Temperature(0.0)));
        assert!(["2.1", "-0.1", "NaN"].iter().all(|text| text.parse::<Temperature>().is_err()));
    }
}
