//! Where kforge keeps what it can make again: managed Python environments, builds, baselines.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The cache folder of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheDirs {
    root: PathBuf,
}

/// A cache folder that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Neither variable says where.
    #[error("cannot tell where the cache folder is, as HOME is not set: set KFORGE_CACHE_DIR to a folder")]
    NoHome,
    /// The folder could not be created.
    #[error("cannot create the cache folder {}: {source}; set KFORGE_CACHE_DIR to a folder that you can write to", path.display())]
    Create {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl CacheDirs {
    /// A cache in the folder `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// `KFORGE_CACHE_DIR`, else `kforge` in `XDG_CACHE_HOME`, else in the system's place in the home folder.
    pub fn from_environment() -> Result<Self, CacheError> {
        Self::resolve(|name| std::env::var_os(name))
    }

    /// [`Self::from_environment`] for any environment.
    pub fn resolve(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, CacheError> {
        let folder = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(chosen) = folder("KFORGE_CACHE_DIR") {
            // A relative folder would be another one after each change of directory.
            return Ok(Self::new(std::path::absolute(&chosen).unwrap_or(chosen)));
        }
        // The XDG rules say to ignore a relative path.
        if let Some(caches) = folder("XDG_CACHE_HOME").filter(|path| path.is_absolute()) {
            return Ok(Self::new(caches.join("kforge")));
        }
        let home = folder("HOME").ok_or(CacheError::NoHome)?;
        let caches = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        Ok(Self::new(home.join(caches).join("kforge")))
    }

    /// The folder itself, which may not exist yet.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of managed Python environments, which may not exist yet.
    #[must_use]
    pub fn python(&self) -> PathBuf {
        self.root.join("python")
    }

    /// Creates the folder `name` in the cache, and the cache where needed, for this user only.
    pub fn create(&self, name: &str) -> Result<PathBuf, CacheError> {
        let path = self.root.join(name);
        match DirBuilder::new().recursive(true).mode(0o700).create(&path) {
            Ok(()) => Ok(path),
            Err(source) => Err(CacheError::Create { path, source }),
        }
    }
}

/// What an earlier form has left is of no use to anybody. The present one stays: somebody else may be making it just now.
pub(crate) fn forget_all_but(folder: &Path, name: &str) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name() != name {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_earlier_forms_left_goes_and_the_present_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["4/old", "04ad4a56/kernels", "5/new"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        forget_all_but(folder.path(), "5");
        assert!(folder.path().join("5/new").is_dir());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        forget_all_but(&folder.path().join("none"), "5");
    }

    fn resolved(variables: &[(&str, &str)]) -> Result<CacheDirs, CacheError> {
        CacheDirs::resolve(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_nearest_variable_wins() {
        let all = [("KFORGE_CACHE_DIR", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")];
        assert_eq!(resolved(&all).unwrap().root(), Path::new("/a"));
        assert_eq!(resolved(&all[1..]).unwrap().root(), Path::new("/b/kforge"));
        let home = resolved(&all[2..]).unwrap();
        assert!(home.root().starts_with("/c") && home.root().ends_with("kforge"), "{home:?}");
    }

    #[test]
    fn an_empty_or_relative_variable_is_not_a_place() {
        let cache = resolved(&[("KFORGE_CACHE_DIR", ""), ("XDG_CACHE_HOME", "here"), ("HOME", "/c")]).unwrap();
        assert!(cache.root().starts_with("/c"), "{cache:?}");
        assert!(resolved(&[("KFORGE_CACHE_DIR", "here")]).unwrap().root().is_absolute());
        assert!(resolved(&[]).unwrap_err().to_string().contains("KFORGE_CACHE_DIR"));
    }

    #[test]
    fn folders_are_for_this_user_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = CacheDirs::new(folder.path().join("cache")).create("python").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}
