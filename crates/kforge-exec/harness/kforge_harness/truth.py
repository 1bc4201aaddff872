"""The float64 truth of a set of inputs, and how far from it an honest candidate may be.

For each distribution and output two errors of the reference are measured against the truth: with inputs and weights
rounded to the contract's multiply precision, and to the next lower one. An honest kernel lies near the first, a
downcast near the second; the limit is their geometric mean. docs/design/verdict.md shows the calibration.
"""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from . import home
from .align import weights_of
from .doubled import as_eager, kept_as, with_little_room
from .errors import error_of, rms_of, worst_of
from .modes import Watch
from .problem import Drawn, forward

UNIT = {"fp64": 2.0**-53, "fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8, "fp8": 2.0**-4}
TAU = {"fp64": 1e-12, "fp32": 2e-5, "tf32": 4e-3, "fp16": 4e-3, "bf16": 3e-2, "fp8": 0.25}
LOWER = {"fp64": "fp32", "fp32": "tf32", "tf32": "bf16", "fp16": "bf16", "bf16": "fp8", "fp8": "fp8"}
_OF_DTYPE = {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}

SEPARATION = 4.0  # e_lo must be this many times e_hi for a distribution to prove the precision
SEPARATION_FROM_TF32 = 2.0  # bf16 makes thrice the error of cut-off TF32, and that is the most an honest kernel makes
FLOOR = 0.3  # of a unit roundoff times the root of the reduction's length: rounding no one can avoid
OF_ROUNDED = 0.5 * UNIT["fp32"]  # where the truth is rounded too, a right result may show no error at all
FAST_MATH = 8.0  # wider by this where the contract says `math: fast`
FEW = 64  # elements of an output: with fewer, one set does not tell how much eager rounds on the next
NATIVE_MARGIN = 4.0  # the element band is never tighter than this many times eager's own worst element


@dataclass
class Band:
    """What is allowed for one output on one distribution; errors are relative to the rms of the truth."""

    rms_limit: float
    tau: float
    scale: float
    e_hi: float
    e_lo: float
    separated: bool

    def allowed(self, exact: torch.Tensor, rms: float) -> torch.Tensor:
        """Of each element of a truth, or of a part of one whose whole has this rms."""
        return self.tau * (exact.abs() + rms * self.scale)

    def json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class IndexSource:
    """An integer output that is the place of an extreme value: every place with that value is right."""

    scores: torch.Tensor
    dim: int | None
    keepdim: bool
    sign: int


def precision_of(dtype: torch.dtype) -> str:
    return _OF_DTYPE.get(dtype, "fp32")


Exactly = tuple[list[torch.Tensor], dict[int, IndexSource], bool]


def truth(model: nn.Module, drawn: Drawn, narrow: bool = False) -> Exactly:
    """Outputs in float64 where the reference can run in it, rounded to float32 with `narrow`, for want of room; the flag says
    whether it could."""
    try:
        return _doubled(model, drawn, narrow)
    except Exception as error:
        if home.is_no_memory(error):
            raise  # a truth that is less true for want of memory is none
        with IndexWatch() as watch:
            _skeleton, outputs = forward(model, drawn)
        dtype = torch.float32 if narrow else torch.float64
        return [t.to(dtype) if t.is_floating_point() else t for t in outputs], watch.sources(outputs), False


def _doubled(model: nn.Module, drawn: Drawn, narrow: bool) -> Exactly:
    try:
        return _whole(model, drawn, narrow)
    except Exception as error:
        if not home.is_no_memory(error):
            raise
    home.give_back_all()
    with IndexWatch(keep=False) as watch:
        outputs = with_little_room(model, drawn, narrow)
    if watch.saw and not all(t.is_floating_point() for t in outputs):
        raise torch.cuda.OutOfMemoryError("places of extreme values cannot be found in parts")
    return outputs, {}, True


def _whole(model: nn.Module, drawn: Drawn, narrow: bool) -> Exactly:
    """What it holds goes with it where it fails."""
    with IndexWatch() as watch:
        _skeleton, outputs = forward(model, drawn, double=True)
    sources = watch.sources(outputs)
    for index, output in enumerate(outputs):
        outputs[index] = output.to(kept_as(output, narrow))
    return outputs, sources, True


def bands(
    model: nn.Module,
    drawn: Drawn,
    exact: list[torch.Tensor],
    contract: dict[str, Any],
    reduction: int,
    doubled: bool,
    narrow: bool = False,
) -> list[Band | None]:
    """One band for each floating output of this distribution."""
    mul = contract["mul"]
    below = _rounded_run(model, drawn, LOWER[mul], doubled, narrow)  # first, since it needs the most memory
    _skeleton, native = forward(model, drawn)
    at_contract = (
        native if mul in ("fp32", "fp64") else _rounded_run(model, drawn, mul, doubled, narrow, as_hardware=True)
    )
    widen = (FAST_MATH if contract["math"] == "fast" else 1.0) * (1.0 if doubled else NATIVE_MARGIN)
    made: list[Band | None] = []
    for true, own, allowed, low in zip(exact, native, at_contract, below, strict=True):
        if not own.is_floating_point():
            made.append(None)
            continue
        io = precision_of(own.dtype)
        scale = math.sqrt(max(1.0, reduction / 256))
        unit = max(UNIT[contract["acc"]], UNIT[io])
        rms = rms_of(true) or 1.0
        errors = [error_of(run, true) / rms for run in ((own,) if allowed is own else (own, allowed))]
        floor = max(FLOOR * unit * math.sqrt(reduction), OF_ROUNDED if narrow else 0.0)
        e_hi = widen * max(*errors, floor)
        e_lo = error_of(low, true) / rms
        separated = e_lo >= (SEPARATION_FROM_TF32 if mul == "tf32" else SEPARATION) * e_hi
        tau = widen * usual_tolerance(mul, own.dtype)
        tau = max(tau, NATIVE_MARGIN * worst_of(own, true, scale))
        made.append(Band(math.sqrt(e_hi * e_lo) if separated else SEPARATION * e_hi, tau, scale, e_hi, e_lo, separated))
    return made


def on_this_set(
    of_distribution: list[Band | None], model: nn.Module, drawn: Drawn, exact: list[torch.Tensor], narrow: bool = False
) -> list[Band | None]:
    """The bands of a distribution for one set of it: an output of few elements may be a difference that all but cancels, and
    is never held to less than what eager does there."""
    few = [band is not None and true.numel() < FEW for band, true in zip(of_distribution, exact, strict=True)]
    if not any(few):
        return of_distribution
    made: list[Band | None] = []
    for band, is_small, own, true in zip(of_distribution, few, as_eager(model, drawn, narrow), exact, strict=True):
        if band is not None and is_small:
            error, worst = error_of(own, true) / (rms_of(true) or 1.0), worst_of(own, true, band.scale)
            limit, tau = max(band.rms_limit, NATIVE_MARGIN * error), max(band.tau, NATIVE_MARGIN * worst)
            band = replace(band, rms_limit=limit, tau=tau)
        made.append(band)
    return made


def usual_tolerance(mul: str, dtype: torch.dtype) -> float:
    """Of one element of an output, where neither fast mathematics nor an imprecise reference asks for more."""
    io = precision_of(dtype)
    return TAU["fp64"] if io == "fp64" else max(TAU[mul], TAU[io])


def _rounded_run(
    model: nn.Module, drawn: Drawn, precision: str, doubled: bool, narrow: bool, as_hardware: bool = False
) -> list[torch.Tensor]:
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for weight in weights_of(twin):
            if weight.tensor.is_floating_point():
                weight.tensor.data.copy_(round_to(weight.tensor.data, precision, as_hardware))
    inputs = [round_to(t, precision, as_hardware) if t.is_floating_point() else t for t in drawn.tensors]
    rounded = Drawn(drawn.skeleton, inputs)
    return _doubled(twin, rounded, narrow)[0] if doubled else forward(twin, rounded)[1]


def round_to(tensor: torch.Tensor, precision: str, as_hardware: bool = False) -> torch.Tensor:
    """The nearest values of a lower precision, in the tensor's own dtype.

    Tensor cores do not round to TF32, they leave the lower bits out: what a contract allows is what hardware does.
    """
    through = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
    if precision in through:
        return tensor.to(through[precision]).to(tensor.dtype)
    if precision == "tf32":
        bits = tensor.float().contiguous().view(torch.int32)
        return ((bits + (0 if as_hardware else 0x1000)) & ~0x1FFF).view(torch.float32).to(tensor.dtype)
    return tensor


# Results that are smaller because they were chosen from, not because anything was added up.
_CHOOSING = frozenset(
    """select slice narrow index index_select gather embedding take masked_select diagonal unbind split split_with_sizes
    chunk topk sort as_strided unfold max min amax amin argmax argmin""".split()
)
# Known by these names on every backend, so that they need not be taken apart.
_PRODUCTS = frozenset("mm bmm mv dot matmul inner vdot".split())
_SUMMED_PRODUCTS = frozenset("addmm baddbmm addmv addbmm linear".split())


class ReductionMeter(Watch):
    """The longest reduction among the operators that the reference runs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.longest = 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name not in _PRODUCTS and name not in _SUMMED_PRODUCTS:
            # In inference mode conv2d, einsum, lstm and the like come whole: what they are made of is looked at.
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = func(*args, **kwargs)
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if tensors:
            self.longest = max(self.longest, _reduction(name, tensors, args, result))
        return result


def _reduction(name: str, tensors: list[torch.Tensor], args: Any, result: Any) -> int:
    """How many values one operator adds up for one element of its result."""
    first = tensors[0]
    second = tensors[1] if len(tensors) > 1 else first
    if name in _PRODUCTS or name in _SUMMED_PRODUCTS:
        return int((first if name in _PRODUCTS else second).shape[-1])
    if "convolution" in name:
        transposed = len(args) > 8 and args[6] is True
        return second.numel() // max(1, second.shape[1] * int(args[8]) if transposed else second.shape[0])
    if name.startswith("mkldnn_rnn"):
        return max(int(weight.shape[-1]) for weight in tensors[1:3])
    if "attention" in name:
        return max(int(first.shape[-1]), int(second.shape[-2]))
    if "cdist" in name or "euclidean" in name:
        return int(first.shape[-1])
    if "softmax" in name or name.startswith("cum"):
        return int(first.shape[args[1]]) if first.dim() and isinstance(args[1], int) else 1
    if "layer_norm" in name or "rms_norm" in name:
        return math.prod(args[1])
    if name == "native_group_norm":
        return first.numel() // max(1, first.shape[0] * int(args[6]))
    if "batch_norm" in name:
        return first.numel() // max(1, first.shape[1])
    made = result[0] if name.startswith(("var", "std")) and isinstance(result, tuple) else result
    if name in _CHOOSING or not isinstance(made, torch.Tensor) or not made.numel():
        return 1
    return first.numel() // made.numel()


class IndexWatch(Watch):
    """Remembers what argmax, argmin and the like chose from."""

    def __init__(self, keep: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._keep = keep  # what was chosen from, too
        self.saw = False
        self._seen: list[tuple[torch.Tensor, IndexSource]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name in ("argmax", "argmin", "max", "min") and args[0].is_floating_point():
            sign = 1 if name.endswith("max") else -1
            dim = args[1] if len(args) > 1 else kwargs.get("dim")
            keepdim = bool(args[2] if len(args) > 2 else kwargs.get("keepdim", False))
            places = result[1] if isinstance(result, (tuple, list)) else result
            self.saw = True
            if self._keep and not places.is_floating_point() and (dim is None or isinstance(dim, int)):
                self._seen.append((places, IndexSource(args[0], dim, keepdim, sign)))
        return result

    def sources(self, outputs: list[torch.Tensor]) -> dict[int, IndexSource]:
        found: dict[int, IndexSource] = {}
        for index, output in enumerate(outputs):
            for places, source in self._seen:
                if output.data_ptr() == places.data_ptr() and output.shape == places.shape:
                    found[index] = source
        return found
