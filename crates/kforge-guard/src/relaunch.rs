//! Whether code that runs in the place of a failed call launches a kernel of the candidate's own again, and nothing else.
//!
//! Everything that is called must be known: such a kernel, a function of the file (which is followed), a question about
//! sizes, or memory that is made. What is unknown could be the framework's way to compute the result.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::Node;
use crate::context::Context;
use crate::resolve::within;
use crate::rules::hidden_fallback::{computes_nothing, is_builtin_or_lookup, is_computation, is_own_library};

/// Code that is looked at for one handler; what is longer is not followed to its end.
const MOST_NODES: usize = 20_000;
/// Modules whose functions compute no tensor.
const HARMLESS: &[&str] = &["triton", "math", "warnings", "logging", "functools"];
/// Methods of tensors that compute nothing.
const OF_TENSORS: &[&str] = &[
    "contiguous",
    "data_ptr",
    "detach",
    "dim",
    "element_size",
    "is_contiguous",
    "new_empty",
    "numel",
    "reshape",
    "size",
    "stride",
    "view",
];

/// The functions of a file by name, but for names that something else is assigned to.
pub(crate) struct Functions<'a>(BTreeMap<&'a str, Vec<Node<'a>>>);

impl<'a> Functions<'a> {
    pub(crate) fn of(context: &Context<'a>) -> Self {
        let mut found: BTreeMap<&str, Vec<Node<'_>>> = BTreeMap::new();
        for function in context.of_kind("function_definition") {
            if let Some(name) = function.field("name") {
                found.entry(name.text()).or_default().push(function);
            }
        }
        for place in &context.stores {
            let name = if place.is("attribute") { place.field("attribute") } else { Some(*place) };
            name.and_then(|name| found.remove(name.text()));
        }
        Self(found)
    }

    /// Whether `handler`, or what follows its statement where it only sets flags, launches an own kernel and calls nothing else
    /// that could compute.
    pub(crate) fn relaunches(&self, context: &Context<'a>, statement: Node<'a>, handler: Node<'a>) -> bool {
        let Some(launched) = self.kernels_of(context, statement, handler.own_code()) else { return false };
        if !launched.is_empty() {
            // Not just any kernel: one that the failed call may have launched, since it is mentioned elsewhere too.
            return launched.iter().all(|name| is_mentioned_outside(context, handler, name));
        }
        if !only_sets_flags(handler) {
            return false;
        }
        // What follows in the same function is then what runs instead.
        let function = statement.ancestors().find(|up| up.is("function_definition"));
        let Some(body) = function.and_then(|function| function.field("body")) else { return false };
        let end = statement.start() + statement.text().len();
        let rest = body.own_code().filter(|node| node.start() >= end);
        self.kernels_of(context, statement, rest).is_some_and(|launched| !launched.is_empty())
    }

    /// The kernels that some code launches, functions of the file followed; nothing where it may compute otherwise. What was
    /// tried and failed does not count, where code calls its own function again.
    fn kernels_of(
        &self,
        context: &Context<'a>,
        statement: Node<'a>,
        code: impl Iterator<Item = Node<'a>>,
    ) -> Option<BTreeSet<&'a str>> {
        let tried = statement.field("body");
        let mut launched = BTreeSet::new();
        let mut followed = BTreeSet::new();
        let mut open: Vec<Node<'a>> = code.take(MOST_NODES + 1).collect();
        let mut seen = 0;
        while let Some(node) = open.pop() {
            if tried.is_some_and(|tried| tried.contains(node)) {
                continue;
            }
            seen += 1;
            let is_forward = self.is_own_forward(node);
            if seen > MOST_NODES || (is_computation(context, node) && !is_forward) {
                return None;
            }
            let Some(function) = node.is("call").then(|| node.field("function")).flatten() else { continue };
            if let Some(name) = kernel(context, self, node) {
                launched.insert(name);
            } else if let Some(own) = self.own(function) {
                for definition in own.iter().filter(|definition| followed.insert(definition.id())) {
                    open.extend(definition.field("body").into_iter().flat_map(Node::own_code).take(MOST_NODES));
                }
            } else if !is_harmless(context, function) {
                return None;
            }
        }
        Some(launched)
    }

    /// What a call by a name of the file, or by one of the model's own methods, runs.
    fn own(&self, function: Node<'_>) -> Option<&Vec<Node<'a>>> {
        let name = match function.kind() {
            "identifier" => function.text(),
            "attribute" if function.field("object").is_some_and(|object| object.text() == "self") => {
                function.field("attribute")?.text()
            }
            _ => return None,
        };
        self.0.get(name)
    }

    /// `self.forward(x)`: the model's own, which the file defines.
    pub(crate) fn is_own_forward(&self, node: Node<'_>) -> bool {
        let function = node.is("call").then(|| node.field("function")).flatten();
        function.is_some_and(|function| function.text() == "self.forward" && self.own(function).is_some())
    }
}

fn is_mentioned_outside(context: &Context<'_>, handler: Node<'_>, name: &str) -> bool {
    let defines =
        |node: Node<'_>| node.role() == "name" && node.parent().is_some_and(|up| up.is("function_definition"));
    context.of_kind("identifier").any(|node| node.text() == name && !handler.contains(node) && !defines(node))
}

/// The name of the kernel that a call launches: `kernel[grid](...)`, `wrap_triton(kernel)[grid](...)`, `lib.kernel(...)`.
fn kernel<'a>(context: &Context<'a>, functions: &Functions<'a>, call: Node<'a>) -> Option<&'a str> {
    let function = call.field("function")?;
    if context.names.any(function, is_own_library) {
        return function.field("attribute").or(Some(function)).map(Node::text);
    }
    let mut launched = function.is("subscript").then(|| function.field("value")).flatten()?;
    if launched.is("call")
        && context.names.calls(launched, &["torch.library.wrap_triton", "torch._library.capture_triton"])
    {
        launched = launched.positional().next()?;
    }
    let is_jitted = |definition: &Node<'_>| {
        definition.parent().filter(|up| up.is("decorated_definition")).is_some_and(|decorated| {
            decorated.children().filter(|child| child.is("decorator")).any(|decorator| {
                let named = decorator.children().next().map(Node::unwrapped);
                let named = named.and_then(|node| if node.is("call") { node.field("function") } else { Some(node) });
                named.is_some_and(|node| context.names.any(node, |path| within(path, "triton")))
            })
        })
    };
    let definitions = launched.is("identifier").then(|| functions.0.get(launched.text())).flatten()?;
    definitions.iter().all(is_jitted).then(|| launched.text())
}

/// `self.fast = False`, with a warning at the most: nothing is computed here, and nothing is returned.
fn only_sets_flags(handler: Node<'_>) -> bool {
    let plain = ["true", "false", "none", "integer", "string"];
    let sets = |statement: Node<'_>| {
        let inner = statement.is("expression_statement").then(|| statement.children().next()).flatten();
        inner.is_some_and(|node| node.is("assignment") && node.field("right").is_some_and(|value| value.is_any(&plain)))
    };
    let harmless =
        |statement: Node<'_>| statement.is_any(&["pass_statement", "global_statement", "nonlocal_statement"]);
    handler.children().any(sets) && handler.children().all(|statement| sets(statement) || harmless(statement))
}

fn is_harmless(context: &Context<'_>, function: Node<'_>) -> bool {
    let paths = context.names.paths(function);
    if paths.is_empty() {
        let of_tensor = function.field("attribute").is_some_and(|name| OF_TENSORS.contains(&name.text()));
        return of_tensor || is_builtin_or_lookup(context, function);
    }
    paths.iter().all(|path| {
        computes_nothing(path)
            || within(path, "builtins")
            || HARMLESS.iter().any(|module| within(path, module))
            || path.rsplit('.').next().is_some_and(|name| within(path, "torch.Tensor") && OF_TENSORS.contains(&name))
    })
}
