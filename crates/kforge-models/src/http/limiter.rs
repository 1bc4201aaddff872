//! How many requests go to one model: at once, and per minute. Shared by everybody who uses the entry.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Watch;

/// How often a waiting caller asks whether it should go on.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// A token bucket and a semaphore.
#[derive(Debug)]
pub(crate) struct Limiter {
    per_minute: Option<u32>,
    parallel: Option<u32>,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    running: u32,
    /// Requests that may begin now; grows with time.
    tokens: f64,
    counted_at: Instant,
    /// A server told one caller to wait: the others wait too.
    paused_until: Option<Instant>,
}

/// Holds one place until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Limiter);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.freed.notify_one();
    }
}

impl Limiter {
    pub(crate) fn new(per_minute: Option<u32>, parallel: Option<u32>) -> Self {
        let tokens = burst(per_minute);
        let state = State { running: 0, tokens, counted_at: Instant::now(), paused_until: None };
        Self { per_minute, parallel, state: Mutex::new(state), freed: Condvar::new() }
    }

    /// Waits for a place; `None` when the watcher ends it.
    pub(crate) fn enter(&self, watch: &dyn Watch) -> Option<Permit<'_>> {
        let mut state = self.lock();
        let mut told = false;
        loop {
            let now = Instant::now();
            let Some(wait) = state.wait(now, self.per_minute, self.parallel) else {
                state.running += 1;
                state.tokens -= 1.0;
                return Some(Permit(self));
            };
            // The watcher is called without the lock: it may be slow, or ask a model itself.
            drop(state);
            if watch.cancelled() {
                return None;
            }
            if !std::mem::replace(&mut told, true) && wait > Duration::from_secs(1) {
                watch.waiting("waiting for a place under the model's request limits");
            }
            state = self.lock();
            state = self.freed.wait_timeout(state, wait.min(LOOK)).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nobody begins before this pause is over.
    pub(crate) fn pause(&self, pause: Duration) {
        let until = Instant::now().checked_add(pause);
        let mut state = self.lock();
        state.paused_until = state.paused_until.max(until);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tenth of a minute's requests may begin together.
fn burst(per_minute: Option<u32>) -> f64 {
    per_minute.map_or(0.0, |rate| (f64::from(rate) / 10.0).max(1.0))
}

impl State {
    /// How long until a request may begin; `None`: now.
    fn wait(&mut self, now: Instant, per_minute: Option<u32>, parallel: Option<u32>) -> Option<Duration> {
        if let Some(rate) = per_minute {
            let grown = now.saturating_duration_since(self.counted_at).as_secs_f64() * f64::from(rate) / 60.0;
            self.tokens = (self.tokens + grown).min(burst(per_minute));
            self.counted_at = now;
            // A hair below one: rounding must not make a full bucket wait forever.
            if self.tokens < 1.0 - 1e-9 {
                return Some(Duration::from_secs_f64((1.0 - self.tokens) * 60.0 / f64::from(rate)));
            }
        }
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Some(until - now);
        }
        parallel.is_some_and(|most| self.running >= most).then_some(LOOK)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::Unwatched;

    struct Ended;
    impl Watch for Ended {
        fn cancelled(&self) -> bool {
            true
        }
    }

    #[test]
    fn no_limits_no_waiting() {
        let limiter = Limiter::new(None, None);
        let permits: Vec<_> = (0..100).map(|_| limiter.enter(&Ended).unwrap()).collect();
        assert_eq!(permits.len(), 100);
    }

    #[test]
    fn places_are_given_back() {
        let limiter = Limiter::new(None, Some(2));
        let first = limiter.enter(&Ended).unwrap();
        let _second = limiter.enter(&Ended).unwrap();
        assert!(limiter.enter(&Ended).is_none());
        drop(first);
        assert!(limiter.enter(&Ended).is_some());
    }

    #[test]
    fn the_bucket_fills_with_time() {
        let start = Instant::now();
        let mut state = State { running: 0, tokens: burst(Some(60)), counted_at: start, paused_until: None };
        for _ in 0..6 {
            assert_eq!(state.wait(start, Some(60), None), None);
            state.tokens -= 1.0;
        }
        let wait = state.wait(start, Some(60), None).unwrap();
        assert!((wait.as_secs_f64() - 1.0).abs() < 1e-6);
        assert_eq!(state.wait(start + wait, Some(60), None), None);
        state.tokens -= 1.0;
        assert_eq!(state.wait(start + Duration::from_hours(1), Some(60), None), None);
        assert!((state.tokens - 6.0).abs() < 1e-9, "idle hours do not pile up");
    }

    #[test]
    fn a_pause_holds_for_all() {
        let limiter = Limiter::new(None, None);
        limiter.pause(Duration::from_hours(1));
        limiter.pause(Duration::from_secs(1));
        assert!(limiter.enter(&Ended).is_none());
    }

    #[test]
    fn never_more_at_once() {
        let limiter = Limiter::new(None, Some(3));
        let (running, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    let _permit = limiter.enter(&Unwatched).unwrap();
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(2));
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 3);
    }
}
