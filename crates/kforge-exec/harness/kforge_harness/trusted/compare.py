"""Holds a candidate's output against the truth, and words the difference."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .doubt import Doubt, resolved
from .errors import error_of, measure, pieces, rms_of, worst_of
from .indices import IndexSource
from .octaves import octaves
from .precisions import wide
from .truth import Band


@dataclass
class Comparison:
    """`kind` is empty when the output passes; `error` is in units of what is allowed."""

    kind: str
    text: str
    error: float


def compare(
    got: torch.Tensor,
    true: torch.Tensor,
    band: Band | None,
    source: IndexSource | Doubt | None,
    name: str,
    precision: str,
) -> Comparison:
    if band is None or not got.is_floating_point():
        return _compare_exactly(got, true, source, name)
    true = resolved(got, true, source)
    if isinstance(source, Doubt) and (text := _not_selected(got, true, source, name)):
        return Comparison("numeric", text, 1e9)
    used = _quick_share(got, true, band)
    if used is not None and used <= 1.0:
        return _by_octave(got, true, band, name, precision, used)
    wrong, first = _non_finite_differs(got, true)
    if wrong:
        at = _place(first, got.shape)
        text = f"{name}: {wrong} of {got.numel()} elements are non-finite where the truth is not, or the reverse"
        expected = _number(true[at].to(got.dtype))
        return Comparison("non_finite", f"{text}; first at {at}: expected {expected}, got {_number(got[at])}", 1e9)
    rms = rms_of(true) or 1.0
    error = error_of(got, true) / rms
    worst = worst_of(got, true, band.scale)
    used = _share(error, worst, band)
    if used <= 1.0:
        return _by_octave(got, true, band, name, precision, used)
    detail, outside = _worst_element(got, true, band, name)
    # As far off as lower multiply precision would be, evenly over all elements: that has a name of its own.
    even = worst <= 8 * band.tau or outside > 0.25
    named = band.separated and band.multiplied
    if named and even and band.rms_limit < error < 16 * band.e_lo and error < 0.02:
        text = (
            f"{name}: rms error {error:.2e} of the output's rms; {precision} arithmetic stays below {band.rms_limit:.2e}, "
            f"the next lower multiply precision makes {band.e_lo:.2e}. Compute in {precision}, or let the contract allow less. "
        )
        return Comparison("precision", text + detail, used)
    if outside == 0:
        detail = f"{name}: rms error {error:.2e} of the output's rms, where {band.rms_limit:.2e} is allowed; " + detail
        if band.separated and not band.multiplied:
            detail += ". Sums of many values are added in blocks or in pairs, not one value after the other"
    return Comparison("numeric", detail, used)


def _by_octave(got: torch.Tensor, true: torch.Tensor, band: Band, name: str, precision: str, used: float) -> Comparison:
    """Of an output that passes as a whole: its elements by their magnitude."""
    if not band.octaves:
        return Comparison("", "", used)
    shares = {
        at: (found.error / band.octaves[at], found.error)
        for at, found in octaves(got, true).items()
        if at in band.octaves
    }
    if not shares:
        return Comparison("", "", used)
    at = max(shares, key=shares.__getitem__)
    share, error = shares[at]
    if share <= 1.0:
        return Comparison("", "", max(used, share))
    text = (
        f"{name}: elements between {2.0 ** (at - 1):.3g} and {2.0**at:.3g} are off by {error:.2e} of their own size; "
        f"{precision} arithmetic stays below {band.octaves[at]:.2e} there. Compute all of the output in {precision}"
    )
    return Comparison("precision", text, share)


def _not_selected(got: torch.Tensor, true: torch.Tensor, source: Doubt, name: str) -> str:
    """What is wrong with values that were sorted, or chosen from those that came in: nothing about them is rounded."""
    if wrong := source.out_of_order(wide(got)):
        return f"{name}: it is not sorted: {wrong} of {got.numel()} elements stand before one that must come first"
    if not source.selected:
        return ""
    mine, exact = wide(got), wide(true.to(got.dtype))
    differs = (mine != exact) & ~(mine.isnan() & exact.isnan())
    if not bool(differs.any()):
        return ""
    at = _place(_first(differs), got.shape)
    text = f"{name}: {int(differs.sum())} of {got.numel()} elements are none of the values that were to be chosen"
    return f"{text}; first at {at}: expected {_number(exact[at])}, got {_number(mine[at])}"


def fits(
    got: torch.Tensor, true: torch.Tensor, band: Band | None, source: IndexSource | Doubt | None, precision: str
) -> bool:
    """Whether `compare` would let it pass, without a word on the difference."""
    if band is not None and got.is_floating_point() and not isinstance(source, Doubt):
        used = _quick_share(got, true, band)
        if used is not None:
            return used <= 1.0
    return not compare(got, true, band, source, "", precision).kind


def _quick_share(got: torch.Tensor, true: torch.Tensor, band: Band) -> float | None:
    """How much of what is allowed was used, where all is finite."""
    measured = measure(got, true, band.scale)
    if measured is None:
        return None
    return _share(measured[0] / (rms_of(true) or 1.0), measured[1], band)


def _share(error: float, worst: float, band: Band) -> float:
    """How much of what is allowed was used."""
    return max(worst / band.tau, error / band.rms_limit if band.rms_limit > 0 else (0.0 if error == 0 else 1e9))


def _worst_element(got: torch.Tensor, true: torch.Tensor, band: Band, name: str) -> tuple[str, float]:
    """The worst element in words, and the share of elements outside the tolerance."""
    rms = rms_of(true)
    worst, index, outside, start = -1.0, 0, 0, 0
    for mine, exact in pieces(got, true):
        exact = exact.double()
        error = (mine.double() - exact).abs()
        ratio = torch.where(torch.isfinite(error), error / band.allowed(exact, rms).clamp(min=1e-300), 0.0)
        outside += int((ratio > 1).sum())
        if (here := float(ratio.max())) > worst:
            worst, index = here, start + int(ratio.argmax())
        start += mine.numel()
    at = _place(index, got.shape)
    error, allowed = (got[at].double() - true[at].double()).abs(), band.allowed(true[at].double(), rms)
    text = (
        f"{name}: {outside} of {got.numel()} elements are outside the tolerance; worst at {at}: "
        f"expected {_number(true[at])}, got {_number(got[at])} (error {_number(error)}, allowed {_number(allowed)})"
    )
    return text, outside / got.numel()


def _compare_exactly(
    got: torch.Tensor, true: torch.Tensor, source: IndexSource | Doubt | None, name: str
) -> Comparison:
    wrong = got != true
    if not wrong.any():
        return Comparison("", "", 0.0)
    if source is not None and source.accepts(got, true):
        return Comparison("", "", 0.5)
    at = _place(_first(wrong), got.shape)
    text = f"{name}: {int(wrong.sum())} of {got.numel()} elements differ; first at {at}: expected {_number(true[at])}, got {_number(got[at])}"
    return Comparison("integer", text, 1e9)


def _non_finite_differs(got: torch.Tensor, true: torch.Tensor) -> tuple[int, int]:
    """At how many places, and the first of them."""
    count, first, start = 0, -1, 0
    for mine, exact in pieces(got, true):
        rounded = wide(exact.to(got.dtype))
        nan = torch.isnan(mine) != torch.isnan(rounded)
        both = torch.isnan(mine) & torch.isnan(rounded)
        infinite = (torch.isinf(mine) | torch.isinf(rounded)) & (mine != rounded) & ~both
        wrong = nan | infinite
        if here := int(wrong.sum()):
            first = start + _first(wrong) if first < 0 else first
            count += here
        start += mine.numel()
    return count, first


def _first(mask: torch.Tensor) -> int:
    return int(mask.flatten().to(torch.uint8).argmax())


def _place(flat: int, shape: torch.Size) -> tuple[int, ...]:
    place: list[int] = []
    for size in reversed(shape):
        place.append(flat % size)
        flat //= size
    return tuple(reversed(place))


def _number(element: torch.Tensor) -> str:
    value = element.item()
    return f"{value:.7g}" if isinstance(value, float) else str(value)
