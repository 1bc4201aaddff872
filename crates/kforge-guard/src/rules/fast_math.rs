//! Reports compiler flags and intrinsics that trade exactness for speed.
//!
//! ## What it does
//! Looks for `-ffast-math`, `-Ofast`, `--use_fast_math`, `-ftz=true`, `-prec-div=false` and their kin in strings, and for
//! approximate device functions such as `__expf` in native code.
//!
//! ## Why is this reported?
//! They are allowed where the problem's contract says `math="fast"`. `kforge_rt.build` refuses the flags otherwise.
//!
//! ## Example
//! ```python
//! load_inline(..., extra_cuda_cflags=["--use_fast_math"])
//! ```
//! Use instead: `-O3`, and vectorise by hand.

use crate::context::{Context, Sink};

const FLAGS: &[&str] = &[
    "-Ofast",
    "-ffast-math",
    "-funsafe-math-optimizations",
    "-ffinite-math-only",
    "-freciprocal-math",
    // nvcc takes its flags with one dash and with two.
    "--use_fast_math",
    "-use_fast_math",
    "--ftz=true",
    "-ftz=true",
    "--prec-div=false",
    "-prec-div=false",
    "--prec-sqrt=false",
    "-prec-sqrt=false",
];
/// Not those that name their rounding, such as `__frcp_rn`: they are exact.
const INTRINSICS: &[&str] =
    &["__expf", "__exp10f", "__logf", "__log2f", "__powf", "__sinf", "__cosf", "__tanf", "__fdividef", "__tanhf"];

const ADVICE: &str = "use it only where the contract says `math=\"fast\"`";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for node in context.of_kind("string") {
        let documentation = node.parent().is_some_and(|parent| parent.is("expression_statement"));
        let Some(text) = context.names.constant(node).filter(|_| !documentation) else { continue };
        if let Some(flag) = text.split_whitespace().find(|word| FLAGS.contains(word)) {
            sink.at(node, format!("`{flag}` changes results; {ADVICE}."));
        }
    }
    for native in &context.natives {
        for (_, token) in native.free_words().filter(|(_, token)| INTRINSICS.contains(&token.text.as_str())) {
            sink.at_byte(token.at, format!("`{}` is approximate; {ADVICE}.", token.text));
        }
    }
}
