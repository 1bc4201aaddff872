//! The evaluator as a user meets it: the built binary, real Python, real sandboxes.
//!
//! `KFORGE_CASE=substring` narrows the corpus tests to matching files.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests fail and print like tests")]

mod cli;
mod compiled;
mod corpus;
mod errors;
mod examples;
mod exchange;
mod gpu_examples;
mod hostile;
mod layers;
mod manners;
mod optimize;
mod problems;
mod profile;
mod settings;
mod support;
