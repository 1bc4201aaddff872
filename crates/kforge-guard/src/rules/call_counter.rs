//! Reports decisions that hang on how often, or in which mode, the model was called.
//!
//! ## What it does
//! Looks for counters that a function increases and a condition reads, and for conditions on
//! `torch.is_inference_mode_enabled()` and `torch.is_grad_enabled()`.
//!
//! ## Why is this reported?
//! Tuning in the first call is honest; being right in the first calls and quick in the others is not. Every timed output is
//! compared, so an honest counter has nothing to fear.
//!
//! ## Example
//! ```python
//! self.calls += 1
//! if self.calls > 10:
//!     return self.result
//! ```
//! Use instead: compute the result at every call.

use std::collections::BTreeSet;

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::resolve::within;

const MODES: &[&str] = &["torch.is_inference_mode_enabled", "torch.is_grad_enabled"];

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    let counters: BTreeSet<&str> =
        context.of_kind("augmented_assignment").filter_map(|node| counter(context, node)).collect();
    for node in context.ast.all().filter(|node| context.reach.contains(*node)) {
        if node.is_any(&["identifier", "attribute"]) && counters.contains(node.text()) && in_condition(node) {
            sink.at(
                node,
                "A count of calls decides here; tune in the first call if you must, and compute every result.",
            );
        } else if node.is("call") && context.names.calls(node, MODES) && in_condition(node) {
            sink.at(node, "The mode in which the model is called decides here; compute in the same way in every mode.");
        }
    }
}

/// The target of `self.n += 1`, or of `n += 1` where n outlives the function.
fn counter<'a>(context: &Context<'a>, node: Node<'a>) -> Option<&'a str> {
    let (left, step) = (node.field("left")?, node.field("right")?);
    let outlives = match left.kind() {
        "attribute" => !context.names.any(left, |path| within(path, "torch")),
        "identifier" => {
            let scope = context.names.scopes.of(left);
            scope != 0 && context.names.scopes.find(scope, left.text()) != Some(scope)
        }
        _ => false,
    };
    (outlives && step.is("integer")).then(|| left.text())
}

fn in_condition(node: Node<'_>) -> bool {
    let mut at = node;
    while let Some(up) = at.parent() {
        match up.kind() {
            "if_statement" | "elif_clause" | "while_statement" => return at.role() == "condition",
            "conditional_expression" => return up.children().nth(1) == Some(at),
            "comparison_operator"
            | "boolean_operator"
            | "not_operator"
            | "parenthesized_expression"
            | "binary_operator" => at = up,
            _ => return false,
        }
    }
    false
}
