//! The user's settings, in layers: flags, `kforge.toml` in the working folder, the user's own file, defaults.
//!
//! Every setting is written down once, in the list below: its documentation is the help text of its flag and the comment
//! in the file that `kforge init` writes. What the group `evaluation` says travels with a job (`job::JobOptions`), which
//! does not compile where a setting of that group is left out. The nearest layer wins; lists add up over the layers.
#![allow(clippy::doc_markdown, reason = "doc comments of settings are help texts for a terminal")]

mod executor;
mod file;
mod layers;
mod list;
mod units;
mod values;

pub use executor::Executor;
pub use file::ConfigError;
pub(crate) use file::read;
pub use layers::{Layer, Origin, PROJECT_FILE, user_dir};
pub use units::{Positive, Price, Span, Temperature, Usd};
pub use values::{Base, Baselines, Command, Effort, Hook, HookEvent, Precision, RuleName, Sandbox, Strategy};

use kforge_guard::Pattern;
use kforge_types::Target;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

list::settings! {
    /// What a candidate's source may say.
    rules: RuleFlags, SourceRules, "Source rules" {
        defaults {}
        switches {
            /// Switch all source rules off; patterns and the checks at run time stay.
            no_guard;
        }
        optional {
            /// Read more source rules from a TOML file with the lists ban, require, off (rules) and imports (packages).
            guard_file: PathBuf, "\"guard.toml\"";
        }
        lists {
            /// Refuse candidates that use this: a name such as torch.matmul (also as @) or torch.nn.functional.*, an attribute such as .half(), cpp:WORD for a word of native code, or re:REGEX; may be repeated.
            ban: Pattern [long = "ban", value_name = "PATTERN", help_heading = "Source rules"], "[\"torch.nn.functional.*\", \"cpp:cublas*\"]";
            /// Refuse candidates that do not use this; may be repeated.
            require: Pattern [long = "require", value_name = "PATTERN", help_heading = "Source rules"], "[\"kforge_rt.build()\"]";
            /// Switch a source rule off (see `kforge guard --list`); may be repeated.
            off: RuleName [long = "allow-rule", value_name = "RULE", help_heading = "Source rules"], "[\"fast_math\"]";
            /// Packages that candidates may import beside those of the target; may be repeated.
            imports: String [long = "allow-import", value_name = "PACKAGE", help_heading = "Source rules"], "[\"einops\"]";
        }
    }

    /// How candidates are judged, and by whom.
    evaluation: EvaluationFlags, Evaluation, "Evaluation" {
        defaults {
            /// Which baselines to measure: auto leaves out max-autotune where it compiles for more than a minute [default: auto].
            baselines: Baselines = Baselines::Auto;
            /// Time that building, constructing or one call may take: 90s, 2m, or a number of seconds [default: 2m].
            timeout: Span = Span::from_secs(120);
            /// Time of timed calls per candidate, about; up to four times as long while the interval is wide [default: 1s].
            time_budget: Span = Span::from_secs(1);
            /// Memory of one candidate's processes together, in GiB [default: 4.0].
            memory: Positive = Positive(4.0);
            /// Verify so many times more, each time with other secret inputs and weights: the verdict must stay the same [default: 0].
            redraws: u32 = 0;
            /// Refuse to run with less sandbox than this (see `kforge doctor`) [default: none].
            require_sandbox: Sandbox = Sandbox::None;
            /// Who evaluates: in-place is this process; exchange:DIR puts jobs into a folder, where `kforge worker drain DIR` on any machine that sees the folder, or a copy of it, does them; ssh:HOST runs a worker on that machine and copies kforge there once; ssh:HOST:PATH uses the kforge that is there [default: in-place].
            executor: Executor = Executor::InPlace;
        }
        switches {
            /// Time nothing on a GPU that somebody else uses: wait two minutes for it, then give up.
            require_idle;
            /// Draw new secret inputs and measure baselines, and for a profile the machine's limits, again instead of using kept ones.
            fresh;
            /// Allow approximate transcendental functions and -ffast-math.
            fast_math;
            /// Weights may change between calls: `prepare` is not called.
            params_per_call;
            /// Use only values that get_inputs gives, under secret seeds.
            given_inputs;
            /// Demand equal bits for equal inputs.
            deterministic;
            /// Only the candidate's own kernels may compute.
            own_operators;
            /// Do not use namespaces even where they are allowed: the sandbox is then `partial`.
            no_namespaces;
        }
        optional {
            /// Accelerator and programming model (see `kforge targets`). Where nothing is said, `kforge eval` and `profile` detect it from the candidate; `kforge optimize` takes nvidia/cuda where this machine has an NVIDIA GPU and nvcc, nvidia/triton without nvcc, and cpu/cpp without a GPU.
            target: Target, "\"nvidia/triton\"";
            /// Which GPU, counted from 0 among those that are visible, instead of the first one.
            device: usize, "1";
            /// Architecture that kernels are compiled for where there is no device to ask, instead of the target's.
            arch: String, "\"sm_90a\"";
            /// Threads for candidate and baselines, instead of all cores.
            threads: NonZeroUsize, "8";
            /// Lowest precision allowed: strict (fp32), tf32, or mixed (bf16 multiply, fp32 accumulate); the problem's contract, else the inputs' own, where nothing is said.
            precision: Precision, "\"tf32\"";
            /// Time that examining the problem may take, instead of two minutes or, where that is longer, `timeout`.
            problem_timeout: Span, "\"5m\"";
            /// Give up when a job has no answer after this time: 90s, 30m, 2h; without it, waiting goes on.
            executor_timeout: Span, "\"2h\"";
        }
        lists {}
    }

    /// How candidates are found.
    search: SearchFlags, Search, "Search" {
        defaults {
            /// How candidates follow one another: refine, single, sample, sample-refine or beam [default: refine].
            strategy: Strategy = Strategy::Refine;
            /// Candidates of one run; with the strategy sample it is the number of samples that counts [default: 10].
            iterations: NonZeroU32 = nonzero(10);
            /// Independent candidates, for sample and sample-refine [default: 4].
            samples: NonZeroU32 = nonzero(4);
            /// Candidates that are refined side by side, for beam [default: 3].
            beam_width: NonZeroU32 = nonzero(3);
            /// Which candidate the next one starts from: best or latest [default: best].
            base: Base = Base::Best;
            /// Folder that runs are kept in [default: runs].
            runs: PathBuf = PathBuf::from("runs");
        }
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
        optional {
            /// The model of both agents.
            model: String, "\"gpt-5\"";
            /// The model that writes candidates, where it is another one.
            generator_model: String, "\"anthropic:claude-opus-4-5\"";
            /// The model that reads measurements, where it is another one.
            analyst_model: String, "\"gpt-5-mini\"";
            /// How much a model thinks before it answers: minimal, low, medium or high.
            effort: Effort, "\"medium\"";
            /// How much the model that writes candidates thinks, where it is another value.
            generator_effort: Effort, "\"high\"";
            /// How much the model that reads measurements thinks, where it is another value.
            analyst_effort: Effort, "\"low\"";
            /// How freely a model samples, 0 to 2; some models take none.
            temperature: Temperature, "0.7";
            /// How freely the model that writes candidates samples, where it is another value.
            generator_temperature: Temperature, "1.0";
            /// How freely the model that reads measurements samples, where it is another value.
            analyst_temperature: Temperature, "0.2";
            /// Most tokens of one reply.
            max_output_tokens: NonZeroU32, "16384";
            /// Most tokens of one reply of the model that writes candidates, where it is another number.
            generator_max_output_tokens: NonZeroU32, "32768";
            /// Most tokens of one reply of the model that reads measurements, where it is another number.
            analyst_max_output_tokens: NonZeroU32, "4096";
            /// What models cost, in US dollars per million tokens read and written, where the registry knows no price or another one: 1.25,10 or, with what is read from a cache, 1.25,10,0.125.
            price: Price, "\"1.25,10\"";
            /// What the model that writes candidates costs, where it is another price.
            generator_price: Price, "\"1.25,10,0.125\"";
            /// What the model that reads measurements costs, where it is another price.
            analyst_price: Price, "\"0.25,2\"";
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
        }
        lists {
            /// Commands that run after each correct candidate or at the end, without a shell. Each gets the path of a JSON file as
            /// its last argument and may print {"score": 1.9, "measurements": {"watts": 80}} as its last line: the score then takes
            /// the place of the speedup. Read those in files that others wrote.
            hook: Hook [skip], "";
        }
    }
}

/// What `kforge init` writes below all else: TOML wants tables at the end.
const HOOK_EXAMPLE: &str =
    "#[[hook]]\n#on = \"end\"\n#command = [\"notify-send\", \"kforge is done\"]\n#timeout = \"30s\"\n";

fn nonzero(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN)
}

impl Search {
    /// The model that writes candidates.
    #[must_use]
    pub fn generator(&self) -> Option<&str> {
        self.generator_model.as_deref().or(self.model.as_deref())
    }

    /// The model that reads measurements.
    #[must_use]
    pub fn analyst(&self) -> Option<&str> {
        self.analyst_model.as_deref().or(self.model.as_deref())
    }
}

/// How one of the two agents is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asking {
    /// How much it thinks.
    pub effort: Option<Effort>,
    /// How freely it samples.
    pub temperature: Option<Temperature>,
    /// Most tokens of one reply.
    pub max_output_tokens: Option<NonZeroU32>,
    /// What it costs, where the user says so.
    pub price: Option<Price>,
}

impl Search {
    /// How the model that writes candidates is asked.
    #[must_use]
    pub fn asking_generator(&self) -> Asking {
        Asking {
            effort: self.generator_effort.or(self.effort),
            temperature: self.generator_temperature.or(self.temperature),
            max_output_tokens: self.generator_max_output_tokens.or(self.max_output_tokens),
            price: self.generator_price.or(self.price),
        }
    }

    /// How the model that reads measurements is asked.
    #[must_use]
    pub fn asking_analyst(&self) -> Asking {
        Asking {
            effort: self.analyst_effort.or(self.effort),
            temperature: self.analyst_temperature.or(self.temperature),
            max_output_tokens: self.analyst_max_output_tokens.or(self.max_output_tokens),
            price: self.analyst_price.or(self.price),
        }
    }
}

impl Resolved {
    /// Settings that are fine by themselves, but not together.
    fn check(&self) -> Result<(), ConfigError> {
        let search = &self.search;
        if search.correction_only && search.optimisation_only {
            let text = "correction_only and optimisation_only together leave the analyst nothing to do: switch one of them off";
            return Err(ConfigError::Together(text.to_owned()));
        }
        if search.no_profile && search.all_metrics {
            let text = "no_profile and all_metrics contradict each other: switch one of them off";
            return Err(ConfigError::Together(text.to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
