//! Refuses environment variables that are none of a kernel's business.
//!
//! ## What it does
//! Lets a candidate read what compilers, thread pools and caches are set up with (`CXX`, `CUDA_HOME`, `OMP_NUM_THREADS`,
//! `TRITON_*`, `KFORGE_BUILD_DIR` and the like) and write what its own build needs (`TORCH_EXTENSIONS_DIR`, `TRITON_*`,
//! `CUDA_*`, `TORCH_CUDA_ARCH_LIST`, `MAX_JOBS`, a compiler in `CXX` or `CC`). Passing a copy of the environment to a
//! compiler is fine. All else is refused.
//!
//! ## Why is this bad?
//! Other variables tell how the candidate is being run, or change how others run.
//!
//! ## Example
//! ```python
//! os.environ["NVIDIA_TF32_OVERRIDE"] = "1"
//! ```
//! Use instead: write a kernel that is fast in the precision that the problem asks for.

use crate::ast::Node;
use crate::command;
use crate::context::{Context, Sink};

const READABLE: &[&str] = &[
    "CC",
    "CFLAGS",
    "CPATH",
    "CUDACXX",
    "CXX",
    "CXXFLAGS",
    "HIPCC",
    "KFORGE_BUILD_DIR",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "MAX_JOBS",
    "MKL_NUM_THREADS",
    "NVCC",
    "PATH",
    "TEMP",
    "TMP",
    "TMPDIR",
    "TORCH_CUDA_ARCH_LIST",
    "TORCH_EXTENSIONS_DIR",
    "XDG_CACHE_HOME",
];
const READABLE_STARTS: &[&str] = &["CUDA_", "HIP_", "OMP_", "ROCM_", "TORCHINDUCTOR_", "TRITON_"];
const WRITABLE: &[&str] = &["MAX_JOBS", "TORCH_CUDA_ARCH_LIST", "TORCH_EXTENSIONS_DIR"];
const WRITABLE_STARTS: &[&str] = &["CUDA_", "TRITON_"];

const READ_ADVICE: &str = "decide by the arguments and the device, not by how the candidate is run";
const WRITE_ADVICE: &str = "pass options to the build or to the kernel instead";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for node in context.ast.all() {
        match node.kind() {
            "call" => check_call(context, node, sink),
            "subscript" if !context.is_store(node) && reads_copy(context, node) => {
                let key = node.field("subscript").and_then(|key| context.names.constant(key));
                read(node, key, sink);
            }
            "identifier" | "attribute" if is_environment(context, node) => check_use(context, node, sink),
            _ => {}
        }
    }
}

fn is_environment(context: &Context<'_>, node: Node<'_>) -> bool {
    context.names.any(node, |path| ["os.environ", "os.environb"].contains(&path))
}

fn reads_copy(context: &Context<'_>, node: Node<'_>) -> bool {
    node.field("value").is_some_and(|value| context.names.is(value, "os.environ.copy()"))
}

fn check_call(context: &Context<'_>, call: Node<'_>, sink: &mut Sink<'_>) {
    let names = &context.names;
    let key = call.positional().next().and_then(|key| names.constant(key));
    let copies = ["os.environ.copy().get", "os.environ.get", "os.environ.__getitem__", "os.getenv", "os.getenvb"];
    let writes = ["os.environ.setdefault", "os.environ.pop", "os.environ.__setitem__", "os.putenv", "os.unsetenv"];
    if names.calls(call, &copies) {
        read(call, key, sink);
    } else if names.calls(call, &writes) {
        write(context, call, key, call.positional().nth(1), sink);
    } else if names.calls(call, &["os.environ.update", "os.environ.clear"]) {
        update(context, call, sink);
    }
}

/// `update` shows its keys as keywords or in a dictionary; `clear` shows none.
fn update(context: &Context<'_>, call: Node<'_>, sink: &mut Sink<'_>) {
    let arguments: Vec<Node<'_>> = call.field("arguments").into_iter().flat_map(Node::children).collect();
    if arguments.is_empty() {
        return write(context, call, None, None, sink);
    }
    for argument in arguments {
        if argument.is("keyword_argument") {
            let key = argument.field("name").map(|name| name.text().to_owned());
            write(context, argument, key, argument.field("value"), sink);
        } else if argument.is("dictionary") {
            for pair in argument.children() {
                let key = pair.field("key").and_then(|key| context.names.constant(key));
                write(context, pair, key, pair.field("value"), sink);
            }
        } else {
            write(context, argument, None, None, sink);
        }
    }
}

fn check_use(context: &Context<'_>, node: Node<'_>, sink: &mut Sink<'_>) {
    let Some(parent) = node.parent() else { return };
    match (parent.kind(), node.role()) {
        ("subscript", "value") => {
            let key = parent.field("subscript").and_then(|key| context.names.constant(key));
            if context.is_store(parent) {
                let value = parent.parent().and_then(|statement| statement.field("right"));
                write(context, parent, key, value, sink);
            } else {
                read(parent, key, sink);
            }
        }
        ("attribute", "object") => {
            // Methods with a key are looked at as calls; the rest shows everything.
            let method = parent.field("attribute").map_or("", Node::text);
            let keyed = ["get", "setdefault", "pop", "update", "clear", "copy", "__getitem__", "__setitem__"];
            if !keyed.contains(&method) {
                read(parent, None, sink);
            }
        }
        ("comparison_operator", _) => {
            let key = parent.children().next().and_then(|key| context.names.constant(key));
            read(parent, key, sink);
        }
        // Aliases are followed, and copies go to compilers.
        ("assignment" | "dictionary_splat" | "keyword_argument", _) => {}
        ("argument_list", _) if parent.parent().is_some_and(|call| context.names.calls(call, &["builtins.dict"])) => {}
        _ => read(node, None, sink),
    }
}

fn read(node: Node<'_>, key: Option<String>, sink: &mut Sink<'_>) {
    match key {
        Some(key) if READABLE.contains(&key.as_str()) || READABLE_STARTS.iter().any(|start| key.starts_with(start)) => {
        }
        Some(key) => {
            sink.at(node, format!("The environment variable `{key}` is not for candidates to read; {READ_ADVICE}."));
        }
        None => sink.at(node, format!("Reading environment variables without naming them is refused; {READ_ADVICE}.")),
    }
}

fn write(context: &Context<'_>, node: Node<'_>, key: Option<String>, value: Option<Node<'_>>, sink: &mut Sink<'_>) {
    let Some(key) = key else {
        return sink.at(node, format!("Writing environment variables without naming them is refused; {WRITE_ADVICE}."));
    };
    let compiler = ["CC", "CXX"].contains(&key.as_str())
        && value.is_some_and(|value| command::names_compiler(&context.names, value));
    let writable = WRITABLE.contains(&key.as_str()) || WRITABLE_STARTS.iter().any(|start| key.starts_with(start));
    if !compiler && !writable {
        sink.at(node, format!("Writing the environment variable `{key}` changes how others run; {WRITE_ADVICE}."));
    }
}
