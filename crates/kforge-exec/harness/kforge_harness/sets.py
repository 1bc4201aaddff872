"""The reference with its variants (sizes, weights) and the sets of inputs that candidates are judged on."""

from __future__ import annotations

import copy
import math
import os
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from . import errors, home, layout, truth
from .align import weights_of
from .draw import OWN, REDRAWN, derive, redraw, redraw_weights, structured_inputs
from .problem import Drawn, Problem, ProblemError, construct, draw_inputs, forward, init_inputs, run
from .shelf import DeviceShelf
from .sizes import reduce_sizes
from .store import Store

SLICE = "slice"
UNSEEN = "unseen"  # the problem's own distribution under seeds of this session, which are never kept
_DEFAULTS = {
    "math": "exact", "params": "constant", "inputs": "redraw", "deterministic": False, "operators": "any",
}  # fmt: skip
_REDUCED_ELEMENTS = 1 << 16  # of inputs and outputs together, for interpreted runs


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
    training: bool = True
    reduction: int = 1
    redrawn_weights: bool = True

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
        shelf: DeviceShelf | None = None,
        tight: bool = False,
    ) -> None:
        self.problem = problem
        self.contract: dict[str, Any] = {**_DEFAULTS, **contract}
        self.secret = secret
        self.store = store
        self._session = session or store
        self._shelf = shelf  # instead of both, on a GPU
        self._tight = tight  # whether that GPU has hardly room for one call of each arm
        self._session_secret = os.urandom(32)
        self._reduced = reduced
        self.variants: list[Variant] = []
        self.sets: dict[str, InputSet] = {}
        self.distributions: list[str] = [OWN]
        self.structured: list[bool] = []
        self.mutates_inputs = False
        self.doubled = True
        self.notes: list[str] = []
        self._models: dict[int, nn.Module] = {}

    # -- making ---------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Variants, layouts and distributions; sets follow when they are asked for."""
        own_sizes = self._reduced_sizes() if self._reduced else {}
        first = self._make_variant(Variant(own_sizes, "weights-0", ""))
        second = self._make_variant(Variant(own_sizes, "weights-1", ", with other weights"))
        self.variants = [first, second]
        for sizes in self.contract.get("shapes", []) if not self._reduced else []:
            label = ", ".join(f"{k}={v}" for k, v in sizes.items())
            self.variants.append(self._make_variant(Variant(sizes, "weights-0", f", with {label}")))
        self._choose_distributions()

    def _reduced_sizes(self) -> dict[str, int]:
        """Smaller sizes for which the reference still runs, since an interpreter is slow."""
        for sizes in reduce_sizes(self.problem.integers()):
            try:
                module = self.problem.load(sizes)
                model = construct(module, 1)
                drawn = draw_inputs(module, 1)
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
        variant.training = self._mode(made, drawn)
        _set_mode(made, variant.training)
        model = redraw_weights(made, derive(self.secret, f"redraw-{variant.seed_label}-{variant.sizes}"))
        with truth.ReductionMeter() as meter:
            skeleton, outputs = run(lambda: forward(made, drawn), "running the reference")
        redrawn = _surviving(model, drawn, outputs) is not None
        if not redrawn:
            model = made
            self._note(
                "weights are the constructor's own under secret seeds: the reference does not bear re-drawn ones"
            )
        if "mul" not in self.contract:
            floats = [t.dtype for t in (*drawn.tensors, *outputs) if t.is_floating_point()]
            self.contract["mul"] = truth.precision_of(floats[0]) if floats else "fp32"
        # Single-precision sums in a double-precision problem would hide single-precision products.
        self.contract.setdefault("acc", "fp64" if self.contract["mul"] == "fp64" else "fp32")
        self._models[index] = model
        given = weights_of(model)
        variant.redrawn_weights = redrawn
        variant.reduction = meter.longest
        variant.init = run(lambda: layout.pack(init_inputs(module)), "handing get_init_inputs() to a candidate")
        variant.input_skeleton = run(lambda: layout.pack(drawn.skeleton), "handing get_inputs() to a candidate")
        variant.output_skeleton = layout.pack(skeleton)
        variant.input_fields, _size = layout.plan(drawn.tensors)
        variant.output_fields, _size = layout.plan([t.contiguous() for t in outputs])
        variant.weights_file = f"weights-{index}.bin"
        fields = self.store.write_tensors(variant.weights_file, [w.tensor.detach() for w in given])
        variant.weights = [{"name": w.name, "field": asdict(f)} for w, f in zip(given, fields, strict=True)]
        variant.aliases_allowed, mutates = _touches_inputs(model, drawn)
        self.mutates_inputs = self.mutates_inputs or mutates
        return variant

    def _mode(self, model: nn.Module, drawn: Drawn) -> bool:
        """As constructed, unless that is random (dropout); what is random in both modes cannot be judged."""
        if not _is_random(model, drawn):
            return model.training
        model.eval()
        if _is_random(model, drawn):
            raise ProblemError(
                "the reference is not deterministic: it gives another output at each call, in train and in eval mode; "
                "take the randomness or the state out, or pass it in as an input"
            )
        self._note("judged in eval mode: in train mode the reference is random")
        return False

    def _choose_distributions(self) -> None:
        module = self.problem.load(self.variants[0].sizes)
        first = draw_inputs(module, derive(self.secret, "structure-1"))
        second = draw_inputs(module, derive(self.secret, "structure-2"))
        if [t.shape for t in first.tensors] != [t.shape for t in second.tensors]:
            raise ProblemError("get_inputs() gives other shapes at each call: fix the sizes")
        self.structured = structured_inputs(first, second)
        del second
        if self.contract["inputs"] == "given" or all(self.structured):
            return
        model = self._models[0]
        _skeleton, own = forward(model, first)
        del first
        for distribution in REDRAWN:
            if self._bears(model, distribution, own):
                self.distributions.append(distribution)
            else:
                self._note(f"inputs are not drawn as {distribution!r}: the reference does not bear them")

    def _bears(self, model: nn.Module, distribution: str, own: list[torch.Tensor]) -> bool:
        """Whether the reference can be judged on such inputs; the first set of them is kept then."""
        self._make_room(0)
        drawn = self._draw(0, distribution, 0)
        native = _surviving(model, drawn, own)
        if native is None:
            return False
        exact = truth.truth(model, drawn, self.rounds_truths)
        if not self._precise_enough(native, exact[0]):
            return False
        del native
        self._keep_set(0, distribution, 0, drawn, exact)
        return True

    def _precise_enough(self, native: list[torch.Tensor], exact: list[torch.Tensor]) -> bool:
        """Whether eager itself stays within the ordinary band there; an ill-conditioned draw proves nothing."""
        for index, (got, true) in enumerate(zip(native, exact, strict=True)):
            if got.is_floating_point():
                usual = truth.usual_tolerance(self.contract["mul"], got.dtype)
                worst = self._worst(got, true)
                # With room to spare: a kernel that rounds a little otherwise must not fail where eager just passes.
                if worst > usual / 4 and worst > min(2 * self._own_worst(index), usual):
                    return False
        return True

    def _own_worst(self, index: int) -> float:
        """Eager's worst element on the problem's own inputs: long sums round as much there."""
        exact, _sources = self.truth_of(self.ensure(0, OWN, 0))
        _skeleton, native = forward(self._models[0], self._draw(0, OWN, 0))
        return self._worst(native[index], exact[index])

    def _worst(self, got: torch.Tensor, true: torch.Tensor) -> float:
        return errors.worst_of(got, true, max(1.0, (self.variants[0].reduction / 256) ** 0.5))

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # -- sets -----------------------------------------------------------------------------------------------------

    def ensure(self, variant: int, distribution: str, number: int) -> InputSet:
        name = f"v{variant}-{distribution}-{number}"
        found = self.sets.get(name)
        if found is not None and self.store_of(found).has(f"{name}.in"):
            found.fresh = False
            return found
        self._make_room(variant)
        drawn = self._draw_slice(number) if distribution == SLICE else self._draw(variant, distribution, number)
        exactly = truth.truth(self.model(variant), drawn, self.rounds_truths)
        made = self._keep_set(variant, distribution, number, drawn, exactly)
        del drawn
        home.give_back_unused()
        return made

    def _keep_set(self, variant: int, distribution: str, number: int, drawn: Drawn, exactly: truth.Exactly) -> InputSet:
        name = f"v{variant}-{distribution}-{number}"
        exact, sources, doubled = exactly
        self.doubled = self.doubled and doubled
        family = OWN if distribution in (SLICE, UNSEEN) else distribution
        first = self.sets.get(f"v{variant}-{family}-0")
        model, narrow = self.model(variant), self.rounds_truths
        # One band serves all sets of a distribution: it is relative to the rms of each set's own truth.
        bands = (
            first.bands
            if first
            else truth.bands(model, drawn, exact, self.contract, self.variants[variant].reduction, doubled, narrow)
        )
        bands = truth.on_this_set(bands, model, drawn, exact, narrow)
        store = self._store_for(distribution)
        try:
            store.write_tensors(f"{name}.in", drawn.tensors)
            checksum = self._checksum(name)
            # As comparisons want them, part by part.
            fields = store.write_tensors(f"{name}.truth", [tensor.contiguous() for tensor in exact])
            scores = {i: _keep_scores(store, name, i, source) for i, source in sources.items()}
        except BaseException:
            if self._shelf is not None:
                self._shelf.drop(name)  # half a set is none
            raise
        made = InputSet(name, variant, distribution, number, bands, fields, scores, checksum, fresh=True)
        self.sets[name] = made
        return made

    def _checksum(self, name: str) -> int:
        """On a device, where a set may have to be made again: it must be the same one."""
        if self._shelf is None:
            return 0
        made = self._shelf.checksum(f"{name}.in")
        if name in self.sets and self.sets[name].checksum != made:
            raise ProblemError(
                "get_inputs() gives other values for the same seeds: draw them with torch.rand and the like, with "
                "numpy.random or with random, all of which kforge seeds"
            )
        return made

    def _make_room(self, variant: int) -> None:
        if self._shelf is not None:
            self._shelf.make_room(self._set_bytes(variant))

    def model(self, variant: int) -> nn.Module:
        if variant not in self._models:
            made = self.variants[variant]
            module = self.problem.load(made.sizes)
            model = construct(module, derive(self.secret, f"construct-{made.seed_label}"))
            _set_mode(model, made.training)
            if made.redrawn_weights:
                model = redraw_weights(model, derive(self.secret, f"redraw-{made.seed_label}-{made.sizes}"))
            self._models[variant] = model
        return self._models[variant]

    def _draw(self, variant: int, distribution: str, number: int) -> Drawn:
        module = self.problem.load(self.variants[variant].sizes)
        if distribution == UNSEEN:
            return draw_inputs(module, derive(self._session_secret, f"inputs-{variant}-{number}"))
        own = draw_inputs(module, derive(self.secret, f"inputs-{variant}-{number}"))
        if distribution == OWN:
            return own
        return redraw(
            own, self.structured, distribution, derive(self.secret, f"values-{variant}-{distribution}-{number}")
        )

    def _draw_slice(self, number: int) -> Drawn:
        """The first own set with one slice of one input taken from another draw, so that the truth moves clearly."""
        before, _sources = self.truth_of(self.ensure(0, OWN, 0))
        self._make_room(0)
        base = self._draw(0, OWN, 0)
        # Copies, once: what `get_inputs` returns may be something that it returns each time.
        base.tensors[:] = [t.clone(memory_format=torch.preserve_format) for t in base.tensors]
        for (which, row), slice_of_other in self._slices_of_another(number).items():
            tensor = base.tensors[which]
            own = tensor[row].clone()
            tensor[row] = slice_of_other
            after, _sources, _doubled = truth.truth(self.model(0), base, self.rounds_truths)
            if self._moved(before, after):
                return base
            del after
            tensor[row] = own
        self._note("no slice of the inputs moves the truth by ten tolerances")
        return self._draw(0, OWN, 1000 + number)

    def _slices_of_another(self, number: int) -> dict[tuple[int, Any], torch.Tensor]:
        """Some slices of inputs that were drawn otherwise, by the number of the input and the place in it."""
        other = self._draw(0, OWN, 1000 + number)
        generator = torch.Generator().manual_seed(derive(self.secret, f"slice-{number}"))
        slices: dict[tuple[int, Any], torch.Tensor] = {}
        for _attempt in range(8):
            which = int(torch.randint(len(other.tensors), (1,), generator=generator))
            tensor = other.tensors[which]
            if tensor.numel():
                row = int(torch.randint(tensor.shape[0], (1,), generator=generator)) if tensor.dim() else ...
                slices[which, row] = tensor[row].clone()
        return slices

    def _moved(self, before: list[torch.Tensor], after: list[torch.Tensor]) -> bool:
        bands = self.sets["v0-own-0"].bands
        for a, b, band in zip(before, after, bands, strict=True):
            if band is None:
                if bool((a != b).any()):
                    return True
            elif errors.worst_of(b, a, band.scale) > 10 * band.tau:
                return True
        return False

    def store_of(self, made: InputSet) -> Store | DeviceShelf:
        return self._store_for(made.distribution)

    def _store_for(self, distribution: str) -> Store | DeviceShelf:
        if self._shelf is not None:
            return self._shelf
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
        if self._shelf is not None:
            self._shelf.keep_one()

    def truth_of(self, made: InputSet) -> tuple[list[torch.Tensor], dict[int, truth.IndexSource]]:
        made = self.present(made.name)
        store = self.store_of(made)
        tensors = store.read_tensors(f"{made.name}.truth", made.truth_fields)
        sources = {}
        for index, kept in made.scores.items():
            scores = store.read_tensors(kept["file"], [layout.Field(**kept["field"])])[0]
            sources[index] = truth.IndexSource(scores, kept["dim"], kept["keepdim"], kept["sign"])
        return tensors, sources

    @property
    def rounds_truths(self) -> bool:
        """Whether they are rounded to float32, for want of room: half of a unit there is little beside any tolerance,
        unless outputs are in float64."""
        wide = any(f.torch_dtype == torch.float64 for v in self.variants for f in v.output_fields)
        return self._tight and not wide and not self.mutates_inputs

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

    def proven(self) -> bool:
        """Whether some distribution tells the contract's precision from the next lower one."""
        made = [band for s in self.sets.values() for band in s.bands if band is not None]
        return not made or any(band.separated for band in made)

    def keep(self) -> dict[str, Any]:
        return {
            "secret": self.secret.hex(),
            "contract": self.contract,
            "variants": [v.json() for v in self.variants],
            "sets": [s.json() for s in self.sets.values() if s.distribution != UNSEEN],
            "distributions": self.distributions,
            "structured": self.structured,
            "mutates_inputs": self.mutates_inputs,
            "doubled": self.doubled,
            "notes": self.notes,
        }

    def restore(self, kept: dict[str, Any]) -> None:
        self.contract = kept["contract"]
        self.variants = [Variant.parse(v) for v in kept["variants"]]
        self.sets = {s["name"]: InputSet.parse(s) for s in kept["sets"]}
        self.distributions = kept["distributions"]
        self.structured = kept["structured"]
        self.mutates_inputs = kept["mutates_inputs"]
        self.doubled = kept["doubled"]
        self.notes = kept["notes"]


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
    """Whether a second call gives another output: by chance, or because the module remembers the first."""
    twin = copy.deepcopy(model)
    _skeleton, first = run(lambda: forward(twin, drawn, seed=1, pristine=False), "running the reference")
    first = [tensor.clone() for tensor in first]
    _skeleton, second = run(lambda: forward(twin, drawn, seed=2, pristine=False), "running the reference")
    return any(
        not torch.equal(a, b)
        and (a.shape != b.shape or not torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-6, equal_nan=True))
        for a, b in zip(first, second, strict=True)
    )


def _surviving(model: nn.Module, drawn: Drawn, own: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """The outputs if there is no exception, the same shapes, and no non-finite value that the own inputs do not give."""
    try:
        _skeleton, outputs = forward(model, drawn)
    except Exception as error:
        if home.is_no_memory(error):
            raise
        return None
    if len(outputs) != len(own):
        return None
    for got, usual in zip(outputs, own, strict=True):
        if got.shape != usual.shape or got.dtype != usual.dtype:
            return None
        if got.is_floating_point() and _non_finite(got) > _non_finite(usual):
            return None
    return outputs


def _non_finite(tensor: torch.Tensor) -> int:
    if tensor.numel() == 0 or bool(torch.isfinite(torch.linalg.vector_norm(tensor, float("inf")))):
        return 0
    return int((~torch.isfinite(tensor)).sum())


def _touches_inputs(model: nn.Module, drawn: Drawn) -> tuple[bool, bool]:
    """Whether the reference returns memory of its inputs, and whether it writes to them."""
    tensors = [t.clone(memory_format=torch.preserve_format) for t in drawn.tensors]
    with torch.inference_mode():
        result = copy.deepcopy(model)(*layout.join(drawn.skeleton, tensors))
    storages = {t.untyped_storage().data_ptr() for t in tensors if t.numel()}
    _skeleton, outputs = layout.split(result)
    aliases = any(t.numel() and t.untyped_storage().data_ptr() in storages for t in outputs)
    mutates = any(not torch.equal(a, b) and not _both_nan(a, b) for a, b in zip(tensors, drawn.tensors, strict=True))
    return aliases, mutates


def _both_nan(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.is_floating_point() and bool(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def _keep_scores(store: Store | DeviceShelf, name: str, index: int, source: truth.IndexSource) -> dict[str, Any]:
    file = f"{name}.scores{index}"
    fields = store.write_tensors(file, [source.scores.double()])
    return {"file": file, "field": asdict(fields[0]), "dim": source.dim, "keepdim": source.keepdim, "sign": source.sign}
