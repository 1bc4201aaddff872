"""Where values come from: secret seeds, other distributions than the problem's own, re-drawn weights."""

from __future__ import annotations

import copy
import hashlib
import hmac
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from ..shared import device_context
from ..shared.align import Weight, weights_of
from . import vary, written
from .errors import rms_of
from .precisions import is_float8, one_sided, wide
from .problem import Drawn

OWN = "own"
FINE = "fine"  # the problem's own values, with lower bits that every lower precision rounds to the same side
SCALED = "scaled"  # the problem's own values, in blocks of very different magnitude
VARIED = "varied"  # the problem's own values, with inputs that `get_inputs` gives the same each time varied
# How weights are drawn: with large ones among them, with none, with the signs that they have, near to what they are.
FREE, EVEN, SIGNED, NEAR = "free", "even", "signed", "near"
FORMS = (FREE, EVEN, SIGNED, NEAR)
_SMALL_GAIN, _LEAST_GAIN = 0.01, 0.1  # of a constant weight
_NEAR = 0.1  # of a weight's spread
_MANY = 256  # elements of a weight
_TAILS = 3.0  # powers of two that weights differ by, up or down
_RMS_OF_TAILS = math.sqrt((4**_TAILS - 4**-_TAILS) / (2 * _TAILS * math.log(4)))
_PIECE = 1 << 25  # elements that are drawn at once
ZEROS = "zeros"
REDRAWN = ("normal", "uniform", "heavy", ZEROS)
PATCHED = "patched"  # the problem's own values, but for some parts
SPARSE = "sparse"  # the problem's own values, of which one input keeps only a few in each row
_TERMS = 4  # values that are kept in a row
_LONG_ROWS = 16  # elements of a row of which few can be kept
_ROWS = 16  # of so many one is zero
_PATCHES = (1 << 40, 64)  # a single row of a dimension, and a part of it
_SHIFT = 4.0  # times its rms an input is moved by there
# Powers of two between which the magnitudes of blocks lie: the first of these that the reference bears.
SPANS = ((-8, 8), (-6, 6), (-4, 4), (-8, 0), (-2, 2))
_BLOCKS = (8, 12)  # along one dimension, of which each is at least a third of the usual length
_SHORTEST = 4  # dimension that is divided
_LARGEST_FP8 = 448.0


@dataclass
class Plan:
    """How the inputs of one problem are drawn otherwise than by `get_inputs`."""

    structured: list[bool] = field(default_factory=list)  # not drawn by us
    plain: list[bool] = field(default_factory=list)  # whose lower bits may be chosen
    scalable: list[bool] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)  # to vary what is the same each time, where there is one
    mul: str = "fp32"
    rows: bool = True  # whether whole rows may be zero
    deep: bool = True  # whether lower bits are chosen for all lower precisions or for the next one only
    span: tuple[int, int] = SPANS[0]
    kept: list[str] = field(default_factory=list)  # what all draws have in common, and redrawn values must have too
    divisible: list[bool] = field(default_factory=list)  # of which a part may come from another draw


def derive(secret: bytes, label: str) -> int:
    """A seed for one purpose; nothing about one seed follows from another."""
    return int.from_bytes(hmac.new(secret, label.encode(), hashlib.sha256).digest()[:8], "little") >> 1


def redraw(own: Drawn, plan: Plan, distribution: str, seed: int) -> Drawn:
    """The same shapes with other values; index, mask and structured inputs stay as `get_inputs` gave them, but for `varied`."""
    generator = torch.Generator(device_context.device()).manual_seed(seed)
    tensors = list(own.tensors)
    for index, tensor in enumerate(tensors):
        if distribution == FINE:
            if plan.plain[index]:
                tensors[index] = one_sided(tensor, plan.mul, plan.deep, generator)
        elif distribution == VARIED:
            if plan.ways[index]:
                tensors[index] = vary.vary(tensor, plan.ways[index], generator)
        elif distribution == SPARSE:
            if index == sparse_input(plan, [t.shape for t in own.tensors]):
                tensors[index] = _few_of_each_row(tensor, generator)
        elif distribution == PATCHED:
            if plan.scalable[index]:
                tensors[index] = _with_patches(tensor, random.Random(f"{seed}-{index}"))
        elif distribution == SCALED:
            if plan.scalable[index]:
                tensors[index] = _in_blocks(tensor, plan.span, random.Random(f"{seed}-{index}"))
        elif not plan.structured[index]:
            tensors[index] = _values(tensor, distribution, generator)
            if distribution == ZEROS and plan.rows:
                _without_some_rows(tensors[index], generator)
        if any(plan.kept) and tensors[index] is not tensor:
            tensors[index] = vary.kept(tensors[index], plan.kept[index])
    return Drawn(own.skeleton, tensors)


def sparse_input(plan: Plan, shapes: Sequence[Sequence[int]]) -> int | None:
    """Which input keeps only a few values in each row: the first whose rows are long enough."""
    able = (i for i, shape in enumerate(shapes) if plan.scalable[i] and shape and shape[-1] >= _LONG_ROWS)
    return next(able, None)


def terms_of_sparse(reduction: int, sums: int, row: int) -> int:
    """How many values are added up where one operand has few others than zero: adding zeros is exact in any order."""
    return min(reduction, max(sums, 64, math.ceil(reduction * _TERMS / row)))


def _few_of_each_row(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Sums of a few products, which honest kernels round a few times only, however long they are: less precise products
    have nothing to average out with."""
    places = torch.randint(tensor.shape[-1], (*tensor.shape[:-1], _TERMS), generator=generator, device=tensor.device)
    values = wide(tensor)
    made = torch.zeros_like(values).scatter_(-1, places, values.gather(-1, places))
    return _as(made, tensor.dtype)


def _with_patches(tensor: torch.Tensor, chance: random.Random) -> torch.Tensor:
    """Some parts of a tensor stand out: whoever takes shortcuts where none does must do all of the work here. The same number
    of parts of the same sizes in each draw, so that one is as hard as another."""
    made = wide(tensor).clone(memory_format=torch.preserve_format)
    moved = _SHIFT * rms_of(tensor)
    for dim, size in enumerate(tensor.shape):
        for parts in _PATCHES if size > 1 else ():
            length = max(1, size // parts)
            patch = made.narrow(dim, chance.randrange(size - length + 1), length)
            # Zeros stay, as those above a diagonal.
            patch.copy_(torch.where(patch == 0, patch, patch + moved))
    return _as(made, tensor.dtype)


def _without_some_rows(tensor: torch.Tensor, generator: torch.Generator) -> None:
    """Some rows of a matrix are zero throughout, as padding is."""
    if tensor.dim() > 1 and (count := math.prod(tensor.shape[:-1])) >= _ROWS:
        gone = torch.rand(tensor.shape[:-1], generator=generator, device=tensor.device) < 1 / _ROWS
        gone.view(-1)[generator.initial_seed() % count] = True
        (tensor.view(torch.uint8) if is_float8(tensor.dtype) else tensor)[gone] = 0


def blocks_of(shape: Sequence[int]) -> list[int]:
    """The dimensions that are long enough to be divided."""
    return [dim for dim, size in enumerate(shape) if size >= _SHORTEST]


def _in_blocks(tensor: torch.Tensor, span: tuple[int, int], chance: random.Random) -> torch.Tensor:
    """Multiplied by powers of two, block by block along the last dimension and one other, with bounds at random places.

    All powers of the span occur, in a random order: one draw is as hard as another."""
    dims = blocks_of(tensor.shape)
    if len(dims) > 2:
        dims = [chance.choice(dims[:-1]), dims[-1]]
    made = wide(tensor).clone(memory_format=torch.preserve_format)
    for dim in dims:
        size = tensor.shape[dim]
        count = min(chance.randint(*_BLOCKS), size)
        bounds = [0, *(round((i + chance.uniform(-1, 1) / 3) * size / count) for i in range(1, count)), size]
        low, high = (end / len(dims) for end in span)
        powers = [round(low + (high - low) * i / (count - 1)) for i in range(count)]
        chance.shuffle(powers)
        factors = torch.empty(size, dtype=made.dtype)
        for start, end, power in zip(bounds, bounds[1:], powers, strict=False):
            factors[start:end] = 2.0**power
        shape = [size if other == dim else 1 for other in range(tensor.dim())]
        made.mul_(factors.to(made.device).view(shape))
    return _as(made, tensor.dtype)


def _as(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """In another dtype; eight-bit floats have no room for large values."""
    return (values.clamp(-_LARGEST_FP8, _LARGEST_FP8) if is_float8(dtype) else values).to(dtype)


def _values(like: torch.Tensor, distribution: str, generator: torch.Generator) -> torch.Tensor:
    """In pieces: what is drawn on the way must not take several times the input."""
    # Doubles drawn as floats would be the same after rounding to float: lower precision could not be told from theirs.
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    made = torch.empty_like(like)  # dense, as every input
    for piece in made.as_strided((made.numel(),), (1,)).split(_PIECE):
        piece.copy_(_as(_drawn(piece.numel(), distribution, dtype, generator), like.dtype))
    return made


def _drawn(count: int, distribution: str, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    def normal() -> torch.Tensor:
        return torch.randn(count, generator=generator, dtype=dtype, device=generator.device)

    def uniform(dtype: torch.dtype) -> torch.Tensor:
        return torch.rand(count, generator=generator, dtype=dtype, device=generator.device)

    if distribution == "normal":
        return normal()
    if distribution == "uniform":
        return uniform(dtype) * 2 - 1
    if distribution == "heavy":
        return torch.sign(normal()) * torch.exp(1.5 * normal()).clamp(max=1e3)
    keep = uniform(torch.float32) < 0.5
    return torch.where(keep, normal(), 0.0)


def structured_inputs(first: Drawn, second: Drawn) -> list[bool]:
    """Which inputs are not plain random values: integers, masks, constants, values from a small set."""
    return [_structured(a, b) for a, b in zip(first.tensors, second.tensors, strict=True)]


def _structured(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not a.is_floating_point() or a.numel() == 0:
        return True
    # Half of a triangular or one-hot input is one value; a random one repeats almost nothing.
    if a.shape != b.shape or torch.equal(a, b) or not has_many_values(a):
        return True
    if vary.are_whole(a) and vary.are_whole(b):
        return True  # steps, counts, places: nothing is between them
    return bool((a == 0).float().mean() > 0.3)


def has_many_values(tensor: torch.Tensor) -> bool:
    """Whether floating values are finite, many and different: no mask, no few levels. Any number of them may be zero."""
    tensor = wide(tensor)
    if not tensor.is_floating_point() or tensor.numel() == 0 or not torch.isfinite(tensor).all():
        return False
    sample = tensor.flatten()[:4096].float()
    return bool(torch.unique(sample).numel() > max(1, min(16, sample.numel() // 2)))


def redraw_weights(model: nn.Module, seed: int, forms: Mapping[str, str] | None = None) -> nn.Module:
    """A copy with parameters drawn anew at their initialiser's scale, gains and biases included: each in its form, or all as
    freely as can be. Running statistics are drawn in any case, and buffers of one number like gains; all other buffers are
    what the constructor makes them."""
    made = copy.deepcopy(model)
    generator = torch.Generator(device_context.device()).manual_seed(seed)
    with torch.no_grad():
        for weight in weights_of(made):
            tensor = weight.tensor
            if not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            name = weight.name.rpartition(".")[2]
            noise = torch.randn(tensor.shape, generator=generator, device=tensor.device)
            powers = torch.rand(tensor.shape, generator=generator, device=tensor.device)
            noise = noise if is_float8(tensor.dtype) else noise.to(tensor.dtype)
            if name == "running_var":
                tensor.copy_(0.5 + noise.abs())
            elif name == "running_mean":
                tensor.copy_(0.5 * noise)
            elif is_varied(made, weight) and (form := FREE if forms is None else forms.get(weight.name, "")):
                tensor.data.copy_(_in_form(wide(tensor.data), noise, powers, form))
    return made


def is_varied(model: nn.Module, weight: Weight) -> bool:
    """A kernel may rely on tables and masks that the constructor computes, and on nothing that a checkpoint will overwrite.
    Buffers that are written are drawn by themselves (`written.redraw`)."""
    tensor = weight.tensor
    if weight.kind == "parameter":
        return True
    if (
        weight.kind != "buffer"
        or weight.name in written.of(model).buffers
        or not tensor.is_floating_point()
        or not tensor.numel()
    ):
        return False
    return bool((wide(tensor) == wide(tensor).flatten()[0]).all())


def _in_form(tensor: torch.Tensor, noise: torch.Tensor, powers: torch.Tensor, form: str) -> torch.Tensor:
    if form == NEAR:
        least = float(tensor.abs().max()) or 0.5
        spread = tensor.double().std().item() if tensor.numel() > 1 else 0.0
        return tensor + _as_signed(tensor, _NEAR * (spread or least) * noise)
    if form == FREE and tensor.numel() >= _MANY:
        # Some are many times larger than others, as in trained models: whoever keeps them in blocks of few bits with a scale
        # for each loses the small ones.
        noise = noise * torch.exp2(_TAILS * (2 * powers - 1)).to(noise.dtype) / _RMS_OF_TAILS
    made = at_scale(tensor, noise)
    return _as_signed(tensor, made) if form == SIGNED else made


def _as_signed(tensor: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """With the signs that are known: a reference may bear no others."""
    if bool((tensor >= 0).all()):
        return made.abs()
    return -made.abs() if bool((tensor <= 0).all()) else made


def at_scale(tensor: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    spread = tensor.double().std().item() if tensor.numel() > 1 else 0.0
    if spread > 0.0:
        return tensor.mean() + spread * noise
    # A constant tensor is a gain or a bias: a candidate that leaves it out must be noticed.
    center = tensor.flatten()[0]
    # One that is all but nothing would let all that it weighs be left out.
    least = 0.5 if center == 0 else (_LEAST_GAIN if center.abs() < _SMALL_GAIN else 0.0)
    return center + (0.25 * center.abs() + least) * noise


def one_sided_weights(model: nn.Module, mul: str, seed: int, redrawn: Mapping[str, str]) -> None:
    """Parameters get lower bits that every lower precision rounds to the same side: narrower ones then show on all inputs."""
    generator = torch.Generator(device_context.device()).manual_seed(seed)
    with torch.no_grad():
        for weight in weights_of(model):
            if weight.name in redrawn and weight.tensor.is_floating_point():
                weight.tensor.data.copy_(one_sided(weight.tensor.data.contiguous(), mul, True, generator, even=True))
