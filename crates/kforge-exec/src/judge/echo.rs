//! The least that asking can take: a message there and one back, to a thread that does nothing else.
//!
//! A cell asks and answers in Python, and what that takes is taken off both arms. A candidate could replace that Python by
//! native code, and would have the more taken off than it took. This is what even then is left.

use crate::{
    channel::wait_readable,
    error::{ExecError, Result},
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

const RECORD: usize = 64;
const LIMIT: Duration = Duration::from_secs(5);

/// Ends with its channel.
pub(crate) struct Echo(OwnedFd);

impl Echo {
    pub(crate) fn new() -> Result<Self> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|error| ExecError::Io { what: "cannot make a channel".to_owned(), cause: error.into() })?;
        std::thread::spawn(move || {
            let mut record = [0; RECORD];
            while matches!(recv(&theirs, &mut record, RecvFlags::empty()), Ok((RECORD, _))) {
                if send(&theirs, &record, SendFlags::NOSIGNAL).is_err() {
                    break;
                }
            }
        });
        Ok(Self(ours))
    }

    /// Microseconds there and back.
    pub(crate) fn ask(&self) -> Result<f64> {
        let mut record = [0; RECORD];
        let lost = || ExecError::harness("a thread that answers has gone");
        let begun = Instant::now();
        send(&self.0, &record, SendFlags::NOSIGNAL).map_err(|_| lost())?;
        wait_readable(&[self.0.as_fd()], begun + LIMIT)?;
        let (length, _) = recv(&self.0, &mut record, RecvFlags::DONTWAIT).map_err(|_| lost())?;
        if length == RECORD { Ok(begun.elapsed().as_secs_f64() * 1e6) } else { Err(lost()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_and_takes_some_time() {
        let echo = Echo::new().unwrap();
        assert!((0..3).all(|_| echo.ask().unwrap() > 0.0));
    }
}
