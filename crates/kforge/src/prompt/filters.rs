//! Filters that templates use.

use crate::text;
use minijinja::Environment;

pub(super) fn add(environment: &mut Environment<'_>) {
    environment.add_filter("fenced", |text: &str, info: Option<&str>| text::fenced(text, info.unwrap_or_default()));
    environment.add_filter("us", |us: f64| format!("{us:.1} us"));
    environment.add_filter("num", number);
}

/// Five significant digits, without an exponent where a person would not use one.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..15).contains(&magnitude) {
        return format!("{value:.4e}");
    }
    let text = format!("{value:.*}", usize::try_from(4 - magnitude).unwrap_or(0));
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_keep_five_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (12.345_678, "12.346"),
            (0.001_234_56, "0.0012346"),
            (123_456.7, "123457"),
            (1e20, "1.0000e20"),
            (1e-9, "1.0000e-9"),
            (-0.5, "-0.5"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
