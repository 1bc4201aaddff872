//! Where a cell finds its inputs and leaves its outputs: shared memory on the CPU, device memory on a GPU.

use crate::{
    cell::fill_random,
    error::{ExecError, Result},
    memory::Shared,
    referee::{InputSet, Referee},
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
};

const POISON: u8 = 0xFF;
const PAGE: usize = 4096;
/// Pages of an output that are looked at before it is copied.
const LOOKS: usize = 48;

/// One pair of slots, for one cell at a time.
pub(crate) enum Slots {
    /// Both mapped here too.
    Host { input: Shared, output: Shared },
    /// The referee's hands lie on them; here are only their names.
    Device { lane: u64, input: Rc<OwnedFd>, output: Rc<OwnedFd> },
}

impl Slots {
    /// With every page in place: when memory is taken decides how it lies, and that shows in the time.
    pub(crate) fn touched(sizes: (usize, usize)) -> Result<Self> {
        let mut slots = Self::host(sizes)?;
        slots.wipe_host();
        Ok(slots)
    }

    pub(crate) fn host((input, output): (usize, usize)) -> Result<Self> {
        Ok(Self::Host { input: Shared::new("kforge-input", input)?, output: Shared::new("kforge-output", output)? })
    }

    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        match self {
            Self::Host { input, output } => [input.fd(), output.fd()],
            Self::Device { input, output, .. } => [input.as_fd(), output.as_fd()],
        }
    }

    /// Inputs in place, the output poisoned. On a device its cache is emptied too where `cold`; here the evictor does it.
    pub(crate) fn lay(&mut self, referee: &mut Referee, set: &InputSet, cold: bool) -> Result<()> {
        match self {
            Self::Host { input, output } => {
                set.reveal(input.bytes_mut())?;
                output.bytes_mut().fill(POISON);
                Ok(())
            }
            Self::Device { lane, .. } => referee.lay(*lane, set, cold),
        }
    }

    /// The inputs of a set that may lie on a device, as a copy here.
    pub(crate) fn lay_copy(&mut self, referee: &mut Referee, set: &InputSet) -> Result<()> {
        match self {
            Self::Host { input, .. } => referee.copy_inputs(set, input),
            Self::Device { .. } => Err(ExecError::harness("a copy was wanted on a device")),
        }
    }

    /// Copies the output to where no cell reaches it; false where it was still being written.
    pub(crate) fn take(&mut self, referee: &mut Referee) -> Result<bool> {
        match self {
            Self::Host { output, .. } => take_host(output.bytes(), referee.private_output()?),
            Self::Device { lane, .. } => referee.take(*lane, 1),
        }
    }

    /// Whether the inputs are still those of `set`.
    pub(crate) fn unchanged(&self, referee: &mut Referee, set: &InputSet) -> Result<bool> {
        match self {
            Self::Host { input, .. } => set.is_in(input.bytes()),
            Self::Device { lane, .. } => referee.unchanged(*lane, &[set]),
        }
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
        if let Self::Host { input, output } = self {
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

    /// What lies in the output slot, where it can be seen from here.
    pub(crate) fn output(&self) -> Result<&[u8]> {
        match self {
            Self::Host { output, .. } => Ok(output.bytes()),
            Self::Device { .. } => Err(ExecError::harness("an output on a device was looked at from here")),
        }
    }
}

/// Pages looked at beforehand, here and there, must not differ from the copy: an answer that came before its output was
/// complete is found out, however fast the rest is written ahead of the copy.
fn take_host(slot: &[u8], copy: &mut [u8]) -> Result<bool> {
    let pages = slot.len().div_ceil(PAGE);
    let mut chance = [0; 8 * LOOKS];
    fill_random(&mut chance)?;
    let mut looks: Vec<(usize, Vec<u8>)> = Vec::with_capacity(LOOKS + 1);
    let drawn = chance.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    for page in drawn.map(|word| (word % pages as u64) as usize).chain([pages - 1]) {
        let start = page * PAGE;
        looks.push((start, slot[start..(start + PAGE).min(slot.len())].to_vec()));
    }
    copy.copy_from_slice(slot);
    Ok(looks.iter().all(|(start, page)| copy[*start..*start + page.len()] == *page))
}
