//! Reports threads and host callbacks of the candidate's own.
//!
//! ## What it does
//! Looks for `threading.Thread`, thread pools and `_thread` in Python, and for `std::thread`, `std::async`, `pthread_create`
//! and `cudaLaunchHostFunc` in native code. `OpenMP` and locks are not reported.
//!
//! ## Why is this reported?
//! Threads are a fine way to use a CPU, as long as all work is done when `forward` returns. A thread that finishes later
//! lies to the clock; outputs are taken at once and looked at again later.
//!
//! ## Example
//! ```python
//! threading.Thread(target=fill, args=(out,)).start()
//! return out
//! ```
//! Use instead: join every thread before `forward` returns, or use `#pragma omp parallel for`.

use crate::context::{Context, Sink};

const FUNCTIONS: &[&str] = &[
    "threading.Thread",
    "threading.Timer",
    "_thread.start_new_thread",
    "concurrent.futures.ThreadPoolExecutor",
    "concurrent.futures.thread.ThreadPoolExecutor",
];
const NATIVE: &[&str] =
    &["pthread_create", "cudaLaunchHostFunc", "hipLaunchHostFunc", "cudaStreamAddCallback", "thrd_create"];
const NATIVE_STD: &[&str] = &["thread", "jthread", "async"];

const MESSAGE: &str = "starts work beside the caller; see to it that all of it is done when `forward` returns.";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for (node, path) in context.references() {
        let called = node.role() == "function" || node.role() == "superclasses";
        if called && FUNCTIONS.contains(&path) {
            sink.at(node, format!("`{path}` {MESSAGE}"));
        }
    }
    for native in &context.natives {
        for (i, token) in native.free_words() {
            let standard = native.before(i, 1) == "::" && native.before(i, 2) == "std";
            let word = token.text.as_str();
            // `std::thread::hardware_concurrency()` only asks.
            let starts = standard && NATIVE_STD.contains(&word) && native.after(i) != "::";
            if starts || NATIVE.contains(&word) {
                sink.at_byte(token.at, format!("`{word}` {MESSAGE}"));
            }
        }
    }
}
