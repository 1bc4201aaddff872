//! Trusted channels: JSON with its length in front, with file descriptors attached to the first byte.

use crate::{
    error::{ExecError, Result},
    wire::{MAX_FDS, MAX_JSON},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        recvmsg, sendmsg,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    io::{IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

/// One end of a trusted channel.
pub(crate) struct Channel {
    stream: UnixStream,
}

impl Channel {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(crate) fn send(&mut self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> Result<()> {
        let body = serde_json::to_vec(message).map_err(ExecError::harness)?;
        sized(body.len())?;
        let head = (body.len() as u32).to_le_bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(ExecError::harness("too many file descriptors for one message"));
        }
        sendmsg(&self.stream, &[IoSlice::new(&head)], &mut control, SendFlags::NOSIGNAL)
            .map_err(|error| ExecError::harness(format!("its channel is closed ({error})")))?;
        self.stream.write_all(&body).map_err(|error| ExecError::harness(format!("its channel is closed ({error})")))
    }

    /// The next message; `Ok(None)` when none has begun before `deadline`.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self, deadline: Instant) -> Result<Option<T>> {
        if !wait_readable(&[self.fd()], deadline)?[0] {
            return Ok(None);
        }
        let mut head = [0; 4];
        self.read(&mut head)?;
        self.body(head).map(Some)
    }

    /// The next message with the descriptors that came with it; one must come before `deadline`.
    pub(crate) fn receive_with_fds<T: DeserializeOwned>(&mut self, deadline: Instant) -> Result<(T, Vec<OwnedFd>)> {
        if !wait_readable(&[self.fd()], deadline)?[0] {
            return Err(ExecError::harness("it does not answer"));
        }
        let mut head = [0; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(&self.stream, &mut [IoSliceMut::new(&mut head)], &mut control, RecvFlags::CMSG_CLOEXEC)
            .map_err(|error| ExecError::harness(format!("its channel is closed ({error})")))?;
        let fds = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => rights.collect(),
            _ => Vec::new(),
        });
        let fds = fds.collect();
        self.read(&mut head[received.bytes..])?;
        Ok((self.body(head)?, fds))
    }

    fn body<T: DeserializeOwned>(&mut self, head: [u8; 4]) -> Result<T> {
        let mut body = vec![0; sized(u32::from_le_bytes(head) as usize)?];
        self.read(&mut body)?;
        serde_json::from_slice(&body).map_err(ExecError::harness)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.stream.read_exact(buffer).map_err(|_| ExecError::harness("it ended without an answer"))
    }
}

/// The size of a message, where it is one.
fn sized(bytes: usize) -> Result<usize> {
    if bytes <= MAX_JSON {
        Ok(bytes)
    } else {
        Err(ExecError::harness(format!("a message of {bytes} bytes is too long")))
    }
}

/// Which of `fds` can be read (or are closed) before `deadline`; all false when it passed.
pub(crate) fn wait_readable(fds: &[BorrowedFd<'_>], deadline: Instant) -> Result<Vec<bool>> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) => return Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ExecError::Io { what: "cannot wait".to_owned(), cause: error.into() }),
        }
    }
}

/// Far enough for what is bounded elsewhere.
pub(crate) fn soon(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pair() -> (Channel, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Channel::new(ours), theirs)
    }

    #[test]
    fn a_message_has_its_length_in_front() {
        let (mut ours, mut theirs) = pair();
        ours.send(&json!({"do": "count"}), &[]).unwrap();
        let mut sent = [0; 18];
        theirs.read_exact(&mut sent).unwrap();
        assert_eq!(sent, *b"\x0e\0\0\0{\"do\":\"count\"}".as_slice());
        theirs.write_all(&sent).unwrap();
        assert_eq!(ours.receive::<Value>(soon(10)).unwrap(), Some(json!({"do": "count"})));
    }

    #[test]
    fn what_is_too_long_cut_off_or_no_json_is_an_error() {
        let text = |sent: &[u8]| {
            let (mut ours, mut theirs) = pair();
            theirs.write_all(sent).unwrap();
            drop(theirs);
            ours.receive::<Value>(soon(10)).unwrap_err().to_string()
        };
        assert!(text(&u32::MAX.to_le_bytes()).contains("a message of 4294967295 bytes is too long"));
        assert!(text(b"\x0e\0\0\0{").contains("it ended without an answer"));
        assert!(text(b"\x0e\0").contains("it ended without an answer"));
        assert!(text(b"\x01\0\0\0{").contains("EOF"));
    }
}
