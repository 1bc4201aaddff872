"""Integer outputs that were decided by values: places of extremes, rounded numbers, comparisons. Where rounding decides,
either answer is as right as that of the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from ..shared.modes import Watch, name_of
from . import windows
from .errors import rms_of
from .precisions import wide

SLACK = 2.0**-22  # of a value and the rms of all: what single precision cannot tell apart
_MARGIN = 4.0  # times what eager's own values are off
_OUTLIERS = 16.0  # times what nearly all values are off
_NEARLY_ALL = 0.99
_EXTREMES = frozenset("argmax argmin max min median nanmedian kthvalue mode".split())
_RUNNING = frozenset("cummax cummin".split())
_RANKED = frozenset("topk sort argsort".split())
SAME_PLACES = frozenset("_to_copy to clone contiguous detach alias clamp".split())
# Numbers are followed through these: what they were decided by takes the same way.
VIEWS = frozenset(
    """permute transpose t view _unsafe_view reshape flatten unflatten slice select narrow squeeze unsqueeze expand movedim
    moveaxis swapaxes view_as expand_as mT flip""".split()
)
PLACE, SO_FAR, WITHIN, NEAREST, DOWN, UP, TO_ZERO, COMPARED = (
    "place", "so_far", "within", "nearest", "down", "up", "to_zero", "compared",
)  # fmt: skip
_ROUNDING = {"round": NEAREST, "floor": DOWN, "ceil": UP, "trunc": TO_ZERO, "fix": TO_ZERO}
_COMPARING = frozenset("gt lt ge le greater less greater_equal less_equal".split())
_MOST_KEPT = 1 << 26  # elements of values that something was decided by


@dataclass
class IndexSource:
    """What an output was decided by: every place whose value is within rounding of the right one's is right, and every number
    that the value may have been rounded to."""

    scores: torch.Tensor
    dim: int | None
    keepdim: bool
    distinct: bool = False  # places of several ranks, of which no two are the same
    slack: float = SLACK
    rule: str = PLACE
    window: list[list[int]] | None = None  # of pooling, by dimension; empty where it adapts to the sizes

    def accepts(self, got: torch.Tensor, true: torch.Tensor) -> bool:
        return self._place_accepted(got, true) if self.is_place else self._number_accepted(got, true)

    @property
    def is_place(self) -> bool:
        return self.rule in (PLACE, SO_FAR, WITHIN)

    def kept(self) -> dict[str, Any]:
        """All but the scores."""
        names = ("dim", "keepdim", "distinct", "slack", "rule", "window")
        return {name: getattr(self, name) for name in names}

    def _number_accepted(self, got: torch.Tensor, true: torch.Tensor) -> bool:
        if self.scores.shape != got.shape:
            return False
        values = self.scores.double()
        if self.rule == COMPARED:  # of both sides, relative to their sizes
            return bool(((got == true) | (values.abs() <= self.slack)).all())
        off, slack = got.double() - values, self.slack * (values.abs() + rms_of(values))
        if self.rule == TO_ZERO:
            off = off * values.sign()
        least, most = {NEAREST: (-0.5, 0.5), UP: (0.0, 1.0)}.get(self.rule, (-1.0, 0.0))
        return bool(((got == true) | ((off >= least - slack) & (off <= most + slack))).all())

    def _place_accepted(self, got: torch.Tensor, true: torch.Tensor) -> bool:
        scores = wide(self.scores)
        dim = 0 if self.dim is None else self.dim
        if self.rule == SO_FAR and bool((got > windows.positions(got, dim)).any()):
            return False
        if self.rule == WITHIN:
            spatial = scores.dim() - len(self.window or [])
            if not windows.inside(got, list(scores.shape[spatial:]), self.window or []):
                return False
            scores, got, true, dim = scores.flatten(spatial), got.flatten(spatial), true.flatten(spatial), spatial
        elif self.dim is None:
            scores, got, true = scores.flatten(), got.reshape(1), true.reshape(1)
        elif got.dim() < scores.dim():
            got, true = got.unsqueeze(dim), true.unsqueeze(dim)
        if not got.numel():
            return True
        if int(got.min()) < 0 or int(got.max()) >= scores.shape[dim]:
            return False
        chosen, right = (scores.gather(dim, places.long()).double() for places in (got, true))
        allowed = self.slack * (right.abs() + rms_of(scores)) if scores.is_floating_point() else 0.0
        same = (chosen == right) | (torch.isnan(chosen) & torch.isnan(right))
        if not bool((same | ((chosen - right).abs() <= allowed)).all()):
            return False
        return not self.distinct or bool((got.sort(dim).values.diff(dim=dim) > 0).all())


def with_slack(sources: dict[int, IndexSource], eager: dict[int, IndexSource]) -> dict[int, IndexSource]:
    """Values that were computed are off by themselves: places are told apart where eager can tell them apart."""
    made = dict(sources)
    for index, source in sources.items():
        other = eager.get(index)
        if other is None or other.scores.shape != source.scores.shape or not source.scores.is_floating_point():
            continue
        if source.rule == COMPARED:
            off = furthest((other.scores.double() - source.scores.double()).abs())
        else:
            scores = source.scores.double()
            off = furthest((other.scores.double() - scores).abs() / (scores.abs() + rms_of(scores)).clamp(min=1e-300))
        made[index] = replace(source, slack=max(source.slack, _MARGIN * off))
    return made


def furthest(off: torch.Tensor) -> float:
    """How far values are off, but for those that followed from another decision, as far as they may be."""
    off = off.flatten().nan_to_num(0.0, 0.0, 0.0)
    if not off.numel():
        return 0.0
    usual = float(off.kthvalue(max(1, int(_NEARLY_ALL * off.numel()))).values)
    return float(off[off <= _OUTLIERS * usual].amax()) if usual else 0.0


class IndexWatch(Watch):
    """Remembers what argmax, topk, sort and the like chose from, and what was rounded or compared."""

    def __init__(self, keep: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._keep = keep  # what was chosen from, too
        self.saw = False
        self._seen: list[tuple[torch.Tensor, IndexSource]] = []
        self._kept = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = name_of(func)
        if name in _RUNNING:
            self._remember_running(func, args, kwargs, result)
        elif name in windows.POOLS:
            self._remember_pool(name, func, args, kwargs, result)
        elif name in _EXTREMES or name in _RANKED:
            self._remember(name, func, args, kwargs, result)
        elif name in _COMPARING or name in _ROUNDING:
            self._remember_decision(name, args, result)
        elif name in SAME_PLACES and isinstance(result, torch.Tensor):
            known = next((source for places, source in reversed(self._seen) if _is_part(args[0], places, source)), None)
            if known is not None and (not known.is_place or not result.is_floating_point()):
                self._seen.append((result, known))
            elif name in ("_to_copy", "to") and args[0].is_floating_point() and not result.is_floating_point():
                self._remember_conversion(args[0], result)
        elif name in VIEWS and isinstance(result, torch.Tensor) and args:
            self._follow_view(func, args, kwargs, result)
        return result

    def _follow_view(self, func: Any, args: Any, kwargs: Any, result: torch.Tensor) -> None:
        known = next((source for places, source in reversed(self._seen) if _is_part(args[0], places, source)), None)
        if known is None or known.is_place or known.scores.shape != args[0].shape:
            return
        try:
            scores = func(known.scores, *args[1:], **kwargs)
        except RuntimeError:  # laid out otherwise, so that it cannot be looked at so
            scores = func(known.scores.contiguous(), *args[1:], **kwargs)
        self._seen.append((result, replace(known, scores=scores)))

    def _remember_running(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        named = _named(func, args, kwargs)
        self.saw = True
        if self._keep and isinstance(named["dim"], int) and named["self"].dim():
            self._seen.append((result[1], IndexSource(named["self"], named["dim"], True, rule=SO_FAR)))

    def _remember_pool(self, name: str, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if isinstance(result, (tuple, list)):
            self.saw = True
            named = _named(func, args, kwargs)
            window = windows.of(name, named)
            if self._keep:
                self._seen.append((result[1], IndexSource(named["self"], None, True, rule=WITHIN, window=window)))

    def _remember_decision(self, name: str, args: Any, result: Any) -> None:
        first = args[0]
        if name in _ROUNDING:
            if first.is_floating_point() and len(args) == 1:  # not to a number of digits
                self._remember_number(_ROUNDING[name], first, result)
            return
        second = args[1]
        tensors = [side for side in (first, second) if isinstance(side, torch.Tensor)]
        if not all(side.is_floating_point() for side in tensors) or result.numel() > _MOST_KEPT - self._kept:
            return
        sizes = first.abs() + (second.abs() if isinstance(second, torch.Tensor) else abs(second))
        apart = (first - second) / (sizes + max(rms_of(side) for side in tensors)).clamp(
            min=torch.finfo(sizes.dtype).tiny
        )
        self._remember_number(COMPARED, apart.nan_to_num(torch.inf), result)

    def _remember_conversion(self, values: torch.Tensor, result: torch.Tensor) -> None:
        if bool((values != values.trunc()).any()):  # else it was decided before
            self._remember_number(TO_ZERO, values, result)

    def _remember_number(self, rule: str, values: torch.Tensor, result: torch.Tensor) -> None:
        if self._keep and values.dim() and values.numel() <= _MOST_KEPT - self._kept:
            self._kept += values.numel()
            self._seen.append((result, IndexSource(values, None, False, rule=rule)))

    def _remember(self, name: str, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        named = _named(func, args, kwargs)
        scores = named["self"]
        dim = named.get("dim", -1 if name in _RANKED or name in ("kthvalue", "mode") else None)
        pair = isinstance(result, (tuple, list))
        places = result[1] if pair else result
        if places.is_floating_point() or not (pair or name.startswith("arg")):
            return  # the extreme itself, not its place
        self.saw = True
        if named.get("stable"):
            return  # then the order of equal values is not free either
        if self._keep and (dim is None or isinstance(dim, int)) and scores.dim():
            ranked = name in _RANKED
            keepdim = ranked or bool(named.get("keepdim", False))
            self._seen.append((places, IndexSource(scores, dim, keepdim, distinct=ranked)))

    def sources(self, outputs: list[torch.Tensor]) -> dict[int, IndexSource]:
        found: dict[int, IndexSource] = {}
        for index, output in enumerate(outputs):
            for places, source in self._seen:
                if _is_part(output, places, source):
                    found[index] = source
        return found


def _named(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    named: dict[str, Any] = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
    return named


def _is_part(output: torch.Tensor, places: torch.Tensor, source: IndexSource) -> bool:
    """Whether an output is these places, or the first ranks of them."""
    if output.untyped_storage().data_ptr() != places.untyped_storage().data_ptr() or output.dtype != places.dtype:
        return False
    if output.shape == places.shape:
        return output.data_ptr() == places.data_ptr() and output.stride() == places.stride()
    if source.rule != PLACE:
        return False
    if not source.distinct or source.dim is None:
        return False
    others = list(places.shape)
    del others[source.dim]
    rest = list(output.shape)
    if output.dim() == places.dim():
        del rest[source.dim]
        steps = [stride for stride, size in zip(output.stride(), output.shape, strict=True) if size > 1]
        known = [stride for stride, size in zip(places.stride(), output.shape, strict=True) if size > 1]
        return rest == others and steps == known
    return rest == others
