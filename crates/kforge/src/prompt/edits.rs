//! What the user changes about prompts: overrides, appended texts, auxiliary files, a reference for another accelerator.
//!
//! Specs are parsed here without touching a file; [`EditPlan::load`] in `files` reads what they name, once, at the start
//! of a run, so that a typing mistake shows before anything is paid for.

use super::PromptError;
use kforge_types::Target;
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Iterations, from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u32,
    pub(crate) last: Option<u32>,
}

impl Range {
    pub(crate) const ALL: Self = Self { first: 1, last: None };

    pub(crate) fn contains(self, iteration: u32) -> bool {
        self.first <= iteration && self.last.is_none_or(|last| iteration <= last)
    }
}

impl FromStr for Range {
    type Err = PromptError;

    fn from_str(text: &str) -> Result<Self, PromptError> {
        let number = |part: &str| part.parse::<u32>().ok().filter(|number| *number > 0);
        let range = match text.split_once('-') {
            None => number(text).map(|only| Self { first: only, last: Some(only) }),
            Some((first, "")) => number(first).map(|first| Self { first, last: None }),
            Some((first, last)) => {
                number(first).zip(number(last)).map(|(first, last)| Self { first, last: Some(last) })
            }
        };
        range.filter(|range| range.last.is_none_or(|last| range.first <= last)).ok_or_else(|| {
            PromptError::Spec(format!("{text:?} is no range of iterations; write 3, 2-4 or 2-, counted from 1"))
        })
    }
}

/// One prompt that can be overridden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    GeneratorSystem,
    GeneratorFunctional,
    GeneratorOptimise,
    AnalystSystem,
    AnalystCorrection,
    AnalystOptimisation,
    AnalystRepair,
}

impl Slot {
    pub(crate) const ALL: [Self; 7] = [
        Self::GeneratorSystem,
        Self::GeneratorFunctional,
        Self::GeneratorOptimise,
        Self::AnalystSystem,
        Self::AnalystCorrection,
        Self::AnalystOptimisation,
        Self::AnalystRepair,
    ];

    /// As the command line names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GeneratorSystem => "generator/system",
            Self::GeneratorFunctional => "generator/functional",
            Self::GeneratorOptimise => "generator/optimise",
            Self::AnalystSystem => "analyst/system",
            Self::AnalystCorrection => "analyst/correction",
            Self::AnalystOptimisation => "analyst/optimisation",
            Self::AnalystRepair => "analyst/repair",
        }
    }

    /// The embedded template.
    pub(crate) fn template(self) -> String {
        format!("{}.md.j2", self.name())
    }
}

impl FromStr for Slot {
    type Err = PromptError;

    fn from_str(text: &str) -> Result<Self, PromptError> {
        Self::ALL.into_iter().find(|slot| slot.name() == text).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|slot| slot.name()).collect();
            PromptError::Spec(format!("there is no prompt {text:?}; known are {}", known.join(", ")))
        })
    }
}

/// Whose prompt a text is appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Generator,
    Analyst,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generator => "generator",
            Self::Analyst => "analyst",
        })
    }
}

/// `FILE[@RANGE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ranged {
    pub(crate) path: PathBuf,
    pub(crate) range: Range,
}

impl FromStr for Ranged {
    type Err = PromptError;

    /// The part after the last `@` is a range if it is made of digits and dashes; other names may hold an `@`.
    fn from_str(text: &str) -> Result<Self, PromptError> {
        let tail = text
            .rsplit_once('@')
            .filter(|(_, tail)| !tail.is_empty() && tail.chars().all(|c| c.is_ascii_digit() || c == '-'));
        let (path, range) = match tail {
            Some((path, range)) => (path, range.parse()?),
            None => (text, Range::ALL),
        };
        if path.is_empty() {
            return Err(PromptError::Spec(format!("{text:?} names no file; write FILE or FILE@RANGE")));
        }
        Ok(Self { path: PathBuf::from(path), range })
    }
}

/// What the command line says, as it was typed.
#[derive(Debug, Clone, Default)]
pub(crate) struct EditSpecs {
    /// `ROLE/PASS=FILE[@RANGE]`
    pub(crate) overrides: Vec<String>,
    /// `[ROLE=]FILE[@RANGE]`; the generator's without a role.
    pub(crate) appends: Vec<String>,
    /// `PATH[@RANGE]`, a file or a folder.
    pub(crate) aux: Vec<String>,
    /// A working implementation for another accelerator.
    pub(crate) reference_impl: Option<String>,
    /// That accelerator and programming model, which need not be one that kforge knows.
    pub(crate) reference_target: Option<String>,
}

/// Parsed, nothing read yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EditPlan {
    pub(crate) overrides: Vec<(Slot, Ranged)>,
    pub(crate) appends: Vec<(Role, Ranged)>,
    pub(crate) aux: Vec<Ranged>,
    pub(crate) reference: Option<(Target, PathBuf)>,
}

impl EditPlan {
    /// The same with every path where `place` puts it.
    pub(crate) fn placed(self, place: &dyn Fn(&Path) -> PathBuf) -> Self {
        let ranged = |one: Ranged| Ranged { path: place(&one.path), ..one };
        Self {
            overrides: self.overrides.into_iter().map(|(slot, file)| (slot, ranged(file))).collect(),
            appends: self.appends.into_iter().map(|(role, file)| (role, ranged(file))).collect(),
            aux: self.aux.into_iter().map(ranged).collect(),
            reference: self.reference.map(|(target, path)| (target, place(&path))),
        }
    }

    pub(crate) fn parse(specs: &EditSpecs) -> Result<Self, PromptError> {
        Ok(Self {
            overrides: specs.overrides.iter().map(|spec| parse_override(spec)).collect::<Result<_, _>>()?,
            appends: specs.appends.iter().map(|spec| parse_append(spec)).collect::<Result<_, _>>()?,
            aux: specs.aux.iter().map(|spec| spec.parse()).collect::<Result<_, _>>()?,
            reference: parse_reference(specs)?,
        })
    }
}

fn parse_override(spec: &str) -> Result<(Slot, Ranged), PromptError> {
    let (slot, file) = spec.split_once('=').ok_or_else(|| {
        PromptError::Spec(format!(
            "{spec:?} is no override; write ROLE/PASS=FILE, for example generator/system=my.md.j2"
        ))
    })?;
    Ok((slot.trim().parse()?, file.parse()?))
}

fn parse_append(spec: &str) -> Result<(Role, Ranged), PromptError> {
    for role in [Role::Generator, Role::Analyst] {
        if let Some(file) = spec.strip_prefix(&format!("{role}=")) {
            return Ok((role, file.parse()?));
        }
    }
    Ok((Role::Generator, spec.parse()?))
}

fn parse_reference(specs: &EditSpecs) -> Result<Option<(Target, PathBuf)>, PromptError> {
    match (&specs.reference_impl, &specs.reference_target) {
        (None, None) => Ok(None),
        (Some(file), Some(target)) => {
            let target = target.parse().map_err(|error| PromptError::Spec(format!("{error}")))?;
            Ok(Some((target, PathBuf::from(file))))
        }
        (Some(_), None) => Err(PromptError::Spec(
            "a reference implementation needs its target; add --reference-target nvidia/cuda".to_owned(),
        )),
        (None, Some(_)) => Err(PromptError::Spec(
            "--reference-target says what --reference-impl FILE is written for; add that".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let cases = [("3", 3, Some(3)), ("2-4", 2, Some(4)), ("2-", 2, None), ("7-7", 7, Some(7))];
        for (text, first, last) in cases {
            assert_eq!(text.parse::<Range>().unwrap(), Range { first, last }, "{text}");
        }
        for text in ["", "0", "4-2", "-3", "-", "1-2-3", "a", "1-b", "99999999999"] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
        let range: Range = "2-4".parse().unwrap();
        let inside: Vec<u32> = (1..7).filter(|n| range.contains(*n)).collect();
        assert_eq!(inside, [2, 3, 4]);
    }

    #[test]
    fn files_may_hold_an_at_sign() {
        let plain: Ranged = "me@home/notes.md".parse().unwrap();
        assert_eq!((plain.path, plain.range), (PathBuf::from("me@home/notes.md"), Range::ALL));
        let ranged: Ranged = "me@home/notes.md@2-4".parse().unwrap();
        assert_eq!(ranged.path, PathBuf::from("me@home/notes.md"));
        assert!("notes.md@4-2".parse::<Ranged>().is_err());
        assert!("@3".parse::<Ranged>().is_err());
        assert!("".parse::<Ranged>().is_err());
    }

    #[test]
    fn specs_of_the_command_line() {
        let plan = EditPlan::parse(&EditSpecs {
            overrides: vec!["generator/functional=a.md.j2@1".to_owned()],
            appends: vec!["b.md".to_owned(), "analyst=c.md@2-".to_owned()],
            aux: vec!["docs@3".to_owned()],
            reference_impl: Some("kernel.cu".to_owned()),
            reference_target: Some("nvidia/cuda".to_owned()),
        })
        .unwrap();
        assert_eq!(plan.overrides[0].0, Slot::GeneratorFunctional);
        assert_eq!(plan.appends[0].0, Role::Generator);
        assert_eq!((plan.appends[1].0, plan.appends[1].1.range.first), (Role::Analyst, 2));
        assert_eq!(plan.aux[0].path, PathBuf::from("docs"));
        assert_eq!(plan.reference.unwrap().0.to_string(), "nvidia/cuda");
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let error = |specs: EditSpecs| EditPlan::parse(&specs).unwrap_err().to_string();
        let of = |spec: &str| error(EditSpecs { overrides: vec![spec.to_owned()], ..EditSpecs::default() });
        assert!(of("a.md").contains("ROLE/PASS=FILE"));
        assert!(of("generator/fast=a.md").contains("generator/optimise"));
        assert!(of("generator/system=a.md@0").contains("2-4"));
        let lone = error(EditSpecs { reference_impl: Some("a.cu".to_owned()), ..EditSpecs::default() });
        assert!(lone.contains("--reference-target"));
        let lone = error(EditSpecs { reference_target: Some("nvidia/cuda".to_owned()), ..EditSpecs::default() });
        assert!(lone.contains("--reference-impl"));
    }
}
