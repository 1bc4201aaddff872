//! What the compiler says of loops: which became vector code, which did not and why.

use super::{
    ladder::{Found, Report, Rung, quoted},
    loops::{Loop, loops},
};
use serde::Deserialize;
use std::collections::BTreeMap;

const MOST_MISSED: usize = 4;
/// Lines of one source that are looked at.
const MOST_PLACES: usize = 2000;

/// One source, compiled again with the report switched on.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Build {
    pub(super) name: String,
    pub(super) source: String,
    pub(super) family: String,
    pub(super) version: String,
    pub(super) log: String,
    pub(super) error: String,
}

/// What became of the loop at a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fate {
    /// The widest form, as the compiler puts it: bytes (gcc) or elements (clang).
    Vectorised { bytes: Option<u32>, elements: Option<u32> },
    /// The first reason.
    Missed(String),
}

/// Of every build that left its source.
pub(super) fn report(builds: &[Build]) -> Rung {
    let Some(first) = builds.first() else {
        return Err("no C++ source was built by kforge_rt.build; the report needs the source and its flags".to_owned());
    };
    let mut made = Report { detail: first.version.clone(), ..Report::default() };
    let mut failed = None;
    for build in builds {
        if build.log.is_empty() && !build.error.is_empty() {
            failed = Some(build.error.clone());
            continue;
        }
        let fates = if build.family == "clang" { clang(&build.log) } else { gcc(&build.log) };
        made.found.extend(findings(&build.source, &fates));
        made.documents.push((format!("vectorisation-{}.txt", build.name.trim_end_matches(".json")), build.log.clone()));
    }
    match failed {
        Some(error) if made.documents.is_empty() => Err(format!("{error}; `kforge doctor` says which compilers work")),
        _ => Ok(made),
    }
}

/// By line, from `-fopt-info-vec-optimized-missed`.
pub(super) fn gcc(log: &str) -> BTreeMap<usize, Fate> {
    let mut fates = BTreeMap::new();
    let mut pending: Option<usize> = None;
    for line in log.lines() {
        // What follows a loop that was given up is why, wherever it points: into a header for a call of std::exp.
        if let Some((_, said)) = line.split_once(": missed: ")
            && !said.starts_with("couldn't vectorize loop")
            && let Some(at) = pending.take()
        {
            // Of an outer loop, wherever the compiler believes that it begins.
            if said.contains("loop nest") {
                continue;
            }
            missed(&mut fates, at, said.strip_prefix("not vectorized: ").unwrap_or(said));
            continue;
        }
        let Some((at, message)) = located(line) else { continue };
        if let Some(rest) = message.strip_prefix("optimized: loop vectorized using ") {
            let bytes = rest.split(' ').next().and_then(|word| word.parse().ok());
            vectorised(&mut fates, at, bytes, None);
        } else if message.starts_with("missed: couldn't vectorize loop")
            && let Some(before) = pending.replace(at)
        {
            missed(&mut fates, before, "");
        }
    }
    if let Some(at) = pending {
        missed(&mut fates, at, "");
    }
    fates
}

/// By line, from `-Rpass`, `-Rpass-missed` and `-Rpass-analysis`.
pub(super) fn clang(log: &str) -> BTreeMap<usize, Fate> {
    let mut fates = BTreeMap::new();
    for line in log.lines() {
        let Some((at, message)) = located(line) else { continue };
        let Some(remark) = message.strip_prefix("remark: ") else { continue };
        let text = remark.rsplit_once(" [-R").map_or(remark, |(text, _)| text);
        if let Some((_, rest)) = text.split_once("vectorization width: ") {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            vectorised(&mut fates, at, None, digits.parse().ok());
        } else if let Some(reason) = text.strip_prefix("loop not vectorized: ") {
            missed(&mut fates, at, reason);
        } else if text == "loop not vectorized" {
            missed(&mut fates, at, "");
        }
    }
    fates
}

/// `kernel.cpp:12:3: message` of the candidate's own file.
fn located(line: &str) -> Option<(usize, &str)> {
    let rest = line.strip_prefix("kernel.")?;
    let mut parts = rest.splitn(4, ':');
    let (_, at, _, message) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some((at.parse().ok()?, message.trim()))
}

fn vectorised(fates: &mut BTreeMap<usize, Fate>, at: usize, bytes: Option<u32>, elements: Option<u32>) {
    // An epilogue is narrower than its loop, and one instance of a template may fail where another does not.
    let (bytes, elements) = match fates.get(&at) {
        Some(Fate::Vectorised { bytes: b, elements: e }) => (bytes.max(*b), elements.max(*e)),
        _ => (bytes, elements),
    };
    fates.insert(at, Fate::Vectorised { bytes, elements });
}

fn missed(fates: &mut BTreeMap<usize, Fate>, at: usize, reason: &str) {
    match fates.get_mut(&at) {
        None => {
            fates.insert(at, Fate::Missed(reason.to_owned()));
        }
        Some(Fate::Missed(known)) if known.is_empty() => reason.clone_into(known),
        Some(_) => {}
    }
}

/// In words, by loops of the source; outer loops only matter where nothing inside them is known.
fn findings(source: &str, fates: &BTreeMap<usize, Fate>) -> Vec<Found> {
    let lines: Vec<&str> = source.lines().collect();
    let loops = loops(source);
    let mut of_loop: BTreeMap<usize, (Loop, Fate)> = BTreeMap::new();
    for (&at, fate) in fates.iter().take(MOST_PLACES) {
        // Reports on OpenMP loops point at the pragma.
        let pragma = lines.get(at.wrapping_sub(1)).is_some_and(|text| text.trim_start().starts_with('#'));
        let found = if pragma {
            loops.iter().find(|l| l.line >= at)
        } else {
            loops.iter().filter(|l| (l.line..=l.last).contains(&at)).max_by_key(|l| l.depth)
        };
        let Some(found) = found.filter(|l| l.innermost) else { continue };
        let known = of_loop.get(&found.line).map(|(_, fate)| fate);
        if !matches!(known, Some(Fate::Vectorised { .. })) || matches!(fate, Fate::Vectorised { .. }) {
            of_loop.insert(found.line, (*found, fate.clone()));
        }
    }
    let text_of = |line: usize| quoted(lines.get(line.wrapping_sub(1)).copied().unwrap_or_default(), 100);
    let deepest = of_loop.values().map(|(l, _)| l.depth).max().unwrap_or(0);
    let mut missed: Vec<Found> = Vec::new();
    let mut good: Vec<(usize, u32)> = Vec::new();
    for (place, fate) in of_loop.values() {
        match fate {
            Fate::Missed(reason) => {
                let body = lines[place.line.saturating_sub(1)..place.last.min(lines.len())].join("\n");
                let rank = 85.0 - 10.0 * (deepest - place.depth) as f64;
                let text = format!(
                    "the loop at line {} (`{}`) is not vectorised: {}",
                    place.line,
                    text_of(place.line),
                    explained(reason, &body)
                );
                let metrics = [("line", place.line as f64), ("loop_depth", place.depth as f64)];
                missed.push(Found::new(rank, text, &metrics));
            }
            Fate::Vectorised { bytes, elements } => good.push((place.line, bytes.or(*elements).unwrap_or(0))),
        }
    }
    missed.sort_by(|a, b| f64::total_cmp(&b.rank, &a.rank));
    missed.truncate(MOST_MISSED);
    let in_bytes = fates.values().any(|fate| matches!(fate, Fate::Vectorised { bytes: Some(_), .. }));
    missed.extend(summary(&good, in_bytes));
    missed
}

fn summary(good: &[(usize, u32)], in_bytes: bool) -> Option<Found> {
    let widest = good.iter().map(|(_, width)| *width).max()?;
    let unit = if in_bytes { "bytes" } else { "elements" };
    let listed: Vec<String> =
        good.iter().take(8).map(|(line, width)| format!("line {line} with {width} {unit}")).collect();
    let more = if good.len() > 8 { format!(" and {} more", good.len() - 8) } else { String::new() };
    let text = format!(
        "the compiler vectorised {} innermost loop{}: {}{more}",
        good.len(),
        plural(good.len()),
        listed.join(", ")
    );
    let name = if in_bytes { "widest_bytes" } else { "widest_elements" };
    Some(Found::new(30.0, text, &[("loops_vectorised", good.len() as f64), (name, f64::from(widest))]))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The compiler's reason, with what it usually means.
fn explained(reason: &str, body: &str) -> String {
    const CALLS: [&str; 12] =
        ["expf", "exp", "logf", "log", "tanhf", "tanh", "erff", "erf", "powf", "pow", "sinf", "cosf"];
    let said = if reason.is_empty() { "the compiler gives no reason".to_owned() } else { quoted(reason, 140) };
    if let Some(call) = ["fmax", "fmin"].into_iter().find(|call| body.contains(&format!("{call}("))) {
        return format!("std::{call} has rules for NaN that keep it scalar; write a select (`a > b ? a : b`) ({said})");
    }
    if let Some(call) = CALLS.into_iter().find(|call| body.contains(&format!("{call}("))) {
        return format!("it calls {call}, which has no vector form under these flags ({said})");
    }
    let hint = match reason {
        r if r.contains("reorder floating-point") || r.contains("unsupported use in stmt") => {
            "a reduction: its order may only change under `#pragma omp simd reduction(...)` or with several partial sums"
        }
        r if r.contains("control flow") => "a branch in the body: write it as a select (`c ? a : b`)",
        r if r.contains("alias") || r.contains("dependence") || r.contains("unsafe dependent") => {
            "pointers may overlap: use __restrict__ or `#pragma omp simd`"
        }
        r if r.contains("number of iterations") || r.contains("trip count") || r.contains("iteration count") => {
            "how often it runs is not known beforehand: take the bound out of the loop"
        }
        r if r.contains("no vectype") || r.contains("not supported") => "an operation without a vector form",
        r if r.contains("clobbers memory") => "a call that the compiler must assume writes anywhere",
        r if r.contains("complicated access") || r.contains("data ref") => "elements are not contiguous",
        r if r.contains("cost") || r.contains("beneficial") || r.contains("profitable") => {
            "the compiler thinks it does not pay"
        }
        _ => return said,
    };
    format!("{said} ({hint})")
}

#[cfg(test)]
mod tests;
