//! How long to wait and how often to try again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use crate::CallErrorKind;
use crate::fault::Fault;
use crate::registry::Timeouts;

/// All durations of a call, so that tests can make them short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// Between two bytes, the first included.
    pub idle: Duration,
    /// For one attempt.
    pub overall: Duration,
    /// How often a request is sent at most.
    pub attempts: u32,
    /// How often a server is called that nobody has reached yet.
    pub connect_attempts: u32,
    /// The first pause; each further one is twice as long.
    pub first_pause: Duration,
    /// No pause of our own is longer.
    pub longest_pause: Duration,
    /// A server that wants a longer pause than this is not waited for.
    pub longest_wait: Duration,
}

impl From<Timeouts> for Patience {
    fn from(timeouts: Timeouts) -> Self {
        let [connect, idle, overall] = timeouts.durations();
        Self {
            connect,
            idle,
            overall,
            attempts: 6,
            connect_attempts: 3,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_mins(1),
            longest_wait: Duration::from_mins(5),
        }
    }
}

/// What to do after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    GiveUp,
    /// The server wants more time than we have.
    TooLong(Duration),
    After(Duration),
}

impl Patience {
    /// `jitter` lies between 0 and 1.
    pub(super) fn next(&self, fault: &Fault, attempt: u32, jitter: f64) -> Next {
        let most = if fault.kind == CallErrorKind::Unreachable { self.connect_attempts } else { self.attempts };
        match fault.retry_in {
            _ if !fault.retry => Next::GiveUp,
            Some(told) if told > self.longest_wait => Next::TooLong(told),
            _ if attempt >= most => Next::GiveUp,
            // Never before the time that the server named, and not all at once after it.
            Some(told) => Next::After(told + self.first_pause.mul_f64(0.5 * jitter)),
            None => {
                let doubled = self.first_pause.saturating_mul(1 << (attempt - 1).min(20));
                Next::After(doubled.min(self.longest_pause).mul_f64(0.5 + 0.5 * jitter))
            }
        }
    }
}

/// A number between 0 and 1 that differs from process to process and from call to call.
pub(super) fn jitter() -> f64 {
    (RandomState::new().build_hasher().finish() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience() -> Patience {
        Timeouts::default().into()
    }

    #[test]
    fn pauses_double_up_to_a_limit() {
        let fault = Fault::passing(CallErrorKind::Server, "");
        let seconds: Vec<f64> = (1..=12)
            .map(|attempt| match (Patience { attempts: 100, ..patience() }).next(&fault, attempt, 1.0) {
                Next::After(pause) => pause.as_secs_f64(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(seconds[..7], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]);
        assert_eq!(seconds[11..], [60.0]);
    }

    #[test]
    fn jitter_spreads() {
        let fault = Fault::passing(CallErrorKind::Server, "");
        assert_eq!(patience().next(&fault, 1, 0.0), Next::After(Duration::from_millis(500)));
        let drawn: Vec<f64> = (0..50).map(|_| jitter()).collect();
        assert!(drawn.iter().all(|value| (0.0..1.0).contains(value)));
        assert!(drawn.iter().any(|value| (value - drawn[0]).abs() > 1e-3));
    }

    #[test]
    fn the_servers_word_counts() {
        let told = |seconds| Fault {
            retry_in: Some(Duration::from_secs(seconds)),
            ..Fault::passing(CallErrorKind::RateLimited, "")
        };
        assert_eq!(patience().next(&told(30), 1, 0.0), Next::After(Duration::from_secs(30)));
        assert_eq!(patience().next(&told(9000), 1, 0.0), Next::TooLong(Duration::from_mins(150)));
        assert_eq!(patience().next(&told(9000), 6, 0.0), Next::TooLong(Duration::from_mins(150)));
        assert_eq!(patience().next(&told(30), 6, 0.0), Next::GiveUp);
    }

    #[test]
    fn lasting_faults_and_absent_servers() {
        assert_eq!(patience().next(&Fault::lasting(CallErrorKind::Rejected, ""), 1, 0.0), Next::GiveUp);
        assert_eq!(patience().next(&Fault::passing(CallErrorKind::Unreachable, ""), 3, 0.0), Next::GiveUp);
    }
}
