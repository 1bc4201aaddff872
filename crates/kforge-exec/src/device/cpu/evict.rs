//! Cold caches: every core reads a buffer larger than the last-level cache.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const LARGEST: u64 = 256 << 20;
const SMALLEST: u64 = 32 << 20;

/// The buffer that pushes everything else out.
pub(super) struct Evictor {
    buffer: Vec<u64>,
    threads: usize,
    fastest: Duration,
}

impl Evictor {
    pub(super) fn new(last_level_cache: u64, threads: usize) -> Self {
        let bytes = (2 * last_level_cache).clamp(SMALLEST, LARGEST) as usize;
        Self { buffer: vec![1; bytes / 8], threads: threads.max(1), fastest: Duration::MAX }
    }

    /// Each thread is held on a core of its own, so that private caches are emptied too.
    pub(super) fn evict(&mut self) {
        let start = Instant::now();
        let part = self.buffer.len().div_ceil(self.threads);
        std::thread::scope(|scope| {
            for (core, chunk) in self.buffer.chunks(part).enumerate() {
                scope.spawn(move || {
                    pin(core);
                    black_box(chunk.iter().step_by(8).fold(0_u64, |sum, value| sum.wrapping_add(*value)));
                });
            }
        });
        self.fastest = self.fastest.min(start.elapsed());
    }

    /// Bytes per second of the best pass: what this machine's memory gives to plain reads.
    pub(super) fn bandwidth(&self) -> f64 {
        self.buffer.len() as f64 * 8.0 / self.fastest.as_secs_f64()
    }

    pub(super) fn describe(&self) -> String {
        format!("{} MiB read by {} threads before each call", (self.buffer.len() * 8) >> 20, self.threads)
    }
}

#[cfg(target_os = "linux")]
fn pin(core: usize) {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&c| allowed.is_set(c)).collect();
    if let Some(&chosen) = cores.get(core % cores.len().max(1)) {
        let mut set = rustix::thread::CpuSet::new();
        set.set(chosen);
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(_core: usize) {}
