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
    let sve_bytes = std::fs::read_to_string("/proc/sys/abi/sve_default_vector_length").ok();
    name_of(&text, sve_bytes.and_then(|text| text.trim().parse().ok()))
}

/// The name with the widest vectors: `flags` of x86, `Features` of Arm. SVE has no width of its own; the system tells it.
fn name_of(cpuinfo: &str, sve_bytes: Option<u32>) -> String {
    let field = |name: &str| cpuinfo.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    let name = field("model name").map_or(std::env::consts::ARCH, str::trim);
    let features = field("flags").or_else(|| field("Features")).unwrap_or_default();
    let widest = ["avx512f", "avx2", "avx", "sse2", "sve", "asimd", "neon"]
        .into_iter()
        .find(|feature| features.split_whitespace().any(|have| have == *feature));
    match (widest, sve_bytes) {
        (Some("sve"), Some(bytes)) => format!("{name} (sve{})", 8 * bytes),
        (Some(feature), _) => format!("{name} ({feature})"),
        (None, _) => name.to_owned(),
    }
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

/// Nanoseconds on the clock that all processes of this machine share.
pub(crate) fn clock_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_vectors_are_named() {
        let x86 = "processor\t: 0\nmodel name\t: Example CPU\nflags\t\t: fpu sse2 avx avx2 avx512fp16\n";
        assert_eq!(name_of(x86, None), "Example CPU (avx2)");
        let arm = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd evtstrm\nCPU implementer\t: 0x41\n";
        let arch = std::env::consts::ARCH;
        assert_eq!(name_of(arm, None), format!("{arch} (asimd)"));
        let sve = arm.replace("evtstrm", "evtstrm sve");
        assert_eq!(name_of(&sve, Some(32)), format!("{arch} (sve256)"));
        assert_eq!(name_of(&sve, None), format!("{arch} (sve)"));
        assert_eq!(name_of("", None), arch);
    }
}
