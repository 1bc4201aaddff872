"""The first set of inputs with a part of one input changed, so that the truth moves: whoever leaves that part out is seen.

One part is too few: a row, a quarter, and small blocks at the end and in the middle of what is added up. What was the same in
all draws of an input stays so: sorted values are sorted again, and of one-hot rows, offsets and the like no part is taken.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..shared import device_context
from . import errors, truth, vary
from .bearing import non_finite
from .draw import OWN, derive
from .precisions import usual_tolerance, wide
from .problem import Drawn, forward

if TYPE_CHECKING:
    from .sets import Reference

# How far the truth must move: usual tolerances, and those of a band that is wide since the rms decides.
_CLEARLY, _CLEARLY_OF_WIDE = 10.0, 2.0
_BLOCK = 64  # a small block is this part of a dimension
_SHIFTS = (0.0, 1.0, 8.0, 32.0)  # by how many times its rms an input is moved there, next to coming from another draw
_HALVED = -1.0  # the part is halved where it is: references of shares and probabilities bear no larger values
_TRIES = 10
_MOST = 0.5  # of an output's elements: what is added up moves them all, wherever the part is
_OTHERS = 1000  # number of the first draw that parts are taken from


@dataclass(frozen=True)
class _Part:
    which: int  # input
    place: tuple[slice | int, ...]
    shift: float


def draw(reference: Reference, number: int) -> Drawn:
    before, _sources = reference.truth_of(reference.ensure(0, OWN, 0))
    reference.make_room(0)
    base = reference.draw(0, OWN, 0)
    other = reference.draw(0, OWN, _OTHERS + number)
    own = list(base.tensors)
    # A part of what is added up should move more than what lies at its own place.
    wanted = _MOST if number % 4 and max(reference.variants[0].reductions, default=1) > 1 else 0.0
    best: tuple[float, _Part] | None = None
    for part in _parts(reference, number):
        _change(reference, base, other, part)
        moved = _moves(reference, before, base)
        if moved > wanted:
            reference.slice_moves(number, True)
            return base
        if moved > (best[0] if best else 0.0):
            best = (moved, part)
        base.tensors[part.which] = own[part.which]
    reference.slice_moves(
        number, best is not None or (not _divisible(reference) and _moves(reference, before, other) > 0.0)
    )
    if best is None:
        return other
    _change(reference, base, other, best[1])
    return base


def _change(reference: Reference, base: Drawn, other: Drawn, part: _Part) -> None:
    tensor, new = base.tensors[part.which], other.tensors[part.which][part.place]
    if part.shift == _HALVED:
        new = (0.5 * wide(tensor[part.place])).to(new.dtype)
    elif part.shift:
        new = (wide(new) + part.shift * errors.rms_of(tensor)).to(new.dtype)
    made = tensor.clone(memory_format=torch.preserve_format)
    made[part.place] = new
    if (order := reference.plan.kept[part.which]) == vary.SYMMETRIC:
        made = torch.where(made == tensor, made.mT, made)  # above the diagonal too
    base.tensors[part.which] = vary.kept(made, order)


def _divisible(reference: Reference) -> list[int]:
    """The inputs of which a part may come from another draw."""
    plan, fields = reference.plan, reference.variants[0].input_fields
    filled = [i for i, f in enumerate(fields) if f.nbytes]
    # What is the same each time has no other draw to take a part from.
    return [i for i in filled if not plan.structured[i]] or [i for i in filled if plan.divisible[i]]


def _parts(reference: Reference, number: int) -> Iterator[_Part]:
    """Parts to try, in a random order of inputs, small changes before large ones."""
    chance = random.Random(derive(reference.secret, f"slice-{number}"))
    variant = reference.variants[0]
    shapes = [f.shape for f in variant.input_fields]
    outputs = {size for f in variant.output_fields for size in f.shape}
    order = _divisible(reference)
    chance.shuffle(order)
    left = _TRIES
    for shift in (*_SHIFTS, _HALVED):
        for which in order:
            if left and (shift == 0.0 or not reference.plan.structured[which]):
                left -= 1
                # What lies at the end of an input may not be used at all, as in pooling.
                anywhere = shift not in (0.0, 1.0)
                yield _Part(which, _place(shapes[which], outputs, number, chance, anywhere), shift)


def _place(
    shape: list[int], outputs: set[int], number: int, chance: random.Random, anywhere: bool
) -> tuple[slice | int, ...]:
    if not shape:
        return ()
    kind = number % 4
    if kind == 0:
        return (chance.randrange(shape[0]),)
    # What is added up has no place in the outputs; where all dimensions have, it may be any.
    dims = [d for d, size in enumerate(shape) if size > 1 and size not in outputs] or [
        d for d, size in enumerate(shape) if size > 1
    ]
    dim = chance.choice(dims) if dims else 0
    size = shape[dim]
    length = max(1, size // 4 if kind == 1 else size // _BLOCK)
    start = {2: size - length, 3: (size - length) // 2}.get(kind)
    if start is None or anywhere:
        start = chance.randrange(size - length + 1)
    return (*[slice(None)] * dim, slice(start, start + length))


def _moves(reference: Reference, before: list[torch.Tensor], changed: Drawn) -> float:
    """The largest share of an output that moves clearly, if rounding as the contract allows it stays within the bands there."""
    try:
        return _moves_borne(reference, before, changed)
    except Exception as error:
        if device_context.is_no_memory(error):
            raise
        return 0.0  # the reference does not bear it


def _moves_borne(reference: Reference, before: list[torch.Tensor], changed: Drawn) -> float:
    exactly = reference.exactly(0, changed)
    bands = reference.bands_of(OWN)
    fields, mul = reference.variants[0].output_fields, reference.contract["mul"]
    # A slice of an input that is written stays in it, whether anything is computed from it or not.
    counted = reference.variants[0].returned or len(bands)
    share = max(
        _moved(a, b, band, usual_tolerance(mul, field.torch_dtype))
        for a, b, band, field in zip(
            before[:counted], exactly[0][:counted], bands[:counted], fields[:counted], strict=True
        )
    )
    if share == 0.0:
        return 0.0
    model, variant = reference.model(0), reference.variants[0]
    _skeleton, native = forward(model, changed)
    if any(non_finite(got) > non_finite(true) for got, true in zip(native, before, strict=True)):
        return 0.0
    measured = truth.measure(
        model, changed, exactly, reference.contract["mul"], variant.reductions, reference.rounds_truths, native, False
    )
    holds = all(
        band is None or made is None or _holds(made, band, true)
        for made, band, true in zip(measured.outputs, bands, exactly[0], strict=True)
    )
    return share if holds else 0.0


def _moved(before: torch.Tensor, after: torch.Tensor, band: truth.Band | None, usual: float) -> float:
    """The share of elements."""
    if before.numel() == 0:
        return 0.0
    rms, count = errors.rms_of(before) if band else 0.0, 0
    times = max(_CLEARLY * usual / band.tau, _CLEARLY_OF_WIDE) if band else 0.0
    for old, new in errors.pieces(before, after):
        if band is None:
            count += int((old != new).sum())
        else:
            difference = (new.double() - old.double()).abs()
            count += int((difference > times * band.allowed(old.double(), rms)).sum())
    return count / before.numel()


def _holds(made: truth.Measured, band: truth.Band, true: torch.Tensor) -> bool:
    if true.numel() < truth.FEW:
        return True  # held to eager's own error on this very set
    margin = truth.WIDE_MARGIN if band.separated else truth.MARGIN
    return truth.MARGIN * made.contract <= band.rms_limit and margin * made.contract_worst <= band.tau
