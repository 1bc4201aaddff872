//! Refuses packages that the target does not offer.
//!
//! ## What it does
//! Looks at every import, by statement or by call, and judges its top-level package. The target says which packages a
//! candidate may use (`imports` in its `target.toml`: torch, `kforge_rt`, numpy, and Triton where kernels are written in
//! it). The standard library is free as far as this rule goes, except for parts that have nothing to do with kernels;
//! what is harmful in it has rules of its own. `imports` in a guard file adds packages.
//!
//! ## Why is this bad?
//! A kernel is to be written in the target's language. Another package may bring finished kernels, so that the result
//! shows nothing, or may be missing where the kernel is used.
//!
//! ## Example
//! ```python
//! from flash_attn import flash_attn_func
//! ```
//! Use instead: write the kernel's source into the file.

use crate::context::{Context, Sink};

/// Modules of the standard library that candidates use, and those that another rule judges.
const STANDARD: &[&str] = &[
    "__future__",
    "_thread",
    "abc",
    "argparse",
    "array",
    "ast",
    "asyncio",
    "atexit",
    "base64",
    "binascii",
    "bisect",
    "builtins",
    "bz2",
    "cmath",
    "codecs",
    "collections",
    "concurrent",
    "contextlib",
    "contextvars",
    "copy",
    "copyreg",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "enum",
    "errno",
    "faulthandler",
    "fcntl",
    "fnmatch",
    "fractions",
    "functools",
    "gc",
    "glob",
    "graphlib",
    "gzip",
    "hashlib",
    "heapq",
    "importlib",
    "inspect",
    "io",
    "itertools",
    "json",
    "keyword",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "marshal",
    "math",
    "mmap",
    "multiprocessing",
    "numbers",
    "operator",
    "os",
    "pathlib",
    "pickle",
    "pkgutil",
    "platform",
    "posix",
    "pprint",
    "queue",
    "random",
    "re",
    "reprlib",
    "resource",
    "secrets",
    "select",
    "shlex",
    "shutil",
    "signal",
    "stat",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "sys",
    "sysconfig",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "traceback",
    "tracemalloc",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "uuid",
    "warnings",
    "weakref",
    "zipfile",
    "zlib",
];

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    let Some(offered) = &context.settings.imports else { return };
    for import in context.imports() {
        let package = import.package.as_str();
        if package.is_empty() {
            sink.at(import.node, "A candidate is one file: there is nothing beside it to import.");
        } else if !STANDARD.contains(&package) && !offered.iter().any(|known| known == package) {
            let list = offered.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
            let message = format!(
                "`{package}` is not among the packages that may be imported here; use {list} and the standard library, and \
                 write the kernel into this file."
            );
            sink.at(import.node, message);
        }
    }
}
