"""The reference with its variants (sizes, weights) and the sets of inputs that candidates are judged on."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from ..shared import device_context, layout
from ..shared.align import weights_of
from ..shared.modes import of_calls
from . import baseline_ways, bearing, scalars, slices, truth, written
from .device_store import DeviceStore
from .doubt import Doubt
from .draw import OWN, Plan, derive, is_varied, one_sided_weights, redraw, redraw_weights
from .indices import IndexSource
from .narrowed import NARROWABLE
from .precisions import LOWER, expected_of
from .problem import Drawn, Problem, ProblemError, construct, draw_inputs, forward, init_inputs, run
from .reductions import ReductionMeter
from .sizes import reduce_sizes
from .store import Store
from .stored_sources import keep_source, kept_source

SLICE = "slice"
UNSEEN = "unseen"  # the problem's own distribution under seeds of this session, which are never kept
_DEFAULTS = {
    "math": "exact", "params": "constant", "inputs": "redraw", "deterministic": False, "operators": "any",
}  # fmt: skip


@dataclass
class Variant:
    """One construction of the reference: sizes, initial arguments and weights."""

    sizes: dict[str, int]
    seed_label: str
    described: str
    init: str = ""
    input_skeleton: str = ""
    output_skeleton: str = ""
    input_fields: list[layout.Field] = field(default_factory=list)
    output_fields: list[layout.Field] = field(default_factory=list)
    weights: list[dict[str, Any]] = field(default_factory=list)
    weights_file: str = ""
    aliases_allowed: bool = False
    shared_outputs: list[bool] = field(default_factory=list)  # which need not be memory of their own
    training: bool = True
    autograd: bool = False  # whether forward itself computes gradients
    reduction: int = 1
    reductions: list[int] = field(default_factory=list)  # of each output, along its own way
    sums: list[int] = field(default_factory=list)  # the longest of them that is no product
    products: list[list[int]] = field(default_factory=list)  # that each output is made of, by their number
    mixes: list[bool] = field(default_factory=list)  # whether neighbours' values are convolved on the way to it
    weight_forms: dict[str, str] = field(
        default_factory=dict
    )  # how each is drawn; one that is not is the constructor's
    other_numbers: bool = False  # among the arguments, where they are no tensors
    written_inputs: list[int] = field(default_factory=list)
    written_buffers: list[str] = field(default_factory=list)
    written_names: list[str] = field(default_factory=list)  # of both, as people call them
    redrawn_buffers: bool = False

    @property
    def written(self) -> written.Written:
        return written.Written(tuple(self.written_inputs), tuple(self.written_buffers))

    @property
    def returned(self) -> int:
        """How many of the outputs are returned; the others are written."""
        return len(self.output_fields) - len(self.written_names)

    def output_name(self, index: int) -> str:
        if index >= self.returned:
            return f"{self.written_names[index - self.returned]} after the call"
        return "output" if self.returned == 1 else f"output {index}"

    def json(self) -> dict[str, Any]:
        made = {k: v for k, v in asdict(self).items() if k not in ("input_fields", "output_fields")}
        made["inputs"] = [asdict(f) for f in self.input_fields]
        made["outputs"] = [asdict(f) for f in self.output_fields]
        return made

    @staticmethod
    def parse(kept: dict[str, Any]) -> Variant:
        inputs, outputs = kept.pop("inputs"), kept.pop("outputs")
        return Variant(
            **kept,
            input_fields=[layout.Field(**f) for f in inputs],
            output_fields=[layout.Field(**f) for f in outputs],
        )


@dataclass
class InputSet:
    """Inputs of one call and what is allowed of its outputs."""

    name: str
    variant: int
    distribution: str
    number: int
    bands: list[truth.Band | None]
    truth_fields: list[layout.Field]
    scores: dict[int, dict[str, Any]]
    checksum: int = 0
    fresh: bool = False

    def json(self) -> dict[str, Any]:
        made = asdict(self)
        made.pop("fresh")
        return made

    @staticmethod
    def parse(kept: dict[str, Any]) -> InputSet:
        kept["bands"] = [truth.Band(**b) if b else None for b in kept["bands"]]
        kept["truth_fields"] = [layout.Field(**f) for f in kept["truth_fields"]]
        kept["scores"] = {int(k): v for k, v in kept["scores"].items()}
        return InputSet(**kept)


class Reference:
    def __init__(
        self,
        problem: Problem,
        contract: dict[str, Any],
        secret: bytes,
        store: Store,
        reduced: bool,
        session: Store | None = None,
        device_store: DeviceStore | None = None,
        tight: bool = False,
    ) -> None:
        self.problem = problem
        self.contract: dict[str, Any] = {**_DEFAULTS, **contract}
        self.secret = secret
        self.store = store
        self._session = session or store
        self._device_store = device_store  # instead of both, on a GPU
        self._tight = tight  # whether that GPU has hardly room for one call of each arm
        self._session_secret = os.urandom(32)
        self._reduced = reduced
        self.variants: list[Variant] = []
        self.sets: dict[str, InputSet] = {}
        self.distributions: list[str] = [OWN]
        self.plan = Plan()
        self.bands: dict[str, list[truth.Band | None]] = {}  # by variant and distribution
        self.multiplies = False  # matrices, anywhere in the reference
        self.told = False  # whether outputs of integers tell the contract's precision from the next lower one
        self.ways: list[str] = []  # in which the framework runs it, without its compiler
        self.decides = False  # by values that rounding has a part in
        self.faint: list[str] = []  # inputs on which the outputs depend by less than is allowed
        self.slices_moved: dict[int, bool] = {}  # by number: whether the change of that part was seen in the outputs
        self.own_varies = True  # whether `get_inputs` gives other values under another seed
        self.doubled = True
        self.notes: list[str] = []
        self._models: dict[int, nn.Module] = {}

    # -- making ---------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Variants, layouts and distributions; sets follow when they are asked for."""
        own_sizes = self._reduced_sizes() if self._reduced else {}
        first = self._make_variant(Variant(own_sizes, "weights-0", ""))
        second = self._make_variant(Variant(own_sizes, "weights-1", ""))
        self.variants = [first, second]
        for sizes in self.contract.get("shapes", []) if not self._reduced else []:
            label = ", ".join(f"{k}={v}" for k, v in sizes.items())
            self.variants.append(self._make_variant(Variant(sizes, "weights-0", f", with {label}")))
        if self.writes:
            self.note(written.note(max((v.written_names for v in self.variants), key=len)))
        bearing.choose(self)
        self.ways = self._ways_of_the_framework()

    def _ways_of_the_framework(self) -> list[str]:
        first = self.variants[0]
        drawn = draw_inputs(self.problem.load(first.sizes), derive(self.secret, "ways"))
        arguments = layout.join(drawn.skeleton, drawn.tensors)
        # A copy: what a call leaves behind in the model is nobody's input.
        return baseline_ways.ways(copy.deepcopy(self.model(0)), arguments, self.contract["mul"], self.writes)

    def _reduced_sizes(self) -> dict[str, int]:
        """Smaller sizes for which the reference still runs, since an interpreter is slow."""
        for sizes in reduce_sizes(self.problem.integers()):
            try:
                module = self.problem.load(sizes)
                model = construct(module, 1)
                drawn = draw_inputs(module, 1)
                written.settle(model, [drawn])
                _skeleton, outputs = forward(model, drawn)
            except Exception:
                continue
            total = sum(t.numel() for t in (*drawn.tensors, *outputs))
            self.notes.append(f"sizes reduced to {sizes}" if sizes else f"sizes not reduced: {total} elements")
            return sizes
        return {}

    def _make_variant(self, variant: Variant) -> Variant:
        index = len(self.variants) if variant.seed_label == "weights-0" else 1
        module = self.problem.load(variant.sizes)
        made = construct(module, derive(self.secret, f"construct-{variant.seed_label}"))
        drawn = draw_inputs(module, derive(self.secret, f"probe-{index}"))

        def draws() -> Iterator[Drawn]:
            yield drawn
            yield draw_inputs(module, derive(self.secret, f"probe-{index}-again"))

        variant.training = self._mode(made, draws)
        variant.autograd = written.uses_autograd(made)
        _set_mode(made, variant.training)
        with ReductionMeter() as meter:
            skeleton, outputs = run(lambda: forward(made, drawn), "running the reference")
        seed = derive(self.secret, f"redraw-{variant.seed_label}-{variant.sizes}")

        def bears(other: nn.Module) -> bool:
            written.settle_also(made, other, drawn)
            return bearing.surviving(other, drawn, outputs) is not None

        if variant.seed_label != "weights-0":
            other = Drawn(self._other_numbers(made, drawn, variant), drawn.tensors)
            changed = scalars.differ(other.skeleton, drawn.skeleton)
            variant.other_numbers = changed and bearing.surviving(made, other, outputs) is not None
            if variant.other_numbers:
                drawn = other
        variant.weight_forms = bearing.weight_forms(made, seed, bears)
        model = redraw_weights(made, seed, variant.weight_forms)
        written.settle_also(made, model, drawn)
        if kept := [w.name for w in weights_of(made) if is_varied(made, w) and w.name not in variant.weight_forms]:
            self.note(f"weights kept as constructed, since the reference accepts no others: {', '.join(kept)}")
        model = self._with_other_buffers(model, variant, drawn, outputs)
        if "mul" not in self.contract:
            weights = [w.tensor for w in weights_of(made)]
            operands, results = (
                [t.dtype for t in tensors if t.is_floating_point()] for tensors in ((*drawn.tensors, *weights), outputs)
            )
            self.contract["mul"] = expected_of(operands, results)
        # Single-precision sums in a double-precision problem would hide single-precision products.
        self.contract.setdefault("acc", "fp64" if self.contract["mul"] == "fp64" else "fp32")
        self._choose_lower_bits(model, variant)
        self._models[index] = model
        given = weights_of(model)
        if variant.seed_label != "weights-0":
            new = [*(["re-drawn weights"] if given else []), *(["other numbers"] if variant.other_numbers else [])]
            variant.described = f", {' and '.join(new)}" if new else ", constructed again"
        variant.reduction, variant.reductions, variant.sums = meter.longest, meter.of(outputs), meter.sums_of(outputs)
        variant.products = meter.products_of(outputs)
        variant.mixes = meter.mixes_of(outputs)
        self.multiplies = self.multiplies or meter.multiplies
        variant.init = run(lambda: layout.pack(init_inputs(module)), "handing get_init_inputs() to a candidate")
        variant.input_skeleton = run(lambda: layout.pack(drawn.skeleton), "handing get_inputs() to a candidate")
        variant.output_skeleton = layout.pack(skeleton)
        variant.input_fields, _size = layout.plan(drawn.tensors)
        variant.output_fields, _size = layout.plan([t.contiguous() for t in outputs])
        variant.weights_file = f"weights-{index}.bin"
        fields = self.store.write_tensors(variant.weights_file, [w.tensor.detach() for w in given])
        variant.weights = [{"name": w.name, "field": asdict(f)} for w, f in zip(given, fields, strict=True)]
        variant.aliases_allowed = _returns_inputs(model, drawn)
        variant.shared_outputs = [
            variant.aliases_allowed or layout.overlaps(t) or index >= variant.returned
            for index, t in enumerate(outputs)
        ]
        return variant

    def _other_numbers(self, model: nn.Module, drawn: Drawn, variant: Variant) -> list[Any]:
        seed = derive(self.secret, f"numbers-{variant.seed_label}-{variant.sizes}")
        return scalars.varied(model, drawn.skeleton, self.contract.get("fixed", []), seed)

    def _with_other_buffers(
        self, model: nn.Module, variant: Variant, drawn: Drawn, own: list[torch.Tensor]
    ) -> nn.Module:
        """Written ones begin with other numbers than the constructor's, where the reference bears it."""
        seen = written.of(model)
        variant.written_inputs, variant.written_buffers = list(seen.inputs), list(seen.buffers)
        variant.written_names = written.names(model, drawn.skeleton, seen)
        if not seen.buffers:
            return model
        other = written.redraw(model, derive(self.secret, f"written-{variant.seed_label}-{variant.sizes}"))
        variant.redrawn_buffers = bearing.surviving(other, drawn, own) is not None
        return other if variant.redrawn_buffers else model

    def _mode(self, model: nn.Module, draws: Callable[[], Iterator[Drawn]]) -> bool:
        """As constructed, unless that is random (dropout); what is random in both modes cannot be judged.

        What it writes is found out on the way, since that depends on the mode too."""
        drawn = next(draws())
        run(lambda: written.settle(model, draws()), "running the reference")
        if not _is_random(model, drawn):
            return model.training
        model.eval()
        run(lambda: written.settle(model, draws()), "running the reference")
        if _is_random(model, drawn):
            raise ProblemError(
                "the reference is not deterministic: it gives another output at each call, in train and in eval mode; "
                "take the randomness or the state out, or pass it in as an input"
            )
        self.note("judged in eval mode: in train mode the reference is random")
        return False

    def _choose_lower_bits(self, model: nn.Module, variant: Variant) -> None:
        seed = derive(self.secret, f"bits-{variant.seed_label}-{variant.sizes}")
        one_sided_weights(model, self.contract["mul"], seed, variant.weight_forms)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # -- sets -----------------------------------------------------------------------------------------------------

    def ensure(self, variant: int, distribution: str, number: int) -> InputSet:
        name = f"v{variant}-{distribution}-{number}"
        found = self.sets.get(name)
        if found is not None and self.store_of(found).has(f"{name}.in"):
            found.fresh = False
            return found
        self.make_room(variant)
        drawn = slices.draw(self, number) if distribution == SLICE else self._draw(variant, distribution, number)
        made = self.keep_set(variant, distribution, number, drawn, self.exactly(variant, drawn))
        del drawn
        device_context.give_back_unused()
        return made

    def exactly(self, variant: int, drawn: Drawn) -> truth.Exactly:
        made = truth.truth(self.model(variant), drawn, self.rounds_truths, self.contract["mul"])
        expected = [list(f.shape) for f in self.variants[variant].output_fields]
        if [list(t.shape) for t in made[0]] != expected:
            raise ProblemError(
                "an output's shape depends on the values of the inputs: return one of a fixed shape (pad it)"
            )
        self.decides = self.decides or any(isinstance(s, Doubt) and s.decides for s in made[1].values())
        return made

    def bands_on(
        self, variant: int, bands: list[truth.Band | None], drawn: Drawn, exactly: truth.Exactly
    ) -> list[truth.Band | None]:
        """Those of a distribution, for one set of it."""
        exact, sources, _doubled = exactly
        return truth.on_this_set(
            bands, self.model(variant), drawn, exact, self.rounds_truths, self.contract["mul"], sources
        )

    def keep_set(self, variant: int, distribution: str, number: int, drawn: Drawn, exactly: truth.Exactly) -> InputSet:
        name = f"v{variant}-{distribution}-{number}"
        exact, sources, doubled = exactly
        self.doubled = self.doubled and doubled
        # One band serves all sets of a distribution: it is relative to the rms of each set's own truth.
        family = f"v{variant}-{_family(distribution)}"
        if family not in self.bands:
            self.bands[family] = bearing.bands_here(self, variant, distribution, drawn, exactly)
        bands = self.bands_on(variant, self.bands[family], drawn, exactly)
        if distribution == SLICE:
            bands = [band and band.of_all() for band in bands]  # other magnitudes than those that were measured
        store = self._store_for(distribution)
        try:
            store.write_tensors(f"{name}.in", drawn.tensors)
            checksum = self._checksum(name)
            # As comparisons want them, part by part.
            fields = store.write_tensors(f"{name}.truth", [tensor.contiguous() for tensor in exact])
            scores = {i: keep_source(store, name, i, source) for i, source in sources.items()}
        except BaseException:
            if self._device_store is not None:
                self._device_store.drop(name)  # half a set is none
            raise
        made = InputSet(name, variant, distribution, number, bands, fields, scores, checksum, fresh=True)
        self.sets[name] = made
        return made

    def _checksum(self, name: str) -> int:
        """On a device, where a set may have to be made again: it must be the same one."""
        if self._device_store is None:
            return 0
        made = self._device_store.checksum(f"{name}.in")
        if name in self.sets and self.sets[name].checksum != made:
            raise ProblemError(
                "get_inputs() gives other values for the same seeds: draw them with torch.rand and the like, with "
                "numpy.random or with random, all of which kforge seeds"
            )
        return made

    def make_room(self, variant: int) -> None:
        if self._device_store is not None:
            self._device_store.make_room(self._set_bytes(variant))

    def model(self, variant: int) -> nn.Module:
        if variant not in self._models:
            made = self.variants[variant]
            module = self.problem.load(made.sizes)
            model = construct(module, derive(self.secret, f"construct-{made.seed_label}"))
            _set_mode(model, made.training)
            written.mark(model, made.written)
            written.mark_autograd(model, made.autograd)
            seed = derive(self.secret, f"redraw-{made.seed_label}-{made.sizes}")
            model = redraw_weights(model, seed, made.weight_forms)
            if made.redrawn_buffers:
                model = written.redraw(model, derive(self.secret, f"written-{made.seed_label}-{made.sizes}"))
            self._choose_lower_bits(model, made)
            self._models[variant] = model
        return self._models[variant]

    def _draw(self, variant: int, distribution: str, number: int) -> Drawn:
        return self.draw(variant, distribution, number)

    def draw(self, variant: int, distribution: str, number: int, secret: bytes | None = None) -> Drawn:
        """Inputs by their number, under this problem's secret or another."""
        if secret is None:
            secret = self._session_secret if distribution == UNSEEN else self.secret
        module = self.problem.load(self.variants[variant].sizes)
        own = draw_inputs(module, derive(secret, f"inputs-{variant}-{number}"))
        if (made := self.variants[variant]).other_numbers:
            own.skeleton = self._other_numbers(self.model(variant), own, made)
        if distribution in (OWN, UNSEEN):
            return own
        return redraw(own, self.plan, distribution, derive(secret, f"values-{variant}-{distribution}-{number}"))

    def bands_of(self, distribution: str) -> list[truth.Band | None]:
        """What is allowed on inputs of a distribution, for the problem's own sizes and weights."""
        family = f"v0-{_family(distribution)}"
        if family not in self.bands:
            self.ensure(0, distribution, 0)
        return self.bands[family]

    def store_of(self, made: InputSet) -> Store | DeviceStore:
        return self._store_for(made.distribution)

    def _store_for(self, distribution: str) -> Store | DeviceStore:
        if self._device_store is not None:
            return self._device_store
        return self._session if distribution == UNSEEN else self.store

    def present(self, name: str) -> InputSet:
        """A set that was made before; on a GPU it may have made room for others meanwhile."""
        made = self.find(name)
        return (
            made if self.store_of(made).has(f"{name}.in") else self.ensure(made.variant, made.distribution, made.number)
        )

    def find(self, name: str) -> InputSet:
        if name not in self.sets:
            raise ProblemError(f"no set {name}")
        return self.sets[name]

    def keep_one_set(self) -> None:
        """On a device without room for more: each is made again when it is asked for."""
        self._tight = True
        if self._device_store is not None:
            self._device_store.keep_one()

    def truth_of(self, made: InputSet) -> tuple[list[torch.Tensor], dict[int, IndexSource | Doubt]]:
        made = self.present(made.name)
        store = self.store_of(made)
        tensors = store.read_tensors(f"{made.name}.truth", made.truth_fields)
        return tensors, {index: kept_source(store, kept) for index, kept in made.scores.items()}

    @property
    def rounds_truths(self) -> bool:
        """Whether they are rounded to float32, for want of room: half of a unit there is little beside any tolerance,
        unless outputs are in float64."""
        wide = any(f.torch_dtype == torch.float64 for v in self.variants for f in v.output_fields)
        return self._tight and not wide and not any(v.written_inputs for v in self.variants)

    @property
    def writes(self) -> bool:
        """Whether the reference writes anything besides what it returns: then each call begins as the first did."""
        return any(v.written for v in self.variants)

    def held_bytes(self, made: InputSet | None) -> list[tuple[int, int]]:
        """Of a set's inputs, or of one for timed calls, those that no call may change."""
        variant = self.variants[made.variant if made is not None else 0]
        return written.held(variant.input_fields, variant.written_inputs)

    # -- facts ----------------------------------------------------------------------------------------------------

    def _set_bytes(self, variant: int) -> int:
        """What a set takes: its inputs, and its truths in doubles."""
        made = self.variants[variant]
        return _region(made.input_fields) + sum(
            math.prod(f.shape) * max(8, f.torch_dtype.itemsize) for f in made.output_fields
        )

    @property
    def input_bytes(self) -> int:
        return max(_region(v.input_fields) for v in self.variants)

    @property
    def output_bytes(self) -> int:
        return max(_region(v.output_fields) for v in self.variants)

    @property
    def varies(self) -> bool:
        """Whether one set of inputs differs from another at all."""
        return self.own_varies or len(self.distributions) > 1

    def precision(self) -> str:
        """`proven` where some distribution tells the contract's precision from the next lower one, `unproven` where none does,
        `not_applicable` where lower precision has nothing to multiply faster and nothing to keep smaller."""
        mul = self.contract["mul"]
        if LOWER[mul] == mul or not self.narrows:
            return "not_applicable"
        first = self.variants[0]
        all_products = {product for products in first.products for product in products}
        # Of one output nothing follows for products that only another one is made of.
        shown, any_shown = set[int](), False
        for bands in self.bands.values():
            for products, band in zip(first.products, bands, strict=True):
                if (band is None and self.told) or (band is not None and band.tells):
                    shown, any_shown = shown | set(products), True
        return "proven" if any_shown and shown == all_products else "unproven"

    @property
    def unmoved(self) -> bool:
        """Whether no change to a part of the inputs shows in the outputs: of those of one size that may be sound."""
        return bool(self.slices_moved) and not any(self.slices_moved.values())

    def slice_moves(self, number: int, moved: bool) -> None:
        self.slices_moved[number] = moved

    @property
    def narrows(self) -> bool:
        """Whether lower precision could pay: by quicker products, or by weights that take fewer bytes."""
        if self.multiplies:
            return True
        first = self.variants[0]
        weights = [layout.Field(**w["field"]) for w in first.weights]
        floating = sum(f.nbytes for f in weights if f.torch_dtype.is_floating_point)
        return floating >= NARROWABLE * sum(f.nbytes for f in (*first.input_fields, *first.output_fields))

    def proven(self) -> bool:
        return self.precision() != "unproven"

    def keep(self) -> dict[str, Any]:
        return {
            "secret": self.secret.hex(),
            "contract": self.contract,
            "variants": [v.json() for v in self.variants],
            "sets": [s.json() for s in self.sets.values() if s.distribution != UNSEEN],
            "distributions": self.distributions,
            "plan": asdict(self.plan),
            "bands": {family: [b and b.json() for b in bands] for family, bands in self.bands.items()},
            "multiplies": self.multiplies,
            "told": self.told,
            "decides": self.decides,
            "own_varies": self.own_varies,
            "slices_moved": [[number, moved] for number, moved in self.slices_moved.items()],
            "faint": self.faint,
            "doubled": self.doubled,
            "ways": self.ways,
            "notes": self.notes,
        }

    def restore(self, kept: dict[str, Any]) -> None:
        self.contract = kept["contract"]
        self.variants = [Variant.parse(v) for v in kept["variants"]]
        self.sets = {s["name"]: InputSet.parse(s) for s in kept["sets"]}
        self.distributions = kept["distributions"]
        self.slices_moved = dict(kept["slices_moved"])
        self.faint = kept["faint"]
        self.decides = kept["decides"]
        self.plan = Plan(**{**kept["plan"], "span": tuple(kept["plan"]["span"])})
        self.bands = {family: [b and truth.Band(**b) for b in bands] for family, bands in kept["bands"].items()}
        self.multiplies, self.told, self.own_varies = kept["multiplies"], kept["told"], kept["own_varies"]
        self.doubled, self.ways = kept["doubled"], kept["ways"]
        self.notes = kept["notes"]


def _family(distribution: str) -> str:
    """The distribution whose bands serve."""
    return OWN if distribution in (SLICE, UNSEEN) else distribution


def _region(fields: list[layout.Field]) -> int:
    return (
        max((f.offset + (f.nbytes + layout.ALIGN - 1) // layout.ALIGN * layout.ALIGN for f in fields), default=0)
        or layout.ALIGN
    )


def _set_mode(model: nn.Module, training: bool) -> None:
    """Train mode is as constructed: a part that the constructor froze with `eval()` stays frozen."""
    if not training:
        model.eval()


def _is_random(model: nn.Module, drawn: Drawn) -> bool:
    """Whether a second call gives another output: by chance, or because the module remembers the first in another way than
    in its buffers, which begin as they were."""
    twin = copy.deepcopy(model)
    state = written.initial_state(twin)
    _skeleton, first = run(lambda: forward(twin, drawn, seed=1, pristine=False), "running the reference")
    first = [tensor.clone() for tensor in first]
    state.restore()
    _skeleton, second = run(lambda: forward(twin, drawn, seed=2, pristine=False), "running the reference")
    return any(
        not torch.equal(a, b)
        and (a.shape != b.shape or not torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-6, equal_nan=True))
        for a, b in zip(first, second, strict=True)
    )


def _returns_inputs(model: nn.Module, drawn: Drawn) -> bool:
    """Whether the reference returns memory of its inputs."""
    tensors = [t.clone(memory_format=torch.preserve_format) for t in drawn.tensors]
    with of_calls(written.uses_autograd(model)):
        result = copy.deepcopy(model)(*layout.join(drawn.skeleton, tensors))
    storages = {t.untyped_storage().data_ptr() for t in tensors if t.numel()}
    _skeleton, outputs = layout.split(result)
    return any(t.numel() and t.untyped_storage().data_ptr() in storages for t in outputs)
