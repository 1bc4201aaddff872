//! The reference's profile: taken once for each problem, device and version of torch, since the profiler's start alone
//! takes seconds on a GPU.

use super::{
    kept,
    ladder::Ladder,
    operators::{self, Reference},
};
use crate::{
    error::Result,
    failure::{OnFailure, Tried},
    judge::{Observer, Session, arm::Arm},
    wire::op,
};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

const OPERATORS: &str = "torch profiler";
const REFERENCE_CALLS: u64 = 10;
pub(super) const REFERENCE_LIMIT: Duration = Duration::from_mins(2);

/// What a session remembers between profiles, also where nothing may come from the cache.
#[derive(Default)]
pub(crate) struct Memory {
    /// With the file that it belongs to.
    reference: Option<(PathBuf, Reference)>,
}

impl Session {
    /// Where something is kept that is true of this problem on this device.
    pub(super) fn kept_profile(&self, what: &[&str]) -> PathBuf {
        let threads = self.bench.options.threads.to_string();
        let place = [
            self.bench.opened.key.as_str(),
            &self.bench.device_info.name,
            &threads,
            &self.bench.versions.torch,
            &self.bench.versions.kforge,
        ];
        let key = kforge_types::short_hash(&[place.as_slice(), what].concat());
        self.bench.options.cache.join("profiles").join(format!("{key}.json"))
    }

    /// The reference's operators: as they were found before, or in a cell of its own.
    pub(super) fn reference(&mut self, ladder: &mut Ladder, observer: &dyn Observer) -> Result<Reference> {
        let begun = Instant::now();
        let file = self.kept_profile(&["reference"]);
        let remembered = self.profiles.reference.as_ref().filter(|(known, _)| *known == file);
        let known = remembered.map(|(_, reference)| reference.clone());
        let known = known.or_else(|| kept::read(&file).filter(|_| !self.bench.options.fresh));
        let before = known.is_some();
        let found = match known {
            Some(reference) => Ok(reference),
            None => self.profile_reference(observer).or_reason()?,
        };
        if let Some(reference) = found.as_ref().ok().filter(|reference| !reference.operators.is_empty()) {
            if !before {
                kept::write(&file, reference, "the reference's profile");
            }
            self.profiles.reference = Some((file, reference.clone()));
        }
        let told = found.as_ref().map_err(Clone::clone);
        let told =
            told.and_then(|reference| operators::report(&self.bench.versions.torch, reference, self.least_bytes()));
        let told = told.map(|report| if before { report.kept_before() } else { report });
        ladder.note(OPERATORS, begun.elapsed().as_secs_f64(), told);
        Ok(found.unwrap_or_default())
    }

    fn profile_reference(&mut self, observer: &dyn Observer) -> Tried<Reference> {
        let mut arm = self.baselines.start_reference(&mut self.bench, observer).because("the reference did not run")?;
        let asked = arm.ask(op::Profile(REFERENCE_CALLS), REFERENCE_LIMIT);
        let asked = asked.because("torch's profiler failed on the reference").or_reason()?;
        let told = arm.cell.whole_detail();
        let Arm { mut sandbox, cell, .. } = arm;
        self.bench.end_cell(&mut sandbox, cell)?;
        asked?;
        Ok(serde_json::from_str(&told).map_err(|error| format!("it cannot be read: {error}"))?)
    }
}
