//! Refuses sources that cannot be checked with bounded work.
//!
//! ## What it does
//! Refuses files over 1 MiB, nesting deeper than 1000 levels, and sources that the parser cannot get through in a number of
//! steps in proportion to their size. This rule cannot be switched off, because what was not read has not been checked.
//!
//! ## Why is this bad?
//! Kernels have a few hundred lines. A megabyte of source is data, such as a table of results, or an attempt to keep the
//! checks busy.
//!
//! ## Example
//! ```python
//! RESULTS = [0.1257302, -0.1321049, ...]  # a million more
//! ```
//! Use instead: compute the values.

use kforge_types::{Finding, Severity};

use crate::context::{Context, Sink};
use crate::{MAX_SOURCE_BYTES, Report};

/// Sources that are too large never get as far as this.
pub(crate) fn check(_: &Context<'_>, _: &mut Sink<'_>) {}

/// What is said about a source that was not read.
pub(crate) fn report(source: &str) -> Report {
    let message = if source.len() > MAX_SOURCE_BYTES {
        format!(
            "The source has {} bytes, more than the {MAX_SOURCE_BYTES} that are read; compute large tables instead of writing them out.",
            source.len()
        )
    } else {
        "The source is nested too deeply or too tangled to be read; write plain statements.".to_owned()
    };
    let excerpt = source.lines().next().unwrap_or_default().trim().chars().take(160).collect();
    let rule = "too_large".to_owned();
    Report {
        findings: vec![Finding { rule, severity: Severity::Hard, line: 1, column: 1, excerpt, message }],
        ..Report::default()
    }
}
