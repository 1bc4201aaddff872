//! What the reference spends its time on, and what a fused kernel would save.

use super::ladder::{Found, Report, Rung, bytes_text, quoted};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// What the baseline's cell reports.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Reference {
    pub(super) operators: Vec<Operator>,
    /// Bytes that its operators read and write, each tensor once per operator.
    pub(super) moved_bytes: Option<f64>,
    /// Of products, convolutions and attention, exactly.
    pub(super) product_flops: Option<f64>,
    /// One for each element of every other operator: a lower bound.
    pub(super) other_flops: Option<f64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Operator {
    name: String,
    self_us: f64,
    calls: f64,
    bytes: Option<f64>,
    share: f64,
}

impl Reference {
    pub(super) fn flops(&self) -> Option<f64> {
        let sum = self.product_flops? + self.other_flops.unwrap_or(0.0);
        (sum > 0.0).then_some(sum)
    }
}

/// In words; `least` are the bytes that any kernel must move.
pub(super) fn report(torch: &str, reference: &Reference, least: f64) -> Rung {
    let told: Vec<&Operator> = reference.operators.iter().filter(|o| o.share >= 0.03).take(5).collect();
    if told.is_empty() {
        return Err("torch's profiler saw no operators of the reference".to_owned());
    }
    let listed: Vec<String> =
        told.iter().map(|o| format!("{:.0} % in {}", 100.0 * o.share, quoted(&o.name, 60))).collect();
    let mut text = format!("the reference (eager) spends {}", listed.join(", "));
    let mut metrics = vec![("largest_share", told[0].share), ("operators", reference.operators.len() as f64)];
    let mut rank = 45.0;
    if let Some(moved) = reference.moved_bytes.filter(|moved| *moved > 1.2 * least && least > 0.0) {
        let _ = write!(
            text,
            "; its operators move {} while one fused kernel must move {}: fusing saves {}",
            bytes_text(moved),
            bytes_text(least),
            bytes_text(moved - least)
        );
        metrics.extend([("moved_bytes", moved), ("least_bytes", least)]);
        rank = 64.0;
    }
    let rows: Vec<String> = reference.operators.iter().take(12).map(row).collect();
    let documents = vec![("reference-operators.txt".to_owned(), rows.join("\n"))];
    let detail = format!("torch {torch}, eager, warm caches");
    Ok(Report { detail, found: vec![Found::new(rank, text, &metrics)], documents })
}

fn row(o: &Operator) -> String {
    let bytes = o.bytes.map(|bytes| format!(", moves {}", bytes_text(bytes))).unwrap_or_default();
    let name = quoted(&o.name, 60);
    format!("{:5.1} %  {:10.1} us  {:4.0} calls  {name}{bytes}", 100.0 * o.share, o.self_us, o.calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"operators": [
        {"name": "aten::native_layer_norm", "self_us": 610.0, "calls": 1.0, "bytes": 33554432, "share": 0.61},
        {"name": "aten::mul", "self_us": 300.0, "calls": 1.0, "bytes": null, "share": 0.30},
        {"name": "aten::empty", "self_us": 1.0, "calls": 1.0, "bytes": null, "share": 0.001}],
        "moved_bytes": 67108864, "product_flops": 0, "other_flops": 8388608}"#;

    #[test]
    fn shares_and_what_fusing_saves_are_said() {
        let reference: Reference = serde_json::from_str(ANSWER).unwrap();
        let report = report("2.9", &reference, f64::from(32 << 20)).unwrap();
        let text = &report.found[0].text;
        assert!(
            text.contains("61 % in aten::native_layer_norm, 30 % in aten::mul; its operators move 64.0 MiB"),
            "{text}"
        );
        assert!(text.ends_with("fusing saves 32.0 MiB"), "{text}");
        assert!(!text.contains("empty"));
        assert_eq!(reference.flops(), Some(8_388_608.0));
    }

    #[test]
    fn nothing_to_count_is_none() {
        let empty: Reference =
            serde_json::from_str(r#"{"operators": [], "moved_bytes": 0, "product_flops": 0, "other_flops": 0}"#)
                .unwrap();
        assert_eq!(empty.flops(), None);
        assert!(report("2.9", &empty, 1.0).is_err());
        let uncounted: Reference = serde_json::from_str(
            r#"{"operators": [], "moved_bytes": null, "product_flops": null, "other_flops": null}"#,
        )
        .unwrap();
        assert_eq!(uncounted.flops(), None);
    }
}
