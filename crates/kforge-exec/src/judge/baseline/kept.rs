//! Times of baselines, kept by content between sessions.

use super::{
    super::{BaselineChoice, bench::Bench},
    FORM,
};
use kforge_types::{Baseline, short_hash};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Serialize, Deserialize)]
struct Kept {
    form: u32,
    /// What was asked for then.
    choice: BaselineChoice,
    measured_at: String,
    baselines: Vec<Baseline>,
}

/// What an earlier session has measured, if it is all that is wanted now.
pub(super) fn read(bench: &Bench) -> Vec<Baseline> {
    let wanted = bench.options.baselines;
    let kept = read_file(bench).filter(|kept| {
        // One that was cut off by the ordinary limit is tried again when all are wanted.
        let is_whole = wanted != BaselineChoice::All || kept.baselines.iter().all(|b| b.median_us.is_some());
        kept.choice >= wanted && is_whole
    });
    let mut known = kept.map(|kept| kept.baselines).unwrap_or_default();
    known.retain(|b| wanted.includes(&b.name));
    for baseline in &mut known {
        baseline.cached = true;
    }
    known
}

fn file(bench: &Bench) -> PathBuf {
    let key = short_hash(&[
        bench.opened.key.as_str(),
        &bench.device_info.name,
        &bench.device_info.threads.to_string(),
        &bench.versions.torch,
        &bench.versions.compiler,
        &bench.versions.torch_overrides.join(";"),
    ]);
    bench.options.cache.join("baselines").join(format!("{key}.json"))
}

/// Not being able to keep times costs time later, nothing else.
pub(super) fn write(bench: &Bench, known: &[Baseline]) {
    let file = file(bench);
    let measured_at = jiff::Timestamp::now().to_string();
    let kept = Kept { form: FORM, choice: bench.options.baselines, measured_at, baselines: known.to_vec() };
    let write = || -> std::io::Result<()> {
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let temporary = file.with_extension(format!("tmp{}", std::process::id()));
        std::fs::write(&temporary, serde_json::to_string_pretty(&kept)?)?;
        std::fs::rename(&temporary, &file)
    };
    if let Err(error) = write() {
        tracing::warn!("baseline times could not be kept: {error}");
    }
}

fn read_file(bench: &Bench) -> Option<Kept> {
    if !bench.options.kept_baselines {
        return None;
    }
    let kept: Kept = serde_json::from_str(&std::fs::read_to_string(file(bench)).ok()?).ok()?;
    (kept.form == FORM).then_some(kept)
}
