//! The candidate's time against the least that its bytes and operations can take here.

use super::ladder::{Found, bytes_text};
use kforge_types::Roofline;

/// Beyond so many times the floor neither memory nor arithmetic explains the time.
const FAR: f64 = 3.0;

/// The model's inputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) bytes: f64,
    pub(super) flops: Option<f64>,
    pub(super) bandwidth: f64,
    pub(super) flops_per_s: Option<f64>,
}

/// Nothing is clamped: to beat the model is a finding.
pub(super) fn place(load: Load, time_us: f64) -> Roofline {
    let memory_us = load.bytes / load.bandwidth.max(1.0) * 1e6;
    let compute_us = load.flops.zip(load.flops_per_s).map_or(0.0, |(flops, peak)| flops / peak.max(1.0) * 1e6);
    let floor_us = memory_us.max(compute_us);
    let class = match () {
        () if time_us > FAR * floor_us => "overhead",
        () if compute_us > memory_us => "compute",
        () => "memory",
    };
    Roofline {
        class: class.to_owned(),
        bytes: load.bytes,
        flops: load.flops,
        memory_bytes_per_s: load.bandwidth,
        flops_per_s: load.flops_per_s,
        floor_us,
        time_us,
    }
}

/// Whose limits they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limits {
    /// Measured on this machine.
    Measured,
    /// What the GPU's clocks and widths allow.
    Rated,
}

/// The position in words.
pub(super) fn words(roofline: &Roofline, limits: Limits) -> Found {
    let (peak, room) = match limits {
        Limits::Measured => ("the measured", "threads, vectors, passes, overhead"),
        Limits::Rated => ("the GPU's", "launches, passes, coalescing, work for all multiprocessors"),
    };
    let Roofline { floor_us, time_us, bytes, .. } = roofline;
    let memory_us = bytes / roofline.memory_bytes_per_s.max(1.0) * 1e6;
    let compute_us = roofline.flops.zip(roofline.flops_per_s).map(|(flops, peak)| flops / peak.max(1.0) * 1e6);
    let arithmetic = match (roofline.flops, compute_us) {
        (Some(flops), Some(us)) => format!(", {:.3} Gflop at {peak} peak {us:.0} us", flops / 1e9),
        _ => String::new(),
    };
    let limits = format!(
        "inputs, weights and outputs ({}) take {memory_us:.0} us at {peak} {:.1} GB/s{arithmetic}",
        bytes_text(*bytes),
        roofline.memory_bytes_per_s / 1e9
    );
    let times = time_us / floor_us.max(1e-9);
    let says = match roofline.class.as_str() {
        _ if times < 0.95 => format!(
            "the candidate takes {time_us:.0} us, less than the model's floor of {floor_us:.0} us: caches, or work that \
             the reference does and it does not"
        ),
        "memory" => format!("bound by memory: {time_us:.0} us is {times:.2} times the floor of {floor_us:.0} us"),
        "compute" => format!("bound by arithmetic: {time_us:.0} us is {times:.2} times the floor of {floor_us:.0} us"),
        _ => format!(
            "neither memory nor arithmetic explains its time: {time_us:.0} us is {times:.1} times the floor of \
             {floor_us:.0} us, so there is room in how the work is done ({room})"
        ),
    };
    let metrics = [
        ("time_us", *time_us),
        ("floor_us", *floor_us),
        ("times_the_floor", times),
        ("memory_us", memory_us),
        ("compute_us", compute_us.unwrap_or(f64::NAN)),
        ("achieved_bytes_per_s", bytes / time_us.max(1e-9) * 1e6),
        ("achieved_flops_per_s", roofline.flops.map_or(f64::NAN, |flops| flops / time_us.max(1e-9) * 1e6)),
    ];
    Found::new(100.0, format!("{says}; {limits}"), &metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes: f64, flops: Option<f64>, time_us: f64) -> (Roofline, Found) {
        let load = Load { bytes, flops, bandwidth: 1e10, flops_per_s: Some(1e11) };
        let roofline = place(load, time_us);
        let found = words(&roofline, Limits::Measured);
        (roofline, found)
    }

    #[test]
    fn the_larger_of_both_times_is_the_floor() {
        let (memory, text) = at(1e7, Some(1e7), 1200.0);
        assert_eq!((memory.class.as_str(), memory.floor_us.round()), ("memory", 1000.0));
        assert!(text.text.starts_with("bound by memory: 1200 us is 1.20 times"), "{}", text.text);
        let (compute, _) = at(1e6, Some(1e9), 12_000.0);
        assert_eq!((compute.class.as_str(), compute.floor_us.round()), ("compute", 10_000.0));
        let (overhead, text) = at(1e6, None, 5000.0);
        assert_eq!(overhead.class, "overhead");
        assert!(text.text.contains("50.0 times the floor"), "{}", text.text);
    }

    #[test]
    fn beating_the_model_is_not_clamped() {
        let (roofline, found) = at(1e7, None, 100.0);
        assert!(roofline.time_us < roofline.floor_us);
        assert!(found.text.contains("less than the model's floor"), "{}", found.text);
        let achieved = found.metrics.iter().find(|(name, _)| *name == "achieved_bytes_per_s").unwrap().1;
        assert!(achieved > roofline.memory_bytes_per_s);
    }
}
