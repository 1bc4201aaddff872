//! The rung of Nsight Compute: how it is called, and its numbers as findings and a table.

use super::{
    super::ladder::{Report, Rung},
    findings::{self, Kernel, Scene},
    metrics,
    names::{is_framework, plain},
    ncu::{Launch, Log},
    sass::Facts,
};
use crate::log::bounded;
use std::{collections::BTreeMap, fmt::Write};

/// Launches that are measured in one call.
const MOST_LAUNCHES: u32 = 16;
/// Kernels that are spoken of.
const MOST_TOLD: usize = 3;
const DOCUMENT: usize = 15_000;
const MOST_DOCUMENTS: usize = 6;

/// The arguments in front of the program.
pub(super) fn arguments(asked: &[&str], everything: bool, pattern: Option<&str>) -> Vec<String> {
    let launches = MOST_LAUNCHES.to_string();
    let metrics = asked.join(",");
    let mut made: Vec<&str> = vec![
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        // Clocks as they are when the candidate is timed; fixing them needs rights, too.
        "--clock-control",
        "none",
        "--profile-from-start",
        "off",
        "--target-processes",
        "application-only",
        "--kernel-name-base",
        "mangled",
        // Names as the linker knows them: by these the machine code of a kernel is found.
        "--print-kernel-base",
        "mangled",
        "--launch-count",
        &launches,
        "--metrics",
        &metrics,
    ];
    if everything {
        made.extend(["--set", "full"]);
    }
    if let Some(pattern) = pattern {
        made.extend(["--kernel-name", pattern]);
    }
    made.into_iter().map(str::to_owned).collect()
}

/// Launches of one kernel put together.
struct Group<'a> {
    name: &'a str,
    launches: usize,
    ns: f64,
    longest: &'a Launch,
}

/// In words. `own` are the mangled names of what the candidate built, `facts` what their code looks like.
pub(super) fn report(
    detail: &str,
    log: &Log,
    own: &[String],
    facts: &BTreeMap<String, Facts>,
    scene: &Scene,
    absent: &[String],
) -> Rung {
    let is_own = |name: &str| own.iter().any(|known| known == name) || !is_framework(name);
    let mut groups: Vec<Group<'_>> = Vec::new();
    for launch in log.launches.iter().filter(|launch| is_own(&launch.kernel)) {
        let ns = launch.values.get(metrics::DURATION).copied().unwrap_or(0.0);
        match groups.iter_mut().find(|group| group.name == launch.kernel) {
            Some(group) => {
                group.launches += 1;
                group.ns += ns;
                let longest = group.longest.values.get(metrics::DURATION).copied().unwrap_or(0.0);
                if ns > longest {
                    group.longest = launch;
                }
            }
            None => groups.push(Group { name: &launch.kernel, launches: 1, ns, longest: launch }),
        }
    }
    if groups.is_empty() {
        let names: Vec<String> = log.launches.iter().take(5).map(|launch| plain(&launch.kernel)).collect();
        return Err(format!("none of the candidate's own kernels ran; these did: {}", names.join(", ")));
    }
    groups.sort_by(|a, b| f64::total_cmp(&b.ns, &a.ns));
    let total: f64 = groups.iter().map(|group| group.ns).sum::<f64>().max(1e-9);
    let mut made = Report { detail: describe(detail, log, absent), ..Report::default() };
    // Of more launches than were measured nobody knows how long the others took.
    let all_measured = log.launches.len() < MOST_LAUNCHES as usize;
    made.found.extend(scene.time_us.filter(|_| all_measured).and_then(|us| findings::others(total / 1e3, us)));
    for group in groups.iter().take(MOST_TOLD) {
        let kernel = Kernel {
            name: plain(group.name),
            share: group.ns / total,
            launch: group.longest,
            load_bytes: facts.get(group.name).and_then(Facts::widest_load),
        };
        made.found.extend(findings::of(&kernel, scene));
    }
    made.documents = table(&groups, total);
    Ok(made)
}

fn describe(detail: &str, log: &Log, absent: &[String]) -> String {
    let missing = |names: &[&str]| -> Vec<String> {
        let gone = |name: &&&str| absent.iter().chain(&log.empty).any(|other| other == **name);
        names.iter().filter(gone).map(|name| (*name).to_owned()).collect()
    };
    let (chosen, free) = (missing(&metrics::CHOSEN), missing(&metrics::FREE));
    let mut text =
        format!("{detail}; {} of the {} metrics", metrics::CHOSEN.len() - chosen.len(), metrics::CHOSEN.len());
    for (what, names) in [("this chip does not have", chosen), ("nor of the extra ones", free)] {
        if !names.is_empty() {
            let _ = write!(text, "; {what}: {}", names.join(", "));
        }
    }
    bounded(&text, 390)
}

/// Chosen metrics of every kernel first, then whatever else was captured; in documents of bounded size.
fn table(groups: &[Group<'_>], total: f64) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for group in groups {
        let part = 100.0 * group.ns / total;
        let what = format!("{part:.1} % of the own kernels' time, {} launches", group.launches);
        lines.push(format!("{} ({what})", plain(group.name)));
        let known: Vec<&str> = metrics::CHOSEN.iter().chain(&metrics::FREE).copied().collect();
        let values = &group.longest.values;
        lines.extend(known.iter().filter_map(|name| values.get(*name).map(|value| format!("  {name} = {value}"))));
        let others = values.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        lines.extend(others.map(|(name, value)| format!("  {} = {value}", bounded(name, 120))));
    }
    let mut documents: Vec<(String, String)> = Vec::new();
    for line in lines {
        let room = documents.last().is_some_and(|(_, text)| text.len() + line.len() < DOCUMENT);
        if let Some((_, text)) = documents.last_mut().filter(|_| room) {
            text.push('\n');
            text.push_str(&line);
        } else if documents.len() < MOST_DOCUMENTS {
            let number = documents.len() + 1;
            let name = if number == 1 { "metrics.txt".to_owned() } else { format!("metrics-{number}.txt") };
            documents.push((name, line));
        } else {
            break;
        }
    }
    documents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::nvidia::ncu;

    #[test]
    fn own_kernels_alone_are_spoken_of_and_what_is_missing_is_named() {
        let log = ncu::parse(include_str!("fixtures/ncu.csv"));
        let absent = vec!["sm__inst_executed_pipe_fp32.avg.pct_of_peak_sustained_active".to_owned()];
        let own = vec!["_Z7softmaxPKfPfi".to_owned()];
        let report = report("Nsight Compute 2025.3", &log, &own, &BTreeMap::new(), &Scene::default(), &absent).unwrap();
        assert!(
            report.detail.starts_with("Nsight Compute 2025.3; 22 of the 24 metrics; this chip does not have: sm__inst"),
            "{}",
            report.detail
        );
        assert!(
            report.documents[0].1.starts_with("softmax (100.0 % of the own kernels' time, 1 launches)"),
            "{:?}",
            report.documents
        );
        assert!(!report.documents[0].1.contains("native"));
        let foreign = Log { launches: log.launches[1..].to_vec(), ..Log::default() };
        let none = super::report("x", &foreign, &own, &BTreeMap::new(), &Scene::default(), &[]);
        assert!(none.unwrap_err().contains("these did: x"));
    }

    #[test]
    fn launches_of_one_kernel_are_put_together() {
        let launch = |kernel: &str, ns: f64, percent: f64| Launch {
            kernel: kernel.into(),
            values: [(metrics::DURATION.to_owned(), ns), (metrics::DRAM_PERCENT.to_owned(), percent)].into(),
        };
        let log = Log {
            launches: vec![launch("a", 10.0, 90.0), launch("b", 60.0, 70.0), launch("a", 30.0, 95.0)],
            ..Log::default()
        };
        let report = report("x", &log, &[], &BTreeMap::new(), &Scene::default(), &[]).unwrap();
        let text = &report.documents[0].1;
        assert!(text.starts_with("b (60.0 % of the own kernels' time, 1 launches)"), "{text}");
        assert!(text.contains("a (40.0 % of the own kernels' time, 2 launches)") && text.contains("= 95"), "{text}");
        assert!(report.found[0].text.contains("kernel b (60 % of the own kernels' time) is memory-bound"));
    }

    #[test]
    fn a_call_that_is_mostly_not_its_own_kernels_is_told_so() {
        let values: BTreeMap<String, f64> = [(metrics::DURATION.to_owned(), 14_000.0)].into();
        let launch = Launch { kernel: "tail".into(), values };
        let found = |time_us, launches| {
            let log = Log { launches: vec![launch.clone(); launches], ..Log::default() };
            let scene = Scene { time_us, ..Scene::default() };
            report("x", &log, &[], &BTreeMap::new(), &scene, &[]).unwrap().found
        };
        assert!(found(Some(700.0), 1)[0].text.starts_with("its own kernels take 2 % of a call (14.0 of 700.0 us)"));
        assert!(found(Some(15.0), 1).is_empty() && found(None, 1).is_empty());
        assert!(found(Some(700.0), MOST_LAUNCHES as usize).is_empty());
    }

    #[test]
    fn everything_is_split_into_documents() {
        let values = (0..5000).map(|n| (format!("a__{n}"), 1.0)).collect();
        let log = Log { launches: vec![Launch { kernel: "k".into(), values }], ..Log::default() };
        let documents = report("x", &log, &[], &BTreeMap::new(), &Scene::default(), &[]).unwrap().documents;
        assert!(documents.len() > 1 && documents.len() <= MOST_DOCUMENTS);
        assert!(documents.iter().all(|(_, text)| text.len() <= DOCUMENT + 200));
    }

    #[test]
    fn the_call_names_what_is_wanted() {
        let plain = arguments(&["a", "b"], false, None).join(" ");
        assert!(plain.contains("--clock-control none --profile-from-start off") && plain.ends_with("--metrics a,b"));
        let full = arguments(&["a"], true, Some("regex:^(k)$")).join(" ");
        assert!(full.ends_with("--set full --kernel-name regex:^(k)$"));
    }
}
