//! Refuses to change modules, classes and functions that the candidate did not define.
//!
//! ## What it does
//! Looks for assignments to, and deletions of, members of anything imported or built in: by attribute, by `setattr`, through
//! `__dict__`, `vars` and `sys.modules`, by replacing `__code__`, or by `mock.patch`. Members of the candidate's own objects
//! are its own business, and so are `argtypes` and `restype` of a loaded library.
//!
//! ## Why is this bad?
//! A patched clock, comparison or operator changes what everybody else in the process sees.
//!
//! ## Example
//! ```python
//! torch.nn.functional.softmax = fast_softmax
//! ```
//! Use instead:
//! ```python
//! class ModelNew(nn.Module):
//!     def forward(self, x):
//!         return fast_softmax(x)
//! ```

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::resolve::{is_made, within};

/// Settings of foreign functions, set on each function that a candidate loads.
const SIGNATURES: &[&str] = &["argtypes", "restype", "errcheck"];
/// The parts of a function that decide what it does.
const INSIDES: &[&str] = &["__code__", "__defaults__", "__kwdefaults__", "__closure__"];
const CHANGERS: &[&str] =
    &["update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__", "insert", "append", "extend"];

const ADVICE: &str = "define your own function or class and call that";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for place in &context.stores {
        match place.kind() {
            "attribute" => check_attribute(context, *place, sink),
            "subscript" => check_element(context, *place, sink),
            _ => {}
        }
    }
    // The grammar takes `type(x).__add__ = f` for a type alias, which has a plain name on its left.
    for alias in context.of_kind("type_alias_statement") {
        let target = alias.field("left").and_then(|left| left.children().next());
        let Some(target) = target.filter(|target| !target.is_any(&["identifier", "generic_type"])) else { continue };
        if target
            .subtree()
            .find(|node| node.is("identifier"))
            .is_none_or(|name| !["self", "cls"].contains(&name.text()))
        {
            sink.at(
                alias,
                format!("Assigning to a member of a value's type changes the type for everybody; {ADVICE}."),
            );
        }
    }
    for call in context.of_kind("call") {
        check_call(context, call, sink);
    }
}

fn check_attribute(context: &Context<'_>, place: Node<'_>, sink: &mut Sink<'_>) {
    let (Some(object), Some(name)) = (place.field("object"), place.field("attribute")) else { return };
    let name = name.text();
    if INSIDES.contains(&name) {
        sink.at(place, format!("Replacing `{name}` changes a function behind its name; {ADVICE}."));
    } else if SIGNATURES.contains(&name) || name == "__class__" {
        // The first is honest, the second has a rule of its own.
    } else if let Some(path) = foreign(context, object) {
        sink.at(
            place,
            format!("Assigning to `{path}.{name}` changes something that the candidate did not define; {ADVICE}."),
        );
    } else if is_foreign_type(context, object) {
        sink.at(place, format!("Assigning to `{name}` of a value's type changes the type for everybody; {ADVICE}."));
    }
}

/// The path of something imported that is neither an object made by the candidate nor a switch with its own rule.
fn foreign<'c>(context: &'c Context<'_>, object: Node<'_>) -> Option<&'c str> {
    let own_rule = |path: &str| {
        within(path, "torch.backends") || within(path, "torch._inductor.config") || within(path, "torch._dynamo.config")
    };
    let paths = context.names.paths(object).iter().map(String::as_str);
    paths.filter(|path| !is_made(path) && !own_rule(path)).min_by_key(|path| path.len())
}

/// `type(x)` and `x.__class__`, unless x is `self`: a class may keep things on itself.
fn is_foreign_type(context: &Context<'_>, object: Node<'_>) -> bool {
    let object = object.unwrapped();
    let inner = match object.kind() {
        "call" if context.names.calls(object, &["builtins.type"]) => object.positional().next(),
        "attribute" if object.field("attribute").is_some_and(|name| name.text() == "__class__") => {
            object.field("object")
        }
        _ => None,
    };
    inner.is_some_and(|inner| !["self", "cls"].contains(&inner.text()))
}

fn check_element(context: &Context<'_>, place: Node<'_>, sink: &mut Sink<'_>) {
    let Some(value) = place.field("value") else { return };
    if let Some(path) = context.names.paths(value).iter().find(|path| is_namespace(path)) {
        sink.at(place, format!("Writing into `{path}` changes something that the candidate did not define; {ADVICE}."));
    }
}

fn is_namespace(path: &str) -> bool {
    let whole = ["sys.modules", "builtins", "sys.meta_path", "sys.path_hooks", "sys.path_importer_cache"];
    whole.contains(&path) || (path.ends_with(".__dict__") && !is_made(path))
}

fn check_call(context: &Context<'_>, call: Node<'_>, sink: &mut Sink<'_>) {
    let names = &context.names;
    let Some(function) = call.field("function") else { return };
    let setters = [
        "builtins.setattr",
        "builtins.delattr",
        "builtins.object.__setattr__",
        "builtins.type.__setattr__",
        "builtins.object.__delattr__",
        "builtins.type.__delattr__",
    ];
    if names.calls(call, &setters) {
        let mut arguments = call.positional();
        let object = arguments.next();
        let name = arguments.next().and_then(|name| names.constant(name));
        let name = name.as_deref().unwrap_or("...");
        if SIGNATURES.contains(&name) || name == "__class__" {
            return;
        }
        if INSIDES.contains(&name) {
            sink.at(call, format!("Replacing `{name}` changes a function behind its name; {ADVICE}."));
        } else if let Some(path) = object.and_then(|object| foreign(context, object)) {
            sink.at(
                call,
                format!("Setting `{path}.{name}` changes something that the candidate did not define; {ADVICE}."),
            );
        } else if object.is_some_and(|object| is_foreign_type(context, object)) {
            sink.at(call, format!("Setting `{name}` of a value's type changes the type for everybody; {ADVICE}."));
        }
        return;
    }
    for path in names.paths(function) {
        let (owner, method) = path.rsplit_once('.').unwrap_or(("", path));
        let patches = within(path, "unittest.mock") || within(path, "mock") || path == "importlib.reload";
        let set_on_module = ["__setattr__", "__delattr__"].contains(&method) && !is_made(owner) && !owner.is_empty();
        let overrides = path == "torch.library.Library"
            && call.positional().next().and_then(|name| names.constant(name)).is_some_and(|name| name == "aten");
        if patches || set_on_module || overrides || (is_namespace(owner) && CHANGERS.contains(&method)) {
            sink.at(call, format!("Calling `{path}` changes something that the candidate did not define; {ADVICE}."));
        }
    }
}
