//! The settings of the folder that a command is run in.

use super::Usage;
use crate::config::{Executor, Origin, Resolved, Settings, user_dir};
use anyhow::Context;

/// What holds here, with the flags of this command on top.
pub(super) fn resolve(flags: &Settings) -> anyhow::Result<Resolved> {
    let (resolved, _origins) = with_origins(flags)?;
    // In a file it may be meant for another day; as a flag it is a mistake.
    if flags.executor_timeout.is_some() && resolved.evaluation.executor == Executor::InPlace {
        let text = "--executor-timeout is for exchange:DIR and ssh:HOST: in place nobody else is waited for";
        return Err(Usage(text.to_owned()).into());
    }
    Ok(resolved)
}

/// The same, and where each value comes from.
pub(super) fn with_origins(flags: &Settings) -> anyhow::Result<(Resolved, Vec<Origin>)> {
    let folder = std::env::current_dir().context("finding the current folder")?;
    let user = user_dir(|name| std::env::var_os(name));
    let resolved = Settings::resolve(flags.clone(), &folder, user.as_deref());
    Ok(resolved.map_err(|error| Usage(error.to_string()))?)
}
