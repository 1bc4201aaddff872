//! The embedded Python harness, unpacked once per content into the cache folder.

use crate::error::{ExecError, Result};
use include_dir::{Dir, include_dir};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

static HARNESS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/harness");

/// Unpacks the harness below `cache` if it is not there yet; returns its folder.
pub(crate) fn unpack(cache: &Path) -> Result<PathBuf> {
    let files = python_files(&HARNESS);
    let parts: Vec<&[u8]> = files.iter().flat_map(|(path, text)| [path.as_bytes(), *text]).collect();
    let folder = cache.join("harness").join(kforge_types::short_hash(&parts));
    if folder.join("complete").exists() {
        return Ok(folder);
    }
    for (path, text) in files {
        let target = folder.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(ExecError::io(format!("cannot create {}", parent.display())))?;
        }
        // Another process may be unpacking the same content: rename makes each file whole at once.
        let temporary = target.with_extension(format!("tmp{}", std::process::id()));
        std::fs::write(&temporary, text).map_err(ExecError::io(format!("cannot write {}", temporary.display())))?;
        std::fs::rename(&temporary, &target).map_err(ExecError::io(format!("cannot write {}", target.display())))?;
    }
    std::fs::write(folder.join("complete"), "").map_err(ExecError::io("cannot finish unpacking the harness"))?;
    Ok(folder)
}

/// What candidates build and launch kernels with: the modules of a package that stands alone, by their names.
#[must_use]
pub fn runtime_sources() -> BTreeMap<String, &'static str> {
    let files = HARNESS.get_dir("kforge_rt").map(python_files).unwrap_or_default();
    let module = |path: &str| path.trim_end_matches(".py").trim_end_matches("/__init__").replace('/', ".");
    files.into_iter().filter_map(|(path, text)| Some((module(&path), std::str::from_utf8(text).ok()?))).collect()
}

fn python_files(dir: &'static Dir<'static>) -> Vec<(String, &'static [u8])> {
    let mut found = Vec::new();
    for entry in dir.entries() {
        match entry {
            include_dir::DirEntry::Dir(inner) if inner.path().ends_with("tests") => {}
            include_dir::DirEntry::Dir(inner) => found.extend(python_files(inner)),
            include_dir::DirEntry::File(file) => {
                if file.path().extension().is_some_and(|extension| extension == "py") {
                    found.push((file.path().to_string_lossy().into_owned(), file.contents()));
                }
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacks_once_and_completely() {
        let cache = tempfile::tempdir().unwrap();
        let first = unpack(cache.path()).unwrap();
        assert!(first.join("kforge_harness/zygote.py").exists());
        assert!(first.join("kforge_rt/__init__.py").exists());
        assert!(!first.join("tests").exists());
        assert_eq!(unpack(cache.path()).unwrap(), first);
    }

    #[test]
    fn the_runtime_is_a_package_of_modules() {
        let modules = runtime_sources();
        assert!(modules["kforge_rt"].contains("from ._build import build"));
        assert!(modules["kforge_rt._build"].contains("def build("));
        assert!(modules.keys().all(|name| name == "kforge_rt" || name.starts_with("kforge_rt._")), "{modules:?}");
    }
}
