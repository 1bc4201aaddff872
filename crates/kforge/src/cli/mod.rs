//! The command line: one file per command. Only this module prints or decides on an exit code.
#![allow(clippy::doc_markdown, reason = "doc comments of commands and arguments are help texts for a terminal")]

mod asking;
mod config;
mod doctor;
mod drive;
mod eval;
mod guard;
mod init;
mod interrupt;
mod models;
mod optimize;
mod pick_target;
mod printer;
mod profile;
mod progress;
mod python;
mod resume;
mod runs;
mod settings;
mod show;
mod targets;
mod worker;

use crate::{environment, usage::Usage};
use clap::{Parser, Subcommand};
use printer::Printer;
use std::process::ExitCode;

/// Make faster kernels for PyTorch modules, and judge them.
///
/// A problem is a Python file in KernelBench's form (Model, get_inputs, get_init_inputs);
/// a candidate is a Python file that defines NewModel (or ModelNew) with its kernels inside.
/// Start with one of these:
///
///   kforge optimize examples/softmax/problem.py
///   kforge eval examples/softmax/problem.py examples/softmax/cpu_cpp.py
#[derive(Parser)]
#[command(name = "kforge", version, max_term_width = 110, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Optimize(Box<optimize::OptimizeArgs>),
    Resume(Box<resume::ResumeArgs>),
    Show(show::ShowArgs),
    Runs(runs::RunsArgs),
    Models(models::ModelsArgs),
    Eval(Box<eval::EvalArgs>),
    Profile(Box<profile::ProfileArgs>),
    Guard(guard::CheckArgs),
    Doctor(doctor::DoctorArgs),
    Targets(targets::TargetsArgs),
    Python(python::PythonArgs),
    Init(init::InitArgs),
    Config(Box<config::ConfigArgs>),
    Worker(worker::WorkerArgs),
}

/// The machinery failed; the input may be fine.
const OWN_FAILURE: u8 = 70;
/// The input cannot be used.
const USAGE: u8 = 2;

/// The program: reads its arguments, does what they say, and tells how to end.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { USAGE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_env(environment::LOG.name))
        .with_writer(std::io::stderr)
        .init();
    let printer = Printer::new();
    let done = match cli.command {
        Command::Optimize(args) => optimize::optimize(&args, &printer),
        Command::Resume(args) => resume::resume(&args, &printer),
        Command::Show(args) => show::show(&args, &printer),
        Command::Runs(args) => runs::runs(&args, &printer),
        Command::Models(args) => models::models(&args, &printer),
        Command::Eval(args) => eval::eval(&args, &printer),
        Command::Profile(args) => profile::profile(&args, &printer),
        Command::Guard(args) => guard::guard(&args, &printer),
        Command::Doctor(args) => doctor::doctor(&args, &printer),
        Command::Targets(args) => targets::targets(&args, &printer),
        Command::Python(args) => python::python(&args, &printer),
        Command::Init(args) => init::init(&args, &printer),
        Command::Config(args) => config::config(&args, &printer),
        Command::Worker(args) => worker::worker(&args, &printer),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            printer.note(&format!("error: {error:#}"));
            ExitCode::from(exit_code(&error))
        }
    }
}

/// What the user can fix by another input or flag is 2; everything else is ours.
fn exit_code(error: &anyhow::Error) -> u8 {
    use kforge_exec::{ExecError, python::PythonError};
    match error.downcast_ref::<ExecError>() {
        Some(
            ExecError::Problem(_)
            | ExecError::NoRoom(_)
            | ExecError::Toolchain(_)
            | ExecError::Uninterpretable(_)
            | ExecError::Sandbox(_),
        ) => return USAGE,
        Some(_) => return OWN_FAILURE,
        None => {}
    }
    if error.downcast_ref::<Usage>().is_some() || error.downcast_ref::<PythonError>().is_some() {
        return USAGE;
    }
    OWN_FAILURE
}

#[cfg(test)]
mod tests;
