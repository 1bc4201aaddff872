//! From a name to a model.

use crate::http::HttpModel;
use crate::registry::{Entry, Registry, Route};
use crate::{CallError, Command, CommandOptions, Mailbox, Model, Replay};
use std::time::Duration;

/// Opens the model of this name. Nothing is sent, and no key is read, before the first call.
pub fn open(name: &str, registry: &Registry) -> Result<Box<dyn Model>, CallError> {
    match registry.route(name)? {
        Route::Http(entry) => Ok(Box::new(HttpModel::new(name, *entry, registry)?)),
        Route::Command(entry) => Ok(Box::new(command(name, *entry))),
        Route::Mailbox(folder) => Ok(Box::new(Mailbox::new(folder))),
        Route::Replay(folder) => Ok(Box::new(Replay::open(folder)?)),
    }
}

fn command(name: &str, entry: Entry) -> Command {
    let options = CommandOptions {
        pass_env: entry.pass_env,
        timeout: Duration::from_secs(entry.timeouts.overall),
        // A program says nothing until its reply is complete; only the whole counts.
        idle_timeout: Duration::from_secs(entry.timeouts.overall),
        json: entry.json,
        price: entry.price,
    };
    Command::new(name, entry.command, options)
}
