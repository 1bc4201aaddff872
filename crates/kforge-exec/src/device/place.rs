//! Where a candidate's kernels run.

use serde::{Deserialize, Serialize};

/// Where a candidate's kernels run, and what a result can rest on there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On this machine's processors.
    Cpu,
    /// Triton's kernels on the CPU by its interpreter: right or wrong, no times.
    Interpreter,
    /// Nowhere: kernels are compiled for a device that is not here.
    Compiler,
    /// On the GPU with this name, as `CUDA_VISIBLE_DEVICES` takes it: the only one that any process of ours sees.
    Gpu {
        /// A UUID, or an index.
        name: String,
    },
    /// On a device of another kind.
    Device {
        /// As its module and its package in the harness are called: `torch_device:xpu` is what torch calls `xpu`.
        kind: String,
        /// What other kforge processes on this machine know the device by.
        name: String,
    },
}

impl Place {
    /// Whether kernels are timed.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        matches!(self, Self::Cpu | Self::Gpu { .. } | Self::Device { .. })
    }

    /// Whether kernels are run at all.
    #[must_use]
    pub fn runs(&self) -> bool {
        !matches!(self, Self::Compiler)
    }

    /// The word that the harness knows.
    pub(crate) fn for_harness(&self) -> String {
        match self {
            Self::Cpu | Self::Interpreter | Self::Compiler => "cpu".to_owned(),
            Self::Gpu { .. } if super::through_the_host() => "torch_device:cuda".to_owned(),
            Self::Gpu { .. } => "cuda".to_owned(),
            Self::Device { kind, .. } => kind.clone(),
        }
    }

    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        match self {
            Self::Gpu { name } => [("CUDA_VISIBLE_DEVICES", name.as_str()), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            _ => Vec::new(),
        }
    }
}
