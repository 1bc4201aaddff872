//! What a run is on disk: events in a journal, and everything else as a fold of them.

pub(crate) mod account;
pub(crate) mod artifacts;
pub(crate) mod event;
pub(crate) mod export;
pub(crate) mod file;
pub(crate) mod history;
pub(crate) mod journal;
pub(crate) mod list;
