//! The evaluator as a user meets it: the built binary, real Python, real sandboxes.
//!
//! `KFORGE_CASE=substring` narrows the corpus tests to matching files.

mod cli;
mod corpus;
mod examples;
mod problems;
mod support;
