"""The float64 truth of a set of inputs, and how far from it an honest candidate may be.

For each distribution and output two errors of the reference are measured against the truth: with inputs and weights
rounded to the contract's multiply precision, and to the next lower one. An honest kernel lies near the first, a
downcast near the second; the limit lies between them (docs/design/verdict.md). docs/measurements/calibration.md has the
figures.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import nn

from ..shared import device_context
from . import errors, written
from .doubt import DecisionWatch, Doubt, Moved, Slacks, in_doubt, resolved
from .errors import error_of, pieces, rms_of, worst_of
from .float64_fallback import as_eager, kept_as, with_little_room
from .indices import IndexSource, IndexWatch, with_slack
from .narrowed import RoundedOperands, with_narrow_values, with_narrow_weights
from .octaves import Octave, octaves
from .precisions import LOWER, UNIT, precision_of, usual_tolerance
from .problem import Drawn, forward

SEPARATION = 4.0  # e_lo must be this many times e_hi for a distribution to prove the precision
SEPARATION_FROM_TF32 = 2.25  # bf16 makes thrice the error of cut-off TF32, and that is the most an honest kernel makes
FLOOR = 0.3  # of a unit roundoff times the root of the reduction's length: rounding no one can avoid
LONGEST = 16384  # a reduction counts as no longer: nobody adds up more values one after the other
OF_ONE_ROUNDING = 0.4  # of the unit roundoff of outputs in sixteen bits or less: the rms of rounding once
OF_FP8_SUMS = 2.0**-14  # tensor cores keep about fourteen bits of the sums of products in eight bits
OF_ROUNDED = 0.5 * UNIT["fp32"]  # where the truth is rounded too, a right result may show no error at all
FAST_MATH = 8.0  # wider by this where the contract says `math: fast`
MOST_BY_FAST_MATH = 2.0  # products are no less precise for it
# Where between the errors of the contract's and of the next lower precision the limit lies, as a power of their ratio (a half
# for less than single precision), and at most so many times the first. Single precision has thirteen bits more than TF32;
# honest algorithms lose two or three of them.
OF_RATIO_EXACT, MOST_EXACT = 1 / 3, 10.0
FEW = 64  # elements of an output: with fewer, one set does not tell how much eager rounds on the next
NATIVE_MARGIN = 4.0  # the element band is never tighter than this many times eager's own worst element
# How much wider the element band is where the rms tells precisions apart: Winograd's F(4x4, 3x3) needs 4.3 on heavy tails.
WIDE, WIDE_BELOW_FP32 = 16.0, 4.0
ENOUGH = 8  # sets whose worst is a limit, however different they are
BELOW_LOWER = (
    0.7  # of e_lo: where precisions lie close to each other an honest kernel gets most of what is between them
)
SPREAD = 2.5  # between the errors of rounding as the contract allows on two sets of one distribution
NEAR_AN_INPUT = 1e-4  # an output that is as near to an input is judged by the difference
LEAST_CHANGE = 2.0**-30  # of the rms: below, nothing changed
MARGIN = 1.5  # between the error of rounding as the contract allows, over many draws, and every limit
WIDE_MARGIN = 4.0  # for single elements where the rms decides: the largest of millions is another one on each draw
# Elements of one magnitude tell precisions apart where `e_lo` is so many times `e_hi` among them. Single precision sums that
# are not made in blocks are so many times further off than eager's, whatever the elements that make up the rms say.
SEPARATION_OF_OCTAVES = 8.0
OF_EAGER = 4.0


@dataclass
class Band:
    """What is allowed for one output on one distribution; errors are relative to the rms of the truth."""

    rms_limit: float
    tau: float
    scale: float
    e_hi: float
    e_lo: float
    separated: bool
    multiplied: bool = True
    # Of elements of one magnitude, by their exponent, the limit of the error next to their own size.
    octaves: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.octaves = {int(exponent): limit for exponent, limit in self.octaves.items()}  # JSON has texts

    @property
    def tells(self) -> bool:
        """Whether the contract's precision is told from the next lower one, by all elements or by those of a magnitude."""
        return self.separated or bool(self.octaves)

    def of_all(self) -> Band:
        """Without what is known of single magnitudes only."""
        return replace(self, octaves={})

    def allowed(self, exact: torch.Tensor, rms: float) -> torch.Tensor:
        """Of each element of a truth, or of a part of one whose whole has this rms."""
        return self.tau * (exact.abs() + rms * self.scale)

    def json(self) -> dict[str, Any]:
        return asdict(self)


Exactly = tuple[list[torch.Tensor], dict[int, IndexSource | Doubt], bool]


def truth(model: nn.Module, drawn: Drawn, narrow: bool = False, mul: str = "fp32") -> Exactly:
    """Outputs in float64 where the reference can run in it, rounded to float32 with `narrow`, for want of room; the flag says
    whether it could. Where rounding as `mul` allows it decides, the sources say what else is right."""
    try:
        outputs, sources, decisions = _doubled(model, drawn, narrow)
    except Exception as error:
        if device_context.is_no_memory(error):
            raise  # a truth that is less true for want of memory is none
        with IndexWatch() as watch:
            _skeleton, outputs = forward(model, drawn)
        dtype = torch.float32 if narrow else torch.float64
        kept = [t.to(dtype) if t.is_floating_point() else t for t in outputs]
        return kept, dict[int, IndexSource | Doubt](watch.sources(outputs)), False
    runs = []
    places = any(source.scores.is_floating_point() for source in sources.values())
    doubts = decisions.doubts(outputs, sources) if decisions is not None else {}
    doubtful = any(doubt.decides for doubt in doubts.values())
    if places or doubtful:
        runs = [_decisions_when_rounded(model, drawn, precision) for precision in sorted({"", mul} - {"fp32", "fp64"})]
    for rounded_sources, _decisions in runs:
        sources = with_slack(sources, rounded_sources)
    if doubtful and decisions is not None:
        others = [other for _sources, other in runs]
        _look_for_doubts(model, drawn, mul, outputs, decisions, others, doubts)
    return outputs, {**sources, **doubts}, True


def _look_for_doubts(
    model: nn.Module,
    drawn: Drawn,
    mul: str,
    outputs: list[torch.Tensor],
    decisions: DecisionWatch,
    others: list[DecisionWatch],
    doubts: dict[int, Doubt],
) -> None:
    dtypes = [t.dtype for t in drawn.tensors if t.is_floating_point()] or [torch.float32]
    usual = max(usual_tolerance(mul, dtype) for dtype in dtypes)
    slacks = Slacks.of(decisions, others, usual)
    moved = []
    for upwards in (False, True):
        with Moved(slacks, upwards):
            moved.append(forward(model, drawn, double=True)[1])
    for index, doubt in doubts.items():
        doubts[index] = in_doubt(doubt, outputs[index], [run[index] for run in moved], usual)


def _decisions_when_rounded(
    model: nn.Module, drawn: Drawn, precision: str
) -> tuple[dict[int, IndexSource], DecisionWatch]:
    """In the reference's own precision, or with inputs and weights rounded to a lower one."""
    with IndexWatch() as watch, DecisionWatch() as decisions:
        if precision:
            outputs = _rounded_run(model, drawn, precision, True, False, as_hardware=True)
        else:
            outputs = forward(model, drawn)[1]
    return watch.sources(outputs), decisions


def _doubled(
    model: nn.Module, drawn: Drawn, narrow: bool
) -> tuple[list[torch.Tensor], dict[int, IndexSource], DecisionWatch | None]:
    try:
        return _whole(model, drawn, narrow)
    except Exception as error:
        if not device_context.is_no_memory(error):
            raise
    device_context.give_back_all()
    with IndexWatch(keep=False) as watch:
        outputs = with_little_room(model, drawn, narrow)
    if watch.saw and not all(t.is_floating_point() for t in outputs):
        raise torch.cuda.OutOfMemoryError("places of extreme values cannot be found in parts")
    return outputs, {}, None


def _whole(
    model: nn.Module, drawn: Drawn, narrow: bool
) -> tuple[list[torch.Tensor], dict[int, IndexSource], DecisionWatch]:
    """What it holds goes with it where it fails."""
    with IndexWatch() as watch, DecisionWatch() as decisions:
        _skeleton, outputs = forward(model, drawn, double=True)
    sources = watch.sources(outputs)
    decisions.outputs_are(outputs)
    for index, output in enumerate(outputs):
        outputs[index] = output.to(kept_as(output, narrow))
    return outputs, sources, decisions


@dataclass(frozen=True)
class Change:
    """How much of an output was not there before the call: its rms as a share of that of the output, and the rms of the
    elements that changed, old part included, as a multiple of it. What a call leaves as it was proves nothing."""

    share: float = 1.0
    stored: float = 1.0


def changes(model: nn.Module, drawn: Drawn, exact: list[torch.Tensor]) -> list[Change]:
    """Of what the reference writes, against what was there; of what it returns, against the nearest input, where that is so
    near that returning it would all but pass."""
    before = written.before(model, drawn)
    returned = len(exact) - len(before)
    made = []
    for index, true in enumerate(exact):
        if not true.is_floating_point():
            made.append(Change())
        elif index >= returned:
            made.append(_change(true, before[index - returned]))
        else:
            alike = [t for t in drawn.tensors if t.shape == true.shape and t.is_floating_point()]
            near = (_change(true, t, NEAR_AN_INPUT) for t in alike)
            nearest = min(near, key=lambda change: change.share, default=Change())
            made.append(nearest if nearest.share < NEAR_AN_INPUT else Change())
    return made


def _change(true: torch.Tensor, before: torch.Tensor, most: float = 1.0) -> Change:
    """What is certain to be a larger share than `most` is not looked at to its end: nearly every output is."""
    if before.shape != true.shape or not before.is_floating_point():
        return Change()
    rms = rms_of(true)
    enough = (most * rms) ** 2 * true.numel()
    moved, square = 0.0, 0.0
    for now, then in pieces(true, before):
        step = now.double() - then.double()
        counts = torch.isfinite(step)
        moved += float(torch.where(counts, step, 0.0).square().sum())
        if moved > enough:
            return Change()
        square += float(torch.where(counts & (step != 0), now.double(), 0.0).square().sum())
    share = math.sqrt(moved / true.numel()) / rms if rms and true.numel() else 0.0
    if share < LEAST_CHANGE or share >= 1.0:
        return Change()
    return Change(share, math.sqrt(square / moved))


@dataclass
class Measured:
    """Errors of one output on one set, relative to the rms of the truth: of eager, of the reference rounded as the contract
    allows, and as it does not. Worst elements are relative to themselves and the rms."""

    dtype: torch.dtype
    few: bool  # elements
    own: float
    own_worst: float
    contract: float
    contract_worst: float
    lower: float | None
    multiplied: bool = True  # whether it is made of products
    change: Change = field(default_factory=lambda: Change())
    # By the magnitude of elements: of eager or the reference rounded as the contract allows, and rounded as it does not.
    octaves: dict[int, Octave] = field(default_factory=dict)
    octaves_lower: dict[int, Octave] | None = None


@dataclass
class Measurement:
    """Of one set; `told` where an output of integers comes out wrong in the next lower precision."""

    outputs: list[Measured | None]
    told: bool


def scale_of(reduction: int) -> float:
    """How many times the rms an element may be off by one part of the tolerance, next to its own size."""
    return math.sqrt(max(1.0, min(reduction, LONGEST) / 256))


def measure(
    model: nn.Module,
    drawn: Drawn,
    exactly: Exactly,
    mul: str,
    reductions: list[int],
    narrow: bool = False,
    native: list[torch.Tensor] | None = None,
    with_lower: bool = True,
    multiplied: list[bool] | None = None,
    by_octave: list[bool] | None = None,
) -> Measurement:
    """One run after the other, so that no more than one of them takes memory beside the truth and eager."""
    exact, sources, doubled = exactly
    multiplied = multiplied or [True] * len(exact)
    by_octave = by_octave or [False] * len(exact)
    lower: list[float | None] = [None] * len(exact)
    lower_octaves: list[dict[int, Octave] | None] = [None] * len(exact)
    told = False
    for products in set(multiplied) if with_lower else ():  # first, since it needs the most memory
        # Where nothing is multiplied there is nothing to save, and all that comes in is rounded: honest sums of many values
        # of one sign, one after the other, need the room that this gives.
        below = (
            _narrowed_run(model, drawn, LOWER[mul], doubled, narrow, exact)
            if products
            else _rounded_run(model, drawn, LOWER[mul], doubled, narrow)
        )
        for index, (low, true) in enumerate(zip(below, exact, strict=True)):
            if multiplied[index] != products:
                continue
            if true.is_floating_point():
                decided = resolved(low, true, sources.get(index))
                lower[index] = error_of(low, decided) / (rms_of(true) or 1.0)
                if by_octave[index]:
                    lower_octaves[index] = octaves(low, decided)
            else:
                source = sources.get(index)
                told = told or not (torch.equal(low, true) or (source is not None and source.accepts(low, true)))
        del below
    if native is None:
        native = forward(model, drawn)[1]
    rounded = None if mul in ("fp32", "fp64") else _rounded_run(model, drawn, mul, doubled, narrow, as_hardware=True)
    made: list[Measured | None] = []
    moved = changes(model, drawn, exact)
    for index, (true, own) in enumerate(zip(exact, native, strict=True)):
        if not own.is_floating_point():
            made.append(None)
            continue
        source = sources.get(index)
        rms, scale = rms_of(true) or 1.0, scale_of(reductions[index])
        decided = resolved(own, true, source)
        error, worst = _errors(own, decided, scale)
        at_contract, worst_at_contract = error, worst
        by_size = octaves(own, decided) if by_octave[index] else {}
        if rounded is not None:
            as_allowed = rounded[index].to(own.dtype)
            decided = resolved(as_allowed, true, source)
            at_contract, worst_at_contract = _errors(as_allowed, decided, scale)
            if by_octave[index]:
                by_size = _worse(by_size, octaves(as_allowed, decided))
        made.append(
            Measured(
                own.dtype,
                true.numel() < FEW,
                error / rms,
                worst,
                at_contract / rms,
                worst_at_contract,
                lower[index],
                multiplied[index],
                moved[index],
                by_size,
                lower_octaves[index],
            )
        )
    return Measurement(made, told)


def _worse(first: dict[int, Octave], second: dict[int, Octave]) -> dict[int, Octave]:
    return {at: max(one, second[at], key=lambda octave: octave.error) for at, one in first.items() if at in second}


def _errors(got: torch.Tensor, true: torch.Tensor, scale: float) -> tuple[float, float]:
    """The rms error, and the worst element."""
    return errors.measure(got, true, scale) or (error_of(got, true), worst_of(got, true, scale))


def limits(
    measured: list[Measurement], contract: dict[str, Any], reductions: list[int], doubled: bool, narrow: bool = False
) -> tuple[list[Band | None], float]:
    """One band for each floating output, by the worst of several sets of one distribution, and how far single elements of the
    reference rounded as the contract allows go beyond what leaves a margin: above 1 the bands were widened, and prove little."""
    made: list[Band | None] = []
    beyond = 0.0
    for reduction, sets in zip(reductions, zip(*(m.outputs for m in measured), strict=True), strict=True):
        known = [entry for entry in sets if entry is not None]
        if not known:
            made.append(None)
            continue
        band, share = _limit(known, contract, reduction, doubled, narrow)
        made.append(band)
        beyond = max(beyond, share)
    return made, beyond


def _limit(
    known: list[Measured], contract: dict[str, Any], reduction: int, doubled: bool, narrow: bool
) -> tuple[Band, float]:
    mul, io = contract["mul"], precision_of(known[0].dtype)
    fast = FAST_MATH if contract["math"] == "fast" else 1.0
    widen = fast * (1.0 if doubled else NATIVE_MARGIN)
    unit = max(UNIT[contract["acc"]], OF_FP8_SUMS if mul == "fp8" else 0.0)
    # All errors are of what the call changes. Storing it rounds all of what is stored.
    share, stored = min(m.change.share for m in known), max(m.change.stored for m in known)
    rounding = (FLOOR if io in ("fp64", "fp32") else OF_ONE_ROUNDING) * UNIT[io]
    floors = [FLOOR * unit * math.sqrt(min(reduction, LONGEST)), (OF_ROUNDED if narrow else 0.0) / share]
    floors.append(rounding * max(1.0, stored))
    e_hi = widen * max(*floors, *(max(m.own, m.contract) / m.change.share for m in known))
    e_lo = min((m.lower / m.change.share for m in known if m.lower is not None), default=0.0)
    separated = e_lo >= (SEPARATION_FROM_TF32 if mul == "tf32" else SEPARATION) * e_hi
    exact = {mul, io} <= {"fp64", "fp32"}
    wide = WIDE if exact else WIDE_BELOW_FP32
    usual = usual_tolerance(mul, known[0].dtype)
    if mul == "fp8" and max(m.contract for m in known) < UNIT["bf16"]:
        usual = usual_tolerance("bf16", known[0].dtype)  # what comes in eight bits is not rounded to them
    tau = usual * (max(widen, wide) if separated else widen) / max(1.0, stored)
    tau = max(tau, NATIVE_MARGIN * max(m.own_worst for m in known))
    worst = max(m.contract_worst for m in known)
    beyond = (WIDE_MARGIN if separated else MARGIN) * worst / tau
    if beyond > 1.0:
        tau = WIDE_MARGIN * worst
    if not known[0].few and len(known) < ENOUGH:  # few elements have a limit of their own on each set
        least, most = (max(end(m.contract / m.change.share for m in known), *floors) for end in (min, max))
        beyond = max(beyond, most / (SPREAD * least))
    limit = SEPARATION * e_hi
    if separated:
        close = exact and known[0].multiplied
        limit = min(_between(e_hi, e_lo, close), MOST_BY_FAST_MATH * _between(e_hi / fast, e_lo, close))
    made = Band(share * limit, tau, scale_of(reduction), share * e_hi, share * e_lo, separated, known[0].multiplied)
    if share == 1.0 and not known[0].few:
        most = max(max(m.own, m.contract) for m in known)
        times = max(e_hi / most if most else 1.0, OF_EAGER if exact else 1.0)
        made.octaves = _limits_of_octaves(known, times, widen * rounding, exact)
    return made, beyond


def _limits_of_octaves(known: list[Measured], times: float, least: float, exact: bool) -> dict[int, float]:
    """Where elements of one magnitude tell the precisions apart on every draw, what is allowed of them. An honest kernel is
    further off than eager by as many `times` there as it may be over all."""
    lower = [m.octaves_lower for m in known if m.octaves_lower is not None]
    if not lower:
        return {}
    made = {}
    for at in set.intersection(*(set(m.octaves) for m in known), *map(set, lower)):
        own = [max(m.octaves[at].error, least) for m in known]
        e_hi, e_lo = times * max(own), min(low[at].error for low in lower)
        stable = len(known) >= ENOUGH or max(own) <= SPREAD * min(own)
        if stable and e_lo >= SEPARATION_OF_OCTAVES * e_hi:
            made[at] = _between(e_hi, e_lo, exact)
    return made


def _between(e_hi: float, e_lo: float, close: bool) -> float:
    """The limit of the rms error where precisions can be told apart."""
    above = min(math.pow(e_lo / e_hi, OF_RATIO_EXACT), MOST_EXACT) if close else math.sqrt(e_lo / e_hi)
    return max(e_hi * above, min(SEPARATION * e_hi, BELOW_LOWER * e_lo))


def bands(
    model: nn.Module,
    drawn: Drawn,
    exactly: Exactly,
    contract: dict[str, Any],
    reductions: list[int],
    narrow: bool = False,
    multiplied: list[bool] | None = None,
) -> list[Band | None]:
    """By one set alone."""
    measured = measure(model, drawn, exactly, contract["mul"], reductions, narrow, multiplied=multiplied)
    return limits([measured], contract, reductions, exactly[2], narrow)[0]


def on_this_set(
    of_distribution: list[Band | None],
    model: nn.Module,
    drawn: Drawn,
    exact: list[torch.Tensor],
    narrow: bool = False,
    mul: str = "fp32",
    sources: dict[int, Any] | None = None,
) -> list[Band | None]:
    """The bands of a distribution for one set of it: an output of few elements may be a difference that all but cancels, and
    is never held to less than what eager does there, or rounding as the contract allows it."""
    few = [band is not None and true.numel() < FEW for band, true in zip(of_distribution, exact, strict=True)]
    if not any(few):
        return of_distribution
    runs = [as_eager(model, drawn, narrow)]
    if mul not in ("fp32", "fp64"):
        runs.append(_rounded_run(model, drawn, mul, False, narrow, as_hardware=True))
    made: list[Band | None] = []
    for index, (band, is_small, true) in enumerate(zip(of_distribution, few, exact, strict=True)):
        if band is not None and is_small:
            rms = rms_of(true) or 1.0
            source = (sources or {}).get(index)
            pairs = [(run[index], resolved(run[index], true, source)) for run in runs]
            error = max(error_of(got, decided) / rms for got, decided in pairs)
            worst = max(worst_of(got, decided, band.scale) for got, decided in pairs)
            limit, tau = max(band.rms_limit, NATIVE_MARGIN * error), max(band.tau, NATIVE_MARGIN * worst)
            band = replace(band, rms_limit=limit, tau=tau)
        made.append(band)
    return made


def _rounded_run(
    model: nn.Module, drawn: Drawn, precision: str, doubled: bool, narrow: bool, as_hardware: bool = False
) -> list[torch.Tensor]:
    """As the contract allows it: values are rounded when they come in, and before each product."""
    twin, rounded = with_narrow_values(model, drawn, precision, as_hardware)
    with RoundedOperands(precision, as_hardware):
        return _doubled(twin, rounded, narrow)[0] if doubled else forward(twin, rounded)[1]


def _narrowed_run(
    model: nn.Module, drawn: Drawn, precision: str, doubled: bool, narrow: bool, outputs: list[torch.Tensor]
) -> list[torch.Tensor]:
    """As somebody saves who keeps to less than the contract demands."""
    item = min((t.itemsize for t in drawn.tensors if t.is_floating_point()), default=4)
    io_bytes = sum(t.nbytes for t in drawn.tensors) + sum(t.numel() * item for t in outputs)
    twin = with_narrow_weights(model, precision, io_bytes)
    with RoundedOperands(precision):
        return _doubled(twin, drawn, narrow)[0] if doubled else forward(twin, drawn)[1]
