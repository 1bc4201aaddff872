//! What is known of the machine that evaluates before it has answered.

use crate::{
    config::{self, Evaluation},
    job::place,
    target::TargetPack,
};
use kforge_exec::{Place, machine, nvidia};
use kforge_types::DeviceInfo;

/// What prompts and refusals say of the machine that evaluates.
#[derive(Debug, Clone)]
pub struct Outlook {
    /// What kernels run on.
    pub device: DeviceInfo,
    /// What they are compiled for.
    pub arch: String,
    /// Whether they are timed.
    pub timed: bool,
    /// Whether they are run at all, or compiled and nothing more.
    pub runs: bool,
}

impl Outlook {
    /// Of another machine nothing is known, except that it is there to time kernels.
    pub(super) fn of(settings: &Evaluation, pack: &TargetPack) -> anyhow::Result<Self> {
        let threads = settings.threads.map_or_else(machine::default_threads, std::num::NonZero::get);
        let own_arch = settings.arch.clone();
        if settings.executor != config::Executor::InPlace {
            let name = "not known before the first evaluation".to_owned();
            let device = DeviceInfo { name, threads, ..DeviceInfo::default() };
            let arch = own_arch.unwrap_or_else(|| pack.default_arch.clone());
            return Ok(Self { device, arch, timed: true, runs: true });
        }
        let (place, found_arch) = place(pack, settings.device)?;
        let mut device = machine::cpu(threads);
        if let Place::Gpu { name } = &place {
            let found = nvidia::gpus().unwrap_or_default().into_iter().find(|gpu| gpu.uuid == *name);
            device.name = found.map_or_else(|| "a GPU".to_owned(), |gpu| gpu.name);
        }
        let arch = own_arch.unwrap_or(found_arch);
        Ok(Self { device, arch, timed: place.is_timed(), runs: place.runs() })
    }

    /// Where it does not matter.
    pub(super) fn of_cpu(threads: usize, arch: String) -> Self {
        Self { device: machine::cpu(threads), arch, timed: true, runs: true }
    }
}
