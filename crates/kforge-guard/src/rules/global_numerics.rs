//! Refuses to switch how the whole process computes.
//!
//! ## What it does
//! Looks for calls and assignments that change precision, determinism, threads, default types or random state for everybody:
//! `torch.set_float32_matmul_precision`, `torch.backends.* = ...`, `torch.set_num_threads`, `torch.manual_seed` and the like.
//! A `torch.Generator` of one's own may be seeded.
//!
//! ## Why is this bad?
//! The reference would be computed in another way than its user computes it. Precision is part of the contract of the
//! problem, not a choice of the kernel.
//!
//! ## Example
//! ```python
//! torch.backends.cuda.matmul.allow_tf32 = True
//! ```
//! Use instead: write a kernel that is fast in the precision that the problem asks for.

use crate::context::{Context, Sink};
use crate::resolve::{is_made, within};

const FUNCTIONS: &[&str] = &[
    "torch.set_float32_matmul_precision",
    "torch.set_default_dtype",
    "torch.set_default_device",
    "torch.set_default_tensor_type",
    "torch.set_deterministic_debug_mode",
    "torch.set_flush_denormal",
    "torch.set_num_threads",
    "torch.set_num_interop_threads",
    "torch.use_deterministic_algorithms",
    "torch.manual_seed",
    "torch.seed",
    "torch.set_rng_state",
    "torch.random.manual_seed",
    "torch.random.seed",
    "torch.random.set_rng_state",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.cuda.seed",
    "torch.cuda.seed_all",
    "torch.cuda.set_rng_state",
    "torch.backends.cudnn.flags",
    "torch.backends.cudnn.set_flags",
    "torch.default_generator.manual_seed",
    "numpy.random.seed",
    "random.seed",
];

const ADVICE: &str = "keep to the precision and the settings that the problem's contract gives";

pub(crate) fn check(context: &Context<'_>, sink: &mut Sink<'_>) {
    let switches = |path: &str| FUNCTIONS.contains(&path) || (path.starts_with("torch._C._set_") && !is_made(path));
    for (node, path) in context.references() {
        if switches(path) {
            sink.at(node, format!("`{path}` changes how the whole process computes; {ADVICE}."));
        }
    }
    for import in context.imports() {
        if switches(&import.path) {
            sink.at(import.node, format!("`{}` changes how the whole process computes; {ADVICE}.", import.path));
        }
    }
    for place in context.stores.iter().filter(|place| place.is("attribute")) {
        if let Some(path) = context.names.paths(*place).iter().find(|path| is_switch(path)) {
            sink.at(*place, format!("`{path}` is a switch of the whole process; {ADVICE}."));
        }
    }
    for call in context.of_kind("call").filter(|call| context.names.calls(*call, &["builtins.setattr"])) {
        let object = call.positional().next();
        if let Some(path) =
            object.into_iter().flat_map(|object| context.names.paths(object)).find(|path| is_switch(path))
        {
            sink.at(call, format!("`{path}` holds switches of the whole process; {ADVICE}."));
        }
    }
}

fn is_switch(path: &str) -> bool {
    let holders = ["torch.backends", "torch._inductor.config", "torch._dynamo.config"];
    !is_made(path) && holders.iter().any(|holder| within(path, holder))
}
