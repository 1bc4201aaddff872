"""Which distributions a problem's inputs are drawn from, and what is allowed on each of them.

A distribution is used where the reference bears it, eager is precise enough on it, and rounding as the contract allows it
stays within every limit on many draws, with a margin: then the same kernel gets the same verdict on the next draw too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from ..shared import device_context
from ..shared.align import weights_of
from . import scalars, truth, vary
from .doubt import MOST_IN_DOUBT, resolved, share_in_doubt
from .draw import (
    FINE,
    FORMS,
    NEAR,
    OWN,
    PATCHED,
    REDRAWN,
    SCALED,
    SPANS,
    SPARSE,
    VARIED,
    ZEROS,
    blocks_of,
    derive,
    has_many_values,
    is_varied,
    redraw,
    redraw_weights,
    sparse_input,
    structured_inputs,
    terms_of_sparse,
)
from .errors import worst_of
from .precisions import has_lower_bits, usual_tolerance, wide
from .problem import Drawn, ProblemError, draw_inputs, forward, input_names

if TYPE_CHECKING:
    from .sets import Reference

_WEIGHTS_TRIED = 32  # one by one
_DRAWS = 4  # of `get_inputs`, to see what is the same each time
_CALIBRATION = 5000  # number of the first set that is only measured, never given to a candidate
# How many draws of a distribution are measured, by the elements of inputs and outputs.
_MEASURED = ((1 << 13, 16), (1 << 16, 8), (1 << 20, 4))
# And of an output of few elements, whose errors differ more from draw to draw.
_MEASURED_FEW = ((1 << 19, 16), (1 << 21, 8), (1 << 23, 4))
_FEWEST = 2
_BITS_OF_SUMS = 22  # of single precision, less two
_NOT_BORNE = "the reference does not accept it"
_IMPRECISE = "eager itself is too far from float64 on it"
_MANY = 4096  # elements of an output: the error of lower precision is then the same on every draw


def choose(reference: Reference) -> None:
    """Fills in the plan, the distributions and their bands, and keeps the first set of each."""
    constant = _look_at_inputs(reference)
    own, worst = _measure_own(reference)
    if reference.contract["inputs"] == "given":
        return
    _vary_constants(reference, constant, own, worst)
    # Lower bits of one side add up in long sums of inputs too, which honest kernels make: they are for products.
    names = [*([FINE] if reference.narrows else []), *REDRAWN, SCALED, VARIED, PATCHED, SPARSE]
    left_out = _take(reference, names, own, worst)
    if len(reference.distributions) == 1 and FINE not in names:
        left_out |= _take(reference, [FINE], own, worst)
    if left_out and len(reference.distributions) == 1:
        kept = min(left_out, key=left_out.__getitem__)
        del left_out[kept]
        _admit(reference, kept, own, worst, math.inf)
        reference.distributions.append(kept)
    for distribution in left_out:
        reference.note(
            f"input distribution {distribution!r} not used: rounding that the contract allows takes up the tolerance there, or decides too many elements"
        )


def _take(reference: Reference, names: list[str], own: list[torch.Tensor], worst: list[float]) -> dict[str, float]:
    """Adds the distributions that can be used; those that are left out for want of a margin, with how far beyond it they are."""
    left_out: dict[str, float] = {}
    for distribution in names:
        if not _concerns(reference, distribution):
            continue
        beyond = _try(reference, distribution, own, worst)
        if isinstance(beyond, str):
            reference.note(f"input distribution {distribution!r} not used: {beyond}")
        elif beyond > 1.0:
            left_out[distribution] = beyond
        else:
            reference.distributions.append(distribution)
    return left_out


def _look_at_inputs(reference: Reference) -> list[int]:
    """Finds what is structured; the numbers of the inputs that are the same each time."""
    module = reference.problem.load(reference.variants[0].sizes)

    def drawn(number: int) -> Drawn:
        return draw_inputs(module, derive(reference.secret, f"structure-{number}"))

    first, second = drawn(1), drawn(2)
    if [t.shape for t in first.tensors] != [t.shape for t in second.tensors]:
        raise ProblemError("get_inputs() gives other shapes at each call: fix the sizes")
    if scalars.differ(first.skeleton, second.skeleton):
        raise ProblemError(
            "get_inputs() gives other numbers at each call that are no tensors: make tensors of them (torch.tensor(0.5)), "
            "or let them be the same each time"
        )
    plan = reference.plan
    plan.mul = reference.contract["mul"]
    plan.structured = structured_inputs(first, second)
    plan.kept = [
        a if a == vary.order_of(t) else ""
        for a, t in zip(map(vary.order_of, first.tensors), second.tensors, strict=True)
    ]
    plan.divisible = [all(map(vary.is_divisible, pair)) for pair in zip(first.tensors, second.tensors, strict=True)]
    same = [i for i, (a, b) in enumerate(zip(first.tensors, second.tensors, strict=True)) if _equal(a, b)]
    reference.own_varies = len(same) < len(first.tensors)
    del second
    for number in range(3, _DRAWS + 1 if same or any(plan.kept) else 0):
        third = drawn(number)
        plan.kept = [
            order if order == vary.order_of(t) else "" for order, t in zip(plan.kept, third.tensors, strict=True)
        ]
        still = [i for i in same if _equal(first.tensors[i], third.tensors[i])]
        reference.own_varies = reference.own_varies or len(still) < len(same)
        same = still
    plan.plain = [
        has_many_values(t) and not vary.are_whole(t) and not vary.is_sorted(wide(t)) and order != vary.FALLING
        for t, order in zip(first.tensors, plan.kept, strict=True)
    ]
    plan.scalable = [plain and index not in same for index, plain in enumerate(plan.plain)]
    plan.ways = [""] * len(first.tensors)
    return same


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = wide(a), wide(b)
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def _concerns(reference: Reference, distribution: str) -> bool:
    """Whether it changes anything."""
    plan, fields = reference.plan, reference.variants[0].input_fields
    if distribution == VARIED:
        return any(plan.ways)
    if distribution == FINE:
        return any(
            plain and has_lower_bits(f.torch_dtype, plan.mul) for plain, f in zip(plan.plain, fields, strict=True)
        )
    if distribution == SPARSE:
        return reference.multiplies and _sparse_row(reference, 0) is not None
    if distribution == PATCHED:
        return any(plain and math.prod(f.shape) > 1 for plain, f in zip(plan.scalable, fields, strict=True))
    if distribution == SCALED:
        return any(scalable and blocks_of(f.shape) for scalable, f in zip(plan.scalable, fields, strict=True))
    return not all(plan.structured)


def _try(reference: Reference, distribution: str, own: list[torch.Tensor], worst: list[float]) -> float | str:
    """In its strongest form that the reference bears; as `_admit`."""
    plan = reference.plan
    least: float | str = _NOT_BORNE
    forms: list[tuple[bool, tuple[int, int], bool]] = {
        FINE: [(True, plan.span, plan.rows), (False, plan.span, plan.rows)],
        SCALED: [(plan.deep, span, plan.rows) for span in SPANS if span[1] - span[0] <= _most_span(reference)],
        ZEROS: [(plan.deep, plan.span, True), (plan.deep, plan.span, False)],
    }.get(distribution, [(plan.deep, plan.span, plan.rows)])
    for plan.deep, plan.span, plan.rows in forms:
        beyond = _admit(reference, distribution, own, worst)
        if isinstance(beyond, str):
            least = beyond if isinstance(least, str) else least
        elif beyond <= 1.0:
            return beyond
        else:
            least = beyond if isinstance(least, str) else min(beyond, least)
    return least


def _most_span(reference: Reference) -> float:
    """A value that is smaller than a sum by more than its precision has bits is lost, in an honest sum too."""
    longest = max(reference.variants[0].reductions, default=1)
    return max(4.0, _BITS_OF_SUMS - math.log2(min(longest, truth.LONGEST)))


def _admit(
    reference: Reference, distribution: str, own: list[torch.Tensor], worst: list[float], most: float = 1.0
) -> float | str:
    """How far rounding as the contract allows goes beyond its margin, or why the draws cannot be used.

    Up to `most` the bands are kept, and the first set."""
    model, measured = reference.model(0), []
    doubled, share = True, 0.0
    for number in reversed(_numbers(reference)):
        reference.make_room(0)
        drawn = reference.draw(0, distribution, number)
        native = surviving(model, drawn, own)
        if native is None:
            return _NOT_BORNE
        exactly = reference.exactly(0, drawn)
        share = max(share, share_in_doubt(exactly[1], exactly[0]) / MOST_IN_DOUBT)
        if not _precise_enough(reference, native, exactly, worst):
            return _IMPRECISE
        doubled = doubled and exactly[2]
        # Where room is short eager runs once more, rather than lie beside the run in lower precision.
        kept = None if reference.rounds_truths else native
        del native
        measured.append(_measure(reference, 0, distribution, drawn, exactly, kept, number == 0))
        del kept
        device_context.give_back_unused()
    bands, beyond = _limits(reference, 0, distribution, measured, doubled)
    beyond = max(beyond, share)
    if beyond <= most:
        reference.bands[f"v0-{distribution}"] = bands
        reference.told = reference.told or any(m.told for m in measured)
        reference.keep_set(0, distribution, 0, drawn, exactly)
    return beyond


def _numbers(reference: Reference) -> list[int]:
    """Of the sets of a distribution that are measured."""
    first = reference.variants[0]
    elements = sum(math.prod(f.shape) for f in (*first.input_fields, *first.output_fields))
    table = (*_MEASURED, *(_MEASURED_FEW if _has_few(reference) else ()))
    count = max((count for most, count in table if elements <= most), default=_FEWEST)
    return [0, *range(_CALIBRATION, _CALIBRATION + count - 1)]


def _has_few(reference: Reference) -> bool:
    """Whether an output has few elements, and a call is cheap enough to be made on more draws."""
    first = reference.variants[0]
    fields = first.output_fields
    if sum(math.prod(w["field"]["shape"]) for w in first.weights) > _MEASURED_FEW[0][0]:
        return False
    return any(f.torch_dtype.is_floating_point and 0 < math.prod(f.shape) < truth.FEW for f in fields)


def _measure_own(reference: Reference) -> tuple[list[torch.Tensor], list[float]]:
    """Eager's outputs on a set of the problem's own inputs, and its worst elements: long sums round as much there."""
    measured, doubled = [], True
    model = reference.model(0)
    for number in reversed(_numbers(reference)):
        reference.make_room(0)
        drawn = reference.draw(0, OWN, number)
        exactly = reference.exactly(0, drawn)
        doubled = doubled and exactly[2]
        measured.append(_measure(reference, 0, OWN, drawn, exactly, None, number == 0))
    reference.bands[f"v0-{OWN}"] = _limits(reference, 0, OWN, measured, doubled)[0]
    reference.told = reference.told or any(m.told for m in measured)
    reference.keep_set(0, OWN, 0, drawn, exactly)
    outputs = zip(*(m.outputs for m in measured), strict=True)
    return forward(model, drawn)[1], [
        max((m.own_worst for m in sets if m is not None), default=0.0) for sets in outputs
    ]


def bands_here(
    reference: Reference, variant: int, distribution: str, drawn: Drawn, exactly: truth.Exactly
) -> list[truth.Band | None]:
    """For other weights or sizes, by half as many draws, where outputs have more than a few elements."""
    measured = [_measure(reference, variant, distribution, drawn, exactly, None, True)]
    numbers = _numbers(reference)
    for number in numbers[1 : len(numbers) // (1 if _has_few(reference) else 2)]:
        other = reference.draw(variant, distribution, number)
        exact = reference.exactly(variant, other)
        measured.append(_measure(reference, variant, distribution, other, exact, None, False))
    return _limits(reference, variant, distribution, measured, exactly[2])[0]


def _measure(
    reference: Reference,
    variant: int,
    distribution: str,
    drawn: Drawn,
    exactly: truth.Exactly,
    native: list[torch.Tensor] | None,
    first: bool,
) -> truth.Measurement:
    made = reference.variants[variant]
    return truth.measure(
        reference.model(variant),
        drawn,
        exactly,
        reference.contract["mul"],
        reductions_on(reference, variant, distribution),
        reference.rounds_truths,
        native,
        with_lower=first or any(t.numel() < _MANY for t in exactly[0]),
        multiplied=[bool(products) for products in made.products],
        # Blocks of very different size are where algorithms that add operands up first are honestly further off.
        by_octave=[
            bool(products) and not mixes and distribution != SCALED
            for products, mixes in zip(made.products, made.mixes, strict=True)
        ],
    )


def _limits(
    reference: Reference, variant: int, distribution: str, measured: list[truth.Measurement], doubled: bool
) -> tuple[list[truth.Band | None], float]:
    reductions = reductions_on(reference, variant, distribution)
    return truth.limits(measured, reference.contract, reductions, doubled, reference.rounds_truths)


def reductions_on(reference: Reference, variant: int, distribution: str) -> list[int]:
    """How many values are added up for one element of each output, on inputs of a distribution."""
    made = reference.variants[variant]
    row = _sparse_row(reference, variant) if distribution == SPARSE else None
    if row is None:
        return made.reductions
    return [terms_of_sparse(*pair, row) for pair in zip(made.reductions, made.sums, strict=True)]


def _sparse_row(reference: Reference, variant: int) -> int | None:
    """The length of the rows of which `sparse` keeps a few values."""
    shapes = [field.shape for field in reference.variants[variant].input_fields]
    which = sparse_input(reference.plan, shapes)
    return None if which is None else shapes[which][-1]


def _precise_enough(
    reference: Reference, native: list[torch.Tensor], exactly: truth.Exactly, own_worst: list[float]
) -> bool:
    """Whether eager itself stays within the ordinary band there; an ill-conditioned draw proves nothing."""
    reductions = reference.variants[0].reductions
    exact, sources, _doubled = exactly
    for index, (got, true, own, reduction) in enumerate(zip(native, exact, own_worst, reductions, strict=True)):
        if got.is_floating_point():
            usual = usual_tolerance(reference.contract["mul"], got.dtype)
            worst = worst_of(got, resolved(got, true, sources.get(index)), truth.scale_of(reduction))
            # With room to spare: a kernel that rounds a little otherwise must not fail where eager just passes.
            if worst > usual / 4 and worst > min(2 * own, usual):
                return False
    return True


def weight_forms(model: nn.Module, seed: int, bears: Callable[[nn.Module], bool]) -> dict[str, str]:
    """How each parameter is drawn: all in the freest form that the reference bears, else one by one near to what it is."""
    names = [weight.name for weight in weights_of(model) if is_varied(model, weight)]
    for form in FORMS:
        if bears(redraw_weights(model, seed, found := dict.fromkeys(names, form))):
            return found
    borne: dict[str, str] = {}
    for name in names[:_WEIGHTS_TRIED]:
        if bears(redraw_weights(model, seed, {**borne, name: NEAR})):
            borne[name] = NEAR
    return borne


def _vary_constants(reference: Reference, constant: list[int], own: list[torch.Tensor], worst: list[float]) -> None:
    """Finds a way for each input that is the same each time, one by one: one that cannot be varied exempts no other."""
    if not constant:
        return
    base = reference.draw(0, OWN, 0)
    names = input_names(reference.model(0), base)
    fixed = _fixed(reference, names)
    plan = reference.plan
    for index in constant:
        if index in fixed:
            continue
        for way in vary.ways(base.tensors[index]):
            plan.ways[index] = way
            if _bears_way(reference, base, index, own, worst):
                break
            plan.ways[index] = ""
    held = [names[i] for i in constant if i in fixed]
    same = [names[i] for i in constant if i not in fixed and not plan.ways[i] and base.tensors[i].numel()]
    if held:
        reference.note(f"held fixed by the contract: {', '.join(held)}")
    if same:
        reference.note(
            f"not varied, since the reference accepts no other values within the range that get_inputs() gives: {', '.join(same)}"
        )


def _bears_way(reference: Reference, base: Drawn, index: int, own: list[torch.Tensor], worst: list[float]) -> bool:
    plan = reference.plan
    alone = replace(plan, ways=[way if i == index else "" for i, way in enumerate(plan.ways)])
    drawn = redraw(base, alone, VARIED, derive(reference.secret, f"way-{index}"))
    if _equal(drawn.tensors[index], base.tensors[index]):
        return False
    native = surviving(reference.model(0), drawn, own)
    return native is not None and _precise_enough(reference, native, reference.exactly(0, drawn), worst)


def _fixed(reference: Reference, names: list[str]) -> set[int]:
    found: set[int] = set()
    for entry in reference.contract.get("fixed", []):
        numbers = {entry} if isinstance(entry, int) else {i for i, n in enumerate(names) if n.split("[")[0] == entry}
        if not numbers or max(numbers) >= len(names):
            raise ProblemError(f"`fixed` names {entry!r}, which is no input: there are {', '.join(names)}")
        found |= numbers
    return found


def surviving(model: nn.Module, drawn: Drawn, own: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """The outputs if there is no exception, the same shapes, and no non-finite value that the own inputs do not give."""
    try:
        _skeleton, outputs = forward(model, drawn)
    except Exception as error:
        if device_context.is_no_memory(error):
            raise
        return None
    if len(outputs) != len(own):
        return None
    for got, usual in zip(outputs, own, strict=True):
        if got.shape != usual.shape or got.dtype != usual.dtype:
            return None
        if non_finite(got) > non_finite(usual):
            return None
    return outputs


def non_finite(tensor: torch.Tensor) -> int:
    tensor = wide(tensor)
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return 0
    if bool(torch.isfinite(torch.linalg.vector_norm(tensor, float("inf")))):
        return 0
    return int((~torch.isfinite(tensor)).sum())
