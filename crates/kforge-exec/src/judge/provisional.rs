//! Why a number is not confirmed.

use std::collections::BTreeSet;

/// In the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Provisional {
    NoBaseline,
    /// The reference itself did not pass in a timed call.
    ReferenceFailed,
    /// It might have been the fastest.
    BaselineWithoutRoom,
    /// A GPU's memory is copied through the host.
    Staged,
    /// A cell's memory cannot be read.
    Copied,
    /// Strangers were on the GPU.
    DeviceShared,
    /// Strangers were on the processors.
    ProcessorsShared,
}

impl Provisional {
    fn words(self) -> &'static str {
        match self {
            Self::NoBaseline => "no baseline could be measured",
            Self::ReferenceFailed => "PyTorch itself did not pass on inputs of timed calls",
            Self::BaselineWithoutRoom => "a baseline ran out of memory on the device",
            Self::Staged => "device memory cannot be shared here, and copies through the host make timing less precise",
            Self::Copied => {
                "results cannot be read out of the candidate's process here, so the candidate's process copies them"
            }
            Self::DeviceShared => "another program was using the device",
            Self::ProcessorsShared => "other programs used the processors",
        }
    }
}

/// All of them in one line; empty where there are none.
pub(crate) fn told(reasons: &BTreeSet<Provisional>) -> String {
    reasons.iter().map(|reason| reason.words()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_told_in_an_order_that_does_not_depend_on_when_it_was_found() {
        let found = BTreeSet::from([Provisional::ProcessorsShared, Provisional::BaselineWithoutRoom]);
        assert_eq!(told(&found), "a baseline ran out of memory on the device; other programs used the processors");
        assert_eq!(told(&BTreeSet::new()), "");
    }
}
