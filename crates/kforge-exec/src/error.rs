//! What can go wrong with our own machinery, as opposed to a candidate, which is data.

use kforge_types::SandboxReport;

/// A failure that is not the candidate's.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The problem cannot be judged.
    #[error("{0}")]
    Problem(String),
    /// The device has not enough memory for it.
    #[error("{0}")]
    NoRoom(String),
    /// A compiler that the candidate needs is not on this machine.
    #[error("the candidate cannot be built on this machine, which says nothing about it: {0}")]
    Toolchain(String),
    /// The candidate does what only a GPU can do, and there is none; the name of what it does.
    #[error(
        "the candidate cannot be judged on this machine, which says nothing about it: there is no GPU, and Triton's interpreter cannot run `{0}`; judge it on a machine with a GPU"
    )]
    Uninterpretable(String),
    /// Less sandbox than was demanded.
    #[error("the sandbox reaches level `{}` only ({}); run `kforge doctor` for the reason, or lower --require-sandbox", level(.0), .0.missing.join("; "))]
    Sandbox(SandboxReport),
    /// The device is in use by somebody else.
    #[error("{0}")]
    Busy(String),
    /// The device does not work any more: nobody may judge on it.
    #[error("{0}")]
    OutOfUse(String),
    /// A baseline that was right before was not, or did not answer.
    #[error("the baseline {0}; measure without it with --baselines, and report it")]
    Baseline(String),
    /// The harness ended or said something unexpected.
    #[error("the evaluator's own process failed: {0}; run again with KFORGE_LOG=debug, and report it if it stays")]
    Harness(String),
    /// An operating-system call failed.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: std::io::Error,
    },
}

fn level(report: &SandboxReport) -> String {
    format!("{:?}", report.level).to_lowercase()
}

impl ExecError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |cause| Self::Io { what, cause }
    }

    pub(crate) fn baseline(reason: impl std::fmt::Display) -> Self {
        Self::Baseline(format!("failed: {reason}"))
    }

    pub(crate) fn harness(what: impl std::fmt::Display) -> Self {
        Self::Harness(what.to_string())
    }
}

/// The usual result of this crate.
pub type Result<T> = std::result::Result<T, ExecError>;
