//! What a cell is told when it is forked: the candidate's text, layouts, weights; never seeds or truths.

use super::EvalOptions;
use crate::{
    device::{Device, Examined},
    referee::Opened,
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, path::Path};

/// Names the folder where torch's compiler keeps what it has made.
pub(crate) const INDUCTOR_CACHE: &str = "TORCHINDUCTOR_CACHE_DIR";

/// Whose code a cell runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Candidate,
    Baseline,
}

/// How a cell differs from an ordinary one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Special<'a> {
    /// Its name (`ways.rs`).
    pub(crate) baseline: &'a str,
    /// Own kernels become no-ops.
    pub(crate) skip_kernels: bool,
    /// Triton's kernels are interpreted.
    pub(crate) interpret: bool,
    /// Triton's recorded launches are compiled.
    pub(crate) ahead_of_time: bool,
}

pub(crate) struct SpecMaker<'a> {
    pub(crate) options: &'a EvalOptions,
    pub(crate) opened: &'a Opened,
    pub(crate) device: &'a dyn Device,
    pub(crate) examined: &'a Examined,
}

impl SpecMaker<'_> {
    pub(crate) fn spec(&self, role: Role, source: &str, filename: &str, special: Special<'_>) -> Value {
        let per_call = self.opened.contract.params == Some(kforge_types::Params::PerCall);
        json!({
            "role": if role == Role::Baseline { "baseline" } else { "candidate" },
            "baseline": special.baseline,
            "source": source,
            "filename": filename,
            "search_path": if role == Role::Baseline { self.opened.search_path.clone() } else { Vec::new() },
            "variants": self.opened.variants.iter().map(for_cell).collect::<Vec<_>>(),
            "input_bytes": self.opened.input_bytes,
            "output_bytes": self.opened.output_bytes,
            "threads": self.options.threads,
            "prepare": !per_call,
            "skip_kernels": special.skip_kernels,
            "triton": special.interpret,
            "aot": special.ahead_of_time,
            "arch": self.options.arch,
            "model": self.options.target.model,
            "place": self.options.place.for_harness(),
            "mul": self.opened.contract.mul,
            "places": self.examined.places,
            "keeps": self.opened.keeps_results(),
            "copies": self.device.copies_results(self.examined),
            "staged": !self.examined.staged.is_empty(),
        })
    }

    /// For a process that imports and calls nothing: no sizes, no weights, and no device is touched for it.
    pub(crate) fn builder_spec(&self, source: &str, filename: &str, special: Special<'_>) -> Value {
        let mut spec = self.spec(Role::Candidate, source, filename, special);
        spec["variants"] = json!([]);
        spec["input_bytes"] = json!(4096);
        spec["output_bytes"] = json!(4096);
        spec["place"] = json!("cpu");
        spec["places"] = json!(1);
        spec["copies"] = json!(false);
        spec
    }

    /// What a candidate that runs alone under a tool is told, on sizes and weights number 0.
    pub(crate) fn solo(&self, source: &str, filename: &str, device: &str) -> Value {
        json!({
            "source": source,
            "filename": filename,
            "device": device,
            "threads": self.options.threads,
            "prepare": self.opened.contract.params != Some(kforge_types::Params::PerCall),
            "input_bytes": self.opened.input_bytes,
            "variant": self.opened.variants.first().map(for_cell),
        })
    }

    pub(crate) fn environment(&self, scratch: &Path, inductor: Option<&Path>) -> BTreeMap<String, String> {
        let inside = |name: &str| scratch.join(name).to_string_lossy().into_owned();
        let math = match self.opened.contract.math {
            Some(kforge_types::Math::Fast) => "fast",
            _ => "exact",
        };
        let cache = inductor.map_or_else(|| inside("cache"), |path| path.to_string_lossy().into_owned());
        BTreeMap::from(
            [
                ("HOME", inside("home")),
                ("TMPDIR", inside("tmp")),
                ("KFORGE_BUILD_DIR", inside("build")),
                ("KFORGE_MATH", math.to_owned()),
                ("KFORGE_TOOLCHAINS", self.options.toolchains.to_string()),
                ("KFORGE_ARCH", self.options.arch.clone()),
                ("CUDA_CACHE_PATH", inside("cache")),
                ("TORCH_EXTENSIONS_DIR", inside("build")),
                (INDUCTOR_CACHE, cache),
                ("TRITON_CACHE_DIR", inside("cache")),
                ("MAX_JOBS", self.options.threads.to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        )
    }
}

/// Of a variant, what a cell may know.
pub(crate) const TOLD: [&str; 13] = [
    "init",
    "input_skeleton",
    "output_skeleton",
    "inputs",
    "outputs",
    "weights",
    "aliases_allowed",
    "shared_outputs",
    "training",
    "autograd",
    "written_inputs",
    "written_buffers",
    "written_names",
];

fn for_cell(variant: &Map<String, Value>) -> Map<String, Value> {
    variant.iter().filter(|(key, _)| TOLD.contains(&key.as_str())).map(|(k, v)| (k.clone(), v.clone())).collect()
}
