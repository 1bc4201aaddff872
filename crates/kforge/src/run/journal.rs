//! An append-only file of events, one JSON object a line, on disk before anything acts on it.

use super::event::{Event, Line, VERSION};
use anyhow::{Context, bail};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub(crate) const FILE: &str = "journal.jsonl";
const LOCK: &str = "journal.lock";
const LINGERING: Duration = Duration::from_millis(500);
/// A line is a reply and a verdict at the most; what is longer is no line of ours.
const LONGEST_LINE: usize = 64 << 20;

/// A journal that this process alone writes to.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    next: u64,
    _lock: File,
}

impl Journal {
    /// In a new folder.
    pub(crate) fn create(folder: &Path) -> anyhow::Result<Self> {
        let lock = lock(folder)?;
        let path = folder.join(FILE);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        sync_folder(folder);
        Ok(Self { file, path, next: 0, _lock: lock })
    }

    #[cfg(test)]
    pub(crate) fn onto(file: &Path, folder: &Path) -> anyhow::Result<Self> {
        let lock = lock(folder)?;
        Ok(Self { file: OpenOptions::new().append(true).open(file)?, path: folder.join(FILE), next: 0, _lock: lock })
    }

    /// Goes on with what is there. A last line that was cut off in writing is put aside, and said.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<(Self, Vec<Line>, Option<String>)> {
        let lock = lock(folder)?;
        let path = folder.join(FILE);
        let read = read(&path)?;
        let mut file = OpenOptions::new().read(true).append(true).open(&path).with_context(|| unreadable(&path))?;
        let note = (read.whole_bytes < read.all_bytes).then(|| put_aside(&mut file, &path, read.whole_bytes));
        let note = note.transpose()?;
        let next = read.lines.last().map_or(0, |line| line.seq + 1);
        Ok((Self { file, path, next, _lock: lock }, read.lines, note))
    }

    /// Written and synced when this returns.
    pub(crate) fn append(&mut self, event: Event) -> anyhow::Result<Line> {
        let line = Line { v: VERSION, seq: self.next, at: jiff::Timestamp::now(), event };
        let mut text = serde_json::to_string(&line)?;
        // What cannot be read back must not get in: it would take the whole run with it.
        serde_json::from_str::<Line>(&text).context("an event that cannot be read back; please report this")?;
        text.push('\n');
        let before = self.file.metadata().map_or(0, |metadata| metadata.len());
        let write = |file: &mut File| file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        let written = write(&mut self.file);
        if written.is_err() {
            let _ = self.file.set_len(before);
        }
        written.with_context(|| {
            format!(
                "cannot write to {}: what is in it is safe; make room and resume with `kforge resume {}`",
                self.path.display(),
                self.path.parent().unwrap_or(Path::new(".")).display()
            )
        })?;
        self.next += 1;
        Ok(line)
    }
}

/// Whether a process is working on the run.
pub(crate) fn is_busy(folder: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).open(folder.join(LOCK)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The events of a run that somebody else may be writing to.
pub(crate) fn look(folder: &Path) -> anyhow::Result<Vec<Line>> {
    Ok(read(&folder.join(FILE))?.lines)
}

struct Found {
    lines: Vec<Line>,
    whole_bytes: u64,
    all_bytes: u64,
}

fn read(path: &Path) -> anyhow::Result<Found> {
    let file = File::open(path).with_context(|| {
        format!("cannot open {}: name the folder of a run, such as one that `kforge optimize` printed", path.display())
    })?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut found = Found { lines: Vec::new(), whole_bytes: 0, all_bytes: 0 };
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let count =
            (&mut reader).take(LONGEST_LINE as u64).read_until(b'\n', &mut buffer).with_context(|| unreadable(path))?;
        if count == 0 {
            return Ok(found);
        }
        found.all_bytes += count as u64;
        let number = found.lines.len() + 1;
        match parse(&buffer, found.lines.len() as u64) {
            Ok(line) => {
                found.lines.push(line);
                found.whole_bytes = found.all_bytes;
            }
            Err(error) => {
                let more = reader.fill_buf().is_ok_and(|rest| !rest.is_empty());
                // Only the last line can have been cut off by a crash. Anything else was done to the file.
                if more || error.is::<NewerVersion>() {
                    return Err(error).with_context(|| format!("{}, line {number}", path.display()));
                }
                return Ok(found);
            }
        }
    }
}

#[derive(Debug)]
struct NewerVersion(u64);

impl std::fmt::Display for NewerVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "written by a newer kforge (form {}, this one knows {VERSION}): use that one", self.0)
    }
}

impl std::error::Error for NewerVersion {}

fn parse(bytes: &[u8], expected: u64) -> anyhow::Result<Line> {
    if bytes.last() != Some(&b'\n') {
        bail!("the line is cut off");
    }
    let line: serde_json::Result<Line> = serde_json::from_slice(bytes);
    match line {
        Ok(line) if line.v > VERSION => Err(NewerVersion(u64::from(line.v)).into()),
        Ok(line) if line.seq != expected => bail!("event {} where {expected} should be: lines are missing", line.seq),
        Ok(line) => Ok(line),
        Err(error) => {
            // A newer form may not parse as ours; its version is still readable.
            let value: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
            match value.get("v").and_then(serde_json::Value::as_u64) {
                Some(version) if version > u64::from(VERSION) => Err(NewerVersion(version).into()),
                _ => bail!("not an event: {error}"),
            }
        }
    }
}

fn put_aside(file: &mut File, path: &Path, whole: u64) -> anyhow::Result<String> {
    let mut rest = Vec::new();
    file.seek(SeekFrom::Start(whole)).and_then(|_| file.read_to_end(&mut rest)).with_context(|| unreadable(path))?;
    let names = (1..10_000).map(|n| path.with_file_name(format!("journal.torn-{n}")));
    let aside = names.into_iter().find(|name| !name.exists()).unwrap_or_else(|| path.with_file_name("journal.torn"));
    std::fs::write(&aside, &rest).with_context(|| format!("cannot write {}", aside.display()))?;
    file.set_len(whole).and_then(|()| file.sync_all()).with_context(|| format!("cannot shorten {}", path.display()))?;
    Ok(format!(
        "the last line of the journal was cut off in writing; its {} bytes are kept in {}",
        rest.len(),
        aside.display()
    ))
}

fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .with_context(|| format!("cannot open {}: is {} the folder of a run?", path.display(), folder.display()))?;
    // A process that was just ended, or one that its starter has not yet replaced by a program, may hold it for a moment.
    let begun = Instant::now();
    let mut tried = file.try_lock();
    while matches!(tried, Err(TryLockError::WouldBlock)) && begun.elapsed() < LINGERING {
        std::thread::sleep(Duration::from_millis(10));
        tried = file.try_lock();
    }
    match tried {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(crate::usage::Usage(format!(
            "another kforge is working on {}: wait for it, or end it first",
            folder.display()
        ))
        .into()),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

fn sync_folder(folder: &Path) {
    // A crash of the machine, not of kforge, is the only loss if this fails.
    let _ = File::open(folder).and_then(|file| file.sync_all());
}

fn unreadable(path: &Path) -> String {
    format!("cannot read {}", path.display())
}
