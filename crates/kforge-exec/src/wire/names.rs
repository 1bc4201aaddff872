//! Names that both sides know. Whoever meets another one refuses it.

use crate::error::{ExecError, Result};
use kforge_types::Kind;
use serde::{Deserialize, Deserializer, de::Error};

/// Sets of inputs by how they are drawn.
pub(super) const DISTRIBUTIONS: [&str; 12] =
    ["own", "fine", "normal", "uniform", "heavy", "zeros", "scaled", "varied", "patched", "sparse", "slice", "unseen"];

/// How the reference is run: as it is, or by torch's compiler.
pub(super) const HOW: [&str; 4] = ["eager", "compile", "max-autotune", "reduce-overhead"];
/// What is switched on for it, behind a `+` each.
pub(super) const SWITCHES: [&str; 4] = ["autocast", "cast-weights", "channels_last", "cudnn-benchmark"];

/// What a cell's failure is called that is a compiler's absence; the compiler's name follows.
pub(super) const MISSING: &str = "missing:";
/// What a cell may say that went wrong. Other kinds are found out, not told.
pub(super) const FAILURES: [Kind; 23] = [
    Kind::Syntax,
    Kind::NoClass,
    Kind::Import,
    Kind::Construct,
    Kind::Signature,
    Kind::Exception,
    Kind::Launch,
    Kind::Crash,
    Kind::Exit,
    Kind::Protocol,
    Kind::Flag,
    Kind::Compiler,
    Kind::FakeKernel,
    Kind::OutOfMemory,
    Kind::DiskLimit,
    Kind::Sandbox,
    Kind::Type,
    Kind::Structure,
    Kind::Shape,
    Kind::Dtype,
    Kind::Device,
    Kind::Strides,
    Kind::Alias,
];

pub(super) fn cell_failure(name: &str) -> Option<Kind> {
    Kind::from_name(name).filter(|kind| FAILURES.contains(kind))
}

/// Whether the harness can run the reference in this way.
pub(crate) fn is_way(name: &str) -> bool {
    let mut parts = name.split('+');
    parts.next().is_some_and(|how| HOW.contains(&how)) && parts.all(|switch| SWITCHES.contains(&switch))
}

/// Refuses names of distributions, and of ways, that this side does not know.
pub(crate) fn all_known(distributions: &[String], ways: &[String]) -> Result<()> {
    let unknown = |what: &str, name: &String| Err(ExecError::harness(format!("it names an unknown {what}: {name:?}")));
    if let Some(name) = distributions.iter().find(|name| !DISTRIBUTIONS.contains(&name.as_str())) {
        return unknown("distribution", name);
    }
    ways.iter().find(|name| !is_way(name)).map_or(Ok(()), |name| unknown("way of running the reference", name))
}

/// What the referee found wrong; an empty word for nothing.
pub(crate) fn found<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Kind>, D::Error> {
    let name = String::deserialize(from)?;
    if name.is_empty() {
        return Ok(None);
    }
    Kind::from_name(&name).map(Some).ok_or_else(|| D::Error::custom(format!("an unknown kind: {name:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_way_says_how_and_what_is_switched_on() {
        for way in ["eager", "compile+cast-weights", "max-autotune+channels_last+cudnn-benchmark"] {
            assert!(is_way(way), "{way}");
        }
        for unknown in ["", "jit", "eager+", "+autocast", "eager+jit", "compile+compile", "Eager"] {
            assert!(!is_way(unknown), "{unknown}");
        }
    }

    #[test]
    fn unknown_names_are_refused_by_name() {
        all_known(&owned(&["own", "zeros"]), &owned(&["eager"])).unwrap();
        let text = |distributions: &[&str], ways: &[&str]| {
            all_known(&owned(distributions), &owned(ways)).unwrap_err().to_string()
        };
        assert!(text(&["own", "odd"], &[]).contains("an unknown distribution: \"odd\""));
        assert!(text(&["own"], &["eager", "jit"]).contains("an unknown way of running the reference: \"jit\""));
    }

    #[test]
    fn a_kind_that_the_referee_names_is_known_or_an_error() {
        #[derive(Debug, Deserialize)]
        struct Told {
            #[serde(deserialize_with = "found")]
            kind: Option<Kind>,
        }
        let read = |text: &str| serde_json::from_str::<Told>(text).map(|told| told.kind);
        assert_eq!(read(r#"{"kind": ""}"#).unwrap(), None);
        assert_eq!(read(r#"{"kind": "numeric"}"#).unwrap(), Some(Kind::Numeric));
        assert!(read(r#"{"kind": "odd"}"#).unwrap_err().to_string().contains("an unknown kind: \"odd\""));
    }
}
