//! A target is a folder. The ones that kforge ships lie in `targets/` and are embedded.

mod specs;

pub(crate) use specs::{ChipSpecs, specs};

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
    /// Packages that a candidate may import beside the standard library.
    pub(crate) imports: Vec<String>,
    /// The table of chips, `<name>-specs.toml` beside the targets, where there is one.
    #[serde(default)]
    pub(crate) specs: Option<String>,
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

/// Packages that a candidate for this target may import; without a target, for any.
pub(crate) fn imports(wanted: Option<&Target>) -> anyhow::Result<Vec<String>> {
    if let Some(wanted) = wanted {
        return Ok(find(wanted)?.imports);
    }
    let mut found: Vec<String> = Vec::new();
    for package in all()?.into_iter().flat_map(|pack| pack.imports) {
        if !found.contains(&package) {
            found.push(package);
        }
    }
    Ok(found)
}

/// What a target's folder says to a model.
#[derive(Debug, Clone, Default)]
pub(crate) struct TargetTexts {
    /// `guide.md.j2`: what a generator must know of this programming model and chip.
    pub(crate) guide: String,
    /// `example/problem.py`: the reference of the one-shot pair.
    pub(crate) example_problem: String,
    /// `example/candidate.py`: its candidate.
    pub(crate) example_candidate: String,
    /// Templates below `prompts/` that replace the embedded ones of the same name.
    pub(crate) prompts: Vec<(String, String)>,
}

/// The texts of the target with this name.
pub(crate) fn texts(wanted: &Target) -> anyhow::Result<TargetTexts> {
    let folder = TARGETS.get_dir(wanted.folder()).ok_or_else(|| anyhow::anyhow!("there is no target {wanted}"))?;
    let read = |name: &str| {
        let file = folder.get_file(folder.path().join(name)).and_then(include_dir::File::contents_utf8);
        file.map(str::to_owned).ok_or_else(|| anyhow::anyhow!("the target {wanted} has no {name}"))
    };
    Ok(TargetTexts {
        guide: read("guide.md.j2")?,
        example_problem: read("example/problem.py")?,
        example_candidate: read("example/candidate.py")?,
        prompts: folder.get_dir(folder.path().join("prompts")).map(text_files).unwrap_or_default(),
    })
}

/// Every text file below a folder, by its path in it, sorted.
pub(crate) fn text_files(folder: &Dir<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder];
    while let Some(next) = folders.pop() {
        folders.extend(next.dirs());
        for file in next.files() {
            let name = file.path().strip_prefix(folder.path()).unwrap_or(file.path());
            found.extend(file.contents_utf8().map(|text| (name.display().to_string(), text.to_owned())));
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_folder_is_a_target_of_its_own_name() {
        let packs = all().unwrap();
        assert!(packs.len() >= 4);
        for pack in packs {
            assert!(TARGETS.get_dir(pack.name.folder()).is_some(), "{}", pack.name);
            assert!(!pack.summary.is_empty());
            assert!(["torch", "kforge_rt"].iter().all(|package| pack.imports.iter().any(|known| known == package)));
            let texts = texts(&pack.name).unwrap();
            assert!(texts.guide.len() > 500, "{}", pack.name);
            assert!(texts.example_candidate.contains("class NewModel("), "{}", pack.name);
        }
        assert!(imports(None).unwrap().contains(&"triton".to_owned()));
        assert!(!imports(Some(&"cpu/cpp".parse().unwrap())).unwrap().contains(&"triton".to_owned()));
    }
}
