//! Refuses Python that cannot be read before it runs.
//!
//! ## What it does
//! Looks for `exec`, `eval`, `compile`, unpickling, `marshal`, code objects made by hand, imports whose name is not a literal,
//! `getattr` with a computed name on modules such as `os`, and identifiers written in look-alike characters that Python
//! reads as ASCII. Compiling native code from a string is what candidates are for, and importing the `.so` that was built
//! is fine.
//!
//! ## Why is this bad?
//! What is put together at run time escapes every other rule, and a kernel never needs it.
//!
//! ## Example
//! ```python
//! exec(base64.b64decode(payload))
//! ```
//! Use instead: write the code itself.

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::resolve::{shown, within};
use crate::scope::Value;

const FUNCTIONS: &[&str] = &[
    "builtins.exec",
    "builtins.eval",
    "builtins.compile",
    "builtins.__loader__",
    "builtins.__spec__",
    "builtins[]",
    "types.FunctionType",
    "types.CodeType",
    "types.LambdaType",
    "marshal.load",
    "marshal.loads",
    "pickle.load",
    "pickle.loads",
    "pickle.Unpickler",
    "importlib.machinery.SourceFileLoader",
    "importlib.machinery.SourcelessFileLoader",
    "importlib.util.spec_from_loader",
    "zipimport.zipimporter",
];
const MODULES: &[&str] = &["_pickle", "cloudpickle", "codeop", "dill", "marshal", "runpy", "zipimport"];
/// Modules on which a computed member name can mean anything.
const GUARDED: &[&str] = &["builtins", "gc", "importlib", "inspect", "os", "subprocess", "sys"];

const ADVICE: &str = "write the code itself into the file";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for import in context.imports() {
        let path = import.path.as_str();
        if MODULES.iter().any(|module| within(path, module)) || FUNCTIONS.contains(&path) {
            sink.at(import.node, format!("`{path}` runs code that cannot be read beforehand; {ADVICE}."));
        }
    }
    for (node, path) in context.references() {
        if FUNCTIONS.contains(&path) {
            sink.at(node, format!("`{}` runs code that cannot be read beforehand; {ADVICE}.", shown(path)));
        }
    }
    for node in context.ast.all() {
        match node.kind() {
            "call" => check_call(context, node, sink),
            "exec_statement" => sink.at(node, format!("`exec` runs code that cannot be read beforehand; {ADVICE}.")),
            "identifier" if node.text().chars().any(reads_as_ascii) => {
                sink.at(
                    node,
                    format!(
                        "`{}` is spelled in characters that Python reads as ASCII; write plain letters.",
                        node.text()
                    ),
                );
            }
            _ => {}
        }
    }
}

fn check_call(context: &Context<'_>, call: Node<'_>, sink: &mut Sink<'_>) {
    let names = &context.names;
    let constant = |i: usize| call.positional().nth(i).and_then(|argument| names.constant(argument));
    let importers = ["builtins.__import__", "importlib.import_module", "importlib.__import__"];
    if names.calls(call, &importers) && constant(0).is_none() {
        sink.at(
            call,
            "An import whose name is computed cannot be read beforehand; name the module in an import statement.",
        );
    }
    let from_file = ["importlib.util.spec_from_file_location", "importlib.machinery.ExtensionFileLoader"];
    if names.calls(call, &from_file) && !call.positional().skip(1).any(|path| is_shared_library(context, path)) {
        sink.at(call, "Importing a file that was written at run time cannot be read beforehand; load a `.so`, or use `kforge_rt.build`.");
    }
    if names.calls(call, &["builtins.getattr"]) && constant(1).is_none() {
        let module = call
            .positional()
            .next()
            .and_then(|object| names.paths(object).iter().find(|path| GUARDED.contains(&path.as_str())));
        if let Some(module) = module {
            sink.at(call, format!("A computed member of `{module}` cannot be read beforehand; write its name."));
        }
    }
}

/// Whether `.so` is written in the expression or where its names are bound.
fn is_shared_library(context: &Context<'_>, path: Node<'_>) -> bool {
    let shows = |node: Node<'_>| {
        node.subtree().take(256).any(|part| part.is("string_content") && part.text().rsplit('.').next() == Some("so"))
    };
    let bound = |name: Node<'_>| {
        context
            .names
            .scopes
            .values(name)
            .iter()
            .any(|value| matches!(value, Value::Expr(expression) if shows(*expression)))
    };
    shows(path) || path.subtree().take(256).any(|part| part.is("identifier") && bound(part))
}

/// Characters that Python's normalisation of identifiers turns into ASCII letters. Greek and other scripts stay themselves.
fn reads_as_ascii(c: char) -> bool {
    matches!(c,
        '\u{aa}' | '\u{ba}' | '\u{17f}' | '\u{2b0}'..='\u{2b8}' | '\u{2e1}'..='\u{2e3}'
        | '\u{1d2c}'..='\u{1d6a}' | '\u{2071}' | '\u{207f}' | '\u{2090}'..='\u{209c}' | '\u{2100}'..='\u{2188}'
        | '\u{2c7c}' | '\u{2c7d}' | '\u{fb00}'..='\u{fb06}' | '\u{ff10}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d6a5}' | '\u{1d7ce}'..='\u{1d7ff}')
}
