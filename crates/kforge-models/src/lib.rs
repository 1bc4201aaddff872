//! Text and images in, text out.
//!
//! The rest of kforge sees [`Model::ask`]: it blocks, it retries what is worth retrying, and it ends with a [`Reply`] or
//! with a [`CallError`] whose kind says what can be done. Which wire format, server, program or folder is behind a model is
//! known here only. So are keys: they come from the environment or a command at the time of the call, and are kept in
//! no file, no log and no error text.

mod command;
mod disk;
mod duration;
mod error;
mod fault;
mod http;
mod key;
mod mailbox;
mod open;
mod price;
mod recording;
mod registry;
mod request;
mod scripted;
mod sse;
mod support;
mod wire;

pub use command::JsonFields;
pub(crate) use command::{Command, CommandOptions};
pub use error::{CallError, CallErrorKind};
pub use http::{HttpModel, Patience};
pub(crate) use mailbox::Mailbox;
pub use open::open;
pub(crate) use price::estimate_prompt_tokens;
pub use price::{Prices, estimate_tokens};
pub use recording::{Recorded, Recorder, Replay};
pub use registry::{EffortStyle, EffortSupport, Entry, Registry, Route, Timeouts, Wire};
pub use request::{Effort, Image, Label, Reply, Request, Speaker, Stop, Turn, Usage};
pub use scripted::Scripted;

/// Told what is going on during a call, and asked whether it should go on.
pub trait Watch: Sync {
    /// Characters of the reply received so far.
    fn received(&self, _characters: usize) {}

    /// Something a person who waits should know: a retry, a pause until a limit is lifted, a waiting mailbox.
    fn waiting(&self, _text: &str) {}

    /// Whether the call should end now; asked several times a second.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Nobody watches.
pub struct Unwatched;

impl Watch for Unwatched {}

/// Something that answers requests.
pub trait Model: Send + Sync {
    /// The name that the user gave: `gpt-5`, `mailbox:DIR`, `replay:DIR`.
    fn name(&self) -> &str;

    /// Asks once and blocks until the reply is complete. Retries happen inside and are counted in the reply.
    fn ask(&self, request: &Request, watch: &dyn Watch) -> Result<Reply, CallError>;
}
