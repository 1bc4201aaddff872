//! What the compiler gave each kernel: registers, shared memory, stack, spills.

use super::{
    super::ladder::{Found, Report, Rung},
    names::plain,
};
use serde::Deserialize;
use std::{collections::BTreeMap, fmt::Write};

const MOST_KERNELS: usize = 500;
const REGISTERS_OF_A_THREAD: u64 = 255;

/// Of one kernel; what a report does not say is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resources {
    pub(super) registers: Option<u64>,
    /// Bytes of static shared memory; what a launch adds is not known here.
    pub(super) shared: Option<u64>,
    pub(super) stack: Option<u64>,
    pub(super) spill_stores: Option<u64>,
    pub(super) spill_loads: Option<u64>,
}

/// What Triton writes beside a cubin.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct TritonKernel {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    shared: Option<u64>,
    #[serde(default)]
    num_warps: Option<u64>,
    #[serde(default)]
    num_stages: Option<u64>,
}

/// Reads `cuobjdump --dump-resource-usage` and `ptxas -v`, by the kernel's name as the linker knows it.
pub(super) fn parse(text: &str) -> BTreeMap<String, Resources> {
    let mut found: BTreeMap<String, Resources> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        let line = line.trim();
        let named = line
            .strip_prefix("Function ")
            .and_then(|rest| rest.strip_suffix(':'))
            .or_else(|| line.split("Function properties for ").nth(1))
            .or_else(|| line.split("Compiling entry function '").nth(1).and_then(|rest| rest.split('\'').next()));
        if let Some(name) = named {
            current = Some(name.trim().chars().take(4000).collect());
            continue;
        }
        let Some(name) = &current else { continue };
        if !found.contains_key(name) && found.len() >= MOST_KERNELS {
            continue;
        }
        if line.starts_with("REG:") {
            let kernel = found.entry(name.clone()).or_default();
            for (key, value) in line.split_whitespace().filter_map(|word| word.split_once(':')) {
                let value = value.parse().ok();
                match key {
                    "REG" => kernel.registers = value,
                    "STACK" => kernel.stack = value,
                    "SHARED" => kernel.shared = value,
                    _ => {}
                }
            }
        } else if line.contains("bytes stack frame") {
            let kernel = found.entry(name.clone()).or_default();
            kernel.stack = before(line, "bytes stack frame");
            kernel.spill_stores = before(line, "bytes spill stores");
            kernel.spill_loads = before(line, "bytes spill loads");
        } else if line.contains("Used ") && line.contains(" registers") {
            let kernel = found.entry(name.clone()).or_default();
            kernel.registers = before(line, "registers");
            kernel.shared = before(line, "bytes smem").or(kernel.shared);
        }
    }
    found
}

/// The number in front of some words.
fn before(line: &str, words: &str) -> Option<u64> {
    line.split(words).next().filter(|head| head.len() < line.len())?.split_whitespace().last()?.parse().ok()
}

/// In words, for kernels that ran where that is known.
pub(super) fn report(detail: &str, kernels: &BTreeMap<String, Resources>, triton: &[TritonKernel]) -> Rung {
    if kernels.is_empty() && triton.is_empty() {
        return Err("no compiled kernel was found among what the candidate built; kernels that are only in memory \
                    cannot be looked at"
            .to_owned());
    }
    let mut made = Report { detail: detail.to_owned(), ..Report::default() };
    let mut table = String::new();
    for (name, kernel) in kernels {
        let short = plain(name);
        let _ = writeln!(table, "{short}: {}", row(kernel));
        let spilled = kernel.spill_stores.unwrap_or(0) + kernel.spill_loads.unwrap_or(0);
        let stack = kernel.stack.unwrap_or(0);
        if spilled > 0 || stack > 0 {
            let registers = kernel.registers.unwrap_or(0);
            let what = if spilled > 0 {
                format!("spills registers to memory ({spilled} bytes of spill code)")
            } else {
                "keeps data in local memory".to_owned()
            };
            let text = format!(
                "kernel {short} {what}: {stack} bytes of stack for each thread with {registers} registers; a smaller \
                 tile for each thread, fewer values alive at once, or a looser bound on registers keeps it on chip"
            );
            let metrics =
                [("stack_bytes", stack as f64), ("spill_bytes", spilled as f64), ("registers", registers as f64)];
            // Without the compiler's word on spills the machine code says more.
            made.found.push(Found::new(if spilled > 0 { 72.0 } else { 46.0 }, text, &metrics));
        } else if kernel.registers.is_some_and(|registers| registers >= REGISTERS_OF_A_THREAD) {
            let text = format!("kernel {short} uses all {REGISTERS_OF_A_THREAD} registers that a thread can have");
            made.found.push(Found::new(40.0, text, &[("registers", REGISTERS_OF_A_THREAD as f64)]));
        }
    }
    for kernel in triton.iter().filter(|kernel| !kernel.name.is_empty()) {
        let number = |value: Option<u64>| value.map_or_else(|| "?".to_owned(), |value| value.to_string());
        let _ = writeln!(
            table,
            "{} (Triton): {} warps, {} stages, {} bytes of shared memory",
            plain(&kernel.name),
            number(kernel.num_warps),
            number(kernel.num_stages),
            number(kernel.shared)
        );
    }
    made.documents.push(("resources.txt".to_owned(), table));
    Ok(made)
}

fn row(kernel: &Resources) -> String {
    let parts = [
        ("registers", kernel.registers),
        ("bytes of static shared memory", kernel.shared),
        ("bytes of stack", kernel.stack),
        ("bytes of spill stores", kernel.spill_stores),
        ("bytes of spill loads", kernel.spill_loads),
    ];
    let told: Vec<String> =
        parts.iter().filter_map(|(what, value)| value.map(|value| format!("{value} {what}"))).collect();
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuobjdump_and_ptxas_agree() {
        let listed = parse(include_str!("fixtures/resources.txt"));
        let compiled = parse(include_str!("fixtures/ptxas.txt"));
        assert_eq!(listed.len(), 6);
        assert_eq!(listed.keys().collect::<Vec<_>>(), compiled.keys().collect::<Vec<_>>());
        for (name, kernel) in &listed {
            assert_eq!(kernel.registers, compiled[name].registers, "{name}");
            assert_eq!(kernel.stack, compiled[name].stack, "{name}");
        }
        assert_eq!(compiled["_Z6spillsPKfPfi"].spill_stores, Some(352));
        assert_eq!(listed["_Z4bulkPKfPf"].shared, Some(5128));
    }

    #[test]
    fn spills_are_said_and_clean_kernels_are_not() {
        let report = report("cuobjdump", &parse(include_str!("fixtures/ptxas.txt")), &[]).unwrap();
        assert_eq!(report.found.len(), 1);
        assert!(
            report.found[0].text.starts_with("kernel spills spills registers to memory (728 bytes"),
            "{:?}",
            report.found
        );
        assert!(report.documents[0].1.contains("copy4: 14 registers"));
    }

    #[test]
    fn triton_says_what_a_launch_takes() {
        let kernel: TritonKernel =
            serde_json::from_str(r#"{"name": "gemm", "shared": 73728, "num_warps": 4, "num_stages": 3, "hash": "x"}"#)
                .unwrap();
        let report = report("cuobjdump", &BTreeMap::new(), &[kernel]).unwrap();
        assert!(report.documents[0].1.contains("gemm (Triton): 4 warps, 3 stages, 73728 bytes"));
    }

    #[test]
    fn nothing_and_nonsense_are_no_kernels() {
        assert!(report("x", &BTreeMap::new(), &[]).is_err());
        for text in
            ["", "REG:1", "Function :\nREG:", "Function x:\nREG:99999999999999999999 STACK:-1", "\u{0}Used registers"]
        {
            let found = parse(text);
            assert!(found.values().all(|kernel| kernel.registers.is_none()), "{text} {found:?}");
        }
        let many: Vec<String> = (0..2000).map(|n| format!("Function f{n}:\nREG:1")).collect();
        assert_eq!(parse(&many.join("\n")).len(), MOST_KERNELS);
    }
}
