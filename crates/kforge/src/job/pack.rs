//! From a problem on this machine to jobs about it.

use super::{
    AUX, CANDIDATE, Content, JobOptions, Kind, OTHER, PROBLEM, Packed, Work,
    disk::{MOST_FILE, is_name},
    imports::Beside,
};
use crate::usage::Usage;
use kforge_exec::Contender;
use std::path::{Path, PathBuf};

/// A problem with everything beside it that it needs.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    name: String,
    pub(crate) source: String,
    aux: Vec<Content>,
}

impl Problem {
    /// `carry` names what its imports do not show.
    pub(crate) fn load(path: &Path, carry: &[PathBuf]) -> Result<Self, Usage> {
        let unreadable =
            |error: &dyn std::fmt::Display| Usage(format!("cannot read the problem {}: {error}", path.display()));
        let about = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
        if !about.is_file() || about.len() > MOST_FILE {
            return Err(unreadable(&"it is no file of a reasonable size"));
        }
        let source = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut beside = Beside::new(folder);
        beside.imported(&source)?;
        for path in carry {
            beside.named(path)?;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = if is_name(&name) { name } else { PROBLEM.to_owned() };
        Ok(Self { name, source, aux: beside.contents(AUX) })
    }

    /// The job of doing `kind` with a candidate.
    pub(crate) fn job(&self, kind: Kind, name: &str, candidate: &str, tag: &str, options: &JobOptions) -> Packed {
        let work = Work {
            kind,
            name: name.to_owned(),
            problem_name: self.name.clone(),
            tag: tag.to_owned(),
            options: options.clone(),
        };
        let own = [Content::new(PROBLEM, self.source.as_str()), Content::new(CANDIDATE, candidate)];
        Packed::new(work, own.into_iter().chain(self.aux.iter().cloned()).collect())
    }

    /// The job of interleaving two candidates.
    pub(crate) fn duel(&self, contenders: [Contender<'_>; 2], tag: &str, options: &JobOptions) -> Packed {
        let [first, second] = contenders;
        let packed = self.job(Kind::Duel, first.name, first.source, tag, options);
        let other = Content::new(OTHER, second.source);
        Packed::new(packed.job.work, packed.files.into_iter().chain([other]).collect())
    }
}
