//! Which attempt comes next.

use super::{Ablation, Base, Rules, Strategy};
use crate::run::{
    event::{Pass, Plan},
    history::{Attempt, History, START},
};

/// Repairs of one broken attempt in a row before the search goes back to the best.
const REPAIRS: usize = 2;

/// The next attempt; none when the strategy has nothing more to try. Stop rules are not asked here.
pub(crate) fn plan(history: &History, rules: &Rules) -> Option<Plan> {
    let made = history.made();
    match rules.strategy {
        Strategy::Single => (made == 0).then(|| first(history, rules)),
        Strategy::Sample { samples } => (made < samples).then(|| first(history, rules)),
        Strategy::SampleRefine { samples } if made < samples => Some(first(history, rules)),
        Strategy::Beam { width } if made < width => Some(first(history, rules)),
        Strategy::Beam { width } => Some(from(beam_member(history, width, made), rules)),
        Strategy::Refine | Strategy::SampleRefine { .. } => Some(from(refine_base(history, rules), rules)),
    }
}

/// What knows nothing of other attempts goes on from what the user has, if anything.
fn first(history: &History, rules: &Rules) -> Plan {
    from(history.attempt(START), rules)
}

/// Of a kernel out of nothing, and of one that is there already.
pub(super) fn nothing_before() -> Plan {
    Plan { pass: Pass::Functional, base: None, advice: false, profile: false }
}

fn from(base: Option<&Attempt>, rules: &Rules) -> Plan {
    let Some(base) = base else { return nothing_before() };
    let pass = if base.is_correct() { Pass::Optimisation } else { Pass::Functional };
    let advice = advised(pass, rules.ablation);
    let profile = advice && pass == Pass::Optimisation && rules.measured && !rules.ablation.no_profile;
    Plan { pass, base: Some(base.id), advice, profile }
}

fn advised(pass: Pass, ablation: Ablation) -> bool {
    match pass {
        _ if ablation.self_refine => false,
        Pass::Functional => !ablation.optimisation_only,
        Pass::Optimisation => !ablation.correction_only,
    }
}

/// The best, or a broken latest attempt that is still worth repairing.
fn refine_base<'a>(history: &'a History, rules: &Rules) -> Option<&'a Attempt> {
    let latest = last_with_reply(history)?;
    let Some(best) = history.best() else { return Some(latest) };
    if rules.base == Base::Latest {
        return Some(latest);
    }
    let broken = broken_in_a_row(history, latest);
    if broken > 0 && broken <= REPAIRS && latest.id > best.id && !latest.is_correct() {
        Some(latest)
    } else {
        Some(best)
    }
}

/// How many attempts, each made from the one before, have been wrong up to this one.
fn broken_in_a_row(history: &History, latest: &Attempt) -> usize {
    let mut count = 0;
    let mut at = Some(latest);
    while let Some(attempt) = at.filter(|attempt| !attempt.is_correct()) {
        count += 1;
        at = attempt.plan.base.and_then(|base| history.attempt(base));
    }
    count
}

/// An attempt without a reply cannot be gone on from; one whose reply held no candidate can.
fn last_with_reply(history: &History) -> Option<&Attempt> {
    history.attempts.iter().rev().find(|attempt| attempt.can_be_base())
}

/// Members take turns: the best first. Lines that never became correct fill up what is missing.
fn beam_member(history: &History, width: u32, made: u32) -> Option<&Attempt> {
    let mut members = history.ranked();
    members.truncate(width as usize);
    let broken = history.attempts.iter().rev().filter(|attempt| !attempt.is_correct() && attempt.can_be_base());
    let missing = width as usize - members.len();
    members.extend(broken.take(missing));
    let turn = (made - width) as usize % members.len().max(1);
    members.get(turn).copied()
}
