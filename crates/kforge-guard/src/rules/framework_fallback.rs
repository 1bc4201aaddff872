//! Reports branches in which the framework computes instead of the kernel.
//!
//! ## What it does
//! Looks, in files that build kernels of their own, at every `if` that the model can reach: one of its branches returns
//! what framework operators computed, without a call of the candidate's own code. Branches of error handlers are the
//! business of `hidden_fallback`.
//!
//! ## Why is this reported?
//! A branch for shapes that nobody uses is honest; a condition that always holds leaves the kernel unused. Which operators
//! ran is counted at run time, so an honest branch has nothing to fear; this says where to look.
//!
//! ## Example
//! ```python
//! if x.shape[-1] % 4 != 0:
//!     return torch.softmax(x, dim=-1)
//! return self.lib.softmax(x)
//! ```
//! Use instead: let the kernel handle every shape of the problem.

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::rules::hidden_fallback::{BUILDERS, is_computation, is_own_library};

const ADVICE: &str = "let the kernel handle every case of the problem, or raise an error";

/// Calls come in chains; nobody honest writes longer ones.
const MAX_CHAIN: usize = 32;

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    if !has_kernels(context) {
        return;
    }
    let own = Places::of(context, is_own_call);
    let framework = Places::of(context, is_computation);
    for node in context.ast.all().filter(|node| context.reach.contains(*node)) {
        if node.is("return_statement")
            && branch(node).is_some_and(|branch| framework.within(node) && !own.within(branch))
        {
            sink.at(node, format!("This branch computes with the framework instead of the kernel; {ADVICE}."));
        }
        if node.is("conditional_expression") {
            let sides: Vec<Node<'_>> = [0, 2].into_iter().filter_map(|i| node.children().nth(i)).collect();
            let replaced = |side: &Node<'_>| framework.within(*side) && !own.within(*side);
            if sides.iter().any(|side| own.within(*side)) && sides.iter().any(replaced) {
                sink.at(node, format!("This chooses between the kernel and the framework; {ADVICE}."));
            }
        }
    }
}

/// Nodes of one sort in source order. Asking for those in a subtree costs next to nothing, however deep branches nest.
struct Places<'a>(Vec<Node<'a>>);

impl<'a> Places<'a> {
    fn of(context: &'a Context<'a>, wanted: fn(&Context<'_>, Node<'_>) -> bool) -> Self {
        Self(context.ast.all().filter(|node| wanted(context, *node)).collect())
    }

    fn within(&self, tree: Node<'_>) -> bool {
        let first = self.0.partition_point(|node| node.id() < tree.id());
        self.0.get(first).is_some_and(|node| tree.contains(*node))
    }
}

fn has_kernels(context: &Context<'_>) -> bool {
    context.references().any(|(_, path)| BUILDERS.contains(&path) || path == "triton.jit")
}

/// A call of something that the candidate built or defined: of a member of `self`, of a name of the file. Methods of what
/// was passed in are the tensors' own.
fn is_own_call(context: &Context<'_>, node: Node<'_>) -> bool {
    let Some(function) = node.is("call").then(|| node.field("function")).flatten() else { return false };
    if context.names.any(function, |path| BUILDERS.contains(&path) || is_own_library(path)) {
        return true;
    }
    let chain = std::iter::successors(Some(function), |at| inner(*at));
    let Some(root) = chain.take(MAX_CHAIN).last() else { return false };
    let scopes = &context.names.scopes;
    let of_the_file = || scopes.find(scopes.of(root), root.text()) == Some(0) && !scopes.values(root).is_empty();
    root.is("identifier") && (root.text() == "self" || of_the_file())
}

/// What an attribute, an element or a call is taken from.
fn inner(node: Node<'_>) -> Option<Node<'_>> {
    ["object", "value", "function"].iter().find_map(|field| node.field(field))
}

/// The block of the innermost `if` around a statement, in its own function. Not in handlers, and not the whole function.
fn branch(statement: Node<'_>) -> Option<Node<'_>> {
    let ends = ["function_definition", "lambda", "except_clause", "except_group_clause"];
    let mut inside = statement;
    for up in statement.ancestors().take_while(|up| !up.is_any(&ends)) {
        if up.is_any(&["if_statement", "elif_clause", "else_clause"]) {
            return Some(inside);
        }
        inside = up;
    }
    None
}
