//! Devices that kernels run on. What is particular to one of them is in its module, behind one trait.
//!
//! Everything else asks a [`Device`] what it needs to know: constants and plain facts of a kind are its [`Policy`], what it
//! does is a method. Another device is one more module here, a line in [`of`], and a package of its name in the harness.

mod cpu;
pub(crate) mod cuda;
pub(crate) mod device_lock;
mod generic;
#[cfg(test)]
mod made_up;
pub(crate) mod memory_reservation;
pub(crate) mod place;
mod referee_slots;

use crate::{
    error::{ExecError, Result},
    failure::Tried,
    judge::{
        Observer,
        arm::{Arm, Given, How, Row},
    },
    referee::{InputSet, Loaded, OpenRequest, Opened, Referee},
    sandbox::Limits,
    slots::Slots,
    zygote::{Ready, Zygote},
};
use cuda::Gpu;
use device_lock::DeviceLock;
use kforge_types::{Check, DeviceInfo};
use memory_reservation::{LEAST, Reservation};
pub use place::Place;
use referee_slots::lane;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// What holds for a kind of device, whatever the problem is.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Policy {
    /// A row takes about as long as this, in microseconds, where there are places enough.
    pub(crate) row_us: f64,
    /// Rows of a candidate before those that count. Without any, its first timed row is the one whose results are held.
    pub(crate) warm_up_rows: usize,
    /// How much two pairs of processes with the same code differ in a duel, as a standard deviation of the ratio.
    pub(crate) between_cells: f64,
    /// Calls of a compiled baseline until it has made all that it keeps.
    pub(crate) settling_calls: usize,
    /// Whether calls can be launched before their inputs are there.
    pub(crate) queues: bool,
    /// Whether launching is one thing and computing another: then the time of a single call on an idle device is told too.
    pub(crate) launches: bool,
    /// Whether launches can be recorded as a graph and replayed.
    pub(crate) records_graphs: bool,
    /// Whether all processes of an arm stop before every row, and not only before those with cold caches.
    pub(crate) always_stops: bool,
    /// Whether asking is a message and nothing more; elsewhere a single row of nothing shows what it takes.
    pub(crate) asks_by_message: bool,
    /// Whether it is this machine's processors that are timed: other programs disturb, and so does a compiler at work.
    pub(crate) is_the_processors: bool,
    /// Whether results are in a process's own memory, which the system counts.
    pub(crate) results_in_processes: bool,
    /// Whether slots are made when a session begins and used again.
    pub(crate) slots_beforehand: bool,
    /// Whether a process takes long until it can use the device: then cells are forked while kernels are built.
    pub(crate) starts_slowly: bool,
    /// Whether torch's compiler is imported for baselines while a candidate is built. It chooses a folder for compiled C++
    /// headers then: on a CPU they would stay there, 150 MB for each problem.
    pub(crate) imports_compiler: bool,
    /// Memory that each sandbox needs on top, for the driver.
    pub(crate) driver_bytes: u64,
}

/// What a device knows of a problem that was opened on it.
pub(crate) struct Examined {
    /// How many calls can be made in a row.
    pub(crate) places: usize,
    /// Why inputs and results are copied through the host; empty where they are not.
    pub(crate) staged: String,
    /// Bytes that a call must move at the least, and how that was found.
    compulsory: (f64, String),
}

/// Whether a cold time is possible at all.
pub(crate) struct Floor {
    pub(crate) possible: bool,
    /// Whether an impossible time is refused, or flagged only.
    pub(crate) decides: bool,
    /// How that was found.
    pub(crate) detail: String,
}

/// What the device was doing while something was timed, for people to read.
#[derive(Default)]
pub(crate) struct Conditions {
    pub(crate) checks: Vec<Check>,
    /// Whether somebody else used it.
    pub(crate) shared: bool,
}

/// By which tools candidates are profiled.
pub(crate) enum Profiler<'a> {
    /// perf, the compiler's reports, disassembly.
    Processors,
    /// Nsight Compute and compute-sanitizer, on the device that torch calls so.
    Nvidia { torch_name: &'static str, gpu: &'a Gpu },
    /// None, for this reason.
    Missing(String),
}

/// Shortest time that is possible, with this share of it for what is not known about the machine.
const FLOOR_SHARE: f64 = 0.95;
/// A candidate that killed its process may leave a device busy for a while: seconds until it must answer again.
const RECOVERY_S: u64 = 30;

/// One device, for as long as a session.
pub(crate) trait Device {
    fn policy(&self) -> &'static Policy;

    /// What kforge processes on this machine lock while they use it.
    fn lock_name(&self) -> &str;

    /// The name under which sessions reserve its memory; nothing where it is the machine's.
    fn reserved_as(&self) -> Option<&str> {
        None
    }

    /// Whether the Python that was started can use it.
    fn check(&self, _ready: &Ready, _python: &Path) -> Result<()> {
        Ok(())
    }

    /// Once a referee has opened a problem.
    fn examine(&mut self, referee: &mut Referee, opened: &Opened) -> Result<Examined>;

    /// Facts that a result must name.
    fn info(&self, threads: usize) -> DeviceInfo;

    /// Up to so many bytes of inputs and outputs, baselines are measured in turns, each over slots of its own.
    fn large_bytes(&self) -> u64;

    /// What a sandbox on it needs beyond the ordinary.
    fn allow(&self, limits: &mut Limits) {
        limits.memory_bytes += self.policy().driver_bytes;
    }

    // Where the referee keeps the slots, which is so on all devices but the machine's processors.

    fn make_slots(&self, referee: &mut Referee, _opened: &Opened) -> Result<Slots> {
        referee.make_lane()
    }

    /// Whether cells copy results to where they can be read.
    fn copies_results(&self, examined: &Examined) -> bool {
        !examined.staged.is_empty()
    }

    /// Calls that the arm is ready for, by the clock outside. Their results are with the referee afterwards.
    fn row(&mut self, arm: &mut Arm, referee: &mut Referee, given: Given<'_>, how: How) -> Tried<Row> {
        arm.row_on_idle_device(referee, lane(arm)?, given, how)
    }

    /// Inputs for calls that nobody times.
    fn lay(&mut self, arm: &mut Arm, referee: &mut Referee, set: &InputSet) -> Result<()> {
        referee.lay(lane(arm)?, Given::Stored(set), false).map(|_| ())
    }

    /// The results of such a call, for the referee.
    fn take(&mut self, arm: &mut Arm, referee: &mut Referee, given: Given<'_>, how: How) -> Tried<()> {
        arm.take_there(referee, lane(arm)?, given, how).map(|_| ())
    }

    /// What was taken last must stay as it is from now on.
    fn hold(&mut self, arm: &mut Arm, referee: &mut Referee) -> Result<()> {
        referee.hold(lane(arm)?)
    }

    fn held_are_intact(&mut self, arm: &mut Arm, referee: &mut Referee) -> Result<bool> {
        referee.held_are_intact(lane(arm)?)
    }

    /// Whether what was taken last is still as it was left.
    fn left_are_intact(&mut self, arm: &mut Arm, referee: &mut Referee) -> Result<bool> {
        referee.left_are_intact(lane(arm)?)
    }

    /// Empties the caches that kforge's own process shares with cells.
    fn empty_caches(&mut self) {}

    /// Bytes that this machine's memory was seen to read in a second; nothing where caches are emptied elsewhere.
    fn bandwidth_seen(&self) -> Option<f64> {
        None
    }

    /// How caches are made cold, in words.
    fn describe_cold(&self) -> String;

    fn floor(&self, time_us: f64, opened: &Opened, examined: &Examined) -> Floor;

    /// Waits until nobody uses it but kforge; an error where somebody stays.
    fn wait_until_idle(&self, _observer: &dyn Observer) -> Result<()> {
        Ok(())
    }

    /// Something is going to be timed.
    fn begin_watch(&mut self) {}

    /// It was. Nothing where nothing is known.
    fn end_watch(&mut self) -> Conditions {
        Conditions::default()
    }

    /// After a candidate was killed: the next one must find a device that works, or nobody may use it.
    fn recover(&mut self, referee: &mut Referee) -> Result<()>;

    fn profiler(&self) -> Profiler<'_>;

    /// How many calls in a row kforge itself has room for, where it lays inputs and reads results; nothing where the referee
    /// does so.
    fn places_here(&self, _opened: &Opened) -> Option<usize> {
        None
    }
}

/// The device of a place. Where kernels are interpreted or only compiled, it is the machine's processors.
pub(crate) fn of(place: &Place, threads: usize) -> Result<Box<dyn Device>> {
    Ok(match place {
        Place::Cpu | Place::Interpreter | Place::Compiler => Box::new(cpu::Cpu::new(threads)),
        Place::Gpu { name } if through_the_host() => Box::new(generic::TorchDevice::new("cuda", name, ASKED_FOR)),
        Place::Gpu { name } => Box::new(cuda::Cuda::new(name)),
        #[cfg(test)]
        Place::Device { kind, .. } if kind == made_up::KIND => Box::new(made_up::MadeUp::new()),
        Place::Device { kind, name } => match kind.strip_prefix("torch_device:") {
            Some(backend) => Box::new(generic::TorchDevice::new(backend, name, NOT_SHARED)),
            None => return Err(ExecError::Problem(format!("there is no kind of device called {kind}"))),
        },
    })
}

const ASKED_FOR: &str = "KFORGE_GPU_SLOTS asks for it";
const NOT_SHARED: &str = "its memory is not shared between processes";

/// Whether a GPU is to be used like any other device of torch's, whose slots are copied through the host.
fn through_the_host() -> bool {
    std::env::var_os("KFORGE_GPU_SLOTS").is_some_and(|value| value == "host")
}

pub(crate) const WAITING: &str = "waiting for another kforge on this device";

/// Said while others hold the device's memory.
pub(crate) fn waiting_for_memory(holders: &str) -> String {
    format!("waiting for device memory, reserved by {holders}")
}

/// For a device, with the seconds that it took.
pub(crate) struct Waiting<'a> {
    pub(crate) device: &'a dyn Device,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) waited: Duration,
}

impl Waiting<'_> {
    fn lock(&mut self) -> Result<DeviceLock> {
        let begun = Instant::now();
        let lock = DeviceLock::share(self.device.lock_name(), || self.observer.stage(WAITING));
        self.waited += begun.elapsed();
        lock
    }

    fn reserve(&mut self, name: &str, share: f64) -> Result<Option<Reservation>> {
        let begun = Instant::now();
        let waiting = |who: &str| self.observer.stage(&waiting_for_memory(who));
        let reservation = Reservation::reserve(name, share, None, waiting);
        self.waited += begun.elapsed();
        reservation
    }

    /// A referee with the problem, and the device's lock for as long as it is examined. Where its memory is reserved, with as
    /// much of it as judging takes, unless some is reserved already: the least before anything is on the device, so that
    /// others know of it, and given back while more is waited for.
    pub(crate) fn load(
        &mut self,
        reservation: &mut Option<Reservation>,
        zygote: &mut Zygote,
        request: &OpenRequest<'_>,
    ) -> Result<(Loaded, Option<DeviceLock>)> {
        // On a CPU a session may be opened while somebody times: it is soon over, and waiting would take longer.
        let Some(name) = self.device.reserved_as() else { return Ok((Referee::load(zygote, request)?, None)) };
        let has_some = reservation.is_some();
        if !has_some {
            *reservation = self.reserve(name, LEAST)?;
        }
        let lock = self.lock()?;
        let mut loaded = Referee::load(zygote, request)?;
        let share = loaded.needed_share(request.limit_s)?;
        if has_some {
            return Ok((loaded, Some(lock)));
        }
        // Whoever waits for memory holds no lock: those who have it may need that lock to end.
        drop(lock);
        *reservation = None;
        *reservation = self.reserve(name, share)?;
        Ok((loaded, Some(self.lock()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: &str) -> Place {
        Place::Device { kind: kind.to_owned(), name: "here".to_owned() }
    }

    #[test]
    fn a_device_is_found_by_the_name_of_its_kind() {
        for (place, lock, harness) in [
            (Place::Cpu, "cpu", "cpu"),
            (Place::Interpreter, "cpu", "cpu"),
            (Place::Gpu { name: "GPU-1".to_owned() }, "GPU-1", "cuda"),
            (named("torch_device:xpu"), "here", "torch_device:xpu"),
        ] {
            let device = of(&place, 1).unwrap();
            assert_eq!((device.lock_name(), place.for_harness().as_str()), (lock, harness));
            // Whoever reserves memory does so under the name that is locked.
            assert!(device.reserved_as().is_none_or(|name| name == lock));
        }
        let unknown = of(&named("abacus"), 1).err().unwrap().to_string();
        assert!(unknown.contains("abacus"), "{unknown}");
    }
}
