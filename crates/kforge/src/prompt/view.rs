//! Inputs as templates see them: cleaned, bounded, with defaults put into words.
//!
//! Whatever is not in these structs cannot get into a prompt. In particular a candidate's own output is shown only from
//! before it was given any input: what it prints later could be the secret inputs.

use super::{
    caps,
    files::{self, Edits},
    input::{Failure, Job},
};
use crate::{
    target::{self, ChipSpecs},
    text::{one_line, tame},
};
use kforge_types::{EvalResult, Kind, Profile, Roofline, Severity, State};
use serde::Serialize;

/// What every prompt has.
#[derive(Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a condition in a template")]
pub(super) struct JobView {
    problem_file: String,
    problem_source: String,
    target: String,
    /// Whether the CPU itself is the target.
    cpu: bool,
    task: String,
    contract: ContractView,
    device: DeviceView,
    /// What kernels are compiled for.
    arch: String,
    /// The number in it for NVIDIA's chips, so that guides can choose by generation; 0 for others.
    sm: u32,
    torch: String,
    compiler: String,
    distributions: Vec<String>,
    problem_notes: Vec<String>,
    /// Inputs and buffers that the reference writes.
    writes: Vec<String>,
    /// Nothing has been judged yet, so nobody knows.
    writes_unknown: bool,
    /// Whether modules are in evaluation mode; not known before the problem was looked at.
    evaluation_mode: Option<bool>,
    timed: bool,
    runs: bool,
    rules: Vec<RuleView>,
    bans: Vec<String>,
    requires: Vec<String>,
}

#[derive(Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a condition in a template")]
struct ContractView {
    mul: Option<String>,
    acc: String,
    fast: bool,
    per_call: bool,
    given: bool,
    shapes: Vec<String>,
    deterministic: bool,
    own: bool,
    /// Inputs by name, or by number.
    fixed: Vec<String>,
    data_dependent: bool,
    /// The problem has a contract of its own, which has not been read yet.
    unread: bool,
}

#[derive(Serialize)]
struct DeviceView {
    name: String,
    threads: usize,
    cache_mib: Option<f64>,
    note: String,
    vector_bits: Option<u32>,
    specs: Option<ChipSpecs>,
}

#[derive(Serialize)]
struct RuleView {
    name: &'static str,
    hard: bool,
    summary: String,
}

impl JobView {
    pub(super) fn of(job: &Job) -> Self {
        let line = |text: &str| one_line(text, caps::LINE);
        let lines = |texts: &[String]| texts.iter().take(caps::NOTES).map(|text| line(text)).collect::<Vec<_>>();
        let report = job.problem.clone().unwrap_or_default();
        let off = |name: &str| job.rules_off.iter().any(|rule| rule == name);
        let rules = kforge_guard::rules().iter().filter(|rule| !off(rule.name));
        Self {
            problem_file: line(&job.problem_file),
            problem_source: tame(&job.problem_source, caps::PROBLEM),
            target: job.target.to_string(),
            cpu: job.target.vendor == "cpu",
            task: tame(job.task.trim(), caps::TASK),
            contract: contract(job),
            device: device(job),
            arch: line(&job.arch),
            sm: compute_capability(&job.arch),
            torch: line(&job.versions.torch),
            compiler: line(&job.versions.compiler),
            distributions: lines(&report.distributions),
            problem_notes: lines(&report.notes),
            writes: lines(&report.writes),
            writes_unknown: job.problem.is_none(),
            // As the referee notes it.
            evaluation_mode: job
                .problem
                .as_ref()
                .map(|_| report.notes.iter().any(|note| note.contains("judged in eval mode"))),
            timed: job.timed,
            runs: job.runs,
            rules: rules
                .map(|rule| RuleView {
                    name: rule.name,
                    hard: rule.severity == Severity::Hard,
                    summary: rule.summary(),
                })
                .collect(),
            bans: lines(&job.bans),
            requires: lines(&job.requires),
        }
    }
}

fn wire<T: Serialize>(value: T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn contract(job: &Job) -> ContractView {
    let contract = &job.contract;
    let shape = |sizes: &std::collections::BTreeMap<String, i64>| {
        sizes.iter().map(|(name, size)| format!("{name} = {size}")).collect::<Vec<_>>().join(", ")
    };
    ContractView {
        mul: contract.mul.map(wire),
        acc: contract.acc.map_or_else(|| "fp32".to_owned(), wire),
        fast: contract.math == Some(kforge_types::Math::Fast),
        per_call: contract.params == Some(kforge_types::Params::PerCall),
        given: contract.inputs == Some(kforge_types::Redraw::Given),
        shapes: contract.shapes.iter().take(caps::NOTES).map(|sizes| one_line(&shape(sizes), caps::LINE)).collect(),
        deterministic: contract.deterministic == Some(true),
        own: contract.operators == Some(kforge_types::Operators::Own),
        fixed: contract.fixed.iter().take(caps::NOTES).map(fixed).collect(),
        data_dependent: contract.data_dependent == Some(true),
        unread: job.problem.is_none() && job.problem_source.contains("KFORGE"),
    }
}

fn fixed(input: &kforge_types::FixedInput) -> String {
    match input {
        kforge_types::FixedInput::Name(name) => format!("`{}`", one_line(name, caps::LINE)),
        kforge_types::FixedInput::Number(number) => format!("input {number}"),
    }
}

fn device(job: &Job) -> DeviceView {
    let device = &job.device;
    let words = format!("{} {}", device.name, device.note).to_lowercase();
    // As `kforge_exec::machine` names them.
    let widths = [
        ("avx512", 512),
        ("avx", 256),
        ("sse2", 128),
        ("sve512", 512),
        ("sve256", 256),
        ("sve128", 128),
        ("asimd", 128),
        ("neon", 128),
    ];
    DeviceView {
        name: one_line(&device.name, caps::LINE),
        threads: device.threads,
        cache_mib: (device.last_level_cache > 0).then_some(device.last_level_cache as f64 / f64::from(1 << 20)),
        note: one_line(&device.note, caps::LINE),
        vector_bits: widths.iter().find(|(word, _)| words.contains(word)).map(|(_, bits)| *bits),
        specs: target::specs(&job.target, &device.name),
    }
}

/// 90 of `sm_90a`.
fn compute_capability(arch: &str) -> u32 {
    let number = arch.strip_prefix("sm_").unwrap_or_default();
    number.trim_end_matches(|c: char| c.is_ascii_lowercase()).parse().unwrap_or(0)
}

/// A candidate that is not correct, or not known to be.
#[derive(Default, Serialize)]
pub(super) struct FailureView {
    candidate: Option<String>,
    reply: Option<String>,
    /// It was compiled and never run, so there is a state, but no defect that anybody saw.
    compiled: bool,
    state: &'static str,
    kind: String,
    reason: String,
    check: Option<CheckView>,
    passed: Vec<String>,
    findings: Vec<String>,
    first_error: Option<String>,
    log: String,
}

#[derive(Serialize)]
struct CheckView {
    name: String,
    detail: String,
}

impl FailureView {
    pub(super) fn of(failure: &Failure) -> Self {
        match failure {
            Failure::NoCandidate { reply, error } => Self {
                reply: Some(tame(reply, caps::BAD_REPLY)),
                state: State::GenerationFailure.label(),
                kind: "no candidate in the reply".to_owned(),
                reason: tame(error, caps::REASON),
                ..Self::default()
            },
            Failure::Judged { candidate, result } => Self::judged(candidate, result),
        }
    }

    fn judged(candidate: &str, result: &EvalResult) -> Self {
        let log = if before_any_input(result) { result.log.as_str() } else { "" };
        let reason = tame(&result.reason, caps::REASON);
        let failed = result.checks.iter().find(|check| !check.passed);
        let hard = result.findings.iter().filter(|finding| finding.severity == Severity::Hard);
        Self {
            candidate: Some(tame(candidate, caps::CANDIDATE)),
            reply: None,
            compiled: result.state == State::Compiled,
            state: result.state.label(),
            kind: result.kind.map(Kind::name).unwrap_or_default(),
            check: failed.map(|check| CheckView {
                name: one_line(&check.name, caps::LINE),
                // The reason repeats it in most cases.
                detail: if check.detail == result.reason {
                    String::new()
                } else {
                    tame(&check.detail, caps::CHECK_DETAIL)
                },
            }),
            passed: result.checks.iter().filter(|c| c.passed).map(|c| one_line(&c.name, 80)).take(40).collect(),
            findings: hard.take(caps::FINDINGS).map(finding).collect(),
            first_error: first_error(log).filter(|error| !reason.contains(error.lines().next().unwrap_or_default())),
            log: tame(log, caps::COMPILER_LOG),
            reason,
        }
    }
}

fn finding(finding: &kforge_types::Finding) -> String {
    let excerpt = one_line(&finding.excerpt, 160);
    format!("line {}, rule {}: {} The line: {excerpt}", finding.line, finding.rule, one_line(&finding.message, 500))
}

/// Whether all that the candidate printed is from before a first input was revealed to it.
fn before_any_input(result: &EvalResult) -> bool {
    let at_build = result.state == State::CompilationFailure || result.kind == Some(Kind::Import);
    at_build && !result.checks.iter().any(|check| check.passed)
}

/// The first line of a compiler's log that is an error, and what it points at.
fn first_error(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let at = lines.iter().position(|line| line.contains("error:") || line.contains("Error:"))?;
    let shown = &lines[at..lines.len().min(at + 4)];
    Some(tame(&shown.join("\n"), caps::CHECK_DETAIL))
}

/// A correct candidate's times against everything they can be held against.
#[derive(Serialize)]
pub(super) struct MeasurementView {
    measured: bool,
    median_us: f64,
    p20: f64,
    p80: f64,
    n: usize,
    row_calls: usize,
    warm_us: Option<f64>,
    framework_percent: Option<f64>,
    speedup: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    /// The speedup is the lower end of its interval.
    least: bool,
    /// Why there is none.
    withheld: String,
    /// Where there are several.
    by_distribution: Vec<RatioView>,
    provisional: bool,
    baselines: Vec<BaselineView>,
    /// The largest error of a verified output, and where it was.
    error: Option<ErrorView>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ErrorView {
    /// Of the tolerance.
    percent: f64,
    check: String,
}

/// The largest of the errors that checks tell of.
fn largest_error(result: &EvalResult) -> Option<ErrorView> {
    let error = |check: &kforge_types::Check| {
        let (_, told) = check.detail.split_once("max error: ")?;
        let percent: f64 = told.split(" %").next()?.parse().ok()?;
        Some(ErrorView { percent, check: one_line(&check.name, 80) })
    };
    result.checks.iter().filter_map(error).max_by(|a, b| a.percent.total_cmp(&b.percent))
}

/// Whether a source rule reports what the contract allows: a lower precision that the multiplications may have.
fn allowed(finding: &kforge_types::Finding, result: &EvalResult) -> bool {
    if finding.rule != "downcast" {
        return false;
    }
    let tf32 = || {
        let words = format!("{} {}", finding.message, finding.excerpt).to_lowercase();
        words.contains("tf32") || words.contains("tfloat32") || words.contains("input_precision")
    };
    match result.contract.mul.map(wire).as_deref() {
        Some("bf16" | "fp16" | "fp8") => true,
        Some("tf32") => tf32(),
        Some(_) => false,
        // Then it is that of the inputs.
        None => ["bf16", "fp16", "fp8"].iter().any(|name| result.precision.starts_with(name)),
    }
}

#[derive(Serialize)]
struct RatioView {
    name: String,
    speedup: f64,
    low: f64,
    high: f64,
}

#[derive(Serialize)]
struct BaselineView {
    name: String,
    median_us: Option<f64>,
    fastest: bool,
    note: String,
}

impl MeasurementView {
    pub(super) fn of(result: &EvalResult) -> Self {
        let timing = result.candidate.as_ref();
        let fastest = result.baseline.as_ref();
        let baseline = |known: &kforge_types::Baseline| {
            let beside = fastest.filter(|fastest| fastest.name == known.name);
            BaselineView {
                name: one_line(&known.name, 80),
                median_us: beside.map(|beside| beside.median_us).or(known.median_us),
                fastest: beside.is_some(),
                note: one_line(&known.note, caps::LINE),
            }
        };
        let several = result.by_distribution.len() > 1;
        let ratio = |one: &kforge_types::DistributionRatio| RatioView {
            name: one_line(&one.name, 80),
            speedup: one.speedup,
            low: one.interval.low,
            high: one.interval.high,
        };
        // Checks that failed without rejecting, and soft findings: what a reader of the result would see too.
        let flagged = result.checks.iter().filter(|check| !check.passed);
        let flagged = flagged.map(|check| format!("check {}: {}", check.name, check.detail));
        let soft = result
            .findings
            .iter()
            .filter(|finding| !allowed(finding, result))
            .map(|finding| format!("line {}: {}", finding.line, finding.message));
        Self {
            measured: timing.is_some(),
            median_us: timing.map_or(0.0, |timing| timing.median_us),
            p20: timing.map_or(0.0, |timing| timing.p20),
            p80: timing.map_or(0.0, |timing| timing.p80),
            n: timing.map_or(0, |timing| timing.n),
            row_calls: timing.map_or(0, |timing| timing.row_calls),
            warm_us: timing.and_then(|timing| timing.warm_median_us),
            framework_percent: timing.and_then(|timing| timing.framework_share).map(|share| 100.0 * share),
            speedup: result.speedup,
            low: result.speedup_ci.map(|interval| interval.low),
            high: result.speedup_ci.map(|interval| interval.high),
            least: result.is_least(),
            withheld: result.withheld().map(|why| one_line(why, caps::LINE)).unwrap_or_default(),
            by_distribution: if several {
                result.by_distribution.iter().take(caps::NOTES).map(ratio).collect()
            } else {
                Vec::new()
            },
            provisional: result.provisional,
            baselines: result.baselines.iter().map(baseline).collect(),
            error: largest_error(result),
            notes: flagged.chain(soft).take(caps::NOTES).map(|note| one_line(&note, caps::LINE)).collect(),
        }
    }
}

/// The machine's limits for this problem.
#[derive(Serialize)]
pub(super) struct RooflineView {
    class: String,
    bytes_mib: f64,
    gflop: Option<f64>,
    gb_per_s: f64,
    gflop_per_s: Option<f64>,
    floor_us: f64,
    percent: f64,
}

impl RooflineView {
    pub(super) fn of(roofline: &Roofline) -> Self {
        Self {
            class: one_line(&roofline.class, 80),
            bytes_mib: roofline.bytes / f64::from(1 << 20),
            gflop: roofline.flops.map(|flops| flops / 1e9),
            gb_per_s: roofline.memory_bytes_per_s / 1e9,
            gflop_per_s: roofline.flops_per_s.map(|rate| rate / 1e9),
            floor_us: roofline.floor_us,
            // Above 100 is a finding about the model of the machine, so it is not clamped.
            percent: if roofline.time_us > 0.0 { 100.0 * roofline.floor_us / roofline.time_us } else { 0.0 },
        }
    }
}

/// What profilers said.
#[derive(Serialize)]
pub(super) struct ProfileView {
    /// A line for each, with its metrics on the next.
    findings: Vec<String>,
    documents: Vec<DocumentView>,
    denied: Vec<String>,
    images: Vec<String>,
}

#[derive(Serialize)]
struct DocumentView {
    name: String,
    text: String,
}

impl ProfileView {
    pub(super) fn of(profile: &Profile, images: &[String]) -> Self {
        let line = |text: &str| one_line(text, caps::LINE);
        let mut left = caps::PROFILE_DOCUMENTS;
        let mut documents = Vec::new();
        for document in &profile.documents {
            let text = tame(&document.text, caps::PROFILE_DOCUMENT.min(left));
            left = left.saturating_sub(text.len());
            documents.push(DocumentView { name: line(&document.name), text });
        }
        let metric =
            |(name, value): (&String, &f64)| format!("{} = {}", one_line(name, 160), super::filters::number(*value));
        let finding = |finding: &kforge_types::ProfileFinding| {
            let metrics: Vec<String> = finding.metrics.iter().take(caps::PROFILE_METRICS).map(metric).collect();
            let behind = if metrics.is_empty() { String::new() } else { format!("\n  {}", metrics.join(", ")) };
            format!("- {} [{}]{behind}", one_line(&finding.text, caps::PROFILE_FINDING), line(&finding.source))
        };
        let denied = profile.sources.iter().filter(|source| !source.had);
        Self {
            findings: profile.findings.iter().take(caps::PROFILE_FINDINGS).map(finding).collect(),
            documents,
            denied: denied.map(|source| line(&format!("{}: {}", source.name, source.detail))).collect(),
            images: images.iter().map(|name| line(name)).collect(),
        }
    }
}

/// What the user added, as far as it applies to this iteration.
#[derive(Serialize)]
pub(super) struct ExtraView {
    aux: Vec<AuxView>,
    reference: Option<ReferenceView>,
}

#[derive(Serialize)]
struct AuxView {
    name: String,
    text: Option<String>,
    note: String,
}

#[derive(Serialize)]
struct ReferenceView {
    target: String,
    file: String,
    source: String,
}

impl ExtraView {
    pub(super) fn of(edits: &Edits, iteration: u32) -> Self {
        let aux = files::shown(&edits.aux, iteration).into_iter().map(|(name, text)| match text {
            Ok(text) => AuxView { name, text: Some(text), note: String::new() },
            Err(note) => AuxView { name, text: None, note },
        });
        let reference = edits.reference.as_ref().map(|reference| ReferenceView {
            target: reference.target.to_string(),
            file: one_line(&reference.file, caps::LINE),
            source: tame(&reference.source, caps::REFERENCE),
        });
        Self { aux: aux.collect(), reference }
    }
}
