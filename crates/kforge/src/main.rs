//! kforge: faster kernels for PyTorch modules, judged by an evaluator that no candidate can fool.
//!
//! `cli` parses, prints and exits. `driver` runs the loop of the two agents: it does what `search` says, with `prompt` for
//! what models are asked, `reply` for what they answer, and `run` for what is kept of it. `view` turns results into text;
//! `target` reads the embedded target folders, `config` the user's settings, `models` opens who answers.
//! `job` is an evaluation as a directory, `executor` has others do it, `worker` does it for others.
//! Everything that runs foreign code is in `kforge-exec`.

mod cli;
mod config;
mod driver;
mod executor;
mod job;
mod models;
mod prompt;
mod refusal;
mod reply;
mod run;
mod search;
mod target;
mod text;
mod usage;
mod view;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
