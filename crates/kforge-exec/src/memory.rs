//! Memory shared with a cell or the referee. All mapping of files is here.

use crate::error::{ExecError, Result};
use memmap2::{Mmap, MmapMut};
use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

/// An anonymous region that another process maps too.
pub(crate) struct Shared {
    file: File,
    map: MmapMut,
}

impl Shared {
    pub(crate) fn new(name: &str, bytes: usize) -> Result<Self> {
        let file = anonymous_file(name)?;
        file.set_len(bytes as u64).map_err(ExecError::io("cannot size shared memory"))?;
        seal_size(&file)?;
        // SAFETY: the region is shared with a hostile process on purpose. It is only ever read and written as plain
        // bytes through volatile-free copies; no reference to its content outlives a copy, and every value is a valid u8.
        #[allow(unsafe_code)]
        let map = unsafe { MmapMut::map_mut(&file) }.map_err(ExecError::io("cannot map shared memory"))?;
        Ok(Self { file, map })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

/// A copy of a stored file that nobody can change any more, for all cells of a session. The file itself is no good: a
/// cell that holds it could change its mode.
pub(crate) struct Sealed(File);

impl Sealed {
    pub(crate) fn copy_of(path: &Path) -> Result<Self> {
        let failed = || ExecError::io(format!("cannot copy {}", path.display()));
        let mut stored = File::open(path).map_err(failed())?;
        let mut copy = anonymous_file("kforge-weights")?;
        std::io::copy(&mut stored, &mut copy).map_err(failed())?;
        seal_content(&copy)?;
        Ok(Self(copy))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A cell holds the descriptor: were it to shrink the region, the next look at it would kill this process.
#[cfg(target_os = "linux")]
fn seal_size(file: &File) -> Result<()> {
    use rustix::fs::SealFlags;
    seal(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
}

#[cfg(target_os = "linux")]
fn seal_content(file: &File) -> Result<()> {
    use rustix::fs::SealFlags;
    seal(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)
}

#[cfg(target_os = "linux")]
fn seal(file: &File, seals: rustix::fs::SealFlags) -> Result<()> {
    rustix::fs::fcntl_add_seals(file, seals)
        .map_err(|error| ExecError::Io { what: "cannot seal shared memory".to_owned(), cause: error.into() })
}

#[cfg(not(target_os = "linux"))]
fn seal_content(_file: &File) -> Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn seal_size(_file: &File) -> Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn anonymous_file(name: &str) -> Result<File> {
    use rustix::fs::MemfdFlags;
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|error| ExecError::Io { what: "cannot make shared memory".to_owned(), cause: error.into() })?;
    Ok(File::from(fd))
}

#[cfg(not(target_os = "linux"))]
fn anonymous_file(_name: &str) -> Result<File> {
    tempfile::tempfile().map_err(ExecError::io("cannot make shared memory"))
}

/// A file of the referee's store, mapped for reading.
pub(crate) struct StoredFile {
    map: Mmap,
}

impl StoredFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(ExecError::io(format!("cannot open {}", path.display())))?;
        // SAFETY: files of the store are complete when they appear (rename) and never written again.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(ExecError::io(format!("cannot map {}", path.display())))?;
        Ok(Self { map })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }
}
