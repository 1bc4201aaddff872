//! Small answers that are asked for once, as files in the cache folder.

use serde::{Serialize, de::DeserializeOwned};
use std::path::Path;

/// What was kept; none where there is nothing, or nothing that can be read.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
}

/// Keeps it. Where that fails it is found out again the next time, so it is no error; `what` is for the log.
pub(super) fn write<T: Serialize>(file: &Path, kept: &T, what: &str) {
    let Some(folder) = file.parent() else { return };
    let temporary = file.with_extension(format!("tmp{}", std::process::id()));
    let written = serde_json::to_string_pretty(kept).map_err(std::io::Error::from).and_then(|text| {
        std::fs::create_dir_all(folder)?;
        std::fs::write(&temporary, text)?;
        std::fs::rename(&temporary, file)
    });
    if let Err(error) = written {
        tracing::warn!("{what} could not be kept: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_again_and_nonsense_is_nothing() {
        let cache = tempfile::tempdir().unwrap();
        let file = cache.path().join("some/place.json");
        assert_eq!(read::<Vec<f64>>(&file), None);
        write(&file, &vec![1.5, 2.5], "numbers");
        assert_eq!(read::<Vec<f64>>(&file), Some(vec![1.5, 2.5]));
        assert_eq!(read::<String>(&file), None);
        write(&file.join("below a file"), &1, "a number");
        assert_eq!(std::fs::read_dir(cache.path().join("some")).unwrap().count(), 1, "no temporary file is left");
    }
}
