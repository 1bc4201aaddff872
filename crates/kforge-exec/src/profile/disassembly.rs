//! What the built code looks like: widths of vectors, scalar and packed arithmetic, calls, gathers, spills.

use super::{
    instruction::{Arch, Instruction, Kind},
    ladder::{Report, Rung, quoted},
    words,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Functions beyond this are not told apart any more.
const MOST_FUNCTIONS: usize = 4000;
/// Innermost loops of one function.
const MOST_LOOPS: usize = 256;
/// Functions that are spoken of, and hot loops.
const MOST_TOLD: usize = 4;
/// Code that every library has.
const RUNTIME: [&str; 8] = [
    "_init",
    "_fini",
    "_start",
    "deregister_tm_clones",
    "register_tm_clones",
    "__do_global_dtors_aux",
    "frame_dummy",
    "call_weak_fn",
];

/// One disassembled library.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Code {
    pub(super) name: String,
    pub(super) text: String,
}

/// Counts over a function, or over its loops.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) packed: usize,
    pub(super) scalar: usize,
    pub(super) fma: usize,
    pub(super) gather: usize,
    pub(super) scatter: usize,
    pub(super) spills: usize,
    /// Bits of the widest vector register that holds numbers.
    pub(super) widest: u32,
    /// Calls into libm, by name; none of them works on vectors.
    pub(super) libm: BTreeMap<String, usize>,
    pub(super) openmp: usize,
}

/// One innermost loop of a function.
#[derive(Debug, Clone, Default)]
pub(super) struct InnerLoop {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) counts: Counts,
}

/// One function of a library.
#[derive(Debug, Clone, Default)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) all: Counts,
    /// Only instructions in innermost loops.
    pub(super) in_loops: Counts,
    pub(super) loops: Vec<InnerLoop>,
}

/// One library, with where its code lies in its file.
#[derive(Debug, Clone, Default)]
pub(super) struct Library {
    pub(super) name: String,
    pub(super) functions: Vec<Function>,
    /// File offset and address of each loaded segment.
    segments: Vec<(u64, u64, u64)>,
    vla: bool,
}

impl Library {
    /// The innermost loop that holds a file offset, with its function.
    pub(super) fn loop_at(&self, offset: u64) -> Option<(&Function, &InnerLoop)> {
        let address = self.address(offset)?;
        let function = self.function_at(offset)?;
        let place = function.loops.partition_point(|inner| inner.end <= address);
        function.loops.get(place).filter(|inner| inner.start <= address).map(|inner| (function, inner))
    }

    /// The function that holds a file offset.
    pub(super) fn function_at(&self, offset: u64) -> Option<&Function> {
        let address = self.address(offset)?;
        let place = self.functions.partition_point(|f| f.end <= address);
        self.functions.get(place).filter(|f| f.start <= address)
    }

    fn address(&self, offset: u64) -> Option<u64> {
        let (from, address, _) =
            self.segments.iter().find(|(from, _, size)| (*from..from.saturating_add(*size)).contains(&offset))?;
        (offset - from).checked_add(*address)
    }
}

/// Reads `objdump -p -d --no-show-raw-insn`.
pub(super) fn parse(code: &Code) -> Library {
    let mut library = Library { name: code.name.clone(), ..Library::default() };
    let arch = if code.text.lines().take(5).any(|line| line.contains("aarch64")) { Arch::Arm } else { Arch::X86 };
    let mut body: Vec<Instruction> = Vec::new();
    let mut current: Option<(String, u64)> = None;
    let mut load: Option<(u64, u64)> = None;
    for line in code.text.lines() {
        if let Some((address, name)) = function_header(line) {
            finish(&mut library, current.take(), &mut body);
            if library.functions.len() >= MOST_FUNCTIONS {
                break;
            }
            current = Some((name.to_owned(), address));
        } else if current.is_some() {
            body.extend(Instruction::parse(line, arch));
        } else if let Some(rest) = line.trim_start().strip_prefix("LOAD") {
            load = Some((field(rest, "off"), field(rest, "vaddr")));
        } else if let Some((offset, address)) = load.take() {
            library.segments.push((offset, address, field(line, "filesz")));
        }
    }
    finish(&mut library, current, &mut body);
    library
}

fn finish(library: &mut Library, current: Option<(String, u64)>, body: &mut Vec<Instruction>) {
    let instructions = std::mem::take(body);
    let Some((name, start)) = current else { return };
    if RUNTIME.contains(&name.as_str()) {
        return;
    }
    let end = instructions.last().map_or(start, |last| last.address.saturating_add(1));
    let mut function = Function { name, start, end, ..Function::default() };
    for instruction in &instructions {
        library.vla |= instruction.scalable;
        function.all.add(instruction);
    }
    for (first, last) in innermost(&instructions, start) {
        let mut counts = Counts::default();
        for instruction in &instructions[first..=last] {
            counts.add(instruction);
            function.in_loops.add(instruction);
        }
        let end = instructions.get(last + 1).map_or(function.end, |next| next.address);
        function.loops.push(InnerLoop { start: instructions[first].address, end, counts });
    }
    library.functions.push(function);
}

/// Innermost loops, by first and last instruction: a jump backwards and its target, with no other such pair between.
fn innermost(instructions: &[Instruction], start: u64) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut latest_start: Option<usize> = None;
    for (index, instruction) in instructions.iter().enumerate() {
        let Some(target) = instruction.jump.filter(|t| (start..=instruction.address).contains(t)) else { continue };
        let first = instructions.partition_point(|other| other.address < target).min(index);
        // Jumps come in the order of their own addresses, so every loop inside this one has been seen.
        if latest_start.is_none_or(|latest| latest < first) && found.len() < MOST_LOOPS {
            found.push((first, index));
        }
        latest_start = latest_start.max(Some(first));
    }
    found
}

impl Counts {
    fn add(&mut self, instruction: &Instruction) {
        match &instruction.kind {
            Kind::Packed => self.packed += 1,
            Kind::Scalar => self.scalar += 1,
            Kind::Gather => self.gather += 1,
            Kind::Scatter => self.scatter += 1,
            Kind::Call(name) if is_libm(name) => *self.libm.entry(name.clone()).or_default() += 1,
            Kind::Call(name) if is_openmp(name) => self.openmp += 1,
            Kind::Call(_) | Kind::Other => {}
        }
        self.fma += usize::from(instruction.fma);
        self.spills += usize::from(instruction.spill);
        self.widest = self.widest.max(instruction.width);
    }
}

fn is_libm(name: &str) -> bool {
    const NAMES: [&str; 22] = [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "pow",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sinh",
        "cosh",
        "erf",
        "erfc",
        "tgamma",
        "cbrt",
        "fmod",
        "atan2",
        "rint",
        "nearbyint",
    ];
    let plain = name.trim_start_matches("__").trim_end_matches("_finite");
    let plain = plain.strip_suffix(['f', 'l']).filter(|p| NAMES.contains(p)).unwrap_or(plain);
    NAMES.contains(&plain)
}

fn is_openmp(name: &str) -> bool {
    ["GOMP_", "omp_", "__kmpc_"].iter().any(|prefix| name.starts_with(prefix))
}

/// `0000000000001130 <softmax>:`
fn function_header(line: &str) -> Option<(u64, &str)> {
    let (address, rest) = line.split_once(" <")?;
    Some((u64::from_str_radix(address, 16).ok()?, rest.strip_suffix(">:")?))
}

/// The hexadecimal number behind a word.
fn field(text: &str, name: &str) -> u64 {
    let mut words = text.split_whitespace();
    words.find(|word| *word == name);
    words.next().and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).unwrap_or(0)
}

/// What this machine's widest vectors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) bits: u32,
    pub(super) name: &'static str,
    pub(super) fma: bool,
}

impl Width {
    /// From `/proc/cpuinfo`.
    pub(super) fn of(cpuinfo: &str) -> Self {
        let flags = cpuinfo.lines().find(|l| l.starts_with("flags") || l.starts_with("Features")).unwrap_or_default();
        let has = |flag: &str| flags.split_whitespace().any(|have| have == flag);
        let fma = has("fma") || has("asimd");
        let (bits, name) = if has("avx512f") {
            (512, "AVX-512")
        } else if has("avx2") {
            (256, "AVX2")
        } else if has("avx") {
            (256, "AVX")
        } else if has("sve") {
            (0, "SVE")
        } else {
            (128, if has("asimd") { "NEON" } else { "SSE" })
        };
        Self { bits, name, fma }
    }
}

/// Where the time goes, as far as a profiler told: parts by function name, and by innermost loop.
#[derive(Default)]
pub(super) struct Heat<'a> {
    pub(super) functions: BTreeMap<String, f64>,
    pub(super) loops: Vec<(&'a Function, &'a InnerLoop, f64)>,
}

/// Of every library.
pub(super) fn report(tool: &str, libraries: &[Library], heat: &Heat<'_>, machine: Width) -> Rung {
    let shares = &heat.functions;
    if tool.is_empty() {
        return Err("objdump is not there; install binutils".to_owned());
    }
    let mut functions: Vec<(&Function, f64)> = libraries
        .iter()
        .flat_map(|library| &library.functions)
        .map(|function| (function, shares.get(&function.name).copied().unwrap_or(0.0)))
        .filter(|(f, share)| *share > 0.01 || f.all.packed + f.all.scalar > 0 || !f.all.libm.is_empty())
        .collect();
    if functions.is_empty() {
        return Err("no shared library with floating-point code was found in the candidate's build folder".to_owned());
    }
    let weight = |f: &Function| f.in_loops.packed + f.in_loops.scalar + 10 * f.in_loops.libm.len() + 1;
    functions.sort_by(|a, b| f64::total_cmp(&b.1, &a.1).then(weight(b.0).cmp(&weight(a.0))));
    let scalable = libraries.iter().any(|library| library.vla);
    let mut made = Report { detail: tool.to_owned(), ..Report::default() };
    for (function, share) in functions.into_iter().take(MOST_TOLD) {
        made.found.extend(words::of(function, share, shares.is_empty(), machine, scalable));
    }
    for (function, inner, share) in heat.loops.iter().filter(|(_, _, share)| *share >= 0.05).take(MOST_TOLD) {
        made.found.push(words::of_loop(function, inner, *share, machine, scalable));
    }
    let table: Vec<String> = libraries.iter().flat_map(|l| &l.functions).take(200).map(row).collect();
    made.documents.push(("disassembly.txt".to_owned(), table.join("\n")));
    Ok(made)
}

fn row(f: &Function) -> String {
    let libm: Vec<&str> = f.all.libm.keys().map(String::as_str).collect();
    format!(
        "{}: widest {} bits; packed {} ({} in loops), scalar {} ({} in loops), fused {}, gathers {}, scatters {}, \
         vector spills {}, OpenMP calls {}, libm [{}]",
        quoted(&f.name, 100),
        f.all.widest,
        f.all.packed,
        f.in_loops.packed,
        f.all.scalar,
        f.in_loops.scalar,
        f.all.fma,
        f.all.gather,
        f.all.scatter,
        f.all.spills,
        f.all.openmp,
        quoted(&libm.join(" "), 100)
    )
}

#[cfg(test)]
mod tests;
