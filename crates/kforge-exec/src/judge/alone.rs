//! The baseline without a candidate beside it, before and after: it counts as no slower than that.

use super::{
    Observer, Session,
    blocks::Nulls,
    outcome::{BaselineRow, Outcome, Speedup},
    ways::EAGER,
};
use crate::error::{ExecError, Result};

/// A wider interval than this says little about its middle: then its lower end is the headline.
const COARSE: f64 = 0.2;
/// A baseline that is slow once the candidate is gone is looked at again, so often and after so long.
const SETTLING: usize = 3;
const SETTLES_IN: std::time::Duration = std::time::Duration::from_millis(300);
/// A baseline that is slower beside a candidate by more than this was disturbed.
const DISTURBED: f64 = 1.03;

/// What a row of the baseline takes with no candidate beside it, asking included.
#[derive(Debug)]
pub(crate) struct Alone {
    name: String,
    row_us: f64,
    /// What asking takes, where that was looked at.
    nulls: Option<Nulls>,
    calls: usize,
    queues: bool,
}

impl Alone {
    /// What asking takes, in rows of so many calls, queued or not.
    pub(super) fn nulls(&self, calls: usize, queues: bool) -> Option<Nulls> {
        self.nulls.filter(|_| (self.calls, self.queues) == (calls, queues))
    }
}

impl Session {
    /// What a row of the baseline takes before there is a candidate beside it.
    pub(crate) fn baseline_alone(&mut self, observer: &dyn Observer) -> Result<Option<Alone>> {
        let calls = self.calls_in_a_row();
        self.alone_in_rows_of(calls, None, true, observer)
    }

    /// The same in rows of so many calls, queued or not, with or without what asking takes.
    fn alone_in_rows_of(
        &mut self,
        calls: usize,
        queues: Option<bool>,
        with_asking: bool,
        observer: &dyn Observer,
    ) -> Result<Option<Alone>> {
        while let Some((name, mut control)) = self.baselines.take_control() {
            let usual = control.queues;
            control.queues = queues.unwrap_or(usual);
            let alone = self.row_alone(&mut control, calls).and_then(|row_us| {
                let nulls = if with_asking { self.asking_alone(&mut control, calls)? } else { None };
                Ok(row_us.map(|row_us| (row_us, nulls)))
            });
            let mode = std::mem::replace(&mut control.queues, usual);
            match alone {
                Err(ExecError::Baseline(reason)) if name != EAGER => {
                    self.baselines.disqualify(&mut self.bench, &name, control, &reason, observer)?;
                }
                alone => {
                    self.baselines.put_control(name.clone(), control);
                    let alone = alone?;
                    return Ok(alone.map(|(row_us, nulls)| Alone { name, row_us, nulls, calls, queues: mode }));
                }
            }
        }
        Ok(None)
    }

    /// Once the candidate is gone: a baseline counts as no slower than it was alone, before and after.
    pub(crate) fn settle(&mut self, others: f64, outcome: &mut Outcome, observer: &dyn Observer) -> Result<()> {
        if let (Some(row), Some(before)) = (outcome.baseline_row, outcome.alone.take())
            && let Some(alone_us) = self.alone_around(&row, &before, observer)?
        {
            let BaselineRow { us: beside_us, overhead, calls, .. } = row;
            let slowed = overhead.per_call(beside_us, calls) / overhead.per_call(alone_us, calls);
            if slowed > DISTURBED
                && let Some(speedup) = &mut outcome.speedup
            {
                *speedup = speedup.over(slowed);
                let detail =
                    format!("it ran {slowed:.2} times slower next to the candidate than alone; its time alone is used");
                outcome.pass("baseline alone", detail);
            }
        }
        self.bench.note_load(others, outcome);
        if let Some(speedup) = &mut outcome.speedup
            && speedup.is_coarse()
        {
            speedup.center = speedup.interval.low;
            outcome.pass("resolution", "the timing is noisy here: the speedup is the lower end of the interval");
        }
        Ok(())
    }

    /// What a row like this one takes without the candidate: as before it, or as now, where that is slower, since machines
    /// drift. What lingers after it is given time to go. In another mode than before only now can be told.
    fn alone_around(&mut self, row: &BaselineRow, before: &Alone, observer: &dyn Observer) -> Result<Option<f64>> {
        let comparable = (before.calls, before.queues) == (row.calls, row.queues);
        let mut least: Option<f64> = None;
        for round in 0..SETTLING {
            if round > 0 {
                std::thread::sleep(SETTLES_IN);
            }
            let Some(after) = self.alone_in_rows_of(row.calls, Some(row.queues), false, observer)? else {
                return Ok(None);
            };
            if after.name != before.name {
                return Ok(None);
            }
            least = Some(least.map_or(after.row_us, |us| us.min(after.row_us)));
            let usual = if comparable { before.row_us } else { row.us };
            if least.is_some_and(|us| us <= DISTURBED * usual) {
                break;
            }
        }
        Ok(least.map(|us| if comparable { us.max(before.row_us) } else { us }))
    }
}

impl Speedup {
    /// Whether the middle of its interval says little.
    fn is_coarse(&self) -> bool {
        self.interval.relative_half_width(self.center) > COARSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kforge_types::Interval;

    fn speedup(low: f64, center: f64, high: f64) -> Speedup {
        Speedup { center, interval: Interval { low, high } }
    }

    #[test]
    fn a_wide_interval_is_coarse_and_a_faster_baseline_moves_all_of_it() {
        assert!(speedup(1.0, 2.0, 3.0).is_coarse() && !speedup(1.9, 2.0, 2.1).is_coarse());
        let over = speedup(1.8, 2.0, 2.2).over(2.0);
        let seen = [over.interval.low, over.center, over.interval.high];
        assert!(seen.iter().zip([0.9, 1.0, 1.1]).all(|(a, b)| (a - b).abs() < 1e-9), "{seen:?}");
    }
}
