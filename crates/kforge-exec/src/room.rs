//! Room on a device: sessions that share a GPU reserve parts of its memory, so that none finds it full of another's sets.
//!
//! A part is a file that can be locked; it is given back by whoever drops it, and by the system where a process ends. What
//! a session may hold at its worst is the referee's estimate, so a session that finds no memory all the same, and is not
//! alone, is tried again with the whole device.

use crate::{error::Result, turn};
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::File,
    time::{Duration, Instant},
};

const PARTS: usize = 32;
const PAUSE: Duration = Duration::from_millis(50);

/// The whole of a device.
pub(crate) const WHOLE: f64 = 1.0;

/// Held as long as it lives.
pub(crate) struct Room {
    device: String,
    parts: Vec<(usize, File)>,
}

impl Room {
    /// Reserves a share of the device's memory. Nothing where others hold too much of it until `patience` is over;
    /// `waiting` is called once if it cannot be had at once.
    ///
    /// Nobody may hold a turn here: those who hold room may be waiting for that turn.
    pub(crate) fn reserve(
        device: &str,
        share: f64,
        patience: Option<Duration>,
        waiting: impl FnOnce(),
    ) -> Result<Option<Self>> {
        let begun = Instant::now();
        let mut waiting = Some(waiting);
        let wanted = (share * PARTS as f64).ceil().clamp(1.0, PARTS as f64) as usize;
        let queue = turn::open(&format!("{device} room"))?;
        let (mut first, mut room) = (false, Self { device: device.to_owned(), parts: Vec::new() });
        loop {
            // Whoever waits for parts is the only one that takes any: a large session is not overtaken for ever.
            first = first || flock(&queue, FlockOperation::NonBlockingLockExclusive).is_ok();
            if first {
                room.take_free(wanted)?;
            }
            if room.parts.len() == wanted {
                return Ok(Some(room));
            }
            if patience.is_some_and(|patience| begun.elapsed() > patience) {
                return Ok(None);
            }
            if let Some(tell) = waiting.take() {
                tell();
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether somebody else has reserved room on this device.
    pub(crate) fn has_company(&self) -> Result<bool> {
        let mut all = Self { device: self.device.clone(), parts: Vec::new() };
        all.take_free(PARTS)?;
        Ok(all.parts.len() + self.parts.len() < PARTS)
    }

    fn take_free(&mut self, wanted: usize) -> Result<()> {
        for number in 0..PARTS {
            if self.parts.len() == wanted {
                break;
            }
            if self.parts.iter().all(|(held, _)| *held != number) {
                let file = turn::open(&format!("{} room {number}", self.device))?;
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    self.parts.push((number, file));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

    /// A device of its own for each test, whose files are removed at the end.
    struct Device(String);

    impl Device {
        fn new(name: &str) -> Self {
            Self(format!("test {name} {}", std::process::id()))
        }

        fn at_once(&self, share: f64) -> Option<Room> {
            Room::reserve(&self.0, share, AT_ONCE, || ()).unwrap()
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
    fn a_large_one_that_waits_is_not_overtaken() {
        let device = Device::new("queue");
        let first = device.at_once(0.5).unwrap();
        let told = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let large =
                scope.spawn(|| Room::reserve(&device.0, WHOLE, None, || told.store(true, Ordering::SeqCst)).unwrap());
            while !told.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(device.at_once(0.1).is_none(), "half of it is free, for the one that waits");
            drop(first);
            assert!(large.join().unwrap().is_some());
        });
        assert!(device.at_once(0.1).is_some());
    }
}
