//! From counters to words: what holds a kernel back, with the numbers behind it. Pure functions.

use super::{
    super::ladder::{Found, bytes_text},
    metrics as m,
    ncu::Launch,
};

/// Above this part of its peak a unit is what limits a kernel.
const BUSY: f64 = 60.0;
/// Above this there is little to win by keeping the unit busier.
const FULL: f64 = 85.0;
/// Below this, in percent of the warps that a multiprocessor can hold, latency is hard to hide.
const FEW_WARPS: f64 = 40.0;
/// A stall is named from this part of the warps' time on.
const STALLED: f64 = 25.0;
/// Wavefronts of shared memory that are repeats.
const CONFLICTS: f64 = 0.2;
const FEWEST_WAVEFRONTS: f64 = 1000.0;
/// Sectors of a request, over what its width needs.
const SCATTERED: f64 = 1.5;
const DIVERGENT: f64 = 80.0;
/// Part of the last waves that is idle.
const TAIL: f64 = 0.15;
const TAIL_MATTERS_UNTIL: f64 = 8.0;
/// Part of a call in which kernels run, below which launching them is what takes the time.
const LAUNCH_BOUND: f64 = 0.5;
/// Part of a call in which own kernels run, below which something else is worth a word.
const OWN_PART: f64 = 0.8;

/// One kernel with all that is known of it.
#[derive(Debug, Clone)]
pub(super) struct Kernel<'a> {
    pub(super) name: String,
    /// Of the time of the candidate's own kernels.
    pub(super) share: f64,
    /// Its longest launch.
    pub(super) launch: &'a Launch,
    /// Bytes of its widest load, where its code was read.
    pub(super) load_bytes: Option<u32>,
}

/// What does not come from the profiler.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scene {
    /// The reference multiplies matrices.
    pub(super) products: bool,
    /// The contract allows a precision that tensor cores have.
    pub(super) tensor_cores: bool,
    pub(super) multiprocessors: Option<f64>,
    /// Inputs, weights and outputs, once each.
    pub(super) least_bytes: f64,
    /// Of one call of the candidate.
    pub(super) time_us: Option<f64>,
}

impl Kernel<'_> {
    fn get(&self, name: &str) -> Option<f64> {
        self.launch.values.get(name).copied()
    }
}

/// Of one kernel.
pub(super) fn of(kernel: &Kernel<'_>, scene: &Scene) -> Vec<Found> {
    let weight = kernel.share.clamp(0.2, 1.0);
    let checks: [fn(&Kernel<'_>, &Scene) -> Option<Found>; 9] = [
        limit,
        occupancy,
        scattered_loads,
        scattered_stores,
        bank_conflicts,
        tensor_cores,
        small_grid,
        tail,
        divergence,
    ];
    let mut found: Vec<Found> = checks.iter().filter_map(|check| check(kernel, scene)).collect();
    for one in &mut found {
        one.rank *= weight;
    }
    found
}

/// Memory, tensor cores or instructions; or waiting, and for what.
fn limit(kernel: &Kernel<'_>, scene: &Scene) -> Option<Found> {
    let name = &kernel.name;
    let memory = kernel.get(m::DRAM_PERCENT);
    let arithmetic = kernel.get(m::SM_PERCENT);
    let tensor = kernel.get(m::TENSOR_PIPE);
    let cache = kernel.get(m::L2_PERCENT);
    let metrics = [
        (m::DRAM_PERCENT, memory.unwrap_or(f64::NAN)),
        (m::SM_PERCENT, arithmetic.unwrap_or(f64::NAN)),
        (m::TENSOR_PIPE, tensor.unwrap_or(f64::NAN)),
        (m::L2_PERCENT, cache.unwrap_or(f64::NAN)),
        (m::DRAM_PER_SECOND, kernel.get(m::DRAM_PER_SECOND).unwrap_or(f64::NAN)),
    ];
    let of_time = format!("{:.0} % of the own kernels' time", 100.0 * kernel.share);
    let memory = memory?;
    let arithmetic = arithmetic.unwrap_or(0.0);
    if memory >= BUSY && memory >= arithmetic {
        let speed = kernel.get(m::DRAM_PER_SECOND).map(|s| format!(" ({:.0} GB/s)", s / 1e9)).unwrap_or_default();
        let moved = kernel.get(m::DRAM_READ).unwrap_or(0.0) + kernel.get(m::DRAM_WRITTEN).unwrap_or(0.0);
        let advice = if memory >= FULL {
            let times = moved / scene.least_bytes.max(1.0);
            if scene.least_bytes > 0.0 && times >= 1.3 {
                format!(
                    "only fewer bytes help: it moves {}, {times:.1} times what inputs, weights and outputs take once",
                    bytes_text(moved)
                )
            } else {
                "it is near what the memory gives".to_owned()
            }
        } else {
            "more bytes in flight (wider loads, more loads before the first use, asynchronous copies) or fewer bytes"
                .to_owned()
        };
        let text = format!(
            "kernel {name} ({of_time}) is memory-bound: device memory runs at {memory:.0} % of its peak{speed}; {advice}"
        );
        return Some(Found::new(90.0, text, &metrics));
    }
    if tensor.is_some_and(|tensor| tensor >= BUSY) {
        let tensor = tensor.unwrap_or(0.0);
        let text =
            format!("kernel {name} ({of_time}) is bound by tensor cores: their pipe is busy {tensor:.0} % of the time");
        return Some(Found::new(86.0, text, &metrics));
    }
    if arithmetic >= BUSY {
        let text = format!(
            "kernel {name} ({of_time}) is bound by instructions: the multiprocessors run at {arithmetic:.0} % of their \
             peak, device memory at {memory:.0} %; fewer or cheaper instructions for each element help"
        );
        return Some(Found::new(86.0, text, &metrics));
    }
    let (stall, percent) = stalls(kernel)?;
    let l2 = cache.filter(|cache| *cache >= BUSY).map(|c| format!(", the L2 cache at {c:.0} %")).unwrap_or_default();
    let text = format!(
        "kernel {name} ({of_time}) waits: device memory runs at {memory:.0} % and the multiprocessors at \
         {arithmetic:.0} % of their peaks{l2}; {stall} ({percent:.0} % of its warps' time)"
    );
    Some(Found::new(87.0, text, &metrics))
}

/// The longest wait, where one stands out.
fn stalls(kernel: &Kernel<'_>) -> Option<(&'static str, f64)> {
    let known = [
        (
            m::STALL_LONG,
            "most of it for global memory: load earlier, load wider, copy asynchronously, or keep more warps resident",
        ),
        (m::STALL_SHORT, "most of it for shared memory or special functions: fewer or wider shared accesses"),
        (m::STALL_BARRIER, "most of it at block barriers: fewer barriers, smaller blocks, or warp-level exchange"),
        (m::STALL_BRANCH, "most of it at branches: unroll loops, or make branches uniform"),
    ];
    let largest = known.iter().filter_map(|(name, words)| Some((*words, kernel.get(name)?)));
    let (words, percent) = largest.max_by(|a, b| f64::total_cmp(&a.1, &b.1))?;
    if percent >= STALLED {
        return Some((words, percent));
    }
    Some(("no single kind of wait stands out; the longest that is counted", percent))
}

fn occupancy(kernel: &Kernel<'_>, _: &Scene) -> Option<Found> {
    let warps = kernel.get(m::ACTIVE_WARPS)?;
    if warps >= FEW_WARPS || kernel.get(m::DRAM_PERCENT).is_some_and(|memory| memory >= FULL) {
        return None;
    }
    let limits = [
        (m::LIMIT_REGISTERS, "registers"),
        (m::LIMIT_SHARED, "shared memory"),
        (m::LIMIT_WARPS, "the size of its blocks"),
        (m::LIMIT_BLOCKS, "the number of blocks"),
    ];
    let smallest = limits.iter().filter_map(|(name, what)| Some((kernel.get(name)?, *what)));
    let (blocks, what) = smallest.min_by(|a, b| f64::total_cmp(&a.0, &b.0))?;
    let detail = match what {
        "registers" => kernel.get(m::REGISTERS).map(|r| format!(", {r:.0} for each thread")).unwrap_or_default(),
        "shared memory" => {
            kernel.get(m::SHARED_PER_BLOCK).map(|s| format!(", {} for each block", bytes_text(s))).unwrap_or_default()
        }
        _ => String::new(),
    };
    let text = format!(
        "kernel {} keeps {warps:.0} % of the warps that a multiprocessor can hold; occupancy is limited by {what}{detail}: \
         {blocks:.0} blocks fit. That is fine for a kernel that keeps enough loads or products in flight otherwise",
        kernel.name
    );
    let metrics = [(m::ACTIVE_WARPS, warps), ("occupancy_limit", blocks)];
    Some(Found::new(62.0, text, &metrics))
}

fn scattered_loads(kernel: &Kernel<'_>, _: &Scene) -> Option<Found> {
    // A warp of 32 threads that load w bytes each needs w sectors of 32 bytes; unknown widths get the benefit.
    let sectors = kernel.get(m::LOAD_SECTORS)?;
    let needed = f64::from(kernel.load_bytes.unwrap_or(16).max(4));
    scattered(kernel, "loads", sectors, needed, m::LOAD_SECTORS)
}

fn scattered_stores(kernel: &Kernel<'_>, _: &Scene) -> Option<Found> {
    let sectors = kernel.get(m::STORE_SECTORS)?;
    scattered(kernel, "stores", sectors, f64::from(kernel.load_bytes.unwrap_or(16).max(4)), m::STORE_SECTORS)
}

fn scattered(kernel: &Kernel<'_>, what: &str, sectors: f64, needed: f64, metric: &'static str) -> Option<Found> {
    (sectors > SCATTERED * needed).then(|| {
        let text = format!(
            "kernel {} has uncoalesced {what}: a warp's request touches {sectors:.1} sectors of 32 bytes where {needed:.0} \
             would do; neighbouring threads should use neighbouring addresses, or go through shared memory",
            kernel.name
        );
        Found::new(78.0, text, &[(metric, sectors), ("sectors_needed", needed)])
    })
}

fn bank_conflicts(kernel: &Kernel<'_>, _: &Scene) -> Option<Found> {
    let conflicts = kernel.get(m::BANK_CONFLICTS)?;
    let wavefronts = kernel.get(m::SHARED_WAVEFRONTS).filter(|all| *all >= FEWEST_WAVEFRONTS)?;
    let part = conflicts / wavefronts;
    (part > CONFLICTS).then(|| {
        let text = format!(
            "kernel {} has bank conflicts: {:.0} % of its shared-memory wavefronts are repeats; pad or swizzle the rows",
            kernel.name,
            100.0 * part
        );
        Found::new(66.0, text, &[(m::BANK_CONFLICTS, conflicts), (m::SHARED_WAVEFRONTS, wavefronts)])
    })
}

fn tensor_cores(kernel: &Kernel<'_>, scene: &Scene) -> Option<Found> {
    let busy = kernel.get(m::TENSOR_PIPE)?;
    let heavy = kernel.share >= 0.5 && kernel.get(m::DRAM_PERCENT).is_some_and(|memory| memory < BUSY);
    (scene.products && scene.tensor_cores && busy < 1.0 && heavy).then(|| {
        let text = format!(
            "kernel {} takes most of the own kernels' time and does not use tensor cores, although the reference \
             multiplies matrices and the contract allows a precision that they have",
            kernel.name
        );
        Found::new(89.0, text, &[(m::TENSOR_PIPE, busy)])
    })
}

fn small_grid(kernel: &Kernel<'_>, scene: &Scene) -> Option<Found> {
    let (grid, all) = (kernel.get(m::GRID)?, scene.multiprocessors?);
    (grid < all).then(|| {
        let text = format!(
            "kernel {} starts {grid:.0} blocks for {all:.0} multiprocessors: {:.0} % of the GPU has no work; split it \
             further, for example along the reduction",
            kernel.name,
            100.0 * (1.0 - grid / all)
        );
        Found::new(80.0, text, &[(m::GRID, grid), ("multiprocessors", all)])
    })
}

fn tail(kernel: &Kernel<'_>, scene: &Scene) -> Option<Found> {
    let waves = kernel.get(m::WAVES).filter(|waves| *waves > 1.0 && *waves <= TAIL_MATTERS_UNTIL)?;
    let lost = 1.0 - waves / waves.ceil();
    let whole = scene.multiprocessors.zip(kernel.get(m::GRID)).is_none_or(|(all, grid)| grid >= all);
    (lost >= TAIL && whole).then(|| {
        let text = format!(
            "kernel {} has a tail: its blocks make {waves:.2} waves, so {:.0} % of the GPU's time for it is idle at the \
             end; other tile sizes, or as many blocks as fit at once with a loop in each, fill it",
            kernel.name,
            100.0 * lost
        );
        Found::new(58.0, text, &[(m::WAVES, waves), ("idle_part", lost)])
    })
}

fn divergence(kernel: &Kernel<'_>, _: &Scene) -> Option<Found> {
    let uniform = kernel.get(m::UNIFORM_BRANCHES)?;
    // 0 is what a kernel without branches shows.
    (uniform > 0.0 && uniform < DIVERGENT).then(|| {
        let text = format!(
            "kernel {} diverges: only {uniform:.0} % of its branches are taken by whole warps alike",
            kernel.name
        );
        Found::new(52.0, text, &[(m::UNIFORM_BRANCHES, uniform)])
    })
}

/// Of the whole call: whether kernels run for most of it.
pub(super) fn launches(kernels_us: f64, launches: f64, time_us: f64) -> Option<Found> {
    let part = kernels_us / time_us.max(1e-9);
    (kernels_us > 0.0 && part < LAUNCH_BOUND).then(|| {
        let text = format!(
            "launch-bound: kernels run for {kernels_us:.1} of {time_us:.1} us a call, in {launches:.0} launches; fewer \
             launches (fusion), a CUDA graph, or less Python and allocation between them help, not faster kernels"
        );
        let metrics = [("kernels_us", kernels_us), ("time_us", time_us), ("launches", launches)];
        Found::new(93.0, text, &metrics)
    })
}

/// Of the whole call: whether it is the candidate's own kernels that take its time.
pub(super) fn others(own_us: f64, time_us: f64) -> Option<Found> {
    let part = own_us / time_us.max(1e-9);
    (own_us > 0.0 && part < OWN_PART).then(|| {
        let text = format!(
            "its own kernels take {:.0} % of a call ({own_us:.1} of {time_us:.1} us); the rest is in kernels of the \
             framework or of vendor libraries, or between launches, and faster own kernels do not help there",
            100.0 * part
        );
        let metrics = [("own_part", part), ("own_us", own_us), ("time_us", time_us)];
        Found::new(if part < 0.5 { 82.0 } else { 60.0 }, text, &metrics)
    })
}

#[cfg(test)]
mod tests;
