//! Folders that others may touch at any time: names that are only names, bounded reads that follow no link, files that
//! appear whole.

use rustix::fs::{Mode, OFlags, openat};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

/// Of one file of a job or an answer.
pub(crate) const MOST_FILE: u64 = 64 << 20;
/// Of all files of one job together.
pub(crate) const MOST_TOTAL: u64 = 128 << 20;
/// Files of one job.
pub(crate) const MOST_FILES: usize = 512;

const DEEPEST: usize = 8;
const LONGEST_NAME: usize = 120;

/// A file in memory, by its path in its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    pub(crate) fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into() }
    }
}

/// Letters, digits, `_` and `-` of a text, for a file name.
pub(crate) fn word(text: &str, limit: usize) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let word: String = text.chars().take(limit).map(kept).collect();
    if word.is_empty() { "unnamed".to_owned() } else { word }
}

/// A name of one file or folder that cannot lead anywhere else and is not hidden.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.starts_with('.') && name.chars().all(plain)
}

/// A relative path of such names.
pub(crate) fn is_path(path: &str) -> bool {
    path.split('/').count() <= DEEPEST && path.split('/').all(is_name)
}

/// A hidden name that no other thread or process uses.
pub(crate) fn hidden(stem: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let drawn = kforge_types::short_hash(&[format!(
        "{} {} {:?}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed),
        jiff::Timestamp::now()
    )]);
    format!(".{stem}-{drawn}")
}

/// A folder, itself no link.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, folder_flags(), Mode::empty())?)
}

/// The bytes of a plain file below a folder; no link on the way is followed, and a pipe does not block.
pub(crate) fn read_below(folder: &OwnedFd, path: &str, limit: u64) -> io::Result<Vec<u8>> {
    if !is_path(path) {
        return Err(io::Error::other("its name is not allowed"));
    }
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut at = folder.try_clone()?;
    for parent in parents.split('/').filter(|parent| !parent.is_empty()) {
        at = openat(&at, parent, folder_flags(), Mode::empty())?;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(&at, name, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    if about.len() > limit {
        return Err(io::Error::other(format!("it is larger than {} KiB", limit >> 10)));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it is larger than {} KiB", limit >> 10)));
    }
    Ok(bytes)
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Writes files below a folder, in this order, each on disk when the next is begun.
pub(crate) fn write_below(folder: &Path, files: &[Content]) -> io::Result<()> {
    for file in files {
        let path = folder.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut opened = File::create(&path)?;
        opened.write_all(&file.bytes)?;
        opened.sync_all()?;
    }
    sync(folder);
    Ok(())
}

/// A new folder appears whole under its name, by rename; `Ok(false)` where there is one already.
pub(crate) fn put_folder(root: &Path, place: &Path, files: &[Content]) -> io::Result<bool> {
    let making = root.join(hidden("new"));
    let made =
        fs::create_dir(&making).and_then(|()| write_below(&making, files)).and_then(|()| move_to(&making, place));
    if !matches!(made, Ok(true)) {
        let _ = fs::remove_dir_all(&making);
    }
    made
}

/// `Ok(false)` where something is at that place already.
pub(crate) fn move_to(from: &Path, place: &Path) -> io::Result<bool> {
    match fs::rename(from, place) {
        Ok(()) => {
            if let Some(parent) = place.parent() {
                sync(parent);
            }
            Ok(true)
        }
        Err(error) if taken(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory)
}

/// Out of the way at once, then removed.
pub(crate) fn discard(root: &Path, folder: &Path) {
    let aside = root.join(hidden("old"));
    if fs::rename(folder, &aside).is_ok() {
        let _ = fs::remove_dir_all(aside);
    }
}

/// A crash of the machine, not of kforge, is the only loss if this fails.
fn sync(folder: &Path) {
    let _ = File::open(folder).and_then(|file| file.sync_all());
}
