//! Refuses error handling that puts another computation in the place of a failed kernel.
//!
//! ## What it does
//! Looks at every `try`, `contextlib.suppress`, `finally: return` and `__exit__` that the model can reach. A handler is
//! refused if it computes with framework operators, or if it carries on as if nothing had happened after the candidate's
//! own code failed. Guarded imports, look-ups with `except KeyError`, queries of the machine, handlers that raise, clean-up
//! in `finally`, another attempt at building, and skipping a configuration in a tuning loop are left alone. So is a handler
//! that launches the candidate's own kernel again in another way, or turns off a fast launcher before an ordinary launch,
//! where nothing else computes.
//!
//! ## Why is this bad?
//! The kernel that is measured is then not the kernel that was written: it may never have run. A failure must be seen, so
//! that it can be repaired.
//!
//! ## Example
//! ```python
//! try:
//!     return self.lib.softmax(x)
//! except Exception:
//!     return torch.softmax(x, dim=-1)
//! ```
//! Use instead:
//! ```python
//! return self.lib.softmax(x)
//! ```

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::relaunch::Functions;
use crate::resolve::{is_made, within};

/// Makes memory or asks for facts, but computes no result.
const NO_COMPUTATION: &[&str] = &[
    "torch.empty",
    "torch.empty_like",
    "torch.empty_strided",
    "torch.zeros",
    "torch.zeros_like",
    "torch.device",
    "torch.dtype",
    "torch.get_num_threads",
    "torch.is_tensor",
    "torch.finfo",
    "torch.iinfo",
    "torch.library.wrap_triton",
];
const NO_COMPUTATION_IN: &[&str] = &[
    "torch.cuda",
    "torch.xpu",
    "torch.mps",
    "torch.version",
    "torch.utils",
    "torch.backends",
    "torch.Tensor",
    "torch._C",
];
/// Turn source into something callable.
pub(crate) const BUILDERS: &[&str] = &[
    "kforge_rt.build",
    "torch.utils.cpp_extension.load",
    "torch.utils.cpp_extension.load_inline",
    "ctypes.CDLL",
    "ctypes.cdll.LoadLibrary",
    "subprocess.run",
    "subprocess.check_call",
    "subprocess.check_output",
];

/// Methods of containers, strings, files and paths.
const PLAIN_METHODS: &[&str] = &[
    "append",
    "close",
    "exists",
    "format",
    "get",
    "items",
    "keys",
    "mkdir",
    "pop",
    "read",
    "read_text",
    "rmdir",
    "split",
    "stat",
    "strip",
    "touch",
    "unlink",
    "values",
    "write",
    "write_bytes",
    "write_text",
];

const ADVICE: &str = "let the error escape or raise a clear one, and repair the kernel instead";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    let functions = Functions::of(context);
    for node in context.ast.all().filter(|node| context.reach.contains(*node)) {
        match node.kind() {
            "try_statement" => check_try(context, &functions, node, sink),
            "with_statement" => check_suppress(context, node, sink),
            "function_definition" => check_exit(node, sink),
            _ => {}
        }
    }
}

fn check_try<'a>(context: &Context<'a>, functions: &Functions<'a>, statement: Node<'a>, sink: &mut Sink<'_>) {
    let Some(body) = statement.field("body") else { return };
    let works = does_work(context, body);
    for clause in statement.children() {
        if clause.is("finally_clause") {
            if let Some(exit) = clause.own_code().find(|node| node.is("return_statement")) {
                sink.at(exit, format!("`return` in `finally` swallows the error of a failed kernel; {ADVICE}."));
            }
        } else if clause.is_any(&["except_clause", "except_group_clause"]) {
            check_handler(context, functions, works, clause, sink);
        }
    }
}

fn check_handler<'a>(
    context: &Context<'a>,
    functions: &Functions<'a>,
    works: bool,
    clause: Node<'a>,
    sink: &mut Sink<'_>,
) {
    let Some(handler) = clause.children().find(|child| child.is("block")) else { return };
    let Some(statement) = clause.parent() else { return };
    let returns = |block: Node<'_>| block.own_code().any(|node| node.is("return_statement"));
    if always_raises(handler) && !returns(handler) {
        return;
    }
    let replaces = |node: &Node<'_>| is_computation(context, *node) && !functions.is_own_forward(*node);
    if let Some(operator) = handler.own_code().find(replaces) {
        let message = format!(
            "This handler computes with the framework when the kernel failed, which hides a fallback; {ADVICE}."
        );
        sink.at(operator, message);
    } else if works {
        let builds = handler.own_code().any(|node| node.is("call") && context.names.calls(node, BUILDERS));
        let tries_next = !statement.field("body").is_some_and(returns) && !returns(handler) && in_loop(clause);
        if !builds && !tries_next && !functions.relaunches(context, statement, handler) {
            sink.at(
                clause,
                format!(
                    "This handler carries on after the candidate's own code failed, which hides a fallback; {ADVICE}."
                ),
            );
        }
    }
}

fn check_suppress(context: &Context<'_>, statement: Node<'_>, sink: &mut Sink<'_>) {
    let suppresses = statement
        .children()
        .filter(|child| child.is("with_clause"))
        .flat_map(Node::descendants)
        .any(|node| node.is("call") && context.names.calls(node, &["contextlib.suppress"]));
    let Some(body) = statement.field("body").filter(|_| suppresses) else { return };
    let tries_next = in_loop(statement) && !body.own_code().any(|node| node.is("return_statement"));
    if does_work(context, body) && !tries_next {
        sink.at(
            statement,
            format!("`contextlib.suppress` around the candidate's own code hides its failure; {ADVICE}."),
        );
    }
}

/// A context manager of one's own can swallow errors too.
fn check_exit(function: Node<'_>, sink: &mut Sink<'_>) {
    let named = function.field("name").is_some_and(|name| name.text() == "__exit__");
    let swallow =
        function.own_code().find(|node| node.is("return_statement") && node.children().any(|value| value.is("true")));
    if let (true, Some(exit)) = (named, swallow) {
        sink.at(exit, format!("`__exit__` returning True swallows the error of a failed kernel; {ADVICE}."));
    }
}

/// Whether a block runs code of the candidate's own, or builds it: not only imports, look-ups and questions to libraries.
fn does_work(context: &Context<'_>, body: Node<'_>) -> bool {
    body.own_code().filter(|node| node.is("call")).any(|call| {
        let Some(function) = call.field("function") else { return false };
        let paths = context.names.paths(function);
        if paths.is_empty() {
            return !is_builtin_or_lookup(context, function);
        }
        paths.iter().any(|path| BUILDERS.contains(&path.as_str()) || is_own_library(path))
            || is_computation(context, call)
    })
}

/// Functions of a library that the candidate built.
pub(crate) fn is_own_library(path: &str) -> bool {
    is_made(path) && ["kforge_rt", "ctypes", "torch.utils.cpp_extension"].iter().any(|module| within(path, module))
}

/// `len(x)`, `self.cache.get(key)`, `path.unlink()`: names that the file does not define, methods of containers and files.
pub(crate) fn is_builtin_or_lookup(context: &Context<'_>, function: Node<'_>) -> bool {
    match function.kind() {
        "identifier" => context.names.scopes.values(function).is_empty(),
        "attribute" => function.field("attribute").is_some_and(|name| PLAIN_METHODS.contains(&name.text())),
        _ => false,
    }
}

/// A function of the framework that makes memory or asks for facts.
pub(crate) fn computes_nothing(path: &str) -> bool {
    NO_COMPUTATION.contains(&path) || NO_COMPUTATION_IN.iter().any(|module| within(path, module))
}

pub(crate) fn is_computation(context: &Context<'_>, node: Node<'_>) -> bool {
    if node.is("binary_operator") {
        return node.field("operator").is_some_and(|operator| operator.is("@"));
    }
    let Some(function) = node.is("call").then(|| node.field("function")).flatten() else { return false };
    if context.names.any(function, |path| within(path, "torch") && !is_made(path) && !computes_nothing(path)) {
        return true;
    }
    // `super().forward(x)` and `Reference.forward(self, x)` are the framework's way of computing it.
    function.is("attribute")
        && function.field("attribute").is_some_and(|name| ["forward", "matmul", "mm", "bmm"].contains(&name.text()))
}

/// Whether a block cannot be left but by raising, as far as its last statement shows.
fn always_raises(block: Node<'_>) -> bool {
    let mut open = vec![block];
    while let Some(block) = open.pop() {
        let Some(last) = block.children().last() else { return false };
        match last.kind() {
            "raise_statement" => {}
            "if_statement" => {
                let before = open.len();
                open.extend(last.fields("consequence"));
                let branches = last.fields("alternative");
                let mut has_else = false;
                for branch in branches {
                    has_else |= branch.is("else_clause");
                    open.extend(branch.field("body").or_else(|| branch.field("consequence")));
                }
                if !has_else || open.len() == before {
                    return false;
                }
            }
            "with_statement" => open.extend(last.field("body")),
            _ => return false,
        }
    }
    true
}

/// Whether a statement lies in a loop of its own function: tuning skips configurations that fail.
fn in_loop(node: Node<'_>) -> bool {
    node.ancestors()
        .take_while(|up| !up.is_any(&["function_definition", "lambda", "class_definition"]))
        .any(|up| up.is_any(&["for_statement", "while_statement"]))
}
