//! Any device that torch knows (HIP, XPU, MPS): slots are copied through the host, calls are timed on an idle device.
//!
//! Nothing here asks a vendor's driver. Who writes a module for one of these devices begins with this one, and replaces what
//! the vendor offers something better for. An NVIDIA GPU can be used in this way too, which shows that it works.

use super::{Device, Examined, Floor, Policy, Profiler, RECOVERY_S};
use crate::{
    error::{ExecError, Result},
    referee::{Opened, Referee},
    sandbox::Limits,
};
use kforge_types::DeviceInfo;
use serde::Deserialize;

pub(super) static POLICY: Policy = Policy {
    row_us: 2000.0,
    warm_up_rows: 0,
    // As on a CPU, until somebody has measured it.
    between_cells: 0.03,
    settling_calls: 3,
    queues: false,
    launches: true,
    records_graphs: false,
    always_stops: false,
    asks_by_message: false,
    is_the_processors: false,
    results_in_processes: false,
    slots_beforehand: false,
    starts_slowly: true,
    imports_compiler: false,
    driver_bytes: 8 << 30,
};

/// As a share of its memory, up to which baselines are measured in turns.
const LARGE_SHARE: u64 = 64;

pub(super) struct TorchDevice {
    backend: String,
    /// What other processes know it by.
    name: String,
    /// Why inputs and results are copied.
    why: &'static str,
    /// Nothing before a problem was examined.
    facts: Facts,
}

/// As the referee has them from torch.
#[derive(Debug, Default, Deserialize)]
struct Facts {
    name: String,
    note: String,
    memory_bytes: u64,
    flush_bytes: u64,
    places: usize,
}

impl TorchDevice {
    pub(super) fn new(backend: &str, name: &str, why: &'static str) -> Self {
        Self { backend: backend.to_owned(), name: name.to_owned(), why, facts: Facts::default() }
    }
}

impl Device for TorchDevice {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn lock_name(&self) -> &str {
        &self.name
    }

    fn reserved_as(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn examine(&mut self, referee: &mut Referee, _opened: &Opened) -> Result<Examined> {
        self.facts = referee.device()?;
        Ok(Examined { places: self.facts.places, staged: self.why.to_owned(), compulsory: (0.0, String::new()) })
    }

    fn info(&self, threads: usize) -> DeviceInfo {
        let note = self.facts.note.clone();
        DeviceInfo { name: self.facts.name.clone(), threads, last_level_cache: 0, note }
    }

    fn large_bytes(&self) -> u64 {
        self.facts.memory_bytes / LARGE_SHARE
    }

    fn allow(&self, limits: &mut Limits) {
        limits.memory_bytes += POLICY.driver_bytes;
        limits.device = format!("torch_device:{}", self.backend);
    }

    fn describe_cold(&self) -> String {
        format!("{} MiB written and read on the device before each call", self.facts.flush_bytes >> 20)
    }

    fn floor(&self, _time_us: f64, _opened: &Opened, _examined: &Examined) -> Floor {
        let detail = "not applied: the bandwidth of this device's memory is not known".to_owned();
        Floor { possible: true, decides: false, detail }
    }

    fn recover(&mut self, referee: &mut Referee) -> Result<()> {
        if referee.device_answers(RECOVERY_S) {
            return Ok(());
        }
        Err(ExecError::OutOfUse(format!(
            "{} does not answer {RECOVERY_S} s after a candidate was stopped: it is out of use; reset it, or restart the \
             machine before the next run",
            self.facts.name
        )))
    }

    fn profiler(&self) -> Profiler<'_> {
        Profiler::Missing(format!("there is no profiler for {} devices here", self.backend))
    }
}
