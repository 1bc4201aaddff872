//! What the machine code of each kernel does: tensor cores, widths of loads, local memory, asynchronous copies.

use super::{
    super::ladder::{Found, Report, Rung},
    names::plain,
};
use std::{collections::BTreeMap, fmt::Write};

const MOST_KERNELS: usize = 500;
const MOST_TOLD: usize = 4;

/// Counts over one kernel's instructions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) instructions: usize,
    /// Tensor-core instructions by their full name, such as `HGMMA.64x128x16.F32`.
    pub(super) tensor: BTreeMap<String, usize>,
    /// Single-precision fused multiply-adds outside of tensor cores.
    pub(super) ffma: usize,
    /// Loads from global memory by bytes for each thread.
    pub(super) loads: BTreeMap<u32, usize>,
    pub(super) stores: BTreeMap<u32, usize>,
    pub(super) local_loads: usize,
    pub(super) local_stores: usize,
    pub(super) shared_loads: usize,
    pub(super) shared_stores: usize,
    pub(super) barriers: usize,
    /// `LDGSTS`: copies to shared memory that pass by the registers.
    pub(super) async_copies: usize,
    /// Bulk copies by the tensor memory accelerator.
    pub(super) bulk_copies: usize,
    /// Operations on barriers in shared memory, which bulk copies signal.
    pub(super) mbarriers: usize,
    pub(super) atomics: usize,
}

impl Facts {
    /// Shared-memory races in such kernels are reported that are none, as of the tools known here.
    pub(super) fn synchronises_by_mbarrier(&self) -> bool {
        self.bulk_copies + self.mbarriers > 0
    }

    /// Bytes of the widest load.
    pub(super) fn widest_load(&self) -> Option<u32> {
        self.loads.keys().next_back().copied()
    }

    fn add(&mut self, name: &str) {
        self.instructions += 1;
        let base = name.split('.').next().unwrap_or_default();
        match base {
            _ if is_tensor(base) => *self.tensor.entry(name.chars().take(60).collect()).or_default() += 1,
            "FFMA" | "FFMA2" => self.ffma += 1,
            "LDG" => *self.loads.entry(width(name)).or_default() += 1,
            "STG" => *self.stores.entry(width(name)).or_default() += 1,
            "LDL" => self.local_loads += 1,
            "STL" => self.local_stores += 1,
            "LDS" | "LDSM" => self.shared_loads += 1,
            "STS" | "STSM" => self.shared_stores += 1,
            "BAR" => self.barriers += 1,
            "LDGSTS" => self.async_copies += 1,
            "UBLKCP" => self.bulk_copies += 1,
            "SYNCS" => self.mbarriers += 1,
            "RED" | "ATOM" | "ATOMG" | "ATOMS" => self.atomics += 1,
            _ if base.starts_with("UTMALDG") || base.starts_with("UTMASTG") => self.bulk_copies += 1,
            _ => {}
        }
    }
}

/// `HFMA2.MMA` is none: there the word names the pipe that it shares.
fn is_tensor(base: &str) -> bool {
    base.ends_with("MMA") && base != "FMMA" && base.len() >= 4
}

/// Bytes that one thread loads or stores.
fn width(name: &str) -> u32 {
    let of = |part: &str| match part {
        "256" => Some(32),
        "128" => Some(16),
        "64" => Some(8),
        "U16" | "S16" | "16" => Some(2),
        "U8" | "S8" | "8" => Some(1),
        _ => None,
    };
    name.split('.').skip(1).find_map(of).unwrap_or(4)
}

/// Reads `cuobjdump -sass`, with or without the encodings behind the instructions.
pub(super) fn parse(text: &str) -> BTreeMap<String, Facts> {
    let mut found: BTreeMap<String, Facts> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("Function :") {
            let name: String = name.trim().chars().take(4000).collect();
            current = (found.len() < MOST_KERNELS || found.contains_key(&name)).then_some(name);
            continue;
        }
        let Some(name) = &current else { continue };
        if let Some(instruction) = instruction(line) {
            found.entry(name.clone()).or_default().add(instruction);
        }
    }
    found
}

/// The name of an instruction, behind its address and its predicate.
fn instruction(line: &str) -> Option<&str> {
    let code = line.split(';').next().filter(|code| code.len() < line.len())?;
    let code = match code.strip_prefix("/*") {
        Some(rest) => rest.split_once("*/")?.1,
        None => code,
    };
    let name = code.split_whitespace().find(|word| !word.starts_with('@') && *word != "{")?;
    name.starts_with(|c: char| c.is_ascii_uppercase()).then_some(name)
}

/// What a reader of the machine code needs to know of the problem.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wants {
    /// The reference has products that tensor cores could compute.
    pub(super) products: bool,
    /// The contract allows a precision that they have.
    pub(super) tensor_cores: bool,
}

/// In words; `ran` are the names of the kernels that ran, or nothing where that is not known.
pub(super) fn report(tool: &str, kernels: &BTreeMap<String, Facts>, ran: &[String], wants: Wants) -> Rung {
    let matter = |name: &&String| ran.is_empty() || ran.iter().any(|other| plain(other) == plain(name));
    let mut told: Vec<(&String, &Facts)> = kernels.iter().filter(|(name, _)| matter(name)).collect();
    if told.is_empty() {
        told = kernels.iter().collect();
    }
    if told.is_empty() {
        return Err("no machine code was found among what the candidate built".to_owned());
    }
    told.sort_by_key(|(_, facts)| std::cmp::Reverse(facts.instructions));
    let mut made = Report { detail: tool.to_owned(), ..Report::default() };
    let tensor: usize = told.iter().map(|(_, facts)| facts.tensor.len()).sum();
    if wants.products && wants.tensor_cores && tensor == 0 {
        let ffma: usize = told.iter().map(|(_, facts)| facts.ffma).sum();
        let text = "no kernel has tensor-core instructions, although the reference multiplies matrices and the contract \
                    allows a precision that tensor cores have: on this GPU they compute many times faster than FFMA";
        made.found.push(Found::new(88.0, text, &[("ffma_instructions", ffma as f64)]));
    }
    for (name, facts) in told.iter().take(MOST_TOLD) {
        made.found.extend(of(&plain(name), facts));
    }
    let mut table = String::new();
    for (name, facts) in told.iter().take(100) {
        let _ = writeln!(table, "{}: {}", plain(name), row(facts));
    }
    made.documents.push(("sass.txt".to_owned(), table));
    Ok(made)
}

fn of(name: &str, facts: &Facts) -> Vec<Found> {
    let mut found = Vec::new();
    let local = facts.local_loads + facts.local_stores;
    if local > 0 {
        let text = format!(
            "kernel {name} goes through local memory ({} loads, {} stores in its code): registers are spilled, or an \
             array is indexed by something that is not known when it is compiled",
            facts.local_loads, facts.local_stores
        );
        found.push(Found::new(70.0, text, &[("local_instructions", local as f64)]));
    }
    let narrow: usize = facts.loads.iter().filter(|(bytes, _)| **bytes <= 4).map(|(_, count)| count).sum();
    let all: usize = facts.loads.values().sum();
    let asynchronous = facts.async_copies + facts.bulk_copies;
    if all >= 1 && narrow == all && asynchronous == 0 {
        let widest = facts.widest_load().unwrap_or(4);
        let text = format!(
            "kernel {name} loads at most {widest} bytes for each thread and instruction ({all} loads in its code, none \
             wider): 16-byte loads (float4, or a layout that lets the compiler see alignment) need a quarter of the \
             instructions and keep more bytes in flight"
        );
        found.push(Found::new(
            48.0,
            text,
            &[("narrow_loads", narrow as f64), ("widest_load_bytes", f64::from(widest))],
        ));
    }
    found
}

fn row(facts: &Facts) -> String {
    let widths = |counts: &BTreeMap<u32, usize>| {
        let parts: Vec<String> = counts.iter().map(|(bytes, count)| format!("{count} of {bytes} B")).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(" + ") }
    };
    let tensor: Vec<String> = facts.tensor.iter().map(|(name, count)| format!("{count} {name}")).collect();
    format!(
        "{} instructions; tensor cores: {}; FFMA {}; global loads {}, stores {}; local loads {}, stores {}; shared loads \
         {}, stores {}; block barriers {}; LDGSTS {}; bulk copies {}; mbarrier operations {}; atomics {}",
        facts.instructions,
        if tensor.is_empty() { "none".to_owned() } else { tensor.join(", ") },
        facts.ffma,
        widths(&facts.loads),
        widths(&facts.stores),
        facts.local_loads,
        facts.local_stores,
        facts.shared_loads,
        facts.shared_stores,
        facts.barriers,
        facts.async_copies,
        facts.bulk_copies,
        facts.mbarriers,
        facts.atomics
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuda() -> BTreeMap<String, Facts> {
        parse(include_str!("fixtures/sass_cuda.txt"))
    }

    #[test]
    fn widths_tensor_cores_and_local_memory_are_seen() {
        let kernels = cuda();
        assert_eq!(kernels.len(), 6);
        assert_eq!(kernels["_Z5copy4PK6float4PS_i"].loads, BTreeMap::from([(16, 1)]));
        assert_eq!(kernels["_Z5copy4PK6float4PS_i"].stores, BTreeMap::from([(16, 1)]));
        assert_eq!(kernels["_Z5copy1PKfPfii"].widest_load(), Some(4));
        let spills = &kernels["_Z6spillsPKfPfi"];
        assert!(spills.local_loads > 0 && spills.local_stores > 0 && spills.ffma > 0);
        let wmma = &kernels["_Z2wmPK6__halfS1_Pf"];
        assert_eq!(wmma.tensor, BTreeMap::from([("HMMA.16816.F32".to_owned(), 2)]));
        assert!(wmma.barriers > 0 && !wmma.synchronises_by_mbarrier());
        let bulk = &kernels["_Z4bulkPKfPf"];
        assert!(bulk.bulk_copies == 1 && bulk.mbarriers >= 3 && bulk.synchronises_by_mbarrier());
        assert!(bulk.tensor.is_empty(), "HFMA2.MMA is no tensor core");
    }

    #[test]
    fn triton_code_has_its_group_products_and_async_copies() {
        let kernels = parse(include_str!("fixtures/sass_triton.txt"));
        let gemm = &kernels["gemm"];
        assert_eq!(gemm.tensor, BTreeMap::from([("HGMMA.64x128x16.F32".to_owned(), 4)]));
        assert!(gemm.async_copies > 0 && gemm.loads.is_empty() && gemm.local_loads == 0);
    }

    #[test]
    fn encodings_behind_instructions_do_not_matter() {
        let line = "        /*0010*/              @!P0 LDG.E.128 R4, [R2.64] ;   /* 0x0000000000077919 */";
        assert_eq!(instruction(line.trim()), Some("LDG.E.128"));
        assert_eq!(instruction("/* 0x000e220000002100 */"), None);
        assert_eq!(instruction("FFMA R1, R2, R3, R4"), None);
        let found = parse(&format!("Function : k\n{line}\n"));
        assert_eq!(found["k"].loads, BTreeMap::from([(16, 1)]));
    }

    #[test]
    fn missing_tensor_cores_are_said_only_where_they_are_wanted() {
        let only = |name: &str| cuda().into_iter().filter(|(key, _)| key.contains(name)).collect::<BTreeMap<_, _>>();
        let says = |kernels: &BTreeMap<String, Facts>, products, tensor_cores| {
            let report = report("cuobjdump", kernels, &[], Wants { products, tensor_cores }).unwrap();
            report.found.iter().any(|found| found.text.contains("no kernel has tensor-core instructions"))
        };
        assert!(says(&only("spills"), true, true));
        assert!(!says(&only("spills"), false, true) && !says(&only("spills"), true, false));
        assert!(!says(&only("2wm"), true, true));
    }

    #[test]
    fn narrow_loads_and_local_memory_are_findings() {
        let texts = |kernel: &str| {
            let ran = [kernel.to_owned()];
            let report = report("cuobjdump", &cuda(), &ran, Wants::default()).unwrap();
            report.found.into_iter().map(|found| found.text).collect::<Vec<_>>().join("\n")
        };
        assert!(texts("_Z5copy1PKfPfii").contains("at most 4 bytes"));
        assert_eq!(texts("_Z5copy4PK6float4PS_i"), "");
        assert!(texts("_Z6spillsPKfPfi").contains("goes through local memory"));
    }

    #[test]
    fn nonsense_is_bounded() {
        assert!(report("x", &BTreeMap::new(), &[], Wants::default()).is_err());
        for text in ["", "Function :", "Function : a\n;;;;", "Function : a\n/*;", "Function : a\n/**/ @P0 ;", "\u{0};"]
        {
            let _ = parse(text);
        }
        let many: Vec<String> = (0..2000).map(|n| format!("Function : f{n}\nNOP ;")).collect();
        assert_eq!(parse(&many.join("\n")).len(), MOST_KERNELS);
        let names: Vec<String> = (0..9).map(|n| format!("HMMA.{} R0 ;", "x".repeat(5000 + n))).collect();
        let found = parse(&format!("Function : f\n{}", names.join("\n")));
        assert_eq!(found["f"].tensor.len(), 1);
    }
}
