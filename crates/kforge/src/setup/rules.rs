//! What the search and the hooks go by, from the settings.

use crate::{
    config::{self, Search},
    driver::hooks::{Hook, When},
    search::{Ablation, Base, Limits, Rules, Strategy},
};
use std::path::Path;

pub(super) fn hooks(settings: &Search, folder: &Path) -> Vec<Hook> {
    settings
        .hook
        .iter()
        .map(|hook| Hook {
            on: match hook.on {
                config::HookEvent::Evaluation => When::Evaluation,
                config::HookEvent::End => When::End,
            },
            command: hook.command.0.clone(),
            folder: folder.to_owned(),
            timeout: hook.timeout.0,
        })
        .collect()
}

pub(super) fn rules(settings: &Search, hooks: &[Hook], measured: bool, confirm: bool) -> Rules {
    let count = |when| hooks.iter().filter(|hook| hook.on == when).count();
    let samples = settings.samples.get();
    Rules {
        start: false,
        // Samples know nothing of each other: as many as were asked for.
        iterations: match settings.strategy {
            config::Strategy::Sample => samples,
            _ => settings.iterations.get(),
        },
        strategy: match settings.strategy {
            config::Strategy::Refine => Strategy::Refine,
            config::Strategy::Single => Strategy::Single,
            config::Strategy::Sample => Strategy::Sample { samples },
            config::Strategy::SampleRefine => Strategy::SampleRefine { samples },
            config::Strategy::Beam => Strategy::Beam { width: settings.beam_width.get() },
        },
        base: match settings.base {
            config::Base::Best => Base::Best,
            config::Base::Latest => Base::Latest,
        },
        ablation: Ablation {
            self_refine: settings.self_refine,
            correction_only: settings.correction_only,
            optimisation_only: settings.optimisation_only,
            no_profile: settings.no_profile,
            all_metrics: settings.all_metrics,
        },
        limits: Limits {
            usd: settings.budget_usd.map(|usd| usd.0),
            tokens: settings.budget_tokens.map(std::num::NonZero::get),
            seconds: settings.budget_time.map(|span| span.0.as_secs_f64()),
        },
        plateau: settings.plateau.map_or(0, std::num::NonZero::get),
        near_floor: settings.near_floor.map(|share| share.0),
        measured,
        hooks_after_evaluation: count(When::Evaluation),
        hooks_at_end: count(When::End),
        confirm,
    }
}
