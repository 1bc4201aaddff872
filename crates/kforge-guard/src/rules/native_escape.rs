//! Refuses native code that starts processes, opens sockets or pries into memory.
//!
//! ## What it does
//! Reads the C++ in the candidate's strings as tokens, without comments, and looks for calls of `fork`, `exec*`, `system`,
//! `popen`, `socket`, `ptrace`, `kill`, `dlopen` and their kin, for the same names in a macro, for `/proc` and `/dev/shm` in
//! string literals, for the `syscall` instruction, and for includes by absolute path. Names that only contain these
//! (`my_system(`), methods (`queue.kill()`) and declarations (`void kill();`) pass.
//!
//! ## Why is this bad?
//! Native code can do what the rules forbid to Python.
//!
//! ## Example
//! ```cpp
//! system("nvidia-smi -rgc");
//! ```
//! Use instead: leave it out; a kernel computes.

use crate::context::{Context, Sink};
use crate::native::{Kind, Native};
use crate::rules::introspection::is_private_file;

/// Functions of the C library that no kernel needs. `exit` and `abort` are left out: error macros use them.
pub(crate) const CALLS: &[&str] = &[
    "_Exit",
    "_exit",
    "daemon",
    "dlmopen",
    "dlopen",
    "dlsym",
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execveat",
    "execvp",
    "execvpe",
    "fexecve",
    "fork",
    "kill",
    "killpg",
    "memfd_create",
    "mprotect",
    "popen",
    "posix_spawn",
    "posix_spawnp",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quick_exit",
    "setns",
    "setsid",
    "sigaction",
    "socket",
    "socketpair",
    "syscall",
    "system",
    "tgkill",
    "unshare",
    "vfork",
];

const ADVICE: &str = "leave it out and compute from the arguments alone";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for native in &context.natives {
        for (i, token) in native.free_words() {
            let called = native.after(i) == "(" && !native.is_declared(i);
            let taken = native.before(i, 1) == "&" && matches!(native.before(i, 2), "=" | "(" | "," | "{" | "return");
            let used = called || taken || token.in_macro;
            if CALLS.contains(&token.text.as_str()) && used {
                sink.at_byte(
                    token.at,
                    format!("The native code uses `{}`, which a kernel has no need for; {ADVICE}.", token.text),
                );
            }
        }
        check_literals(native, sink);
    }
}

fn check_literals(native: &Native, sink: &mut Sink<'_>) {
    for (i, token) in native.tokens.iter().enumerate() {
        if native.before(i, 1) == "#include" && token.text.starts_with('/') || included_by_angle(native, i) {
            sink.at_byte(token.at, "The native code includes a file by absolute path; include installed headers only.");
        }
        if token.kind != Kind::Literal {
            continue;
        }
        if is_private_file(&token.text) {
            sink.at_byte(
                token.at,
                format!("The native code names `{}`, which holds the state of processes; {ADVICE}.", token.text),
            );
        } else if token.text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "syscall" || word == "sysenter") {
            sink.at_byte(
                token.at,
                format!("The native code calls the kernel of the operating system directly; {ADVICE}."),
            );
        }
    }
}

/// `#include </etc/passwd>`
fn included_by_angle(native: &Native, i: usize) -> bool {
    native.before(i, 2) == "#include" && native.before(i, 1) == "<" && native.tokens[i].text == "/"
}
