//! Refuses tensors that are not plain tensors.
//!
//! ## What it does
//! Looks for classes that derive from `torch.Tensor` or `nn.Parameter`, or from the dispatch and function modes, for
//! `__torch_function__` and `__torch_dispatch__`, `_make_subclass`, and for assignments to `__class__`.
//!
//! ## Why is this bad?
//! Such a tensor can put off its work until somebody looks at it, which is after the clock stopped. The harness takes raw
//! memory, so the result would be wrong anyway.
//!
//! ## Example
//! ```python
//! class Lazy(torch.Tensor): ...
//! ```
//! Use instead: fill a `torch.empty(...)` and return it.

use crate::ast::Node;
use crate::context::{Context, Sink};

const BASES: &[&str] = &[
    "torch.Tensor",
    "torch._C.TensorBase",
    "torch._C._TensorBase",
    "torch._tensor.Tensor",
    "torch.nn.Parameter",
    "torch.nn.parameter.Parameter",
    "torch.nn.Buffer",
    "torch.FloatTensor",
    "torch.cuda.FloatTensor",
    "torch.utils._python_dispatch.TorchDispatchMode",
    "torch.overrides.TorchFunctionMode",
];
const HOOKS: &[&str] = &["__torch_function__", "__torch_dispatch__"];
const MAKERS: &[&str] = &["_make_subclass", "_make_wrapper_subclass", "as_subclass"];

const ADVICE: &str = "return a plain `torch.Tensor` that holds its values";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for node in context.ast.all() {
        match node.kind() {
            "class_definition" => {
                let bases = node.field("superclasses").into_iter().flat_map(Node::children);
                if bases.into_iter().any(|base| is_tensor(context, base)) {
                    sink.at(node, format!("A subclass of the tensor class can put off its work; {ADVICE}."));
                }
            }
            "identifier" if HOOKS.contains(&node.text()) => {
                sink.at(node, format!("`{}` changes what operators do to a tensor; {ADVICE}.", node.text()));
            }
            "attribute" => {
                let name = node.field("attribute").map_or("", Node::text);
                if MAKERS.contains(&name) {
                    sink.at(node, format!("`{name}` makes a tensor that is not a plain one; {ADVICE}."));
                }
            }
            "call" => check_call(context, node, sink),
            _ => {}
        }
    }
    for place in context.stores.iter().filter(|place| place.is("attribute")) {
        if place.field("attribute").is_some_and(|name| name.text() == "__class__") {
            sink.at(*place, format!("Assigning to `__class__` changes what an object is; {ADVICE}."));
        }
    }
}

fn is_tensor(context: &Context<'_>, base: Node<'_>) -> bool {
    context.names.any(base, |path| BASES.contains(&path))
}

/// `type("Lazy", (torch.Tensor,), {})` and `setattr(x, "__class__", ...)`.
fn check_call(context: &Context<'_>, call: Node<'_>, sink: &mut Sink<'_>) {
    let second = call.positional().nth(1);
    let makes_class = context.names.calls(call, &["builtins.type", "types.new_class"]);
    if makes_class && second.is_some_and(|bases| bases.children().any(|base| is_tensor(context, base))) {
        sink.at(call, format!("A subclass of the tensor class can put off its work; {ADVICE}."));
    }
    let sets = context.names.calls(call, &["builtins.setattr", "builtins.object.__setattr__"]);
    if sets && second.and_then(|name| context.names.constant(name)).is_some_and(|name| name == "__class__") {
        sink.at(call, format!("Setting `__class__` changes what an object is; {ADVICE}."));
    }
}
