//! One at a time: kforge processes on a machine lock a device while they time on it. What would disturb a timing and is not
//! timed itself (building and checking on a CPU, checking on a GPU) they do together, under a shared lock.

use crate::error::{ExecError, Result};
use rustix::fs::{FlockOperation, flock};
use std::{
    cell::Cell,
    fs::{File, OpenOptions, Permissions},
    marker::PhantomData,
    os::unix::fs::PermissionsExt,
    rc::Rc,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Held as long as it lives; the system takes it back from a process that ends. It stays in the thread that took it.
pub(crate) struct DeviceLock {
    _file: File,
    of_one: bool,
    _stays: PhantomData<Rc<()>>,
}

/// How many locks this process holds, since when, and for how long it held any before.
struct Meter {
    held: usize,
    since: Option<Instant>,
    before: Duration,
}

static METER: Mutex<Meter> = Mutex::new(Meter { held: 0, since: None, before: Duration::ZERO });

thread_local! {
    /// Locks of this thread: shared ones, and those of its own.
    static HELD: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// For how long this process has held at least one lock: devices were checking or timing for it.
#[must_use]
pub fn busy() -> Duration {
    let meter = METER.lock().unwrap_or_else(PoisonError::into_inner);
    meter.before + meter.since.map_or(Duration::ZERO, |since| since.elapsed())
}

fn count(change: impl FnOnce(&mut usize)) {
    let mut meter = METER.lock().unwrap_or_else(PoisonError::into_inner);
    change(&mut meter.held);
    if meter.held > 0 {
        meter.since.get_or_insert_with(Instant::now);
    } else if let Some(since) = meter.since.take() {
        meter.before += since.elapsed();
    }
}

impl Drop for DeviceLock {
    fn drop(&mut self) {
        count(|held| *held -= 1);
        let (shared, own) = HELD.get();
        HELD.set(if self.of_one { (shared, own - 1) } else { (shared - 1, own) });
    }
}

impl DeviceLock {
    /// For timing. Waits until nobody else uses `what` (a device's lock name); `waiting` is called once if that takes a while.
    pub(crate) fn take(what: &str, waiting: impl FnOnce()) -> Result<Self> {
        Self::lock(true, what, (FlockOperation::NonBlockingLockExclusive, FlockOperation::LockExclusive), waiting)
    }

    /// For what is not timed. Waits until nobody times on `what`.
    pub(crate) fn share(what: &str, waiting: impl FnOnce()) -> Result<Self> {
        Self::lock(false, what, (FlockOperation::NonBlockingLockShared, FlockOperation::LockShared), waiting)
    }

    /// The same, if it can be had at once.
    pub(crate) fn try_share(what: &str) -> Result<Option<Self>> {
        let file = open(what)?;
        Ok(flock(&file, FlockOperation::NonBlockingLockShared).is_ok().then(|| Self::of(file, false)))
    }

    fn lock(
        of_one: bool,
        what: &str,
        (try_it, wait_for_it): (FlockOperation, FlockOperation),
        waiting: impl FnOnce(),
    ) -> Result<Self> {
        let (shared, own) = HELD.get();
        if own > 0 || (of_one && shared > 0) {
            return Err(ExecError::harness("a thread would wait for a device lock that it holds itself"));
        }
        let file = open(what)?;
        if flock(&file, try_it).is_err() {
            waiting();
            flock(&file, wait_for_it).map_err(|error| ExecError::Io {
                what: "cannot wait for a device lock".to_owned(),
                cause: error.into(),
            })?;
        }
        Ok(Self::of(file, of_one))
    }

    fn of(file: File, of_one: bool) -> Self {
        count(|held| *held += 1);
        let (shared, own) = HELD.get();
        HELD.set(if of_one { (shared, own + 1) } else { (shared + 1, own) });
        Self { _file: file, of_one, _stays: PhantomData }
    }
}

/// A file that all kforge processes on this machine know, to be locked. Its name is the same in all versions of kforge.
pub(crate) fn open(what: &str) -> Result<File> {
    let name: String = what.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = std::env::temp_dir().join(format!("kforge-turn-{name}"));
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    // Whatever the umask says, others must be able to lock it; nothing that was here before is touched, a link least of all.
    let made = options.clone().create_new(true).open(&path).inspect(|file| {
        let _ = file.set_permissions(Permissions::from_mode(0o666));
    });
    // Another user's file can be locked as well: reading is enough.
    let made = made.or_else(|_| options.open(&path));
    let failed = ExecError::io(format!("cannot use {}; set TMPDIR to a folder of yours", path.display()));
    made.or_else(|_| File::open(&path)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn time_counts_while_any_lock_is_held() {
        let name = format!("meter {}", std::process::id());
        let before = busy();
        let both = (DeviceLock::share(&name, || ()).unwrap(), DeviceLock::share(&name, || ()).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        drop(both);
        let held = busy().saturating_sub(before);
        assert!(held >= Duration::from_millis(20), "{held:?}");
        let _ = std::fs::remove_file(std::env::temp_dir().join(format!("kforge-turn-{}", name.replace(' ', "-"))));
    }

    #[test]
    fn who_holds_a_lock_does_not_wait_for_another_of_it() {
        let name = format!("nested {}", std::process::id());
        let shared = DeviceLock::share(&name, || ()).unwrap();
        assert!(DeviceLock::take(&name, || panic!("it would wait for ever")).is_err());
        let again = DeviceLock::share(&name, || panic!("shared locks go together")).unwrap();
        drop((shared, again));
        let own = DeviceLock::take(&name, || panic!("free")).unwrap();
        assert!(DeviceLock::share(&name, || panic!("it would wait for ever")).is_err());
        drop(own);
        drop(DeviceLock::take(&name, || panic!("free again")).unwrap());
        let _ = std::fs::remove_file(std::env::temp_dir().join(format!("kforge-turn-{}", name.replace(' ', "-"))));
    }

    #[test]
    fn a_second_one_waits_for_the_first() {
        let name = format!("test {}", std::process::id());
        let first = DeviceLock::take(&name, || panic!("nobody is there yet")).unwrap();
        assert!(DeviceLock::try_share(&name).unwrap().is_none());
        let released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let mut waited = false;
                let _lock = DeviceLock::take(&name, || waited = true).unwrap();
                assert!(waited && released.load(Ordering::SeqCst));
            });
            std::thread::sleep(Duration::from_millis(50));
            released.store(true, Ordering::SeqCst);
            drop(first);
            second.join().unwrap();
        });
        let both = (
            DeviceLock::share(&name, || panic!("free")).unwrap(),
            DeviceLock::share(&name, || panic!("shared")).unwrap(),
        );
        drop(both);
        assert!(DeviceLock::try_share(&name).unwrap().is_some());
        let _ = std::fs::remove_file(std::env::temp_dir().join(format!("kforge-turn-{}", name.replace(' ', "-"))));
    }
}
