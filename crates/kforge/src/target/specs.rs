//! Peak rates by chip, from a table beside the targets: leads for prompts and floors, never a measurement.

use super::{TARGETS, find};
use kforge_types::Target;
use serde::{Deserialize, Serialize};

/// Nominal rates of one chip: dense, fp32 accumulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChipSpecs {
    /// What the driver calls it, less the maker's words.
    pub(crate) names: Vec<String>,
    pub(crate) arch: String,
    pub(crate) memory_gb: f64,
    pub(crate) memory_gb_s: f64,
    pub(crate) fp32_tflops: f64,
    pub(crate) tf32_tflops: f64,
    pub(crate) bf16_tflops: f64,
    #[serde(default)]
    pub(crate) fp8_tflops: Option<f64>,
    pub(crate) l2_mib: f64,
    pub(crate) multiprocessors: u32,
    /// Shared memory of one multiprocessor.
    pub(crate) shared_kib: u32,
    /// Where the numbers come from.
    #[serde(default = "nominal")]
    pub(crate) source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    chip: Vec<ChipSpecs>,
}

fn nominal() -> String {
    "nominal".to_owned()
}

/// The chip that a device of this name has; `None` for one that the target's table does not know.
pub(crate) fn specs(target: &Target, device_name: &str) -> Option<ChipSpecs> {
    let wanted = plain(device_name);
    table(&find(target).ok()?.specs?).ok()?.into_iter().find(|chip| chip.names.iter().any(|name| plain(name) == wanted))
}

fn table(name: &str) -> anyhow::Result<Vec<ChipSpecs>> {
    let file = format!("{name}-specs.toml");
    let text = TARGETS.get_file(&file).and_then(include_dir::File::contents_utf8);
    let text = text.ok_or_else(|| anyhow::anyhow!("there is no table of chips {file}"))?;
    let table: Table = toml::from_str(text).map_err(|error| anyhow::anyhow!("{file} cannot be read: {error}"))?;
    Ok(table.chip)
}

/// The whole name and not a part of it: a laptop's chip is another one.
fn plain(name: &str) -> String {
    let words = name.split_whitespace().filter(|word| !["NVIDIA", "GeForce"].contains(word));
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::all;
    use std::collections::HashSet;

    fn of(target: &str, name: &str) -> Option<ChipSpecs> {
        specs(&target.parse().unwrap(), name)
    }

    #[test]
    fn devices_are_found_by_the_name_that_the_driver_gives() {
        for target in ["nvidia/cuda", "nvidia/cute", "nvidia/triton"] {
            let chip = of(target, "NVIDIA H200").unwrap();
            assert_eq!((chip.arch.as_str(), chip.memory_gb_s, chip.multiprocessors), ("sm_90a", 4800.0, 132));
            assert_eq!(chip.source, "nominal");
        }
        assert_eq!(of("nvidia/cuda", "NVIDIA GeForce RTX 4090").unwrap().arch, "sm_89");
        assert_eq!(of("nvidia/cuda", "NVIDIA A100-SXM4-80GB").unwrap().fp8_tflops, None);
        assert!(of("nvidia/cuda", "NVIDIA GeForce RTX 4090 Laptop GPU").is_none());
        assert!(of("nvidia/cuda", "NVIDIA A10G").is_none() && of("nvidia/cuda", "").is_none());
        assert!(of("cpu/cpp", "NVIDIA H200").is_none());
    }

    #[test]
    fn every_table_is_plausible() {
        for name in all().unwrap().into_iter().filter_map(|pack| pack.specs) {
            let chips = table(&name).unwrap();
            let names: Vec<String> = chips.iter().flat_map(|chip| &chip.names).map(|name| plain(name)).collect();
            assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "each name once");
            for chip in chips {
                assert!(chip.fp32_tflops <= chip.tf32_tflops && chip.tf32_tflops < chip.bf16_tflops, "{chip:?}");
                assert!(chip.fp8_tflops.is_none_or(|fp8| fp8 > chip.bf16_tflops), "{chip:?}");
                assert!((0.25..10.0).contains(&(chip.memory_gb_s / 1000.0)), "{chip:?}");
            }
        }
    }
}
