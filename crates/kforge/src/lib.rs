//! kforge: faster kernels for PyTorch modules, judged by an evaluator that no candidate can fool.
//!
//! [`evaluator`] judges candidates, here or elsewhere; [`config`] has the settings of the user, [`environment`] the
//! variables. `driver` runs the loop of the two agents: it does what `search` says, with `prompt` for what models are
//! asked, `reply` for what they answer, and `run` for what is kept of it; `setup` makes it from settings. `view` turns results into text, `target` reads
//! the embedded target folders, `models` opens who answers. `job` is an evaluation as a directory, `executor` says who
//! evaluates, `worker` evaluates for others. Everything that runs foreign code is in `kforge-exec`.
//!
//! Only [`cli`] prints or decides on an exit code, and nothing changes the process: not its folder, not its environment.

pub mod cli;
pub mod config;
mod driver;
pub mod environment;
pub mod evaluator;
mod executor;
mod job;
mod models;
mod prompt;
mod refusal;
mod reply;
mod run;
mod search;
mod setup;
mod target;
mod text;
mod usage;
mod view;
mod worker;

pub use usage::Usage;
