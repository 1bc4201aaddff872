//! TOML files that people write: read in bounds, with errors that name the file, the line and the nearest known word.

use serde::de::DeserializeOwned;
use std::{
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

/// Larger files are none of ours.
const MAX_BYTES: u64 = 1 << 20;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is there, and cannot be read.
    #[error("cannot read {}: {source}; fix the file's permissions or remove it", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is no configuration.
    #[error("{} is too large for a configuration: write at most 1 MiB", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It says something wrong.
    #[error("{}:{line}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// Settings contradict each other.
    #[error("{0}")]
    Together(String),
}

/// What a file says; nothing where there is no such file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.to_owned(), source };
    // Opening a pipe would wait for whoever writes into it, so the question comes first.
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !about.is_file() {
        return Err(failed(std::io::Error::other("it is not a plain file")));
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(ConfigError::TooLarge { path: path.to_owned() });
    }
    parse(&text, path).map(Some)
}

/// What a text says; `path` is for messages.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        ConfigError::Content { path: path.to_owned(), line, message: explained(error.message()) }
    })
}

/// serde's words about unknown fields and variants, with the nearest known one; everything else as it is.
fn explained(message: &str) -> String {
    let what = if message.starts_with("unknown field") {
        "setting"
    } else if message.starts_with("unknown variant") {
        "choice"
    } else {
        return message.trim_end().replace('\n', ", ");
    };
    let mut words = message.split('`').skip(1).step_by(2);
    let unknown = words.next().unwrap_or_default();
    let known: Vec<&str> = words.collect();
    format!("there is no {what} `{unknown}`{}", suggestion(unknown, &known))
}

/// `; did you mean ...?` for a near miss, else what there is.
pub(crate) fn suggestion(unknown: &str, known: &[&str]) -> String {
    let near = known.iter().map(|word| (strsim::jaro_winkler(unknown, word), word));
    match near.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
        Some((likeness, word)) if likeness > 0.8 => format!("; did you mean `{word}`?"),
        _ => format!("; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    struct Sample {
        #[serde(default)]
        #[allow(dead_code, reason = "only its name counts")]
        iterations: u32,
    }

    fn message(text: &str) -> String {
        parse::<Sample>(text, Path::new("kforge.toml")).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_file_the_line_and_the_nearest_key() {
        assert_eq!(
            message("\n\nitertions = 3\n"),
            "kforge.toml:3: there is no setting `itertions`; did you mean `iterations`?"
        );
        assert_eq!(message("colour = 1"), "kforge.toml:1: there is no setting `colour`; known are iterations");
        assert!(message("\niterations = 'many'").starts_with("kforge.toml:2: invalid type"));
        assert!(message("\niterations = ").starts_with("kforge.toml:2: "));
    }

    #[test]
    fn a_missing_file_is_no_error_but_an_unreadable_one_is() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read::<Sample>(&folder.path().join("none.toml")).unwrap().is_none());
        assert!(read::<Sample>(folder.path()).unwrap_err().to_string().contains("not a plain file"));
        let large = folder.path().join("large.toml");
        std::fs::write(&large, "#".repeat(2 << 20)).unwrap();
        assert!(read::<Sample>(&large).unwrap_err().to_string().contains("too large"));
        std::fs::write(&large, b"\xff\xfe").unwrap();
        assert!(read::<Sample>(&large).unwrap_err().to_string().starts_with("cannot read"));
    }
}
