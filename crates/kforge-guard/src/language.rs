//! What a candidate's kernels are written in, for a user who did not say it.
//!
//! A guess from imports and from calls that build. It decides nothing about what is allowed.

use std::path::Path;

use crate::ast::{Ast, Node};
use crate::context::Context;
use crate::resolve::Names;
use crate::text;
use crate::{MAX_SOURCE_BYTES, Settings};

/// A language of kernels that shows in a candidate's Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// CUDA C++ or PTX, built by `kforge_rt` or by torch.
    Cuda,
    /// CuTe DSL.
    Cute,
    /// Triton.
    Triton,
}

/// The language of a candidate; nothing where none of them shows, as in C++ for the CPU.
///
/// Packages go before builds: a target that offers Triton can build CUDA too, one for CUDA C++ does not offer Triton.
#[must_use]
pub fn language(source: &str) -> Option<Language> {
    if source.len() > MAX_SOURCE_BYTES {
        return None;
    }
    let ast = Ast::parse(source)?;
    let settings = Settings::default();
    let context = Context::new(&ast, &settings);
    let imports = context.imports();
    let uses =
        |package: &str| imports.iter().any(|import| import.package == package && context.reach.contains(import.node));
    if uses("triton") {
        return Some(Language::Triton);
    }
    if uses("cutlass") {
        return Some(Language::Cute);
    }
    let mut calls = context.of_kind("call").filter(|call| context.reach.contains(*call));
    calls.any(|call| builds_cuda(&context.names, call)).then_some(Language::Cuda)
}

fn builds_cuda(names: &Names<'_>, call: Node<'_>) -> bool {
    let argument = |name: &str, position: usize| call.keyword(name).or_else(|| call.positional().nth(position));
    let says = |value: Option<Node<'_>>, wanted: fn(&str) -> bool| {
        value.is_some_and(|value| {
            parts(value).any(|part| text::prefix(part, &names.scopes).is_some_and(|text| wanted(&text)))
        })
    };
    if names.calls(call, &["kforge_rt.build"]) {
        return says(argument("lang", 1), |lang| lang == "cuda" || lang == "ptx")
            || says(call.keyword("jit"), |jit| jit == "nvrtc");
    }
    if names.calls(call, &["torch.utils.cpp_extension.load_inline"]) {
        return argument("cuda_sources", 2).is_some_and(|sources| !is_nothing(sources)) || with_cuda(call);
    }
    names.calls(call, &["torch.utils.cpp_extension.load"])
        && (says(argument("sources", 1), is_cuda_file) || with_cuda(call))
}

fn is_cuda_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "cu")
}

/// The elements of a list, the branches of a condition, else the value itself.
fn parts(value: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    let value = value.unwrapped();
    let several = value.is_any(&["list", "tuple", "conditional_expression"]);
    value.children().filter(move |_| several).chain((!several).then_some(value))
}

/// `None`, `[]` or `""`.
fn is_nothing(value: Node<'_>) -> bool {
    let value = value.unwrapped();
    value.is("none") || ["[]", "()", "\"\"", "''"].contains(&value.text())
}

fn with_cuda(call: Node<'_>) -> bool {
    call.keyword("with_cuda").is_some_and(|value| value.is("true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Language> {
        language(&format!("import kforge_rt\nfrom torch.utils import cpp_extension\n{line}\n"))
    }

    #[test]
    fn imports_decide_however_they_are_written() {
        for line in [
            "import triton",
            "import torch, triton.language as tl",
            "from triton.language import *",
            "try:\n    import triton\nexcept ImportError:\n    pass",
            "import importlib\ntriton = importlib.import_module('triton')",
            "class NewModel:\n    def forward(self, x):\n        import triton",
            // The target for CUDA C++ does not offer Triton, the one for Triton can build CUDA.
            "import triton\nlib = kforge_rt.build(S, lang='cuda')",
        ] {
            assert_eq!(of(line), Some(Language::Triton), "{line}");
        }
        for line in ["import cutlass", "from cutlass import cute", "import cutlass.cute as cute"] {
            assert_eq!(of(line), Some(Language::Cute), "{line}");
        }
    }

    #[test]
    fn builds_decide_by_their_arguments() {
        for line in [
            "lib = kforge_rt.build(S, lang='cuda')",
            "lib = kforge_rt.build(S, 'cuda', name='k')",
            "lib = kforge_rt.build(S, lang='ptx')",
            "LANG = 'cu' + 'da'\nfrom kforge_rt import build as make\nlib = make(S, lang=LANG)",
            "lib = kforge_rt.build(S, lang='cuda' if fast else 'cpp')",
            "lib = kforge_rt.build(S, lang=LANG, jit='nvrtc')",
            "def lib():\n    return kforge_rt.build(S, lang='cuda')\nclass NewModel:\n    def forward(self, x): lib()",
            "m = cpp_extension.load_inline('m', CPP, cuda_sources=[CU], functions=['f'])",
            "m = cpp_extension.load_inline('m', CPP, CU)",
            "m = cpp_extension.load_inline('m', CPP, with_cuda=True)",
            "m = cpp_extension.load(name='m', sources=['a.cpp', f'{folder}/b.cu'])",
            "m = cpp_extension.load('m', 'b.cu')",
        ] {
            assert_eq!(of(line), Some(Language::Cuda), "{line}");
        }
    }

    #[test]
    fn what_is_only_mentioned_or_never_runs_does_not_count() {
        for line in [
            "# import triton",
            "'''import triton\nimport cutlass'''",
            "NOTE = 'import triton; kforge_rt.build(S, lang=\"cuda\")'",
            "triton = 1\nprint(triton)",
            "import tritonclient, my.triton",
            "from . import triton",
            "if __name__ == '__main__':\n    import triton\n    kforge_rt.build(S, lang='cuda')",
            "def unused():\n    import triton",
            "lib = kforge_rt.build(S)",
            "lib = kforge_rt.build(S, lang='cpp', name='cuda')",
            "lib = kforge_rt.build('// lang=cuda\\n')",
            "lib = mine.build(S, lang='cuda')",
            "m = cpp_extension.load_inline('m', CPP, functions=['f'])",
            "m = cpp_extension.load_inline('m', CPP, cuda_sources=None)",
            "m = cpp_extension.load_inline('m', CPP, cuda_sources=[], with_cuda=False)",
            "m = cpp_extension.load('m', ['a.cpp'])",
            "def broken(:",
            "",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
        assert_eq!(language(&"import triton\n".repeat(MAX_SOURCE_BYTES / 10)), None, "unread");
    }
}
