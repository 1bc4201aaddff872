//! Rows on this machine's processors: kforge lays the inputs itself, and reads results out of the stopped process.

use super::evict::Evictor;
use crate::{
    claims::{Claim, OutputField},
    error::Result,
    failure::Tried,
    judge::arm::{Arm, Given, How, Left, Row, Side, input_mutated, late_write, overwritten, row_of},
    referee::Referee,
    window::{Pattern, Window},
    wire::op,
};
use std::{rc::Rc, time::Instant};

impl Arm {
    /// On this machine's processors. All of the arm sleeps already, until inputs are laid, and again until its results were
    /// read.
    pub(super) fn row_here(
        &mut self,
        referee: &mut Referee,
        evictor: Option<&mut Evictor>,
        given: Given<'_>,
        how: How,
    ) -> Tried<Row> {
        self.cell.slots.lay_here(referee, given)?;
        if let Some(evictor) = evictor.filter(|_| how.cold) {
            evictor.evict();
        }
        let began = Instant::now();
        let answer = self.ask(op::Row(given.calls() as u64), how.limit)?;
        let said = began.elapsed();
        let looked = self.freeze()?;
        let settled = began.elapsed().saturating_sub(looked);
        if !given.is_null() {
            self.take_here(referee, given)?;
        }
        Ok(row_of(said, settled, answer.inside_ns, answer.launching_ns))
    }

    pub(super) fn take_here(&mut self, referee: &mut Referee, given: Given<'_>) -> Tried<()> {
        let fields = Rc::clone(&self.fields);
        let fields = &fields[self.variant];
        let (calls, _) = self.claimed(fields, given.calls())?;
        let copies = self.cell.slots.copies();
        for (place, call) in calls.iter().enumerate() {
            let region = referee.private_output(self.side, place)?;
            for (claim, field) in call.iter().zip(fields) {
                let into = &mut region[field.offset..field.offset + field.nbytes];
                match self.cell.window().filter(|_| !copies) {
                    Some(window) => {
                        let (missing, all) = window.missing(claim, field);
                        self.missing = (self.missing.0 + missing, self.missing.1 + all);
                        window.read(claim, field, into)?;
                    }
                    None => into.copy_from_slice(self.cell.slots.copied(place, field)?),
                }
            }
        }
        self.look_back(&calls, fields)?;
        self.fill(&calls, fields)?;
        if self.cell.slots.unchanged(referee, given)? { Ok(()) } else { Err(input_mutated().into()) }
    }

    /// Whether results that are still needed were left alone by the calls that have just been made.
    fn look_back(&mut self, calls: &[Vec<Claim>], fields: &[OutputField]) -> Tried<()> {
        let earlier = self.left.take();
        if self.side == Side::Baseline || self.cell.slots.copies() {
            return Ok(());
        }
        let meet = |a: &[Claim], b: &[Claim]| {
            let own = |call: &[Claim]| -> Vec<(Claim, OutputField)> {
                call.iter().cloned().zip(fields.iter().cloned()).filter(|(_, field)| !field.shares).collect()
            };
            own(a).iter().any(|(x, fx)| own(b).iter().any(|(y, fy)| x.meets(fx, y, fy)))
        };
        let before = earlier.iter().filter(|_| self.keeps).flat_map(|left| &left.calls);
        let reused = before.chain(calls).enumerate().any(|(n, one)| {
            // Each against all that come after it.
            let all = earlier.iter().filter(|_| self.keeps).flat_map(|left| &left.calls).chain(calls);
            all.skip(n + 1).any(|other| meet(one, other))
        });
        self.reuses |= reused;
        if reused && self.fills {
            return Err(overwritten().into());
        }
        match (earlier, self.cell.window()) {
            (Some(left), Some(window)) if self.keeps => {
                if is_filled(window, &left, fields)? {
                    Ok(())
                } else {
                    Err(late_write().into())
                }
            }
            _ => Ok(()),
        }
    }

    fn fill(&mut self, calls: &[Vec<Claim>], fields: &[OutputField]) -> Tried<()> {
        let fills = self.fills && self.side == Side::Candidate && !self.cell.slots.copies();
        let mut patterns = Vec::new();
        if let Some(window) = self.cell.window().filter(|_| fills) {
            // One for all results of a row: some of them may be the same tensor.
            let pattern = Pattern::draw()?;
            for (claim, field) in calls.iter().flat_map(|call| call.iter().zip(fields)) {
                window.fill(claim, field, pattern)?;
                patterns.push(pattern);
            }
        }
        self.left = Some(Left { calls: calls.to_vec(), patterns });
        Ok(())
    }

    /// Whether what is held was never written to again.
    pub(super) fn held_here_are_intact(&self) -> Result<bool> {
        let fields = &self.fields[self.variant];
        let Some(window) = self.cell.window() else { return Ok(true) };
        for left in &self.held {
            if !is_filled(window, left, fields)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn left_here_are_intact(&self) -> Result<bool> {
        match (&self.left, self.cell.window()) {
            (Some(left), Some(window)) => is_filled(window, left, &self.fields[self.variant]),
            _ => Ok(true),
        }
    }
}

/// Whether results hold still what they were filled with, if they were.
fn is_filled(window: &Window, left: &Left, fields: &[OutputField]) -> Result<bool> {
    let results = left.calls.iter().flat_map(|call| call.iter().zip(fields));
    for ((claim, field), pattern) in results.zip(&left.patterns) {
        if !window.is_filled(claim, field, *pattern)? {
            return Ok(false);
        }
    }
    Ok(true)
}
