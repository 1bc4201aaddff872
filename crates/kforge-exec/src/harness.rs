//! The embedded Python harness, unpacked once per content into the cache folder.

use crate::error::{ExecError, Result};
use include_dir::{Dir, include_dir};
use std::{
    collections::BTreeMap,
    io::Write,
    os::unix::fs::PermissionsExt,
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
        let parent = target.parent().unwrap_or(&folder);
        std::fs::create_dir_all(parent).map_err(ExecError::io(format!("cannot create {}", parent.display())))?;
        // Others may be unpacking the same content, threads of this process among them: rename makes each file whole at once.
        write_whole(parent, &target, text).map_err(ExecError::io(format!("cannot write {}", target.display())))?;
    }
    std::fs::write(folder.join("complete"), "").map_err(ExecError::io("cannot finish unpacking the harness"))?;
    Ok(folder)
}

fn write_whole(folder: &Path, target: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // Candidates' processes, which have no rights, read it too.
    let readable = std::fs::Permissions::from_mode(0o644);
    let mut temporary = tempfile::Builder::new().permissions(readable).tempfile_in(folder)?;
    temporary.write_all(bytes)?;
    temporary.persist(target).map(|_| ()).map_err(|failed| failed.error)
}

/// What candidates build and launch kernels with: the modules of a package that stands alone, by their names.
#[must_use]
pub fn runtime_sources() -> BTreeMap<String, &'static str> {
    let files = HARNESS.get_dir("kforge_rt").map(python_files).unwrap_or_default();
    let module = |path: &str| path.trim_end_matches(".py").trim_end_matches("/__init__").replace('/', ".");
    files.into_iter().filter_map(|(path, text)| Some((module(&path), std::str::from_utf8(text).ok()?))).collect()
}

/// How PyTorch runs a module with some of its own switches on: a module that needs torch alone.
#[must_use]
pub fn framework_ways_source() -> &'static str {
    HARNESS
        .get_file("kforge_harness/shared/framework_ways.py")
        .and_then(include_dir::File::contents_utf8)
        .unwrap_or_default()
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
    fn several_threads_may_unpack_at_once() {
        let cache = tempfile::tempdir().unwrap();
        let unpacked = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| unpack(cache.path()))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect::<Vec<_>>()
        });
        assert!(unpacked.iter().all(|folder| *folder == unpacked[0]));
        let left: Vec<_> = std::fs::read_dir(unpacked[0].join("kforge_harness")).unwrap().flatten().collect();
        assert!(
            left.iter().all(|file| file.path().is_dir() || file.path().extension().is_some_and(|end| end == "py")),
            "{left:?}"
        );
    }

    #[test]
    fn the_frameworks_ways_are_a_module_of_the_harness() {
        assert!(framework_ways_source().contains("def prepared("));
    }

    #[test]
    fn the_runtime_is_a_package_of_modules() {
        let modules = runtime_sources();
        assert!(modules["kforge_rt"].contains("from ._build import build"));
        assert!(modules["kforge_rt._build"].contains("def build("));
        assert!(modules.keys().all(|name| name == "kforge_rt" || name.starts_with("kforge_rt._")), "{modules:?}");
    }
}
