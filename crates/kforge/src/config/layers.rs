//! How layers are put on top of one another, and where each value came from.

use crate::environment;
use serde::Serialize;
use std::{ffi::OsString, fmt, path::PathBuf};

/// The name of the file in the working folder.
pub const PROJECT_FILE: &str = "kforge.toml";
/// The name of the file in the user's configuration folder.
pub(super) const USER_FILE: &str = "config.toml";

/// Where a value was given; the first one wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// On the command line.
    Flags,
    /// In the file of the working folder.
    Project(PathBuf),
    /// In the user's own file.
    User(PathBuf),
    /// When the run began.
    Run,
    /// Nowhere.
    Default,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flags => f.write_str("command line"),
            Self::Project(path) | Self::User(path) => write!(f, "{}", path.display()),
            Self::Run => f.write_str("run"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Which layer gave a setting its value. A list has one for every layer that added to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The setting, as files name it.
    pub key: &'static str,
    /// The layer.
    pub layer: Layer,
}

/// The user's configuration folder: `KFORGE_CONFIG_DIR`, else `kforge` in `XDG_CONFIG_HOME`, else in the system's place in
/// the home folder. Without a home there is none.
pub fn user_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(chosen) = folder(environment::CONFIG_DIR.name) {
        return Some(chosen);
    }
    // The XDG rules say to ignore a relative path.
    if let Some(configs) = folder("XDG_CONFIG_HOME").filter(|path| path.is_absolute()) {
        return Some(configs.join("kforge"));
    }
    let configs = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
    folder("HOME").map(|home| home.join(configs).join("kforge"))
}

/// The value of the nearest layer that has one.
pub(super) fn nearest<T: Clone>(
    key: &'static str,
    layers: &[(Layer, super::Settings)],
    origins: &mut Vec<Origin>,
    value: impl Fn(&super::Settings) -> Option<T>,
) -> Option<T> {
    let found = layers.iter().find_map(|(layer, settings)| value(settings).map(|value| (layer, value)));
    origins.push(Origin { key, layer: found.as_ref().map_or(Layer::Default, |(layer, _)| (*layer).clone()) });
    found.map(|(_, value)| value)
}

/// The values of all layers together, nearest first.
pub(super) fn together<T: Clone>(
    key: &'static str,
    layers: &[(Layer, super::Settings)],
    origins: &mut Vec<Origin>,
    values: impl Fn(&super::Settings) -> &[T],
) -> Vec<T> {
    let adding = layers.iter().filter(|(_, settings)| !values(settings).is_empty());
    origins.extend(adding.clone().map(|(layer, _)| Origin { key, layer: layer.clone() }));
    if adding.clone().next().is_none() {
        origins.push(Origin { key, layer: Layer::Default });
    }
    adding.flat_map(|(_, settings)| values(settings).to_vec()).collect()
}
