"""Repairs to Triton's interpreter, so that an honest kernel gives the numbers it would give on a GPU.

Some things differ there and would refuse honest kernels or pass dishonest ones:

* bfloat16 is kept as raw 16-bit patterns and its arithmetic is done on those patterns;
* ``tl.dot`` ignores ``input_precision``, so that TF32 (Triton's default for float32) looks like float32;
* libdevice functions either return None silently or complain about a missing ``_semantic``;
* older versions stumble over boolean arguments and over ``range`` with an argument as its end;
* a loop's variable is a plain int, without the methods that it has in a compiled kernel;
* a kernel that is defined inside a function does not find what it captured there.

What it cannot run at all raises `Uninterpretable`, which is no verdict on a candidate.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..failure import Uninterpretable
from .closures import captured, is_inner


def _widen_bits(bits: Any) -> Any:
    """bfloat16 patterns to float32; exact."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def _narrow_bits(values: Any) -> Any:
    """float32 to bfloat16 patterns, to nearest even as the hardware does; the interpreter itself truncates."""
    wide = np.ascontiguousarray(values, dtype=np.float32)
    bits = wide.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(wide), np.uint32(0x7FC0), rounded).astype(np.uint16)


def _round_tf32(values: Any) -> Any:
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(special, bits, rounded).view(np.float32)


def _repair_bfloat16(interp: Any, tl: Any) -> None:
    handle_type, builder = interp.TensorHandle, interp.InterpreterBuilder

    def is_bf16(handle: Any) -> bool:
        return isinstance(handle, handle_type) and handle.dtype.scalar == tl.bfloat16

    def widen(handle: Any) -> Any:
        return handle_type(_widen_bits(handle.data), tl.float32) if is_bf16(handle) else handle

    def narrow(handle: Any) -> Any:
        # A comparison has booleans as data but keeps its operand's dtype; the caller knows its true type.
        data = handle.data if handle.data.dtype == np.bool_ else _narrow_bits(handle.data)
        return handle_type(data, tl.bfloat16)

    def in_float32(method: Callable[..., Any], typed_by: int) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not any(is_bf16(arg) for arg in args):
                return method(self, *args, **kwargs)
            result = method(self, *[widen(arg) for arg in args], **kwargs)
            return narrow(result) if is_bf16(args[typed_by]) else result

        return call

    # The number says which operand gives the result its type.
    for name, typed_by in (
        ("binary_op", 0),
        ("ternary_op", 2),
        ("unary_op", 0),
        ("create_fma", 2),
        ("create_rsqrt", 0),
        ("create_erf", 0),
        ("create_dot", 2),
    ):
        if hasattr(builder, name):
            setattr(builder, name, in_float32(getattr(builder, name), typed_by))

    cast = builder.cast_impl

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        src = widen(src)
        if dst_type.scalar != tl.bfloat16:
            return cast(self, src, dst_type) if src.dtype.scalar != dst_type.scalar else src
        wide = src if src.dtype.scalar == tl.float32 else cast(self, src, tl.float32)
        return narrow(wide)

    builder.cast_impl = cast_impl

    def reduce_in_float32(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def apply_impl(self: Any, inputs: Any) -> Any:
            narrow_at = [is_bf16(arg.handle) for arg in inputs]
            if not any(narrow_at):
                return method(self, inputs)
            result = method(self, tuple(self.to_tensor(widen(a.handle).data, tl.float32) if n else a
                                        for a, n in zip(inputs, narrow_at, strict=True)))  # fmt: skip
            single = not isinstance(result, list | tuple)
            out = [result] if single else list(result)
            for i, value in enumerate(out):
                if narrow_at[min(i, len(narrow_at) - 1)] and value.dtype == tl.float32:
                    shape = value.type.get_block_shapes() if value.type.is_block() else None
                    kind = tl.block_type(tl.bfloat16, shape) if shape else tl.bfloat16
                    out[i] = tl.core.tensor(narrow(value.handle), kind)
            return out[0] if single else out

        return apply_impl

    for name in ("ReduceOps", "ScanOps"):
        ops = getattr(interp, name, None)
        if ops is not None:
            ops.apply_impl = reduce_in_float32(ops.apply_impl)


def _repair_dot(interp: Any, tl: Any) -> None:
    dot = interp.InterpreterBuilder.create_dot

    @functools.wraps(dot)
    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        # The x3 variants recover nearly all of float32, so only plain TF32 is rounded.
        if str(input_precision).rsplit(".", 1)[-1].upper() == "TF32":
            rounded = [
                interp.TensorHandle(_round_tf32(x.data), x.dtype) if x.dtype.scalar == tl.float32 else x for x in (a, b)
            ]
            a, b = rounded
        return dot(self, a, b, d, input_precision, max_num_imprecise_acc)

    interp.InterpreterBuilder.create_dot = create_dot


def _special(name: str) -> Callable[..., Any]:
    function = getattr(torch.special, name)

    def call(*args: Any) -> Any:
        return function(*[torch.from_numpy(np.ascontiguousarray(a)) for a in args]).numpy()

    return call


def _round_half_away(x: Any) -> Any:
    return np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)


_SAME_NAME = """tanh tan sin cos sinh cosh exp exp2 expm1 log log2 log10 log1p sqrt cbrt floor ceil trunc rint fmod fmax
    fmin copysign hypot nextafter signbit isnan isinf ldexp"""


def _table() -> dict[str, Callable[..., Any]]:
    """libdevice symbols without `__nv_` and without the suffix of the float32 form."""
    table: dict[str, Callable[..., Any]] = {name: getattr(np, name) for name in _SAME_NAME.split()}
    table |= {
        name: _special(other)
        for name, other in {
            "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "erfcx": "erfcx", "lgamma": "gammaln",
            "normcdf": "ndtr", "normcdfinv": "ndtri", "j0": "bessel_j0", "j1": "bessel_j1", "y0": "bessel_y0",
            "y1": "bessel_y1", "cyl_bessel_i0": "i0", "cyl_bessel_i1": "i1",
        }.items()
    }  # fmt: skip
    table |= {
        "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
        "atanh": np.arctanh, "atan2": np.arctan2, "pow": np.power, "powi": np.power, "abs": np.abs, "fabs": np.abs,
        "nearbyint": np.rint, "round": _round_half_away, "rsqrt": lambda x: 1 / np.sqrt(x),
        "rcbrt": lambda x: 1 / np.cbrt(x), "exp10": lambda x: np.power(x.dtype.type(10), x),
        "fdim": lambda x, y: np.maximum(x - y, 0), "remainder": lambda x, y: x - y * np.rint(x / y),
        "fma": lambda x, y, z: x * y + z, "saturate": lambda x: np.clip(x, 0, 1), "finite": np.isfinite,
        "isfinited": np.isfinite, "sinpi": lambda x: np.sin(np.pi * x), "cospi": lambda x: np.cos(np.pi * x),
        "fdivide": np.divide, "rcp": np.reciprocal, "add": np.add, "sub": np.subtract, "mul": np.multiply,
        "div": np.divide,
    }  # fmt: skip
    return table


def _lookup(table: dict[str, Callable[..., Any]], symbol: str) -> Callable[..., Any]:
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    # fadd_rn and dadd_rn are add: the one rounding numpy has. The other modes stay unknown.
    stem = name[1:-3] if name.endswith("_rn") else name
    for key in (name, stem, stem.removesuffix("f"), stem.removesuffix("d"), name.removesuffix("f")):
        if key in table:
            return table[key]
    raise Uninterpretable(symbol)


def _repair_libdevice(interp: Any) -> None:
    table = _table()

    def create_extern_elementwise(
        self: Any, lib_name: str, lib_path: str, symbol: str, args: Any, ret_type: Any, is_pure: bool
    ) -> Any:
        with np.errstate(all="ignore"):
            value = np.asarray(_lookup(table, symbol)(*[arg.data for arg in args]))
        scalar = ret_type.scalar
        return interp.TensorHandle(value.astype(interp._get_np_dtype(scalar)), scalar)

    interp.InterpreterBuilder.create_extern_elementwise = create_extern_elementwise

    modules: list[types.ModuleType] = []
    for name in ("cuda.libdevice", "libdevice"):
        with contextlib.suppress(ImportError):
            modules.append(importlib.import_module(f"triton.language.extra.{name}"))
    if not modules:
        return

    def bound(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop("_semantic", None)
            try:
                return function(*args, **kwargs, _semantic=interp.interpreter_semantic)
            except Uninterpretable:  # names a symbol of the library, which the candidate's text does not have
                raise Uninterpretable(f"libdevice.{function.__name__}") from None

        return call

    # The CUDA module has the type tables; the generic one holds empty stubs that the compiler maps onto it.
    functions = {
        name: bound(value)
        for name, value in vars(modules[0]).items()
        if isinstance(value, types.FunctionType) and value.__module__ == modules[0].__name__
    }
    for module in modules:
        for name, function in functions.items():
            setattr(module, name, function)


def _repair_scalars(interp: Any, tl: Any) -> None:
    """Older versions stumble over a boolean argument, and over what NumPy no longer takes for an int."""
    convert, patch = interp._implicit_cvt, interp._patch_lang_tensor

    @functools.wraps(convert)
    def implicit_cvt(arg: Any) -> Any:
        if isinstance(arg, bool):
            return tl.core.tensor(interp.TensorHandle(np.array([arg], dtype=np.bool_), tl.int1), tl.int1)
        if isinstance(arg, float):
            # A compiled kernel gets an fp32 scalar that has methods such as `.to`, not a Python float.
            return tl.core.tensor(interp.TensorHandle(np.array([arg], dtype=np.float32), tl.float32), tl.float32)
        return convert(arg)

    @functools.wraps(patch)
    def patch_lang_tensor(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(np.asarray(self.handle.data).item())

    interp._implicit_cvt = implicit_cvt
    interp._patch_lang_tensor = patch_lang_tensor


class _LoopVariable(int):
    """An int with the methods of the scalar that it is in a compiled kernel, and so are sums and products of it."""

    def __getattr__(self, name: str) -> Any:
        interp = importlib.import_module("triton.runtime.interpreter")
        return getattr(interp.interpreter_semantic.to_tensor(int(self)), name)


def _closed_under(name: str) -> Callable[[Any, Any], Any]:
    operation = getattr(int, name)

    def call(self: Any, other: Any) -> Any:
        if type(other).__name__ == "constexpr" and type(other.value) is int:
            other = other.value
        result = operation(self, other)
        return _LoopVariable(result) if type(result) is int else result

    return call


for _name in "add radd sub rsub mul rmul floordiv rfloordiv mod rmod lshift rshift and or xor".split():
    setattr(_LoopVariable, f"__{_name}__", _closed_under(f"__{_name}__"))


def _loop(values: Any) -> Any:
    for value in values:
        yield _LoopVariable(value) if type(value) is int else value


def _repair_functions(interp: Any, tl: Any) -> None:
    """Loops and captured names, where a kernel's source is rewritten for the interpreter."""
    rewriter = interp.FunctionRewriter
    transform, execute, patch = rewriter._transform_ast, rewriter._compile_and_exec, interp._patch_lang
    # The interpreter puts the names of its own module into those that a kernel sees.
    interp._kforge_loop = _loop

    @functools.wraps(transform)
    def transform_ast(self: Any, source: str) -> Any:
        tree = transform(self, source)
        for node in ast.walk(tree):
            if isinstance(node, ast.For):
                wrapped = ast.Call(ast.Name("_kforge_loop", ast.Load()), [node.iter], [])
                node.iter = ast.fix_missing_locations(ast.copy_location(wrapped, node.iter))
        return tree

    @functools.wraps(execute)
    def compile_and_exec(self: Any, tree: Any) -> Any:
        if not is_inner(self.fn):
            return execute(self, tree)
        (definition,) = tree.body
        # These were evaluated in the function around it, and are taken from there.
        definition.args.defaults, definition.args.kw_defaults = [], [None] * len(definition.args.kwonlyargs)
        definition.returns = None
        for argument in [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]:
            argument.annotation = None
        scope = {**vars(interp), **self.fn.__globals__, **captured(self.fn)}
        made: dict[str, Any] = {}
        exec(compile(tree, self.filename, "exec"), scope, made)
        function = made[self.fn.__name__]
        for name in ("__defaults__", "__kwdefaults__", "__annotations__"):
            setattr(function, name, getattr(self.fn, name))
        return function

    @functools.wraps(patch)
    def patch_lang(function: Any) -> Any:
        """Triton's language may be imported inside the function around a kernel."""
        if is_inner(function) and not any(value is tl for value in function.__globals__.values()):
            function = types.SimpleNamespace(__globals__={"tl": tl})
        return patch(function)

    rewriter._transform_ast = transform_ast
    rewriter._compile_and_exec = compile_and_exec
    interp._patch_lang = patch_lang


def _unable(construct: str) -> Callable[..., Any]:
    def call(*_args: Any, **_kwargs: Any) -> Any:
        raise Uninterpretable(construct)

    return call


def _repair_cuda_only(interp: Any, tl: Any) -> None:
    """Functions of NVIDIA's chips: those that have a meaning here, and those that have none."""
    builder = interp.InterpreterBuilder
    builder.create_inline_asm = _unable("inline_asm_elementwise")
    # Each launch ends before the next one begins, so that there is nothing to wait for.
    for name in ("create_grid_dependency_wait", "create_grid_dependency_launch_dependents"):
        setattr(builder, name, lambda *_: None)
    builder.create_descriptor_reduce = _unable("atomic_add")
    builder.new_block = _unable("map_elementwise")
    importlib.import_module("triton.runtime.jit").JITFunction.run = _unable("gluon")
    # Triton makes this package twice: as an attribute it is another object than as an import.
    modules = [getattr(tl.extra, "cuda", None)]
    for name in ("cuda", "cuda.gdc", "cuda.utils"):
        with contextlib.suppress(ImportError):
            modules.append(importlib.import_module(f"triton.language.extra.{name}"))
    for module in filter(None, modules):
        for name, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType) and value.__module__.startswith("triton.language.extra.cuda"):
                waits = name in ("gdc_wait", "gdc_launch_dependents")
                setattr(module, name, (lambda *_args, **_kwargs: None) if waits else _unable(name))


def repair() -> None:
    """Apply all repairs; once per process, after Triton was imported with TRITON_INTERPRET=1."""
    interp = importlib.import_module("triton.runtime.interpreter")
    tl = importlib.import_module("triton.language")
    _repair_bfloat16(interp, tl)
    _repair_dot(interp, tl)
    _repair_libdevice(interp)
    _repair_scalars(interp, tl)
    _repair_functions(interp, tl)
    _repair_cuda_only(interp, tl)
