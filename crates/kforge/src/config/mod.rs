//! The user's settings, in layers: flags, `kforge.toml` in the working folder, the user's own file, defaults.
//!
//! Every setting is written down once, in the list below: its documentation is the help text of its flag and the comment
//! in the file that `kforge init` writes. The nearest layer wins; lists add up over the layers.
#![allow(clippy::doc_markdown, reason = "doc comments of settings are help texts for a terminal")]

mod executor;
mod file;
mod layers;
mod units;
mod values;

pub(crate) use executor::Executor;
pub(crate) use file::{ConfigError, read};
pub(crate) use layers::{Layer, Origin, PROJECT_FILE, user_dir};
pub(crate) use units::{Positive, Span, Temperature, Usd};
pub(crate) use values::{Base, Baselines, Effort, Hook, HookEvent, Precision, RuleName, Strategy};

use kforge_guard::Pattern;
use kforge_types::Target;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

layers::settings! {
    // Settings that always have a value.
    defaults {
        /// How candidates follow one another: refine, single, sample, sample-refine or beam.
        strategy: Strategy = Strategy::Refine;
        /// Candidates of one run; with the strategy sample it is the number of samples that counts.
        iterations: NonZeroU32 = nonzero(10);
        /// Candidates that know nothing of one another, for sample and sample-refine.
        samples: NonZeroU32 = nonzero(4);
        /// Candidates that are refined side by side, for beam.
        beam_width: NonZeroU32 = nonzero(3);
        /// Which candidate the next one starts from: best or latest.
        base: Base = Base::Best;
        /// Which baselines to measure: auto leaves out max-autotune where it compiles for more than a minute.
        baselines: Baselines = Baselines::Auto;
        /// Time that building, constructing or one call may take.
        timeout: Span = Span::from_secs(120);
        /// Time of timed calls per candidate, about.
        time_budget: Span = Span::from_secs(1);
        /// Memory of one candidate's processes together, in GiB.
        memory: Positive = Positive(4.0);
        /// Who evaluates: in-place, exchange:DIR (workers at a folder), or ssh:HOST[:KFORGE] (another machine); see docs/executors.md.
        executor: Executor = Executor::InPlace;
        /// Folder that runs are kept in.
        runs: PathBuf = PathBuf::from("runs");
    }
    // Settings that are on or off, and off unless somebody says so.
    switches {
        /// One agent in both roles: the generator reads the measurements itself.
        self_refine;
        /// The analyst helps to repair, but recommends nothing once a candidate is correct.
        correction_only;
        /// The analyst recommends, but says nothing about candidates that are wrong.
        optimisation_only;
        /// Show the analyst no profile.
        no_profile;
        /// Show the analyst whole reports of the profilers, not only the findings with their numbers.
        all_metrics;
    }
    // Settings that may be missing, with an example.
    optional {
        /// Accelerator and programming model (see `kforge targets`); where nothing is said and this machine has an NVIDIA GPU, nvidia/cuda if there is nvcc, else nvidia/triton; without a GPU cpu/cpp.
        target: Target, "\"nvidia/triton\"";
        /// The model of both agents.
        model: String, "\"gpt-5\"";
        /// The model that writes candidates, where it is another one.
        generator_model: String, "\"anthropic:claude-opus-4-5\"";
        /// The model that reads measurements, where it is another one.
        analyst_model: String, "\"gpt-5-mini\"";
        /// How much a model thinks before it answers: minimal, low, medium or high.
        effort: Effort, "\"medium\"";
        /// How freely a model samples, 0 to 2; some models take none.
        temperature: Temperature, "0.7";
        /// Most tokens of one reply.
        max_output_tokens: NonZeroU32, "16384";
        /// Stop when models have cost this much, in US dollars.
        budget_usd: Usd, "5.0";
        /// Stop when models have read and written this many tokens.
        budget_tokens: NonZeroU64, "2_000_000";
        /// Stop after this time: 90s, 30m, 2h.
        budget_time: Span, "\"2h\"";
        /// Stop after this many rounds without gain.
        plateau: NonZeroU32, "4";
        /// Stop within this fraction of the physical floor: 0.1 is 10 % above what the hardware allows.
        near_floor: Positive, "0.1";
        /// Lowest precision allowed: strict (fp32), tf32, or mixed (bf16 multiply, fp32 accumulate); the problem's contract, else the inputs' own, where nothing is said.
        precision: Precision, "\"tf32\"";
        /// Threads of every arm, instead of all cores.
        threads: NonZeroUsize, "8";
        /// Which GPU, counted from 0 among those that are visible, instead of the first one.
        device: usize, "1";
        /// Give up when a job has no answer after this time; without it, waiting goes on.
        executor_timeout: Span, "\"2h\"";
    }
    // Lists, which add up over the layers.
    lists {
        /// Refuse candidates that use this: torch.matmul, torch.nn.functional.*, .half(), cpp:WORD or re:REGEX.
        ban: Pattern [long = "ban", value_name = "PATTERN"], "[\"torch.nn.functional.*\", \"cpp:cublas*\"]";
        /// Refuse candidates that do not use this.
        require: Pattern [long = "require", value_name = "PATTERN"], "[\"kforge_rt.build()\"]";
        /// Source rules that are switched off (see `kforge guard --list`).
        off: RuleName [long = "allow-rule", value_name = "RULE"], "[\"fast_math\"]";
        /// Packages that candidates may import beside those of the target.
        imports: String [long = "allow-import", value_name = "PACKAGE"], "[\"einops\"]";
        /// Commands that run after each correct candidate or at the end, without a shell. Each gets the path of a JSON file as
        /// its last argument and may print {"score": 1.9, "measurements": {"watts": 80}} as its last line: the score then takes
        /// the place of the speedup. Read those in files that others wrote.
        hook: Hook [skip], "";
    }
}

/// What `kforge init` writes below all else: TOML wants tables at the end.
const HOOK_EXAMPLE: &str =
    "#[[hook]]\n#on = \"end\"\n#command = [\"notify-send\", \"kforge is done\"]\n#timeout = \"30s\"\n";

fn nonzero(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN)
}

impl Resolved {
    /// The model that writes candidates.
    pub(crate) fn generator(&self) -> Option<&str> {
        self.generator_model.as_deref().or(self.model.as_deref())
    }

    /// The model that reads measurements.
    pub(crate) fn analyst(&self) -> Option<&str> {
        self.analyst_model.as_deref().or(self.model.as_deref())
    }

    /// Settings that are fine by themselves, but not together.
    fn check(&self) -> Result<(), ConfigError> {
        if self.correction_only && self.optimisation_only {
            let text = "correction_only and optimisation_only together leave the analyst nothing to do: switch one of them off";
            return Err(ConfigError::Together(text.to_owned()));
        }
        if self.no_profile && self.all_metrics {
            let text = "no_profile and all_metrics contradict each other: switch one of them off";
            return Err(ConfigError::Together(text.to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
