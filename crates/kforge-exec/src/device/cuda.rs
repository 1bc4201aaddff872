//! An NVIDIA GPU: slots in its own memory, calls that are queued before their inputs are there, and what its driver says.

pub mod nvidia;
mod queued;

use super::{Conditions, Device, Examined, FLOOR_SHARE, Floor, Policy, Profiler, RECOVERY_S, referee_slots::lane};
use crate::{
    error::{ExecError, Result},
    failure::Tried,
    judge::{
        Observer,
        arm::{Arm, Given, How, Row},
    },
    referee::{Opened, Referee},
    sandbox::Limits,
    zygote::Ready,
};
use kforge_types::{Check, DeviceInfo};
use nvidia::{Moment, Stranger, Watch};
use serde::Deserialize;
use std::{
    path::Path,
    time::{Duration, Instant},
};

static POLICY: Policy = Policy {
    // Asking takes less of a row than on a CPU.
    row_us: 1000.0,
    warm_up_rows: 0,
    between_cells: 0.01,
    // Until max-autotune has recorded its graphs, which cannot be queued.
    settling_calls: 3,
    queues: true,
    launches: true,
    records_graphs: true,
    always_stops: false,
    asks_by_message: false,
    is_the_processors: false,
    results_in_processes: false,
    slots_beforehand: false,
    // Half a second.
    starts_slowly: true,
    imports_compiler: true,
    // Each process that uses a GPU brings some hundred megabytes of the driver's along.
    driver_bytes: 8 << 30,
};

/// As a share of its memory, up to which baselines are measured in turns: what fits there once must also fit beside a candidate
/// and the referee.
const LARGE_SHARE: u64 = 64;

/// The one GPU that all our processes see.
pub(super) struct Cuda {
    /// As `CUDA_VISIBLE_DEVICES` takes it.
    name: String,
    /// Nothing before a problem was examined.
    gpu: Gpu,
    watch: Option<Watch>,
    /// What it was doing when timing began.
    before: Option<Moment>,
}

impl Cuda {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), gpu: Gpu::default(), watch: None, before: None }
    }
}

/// As the referee read them from the device.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) capability: (u32, u32),
    pub(crate) memory_bytes: u64,
    cuda: String,
    memory_clock_khz: f64,
    bus_width_bits: f64,
    l2_bytes: u64,
    pub(crate) sm_clock_khz: f64,
    pub(crate) sms: u32,
    flush_bytes: u64,
    /// How many calls can be made in a row.
    pub(crate) places: usize,
    /// Why slots are copies of memory of the host; empty where device memory is shared.
    pub(crate) staged: String,
    compulsory_bytes: f64,
    compulsory_note: String,
}

impl Gpu {
    fn info(&self, threads: usize) -> DeviceInfo {
        let note = format!(
            "compute capability {}.{}, {} multiprocessors, {:.0} GiB, {:.0} GB/s by its clocks, CUDA {}",
            self.capability.0,
            self.capability.1,
            self.sms,
            self.memory_bytes as f64 / f64::from(1 << 30),
            self.bandwidth() / 1e9,
            self.cuda,
        );
        DeviceInfo { name: self.name.clone(), threads, last_level_cache: self.l2_bytes, note }
    }

    /// Bytes per second that memory can give at its highest clock: two transfers a cycle.
    pub(crate) fn bandwidth(&self) -> f64 {
        self.memory_clock_khz * 1e3 * self.bus_width_bits / 8.0 * 2.0
    }

    fn describe_flush(&self) -> String {
        format!(
            "{} MiB written and read on the device before each call, persisting L2 set to 0",
            self.flush_bytes >> 20
        )
    }

    /// Whether a cold time is possible at all, and how that was found.
    fn physical_floor(&self, time_us: f64, (bytes, note): &(f64, String)) -> (bool, String) {
        if *bytes < 2.0 * self.l2_bytes as f64 {
            return (true, "not applied: the data fits into twice the level-2 cache".to_owned());
        }
        let floor_us = bytes / self.bandwidth() * 1e6;
        let detail =
            format!("{floor_us:.1} us for {:.1} MB ({note}) at {:.0} GB/s", bytes / 1e6, self.bandwidth() / 1e9);
        (time_us >= FLOOR_SHARE * floor_us, detail)
    }
}

/// How long a stranger on the device is waited for where an idle one is demanded.
const IDLE_WAIT: Duration = Duration::from_mins(2);
/// How often it is looked for in that time.
const LOOKS: u32 = 120;

impl Device for Cuda {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn lock_name(&self) -> &str {
        &self.name
    }

    fn reserved_as(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn check(&self, ready: &Ready, python: &Path) -> Result<()> {
        if ready.cuda {
            return Ok(());
        }
        Err(ExecError::Problem(format!(
            "torch {} of {} cannot use the GPU: install torch built for CUDA there, or name another Python with --python",
            ready.torch,
            python.display()
        )))
    }

    fn examine(&mut self, referee: &mut Referee, _opened: &Opened) -> Result<Examined> {
        let gpu: Gpu = referee.device()?;
        let examined = Examined {
            places: gpu.places,
            staged: gpu.staged.clone(),
            compulsory: (gpu.compulsory_bytes, gpu.compulsory_note.clone()),
        };
        self.watch = self.watch.take().or_else(|| Watch::new(&self.name).ok());
        self.gpu = gpu;
        Ok(examined)
    }

    fn info(&self, threads: usize) -> DeviceInfo {
        self.gpu.info(threads)
    }

    fn large_bytes(&self) -> u64 {
        self.gpu.memory_bytes / LARGE_SHARE
    }

    fn allow(&self, limits: &mut Limits) {
        limits.memory_bytes += POLICY.driver_bytes;
        "cuda".clone_into(&mut limits.device);
    }

    fn row(&mut self, arm: &mut Arm, referee: &mut Referee, given: Given<'_>, how: How) -> Tried<Row> {
        let lane = lane(arm)?;
        if how.queued && arm.queues {
            arm.row_queued(referee, lane, given, how)
        } else {
            arm.row_on_idle_device(referee, lane, given, how)
        }
    }

    fn describe_cold(&self) -> String {
        self.gpu.describe_flush()
    }

    fn floor(&self, time_us: f64, _opened: &Opened, examined: &Examined) -> Floor {
        let (possible, detail) = self.gpu.physical_floor(time_us, &examined.compulsory);
        Floor { possible, decides: true, detail }
    }

    fn wait_until_idle(&self, observer: &dyn Observer) -> Result<()> {
        let Some(watch) = &self.watch else { return Ok(()) };
        wait_until_idle(|| watch.strangers(), IDLE_WAIT, observer)
    }

    fn begin_watch(&mut self) {
        self.before = self.watch.as_ref().map(Watch::moment);
    }

    fn end_watch(&mut self) -> Conditions {
        let mut seen = Conditions::default();
        let (Some(watch), Some(before)) = (&self.watch, self.before.take()) else { return seen };
        let after = watch.moment();
        let slowed: Vec<&str> = before.slowed_by.union(&after.slowed_by).copied().collect();
        let slow = if slowed.is_empty() { "not slowed".to_owned() } else { format!("slowed by {}", slowed.join(", ")) };
        let detail = format!(
            "SM {} MHz before and {} MHz after, memory {} MHz, {} C, {slow}",
            before.sm_mhz, after.sm_mhz, after.memory_mhz, after.celsius
        );
        seen.checks.push(Check { name: "clocks".to_owned(), passed: slowed.is_empty(), detail });
        let strangers = watch.strangers();
        if !strangers.is_empty() {
            let detail = format!("{}: times may be longer than they are alone", described(&strangers));
            seen.checks.push(Check { name: "alone on the device".to_owned(), passed: false, detail });
            seen.shared = true;
        }
        seen
    }

    fn recover(&mut self, referee: &mut Referee) -> Result<()> {
        if referee.device_answers(RECOVERY_S) {
            return Ok(());
        }
        Err(ExecError::OutOfUse(format!(
            "{} does not answer {RECOVERY_S} s after a candidate was stopped: it is out of use; look at nvidia-smi, \
             and reset it (nvidia-smi --gpu-reset) or restart the machine before the next run",
            self.gpu.name
        )))
    }

    fn profiler(&self) -> Profiler<'_> {
        // The only one that its processes see.
        Profiler::Nvidia { torch_name: "cuda:0", gpu: &self.gpu }
    }
}

fn wait_until_idle(mut others: impl FnMut() -> Vec<Stranger>, limit: Duration, observer: &dyn Observer) -> Result<()> {
    let begun = Instant::now();
    loop {
        let strangers = others();
        if strangers.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > limit {
            let text = format!(
                "the GPU is in use by {}, and --require-idle demands that it is not: wait for it, choose another with \
                 --device, or leave --require-idle out",
                described(&strangers)
            );
            return Err(ExecError::Busy(text));
        }
        observer.stage(&format!("waiting for {}", described(&strangers)));
        std::thread::sleep(limit / LOOKS);
    }
}

fn described(strangers: &[Stranger]) -> String {
    let one = |stranger: &Stranger| {
        let mib = stranger.mib.map_or_else(String::new, |mib| format!(", {mib} MiB"));
        format!("{} (pid {}{mib})", stranger.name, stranger.pid)
    };
    strangers.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[derive(Default)]
    struct Told(RefCell<Vec<String>>);

    impl Observer for Told {
        fn stage(&self, text: &str) {
            self.0.borrow_mut().push(text.to_owned());
        }
    }

    fn colleague() -> Vec<Stranger> {
        vec![Stranger { pid: 42, name: "train.py".to_owned(), mib: Some(900) }]
    }

    #[test]
    fn a_colleagues_job_is_named_and_waited_for() {
        let (told, mut looks) = (Told::default(), 0);
        let others = || {
            looks += 1;
            if looks < 3 { colleague() } else { Vec::new() }
        };
        wait_until_idle(others, Duration::from_secs(5), &told).unwrap();
        assert_eq!(told.0.into_inner(), ["waiting for train.py (pid 42, 900 MiB)"; 2]);
    }

    #[test]
    fn a_colleagues_job_that_stays_is_refused_with_what_to_do() {
        let refused = wait_until_idle(colleague, Duration::from_millis(60), &Told::default()).unwrap_err();
        assert!(matches!(refused, ExecError::Busy(_)));
        let text = refused.to_string();
        assert!(text.contains("train.py (pid 42, 900 MiB)") && text.contains("--device"), "{text}");
    }
}
