"""Sets for timed calls: drawn under a secret of this session, given to each arm once, and never again to anybody.

A float64 truth is made for some of them, which nobody can tell from the others. On the rest a candidate's result is held
against the baseline's on the same inputs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..shared import device_context
from . import truth
from .compare import Comparison, compare
from .problem import Drawn
from .sets import Reference

# Both results lie within their bands around a truth that is not there; the baseline's are as eager's or better.
_BESIDE_BASELINE = 1.5


@dataclass
class FreshSet:
    """One call's inputs, and what its result must be where that is known."""

    drawn: Drawn | None
    exact: truth.Exactly | None
    bands: list[truth.Band | None]


class FreshRows:
    """Draws one row at a time; the one before is forgotten."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._secret = os.urandom(32)
        self._number = 0
        self._distribution = ""
        self.sets: list[FreshSet] = []

    def draw(self, distribution: str, truths: list[bool]) -> list[Drawn]:
        self.sets = []
        self._distribution = distribution
        drawn = []
        for wanted in truths:
            self._number += 1
            one = self._reference.draw(0, distribution, self._number, self._secret)
            self.sets.append(self._with_truth(one, wanted or self._needs_truth()))
            drawn.append(one)
        return drawn

    def _needs_truth(self) -> bool:
        """Ties may be broken either way, and a few numbers may all but cancel: the baseline's result says too little."""
        fields = self._reference.variants[0].output_fields
        return self._reference.decides or any(
            not f.torch_dtype.is_floating_point or _elements(f.shape) < truth.FEW for f in fields
        )

    def _with_truth(self, drawn: Drawn, wanted: bool) -> FreshSet:
        reference = self._reference
        bands = reference.bands_of(self._distribution)
        if not wanted:
            return FreshSet(None, None, bands)
        exact = reference.exactly(0, drawn)
        return FreshSet(drawn, exact, reference.bands_on(0, bands, drawn, exact))

    def compare(self, candidate: list[list[torch.Tensor]], baseline: list[list[torch.Tensor]] | None) -> dict[str, Any]:
        """Results of a row, call by call; without those of a baseline every set has a truth."""
        worst = 0.0
        for place, (made, results) in enumerate(zip(self.sets, candidate, strict=True)):
            other = baseline[place] if baseline is not None else None
            found = self._against_truth(made, results) if made.exact else self._against_baseline(made, results, other)
            if found.kind:
                text = f"{found.text}; in a timed call, on input distribution {self._distribution!r}"
                return {"kind": found.kind, "text": text, "error": min(found.error, 1e9), "baseline": ""}
            worst = max(worst, found.error)
            if made.exact and other is not None:
                wrong = self._against_truth(made, other)
                if wrong.kind:
                    return {"kind": "", "text": "", "error": worst, "baseline": wrong.text}
        return {"kind": "", "text": "", "error": worst, "baseline": ""}

    def _against_truth(self, made: FreshSet, results: list[torch.Tensor]) -> Comparison:
        assert made.exact is not None
        exact, sources, _doubled = made.exact
        worst = 0.0
        for index, (got, true, band) in enumerate(zip(results, exact, made.bands, strict=True)):
            found = compare(got, true, band, sources.get(index), self._name(index), self._mul)
            if found.kind:
                return found
            worst = max(worst, found.error)
        return Comparison("", "", worst)

    def _against_baseline(
        self, made: FreshSet, results: list[torch.Tensor], other: list[torch.Tensor] | None
    ) -> Comparison:
        assert other is not None, "there is neither a truth nor a baseline's result"
        worst = 0.0
        for index, (got, theirs, band) in enumerate(zip(results, other, made.bands, strict=True)):
            wide = band and replace(
                band.of_all(), rms_limit=_BESIDE_BASELINE * band.rms_limit, tau=_BESIDE_BASELINE * band.tau
            )
            found = compare(got, theirs, wide, None, self._name(index), self._mul)
            if found.kind:
                return found
            worst = max(worst, found.error)
        return Comparison("", "", worst)

    def _name(self, index: int) -> str:
        name: str = self._reference.variants[0].output_name(index)
        return name

    @property
    def _mul(self) -> str:
        made: str = self._reference.contract["mul"]
        return made

    def forget(self) -> None:
        self.sets = []
        device_context.give_back_unused()


def _elements(shape: list[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
