//! Which ways of running the reference are measured, by the names that the harness reads.
//!
//! A name says how it runs, and what is switched on: `eager`, `compile+cast-weights`. What the contract allows, the harness
//! finds out (`baseline_ways.py`). All ways without torch's compiler are tried first; compiling takes long, so that
//! only the quickest two are compiled.

use super::BaselineChoice;
use crate::wire::names::is_way;

pub(crate) const EAGER: &str = "eager";
const COMPILE: &str = "compile";
pub(super) const MAX_AUTOTUNE: &str = "max-autotune";
const REDUCE_OVERHEAD: &str = "reduce-overhead";
/// So many of the ways without a compiler are compiled.
const COMPILED: usize = 2;
/// On a GPU: shorter calls are mostly launches, which recorded graphs save.
const LAUNCH_BOUND_US: f64 = 200.0;

impl BaselineChoice {
    /// Names of what is compiled, given the ways without a compiler, the quickest first, with the time of a call of each.
    pub(super) fn compiled(self, quickest: &[(String, f64)], on_gpu: bool) -> Vec<String> {
        let by = |compiler: &str, way: &(String, f64)| way.0.replacen(EAGER, compiler, 1);
        let mut names = Vec::new();
        if self != Self::Eager {
            names.extend(quickest.iter().take(COMPILED).map(|way| by(COMPILE, way)));
        }
        if let (Self::Auto | Self::All, Some(first)) = (self, quickest.first()) {
            if on_gpu && first.1 < LAUNCH_BOUND_US {
                names.push(by(REDUCE_OVERHEAD, first));
            }
            names.push(by(MAX_AUTOTUNE, first));
        }
        names
    }

    /// How many are measured on a CPU, given the ways without a compiler.
    pub(super) fn count(self, ways: &[String]) -> usize {
        let any: Vec<(String, f64)> = ways.iter().map(|way| (way.clone(), 0.0)).collect();
        ways.len() + self.compiled(&any, false).len()
    }

    /// Whether a baseline of this name is among what is measured.
    pub(super) fn includes(self, name: &str) -> bool {
        match (self, how(name)) {
            _ if !is_way(name) => false,
            (_, EAGER) | (Self::Auto | Self::All, _) => true,
            (Self::Eager, _) => false,
            (Self::Compile, compiler) => compiler == COMPILE,
        }
    }
}

/// Whether torch's compiler makes it.
pub(super) fn is_compiled(name: &str) -> bool {
    how(name) != EAGER
}

/// What comes before the first switch.
pub(super) fn how(name: &str) -> &str {
    name.split('+').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(names: &[(&str, f64)]) -> Vec<(String, f64)> {
        names.iter().map(|(name, us)| ((*name).to_owned(), *us)).collect()
    }

    #[test]
    fn the_quickest_two_are_compiled_and_the_quickest_is_tuned() {
        let found = ways(&[("eager+cast-weights", 300.0), ("eager+autocast", 340.0), ("eager", 400.0)]);
        assert_eq!(BaselineChoice::Eager.compiled(&found, true), [""; 0]);
        assert_eq!(BaselineChoice::Compile.compiled(&found, true), ["compile+cast-weights", "compile+autocast"]);
        let tuned = ["compile+cast-weights", "compile+autocast", "max-autotune+cast-weights"];
        assert_eq!(BaselineChoice::Auto.compiled(&found, true), tuned);
        assert_eq!(BaselineChoice::All.compiled(&ways(&[("eager", 90.0)]), false), ["compile", "max-autotune"]);
        let names: Vec<String> = found.into_iter().map(|(name, _)| name).collect();
        assert_eq!((BaselineChoice::Eager.count(&names), BaselineChoice::Auto.count(&names)), (3, 6));
    }

    #[test]
    fn short_calls_on_a_gpu_are_recorded_as_graphs_too() {
        let found = ways(&[("eager", 90.0)]);
        assert_eq!(BaselineChoice::Auto.compiled(&found, true), ["compile", "reduce-overhead", "max-autotune"]);
        assert_eq!(BaselineChoice::Compile.compiled(&found, true), ["compile"]);
    }

    #[test]
    fn a_choice_includes_what_it_measures() {
        let found = ways(&[("eager+autocast", 90.0), ("eager", 95.0)]);
        for choice in [BaselineChoice::Eager, BaselineChoice::Compile, BaselineChoice::Auto, BaselineChoice::All] {
            assert!(choice.compiled(&found, true).iter().all(|name| choice.includes(name)));
            assert!(choice.includes("eager+channels_last"));
            assert!(!choice.includes("eager+odd") && !choice.includes("odd"), "the harness would refuse it");
        }
        assert!(
            !BaselineChoice::Compile.includes("max-autotune+autocast") && !BaselineChoice::Eager.includes("compile")
        );
    }
}
