//! Where the clock found the candidate's process.
//!
//! Functions of the candidate's libraries come from the sandboxed disassembly, never from perf.

use super::{
    disassembly::{Function, InnerLoop, Library},
    ladder::{Found, Report, quoted},
    recording::{self, Event, Mapping},
    words,
};
use std::collections::BTreeMap;

/// What a sample lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Own,
    Torch,
    OpenMp,
    Math,
    Kernel,
    Other,
}

/// Samples of the candidate's process, by what they lie in.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) total: u64,
    pub(super) by_place: BTreeMap<Place, u64>,
    /// By file and offset, of the candidate's own libraries and of torch.
    pub(super) by_offset: BTreeMap<(String, u64), u64>,
}

impl Samples {
    fn add(&mut self, address: u64, pid: u32, kernel: bool, mappings: &[Mapping<'_>], scratch: &str) {
        self.total += 1;
        // The latest first: it lies over what was there before.
        let found = mappings.iter().rev().find(|m| m.pid == pid && (m.start..m.end).contains(&address));
        let place = match found {
            _ if kernel => Place::Kernel,
            Some(mapping) => place(&mapping.file, scratch),
            None => Place::Other,
        };
        *self.by_place.entry(place).or_default() += 1;
        if let (Place::Own | Place::Torch, Some(mapping)) = (place, found) {
            let offset = (address - mapping.start).saturating_add(mapping.offset);
            *self.by_offset.entry((mapping.file.clone().into_owned(), offset)).or_default() += 1;
        }
    }

    /// A sample's part of the work: waiting threads spin in the OpenMP runtime, however long they wait.
    pub(super) fn part(&self) -> f64 {
        let waiting = self.by_place.get(&Place::OpenMp).copied().unwrap_or(0);
        1.0 / (self.total - waiting).max(1) as f64
    }
}

/// Mappings and samples beyond these are a flood, not a profile.
const MOST_MAPPINGS: usize = 5000;
const MOST_SAMPLES: u64 = 50_000;

/// Reads what `perf record` wrote.
pub(super) fn parse(data: &[u8], scratch: &str) -> Option<Samples> {
    let mut mappings: Vec<Mapping<'_>> = Vec::new();
    let mut samples = Samples::default();
    for event in recording::events(data)? {
        match event {
            Event::Mapping(mapping) if mappings.len() < MOST_MAPPINGS => mappings.push(mapping),
            Event::Sample { address, pid, kernel } if samples.total < MOST_SAMPLES => {
                samples.add(address, pid, kernel, &mappings, scratch);
            }
            _ => {}
        }
    }
    Some(samples)
}

fn place(file: &str, scratch: &str) -> Place {
    let name = file.rsplit('/').next().unwrap_or_default();
    if file.starts_with(scratch) {
        Place::Own
    } else if ["libgomp", "libomp", "libiomp"].iter().any(|start| name.starts_with(start)) {
        Place::OpenMp
    } else if name.starts_with("libm.") || name.starts_with("libm-") || name.starts_with("libmvec") {
        Place::Math
    } else if file.contains("/torch/lib/") {
        Place::Torch
    } else {
        Place::Other
    }
}

/// Parts of the work by function of the candidate's own libraries.
pub(super) fn shares(samples: &Samples, libraries: &[Library], scratch: &str) -> BTreeMap<String, f64> {
    let mut counted: BTreeMap<String, f64> = BTreeMap::new();
    for ((file, offset), count) in &samples.by_offset {
        if place(file, scratch) != Place::Own {
            continue;
        }
        let name = file.rsplit('/').next().unwrap_or_default();
        let library = libraries.iter().find(|library| library.name == name);
        if let Some(function) = library.and_then(|library| library.function_at(*offset)) {
            *counted.entry(function.name.clone()).or_default() += *count as f64 * samples.part();
        }
    }
    counted
}

/// Parts of the work by innermost loop of the candidate's own functions: function, loop, part.
pub(super) fn hot_loops<'a>(
    samples: &Samples,
    libraries: &'a [Library],
    scratch: &str,
) -> Vec<(&'a Function, &'a InnerLoop, f64)> {
    let mut counted: BTreeMap<(usize, u64), (&Function, &InnerLoop, f64)> = BTreeMap::new();
    for ((file, offset), count) in &samples.by_offset {
        if place(file, scratch) != Place::Own {
            continue;
        }
        let name = file.rsplit('/').next().unwrap_or_default();
        let Some(index) = libraries.iter().position(|library| library.name == name) else { continue };
        if let Some((function, inner)) = libraries[index].loop_at(*offset) {
            let part = *count as f64 * samples.part();
            counted.entry((index, inner.start)).or_insert((function, inner, 0.0)).2 += part;
        }
    }
    let mut found: Vec<_> = counted.into_values().collect();
    found.sort_by(|a, b| f64::total_cmp(&b.2, &a.2));
    found
}

/// In words: by place, then by function.
pub(super) fn report(
    version: &str,
    samples: &Samples,
    own: &BTreeMap<String, f64>,
    torch: &BTreeMap<String, f64>,
) -> Report {
    let share = |place: Place| samples.by_place.get(&place).copied().unwrap_or(0) as f64 / samples.total.max(1) as f64;
    let mut found = Vec::new();
    let text = format!(
        "of the time of the candidate's process with warm caches, {:.0} % is in its own libraries, {:.0} % in torch, \
         {:.0} % in the OpenMP runtime (waiting threads spin there), {:.0} % in libm, {:.0} % in the system's kernel, \
         {:.0} % in Python and the rest",
        100.0 * share(Place::Own),
        100.0 * share(Place::Torch),
        100.0 * share(Place::OpenMp),
        100.0 * share(Place::Math),
        100.0 * share(Place::Kernel),
        100.0 * share(Place::Other)
    );
    let metrics = [
        ("own", share(Place::Own)),
        ("torch", share(Place::Torch)),
        ("openmp", share(Place::OpenMp)),
        ("libm", share(Place::Math)),
        ("kernel", share(Place::Kernel)),
        ("rest", share(Place::Other)),
        ("samples", samples.total as f64),
    ];
    found.push(Found::new(68.0, text, &metrics));
    if share(Place::OpenMp) > 0.3 {
        let text = format!(
            "threads wait in the OpenMP runtime for {:.0} % of the samples: uneven parts, too little work for a parallel \
             region, parts that run on one thread only, or a machine that is busy with something else",
            100.0 * share(Place::OpenMp)
        );
        found.push(Found::new(56.0, text, &[("openmp", share(Place::OpenMp))]));
    }
    if share(Place::Kernel) > 0.25 {
        let text = format!(
            "{:.0} % of the samples are in the system's kernel: new pages for outputs and workspaces, or threads that are \
             put to sleep and woken",
            100.0 * share(Place::Kernel)
        );
        found.push(Found::new(62.0, text, &[("kernel", share(Place::Kernel))]));
    }
    for (name, part) in hottest(own, 3) {
        let text = format!("{} takes {:.0} % of the work", words::label(name), 100.0 * part);
        found.push(Found::new(30.0 + 40.0 * part, text, &[("share_of_time", part)]));
    }
    for (name, part) in hottest(torch, 2) {
        let text = format!("torch's {} takes {:.0} % of the work", kernel_name(name), 100.0 * part);
        found.push(Found::new(30.0 + 40.0 * part, text, &[("share_of_time", part)]));
    }
    Report { detail: format!("{version}, {} samples", samples.total), found, documents: Vec::new() }
}

/// Names of templates are a screen long; the kernel's own name is somewhere in them.
fn kernel_name(name: &str) -> String {
    let mut words = name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let kernel = words.find(|word| word.ends_with("_kernel") || word.ends_with("_kernel_impl"));
    quoted(kernel.unwrap_or(name), 100)
}

fn hottest(shares: &BTreeMap<String, f64>, most: usize) -> Vec<(&str, f64)> {
    let mut found: Vec<(&str, f64)> =
        shares.iter().map(|(name, part)| (name.as_str(), *part)).filter(|(_, part)| *part >= 0.03).collect();
    found.sort_by(|a, b| f64::total_cmp(&b.1, &a.1));
    found.truncate(most);
    found
}

#[cfg(test)]
mod tests {
    use super::{super::disassembly, *};

    const SCRATCH: &str = "/scratch/cell-1";
    const TORCH: &str = "/py/site-packages/torch/lib/libtorch_cpu.so";

    fn recorded() -> Vec<u8> {
        let mut file = recording::tests::Writer::new();
        file.mapping(7, 0x7f00_0000_1000, 0x1000, 0x1000, "/scratch/cell-1/build/kernel.so");
        file.mapping(7, 0x7f61_df58_3000, 0x111b_b000, 0xf8_3000, TORCH);
        file.mapping(7, 0x7f62_0000_0000, 0x1000, 0, "/py/site-packages/torch/lib/libgomp.so.1");
        file.mapping(7, 0x7f63_0000_0000, 0x1000, 0, "/usr/lib/libm.so.6");
        file.sample(7, 0x7f00_0000_1270, false);
        file.sample(7, 0x7f00_0000_1272, false);
        file.sample(7, 0x7f61_df58_3010, false);
        file.sample(7, 0x7f62_0000_0010, false);
        file.sample(7, 0xffff_ffff_821e_81e7, true);
        file.sample(7, 0x7f63_0000_0010, false);
        file.sample(8, 0x7f00_0000_1270, false);
        file.done()
    }

    #[test]
    fn samples_find_their_place_and_function() {
        let samples = parse(&recorded(), SCRATCH).unwrap();
        assert_eq!((samples.total, samples.by_place[&Place::Own], samples.by_place[&Place::Torch]), (7, 2, 1));
        assert_eq!((samples.by_place[&Place::Math], samples.by_place[&Place::Other]), (1, 1));
        assert_eq!(samples.by_offset[&(TORCH.to_owned(), 0xf8_3010)], 1);
        let text = include_str!("fixtures/avx2.txt").to_owned();
        let library = disassembly::parse(&disassembly::Code { name: "kernel.so".to_owned(), text });
        let own = shares(&samples, std::slice::from_ref(&library), SCRATCH);
        assert!((own["softmax._omp_fn.0"] - 2.0 / 6.0).abs() < 1e-9);
        assert_eq!(hot_loops(&samples, &[library], SCRATCH).len(), 1);
        let report = report("perf", &samples, &own, &BTreeMap::new());
        assert!(report.found[0].text.contains("29 % is in its own libraries, 14 % in torch"), "{:?}", report.found[0]);
        assert_eq!(report.found[1].text, "softmax (its parallel region) takes 33 % of the work");
    }

    #[test]
    fn a_template_is_called_by_its_kernel() {
        let name =
            "void c10::function_ref<void (char**)>::callback_fn<at::native::(anonymous namespace)::div_true_kernel(x)>";
        assert_eq!(kernel_name(name), "div_true_kernel");
        assert_eq!(kernel_name("mkl_blas_sgemm"), "mkl_blas_sgemm");
    }
}
