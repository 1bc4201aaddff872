//! How layers are put on top of one another, and where each value came from.

use serde::Serialize;
use std::{ffi::OsString, fmt, fmt::Write as _, path::PathBuf};

/// The name of the file in the working folder.
pub(crate) const PROJECT_FILE: &str = "kforge.toml";
/// The name of the file in the user's configuration folder.
pub(crate) const USER_FILE: &str = "config.toml";

/// Where a value was given; the first one wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Layer {
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
pub(crate) struct Origin {
    /// The setting, as files name it.
    pub(crate) key: &'static str,
    /// The layer.
    pub(crate) layer: Layer,
}

/// The user's configuration folder: `KFORGE_CONFIG_DIR`, else `kforge` in `XDG_CONFIG_HOME`, else in the system's place in
/// the home folder. Without a home there is none.
pub(crate) fn user_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(chosen) = folder("KFORGE_CONFIG_DIR") {
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

/// Makes [`super::Settings`] (one layer), [`super::Resolved`] (all of them) and the file of `kforge init` from one list.
macro_rules! settings {
    (
        defaults { $($(#[doc = $ddoc:literal])+ $dname:ident: $dtype:ty = $default:expr;)* }
        switches { $($(#[doc = $sdoc:literal])+ $sname:ident;)* }
        optional { $($(#[doc = $odoc:literal])+ $oname:ident: $otype:ty, $oexample:literal;)* }
        lists { $($(#[doc = $ldoc:literal])+ $lname:ident: $ltype:ty [$($larg:tt)*], $lexample:literal;)* }
    ) => {
        /// What one layer says; flags and files have the same settings.
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize, clap::Args)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct Settings {
            $($(#[doc = $ddoc])+ #[arg(long)] pub(crate) $dname: Option<$dtype>,)*
            $($(#[doc = $sdoc])+
              #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
              pub(crate) $sname: Option<bool>,)*
            $($(#[doc = $odoc])+ #[arg(long)] pub(crate) $oname: Option<$otype>,)*
            $($(#[doc = $ldoc])+ #[arg($($larg)*)] pub(crate) $lname: Vec<$ltype>,)*
        }

        /// What all layers together say.
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[allow(clippy::struct_excessive_bools, reason = "each is a switch of the user's")]
        pub(crate) struct Resolved {
            $($(#[doc = $ddoc])+ pub(crate) $dname: $dtype,)*
            $($(#[doc = $sdoc])+ pub(crate) $sname: bool,)*
            $($(#[doc = $odoc])+ pub(crate) $oname: Option<$otype>,)*
            $($(#[doc = $ldoc])+ pub(crate) $lname: Vec<$ltype>,)*
        }

        impl Settings {
            /// Puts flags on top of `kforge.toml` in the working folder, the user's file and the defaults.
            pub(crate) fn resolve(
                flags: Settings,
                cwd: &std::path::Path,
                user_dir: Option<&std::path::Path>,
            ) -> Result<(Resolved, Vec<Origin>), ConfigError> {
                let mut layers = vec![(Layer::Flags, flags)];
                let project = cwd.join($crate::config::layers::PROJECT_FILE);
                if let Some(settings) = read(&project)? {
                    layers.push((Layer::Project(project), settings));
                }
                let user = user_dir.map(|folder| folder.join($crate::config::layers::USER_FILE));
                if let Some(path) = user && let Some(settings) = read(&path)? {
                    layers.push((Layer::User(path), settings));
                }
                let mut origins = Vec::new();
                let resolved = Self::stack(&layers, &mut origins);
                resolved.check()?;
                Ok((resolved, origins))
            }

            /// Puts flags on top of settings that a run was begun with; no file is read.
            pub(crate) fn resolve_over(flags: Settings, kept: Settings) -> Result<Resolved, ConfigError> {
                let layers = [(Layer::Flags, flags), (Layer::Run, kept)];
                let resolved = Self::stack(&layers, &mut Vec::new());
                resolved.check()?;
                Ok(resolved)
            }

            fn stack(layers: &[(Layer, Settings)], origins: &mut Vec<Origin>) -> Resolved {
                use $crate::config::layers::{nearest, together};
                Resolved {
                    $($dname: nearest(stringify!($dname), layers, origins, |layer| layer.$dname.clone())
                        .unwrap_or_else(|| $default),)*
                    $($sname: nearest(stringify!($sname), layers, origins, |layer| layer.$sname).unwrap_or(false),)*
                    $($oname: nearest(stringify!($oname), layers, origins, |layer| layer.$oname.clone()),)*
                    $($lname: together(stringify!($lname), layers, origins, |layer| &layer.$lname),)*
                }
            }
        }

        /// The file that `kforge init` writes: every setting with its meaning, commented out.
        pub(crate) fn template() -> String {
            let mut text = String::from($crate::config::layers::TEMPLATE_START);
            let defaults = Settings::stack(&[], &mut Vec::new());
            $($crate::config::layers::entry(&mut text, &[$($ddoc),+], stringify!($dname), &$crate::config::layers::toml_text(&defaults.$dname));)*
            $($crate::config::layers::entry(&mut text, &[$($sdoc),+], stringify!($sname), "false");)*
            text.push_str($crate::config::layers::TEMPLATE_EXAMPLES);
            $($crate::config::layers::entry(&mut text, &[$($odoc),+], stringify!($oname), $oexample);)*
            $($crate::config::layers::entry(&mut text, &[$($ldoc),+], stringify!($lname), $lexample);)*
            text.push_str(HOOK_EXAMPLE);
            text
        }
    };
}
pub(super) use settings;

pub(super) const TEMPLATE_START: &str = "\
# Settings of `kforge optimize` for this folder; other commands have flags only. Flags win over this file, this file over the user's own, that over the defaults.
# Lists add up. Take the # away from a line to change it. `kforge config` shows what holds, and where it comes from.

# ---- defaults ----
";
pub(super) const TEMPLATE_EXAMPLES: &str = "
# ---- not set; the values are examples ----
";

/// One setting of the file, or only its meaning where the example stands elsewhere.
pub(super) fn entry(text: &mut String, doc: &[&str], key: &str, value: &str) {
    text.push('\n');
    for line in doc {
        let _ = writeln!(text, "#{line}");
    }
    if !value.is_empty() {
        let _ = writeln!(text, "#{key} = {value}");
    }
}

/// A value as TOML writes it.
pub(super) fn toml_text<T: Serialize>(value: &T) -> String {
    toml::Value::try_from(value).map(|value| value.to_string()).unwrap_or_default()
}
