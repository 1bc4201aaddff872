//! Which numbers Nsight Compute is asked for, and which of them a chip was found not to have.

use super::super::kept;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Those that were found to go with run time over many kernels; the report says which of them a chip lacks.
pub(super) const CHOSEN: [&str; 24] = [
    "sm__cycles_active.avg",
    ACTIVE_WARPS,
    LIMIT_BLOCKS,
    LIMIT_REGISTERS,
    LIMIT_SHARED,
    REGISTERS,
    "sm__inst_executed.sum",
    "sm__inst_executed_pipe_fp32.avg.pct_of_peak_sustained_active",
    TENSOR_PIPE,
    DRAM_READ,
    DRAM_WRITTEN,
    DRAM_PERCENT,
    DRAM_PER_SECOND,
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    L1_HITS,
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    L2_HITS,
    L2_PERCENT,
    "smsp__warp_issue_stalled_memory_dependency_per_warp_active.pct",
    STALL_SHORT,
    STALL_LONG,
    STALL_BARRIER,
    STALL_BRANCH,
    UNIFORM_BRANCHES,
];

/// Beside them: had in the same capture, and needed for findings.
pub(super) const FREE: [&str; 13] = [
    DURATION,
    GRID,
    BLOCK,
    WAVES,
    SHARED_PER_BLOCK,
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
    LIMIT_WARPS,
    SM_PERCENT,
    LOAD_SECTORS,
    STORE_SECTORS,
    BANK_CONFLICTS,
    SHARED_WAVEFRONTS,
];

pub(super) const DURATION: &str = "gpu__time_duration.sum";
pub(super) const GRID: &str = "launch__grid_size";
pub(super) const BLOCK: &str = "launch__block_size";
pub(super) const WAVES: &str = "launch__waves_per_multiprocessor";
pub(super) const SHARED_PER_BLOCK: &str = "launch__shared_mem_per_block";
pub(super) const REGISTERS: &str = "launch__registers_per_thread";
pub(super) const LIMIT_BLOCKS: &str = "launch__occupancy_limit_blocks";
pub(super) const LIMIT_REGISTERS: &str = "launch__occupancy_limit_registers";
pub(super) const LIMIT_SHARED: &str = "launch__occupancy_limit_shared_mem";
pub(super) const LIMIT_WARPS: &str = "launch__occupancy_limit_warps";
pub(super) const ACTIVE_WARPS: &str = "sm__warps_active.avg.pct_of_peak_sustained_active";
pub(super) const SM_PERCENT: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
pub(super) const TENSOR_PIPE: &str = "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active";
pub(super) const DRAM_READ: &str = "dram__bytes_read.sum";
pub(super) const DRAM_WRITTEN: &str = "dram__bytes_write.sum";
pub(super) const DRAM_PERCENT: &str = "dram__throughput.avg.pct_of_peak_sustained_elapsed";
pub(super) const DRAM_PER_SECOND: &str = "dram__bytes.sum.per_second";
pub(super) const L1_HITS: &str = "l1tex__t_sector_hit_rate.pct";
pub(super) const L2_HITS: &str = "lts__t_sector_hit_rate.pct";
pub(super) const L2_PERCENT: &str = "lts__throughput.avg.pct_of_peak_sustained_active";
pub(super) const STALL_SHORT: &str = "smsp__warp_issue_stalled_short_scoreboard_per_warp_active.pct";
pub(super) const STALL_LONG: &str = "smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct";
pub(super) const STALL_BARRIER: &str = "smsp__warp_issue_stalled_barrier_per_warp_active.pct";
pub(super) const STALL_BRANCH: &str = "smsp__warp_issue_stalled_branch_resolving_per_warp_active.pct";
pub(super) const UNIFORM_BRANCHES: &str = "smsp__sass_average_branch_targets_threads_uniform.pct";
pub(super) const LOAD_SECTORS: &str = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio";
pub(super) const STORE_SECTORS: &str = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio";
pub(super) const BANK_CONFLICTS: &str = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum";
pub(super) const SHARED_WAVEFRONTS: &str = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum";

/// All of them, less what is known to be absent.
pub(super) fn asked(absent: &[String]) -> Vec<&'static str> {
    CHOSEN.iter().chain(&FREE).copied().filter(|name| !absent.iter().any(|gone| gone == name)).collect()
}

/// What a chip was found to lack, kept by chip and profiler, so that each is asked once.
pub(super) struct Kept {
    file: PathBuf,
    pub(super) absent: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    chip: String,
    profiler: String,
    absent: Vec<String>,
}

impl Kept {
    pub(super) fn open(cache: &Path, chip: &str, profiler: &str) -> Self {
        let all = [CHOSEN.as_slice(), FREE.as_slice()].concat().join(",");
        let key = kforge_types::short_hash(&[chip, profiler, &all]);
        let file = cache.join("metrics").join(format!("{key}.json"));
        let stored: Option<Stored> = kept::read(&file);
        Self { file, absent: stored.map(|stored| stored.absent).unwrap_or_default() }
    }

    /// Whether any of these was news.
    pub(super) fn add(&mut self, chip: &str, profiler: &str, found: &[String]) -> bool {
        let known = |name: &&String| {
            (CHOSEN.contains(&name.as_str()) || FREE.contains(&name.as_str())) && !self.absent.contains(name)
        };
        let new: Vec<String> = found.iter().filter(known).cloned().collect();
        if new.is_empty() {
            return false;
        }
        self.absent.extend(new);
        self.absent.sort();
        self.absent.dedup();
        let stored = Stored { chip: chip.to_owned(), profiler: profiler.to_owned(), absent: self.absent.clone() };
        kept::write(&self.file, &stored, "the list of absent metrics");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_asked_once() {
        let mut all = asked(&[]);
        assert_eq!(all.len(), CHOSEN.len() + FREE.len());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), CHOSEN.len() + FREE.len());
    }

    #[test]
    fn what_is_absent_is_kept_by_chip_and_never_asked_again() {
        let cache = tempfile::tempdir().unwrap();
        let mut kept = Kept::open(cache.path(), "sm_90", "2025.3");
        assert!(kept.absent.is_empty());
        assert!(kept.add("sm_90", "2025.3", &[CHOSEN[7].to_owned(), "not_ours".to_owned()]));
        assert!(!kept.add("sm_90", "2025.3", &[CHOSEN[7].to_owned()]));
        let again = Kept::open(cache.path(), "sm_90", "2025.3");
        assert_eq!(again.absent, [CHOSEN[7]]);
        assert!(!asked(&again.absent).contains(&CHOSEN[7]));
        assert!(Kept::open(cache.path(), "sm_80", "2025.3").absent.is_empty());
    }
}
