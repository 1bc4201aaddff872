//! What the rungs give, put together: sources in the order they were tried, findings by importance, bounded texts.

use crate::log::bounded;
use kforge_types::{Profile, ProfileDocument, ProfileFinding, ProfileSource, Roofline};

const MOST_FINDINGS: usize = 12;
const LONGEST_FINDING: usize = 600;
const LONGEST_DETAIL: usize = 400;
const LONGEST_DOCUMENT: usize = 16 * 1024;

/// One finding with its importance, from 0 to 100.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) rank: f64,
    pub(super) text: String,
    pub(super) metrics: Vec<(&'static str, f64)>,
}

impl Found {
    pub(super) fn new(rank: f64, text: impl Into<String>, metrics: &[(&'static str, f64)]) -> Self {
        Self { rank, text: text.into(), metrics: metrics.to_vec() }
    }
}

/// What one rung gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Report {
    /// Which program in which version, or how it was measured.
    pub(super) detail: String,
    pub(super) found: Vec<Found>,
    /// Name and text.
    pub(super) documents: Vec<(String, String)>,
}

impl Report {
    /// Kept from an earlier profile, which its line says.
    pub(super) fn kept_before(mut self) -> Self {
        self.detail.push_str("; from an earlier profile");
        self
    }
}

/// Its report, or the reason why there is none and what would mend that.
pub(super) type Rung = Result<Report, String>;

/// Everything found so far.
#[derive(Default)]
pub(super) struct Ladder {
    sources: Vec<ProfileSource>,
    found: Vec<(f64, ProfileFinding)>,
    documents: Vec<ProfileDocument>,
}

impl Ladder {
    /// Notes the outcome of one rung.
    pub(super) fn note(&mut self, name: &str, seconds: f64, tried: Rung) {
        let had = tried.is_ok();
        let (detail, report) = match tried {
            Ok(report) => (report.detail.clone(), report),
            Err(reason) => (reason, Report::default()),
        };
        self.sources.push(ProfileSource {
            name: name.to_owned(),
            had,
            detail: bounded(&detail, LONGEST_DETAIL),
            seconds,
        });
        for found in report.found {
            let finding = ProfileFinding {
                text: bounded(&found.text, LONGEST_FINDING),
                source: name.to_owned(),
                metrics: found
                    .metrics
                    .into_iter()
                    .filter(|(_, value)| value.is_finite())
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
            };
            self.found.push((found.rank, finding));
        }
        for (name, text) in report.documents {
            let text = bounded(&text, LONGEST_DOCUMENT);
            self.documents.push(ProfileDocument { name: file_name(&name), text });
        }
    }

    /// Takes over what another ladder found, behind what is here.
    pub(super) fn append(&mut self, other: Self) {
        self.sources.extend(other.sources);
        self.found.extend(other.found);
        self.documents.extend(other.documents);
    }

    /// Whether this rung was tried and gave something.
    pub(super) fn has(&self, name: &str) -> bool {
        self.sources.iter().any(|source| source.name == name && source.had)
    }

    /// The most important findings first; of equal ones, those that were found first.
    pub(super) fn finish(mut self, roofline: Option<Roofline>) -> Profile {
        self.found.sort_by(|a, b| f64::total_cmp(&b.0, &a.0));
        self.found.truncate(MOST_FINDINGS);
        Profile {
            sources: self.sources,
            findings: self.found.into_iter().map(|(_, finding)| finding).collect(),
            roofline,
            documents: self.documents,
        }
    }
}

/// One line of hostile origin inside a sentence: printable, short, without line breaks.
pub(super) fn quoted(text: &str, most: usize) -> String {
    bounded(&text.split_whitespace().collect::<Vec<_>>().join(" "), most)
}

fn file_name(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).take(60).collect();
    plain.trim_start_matches('.').to_owned()
}

/// `3.2 MiB`, `16 KiB`.
pub(super) fn bytes_text(bytes: f64) -> String {
    match bytes {
        b if b >= f64::from(1 << 30) => format!("{:.2} GiB", b / f64::from(1 << 30)),
        b if b >= f64::from(1 << 20) => format!("{:.1} MiB", b / f64::from(1 << 20)),
        b if b >= 1024.0 => format!("{:.0} KiB", b / 1024.0),
        b => format!("{b:.0} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_ordered_bounded_and_printable() {
        let mut ladder = Ladder::default();
        let found = (0..30).map(|i| Found::new(f64::from(i), format!("\u{1b}[2J{i} {}", "x".repeat(5000)), &[]));
        let report = Report {
            detail: "d".repeat(9000),
            found: found.collect(),
            documents: vec![("../a b".into(), "y".repeat(99_999))],
        };
        ladder.note("one", 0.5, Ok(report));
        ladder.note("two", 0.5, Err("not here".to_owned()));
        assert!(ladder.has("one") && !ladder.has("two"));
        let profile = ladder.finish(None);
        assert_eq!(profile.findings.len(), MOST_FINDINGS);
        assert!(profile.findings[0].text.contains("29 x") && !profile.findings[0].text.contains('\u{1b}'));
        assert!(profile.findings.iter().all(|f| f.text.chars().count() <= LONGEST_FINDING + 6));
        assert_eq!(profile.documents[0].name, "_a_b");
        assert!(profile.documents[0].text.len() < LONGEST_DOCUMENT + 10);
        assert_eq!((profile.sources[1].had, profile.sources[1].detail.as_str()), (false, "not here"));
    }

    #[test]
    fn numbers_that_are_none_are_left_out() {
        let mut ladder = Ladder::default();
        let found = Found::new(1.0, "t", &[("a", f64::NAN), ("b", 2.0)]);
        ladder.note("one", 0.5, Ok(Report { found: vec![found], ..Report::default() }));
        let metrics = &ladder.finish(None).findings[0].metrics;
        assert_eq!(metrics.keys().collect::<Vec<_>>(), ["b"]);
    }
}
