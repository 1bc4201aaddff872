//! Which modules beside a problem it needs.
//!
//! Imports are found line by line. One too many costs a few bytes; one that is made at run time only is not found, and the
//! user names it.

use super::{
    Content,
    disk::{MOST_FILE, MOST_FILES, MOST_TOTAL, is_name},
};
use crate::usage::Usage;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Files by their path in the problem's folder.
pub(super) struct Beside<'a> {
    folder: &'a Path,
    found: BTreeMap<String, Vec<u8>>,
    bytes: u64,
}

impl<'a> Beside<'a> {
    pub(super) fn new(folder: &'a Path) -> Self {
        Self { folder, found: BTreeMap::new(), bytes: 0 }
    }

    /// The modules that a source imports, and those that they import.
    pub(super) fn imported(&mut self, source: &str) -> Result<(), Usage> {
        let mut names = imports(source);
        while let Some(name) = names.pop() {
            let before: Vec<String> = self.found.keys().cloned().collect();
            let file = format!("{name}.py");
            if self.folder.join(&file).is_file() {
                self.add(&file)?;
            } else if self.folder.join(&name).is_dir() {
                self.package(&name)?;
            }
            for (path, bytes) in &self.found {
                if !before.contains(path) && Path::new(path).extension().is_some_and(|kind| kind == "py") {
                    names.extend(imports(&String::from_utf8_lossy(bytes)));
                }
            }
        }
        Ok(())
    }

    /// A file or folder that the user names.
    pub(super) fn named(&mut self, path: &Path) -> Result<(), Usage> {
        let whole = |path: &Path| std::fs::canonicalize(path);
        let beside = [self.folder.join(path), path.to_owned()].into_iter().find(|path| path.exists());
        let Some(found) = beside else {
            return Err(Usage(format!("there is no {}: name what the problem needs beside it", path.display())));
        };
        let inside = match (whole(&found), whole(self.folder)) {
            (Ok(found), Ok(folder)) => found.strip_prefix(folder).ok().map(Path::to_path_buf),
            _ => None,
        };
        let Some(inside) = inside.as_deref().and_then(Path::to_str) else {
            let text = format!(
                "{} does not lie in the folder of the problem, where the worker would look for it: put it there",
                path.display()
            );
            return Err(Usage(text));
        };
        if found.is_dir() { self.folder_of(inside, &|_| true) } else { self.add(inside) }
    }

    pub(super) fn contents(self, prefix: &str) -> Vec<Content> {
        self.found.into_iter().map(|(path, bytes)| Content::new(format!("{prefix}{path}"), bytes)).collect()
    }

    fn package(&mut self, name: &str) -> Result<(), Usage> {
        self.folder_of(name, &|path: &Path| path.extension().is_some_and(|extension| extension == "py"))
    }

    fn folder_of(&mut self, folder: &str, wanted: &dyn Fn(&Path) -> bool) -> Result<(), Usage> {
        let unreadable = |error: std::io::Error| Usage(format!("cannot read {folder}: {error}"));
        let entries = std::fs::read_dir(self.folder.join(folder)).map_err(unreadable)?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Hidden files, caches, and folders that are links: a link may lead in a circle.
            if name.starts_with('.') || name == "__pycache__" || (path.is_symlink() && path.is_dir()) {
                continue;
            }
            let inside = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if path.is_dir() {
                self.folder_of(&inside, wanted)?;
            } else if wanted(&path) {
                self.add(&inside)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &str) -> Result<(), Usage> {
        if self.found.contains_key(path) {
            return Ok(());
        }
        if !path.split('/').all(is_name) {
            let text = format!("{path:?} cannot travel: name it with letters, digits, `_`, `-` and `.` only");
            return Err(Usage(text));
        }
        let place = self.folder.join(path);
        let size = std::fs::metadata(&place).map(|about| if about.is_file() { about.len() } else { u64::MAX });
        let size = size.map_err(|error| Usage(format!("cannot read {}: {error}", place.display())))?;
        if size > MOST_FILE || self.bytes + size > MOST_TOTAL || self.found.len() >= MOST_FILES {
            let text = format!(
                "what the problem imports is too much for a job at {path} (at most {} MiB in {MOST_FILES} files): install it on the worker instead",
                MOST_TOTAL >> 20
            );
            return Err(Usage(text));
        }
        let bytes =
            std::fs::read(&place).map_err(|error| Usage(format!("cannot read {}: {error}", place.display())))?;
        self.bytes += bytes.len() as u64;
        self.found.insert(path.to_owned(), bytes);
        Ok(())
    }
}

/// First parts of the names of all modules that lines of a source import.
fn imports(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for statement in source.lines().flat_map(|line| line.split(';')) {
        let words = statement.trim_start();
        if let Some(names) = words.strip_prefix("import ") {
            found.extend(names.split(',').map(first));
        } else if let Some(name) = words.strip_prefix("from ") {
            found.push(first(name));
        }
    }
    found.retain(|name| is_name(name));
    found.sort();
    found.dedup();
    found
}

fn first(name: &str) -> String {
    let name = name.trim().trim_start_matches('.');
    name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_import_is_seen() {
        let source = "import a, b.c as d; import e\n  from f.g import h\nfrom .i import j\n#import k\nx = 'import l'\n";
        assert_eq!(imports(source), ["a", "b", "e", "f", "i"]);
    }

    #[test]
    fn modules_are_followed_and_nothing_else_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("tools.py", "import deeper\nimport tools\n");
        write("deeper.py", "import pack.one\n");
        write("pack/__init__.py", "");
        write("pack/one.py", "");
        write("pack/data.bin", "x");
        write("pack/__pycache__/one.py", "");
        write("other.py", "");
        write("table.bin", "x");
        std::os::unix::fs::symlink("..", folder.path().join("pack/up")).unwrap();
        let mut beside = Beside::new(folder.path());
        beside.imported("import torch\nfrom tools import x\n").unwrap();
        beside.named(Path::new("table.bin")).unwrap();
        let paths: Vec<String> = beside.contents("aux/").into_iter().map(|content| content.path).collect();
        assert_eq!(
            paths,
            ["aux/deeper.py", "aux/pack/__init__.py", "aux/pack/one.py", "aux/table.bin", "aux/tools.py"]
        );
        let mut beside = Beside::new(folder.path());
        assert!(beside.named(Path::new("/etc/passwd")).unwrap_err().to_string().contains("folder of the problem"));
        assert!(beside.named(Path::new("none")).is_err());
    }
}
