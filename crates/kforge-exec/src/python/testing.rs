//! Fake interpreters and a progress that remembers.

use super::{Progress, PythonRequest};
use crate::cache::CacheDirs;
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Writes an executable shell script, and the folders above it.
pub(crate) fn script(path: &Path, body: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Renamed into place: a file that a parallel fork still holds open for writing cannot be executed.
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&unfinished, path).unwrap();
    path.to_path_buf()
}

/// An interpreter of version 3.12.1 that says it has these.
pub(crate) fn python(path: &Path, torch: Option<&str>, numpy: Option<&str>) -> PathBuf {
    let json = serde_json::json!({"version": "3.12.1", "torch": torch, "numpy": numpy, "pip": true, "venv": true});
    script(path, &format!("echo start-up noise\necho 'kforge-probe {json}'"))
}

/// A good one.
pub(crate) fn good(path: &Path) -> PathBuf {
    python(path, Some("2.11.0+cu130"), Some("2.4.6"))
}

/// A machine with an empty search path, cache and device folder, all in one temporary folder.
pub(crate) fn machine() -> (TempDir, PythonRequest) {
    let folder = tempfile::tempdir().unwrap();
    let request = PythonRequest {
        flag: None,
        variable: None,
        environments: Vec::new(),
        path: vec![folder.path().join("path")],
        cache: Some(CacheDirs::new(folder.path().join("cache"))),
        probe_limit: Duration::from_secs(10),
        root: folder.path().join("root"),
        free_space: |_| Ok(100_000_000_000),
    };
    (folder, request)
}

/// Remembers what it was told.
#[derive(Default)]
pub(crate) struct Recorder {
    messages: RefCell<Vec<String>>,
    steps: RefCell<Vec<String>>,
}

impl Recorder {
    pub(crate) fn messages(&self) -> Vec<String> {
        self.messages.borrow().clone()
    }

    pub(crate) fn steps(&self) -> Vec<String> {
        self.steps.borrow().clone()
    }
}

impl Progress for Recorder {
    fn message(&self, text: &str) {
        self.messages.borrow_mut().push(text.to_owned());
    }

    fn step(&self, text: &str) {
        self.steps.borrow_mut().push(text.to_owned());
    }

    fn done(&self) {}
}
