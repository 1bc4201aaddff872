//! Facts about one function of the built code, as sentences.

use super::{
    disassembly::{Function, InnerLoop, Width},
    ladder::{Found, quoted},
};

/// Vector registers written to the stack in loops, beyond which it costs.
const MANY_SPILLS: usize = 4;

/// The findings on one function; `share` is its part of the time, if `unsampled` nobody knows.
pub(super) fn of(f: &Function, share: f64, unsampled: bool, machine: Width, scalable: bool) -> Vec<Found> {
    let name = label(&f.name);
    let importance = if unsampled { 0.9 } else { 0.3 + 0.7 * share.min(1.0) };
    let mut found = Vec::new();
    let mut say = |rank: f64, text: String, metrics: &[(&'static str, f64)]| {
        let mut metrics = metrics.to_vec();
        if !unsampled {
            metrics.push(("share_of_time", share));
        }
        found.push(Found::new(rank * importance, text, &metrics));
    };
    let (all, inner) = (&f.all, &f.in_loops);
    let packed = inner.packed as f64;
    let scalar = inner.scalar as f64;
    if !inner.libm.is_empty() {
        let names: Vec<String> =
            inner.libm.iter().take(4).map(|(call, n)| format!("{} ({n}x)", quoted(call, 40))).collect();
        let calls: usize = inner.libm.values().sum();
        let text = format!(
            "{name} calls scalar libm functions in a loop: {}; each call works on one element, so the loop cannot be \
             vector code. A polynomial written in the loop would be",
            names.join(", ")
        );
        say(95.0, text, &[("libm_calls_in_loops", calls as f64)]);
    }
    // What is left over after a vectorised loop is a scalar loop too: only a profiler tells which one matters.
    if unsampled && inner.packed == 0 && inner.scalar >= 2 {
        let text = format!(
            "{name} computes one number at a time: {} scalar and no packed floating-point instructions in its loops",
            inner.scalar
        );
        say(82.0, text, &[("scalar_in_loops", scalar), ("packed_in_loops", packed)]);
    } else if inner.packed > 0 && all.widest < machine.bits && !scalable {
        let text = format!(
            "{name} uses {}-bit vectors only, although the machine has {} ({} bits)",
            all.widest, machine.name, machine.bits
        );
        let metrics = [("widest_bits", f64::from(all.widest)), ("machine_bits", f64::from(machine.bits))];
        say(75.0, text, &metrics);
    } else if inner.packed > 0 && machine.bits == 0 && !scalable {
        let text = format!("{name} uses NEON's 128-bit vectors only, although the machine has SVE");
        say(60.0, text, &[("widest_bits", f64::from(all.widest))]);
    }
    if inner.gather + inner.scatter > 0 {
        let text = format!(
            "{name} has {} gathers and {} scatters in its loops: elements that it works on together are not contiguous",
            inner.gather, inner.scatter
        );
        say(60.0, text, &[("gathers", inner.gather as f64), ("scatters", inner.scatter as f64)]);
    }
    if inner.spills > MANY_SPILLS {
        let text = format!(
            "{name} writes vector registers to the stack in its loops ({} places): fewer accumulators or a smaller tile \
             would stay in registers",
            inner.spills
        );
        say(58.0, text, &[("spills_in_loops", inner.spills as f64)]);
    }
    if machine.fma && all.fma == 0 && inner.packed >= 4 {
        let text = format!(
            "{name} has no fused multiply-add among {} packed instructions in its loops; -ffp-contract=fast and \
             -march=native give them",
            inner.packed
        );
        say(50.0, text, &[("fma", 0.0), ("packed_in_loops", packed)]);
    }
    if all.packed > 0 {
        let text = format!(
            "{name}: widest vectors {} bits, in its loops {} packed and {} scalar floating-point instructions, \
             {} fused multiply-adds in all",
            if scalable { "scalable".to_owned() } else { all.widest.to_string() },
            inner.packed,
            inner.scalar,
            all.fma
        );
        let metrics = [
            ("widest_bits", f64::from(all.widest)),
            ("packed_in_loops", packed),
            ("scalar_in_loops", scalar),
            ("fma", all.fma as f64),
        ];
        say(25.0, text, &metrics);
    }
    found
}

/// A loop that a profiler found hot.
pub(super) fn of_loop(f: &Function, inner: &InnerLoop, share: f64, machine: Width, scalable: bool) -> Found {
    let counts = &inner.counts;
    let of = format!("a loop of {} takes {:.0} % of the work", label(&f.name), 100.0 * share);
    let mix = format!("{} packed and {} scalar floating-point instructions", counts.packed, counts.scalar);
    let (rank, text) = if counts.packed == 0 && counts.scalar + counts.libm.len() > 0 {
        (90.0, format!("{of} and computes one number at a time: {mix}"))
    } else if counts.packed > 0 && counts.widest < machine.bits && !scalable {
        let wide = format!("although the machine has {} ({} bits)", machine.name, machine.bits);
        (78.0, format!("{of} and uses {}-bit vectors, {wide}: {mix}", counts.widest))
    } else if counts.packed == 0 {
        (50.0, format!("{of} without floating-point arithmetic: it moves or compares"))
    } else {
        let width = if scalable { "scalable".to_owned() } else { format!("{}-bit", counts.widest) };
        (40.0, format!("{of} and uses {width} vectors: {mix}, {} of them fused", counts.fma))
    };
    let metrics = [
        ("share_of_time", share),
        ("widest_bits", f64::from(counts.widest)),
        ("packed", counts.packed as f64),
        ("scalar", counts.scalar as f64),
        ("fma", counts.fma as f64),
        ("spills", counts.spills as f64),
    ];
    Found::new(rank * (0.5 + 0.5 * share.min(1.0)), text, &metrics)
}

/// The compiler puts parallel regions into functions of their own.
pub(super) fn label(name: &str) -> String {
    let region = name.split("._omp_fn.").next().filter(|base| *base != name);
    let region = region.or_else(|| name.split(".omp_outlined").next().filter(|base| *base != name && !base.is_empty()));
    match region {
        Some(base) => format!("{} (its parallel region)", quoted(base.trim_end_matches(" [clone "), 80)),
        None => quoted(name, 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_regions_are_called_by_their_function() {
        assert_eq!(label("softmax._omp_fn.0"), "softmax (its parallel region)");
        assert_eq!(label("f(at::Tensor) [clone ._omp_fn.1]"), "f(at::Tensor) (its parallel region)");
        assert_eq!(label("f.omp_outlined"), "f (its parallel region)");
        assert_eq!(label("f\u{1b}(int)"), "f\u{FFFD}(int)");
    }
}
