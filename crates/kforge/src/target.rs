//! A target is a folder. The ones that kforge ships lie in `targets/` and are embedded.

use include_dir::{Dir, include_dir};
use kforge_types::Target;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

static TARGETS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/targets");

/// What `target.toml` says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetPack {
    pub(crate) name: Target,
    pub(crate) summary: String,
    pub(crate) device: String,
    #[serde(default = "default_arch")]
    pub(crate) default_arch: String,
    #[serde(default)]
    pub(crate) toolchain: BTreeMap<String, Toolchain>,
}

/// How one language is built: one source file to one shared library.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Toolchain {
    compilers: Vec<String>,
    command: Vec<String>,
    default_flags: Vec<String>,
    suffix: String,
    device: String,
    pass_stream: bool,
}

fn default_arch() -> String {
    "native".to_owned()
}

/// Every embedded target, by name.
pub(crate) fn all() -> anyhow::Result<Vec<TargetPack>> {
    let mut found = Vec::new();
    for folder in TARGETS.dirs() {
        let path = folder.path().join("target.toml");
        let file = TARGETS.get_file(&path).and_then(include_dir::File::contents_utf8);
        let text = file.ok_or_else(|| anyhow::anyhow!("{} is not text", path.display()))?;
        let pack: TargetPack =
            toml::from_str(text).map_err(|error| anyhow::anyhow!("{} cannot be read: {error}", path.display()))?;
        found.push(pack);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The target with this name.
pub(crate) fn find(wanted: &Target) -> anyhow::Result<TargetPack> {
    let known = all()?;
    let names: Vec<String> = known.iter().map(|pack| pack.name.to_string()).collect();
    known
        .into_iter()
        .find(|pack| pack.name == *wanted)
        .ok_or_else(|| anyhow::anyhow!("there is no target {wanted}; this version knows {}", names.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_folder_is_a_target_of_its_own_name() {
        let packs = all().unwrap();
        assert!(packs.len() >= 2);
        for pack in packs {
            assert!(TARGETS.get_dir(pack.name.folder()).is_some(), "{}", pack.name);
            assert!(!pack.summary.is_empty());
        }
    }
}
