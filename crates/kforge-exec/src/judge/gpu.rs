//! What a session knows of its GPU: facts for the report, the physical floor, and whether it still answers.

use super::{Observer, Place, bench::Bench, outcome::Outcome, provisional::Provisional};
use crate::{
    error::{ExecError, Result},
    nvidia::{Moment, Stranger},
    referee::Referee,
    turn::Turn,
};
use kforge_types::{Check, DeviceInfo};
use serde::Deserialize;
use std::time::{Duration, Instant};

/// A candidate that killed its process may leave the device busy for a while: seconds until it must answer again.
const RECOVERY_S: u64 = 30;
/// Faster than this share of the floor is no measurement.
const FLOOR_SHARE: f64 = 0.95;

/// As the referee read them from the device.
#[derive(Debug, Clone, Deserialize)]
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
    pub(crate) fn open(referee: &mut Referee) -> Result<Self> {
        referee.device()
    }

    pub(crate) fn info(&self, threads: usize) -> DeviceInfo {
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

    pub(crate) fn describe_flush(&self) -> String {
        format!(
            "{} MiB written and read on the device before each call, persisting L2 set to 0",
            self.flush_bytes >> 20
        )
    }

    /// Whether a cold time is possible at all, and how that was found.
    pub(crate) fn physical_floor(&self, time_us: f64) -> (bool, String) {
        if self.compulsory_bytes < 2.0 * self.l2_bytes as f64 {
            return (true, "not applied: the data fits into twice the level-2 cache".to_owned());
        }
        let floor_us = self.compulsory_bytes / self.bandwidth() * 1e6;
        let detail = format!(
            "{floor_us:.1} us for {:.1} MB ({}) at {:.0} GB/s",
            self.compulsory_bytes / 1e6,
            self.compulsory_note,
            self.bandwidth() / 1e9
        );
        (time_us >= FLOOR_SHARE * floor_us, detail)
    }
}

pub(crate) const WAITING: &str = "waiting for another kforge on this device";

/// Said while others hold the device's memory.
pub(crate) fn waiting_for_room(holders: &str) -> String {
    format!("waiting for room in the device's memory, held by {holders}")
}

/// How long a stranger on the device is waited for where an idle one is demanded.
const IDLE_WAIT: Duration = Duration::from_mins(2);
/// How often it is looked for in that time.
const LOOKS: u32 = 120;

impl Bench {
    /// Nobody else of ours times on this device meanwhile, and strangers are named, or waited for.
    pub(crate) fn timing_turn(&mut self, observer: &dyn Observer) -> Result<Turn> {
        let turn = Turn::take(self.turn_name(), || observer.stage(WAITING))?;
        if self.options.require_idle
            && let Some(watch) = &self.watch
        {
            wait_until_idle(|| watch.strangers(), IDLE_WAIT, observer)?;
        }
        Ok(turn)
    }

    /// While nobody times.
    pub(crate) fn shared_turn(&self, observer: &dyn Observer) -> Result<Turn> {
        Turn::share(self.turn_name(), || observer.stage(WAITING))
    }

    /// The same, if nobody times just now.
    pub(crate) fn turn_at_once(&self) -> Result<Option<Turn>> {
        Turn::try_share(self.turn_name())
    }

    fn turn_name(&self) -> &str {
        match &self.options.place {
            Place::Gpu { name } => name,
            _ => "cpu",
        }
    }

    /// What the device was doing before and after a measurement, as checks that people can read.
    pub(crate) fn note_clocks(&self, before: Option<Moment>, outcome: &mut Outcome) {
        let (Some(watch), Some(before)) = (&self.watch, before) else { return };
        let after = watch.moment();
        let slowed: Vec<&str> = before.slowed_by.union(&after.slowed_by).copied().collect();
        let slow = if slowed.is_empty() { "not slowed".to_owned() } else { format!("slowed by {}", slowed.join(", ")) };
        let detail = format!(
            "SM {} MHz before and {} MHz after, memory {} MHz, {} C, {slow}",
            before.sm_mhz, after.sm_mhz, after.memory_mhz, after.celsius
        );
        outcome.checks.push(Check { name: "clocks".to_owned(), passed: slowed.is_empty(), detail });
        let strangers = watch.strangers();
        if !strangers.is_empty() {
            let detail = format!("{}: times may be longer than they are alone", described(&strangers));
            outcome.checks.push(Check { name: "alone on the device".to_owned(), passed: false, detail });
            outcome.provisional.insert(Provisional::DeviceShared);
        }
    }

    /// After a candidate was killed: the next one must find a device that works, or nobody may use it.
    pub(crate) fn device_recovered(&mut self) -> Result<()> {
        if self.gpu.is_some() && !self.referee.device_answers(RECOVERY_S) {
            return Err(ExecError::OutOfUse(format!(
                "{} does not answer {RECOVERY_S} s after a candidate was stopped: it is out of use; look at nvidia-smi, \
                 and reset it (nvidia-smi --gpu-reset) or restart the machine before the next run",
                self.device.name
            )));
        }
        Ok(())
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
