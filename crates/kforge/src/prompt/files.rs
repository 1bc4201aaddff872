//! Reading the files that the user names, bounded: at the start of a run, never during it.

use super::{
    PromptError, caps,
    edits::{EditPlan, Range, Ranged, Role, Slot},
};
use kforge_types::Target;
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

/// Files of a folder that are looked at, in number and depth.
const MOST_FILES: usize = 500;
const DEEPEST: usize = 8;
/// What is read of one file; only a cut of it can ever be shown.
const MOST_BYTES: u64 = 1 << 20;

/// Everything that the user changes, read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Edits {
    pub(crate) overrides: Vec<Override>,
    pub(crate) appends: Vec<Append>,
    pub(crate) aux: Vec<AuxFile>,
    pub(crate) reference: Option<Reference>,
}

/// A template of the user's in the place of an embedded one.
#[derive(Debug, Clone)]
pub(crate) struct Override {
    pub(crate) slot: Slot,
    pub(crate) range: Range,
    pub(crate) file: String,
    pub(crate) template: String,
}

/// A text at the end of a prompt. It is not a template.
#[derive(Debug, Clone)]
pub(crate) struct Append {
    pub(crate) role: Role,
    pub(crate) range: Range,
    pub(crate) text: String,
}

/// A file that the generator should see.
#[derive(Debug, Clone)]
pub(crate) struct AuxFile {
    pub(crate) range: Range,
    pub(crate) name: String,
    /// `None` for what is no text.
    pub(crate) text: Option<String>,
    pub(crate) bytes: u64,
}

/// A working implementation for another accelerator.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub(crate) target: Target,
    pub(crate) file: String,
    pub(crate) source: String,
}

impl EditPlan {
    /// Reads every file that the plan names.
    pub(crate) fn load(&self) -> Result<Edits, PromptError> {
        let mut edits = Edits::default();
        for (slot, Ranged { path, range }) in &self.overrides {
            let template = read_text(path)?;
            edits.overrides.push(Override { slot: *slot, range: *range, file: path.display().to_string(), template });
        }
        for (role, Ranged { path, range }) in &self.appends {
            edits.appends.push(Append { role: *role, range: *range, text: read_text(path)? });
        }
        for Ranged { path, range } in &self.aux {
            for (name, file) in listed(path)? {
                edits.aux.push(aux_file(name, &file, *range)?);
            }
        }
        if let Some((target, path)) = &self.reference {
            let (file, source) = (path.display().to_string(), read_text(path)?);
            edits.reference = Some(Reference { target: target.clone(), file, source });
        }
        Ok(edits)
    }
}

fn aux_file(name: String, path: &Path, range: Range) -> Result<AuxFile, PromptError> {
    let bytes = fs::metadata(path).map_err(|error| unreadable(path, &error))?.len();
    // A longer file is cut in the middle anyway, and its first MiB is enough to do that.
    let text = String::from_utf8(read(path)?).ok().filter(|text| !text.contains('\0'));
    Ok(AuxFile { range, name, text, bytes })
}

/// A file, or every file below a folder in sorted order; hidden ones and links are left out.
fn listed(path: &Path) -> Result<Vec<(String, PathBuf)>, PromptError> {
    let kind = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !kind.is_dir() {
        return Ok(vec![(path.display().to_string(), path.to_owned())]);
    }
    let mut found = Vec::new();
    walk(path, 0, &mut found)?;
    found.sort();
    Ok(found.into_iter().map(|file| (file.display().to_string(), file)).collect())
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), PromptError> {
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let entry = entry.map_err(|error| unreadable(folder, &error))?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let kind = entry.file_type().map_err(|error| unreadable(&entry.path(), &error))?;
        if hidden {
            continue;
        }
        if kind.is_dir() && depth < DEEPEST {
            walk(&entry.path(), depth + 1, found)?;
        } else if kind.is_file() {
            found.push(entry.path());
        }
        if found.len() > MOST_FILES {
            let text = format!("{} holds more than {MOST_FILES} files; name the ones that matter", folder.display());
            return Err(PromptError::File(text));
        }
    }
    Ok(())
}

fn read_text(path: &Path) -> Result<String, PromptError> {
    let bytes = read(path)?;
    if bytes.len() as u64 >= MOST_BYTES {
        return Err(PromptError::File(format!("{} is larger than 1 MiB; give a shorter file", path.display())));
    }
    String::from_utf8(bytes).map_err(|_| PromptError::File(format!("{} is not UTF-8 text; convert it", path.display())))
}

/// At most [`MOST_BYTES`], cut back to whole characters; a pipe or a device is refused, since it may never end.
fn read(path: &Path) -> Result<Vec<u8>, PromptError> {
    let kind = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !kind.is_file() {
        return Err(PromptError::File(format!("{} is not a file; name a plain file", path.display())));
    }
    let file = fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 == MOST_BYTES {
        let whole = std::str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
        if bytes.len() - whole < 4 {
            bytes.truncate(whole);
        }
    }
    Ok(bytes)
}

fn unreadable(path: &Path, error: &std::io::Error) -> PromptError {
    PromptError::File(format!("{} cannot be read ({error}); check the path", path.display()))
}

/// What of the auxiliary files fits into one prompt: `(name, text or why not)`, in order.
pub(crate) fn shown(files: &[AuxFile], iteration: u32) -> Vec<(String, Result<String, String>)> {
    let mut left = caps::AUX_FILES;
    let mut out = Vec::new();
    for file in files.iter().filter(|file| file.range.contains(iteration)) {
        let name = crate::text::one_line(&file.name, caps::LINE);
        let Some(text) = &file.text else {
            out.push((name, Err(format!("not text, {} bytes", file.bytes))));
            continue;
        };
        let cut = crate::text::tame(text, caps::AUX_FILE);
        if cut.len() > left {
            out.push((name, Err(format!("left out for size, {} bytes", file.bytes))));
            continue;
        }
        left -= cut.len();
        out.push((name, Ok(cut)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::edits::EditSpecs;

    fn load(aux: &[String]) -> Result<Edits, PromptError> {
        EditPlan::parse(&EditSpecs { aux: aux.to_vec(), ..EditSpecs::default() })?.load()
    }

    #[test]
    fn folders_are_read_in_order_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("sub")).unwrap();
        fs::write(path.join("sub/b.txt"), "b").unwrap();
        fs::write(path.join("a.txt"), "a").unwrap();
        fs::write(path.join("c.bin"), [0, 159, 146, 150]).unwrap();
        fs::write(path.join(".hidden"), "no").unwrap();
        fs::write(path.join("z.txt"), "z".repeat(3 << 20)).unwrap();
        let edits = load(&[format!("{}@2-3", path.display())]).unwrap();
        assert!(shown(&edits.aux, 1).is_empty());
        let seen = shown(&edits.aux, 2);
        let names: Vec<&str> = seen.iter().map(|(name, _)| name.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["a.txt", "c.bin", "b.txt", "z.txt"]);
        assert_eq!(seen[0].1, Ok("a".to_owned()));
        assert_eq!(seen[1].1, Err("not text, 4 bytes".to_owned()));
        assert!(seen[3].1.as_ref().unwrap().len() < caps::AUX_FILE + 100);
    }

    #[test]
    fn all_together_are_bounded() {
        let file = |n: usize| AuxFile {
            range: Range::ALL,
            name: format!("{n}.txt"),
            text: Some("x".repeat(caps::AUX_FILE)),
            bytes: caps::AUX_FILE as u64,
        };
        let files: Vec<AuxFile> = (0..6).map(file).collect();
        let seen = shown(&files, 1);
        assert_eq!(seen.iter().filter(|(_, text)| text.is_ok()).count(), 4);
        assert_eq!(seen[5].1, Err("left out for size, 16384 bytes".to_owned()));
    }

    #[test]
    fn what_is_not_there_or_never_ends_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let missing = load(&[folder.path().join("none").display().to_string()]).unwrap_err().to_string();
        assert!(missing.contains("check the path"), "{missing}");
        assert!(load(&["/dev/zero".to_owned()]).is_err());
        let many = folder.path().join("many");
        fs::create_dir(&many).unwrap();
        for n in 0..=MOST_FILES {
            fs::write(many.join(n.to_string()), "").unwrap();
        }
        assert!(load(&[many.display().to_string()]).is_err());
    }
}
