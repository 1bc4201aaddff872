//! Calls that gave no reply. The kind says what can be done; none of them ends a suite.

use std::time::Duration;

/// A call without a reply.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub struct CallError {
    /// What kind of failure.
    pub kind: CallErrorKind,
    /// One or two sentences that end with what to do; never a key.
    pub text: String,
    /// How many times it was asked.
    pub attempts: u32,
    /// Tokens may have been billed although nothing came back.
    pub may_be_billed: bool,
}

/// What can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorKind {
    /// There is no key where the registry says it is.
    NoKey,
    /// The server does not accept the key: wrong, expired, or without rights to this model.
    KeyRefused,
    /// Too many requests, also after waiting as told.
    RateLimited,
    /// An account's limit; it is lifted after this time, if known.
    LimitReached {
        /// From now.
        lifted_in: Option<Duration>,
    },
    /// The prompt does not fit the model's context.
    TooLong,
    /// Nothing listens there, or the name is unknown to DNS.
    Unreachable,
    /// The connection broke, also when tried again.
    Cut,
    /// No byte, or no end, for too long.
    Timeout,
    /// The server's own failure.
    Server,
    /// The server does not take the request: unknown model, unknown field.
    Rejected,
    /// What came back is not the wire format.
    Garbled,
    /// The program behind `wire = "command"` failed.
    Command,
    /// A recording has no reply for this label.
    NoRecording,
    /// The watcher ended it.
    Cancelled,
    /// The registry or a file on disk is at fault.
    Setup,
}
