//! Reservation on a device: sessions that share a GPU reserve parts of its memory, so that none finds it full of another's sets.
//!
//! A part is a file that can be locked; it is given back by whoever drops it, and by the system where a process ends. What
//! a session may hold at its worst is the referee's estimate, so a session that finds no memory all the same, and is not
//! alone, is tried again with the whole device.

use super::device_lock;
use crate::error::{ExecError, Result};
use rustix::fs::{FlockOperation, flock};
use std::{
    collections::BTreeSet,
    fs::File,
    io::{Read, Write},
    time::{Duration, Instant},
};

const PARTS: usize = 32;
const PAUSE: Duration = Duration::from_millis(50);
/// Shorter waits are not worth a word: somebody else was just taking parts, or counting them.
const MOMENT: Duration = Duration::from_millis(300);

/// The whole of a device.
pub(crate) const WHOLE: f64 = 1.0;
/// One part of it.
pub(crate) const LEAST: f64 = 0.0;
/// Until the memory of processes that were ended is free again.
const DYING: Duration = Duration::from_millis(1500);

/// Held as long as it lives.
pub(crate) struct Reservation {
    device: String,
    parts: Vec<(usize, File)>,
}

impl Reservation {
    /// Reserves a share of the device's memory, in the order of asking. Nothing where others hold too much of it until
    /// `patience` is over, counted from when it is our turn to take; where it takes more than a moment `waiting` is told once,
    /// and in words, for whom.
    ///
    /// Nobody may hold the device's lock here: those who have reserved memory may be waiting for it.
    pub(crate) fn reserve(
        device: &str,
        share: f64,
        patience: Option<Duration>,
        waiting: impl FnOnce(&str),
    ) -> Result<Option<Self>> {
        let mut waiting = Some(waiting);
        let asked = Instant::now();
        let mut tell_once = || {
            let long = asked.elapsed() > MOMENT;
            waiting.take_if(|_| long).into_iter().for_each(|tell| tell(&holders(device)));
            long
        };
        let wanted = (share * PARTS as f64).ceil().clamp(1.0, PARTS as f64) as usize;
        // Whoever is at its head is the only one that takes parts: a large session is not overtaken by small ones.
        let queue = device_lock::open(&format!("{device} room"))?;
        while flock(&queue, FlockOperation::NonBlockingLockExclusive).is_err() {
            if tell_once() {
                flock(&queue, FlockOperation::LockExclusive).map_err(|error| ExecError::Io {
                    what: "cannot wait for memory of the device".to_owned(),
                    cause: error.into(),
                })?;
                break;
            }
            std::thread::sleep(PAUSE / 10);
        }
        let begun = Instant::now();
        let mut made = Self { device: device.to_owned(), parts: Vec::new() };
        loop {
            made.take_free(wanted)?;
            if made.parts.len() == wanted {
                return Ok(Some(made));
            }
            if patience.is_some_and(|patience| begun.elapsed() > patience) {
                return Ok(None);
            }
            tell_once();
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether somebody else has reserved memory of this device.
    pub(crate) fn has_company(&self) -> Result<bool> {
        let mut all = Self { device: self.device.clone(), parts: Vec::new() };
        all.take_free(PARTS)?; // for this moment
        Ok(all.parts.len() + self.parts.len() < PARTS)
    }

    fn take_free(&mut self, wanted: usize) -> Result<()> {
        for number in 0..PARTS {
            if self.parts.len() == wanted {
                break;
            }
            if self.parts.iter().all(|(held, _)| *held != number) {
                let file = part(&self.device, number)?;
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    sign(&file);
                    self.parts.push((number, file));
                }
            }
        }
        Ok(())
    }
}

fn part(device: &str, number: usize) -> Result<File> {
    device_lock::open(&format!("{device} room {number}"))
}

/// Leaves our number for those who wait. Where the file is another user's and cannot be written, they learn of an earlier one.
fn sign(mut file: &File) {
    let _ = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
}

/// Who has parts of a device: `kforge (pid 4711), kforge (pid 4712)`, or jobs of this process.
fn holders(device: &str) -> String {
    let mut pids = BTreeSet::new();
    for mut file in (0..PARTS).filter_map(|number| part(device, number).ok()) {
        let mut text = String::new();
        if flock(&file, FlockOperation::NonBlockingLockShared).is_err() && file.read_to_string(&mut text).is_ok() {
            pids.extend(text.trim().parse::<u32>());
        }
    }
    let name = |pid: u32| match pid {
        pid if pid == std::process::id() => "other jobs of this process".to_owned(),
        pid => format!("kforge (pid {pid})"),
    };
    let named: Vec<String> = pids.into_iter().map(name).collect();
    if named.is_empty() { "other kforge sessions".to_owned() } else { named.join(", ") }
}

/// Reservation of a session: its processes are ended with it, and what they held on the device is free a moment later only.
pub(crate) struct Lingering(pub(crate) Option<Reservation>);

impl Drop for Lingering {
    fn drop(&mut self) {
        if let Some(reservation) = self.0.take() {
            std::thread::spawn(move || {
                std::thread::sleep(DYING);
                drop(reservation);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::fs::FileExt,
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
    };

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

    /// A device of its own for each test, whose files are removed at the end.
    struct Device(String);

    impl Device {
        fn new(name: &str) -> Self {
            Self(format!("test {name} {}", std::process::id()))
        }

        fn at_once(&self, share: f64) -> Option<Reservation> {
            Reservation::reserve(&self.0, share, AT_ONCE, |_| ()).unwrap()
        }
    }

    impl Drop for Device {
        fn drop(&mut self) {
            let name = self.0.replace(' ', "-");
            for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().starts_with(&format!("kforge-turn-{name}-room")) {
                    let _ = std::fs::remove_file(entry.path());
                }
            }
        }
    }

    #[test]
    fn what_is_reserved_never_comes_to_more_than_the_device() {
        let device = Device::new("sum");
        let large = device.at_once(0.7).unwrap();
        assert!(device.at_once(0.5).is_none(), "more than is left");
        let small = device.at_once(0.25).unwrap();
        assert!(large.has_company().unwrap() && small.has_company().unwrap());
        drop(large);
        assert!(!small.has_company().unwrap());
        assert!(device.at_once(WHOLE).is_none());
        drop(small);
        assert!(device.at_once(7.0).is_some_and(|whole| whole.parts.len() == PARTS));
        assert!(device.at_once(0.0).is_some_and(|least| least.parts.len() == 1));
    }

    #[test]
    fn who_waits_is_told_for_whom() {
        let device = Device::new("holders");
        assert_eq!(holders(&device.0), "other kforge sessions");
        let held = device.at_once(0.5).unwrap();
        assert_eq!(holders(&device.0), "other jobs of this process");
        held.parts[0].1.set_len(0).unwrap();
        held.parts[0].1.write_all_at(b"4711", 0).unwrap();
        let mut told = String::new();
        Reservation::reserve(&device.0, WHOLE, Some(2 * MOMENT), |who| who.clone_into(&mut told)).unwrap();
        assert!(told.contains("kforge (pid 4711)") && told.contains("other jobs of this process"), "{told}");
    }

    #[test]
    fn a_reservation_of_a_session_outlives_it_for_a_moment() {
        let device = Device::new("lingering");
        let begun = Instant::now();
        drop(Lingering(device.at_once(WHOLE)));
        let patience = Some(Duration::from_mins(1));
        assert!(Reservation::reserve(&device.0, WHOLE, patience, |_| ()).unwrap().is_some());
        assert!(begun.elapsed() >= DYING, "had while the session's processes were ending");
    }

    #[test]
    fn a_large_one_that_waits_is_not_overtaken() {
        let device = Device::new("queue");
        let first = device.at_once(0.5).unwrap();
        let (told, had) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let reserve = |share: f64| {
            let reservation =
                Reservation::reserve(&device.0, share, None, |_| _ = told.fetch_add(1, Ordering::SeqCst)).unwrap();
            had.lock().unwrap().push(share);
            drop(reservation);
        };
        let until_told = |count: usize| {
            while told.load(Ordering::SeqCst) < count {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| reserve(WHOLE));
            until_told(1);
            scope.spawn(|| reserve(0.1));
            until_told(2);
            std::thread::sleep(2 * PAUSE);
            assert!(had.lock().unwrap().is_empty(), "half of it is free, for the one that came first");
            drop(first);
        });
        assert_eq!(had.into_inner().unwrap(), [WHOLE, 0.1]);
    }
}
