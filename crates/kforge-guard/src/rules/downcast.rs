//! Reports arithmetic in a lower precision than float32.
//!
//! ## What it does
//! Looks for `.half()`, `.bfloat16()`, 16-bit and 8-bit float types as arguments, `autocast`, `allow_tf32` and
//! `input_precision` of Triton, and for such types in native code. Comparing a tensor's own type is not reported.
//!
//! ## Why is this reported?
//! Whether a lower precision is allowed is part of the problem's contract. The error is measured against float64 either
//! way; this says where to look if it is too large.
//!
//! ## Example
//! ```python
//! return (x.half() @ self.weight.half()).float()
//! ```
//! Use instead: multiply and accumulate in the precision of the contract.

use crate::ast::Node;
use crate::context::{Context, Sink};
use crate::resolve::within;

const METHODS: &[&str] = &["half", "bfloat16"];
const TYPES: &[&str] = &[
    "float16",
    "half",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8e4nv",
    "float8e5",
];
const AUTOCAST: &[&str] =
    &["torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"];
const NATIVE: &[&str] = &[
    "_Float16",
    "__bf16",
    "__fp16",
    "__half",
    "__half2",
    "__nv_bfloat16",
    "__nv_bfloat162",
    "__nv_fp8_e4m3",
    "__nv_fp8_e5m2",
    "__float_to_tf32",
    "__float2half",
    "__float2bfloat16",
    "BFloat16",
    "Half",
    "bfloat16_t",
    "float16_t",
    "half2",
    "half_t",
    "nv_bfloat16",
    "nv_bfloat162",
    "tf32",
    "tfloat32_t",
];

const ADVICE: &str = "keep to the precision of the problem's contract";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    for (node, path) in context.references() {
        let kind = path.rsplit('.').next().unwrap_or_default();
        let lower = TYPES.contains(&kind) && ["torch", "triton.language"].iter().any(|module| within(path, module));
        if (lower && is_argument(node)) || AUTOCAST.contains(&path) {
            sink.at(node, format!("`{path}` computes in a lower precision; {ADVICE}."));
        }
    }
    for call in context.of_kind("call") {
        let method = call.field("function").filter(|function| function.is("attribute"));
        let name = method.and_then(|method| method.field("attribute")).map_or("", Node::text);
        if METHODS.contains(&name) {
            sink.at(call, format!("`.{name}()` lowers the precision; {ADVICE}."));
        }
        for option in ["allow_tf32", "input_precision"] {
            let value = call.keyword(option).filter(|value| !value.is("false") && !value.text().contains("ieee"));
            if let Some(value) = value {
                sink.at(value, format!("`{option}` lets products be rounded to a lower precision; {ADVICE}."));
            }
        }
    }
    for token in context.natives.iter().flat_map(|native| &native.tokens) {
        if NATIVE.contains(&token.text.as_str()) {
            sink.at_byte(token.at, format!("`{}` computes in a lower precision; {ADVICE}.", token.text));
        }
    }
}

/// A type that is passed on, as in `x.to(torch.float16)` and `dtype=torch.float16`.
fn is_argument(node: Node<'_>) -> bool {
    node.parent().is_some_and(|parent| parent.is_any(&["argument_list", "keyword_argument"]))
}
