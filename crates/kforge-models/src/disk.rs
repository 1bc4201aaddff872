//! Files that others may touch at any time: safe names, complete appearance, bounded reads, one writer at a time.

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A word for a file name: letters, digits, `_`, `.` and `-`, not hidden, not empty, at most `limit` characters.
pub(crate) fn slug(text: &str, limit: usize) -> String {
    let mut slug = String::new();
    for character in text.chars() {
        if slug.len() >= limit {
            break;
        }
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.' => slug.push(character),
            _ if !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    let slug = slug.trim_matches(['-', '.']);
    if slug.is_empty() { "unnamed".into() } else { slug.to_owned() }
}

/// A hidden name that no other thread or process uses.
pub(crate) fn hidden_name(stem: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!(".new-{stem}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The file appears complete, by rename, and is on disk when this returns.
pub(crate) fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let hidden = folder.join(hidden_name(name));
    let written = File::create_new(&hidden).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&hidden, folder.join(name)));
    if renamed.is_err() {
        let _ = fs::remove_file(&hidden);
    }
    renamed
}

/// Why a file's text cannot be used; reads as "the file ...".
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It is not there.
    Absent,
    /// In words.
    Because(String),
}

/// The text of a plain file of at most `limit` bytes. Links are not followed and pipes do not block.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, Unusable> {
    let because = |text: &str| Unusable::Because(text.to_owned());
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Err(Unusable::Absent),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::MLINK) => return Err(because("is a symbolic link")),
        Err(error) => return Err(Unusable::Because(format!("cannot be opened ({error})"))),
    };
    let unreadable = |error: io::Error| Unusable::Because(format!("cannot be read ({error})"));
    let meta = file.metadata().map_err(unreadable)?;
    if meta.is_dir() {
        return Err(because("is a folder"));
    }
    if !meta.is_file() {
        return Err(because("is not a plain file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(Unusable::Because(format!("is larger than {} KiB", limit / 1024)));
    }
    String::from_utf8(bytes).map_err(|_| because("is not UTF-8 text"))
}

/// Held while a folder is changed. Where the file system knows no locks, the work goes on without one.
pub(crate) struct Lock {
    _file: Option<File>,
}

/// Waits for the lock of a folder that several processes write to, by a file in it; `None` when `give_up` says so.
pub(crate) fn lock(folder: &Path, give_up: impl Fn() -> bool) -> io::Result<Option<Lock>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    hold(File::from(open(folder.join(".lock"), flags, Mode::from_raw_mode(0o666))?), give_up)
}

/// Waits for the lock of the folder itself, which leaves no file behind.
pub(crate) fn lock_folder(folder: &Path, give_up: impl Fn() -> bool) -> io::Result<Option<Lock>> {
    hold(File::open(folder)?, give_up)
}

fn hold(file: File, give_up: impl Fn() -> bool) -> io::Result<Option<Lock>> {
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(Lock { _file: Some(file) })),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
            Err(_) => return Ok(Some(Lock { _file: None })),
        }
        if give_up() {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_and_bounded() {
        assert_eq!(slug("23_Softmax.py", 40), "23_Softmax.py");
        assert_eq!(slug("../../etc/passwd", 40), "etc-passwd");
        assert_eq!(slug(" ü\0\n/", 40), "unnamed");
        assert_eq!(slug("..", 40), "unnamed");
        assert_eq!(slug(&"x".repeat(500), 40).len(), 40);
    }

    #[test]
    fn only_bounded_plain_text_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("good"), "äbc").unwrap();
        fs::write(at("bytes"), [0xff, 0xfe]).unwrap();
        fs::create_dir(at("folder")).unwrap();
        std::os::unix::fs::symlink(at("good"), at("link")).unwrap();
        assert_eq!(read_text(&at("good"), 4), Ok("äbc".into()));
        assert_eq!(read_text(&at("none"), 4), Err(Unusable::Absent));
        for (name, limit, cause) in
            [("good", 3, "larger"), ("bytes", 9, "UTF-8"), ("folder", 9, "folder"), ("link", 9, "link")]
        {
            let Err(Unusable::Because(text)) = read_text(&at(name), limit) else { panic!("{name}") };
            assert!(text.contains(cause), "{name}: {text}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_leaves_no_rubbish() {
        let folder = tempfile::tempdir().unwrap();
        write_whole(folder.path(), "a.md", b"one").unwrap();
        write_whole(folder.path(), "a.md", b"two").unwrap();
        assert_eq!(fs::read(folder.path().join("a.md")).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn one_holder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path(), || true).unwrap();
        assert!(held.is_some() && lock(folder.path(), || true).unwrap().is_none());
        drop(held);
        assert!(lock(folder.path(), || true).unwrap().is_some());
    }
}
