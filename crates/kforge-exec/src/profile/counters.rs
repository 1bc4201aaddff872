//! Hardware counters, read off `perf stat -x,`.

use super::ladder::{Found, Report, Rung};
use std::collections::BTreeMap;

/// What is asked for on every machine.
pub(super) const EVENTS: &str = "cycles,instructions,cache-references,cache-misses,branches,branch-misses";

/// Floating-point operations where the CPU names them.
pub(super) fn float_events(cpuinfo: &str) -> Option<&'static str> {
    if cpuinfo.contains("GenuineIntel") {
        return Some(
            "fp_arith_inst_retired.scalar_single,fp_arith_inst_retired.128b_packed_single,\
             fp_arith_inst_retired.256b_packed_single,fp_arith_inst_retired.512b_packed_single",
        );
    }
    cpuinfo.contains("AuthenticAMD").then_some("fp_ret_sse_avx_ops.all")
}

/// Counts by event; `<not supported>` and `<not counted>` are no counts.
pub(super) fn parse(csv: &str) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    for line in csv.lines() {
        let mut fields = line.split(',');
        let (Some(value), Some(_unit), Some(event)) = (fields.next(), fields.next(), fields.next()) else { continue };
        if let Ok(value) = value.parse::<f64>()
            && value.is_finite()
        {
            *counts.entry(plain_name(event).to_owned()).or_insert(0.0) += value;
        }
    }
    counts
}

/// `cycles` of `cycles:u`, where the kernel is not to be watched, and of `cpu_core/cycles/u`: a CPU with two kinds of
/// cores has a counter for each, which are added up.
fn plain_name(event: &str) -> &str {
    match event.split_once('/') {
        Some((_unit, rest)) => rest.split('/').next().unwrap_or(rest),
        None => event.split(':').next().unwrap_or(event),
    }
}

/// Why perf counted nothing, and what would mend that.
pub(super) fn reason(stderr: &str, paranoid: i32, root: bool) -> String {
    if stderr.contains("<not supported>") {
        return "perf runs, but this machine has no hardware counters, as most virtual machines; run on the metal, or \
                let the hypervisor pass the PMU through"
            .to_owned();
    }
    let refused = ["No permission", "not permitted", "Permission denied", "Access to performance", "EACCES", "EPERM"];
    if refused.iter().any(|word| stderr.contains(word)) {
        return refusal(paranoid, root);
    }
    let said = stderr.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing");
    format!("perf counted nothing; it says: {}", super::ladder::quoted(said, 200))
}

/// What stands between perf and a sandboxed process.
pub(super) fn refusal(paranoid: i32, root: bool) -> String {
    if !root && paranoid > 2 {
        return format!(
            "perf is forbidden by kernel.perf_event_paranoid = {paranoid}; mend: sudo sysctl kernel.perf_event_paranoid=1"
        );
    }
    "perf may not attach to a sandboxed process; mend: sudo setcap cap_perfmon,cap_sys_ptrace+ep \"$(command -v perf)\""
        .to_owned()
}

/// In words; `None` where nothing was counted.
pub(super) fn report(version: &str, counts: &BTreeMap<String, f64>) -> Option<Rung> {
    let get = |name: &str| counts.get(name).copied().filter(|value| *value > 0.0);
    let cycles = get("cycles")?;
    let mut found = Vec::new();
    if let Some(instructions) = get("instructions") {
        let ipc = instructions / cycles;
        let words = match ipc {
            ipc if ipc < 0.7 => "the cores mostly wait, usually for memory",
            ipc if ipc < 1.8 => "the cores wait part of the time",
            _ => "the cores are busy",
        };
        let rank = if ipc < 0.7 { 72.0 } else { 40.0 };
        let text = format!("{ipc:.2} instructions per cycle with warm caches: {words}");
        found.push(Found::new(rank, text, &[("ipc", ipc), ("cycles", cycles), ("instructions", instructions)]));
        if let Some(misses) = get("cache-misses") {
            let per_thousand = 1e3 * misses / instructions;
            let rate = get("cache-references").map_or(f64::NAN, |references| misses / references);
            let text = format!("{per_thousand:.1} cache misses per 1000 instructions");
            let rank = if per_thousand > 10.0 { 66.0 } else { 28.0 };
            found.push(Found::new(rank, text, &[("cache_misses_per_1000", per_thousand), ("miss_rate", rate)]));
        }
    }
    if let (Some(missed), Some(branches)) = (get("branch-misses"), get("branches")) {
        let rate = missed / branches;
        if rate > 0.02 {
            let text = format!("{:.1} % of branches are mispredicted: a branch depends on the data", 100.0 * rate);
            found.push(Found::new(55.0, text, &[("branch_miss_rate", rate)]));
        }
    }
    found.extend(floats(counts));
    Some(Ok(Report { detail: version.to_owned(), found, documents: Vec::new() }))
}

fn floats(counts: &BTreeMap<String, f64>) -> Option<Found> {
    let get = |name: &str| counts.get(name).copied().unwrap_or(0.0);
    let scalar = get("fp_arith_inst_retired.scalar_single");
    let packed: f64 =
        ["128b", "256b", "512b"].iter().map(|width| get(&format!("fp_arith_inst_retired.{width}_packed_single"))).sum();
    if scalar + packed > 0.0 {
        let share = scalar / (scalar + packed);
        let text = format!("{:.0} % of single-precision instructions work on one number only", 100.0 * share);
        let rank = if share > 0.3 { 70.0 } else { 26.0 };
        return Some(Found::new(rank, text, &[("scalar_share", share)]));
    }
    let (all, cycles) = (get("fp_ret_sse_avx_ops.all"), get("cycles"));
    (all > 0.0 && cycles > 0.0).then(|| {
        let text = format!("{:.2} floating-point operations per cycle", all / cycles);
        Found::new(27.0, text, &[("flops_per_cycle", all / cycles)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKING: &str = "\
3000000,,cycles,1000000,100.00,,
1500000,,instructions:u,1000000,100.00,0.50,insn per cycle
60000,,cache-misses,1000000,100.00,60.0,of all cache refs
100000,,cache-references,1000000,100.00,,
200000,,branches,1000000,100.00,,
9000,,branch-misses,1000000,100.00,4.5,of all branches
";
    const NO_PMU: &str = "<not supported>,,cycles,0,100.00,,\n<not supported>,,instructions,0,100.00,,\n";

    #[test]
    fn counts_become_sentences_with_numbers() {
        let report = report("perf 6.1", &parse(WORKING)).unwrap().unwrap();
        let texts: Vec<&str> = report.found.iter().map(|f| f.text.as_str()).collect();
        assert!(texts[0].starts_with("0.50 instructions per cycle"), "{texts:?}");
        assert!(texts[1].starts_with("40.0 cache misses"), "{texts:?}");
        assert!(texts[2].starts_with("4.5 % of branches"), "{texts:?}");
        assert!(report.found[1].metrics.contains(&("miss_rate", 0.6)));
    }

    /// Of a CPU with two kinds of cores, one of which did not run.
    const HYBRID: &str = "\
<not counted>,,cpu_atom/cycles/u,0,0.00,,
3000000,,cpu_core/cycles/u,1000000,100.00,,
300000,,cpu_atom/instructions/,500000,50.00,,
1200000,,cpu_core/instructions/,1000000,100.00,0.40,insn per cycle
30,,cpu_core/fp_arith_inst_retired.scalar_single/,1000000,100.00,,
90,,cpu_core/fp_arith_inst_retired.256b_packed_single/u,1000000,100.00,,
";

    #[test]
    fn two_kinds_of_cores_are_added_up() {
        let counts = parse(HYBRID);
        assert_eq!((counts["cycles"], counts["instructions"]), (3e6, 1.5e6));
        let report = report("perf 6.8", &counts).unwrap().unwrap();
        assert!(report.found[0].text.starts_with("0.50 instructions per cycle"), "{:?}", report.found);
        assert!(report.found.iter().any(|found| found.text.starts_with("25 % of single-precision")));
    }

    #[test]
    fn what_is_not_supported_is_no_count() {
        assert!(parse(NO_PMU).is_empty());
        assert!(report("perf", &parse(NO_PMU)).is_none());
        assert!(parse("<not counted>,,cycles,0,0.00,,\nnonsense\n,,\nnan,,cycles\n").is_empty());
    }

    #[test]
    fn every_reason_says_what_would_mend_it() {
        assert!(reason(NO_PMU, 0, true).contains("virtual machine"));
        assert!(reason("Error:\nNo permission to enable cycles event.", 4, false).contains("sysctl"));
        assert!(reason("Operation not permitted", 1, false).contains("setcap"));
        assert!(reason("perf: \u{1b}[2Jodd", 1, false).contains("it says: perf: \u{FFFD}[2Jodd"));
    }

    #[test]
    fn scalar_arithmetic_shows_on_intel() {
        let csv =
            "10,,cycles\n30,,fp_arith_inst_retired.scalar_single,1,1\n70,,fp_arith_inst_retired.256b_packed_single,1,1";
        let found = floats(&parse(csv)).unwrap();
        assert!(found.text.starts_with("30 %"), "{found:?}");
        assert!(float_events("vendor_id: GenuineIntel").unwrap().contains("512b"));
        assert!(float_events("CPU implementer: 0x41").is_none());
    }
}
