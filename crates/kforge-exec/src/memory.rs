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

    /// A copy of a stored file: a cell that holds the file itself could change its mode.
    pub(crate) fn copy_of(path: &Path) -> Result<Self> {
        let stored = StoredFile::open(path)?;
        let mut made = Self::new("kforge-weights", stored.bytes().len())?;
        made.bytes_mut().copy_from_slice(stored.bytes());
        Ok(made)
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

/// A cell holds the descriptor: were it to shrink the region, the next look at it would kill this process.
#[cfg(target_os = "linux")]
fn seal_size(file: &File) -> Result<()> {
    use rustix::fs::SealFlags;
    rustix::fs::fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .map_err(|error| ExecError::Io { what: "cannot seal shared memory".to_owned(), cause: error.into() })
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
