//! kforge: faster kernels for PyTorch modules, judged by an evaluator that no candidate can fool.
//!
//! `cli` parses, prints and exits; `view` turns results into text; `target` reads the embedded target folders.
//! Everything that runs foreign code is in `kforge-exec`.

mod cli;
mod target;
mod view;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
