//! From one list of settings to everything that follows from it: flags, files, what holds in the end, and `kforge init`.

use serde::Serialize;
use std::fmt::Write as _;

/// Makes [`super::Settings`] (one layer of all groups), the flags of each group, [`super::Resolved`] (all layers together)
/// and the file of `kforge init` from one list.
macro_rules! settings {
    ($(
        $(#[doc = $gdoc:literal])+
        $group:ident: $flags:ident, $resolved:ident, $heading:literal {
            defaults { $($(#[doc = $ddoc:literal])+ $dname:ident: $dtype:ty = $default:expr;)* }
            switches { $($(#[doc = $sdoc:literal])+ $sname:ident;)* }
            optional { $($(#[doc = $odoc:literal])+ $oname:ident: $otype:ty, $oexample:literal;)* }
            lists { $($(#[doc = $ldoc:literal])+ $lname:ident: $ltype:ty [$($larg:tt)*], $lexample:literal;)* }
        }
    )+) => {
        /// What one layer says; flags and files have the same settings.
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize, clap::Args)]
        #[serde(deny_unknown_fields, default)]
        pub struct Settings {$(
            $($(#[doc = $ddoc])+ #[arg(long, help_heading = $heading)] pub $dname: Option<$dtype>,)*
            $($(#[doc = $sdoc])+
              #[arg(long, help_heading = $heading, num_args = 0..=1, require_equals = true,
                    default_missing_value = "true", value_name = "BOOL", hide_possible_values = true)]
              pub $sname: Option<bool>,)*
            $($(#[doc = $odoc])+ #[arg(long, help_heading = $heading)] pub $oname: Option<$otype>,)*
            $($(#[doc = $ldoc])+ #[arg($($larg)*)] pub $lname: Vec<$ltype>,)*
        )+}

        $(
            $(#[doc = $gdoc])+
            ///
            /// As flags, for commands that have no others.
            #[derive(Debug, Clone, Default, PartialEq, clap::Args)]
            pub struct $flags {
                $($(#[doc = $ddoc])+ #[arg(long, help_heading = $heading)] pub $dname: Option<$dtype>,)*
                $($(#[doc = $sdoc])+
                  #[arg(long, help_heading = $heading, num_args = 0..=1, require_equals = true,
                        default_missing_value = "true", value_name = "BOOL", hide_possible_values = true)]
                  pub $sname: Option<bool>,)*
                $($(#[doc = $odoc])+ #[arg(long, help_heading = $heading)] pub $oname: Option<$otype>,)*
                $($(#[doc = $ldoc])+ #[arg($($larg)*)] pub $lname: Vec<$ltype>,)*
            }

            impl $flags {
                /// The same in a layer that may have other groups already.
                #[must_use]
                pub fn within(&self, layer: Settings) -> Settings {
                    let group = self.clone();
                    Settings {
                        $($dname: group.$dname,)*
                        $($sname: group.$sname,)*
                        $($oname: group.$oname,)*
                        $($lname: group.$lname,)*
                        ..layer
                    }
                }
            }

            $(#[doc = $gdoc])+
            ///
            /// As all layers together say.
            #[derive(Debug, Clone, PartialEq)]
            #[allow(clippy::struct_excessive_bools, reason = "each is a switch of the user's")]
            pub struct $resolved {
                $($(#[doc = $ddoc])+ pub $dname: $dtype,)*
                $($(#[doc = $sdoc])+ pub $sname: bool,)*
                $($(#[doc = $odoc])+ pub $oname: Option<$otype>,)*
                $($(#[doc = $ldoc])+ pub $lname: Vec<$ltype>,)*
            }
        )+

        /// What all layers together say.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Resolved {
            $($(#[doc = $gdoc])+ pub $group: $resolved,)+
        }

        /// Files and runs have no groups: a setting may move to another one.
        impl serde::Serialize for Resolved {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let keys = [$(
                    $(stringify!($dname),)* $(stringify!($sname),)* $(stringify!($oname),)* $(stringify!($lname),)*
                )+];
                let mut flat = serializer.serialize_struct("Resolved", keys.len())?;
                $(
                    $(flat.serialize_field(stringify!($dname), &self.$group.$dname)?;)*
                    $(flat.serialize_field(stringify!($sname), &self.$group.$sname)?;)*
                    $(flat.serialize_field(stringify!($oname), &self.$group.$oname)?;)*
                    $(flat.serialize_field(stringify!($lname), &self.$group.$lname)?;)*
                )+
                flat.end()
            }
        }

        impl Settings {
            /// Puts flags on top of `kforge.toml` in the working folder, the user's file and the defaults.
            pub fn resolve(
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
            pub fn resolve_over(flags: Settings, kept: Settings) -> Result<Resolved, ConfigError> {
                let layers = [(Layer::Flags, flags), (Layer::Run, kept)];
                let resolved = Self::stack(&layers, &mut Vec::new());
                resolved.check()?;
                Ok(resolved)
            }

            fn stack(layers: &[(Layer, Settings)], origins: &mut Vec<Origin>) -> Resolved {
                use $crate::config::layers::{nearest, together};
                Resolved {$(
                    $group: $resolved {
                        $($dname: nearest(stringify!($dname), layers, origins, |layer| layer.$dname.clone())
                            .unwrap_or_else(|| $default),)*
                        $($sname: nearest(stringify!($sname), layers, origins, |layer| layer.$sname).unwrap_or(false),)*
                        $($oname: nearest(stringify!($oname), layers, origins, |layer| layer.$oname.clone()),)*
                        $($lname: together(stringify!($lname), layers, origins, |layer| &layer.$lname),)*
                    },
                )+}
            }

            /// The settings that always have a value, with their defaults as people write them.
            #[cfg(test)]
            fn defaults() -> Vec<(&'static str, String)> {
                let resolved = Settings::stack(&[], &mut Vec::new());
                vec![$($((stringify!($dname), $crate::config::list::toml_text(&resolved.$group.$dname)),)*)+]
            }
        }

        /// The file that `kforge init` writes: every setting with its meaning, commented out.
        #[must_use]
        pub fn template() -> String {
            use $crate::config::list::{entry, toml_text, TEMPLATE_EXAMPLES, TEMPLATE_START};
            let mut text = String::from(TEMPLATE_START);
            let defaults = Settings::stack(&[], &mut Vec::new());
            $(
                $(entry(&mut text, &[$($ddoc),+], stringify!($dname), &toml_text(&defaults.$group.$dname));)*
                $(entry(&mut text, &[$($sdoc),+], stringify!($sname), "false");)*
            )+
            text.push_str(TEMPLATE_EXAMPLES);
            $(
                $(entry(&mut text, &[$($odoc),+], stringify!($oname), $oexample);)*
                $(entry(&mut text, &[$($ldoc),+], stringify!($lname), $lexample);)*
            )+
            text.push_str(HOOK_EXAMPLE);
            text
        }
    };
}
pub(super) use settings;

pub(super) const TEMPLATE_START: &str = "\
# Settings of `kforge optimize`, `eval`, `profile` and `guard` for this folder. Flags win over this file, this file over the user's own, that over the defaults.
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
        // Help texts name the default, the file shows it.
        let _ = match line.split_once(" [default: ") {
            Some((meaning, _)) => writeln!(text, "#{meaning}."),
            None => writeln!(text, "#{line}"),
        };
    }
    if !value.is_empty() {
        let _ = writeln!(text, "#{key} = {value}");
    }
}

/// A value as TOML writes it.
pub(super) fn toml_text<T: Serialize>(value: &T) -> String {
    toml::Value::try_from(value).map(|value| value.to_string()).unwrap_or_default()
}
