//! Times that are told beside the published one. They decide nothing.

use super::{
    Session,
    arm::{AHEAD_US, Arm, How, Sample},
    clock::SPREADS,
    timing::RING,
    verify::OWN,
};
use crate::{cell::Op, error::Result};
use kforge_types::{Summary, Verdict, median};

const CALLS_BESIDE: usize = 5;
/// Below this the time as a CUDA graph is told too: launching a kernel takes about as long.
pub(crate) const GRAPH_BELOW_US: f64 = 20.0;
const GRAPH_REPLAYS: u64 = 50;
/// Of each arm: enough for the medians to tell some ten microseconds.
const IDLE_CALLS: usize = 30;
/// Less than this share of the time is not worth a correction.
const MATERIAL: f64 = 0.05;

/// Medians in microseconds that are told beside the published time.
#[derive(Default)]
pub(crate) struct Beside {
    pub(crate) warm: Option<f64>,
    pub(crate) unseen: Option<f64>,
    pub(crate) call: Option<f64>,
    pub(crate) baseline_call: Option<f64>,
    pub(crate) launching: Option<f64>,
    pub(crate) graph: Option<f64>,
}

/// What idle calls show, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Exposed {
    /// Of the candidate: how much longer an idle call takes.
    pub(crate) own: f64,
    pub(crate) baseline: f64,
    /// Below this nothing is known.
    pub(crate) resolution: f64,
}

impl Exposed {
    fn of(idle: (&[f64], &[f64]), queued: (&[Sample], &[Sample])) -> Self {
        let outside = |samples: &[Sample]| Summary::of(&samples.iter().map(|s| s.outside_us).collect::<Vec<_>>());
        let longer = |idle: &[f64], queued: &[Sample]| -> Option<(f64, f64)> {
            let (idle, queued) = (Summary::of(idle)?, outside(queued)?);
            let resolution = idle.spread() / (idle.n as f64).sqrt() + queued.spread() / (queued.n as f64).sqrt();
            Some((idle.median + AHEAD_US as f64 - queued.median, SPREADS * resolution))
        };
        let Some((own, resolution)) = longer(idle.0, queued.0) else { return Self::default() };
        let baseline = longer(idle.1, queued.1).map_or(0.0, |(us, _)| us);
        Self { own, baseline, resolution }
    }

    pub(crate) fn described(&self) -> String {
        format!(
            "{:.1} us longer on an idle device, the baseline {:.1} us; the clock resolves {:.1} us",
            self.own, self.baseline, self.resolution
        )
    }

    /// By how much a ratio of queued times is too good: never more is credited than shows on an idle device too.
    pub(crate) fn correction(&self, own_us: f64, baseline_us: f64) -> f64 {
        let hidden = (self.own - self.resolution).max(0.0);
        if hidden < MATERIAL * own_us {
            return 1.0;
        }
        let queued = baseline_us / own_us;
        let idle = (baseline_us + self.baseline.max(0.0)) / (own_us + hidden);
        (queued / idle).max(1.0)
    }
}

impl Session {
    /// Times that are told beside the published one, with warm caches.
    pub(crate) fn times_beside(&mut self, arm: &mut Arm) -> Result<std::result::Result<Beside, Verdict>> {
        let limit = self.call_limit();
        let mut beside = Beside::default();
        match self.median_of(arm, How::untimed(limit))? {
            Ok(warm) => beside.warm = warm,
            Err(verdict) => return Ok(Err(verdict)),
        }
        Ok(Ok(beside))
    }

    /// Calls on an idle device, where no time before the call is free: what they take longer from outside than calls that
    /// wait in the device's queue is launching, or work that was hidden in that time.
    pub(crate) fn exposed(
        &mut self,
        arm: &mut Arm,
        control: &mut Arm,
        queued: (&[Sample], &[Sample]),
    ) -> Result<std::result::Result<Exposed, Verdict>> {
        let how = How::idle(self.call_limit());
        let (mut own, mut baseline) = (Vec::new(), Vec::new());
        for number in 0..IDLE_CALLS {
            let set = self.referee.set(0, OWN, number % RING)?;
            match arm.call(&mut self.referee, &mut self.evictor, &set, how)? {
                Ok(sample) => own.push(sample.outside_us),
                Err(verdict) => return Ok(Err(verdict)),
            }
            if let Ok(sample) = control.call(&mut self.referee, &mut self.evictor, &set, how)? {
                baseline.push(sample.outside_us);
            }
        }
        Ok(Ok(Exposed::of((&own, &baseline), queued)))
    }

    fn median_of(&mut self, arm: &mut Arm, how: How) -> Result<std::result::Result<Option<f64>, Verdict>> {
        let mut times = Vec::new();
        for number in 0..CALLS_BESIDE {
            let set = self.referee.set(0, OWN, number % RING)?;
            match arm.call(&mut self.referee, &mut self.evictor, &set, how)? {
                Ok(sample) => times.push(sample.inside_us),
                Err(verdict) => return Ok(Err(verdict)),
            }
        }
        Ok(Ok(median(&times)))
    }

    /// What the candidate's own process claims for its launches as one CUDA graph; nothing where they cannot be captured.
    pub(crate) fn as_graph(&mut self, arm: &mut Arm) -> Result<Option<f64>> {
        if self.gpu.is_none() {
            return Ok(None);
        }
        let asked = arm.ask(Op::Graph(GRAPH_REPLAYS), self.call_limit())?;
        Ok(asked.ok().map(|answer| answer.inside_ns as f64 / 1e3).filter(|us| *us > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_was_hidden_before_the_call_gains_nothing() {
        // Claims 100 us of its 400, does the rest while the device is kept busy; the baseline takes 400 and is honest.
        let hiding = Exposed { own: 310.0, baseline: 12.0, resolution: 30.0 };
        let corrected = 400.0 / 100.0 / hiding.correction(100.0, 400.0);
        assert!((1.0..1.1).contains(&corrected), "{corrected}");
    }

    #[test]
    fn what_launching_usually_takes_costs_an_honest_kernel_nothing() {
        let honest = Exposed { own: 25.0, baseline: 40.0, resolution: 30.0 };
        assert!((honest.correction(100.0, 400.0) - 1.0).abs() < 1e-9);
        // Nor does a baseline that launches slowly make a candidate better than its queued time.
        let slow_baseline = Exposed { own: 60.0, baseline: 900.0, resolution: 30.0 };
        assert!((slow_baseline.correction(100.0, 400.0) - 1.0).abs() < 1e-9);
    }
}
