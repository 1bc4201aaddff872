//! What comes back from models: candidates out of prose, and the analyst's JSON.
//!
//! Replies are hostile or at least careless. Nothing here runs or judges a candidate; it only finds it, and where it
//! cannot, the error is a text that its author can act on.

mod advice;
mod extract;
mod fences;

pub(crate) use advice::{Correction, Recommendation, correction, recommendation, schema};
pub(crate) use extract::{ExtractError, extract};

/// The prose of a text, for tests of what stays inside fences.
#[cfg(test)]
pub(crate) fn testing_fences(text: &str) -> String {
    fences::parse(text, &|_| false).prose
}

/// The reply without the reasoning that some models write in front of it; `None` where the reasoning never ends.
fn without_thinking(reply: &str) -> Option<&str> {
    let begins = ["<think>", "<thinking>"].iter().any(|tag| reply.trim_start().starts_with(tag));
    let end = ["</think>", "</thinking>"].iter().filter_map(|tag| Some(reply.find(tag)? + tag.len())).min();
    match (begins, end) {
        (true, None) => None,
        (true, Some(end)) => Some(&reply[end..]),
        // Some servers swallow the opening tag. A tag on a line with other text is part of somebody's sentence.
        (false, Some(end)) => {
            let line_start = reply[..end].rfind('\n').map_or(0, |at| at + 1);
            let alone = reply[line_start..end].trim().starts_with("</");
            Some(if alone { &reply[end..] } else { reply })
        }
        (false, None) => Some(reply),
    }
}
