//! Refuses to look into other frames, other objects and other processes.
//!
//! ## What it does
//! Looks for walks over the stack (`sys._getframe`, `inspect.stack`, `tb_frame`, `f_back`), over the heap
//! (`gc.get_objects`, `__subclasses__`), into raw addresses (`ctypes.pythonapi`, `from_address` of something else than a
//! tensor's `data_ptr()`), into `/proc` and `/dev/shm`, for imports of `__main__` or of the harness, for walks over
//! `sys.modules`, and for private members and modules of `kforge_rt`. One module by its name, `sys.modules["torch"]` or
//! `sys.modules[__name__]`, is fine.
//!
//! ## Why is this bad?
//! A kernel needs its arguments and nothing else. Who looks around is looking for the expected result or for the clock.
//!
//! ## Example
//! ```python
//! expected = sys._getframe(1).f_locals["expected"]
//! ```
//! Use instead: compute the result from the arguments of `forward`.

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::resolve::{is_made, within};
use crate::scope::Value;

const FUNCTIONS: &[&str] = &[
    "gc.get_objects",
    "gc.get_referrers",
    "gc.get_referents",
    "sys._getframe",
    "sys._current_frames",
    "sys._getframemodulename",
    "sys.settrace",
    "sys.setprofile",
    "sys.addaudithook",
    "threading.settrace",
    "threading.setprofile",
    "inspect.stack",
    "inspect.trace",
    "inspect.currentframe",
    "inspect.getframeinfo",
    "inspect.getouterframes",
    "inspect.getinnerframes",
    "traceback.walk_stack",
    "traceback.walk_tb",
    "traceback.extract_stack",
    "ctypes.pythonapi",
];
const MODULES: &[&str] = &["__main__", "kforge_harness", "_ctypes", "tracemalloc"];
const ATTRIBUTES: &[&str] = &[
    "tb_frame",
    "tb_next",
    "f_locals",
    "f_globals",
    "f_back",
    "f_builtins",
    "gi_frame",
    "cr_frame",
    "__subclasses__",
    "__globals__",
];
const PRIVATE_FILES: &[&str] = &["/proc", "/dev/shm", "/dev/mem", "/dev/fd"];
/// Facts about the machine that tuned kernels ask for.
const PUBLIC_FILES: &[&str] = &["/proc/cpuinfo", "/proc/meminfo"];

const ADVICE: &str = "compute the result from the arguments of `forward` alone";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for import in context.imports() {
        if MODULES.iter().any(|module| within(&import.path, module)) {
            sink.at(import.node, format!("`{}` is not for candidates; {ADVICE}.", import.path));
        } else if FUNCTIONS.contains(&import.path.as_str()) || private_of_runtime(&import.path).is_some() {
            sink.at(import.node, format!("`{}` looks outside the candidate; {ADVICE}.", import.path));
        }
    }
    for (node, path) in context.references() {
        if FUNCTIONS.contains(&path) || MODULES.contains(&path) || is_inside_of_runtime(path) {
            sink.at(node, format!("`{path}` looks outside the candidate; {ADVICE}."));
        }
    }
    for node in context.ast.all() {
        if matches!(node.kind(), "attribute" | "identifier") && is_walk_over_modules(context, node) {
            sink.at(node, format!("`sys.modules` shows what others have loaded; {ADVICE}."));
        }
        match node.kind() {
            "attribute" => check_attribute(node, sink),
            "string" | "concatenated_string" | "binary_operator" => check_file(context, node, sink),
            "call" => check_call(context, node, sink),
            _ => {}
        }
    }
}

/// What follows `kforge_rt._`: members and modules of the runtime that begin so are its own, such as the marks of an audit.
fn private_of_runtime(path: &str) -> Option<&str> {
    path.strip_prefix("kforge_rt._").filter(|rest| !rest.starts_with('_'))
}

/// The reference itself; what is asked of it, such as `kforge_rt._Audit.launches`, is not a second finding.
fn is_inside_of_runtime(path: &str) -> bool {
    private_of_runtime(path).is_some_and(|rest| !rest.contains('.') && !is_made(path))
}

/// Any use of the table of modules but asking for one by a name that can be read.
fn is_walk_over_modules(context: &Context<'_>, node: Node<'_>) -> bool {
    let Some(parent) = node.parent() else { return false };
    let import = ["import_statement", "import_from_statement", "dotted_name", "aliased_import"];
    if !context.names.is(node, "sys.modules") || parent.is_any(&import) {
        return false;
    }
    let can_be_read = |key: Option<Node<'_>>| {
        key.is_some_and(|key| key.text() == "__name__" || context.names.constant(key).is_some())
    };
    match parent.kind() {
        // The last name of `sys.modules` itself.
        "attribute" if parent.field("attribute") == Some(node) => false,
        "subscript" => !can_be_read(parent.field("subscript")),
        "comparison_operator" => parent.field("operators").is_none_or(|operator| !operator.text().contains("in")),
        "attribute" => {
            let called = parent.parent().filter(|call| call.is("call"));
            let member = parent.field("attribute").map(Node::text);
            // What changes the table is the business of `monkey_patch`.
            let fine = ["get", "pop", "setdefault", "update", "clear"].contains(&member.unwrap_or_default());
            !fine || (member == Some("get") && !can_be_read(called.and_then(|call| call.positional().next())))
        }
        _ => true,
    }
}

fn check_attribute(node: Node<'_>, sink: &mut Sink<'_>) {
    if let Some(name) = node.field("attribute").map(Node::text).filter(|name| ATTRIBUTES.contains(name)) {
        sink.at(node, format!("`{name}` looks into what the candidate was not given; {ADVICE}."));
    }
}

/// A path is one wherever it is written, except in documentation.
fn check_file(context: &Context<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    if node.parent().is_some_and(|parent| parent.is("expression_statement")) {
        return;
    }
    let Some(path) = crate::text::prefix(node, &context.names.scopes) else { return };
    let path = path.trim();
    if path.lines().nth(1).is_none() && is_private_file(path) {
        let shown: String = path.chars().take(60).collect();
        sink.at(node, format!("`{shown}` holds the state of processes, not input; {ADVICE}."));
    }
}

pub(crate) fn is_private_file(path: &str) -> bool {
    let below = |folder: &&str| path.strip_prefix(*folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    PRIVATE_FILES.iter().any(below) && !PUBLIC_FILES.contains(&path)
}

fn check_call(context: &Context<'_>, call: Node<'_>, sink: &mut Sink<'_>) {
    let Some(function) = call.field("function") else { return };
    let named = function.field("attribute").is_some_and(|name| name.text() == "from_address");
    if function.is("attribute") && named && !call.positional().any(|address| is_data_pointer(context, address)) {
        sink.at(call, format!("`from_address` reads memory that the candidate was not given; use a tensor's `data_ptr()`, and {ADVICE}."));
    }
    if context.names.calls(call, &["builtins.getattr"]) {
        let name = call.positional().nth(1).and_then(|name| context.names.constant(name));
        if let Some(name) = name.filter(|name| ATTRIBUTES.contains(&name.as_str())) {
            sink.at(call, format!("`{name}` looks into what the candidate was not given; {ADVICE}."));
        }
    }
}

fn is_data_pointer(context: &Context<'_>, address: Node<'_>) -> bool {
    let mentions =
        |node: Node<'_>| node.subtree().take(256).any(|part| part.is("identifier") && part.text() == "data_ptr");
    let bound = |name: Node<'_>| {
        context
            .names
            .scopes
            .values(name)
            .iter()
            .any(|value| matches!(value, Value::Expr(expression) if mentions(*expression)))
    };
    address.subtree().take(256).any(|part| part.is("identifier") && (part.text() == "data_ptr" || bound(part)))
}
