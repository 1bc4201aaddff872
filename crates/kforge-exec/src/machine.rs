//! Facts about this machine that a result must name.

use kforge_types::DeviceInfo;
use std::path::Path;

/// CPU model, threads and last-level cache.
#[must_use]
pub fn cpu(threads: usize) -> DeviceInfo {
    DeviceInfo { name: cpu_name(), threads, last_level_cache: last_level_cache(), note: String::new() }
}

/// Threads that all arms use by default: one for each core that this process may run on.
#[must_use]
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Operating system and kernel release.
#[must_use]
pub fn os() -> String {
    let name = rustix::system::uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy())
}

fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let name = named.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    let features = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let widest = ["avx512f", "avx2", "avx", "sse2"].into_iter().find(|f| features.split(' ').any(|have| have == *f));
    widest.map_or_else(|| name.to_owned(), |feature| format!("{name} ({feature})"))
}

fn last_level_cache() -> u64 {
    let root = Path::new("/sys/devices/system/cpu/cpu0/cache");
    let Ok(entries) = std::fs::read_dir(root) else { return 0 };
    let size = |path: &Path| -> Option<u64> {
        let text = std::fs::read_to_string(path.join("size")).ok()?;
        let text = text.trim();
        let unit = if text.ends_with('M') { 1 << 20 } else { 1 << 10 };
        Some(text.trim_end_matches(['K', 'M']).parse::<u64>().ok()? * unit)
    };
    entries.flatten().filter_map(|entry| size(&entry.path())).max().unwrap_or(0)
}
