"""Smaller sizes for a problem, so that an interpreter can run it.

A KernelBench-form problem keeps its sizes in module-level integers. Which of them are sizes is not known here; what
is kept is what their use may depend on: small values (kernel sizes, strides, groups), equality, divisibility, powers
of two. Two things are kept because bugs show there: not being a power of two (a forgotten mask), and being different
from the other sizes (rows and columns mixed up).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

_CAPS = (8, 16, 32, 64, 128, 256)
_SMALL = 8
BUDGET = 2**21


def reduce_sizes(problem_globals: Mapping[str, int], budget: int = BUDGET) -> list[dict[str, int]]:
    """Assignments to try in turn, small ones first, until the reference runs; each holds only what it changes.

    All constants, multiplied, are taken as an upper bound of the work. Of each way to reduce, what is smaller than
    the largest within `budget` is left out, so that problems with few sizes are not made needlessly tiny. The last
    entry is {}: the problem's own sizes.
    """
    own = {n: v for n, v in problem_globals.items() if isinstance(v, int) and not isinstance(v, bool)}
    values = sorted({v for v in own.values() if v > 1})
    # `dim = heads * head_dim` may be meant or chance, which the numbers do not tell: both are tried.
    products = _products(values)
    ways: list[Callable[[int], dict[int, int]]] = [
        lambda cap: _falling(values, cap),
        lambda cap: _capped(values, cap, {}),
        lambda cap: _capped(values, cap, products),
    ]
    weighed: list[tuple[int, dict[str, int]]] = []
    for way in ways if products else ways[:2]:
        column = []
        for cap in _CAPS:
            new = way(cap)
            changed = {name: new[v] for name, v in own.items() if new.get(v, v) != v}
            work = math.prod(new[v] for v in own.values() if v > _SMALL)
            if changed and _keeps_multiples(new):
                column.append((work, changed))
        affordable = sum(work <= budget for work, _ in column)
        weighed += column[max(0, affordable - 1) :]
    # The first of the first way keeps sizes different from each other, which is worth some more work.
    ordered = weighed[:1] + sorted(weighed[1:], key=lambda entry: entry[0])
    proposals: list[dict[str, int]] = []
    for _, changed in ordered:
        if changed not in proposals:
            proposals.append(changed)
    return [*proposals, {}]


def _falling(values: list[int], cap: int) -> dict[int, int]:
    """Each size less than half over the next larger one's, so that sizes stay different where there is room."""
    new: dict[int, int] = {}
    ceiling = cap
    for value in reversed(values):
        new[value] = value if value <= _SMALL else _below(value, max(ceiling, _SMALL), 1)
        ceiling = min(ceiling, new[value] // 2)
    return new


def _capped(values: list[int], cap: int, products: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Each size as large as the cap allows, built up so that multiples stay multiples."""
    new: dict[int, int] = {}
    for value in values:
        unit = math.lcm(*[new[d] for d in new if value % d == 0])
        if value <= cap:
            new[value] = value
        elif value in products:
            new[value] = math.prod(new[factor] for factor in products[value])
        else:
            new[value] = _below(value, cap, unit)
    return new


def _keeps_multiples(new: Mapping[int, int]) -> bool:
    return all(new[a] % new[b] == 0 for a in new for b in new if a % b == 0)


def _products(values: list[int]) -> dict[int, tuple[int, int]]:
    """Values that are the product of two others, with the two nearest to each other."""
    found: dict[int, tuple[int, int]] = {}
    for i, small in enumerate(values):
        for large in values[i:]:
            if small * large in values:
                found[small * large] = (small, large)
    return found


def _below(value: int, cap: int, unit: int) -> int:
    """The largest multiple of `unit` up to `cap` that is a power of two if and only if `value` is one."""
    if value <= cap or unit >= value:
        return value
    power = _is_power(value)
    # As much of an even number's evenness as leaves room for an odd factor of three.
    step = 1 if power else math.gcd(value, 2 ** max(0, (cap // 3).bit_length() - 1))
    for multiple in (math.lcm(unit, step), unit):
        for candidate in range(cap // multiple * multiple, 0, -multiple):
            if _is_power(candidate) == power:
                return candidate
    # Nothing fits under the cap: the least above it.
    return next((c for c in (unit, 2 * unit, 3 * unit) if c < value and _is_power(c) == power), value)


def _is_power(value: int) -> bool:
    return value & (value - 1) == 0
