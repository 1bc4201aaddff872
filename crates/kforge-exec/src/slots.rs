//! Where a cell finds its inputs: shared memory on the CPU, device memory on a GPU. Results lie wherever it leaves them.

use crate::{
    claims::OutputField,
    error::{ExecError, Result},
    judge::arm::Given,
    memory::Shared,
    referee::{InputSet, Opened, Referee},
    wire::{GATE_BYTES, SLOT_ALIGN},
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
};

/// Larger results are not kept until the next ones were taken.
const KEPT_BYTES: usize = 1 << 30;

impl Opened {
    /// Whether there is room for results until the next ones were taken.
    pub(crate) fn keeps_results(&self) -> bool {
        self.output_bytes <= KEPT_BYTES
    }

    /// From one place to the next.
    pub(crate) fn input_stride(&self) -> usize {
        self.input_bytes.next_multiple_of(SLOT_ALIGN)
    }
}

/// The slots of one cell at a time.
pub(crate) enum Slots {
    /// Mapped here too. `output` is for cells whose memory cannot be read, and for tools.
    Host { input: Shared, stride: usize, output: Shared, output_stride: usize },
    /// The referee's hands lie on them; here are only their names.
    Device { lane: u64, input: Rc<OwnedFd>, output: Rc<OwnedFd> },
}

impl Slots {
    /// With every page in place: when memory is taken decides how it lies, and that shows in the time.
    pub(crate) fn touched(opened: &Opened, places: usize) -> Result<Self> {
        let stride = opened.input_stride();
        let output = if can_look_inside() { 0 } else { places * opened.output_bytes };
        let mut slots = Self::Host {
            input: Shared::new("kforge-input", places * stride + GATE_BYTES)?,
            stride,
            output: Shared::new("kforge-output", output.max(SLOT_ALIGN))?,
            output_stride: if output > 0 { opened.output_bytes } else { 0 },
        };
        slots.wipe_host();
        Ok(slots)
    }

    /// For a process that calls nothing, or for a tool that leaves its report in the output.
    pub(crate) fn plain((input, output): (usize, usize)) -> Result<Self> {
        Ok(Self::Host {
            input: Shared::new("kforge-input", input.next_multiple_of(SLOT_ALIGN) + GATE_BYTES)?,
            stride: input,
            output: Shared::new("kforge-output", output)?,
            output_stride: 0,
        })
    }

    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        match self {
            Self::Host { input, output, .. } => [input.fd(), output.fd()],
            Self::Device { input, output, .. } => [input.as_fd(), output.as_fd()],
        }
    }

    /// Inputs in place, on this machine.
    pub(crate) fn lay_here(&mut self, referee: &Referee, given: Given<'_>) -> Result<()> {
        let Self::Host { input, stride, .. } = self else { return Err(on_a_device()) };
        match given {
            Given::Stored(set) => set.reveal(input.bytes_mut()),
            Given::Fresh(calls) => {
                let bytes = calls * *stride;
                input.bytes_mut()[..bytes].copy_from_slice(&referee.staged()?[..bytes]);
                Ok(())
            }
            Given::Null(_) => Ok(()),
        }
    }

    /// The inputs of a set that may lie on a device, as a copy here.
    pub(crate) fn lay_copy(&mut self, referee: &mut Referee, set: &InputSet) -> Result<()> {
        match self {
            Self::Host { input, .. } => referee.copy_inputs(set, input),
            Self::Device { .. } => Err(ExecError::harness("a copy was wanted on a device")),
        }
    }

    /// Whether the inputs are still those that were given.
    pub(crate) fn unchanged(&self, referee: &Referee, given: Given<'_>) -> Result<bool> {
        let Self::Host { input, stride, .. } = self else { return Err(on_a_device()) };
        match given {
            Given::Stored(set) => set.is_in(input.bytes()),
            Given::Fresh(calls) => {
                let staged = referee.staged()?;
                Ok((0..calls).all(|place| {
                    let at = place * stride;
                    let range = |(start, end): &(usize, usize)| at + start..at + end;
                    referee.held().iter().all(|part| input.bytes()[range(part)] == staged[range(part)])
                }))
            }
            Given::Null(_) => Ok(true),
        }
    }

    /// Whether the cell copies its results into shared memory, because nobody can read its own.
    pub(crate) fn copies(&self) -> bool {
        matches!(self, Self::Host { output_stride, .. } if *output_stride > 0)
    }

    /// A result that was copied.
    pub(crate) fn copied(&self, place: usize, field: &OutputField) -> Result<&[u8]> {
        let Self::Host { output, output_stride, .. } = self else { return Err(on_a_device()) };
        if *output_stride == 0 {
            return Err(ExecError::harness(
                "the memory of a cell cannot be read: does a setting forbid to trace one's own processes \
                 (/proc/sys/kernel/yama/ptrace_scope above 1), or is Landlock missing?",
            ));
        }
        let start = place * output_stride + field.offset;
        Ok(&output.bytes()[start..start + field.nbytes])
    }

    /// What one candidate saw or computed is nothing that the next may find.
    pub(crate) fn wipe(&mut self, referee: &mut Referee) -> Result<()> {
        match self {
            Self::Host { .. } => {
                self.wipe_host();
                Ok(())
            }
            Self::Device { lane, .. } => referee.wipe(*lane),
        }
    }

    fn wipe_host(&mut self) {
        if let Self::Host { input, output, .. } = self {
            input.bytes_mut().fill(0);
            output.bytes_mut().fill(0);
        }
    }

    /// The same memory for another cell of the same candidate, which has its turn after this one.
    pub(crate) fn shared(&self) -> Option<Self> {
        match self {
            Self::Host { .. } => None,
            Self::Device { lane, input, output } => {
                Some(Self::Device { lane: *lane, input: Rc::clone(input), output: Rc::clone(output) })
            }
        }
    }

    /// Whether no other cell waits for this memory.
    pub(crate) fn is_last(&self) -> bool {
        match self {
            Self::Host { .. } => true,
            Self::Device { input, .. } => Rc::strong_count(input) == 1,
        }
    }

    /// Of slots on a device, the name that the referee knows them by.
    pub(crate) fn lane(&self) -> Option<u64> {
        match self {
            Self::Host { .. } => None,
            Self::Device { lane, .. } => Some(*lane),
        }
    }

    /// What a tool left in the output: so many bytes, as its process says, and no more than there are.
    /// A copy, since that process may still write there.
    pub(crate) fn said(&self, length: u64) -> Result<Vec<u8>> {
        let Self::Host { output, .. } = self else { return Err(on_a_device()) };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(output.bytes()[..length.min(output.bytes().len())].to_vec())
    }
}

/// Whether the memory of processes that we started can be read: elsewhere cells copy their results.
pub(crate) fn can_look_inside() -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    cfg!(target_os = "linux")
        && may_trace(&scope, rustix::process::geteuid().is_root())
        && crate::window::Window::open(std::process::id()).is_some()
}

/// By the setting of Yama, which is empty where Yama is missing: 1 allows descendants, 2 administrators, 3 nobody.
fn may_trace(scope: &str, is_root: bool) -> bool {
    match scope.trim().parse() {
        Ok(3_u8..) => false,
        Ok(2) => is_root,
        Ok(_) | Err(_) => true,
    }
}

fn on_a_device() -> ExecError {
    ExecError::harness("memory of a device was looked at from here")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_there_is() {
        let slots = Slots::plain((1, 4096)).unwrap();
        for (said, read) in [(0, 0), (7, 7), (4096, 4096), (4097, 4096), (u64::MAX, 4096)] {
            assert_eq!(slots.said(said).unwrap().len(), read, "{said}");
        }
    }

    #[test]
    fn who_may_not_trace_takes_copies() {
        let scopes = ["", "0\n", "1\n", "2\n", "3\n"];
        assert_eq!(scopes.map(|scope| may_trace(scope, false)), [true, true, true, false, false]);
        assert_eq!(scopes.map(|scope| may_trace(scope, true)), [true, true, true, true, false]);
    }
}
