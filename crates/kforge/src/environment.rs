//! Every environment variable with a name of kforge's own: what it means, and what holds without it.
//!
//! A test reads the sources and fails where a name is not declared here. `kforge config --env` shows the list. Keys of
//! models are not in it: the registry of models names their variables.
#![allow(clippy::doc_markdown, reason = "meanings are texts for a terminal")]

use std::ffi::OsString;

/// Whose a variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// Set by users.
    User,
    /// Set by kforge for the processes that it starts.
    Internal,
    /// Set by people who work on kforge itself.
    Developer,
}

/// One variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Whose it is.
    pub audience: Audience,
    /// What it decides.
    pub meaning: &'static str,
    /// What holds where it is not set, or empty.
    pub default: &'static str,
}

impl Variable {
    /// What the environment says; an empty text says nothing.
    #[must_use]
    pub fn value(&self) -> Option<OsString> {
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }
}

macro_rules! variables {
    ($($audience:ident $constant:ident = $name:literal: $meaning:literal, $default:literal;)*) => {
        $(#[doc = $meaning] pub const $constant: Variable =
            Variable { name: $name, audience: Audience::$audience, meaning: $meaning, default: $default };)*

        /// All of them.
        pub const VARIABLES: &[Variable] = &[$($constant),*];
    };
}

variables! {
    User PYTHON = "KFORGE_PYTHON":
        "The Python with torch that evaluations run with: a program, or the folder of an environment.",
        "an active environment, python3, or one that kforge makes";
    User CACHE_DIR = "KFORGE_CACHE_DIR":
        "The folder for truths, times of baselines, builds and the Python that kforge makes.",
        "kforge in XDG_CACHE_HOME, else in ~/.cache";
    User CONFIG_DIR = "KFORGE_CONFIG_DIR":
        "The folder of the user's own config.toml and models.toml.",
        "kforge in XDG_CONFIG_HOME, else in ~/.config";
    User LOG = "KFORGE_LOG":
        "What is logged to stderr: error, warn, info, debug or trace, also for one module (kforge_exec=debug).",
        "error";
    User SSH = "KFORGE_SSH":
        "What reaches the machine of ssh:HOST: a program and its arguments, set apart by blanks.",
        "ssh";
    User NVCC = "KFORGE_NVCC":
        "The nvcc that CUDA C++ is built with.",
        "the one on PATH, in CUDA_HOME or CUDA_PATH, in /usr/local/cuda, or of NVIDIA's packages for Python";
    User CUTLASS = "KFORGE_CUTLASS":
        "The folder of CUTLASS, for kernels that are built outside of evaluations.",
        "CUTLASS_PATH, else the package nvidia-cutlass";
    User GPU_SLOTS = "KFORGE_GPU_SLOTS":
        "With the value host, inputs and results of a GPU are copied through the host's memory.",
        "device memory, where it can be shared";
    User KEEP_PROFILES = "KFORGE_KEEP_PROFILES":
        "A folder in which to keep what profilers of NVIDIA's said, word for word.",
        "nothing is kept";
    Internal BUILD_DIR = "KFORGE_BUILD_DIR":
        "The folder that a candidate's kernels are built in.",
        "kforge_rt takes a folder in the user's cache";
    Internal ARCH = "KFORGE_ARCH":
        "The architecture that a candidate's kernels are compiled for.",
        "kforge_rt asks the device";
    Internal MATH = "KFORGE_MATH":
        "Whether a candidate may be compiled for approximate mathematics: exact or fast.",
        "exact";
    Internal TOOLCHAINS = "KFORGE_TOOLCHAINS":
        "How each language is built, as JSON.",
        "what kforge_rt knows by itself";
    Developer CUTE = "KFORGE_CUTE":
        "Folders of CuTe DSL, for tests; scripts/cuda-tools sets it.",
        "the installed package";
    Developer CASE = "KFORGE_CASE":
        "Only corpus files whose path contains this are tested.",
        "all";
    Developer UPDATE_DOCS = "KFORGE_UPDATE_DOCS":
        "Tests write generated documents instead of comparing them.",
        "they are compared";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, path::Path};

    /// Of one test each, or made up by one.
    const OF_TESTS: &str = "KFORGE_TEST_";

    fn files(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let kept = |extension: &str| entry.extension().is_some_and(|known| known == extension);
            if entry.is_dir() {
                files(&entry, found);
            } else if ["rs", "py", "toml", "j2"].into_iter().any(kept) {
                found.push(std::fs::read_to_string(&entry).unwrap());
            }
        }
    }

    fn names(text: &str) -> BTreeSet<String> {
        let word = |rest: &str| rest.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect::<String>();
        let all = text.match_indices("KFORGE_").map(|(at, _)| word(&text[at..]));
        all.filter(|name| name.len() > "KFORGE_".len() && !name.starts_with(OF_TESTS)).collect()
    }

    #[test]
    fn every_variable_that_the_sources_name_is_declared() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut texts = Vec::new();
        for one in std::fs::read_dir(&crates).unwrap().map(|entry| entry.unwrap().path()) {
            files(&one.join("src"), &mut texts);
        }
        for part in ["kforge_rt", "kforge_harness"] {
            files(&crates.join("kforge-exec/harness").join(part), &mut texts);
        }
        let used: BTreeSet<String> = texts.iter().flat_map(|text| names(text)).collect();
        let declared: BTreeSet<String> = VARIABLES.iter().map(|variable| variable.name.to_owned()).collect();
        let undeclared: Vec<&String> = used.difference(&declared).collect();
        assert!(undeclared.is_empty(), "declare them in environment.rs: {undeclared:?}");
    }

    #[test]
    fn each_is_declared_once_and_says_what_it_means() {
        let declared: BTreeSet<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
        assert_eq!(declared.len(), VARIABLES.len());
        for variable in VARIABLES {
            assert!(variable.meaning.ends_with('.') && !variable.default.is_empty(), "{}", variable.name);
        }
    }
}
