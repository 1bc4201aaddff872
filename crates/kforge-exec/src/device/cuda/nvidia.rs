//! NVIDIA GPUs as their driver's management library sees them: which there are, how fast they run, who else is on them.

use nvml_wrapper::{
    Nvml,
    bitmasks::device::ThrottleReasons,
    enum_wrappers::device::{Clock, TemperatureSensor},
    enums::device::UsedGpuMemory,
};
use std::{collections::BTreeSet, ffi::OsStr};

/// One GPU of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its name for `CUDA_VISIBLE_DEVICES`, the same in every process.
    pub uuid: String,
    /// What it is called.
    pub name: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Version of the driver.
    pub driver: String,
}

impl Found {
    /// What kernels are compiled for: where the generation has instructions of its own, with them.
    #[must_use]
    pub fn arch(&self) -> String {
        let (major, minor) = self.capability;
        let own = if major >= 9 { "a" } else { "" };
        format!("sm_{major}{minor}{own}")
    }
}

/// The GPUs that this process may use, in the order of `--device`; the reason where there are none.
///
/// `CUDA_VISIBLE_DEVICES` is respected: somebody who was given the third GPU of a machine sees one, and its number is 0.
pub fn gpus() -> Result<Vec<Found>, String> {
    let nvml = open()?;
    let driver = nvml.sys_driver_version().unwrap_or_default();
    let count = nvml.device_count().map_err(|error| format!("the driver counts no GPUs: {error}"))?;
    let mut found = Vec::new();
    for index in 0..count {
        let read = || -> Result<Found, nvml_wrapper::error::NvmlError> {
            let device = nvml.device_by_index(index)?;
            let capability = device.cuda_compute_capability()?;
            Ok(Found {
                uuid: device.uuid()?,
                name: device.name()?,
                capability: (capability.major.cast_unsigned(), capability.minor.cast_unsigned()),
                driver: driver.clone(),
            })
        };
        found.push(read().map_err(|error| format!("GPU {index} cannot be read: {error}"))?);
    }
    Ok(visible(found, std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref()))
}

fn visible(all: Vec<Found>, wanted: Option<&str>) -> Vec<Found> {
    let Some(wanted) = wanted else { return all };
    let mut chosen = Vec::new();
    for name in wanted.split(',').map(str::trim) {
        let by_index = name.parse().ok().and_then(|index: usize| all.get(index));
        let by_name = || all.iter().find(|gpu| !name.is_empty() && gpu.uuid.starts_with(name));
        // As CUDA does it: what follows an unknown name is not visible.
        let Some(gpu) = by_index.or_else(by_name) else { break };
        chosen.push(gpu.clone());
    }
    chosen
}

fn open() -> Result<Nvml, String> {
    let second = || Nvml::builder().lib_path(OsStr::new("libnvidia-ml.so.1")).init();
    Nvml::init().or_else(|_| second()).map_err(|error| format!("there is no NVIDIA driver here ({error})"))
}

/// What the device was doing at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moment {
    pub(crate) sm_mhz: u32,
    pub(crate) memory_mhz: u32,
    pub(crate) celsius: u32,
    pub(crate) slowed_by: BTreeSet<&'static str>,
}

/// A process that is not ours.
#[derive(Debug, Clone)]
pub(crate) struct Stranger {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) mib: Option<u64>,
}

/// Looks at one GPU from outside, while others use it.
pub(crate) struct Watch {
    nvml: Nvml,
    uuid: String,
}

impl Watch {
    pub(crate) fn new(uuid: &str) -> Result<Self, String> {
        Ok(Self { nvml: open()?, uuid: uuid.to_owned() })
    }

    /// What cannot be read stays at nothing.
    pub(crate) fn moment(&self) -> Moment {
        let Ok(device) = self.nvml.device_by_uuid(self.uuid.as_str()) else { return Moment::default() };
        Moment {
            sm_mhz: device.clock_info(Clock::SM).unwrap_or(0),
            memory_mhz: device.clock_info(Clock::Memory).unwrap_or(0),
            celsius: device.temperature(TemperatureSensor::Gpu).unwrap_or(0),
            slowed_by: device.current_throttle_reasons().map(slowed_by).unwrap_or_default(),
        }
    }

    /// Processes on this GPU that no kforge has started: those take turns.
    pub(crate) fn strangers(&self) -> Vec<Stranger> {
        let own = command_name(std::process::id());
        let listed = self.nvml.device_by_uuid(self.uuid.as_str()).and_then(|device| device.running_compute_processes());
        let foreign = listed.unwrap_or_default().into_iter().filter(|process| !descends_from(process.pid, &own));
        foreign
            .map(|process| Stranger {
                pid: process.pid,
                name: command_name(process.pid),
                mib: match process.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes >> 20),
                    UsedGpuMemory::Unavailable => None,
                },
            })
            .collect()
    }
}

/// Reasons that make a time worth less; an idle device and clocks that somebody set are none.
fn slowed_by(reasons: ThrottleReasons) -> BTreeSet<&'static str> {
    [
        (ThrottleReasons::SW_POWER_CAP, "power limit"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "temperature"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "temperature (hardware)"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    ]
    .into_iter()
    .filter(|(bit, _)| reasons.contains(*bit))
    .map(|(_, name)| name)
    .collect()
}

/// Whether it, or one of its ancestors, is called so.
fn descends_from(pid: u32, ancestor: &str) -> bool {
    std::iter::successors(Some(pid), |child| parent_of(*child)).take(64).any(|pid| command_name(pid) == ancestor)
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
}

fn command_name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = crate::log::printable(name.trim());
    if name.is_empty() { "a process that cannot be seen from here".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(number: u32) -> Found {
        Found {
            uuid: format!("GPU-{number}{number}{number}-abc"),
            name: "a GPU".to_owned(),
            capability: (9, 0),
            driver: String::new(),
        }
    }

    #[test]
    fn visible_devices_are_those_that_cuda_would_show() {
        let all = vec![gpu(0), gpu(1), gpu(2)];
        assert_eq!(visible(all.clone(), None).len(), 3);
        assert_eq!(visible(all.clone(), Some("2,0")), vec![gpu(2), gpu(0)]);
        assert_eq!(visible(all.clone(), Some("GPU-111")), vec![gpu(1)]);
        assert_eq!(visible(all.clone(), Some("1,9,0")), vec![gpu(1)]);
        assert!(visible(all.clone(), Some("")).is_empty());
        assert!(visible(all, Some("-1")).is_empty());
    }

    #[test]
    fn generations_with_instructions_of_their_own_are_named_so() {
        assert_eq!(gpu(0).arch(), "sm_90a");
        assert_eq!(Found { capability: (8, 6), ..gpu(0) }.arch(), "sm_86");
    }

    #[test]
    fn a_process_descends_from_itself_and_from_its_parent() {
        let own = std::process::id();
        assert!(descends_from(own, &command_name(own)));
        assert!(descends_from(own, &command_name(parent_of(own).unwrap())));
        assert!(!descends_from(1, &command_name(own)));
    }
}
