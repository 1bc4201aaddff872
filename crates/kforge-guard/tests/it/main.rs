//! Fixtures by glob, the generated page, patterns of users, and hostile input.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod fixtures;
mod hostile;
mod page;
mod patterns;
