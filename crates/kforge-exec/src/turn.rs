//! One at a time: several kforge processes on a machine take turns at timing. What would disturb a timing and is not
//! timed itself (building and checking on a CPU, checking on a GPU) they do together, while nobody times.

use crate::error::{ExecError, Result};
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
};

/// Held as long as it lives; the system takes it back from a process that ends.
pub(crate) struct Turn {
    _file: File,
}

impl Turn {
    /// For timing. Waits until nobody else uses `what` (a device's name); `waiting` is called once if that takes a while.
    pub(crate) fn take(what: &str, waiting: impl FnOnce()) -> Result<Self> {
        Self::lock(what, (FlockOperation::NonBlockingLockExclusive, FlockOperation::LockExclusive), waiting)
    }

    /// For what is not timed. Waits until nobody times on `what`.
    pub(crate) fn share(what: &str, waiting: impl FnOnce()) -> Result<Self> {
        Self::lock(what, (FlockOperation::NonBlockingLockShared, FlockOperation::LockShared), waiting)
    }

    /// The same, if it can be had at once.
    pub(crate) fn try_share(what: &str) -> Result<Option<Self>> {
        let file = open(what)?;
        Ok(flock(&file, FlockOperation::NonBlockingLockShared).is_ok().then_some(Self { _file: file }))
    }

    fn lock(
        what: &str,
        (try_it, wait_for_it): (FlockOperation, FlockOperation),
        waiting: impl FnOnce(),
    ) -> Result<Self> {
        let file = open(what)?;
        if flock(&file, try_it).is_err() {
            waiting();
            flock(&file, wait_for_it)
                .map_err(|error| ExecError::Io { what: "cannot wait for a turn".to_owned(), cause: error.into() })?;
        }
        Ok(Self { _file: file })
    }
}

fn open(what: &str) -> Result<File> {
    let name: String = what.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = std::env::temp_dir().join(format!("kforge-turn-{name}"));
    // Another user's file can be locked as well: reading is enough.
    let made = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o666).open(&path);
    let failed = ExecError::io(format!("cannot use {}; set TMPDIR to a folder of yours", path.display()));
    made.or_else(|_| File::open(&path)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        time::Duration,
    };

    #[test]
    fn a_second_one_waits_for_the_first() {
        let name = format!("test {}", std::process::id());
        let first = Turn::take(&name, || panic!("nobody is there yet")).unwrap();
        assert!(Turn::try_share(&name).unwrap().is_none());
        let released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let mut waited = false;
                let _turn = Turn::take(&name, || waited = true).unwrap();
                assert!(waited && released.load(Ordering::SeqCst));
            });
            std::thread::sleep(Duration::from_millis(50));
            released.store(true, Ordering::SeqCst);
            drop(first);
            second.join().unwrap();
        });
        let both = (Turn::share(&name, || panic!("free")).unwrap(), Turn::share(&name, || panic!("shared")).unwrap());
        drop(both);
        assert!(Turn::try_share(&name).unwrap().is_some());
        let _ = std::fs::remove_file(std::env::temp_dir().join(format!("kforge-turn-{}", name.replace(' ', "-"))));
    }
}
