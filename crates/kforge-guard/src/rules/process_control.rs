//! Refuses to start, stop or signal processes.
//!
//! ## What it does
//! Looks for `multiprocessing`, `signal`, `atexit`, `os.fork`, `os.kill`, `os.system`, `sys.exit` and their kin, for the
//! same functions taken out of the C library with `ctypes`, and for `subprocess`. One use of `subprocess` is honest and
//! passes: running a compiler, given as a list that begins with its name (`g++`, `clang++`, `nvcc`, `shutil.which("g++")`,
//! `os.environ.get("CXX", "g++")`), without a shell.
//!
//! ## Why is this bad?
//! Work in another process is not measured, an early exit cheats whoever waits for an answer, and a signal handler or an
//! exit hook runs when nobody expects it.
//!
//! ## Example
//! ```python
//! os.system("g++ -shared kernel.cpp -o kernel.so")
//! ```
//! Use instead:
//! ```python
//! lib = kforge_rt.build(SOURCE)
//! ```

use crate::ast::Node;
use crate::command;
use crate::context::{Context, Sink};
use crate::resolve::{is_made, shown, within};
use crate::rules::native_escape;

const MODULES: &[&str] =
    &["multiprocessing", "signal", "atexit", "pty", "_posixsubprocess", "psutil", "pexpect", "faulthandler"];
const FUNCTIONS: &[&str] = &[
    "os.abort",
    "os._exit",
    "os.closerange",
    "os.dup2",
    "os.fork",
    "os.forkpty",
    "os.kill",
    "os.killpg",
    "os.popen",
    "os.posix_spawn",
    "os.posix_spawnp",
    "os.setpgid",
    "os.setsid",
    "os.startfile",
    "os.system",
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
    "concurrent.futures.ProcessPoolExecutor",
    "builtins.exit",
    "builtins.quit",
    "sys.exit",
];
const RUNNERS: &[&str] = &["run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput"];

const ADVICE: &str = "compute in this process, and compile with `kforge_rt.build` or a plain compiler command";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for import in context.imports() {
        let path = import.path.as_str();
        if MODULES.iter().any(|module| within(path, module)) || is_control(path) {
            sink.at(import.node, format!("`{path}` controls processes; {ADVICE}."));
        }
    }
    for (node, path) in context.references() {
        if is_control(path) || within(path, "multiprocessing") || is_native_control(path) {
            sink.at(node, format!("`{}` controls processes; {ADVICE}.", shown(path)));
        } else if is_runner(path) && !is_alias(node) && !is_compiling(context, node) {
            sink.at(node, format!("`{path}` may only run a compiler, as a list that begins with its name and without a shell; {ADVICE}."));
        } else if ["builtins.SystemExit", "builtins.KeyboardInterrupt"].contains(&path) && is_raised(node) {
            sink.at(node, "Ending the process cheats whoever waits for a result; raise a `RuntimeError` with a clear message instead.");
        }
    }
}

fn is_control(path: &str) -> bool {
    FUNCTIONS.contains(&path) || (!is_made(path) && (path.starts_with("os.exec") || path.starts_with("os.spawn")))
}

fn is_native_control(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or_default();
    within(path, "ctypes") && is_made(path) && native_escape::CALLS.contains(&name)
}

fn is_runner(path: &str) -> bool {
    path.strip_prefix("subprocess.").is_some_and(|name| RUNNERS.contains(&name))
}

/// `run = subprocess.run` does nothing yet, and its uses are seen under the new name.
fn is_alias(node: Node<'_>) -> bool {
    node.parent().is_some_and(|parent| parent.is("assignment"))
}

fn is_compiling(context: &Context<'_>, node: Node<'_>) -> bool {
    let call = node.parent().filter(|parent| parent.is("call") && node.role() == "function");
    call.is_some_and(|call| command::runs_compiler(&context.names, call))
}

fn is_raised(node: Node<'_>) -> bool {
    node.ancestors().take(2).any(|up| up.is("raise_statement"))
}
