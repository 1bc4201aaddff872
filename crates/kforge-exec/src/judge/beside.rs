//! Times that are told beside the published one. They decide nothing.

use super::{
    Session,
    arm::{Arm, How},
    timing::RING,
    verify::OWN,
};
use crate::{
    error::Result,
    failure::{OnFailure, Tried},
    wire::op,
};
use kforge_types::median;

const CALLS_BESIDE: usize = 5;
/// Below this the time as a CUDA graph is told too: launching a kernel takes about as long.
pub(crate) const GRAPH_BELOW_US: f64 = 20.0;
const GRAPH_REPLAYS: u64 = 50;

/// Medians in microseconds that are told beside the published time.
#[derive(Default)]
pub(crate) struct Beside {
    pub(crate) warm: Option<f64>,
    pub(crate) call: Option<f64>,
    pub(crate) baseline_call: Option<f64>,
    pub(crate) launching: Option<f64>,
    pub(crate) graph: Option<f64>,
}

impl Session {
    /// With warm caches, and on an idle device, where launching counts.
    pub(crate) fn times_beside(&mut self, arm: &mut Arm, control: &mut Arm) -> Tried<Beside> {
        let limit = self.call_limit();
        let mut beside = Beside { warm: self.median_of(arm, How::warm(limit))?, ..Beside::default() };
        if self.bench.device.policy().launches {
            beside.call = self.median_of(arm, How::idle(limit))?;
            beside.baseline_call = self.median_of(control, How::idle(limit)).or_reason()?.ok().flatten();
        }
        Ok(beside)
    }

    fn median_of(&mut self, arm: &mut Arm, how: How) -> Tried<Option<f64>> {
        let mut times = Vec::new();
        for number in 0..CALLS_BESIDE {
            let set = self.bench.referee.set(0, OWN, number % RING)?;
            times.push(self.bench.call(arm, &set, how)?.inside_us);
        }
        Ok(median(&times))
    }

    /// What the candidate's own process claims for its launches as one CUDA graph; nothing where they cannot be captured.
    pub(crate) fn as_graph(&mut self, arm: &mut Arm) -> Result<Option<f64>> {
        if !self.bench.device.policy().records_graphs {
            return Ok(None);
        }
        let asked = arm.ask(op::Graph(GRAPH_REPLAYS), self.call_limit()).or_reason()?;
        Ok(asked.ok().map(|answer| answer.replay_ns as f64 / 1e3).filter(|us| *us > 0.0))
    }
}
