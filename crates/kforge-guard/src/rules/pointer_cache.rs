//! Reports decisions that hang on where a tensor lies.
//!
//! ## What it does
//! Looks for `data_ptr()`, `id()` and `_version` as keys of a container or in comparisons. Tests of alignment
//! (`data_ptr() % 16`) are left alone.
//!
//! ## Why is this reported?
//! A cache of descriptors or graphs by pointer is honest, a cache of results by pointer is not: the same address will hold
//! other values. Every output is compared on fresh values, so an honest cache has nothing to fear.
//!
//! ## Example
//! ```python
//! if x.data_ptr() == self.last:
//!     return self.result
//! ```
//! Use instead: compute the result at every call.

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::scope::Value;

/// Keys are short expressions; a table of a million values is not searched at each use.
const SEARCHED: usize = 256;

const MESSAGE: &str = "A tensor's address decides here; keep only descriptors or graphs by address, never results, because the values at an address change.";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for node in context.ast.all() {
        let candidate = node.is_any(&["call", "attribute", "identifier"]) && is_deciding(node);
        if candidate && (is_address(context, node) || (node.is("identifier") && holds_address(context, node))) {
            sink.at(node, MESSAGE);
        }
    }
}

fn is_address(context: &Context<'_>, node: Node<'_>) -> bool {
    match node.kind() {
        "call" => {
            let function = node.field("function");
            let method =
                function.filter(|function| function.is("attribute")).and_then(|function| function.field("attribute"));
            method.is_some_and(|name| name.text() == "data_ptr") || context.names.calls(node, &["builtins.id"])
        }
        "attribute" => node.field("attribute").is_some_and(|name| name.text() == "_version"),
        _ => false,
    }
}

fn holds_address(context: &Context<'_>, name: Node<'_>) -> bool {
    context.names.scopes.values(name).iter().any(|value| match value {
        Value::Expr(expression) => {
            expression.subtree().take(SEARCHED).any(|part| is_address(context, part) && is_bare(part, *expression))
        }
        _ => false,
    })
}

/// Whether the address itself is the value, or part of a tuple: arguments of calls and remainders do not count.
fn is_bare(part: Node<'_>, whole: Node<'_>) -> bool {
    part.ancestors().take_while(|up| whole.contains(*up)).all(|up| up.is_any(&["tuple", "parenthesized_expression"]))
}

/// Whether a value is compared or is a key, by itself or within a tuple.
fn is_deciding(node: Node<'_>) -> bool {
    let mut at = node;
    while let Some(up) = at.parent() {
        match up.kind() {
            "tuple" | "parenthesized_expression" | "generator_expression" | "list_comprehension" => at = up,
            "comparison_operator" => return true,
            "subscript" => return at.role() == "subscript",
            "pair" => return at.role() == "key",
            "argument_list" => {
                let Some(call) = up.parent() else { return false };
                let function = call.field("function");
                let method = function.and_then(|function| function.field("attribute")).map_or("", Node::text);
                let is_tuple = function.is_some_and(|function| function.text() == "tuple");
                if is_tuple {
                    at = call;
                    continue;
                }
                return ["get", "setdefault", "pop"].contains(&method);
            }
            _ => return false,
        }
    }
    false
}
