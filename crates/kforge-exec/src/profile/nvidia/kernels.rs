//! Which kernels a call of the candidate launches, and how long each takes: torch's profiler in its own process.

use super::{
    super::ladder::{Found, Report, Rung},
    findings,
    names::{is_framework, plain},
};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

const MOST_ROWS: usize = 40;
/// From this part of the kernels' time on framework kernels are worth a word.
const FRAMEWORK_PART: f64 = 0.1;

/// What the candidate's cell answers; all of it was in hostile hands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Seen {
    pub(super) kernels: Vec<SeenKernel>,
    pub(super) error: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SeenKernel {
    pub(super) name: String,
    /// In one call, all launches together.
    pub(super) us: f64,
    /// In one call.
    pub(super) launches: f64,
}

impl Seen {
    pub(super) fn total_us(&self) -> f64 {
        self.kernels.iter().map(|kernel| kernel.us.max(0.0)).sum()
    }

    /// Names of kernels that no framework brought along.
    pub(super) fn own(&self) -> Vec<String> {
        self.kernels.iter().map(|kernel| &kernel.name).filter(|name| !is_framework(name)).cloned().collect()
    }
}

pub(super) fn report(torch: &str, seen: &Seen, time_us: Option<f64>) -> Rung {
    if let Some(error) = &seen.error {
        return Err(format!("torch's profiler failed: {error}"));
    }
    let total = seen.total_us();
    if !(total > 0.0 && total.is_finite()) {
        return Err("torch's profiler saw no kernel on the GPU; is CUPTI usable here?".to_owned());
    }
    let mut made = Report { detail: format!("torch {torch}, warm caches"), ..Report::default() };
    let launches: f64 = seen.kernels.iter().map(|kernel| kernel.launches.max(0.0)).sum();
    made.found.extend(time_us.and_then(|time_us| findings::launches(total, launches, time_us)));
    let framework: Vec<&SeenKernel> = seen.kernels.iter().filter(|kernel| is_framework(&kernel.name)).collect();
    let part = framework.iter().map(|kernel| kernel.us.max(0.0)).sum::<f64>() / total;
    if part >= FRAMEWORK_PART {
        let mut largest = framework.clone();
        largest.sort_by(|a, b| f64::total_cmp(&b.us, &a.us));
        let names: Vec<String> = largest.iter().take(3).map(|kernel| plain(&kernel.name)).collect();
        let text = format!(
            "{:.0} % of the kernels' time is in kernels of the framework or of vendor libraries ({}), not the candidate's own",
            100.0 * part,
            names.join(", ")
        );
        let rank = if part > 0.5 { 82.0 } else { 60.0 };
        made.found.push(Found::new(rank, text, &[("framework_part", part)]));
    }
    let mut rows: Vec<&SeenKernel> = seen.kernels.iter().collect();
    rows.sort_by(|a, b| f64::total_cmp(&b.us, &a.us));
    let mut table = String::new();
    for kernel in rows.into_iter().take(MOST_ROWS) {
        let whose = if is_framework(&kernel.name) { "framework" } else { "own" };
        let (name, us) = (plain(&kernel.name), kernel.us);
        let _ = writeln!(
            table,
            "{:5.1} %  {us:9.2} us  {:4.0} launches  {whose:9}  {name}",
            100.0 * us / total,
            kernel.launches
        );
    }
    made.documents.push(("kernels.txt".to_owned(), table));
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        serde_json::from_str(
            r#"{"kernels": [{"name": "softmax", "us": 8.0, "launches": 1},
                            {"name": "void at::native::vectorized_elementwise_kernel<4>", "us": 12.0, "launches": 3}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn framework_time_and_launches_are_said() {
        let report = report("2.11", &seen(), Some(100.0)).unwrap();
        let texts: Vec<&str> = report.found.iter().map(|found| found.text.as_str()).collect();
        assert!(
            texts[0].starts_with("launch-bound: kernels run for 20.0 of 100.0 us a call, in 4 launches"),
            "{texts:?}"
        );
        assert!(texts[1].starts_with("60 % of the kernels' time is in kernels of the framework"), "{texts:?}");
        assert!(report.documents[0].1.contains("own        softmax"), "{}", report.documents[0].1);
        assert_eq!(seen().own(), ["softmax"]);
    }

    #[test]
    fn nothing_is_a_reason_and_nonsense_is_read_as_nothing() {
        assert!(report("2.11", &Seen::default(), None).unwrap_err().contains("CUPTI"));
        let failed = Seen { error: Some("no".into()), ..Seen::default() };
        assert!(report("2.11", &failed, None).unwrap_err().contains("failed: no"));
        let odd: Seen = serde_json::from_str(r#"{"kernels": [{"name": "", "us": -5}], "more": 1}"#).unwrap();
        assert!(report("2.11", &odd, Some(1.0)).is_err());
    }
}
