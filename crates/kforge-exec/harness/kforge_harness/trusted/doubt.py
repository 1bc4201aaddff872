"""Where rounding decides: a value next to a boundary of rounding or comparison, a tie of ranks. Either answer is right then.

The float64 reference is run twice more with each value that something is decided by moved up, and down, by what single
precision cannot tell apart, and with ties broken the other way. Elements that come out otherwise are in doubt: they may be
as in any of these runs, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..shared.modes import Watch, name_of
from .decisions import Decision, Ranks, decision_of, is_selecting, storages_of, tensors_in, without_underscore
from .errors import rms_of
from .indices import SAME_PLACES, SLACK, VIEWS, IndexSource, furthest

_MARGIN = 4.0  # times what eager's own values are off
_MOST_KEPT = 1 << 26  # elements of values that something was decided by
_OTHERWISE = 0.25  # of the usual tolerance: what moves less is no other answer
MOST_IN_DOUBT = 1e-3  # of an output's elements; with more a distribution tells too little
_A_FEW = 8


@dataclass
class Doubt:
    """Elements of an output by their flat places, and what else they may be; `order` is of an output that was sorted."""

    places: torch.Tensor
    values: torch.Tensor  # a row for each way in which it may have been decided
    order: tuple[int, bool] | None = None  # dimension, and whether descending
    selected: bool = False  # from what came in: there is nothing to round
    decides: bool = True  # whether the reference decides anything

    def accepts(self, got: torch.Tensor, true: torch.Tensor) -> bool:
        return torch.equal(got, self.resolved(got, true))

    def resolved(self, got: torch.Tensor, true: torch.Tensor) -> torch.Tensor:
        """The truth with its doubtful elements decided as they were decided in an output."""
        if not self.places.numel() or got.shape != true.shape:
            return true
        made = true.clone(memory_format=torch.contiguous_format)
        flat = made.view(-1)
        options = torch.cat([flat[self.places].unsqueeze(0), self.values.to(flat.dtype)])
        off = (options.double() - got.reshape(-1)[self.places].double()).abs().nan_to_num(torch.inf, torch.inf)
        flat[self.places] = options.gather(0, off.argmin(0, keepdim=True))[0]
        return made

    def without(self, got: torch.Tensor) -> torch.Tensor:
        """An output with nothing where there is doubt."""
        made = got.clone(memory_format=torch.contiguous_format)
        made.view(-1)[self.places] = 0
        return made

    def out_of_order(self, got: torch.Tensor) -> int:
        """How many neighbours stand the wrong way round."""
        if self.order is None:
            return 0
        dim, descending = self.order
        before, after = got.narrow(dim, 0, got.shape[dim] - 1), got.narrow(dim, 1, got.shape[dim] - 1)
        return int((before < after if descending else before > after).sum())

    def kept(self) -> dict[str, Any]:
        """All but the tensors."""
        return {"order": self.order, "selected": self.selected, "decides": self.decides}

    def share(self, numel: int) -> float:
        """Of an output's elements, where there are more than a few."""
        count = self.places.numel()
        return count / max(1, numel) if count > _A_FEW else 0.0


def resolved(got: torch.Tensor, true: torch.Tensor, source: IndexSource | Doubt | None) -> torch.Tensor:
    return source.resolved(got, true) if isinstance(source, Doubt) else true


def share_in_doubt(sources: dict[int, Any], exact: list[torch.Tensor]) -> float:
    found = [source.share(exact[i].numel()) for i, source in sources.items() if isinstance(source, Doubt)]
    return max(found, default=0.0)


@dataclass
class _Kept:
    """What one decision was made by."""

    values: torch.Tensor | None = None
    sizes: torch.Tensor | None = None


class DecisionWatch(Watch):
    """Sees whether a reference decides anything by values that were computed, or by ranks, and by which values."""

    def __init__(self, keep: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.used: set[int] = set()  # decisions that something came of
        self.kept: list[_Kept] = []
        self._keep = keep
        self._room = _MOST_KEPT
        self._computed: set[int] = set()  # storages of values that rounding has a part in
        self._places: dict[int, int] = {}  # by storage of places, the number of their decision
        self._orders: list[tuple[torch.Tensor, int, bool]] = []
        self._of_outputs: list[tuple[tuple[int, bool] | None, bool]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = without_underscore(name_of(func))
        self._see_places(name, args, kwargs)
        decision = decision_of(name, func, args, kwargs, self._is_computed)
        number = len(self.kept)
        if decision is None:
            result = func(*args, **kwargs)
        else:
            self.kept.append(self._what_it_is_by(decision))
            result = self._decide(number, decision, func, args, kwargs)
        self._follow(name, args, kwargs, result)
        if decision is not None and decision.ranked is not None:
            self._remember_ranks(number, decision.ranked, result)
        elif decision is not None:
            self.used.add(number)
        return result

    def _decide(self, number: int, decision: Decision, func: Any, args: Any, kwargs: Any) -> Any:
        return func(*args, **kwargs)

    def _what_it_is_by(self, decision: Decision) -> _Kept:
        if not self._keep or not decision.computed or decision.numel > self._room:
            return _Kept()
        self._room -= decision.numel
        return _Kept(*decision.values_and_sizes())

    def _remember_ranks(self, number: int, ranks: Ranks, result: Any) -> None:
        pair = isinstance(result, (tuple, list))
        self._places[_storage(result[1] if pair else result)] = number
        if pair and ranks.in_order and ranks.dim is not None:
            self._orders.append((result[0], ranks.dim, ranks.descending))

    def _see_places(self, name: str, args: Any, kwargs: Any) -> None:
        if name not in SAME_PLACES and name not in VIEWS:
            for tensor in tensors_in((args, kwargs)):
                if (number := self._places.get(_storage(tensor))) is not None and not tensor.is_floating_point():
                    self.used.add(number)

    def _is_computed(self, tensor: torch.Tensor) -> bool:
        return _storage(tensor) in self._computed

    def _follow(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        given, made = storages_of((args, kwargs)), storages_of(result)
        if is_selecting(name, kwargs) and given.isdisjoint(self._computed):
            self._computed -= made - given
        else:
            self._computed |= made
        numbers = [self._places[storage] for storage in given if storage in self._places]
        for storage in made - given:
            self._places.pop(storage, None)  # of memory that something else had before
            if numbers and (name in SAME_PLACES or name in VIEWS):
                self._places[storage] = max(numbers)

    def outputs_are(self, outputs: list[torch.Tensor]) -> None:
        """To be said as long as they lie where they were made."""
        for output in outputs:
            order = next((o for o in reversed(self._orders) if _is_same(output, o[0])), None)
            selected = output.is_floating_point() and not self._is_computed(output)
            self._of_outputs.append((order and order[1:], selected))
        self._orders = []

    def doubts(self, outputs: list[torch.Tensor], sources: dict[int, IndexSource]) -> dict[int, Doubt]:
        """Of outputs that no rule of their own decides about; nothing is in doubt yet."""
        made: dict[int, Doubt] = {}
        for index, (output, (order, selected)) in enumerate(zip(outputs, self._of_outputs, strict=True)):
            if index not in sources and (self.used or order or selected):
                empty = torch.zeros(0, dtype=torch.long, device=output.device)
                values = torch.zeros(2, 0, dtype=output.dtype, device=output.device)
                made[index] = Doubt(empty, values, order, selected, bool(self.used))
        return made


@dataclass
class Slacks:
    """By how much values are moved, by the number of the decision."""

    used: set[int]
    by_number: dict[int, float] = field(default_factory=dict)

    @staticmethod
    def of(exactly: DecisionWatch, others: list[DecisionWatch], most: float) -> Slacks:
        """At least what single precision cannot tell apart, and four times what eager's own values are off."""
        made = Slacks(set(exactly.used))
        for number in exactly.used:
            offs = [_off(exactly.kept[number], o.kept[number]) for o in others if number < len(o.kept)]
            made.by_number[number] = min(max([SLACK, *(_MARGIN * off for off in offs)]), max(most, SLACK))
        return made


def _off(exactly: _Kept, other: _Kept) -> float:
    if exactly.values is None or exactly.sizes is None or other.values is None:
        return 0.0
    if exactly.values.shape != other.values.shape or not exactly.values.numel():
        return 0.0
    return furthest((other.values.double() - exactly.values.double()).abs() / exactly.sizes.double().clamp(min=1e-300))


class Moved(DecisionWatch):
    """Decides otherwise wherever rounding may: all upwards, or all downwards."""

    def __init__(self, slacks: Slacks, upwards: bool) -> None:
        super().__init__(keep=False)
        self._slacks = slacks
        self._upwards = upwards

    def _decide(self, number: int, decision: Decision, func: Any, args: Any, kwargs: Any) -> Any:
        if number not in self._slacks.used:
            return func(*args, **kwargs)
        slack = self._slacks.by_number.get(number, SLACK)
        return decision.otherwise(slack, self._upwards, func, args, kwargs)


def in_doubt(doubt: Doubt, true: torch.Tensor, moved: list[torch.Tensor], usual: float) -> Doubt:
    """Where these runs differ from the truth."""
    differs = torch.zeros(true.numel(), dtype=torch.bool, device=true.device)
    flat = true.reshape(-1)
    rms = rms_of(true) if true.is_floating_point() else 0.0
    for other in (run.reshape(-1) for run in moved):
        if true.is_floating_point():
            far = (other.double() - flat.double()).abs() > _OTHERWISE * usual * (flat.double().abs() + rms)
            differs |= far | (other.isfinite() != flat.isfinite())
        else:
            differs |= other != flat
    places = differs.nonzero().flatten()
    values = torch.stack([run.reshape(-1)[places].to(true.dtype) for run in moved])
    return Doubt(places, values, doubt.order, doubt.selected, True)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _is_same(output: torch.Tensor, values: torch.Tensor) -> bool:
    return (
        output.data_ptr() == values.data_ptr()
        and output.shape == values.shape
        and output.stride() == values.stride()
        and output.dtype == values.dtype
    )
