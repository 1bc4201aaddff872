"""The trusted process that loads the problem: inputs, weights, truth, comparison. It never sees a candidate.

kforge asks over a trusted channel: `look` at a problem's sizes, `open` it, make a `set` of inputs, `compare` an output.
Everything made is kept in the problem's store, keyed by its content, so that the next evaluation maps it from disk.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import socket
import sys
import time
import traceback
from typing import Any

import torch

from ..shared import device_context, layout, names, wire
from . import devices, intake
from .compare import compare
from .doubt import Doubt
from .draw import PATCHED, REDRAWN, SCALED
from .errors import pieces, rms_of
from .fresh import FreshRows
from .indices import IndexSource
from .problem import Problem, ProblemError, TooLarge
from .sets import Reference
from .store import Store
from .truth import Band

_DYING_S = 1.0  # until a cell that was ended has given its memory back
_REQUESTS = {**names.REQUESTS, **names.DEVICE_REQUESTS}
_FORM = 20  # of what is kept in a store, and of how its bands were found


def main(message: dict[str, Any], fds: list[int]) -> None:
    channel = socket.socket(fileno=fds[0])
    os.environ.update(message["env"])
    os.chdir(message["cwd"])
    sys.path[:0] = [path for path in message["python_path"] if path]
    torch.set_num_threads(message["threads"])
    referee: _Referee | None = None
    while (received := wire.receive_json(channel)) is not None:
        request, attached = received
        passed: list[int] = []
        try:
            word = names.chosen(request, "do", _REQUESTS, "request of the referee's")
            if word == "load":
                device_context.settle(message["place"])  # here, since a full device is an answer too
                referee = _Referee(Problem(request["path"]))
                answer: dict[str, Any] = {"contract": _jsonable(referee.problem.contract)}
            elif referee is None:
                raise ProblemError("no problem is loaded")
            else:
                answer, passed = referee.perform(request, attached)
        except ProblemError as error:
            answer = {"problem_error": str(error), "no_room": isinstance(error, TooLarge)}
        except Exception as error:
            traceback.print_exc()
            if device_context.is_no_memory(error):
                answer = {"problem_error": devices.referee().too_large(None, error), "no_room": True}
            else:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                at = f"{os.path.basename(frame.filename)}:{frame.lineno}"
                answer = {"internal_error": f"{type(error).__name__}: {error} ({at})"}
        devices.referee().after_answer()
        wire.send_json(channel, answer, passed)
        for fd in passed:
            os.close(fd)


class _Referee:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.reference: Reference | None = None
        self.desk: devices.Desk | None = None  # where sets are kept on a device
        self._tight = False  # whether the device has no room for more than one set
        self._needed = 0  # of the device's memory, by a look at the problem
        self._private: list[memoryview] = []  # copies of results: the candidate's places, then the baseline's
        self._stage: list[memoryview] = []  # places that drawn inputs are written to
        self._rows: FreshRows | None = None
        self._remembered: tuple[str, list[torch.Tensor]] | None = None

    def perform(self, request: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        """An answer, and descriptors that go with it. What does not fit beside the sets that are kept is tried alone."""
        try:
            return self._perform(request, fds)
        except Exception as error:
            if not device_context.is_no_memory(error):
                raise
        # With the exception went what its frames held.
        self._tight = True
        if self.reference is not None:
            self.reference.keep_one_set()
        device_context.give_back_all()
        time.sleep(_DYING_S)
        try:
            return self._perform(request, fds)
        except Exception as error:
            if not device_context.is_no_memory(error):
                raise
            raise TooLarge(devices.referee().too_large(self.reference, error)) from None

    def _perform(self, request: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
        if request["do"] in names.DEVICE_REQUESTS:
            if self.desk is None:
                raise names.Unknown(f"{request['do']!r} is for a problem that was opened on a device")
            return self.desk.perform(request, fds)
        answer = self._of_the_problem(request, fds)
        # Nobody waits for these to the microsecond.
        if self.desk is not None and self.desk.is_crowded:
            device_context.give_back_unused()
        return answer, []

    def _of_the_problem(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        match request["do"]:
            case "look":
                seen = devices.referee().look(self.problem, request["contract"].get("shapes", []))
                self._needed = seen["needed_bytes"]
                return seen
            case "open":
                return self._open(request)
            case "set":
                return self._set(request)
            case "compare":
                return self._compare(request)
            case "compare_row":
                return self._compare_row(request)
            case "attach":
                self._attach(request, fds, self._opened())
            case "draw":
                self._draw(request)
            case word:
                raise names.Unknown(f"{word!r} is nothing that a referee with a problem does")
        return {"done": True}

    def _set(self, request: dict[str, Any]) -> dict[str, Any]:
        reference = self._opened()
        distribution = names.known(request["distribution"], names.DISTRIBUTIONS, "distribution")
        with self.store.locked():
            made = reference.ensure(request["variant"], distribution, request["number"])
            if made.fresh:
                self._save()
        store = reference.store_of(made)
        file = store.path(f"{made.name}.in") if isinstance(store, Store) else ""
        held = reference.held_bytes(made)
        facts = {"precision": reference.precision(), "unmoved": reference.unmoved or bool(reference.faint)}
        return {"id": made.name, "file": file, "held": held, **facts}

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        """With the contract that kforge has checked and merged from the problem's own words and the user's flags."""
        contract = request["contract"]
        key_parts = [_FORM, self.problem.fingerprint(), contract, torch.__version__, request["reduced"]]
        key_parts += devices.referee().key_parts()
        device_context.allow_precision(contract.get("mul") or "fp32")
        key = hashlib.sha256(json.dumps(key_parts, sort_keys=True).encode()).hexdigest()[:24]
        # Fresh seeds live and end with this session; kept ones are never mixed with them.
        folder = request["session_store"] if request["fresh"] else os.path.join(request["store"], key)
        self._key = key
        self.store = Store(folder)
        with self.store.locked():
            kept = None if request["fresh"] else self.store.read_json("meta.json")
            secret = bytes.fromhex(kept["secret"] if kept else request["secret"])
            session = Store(request["session_store"])
            device_store = None
            if device_context.own_memory():
                self._tight = self._tight or self._needed > devices.referee().free_bytes()
                device_store = devices.referee().device_store(self._tight)
            reference = Reference(
                self.problem, contract, secret, self.store, request["reduced"], session, device_store, self._tight
            )
            self.reference = reference
            if kept:
                reference.restore(kept)
                self._report = kept["report"]
            else:
                reference.prepare()
                self._report = intake.examine(reference)
                self._save()
        device_context.give_back_unused()
        self.desk = devices.referee().desk(reference)
        return self._describe()

    def _opened(self) -> Reference:
        if self.reference is None:
            raise ProblemError("no problem is opened")
        return self.reference

    def _save(self) -> None:
        self.store.write_json("meta.json", {**self._opened().keep(), "report": self._report})

    def _describe(self) -> dict[str, Any]:
        reference = self._opened()
        return {
            "contract": reference.contract,
            "key": self._key,
            "folder": self.store.folder,
            "report": {**self._report, "notes": [*self._report["notes"], *_of_this_session(reference)]},
            "variants": [variant.json() for variant in reference.variants],
            "distributions": reference.distributions,
            "ways": reference.ways,
            "input_bytes": reference.input_bytes,
            "output_bytes": reference.output_bytes,
            "writes": reference.writes,
            "held": reference.held_bytes(None),
            "varies": reference.varies,
            "search_path": [self.problem.folder],
            "precision": reference.precision(),
        }

    def _attach(self, request: dict[str, Any], fds: list[int], reference: Reference) -> None:
        places, size, stride = request["places"], reference.output_bytes, request["input_stride"]
        private, stage = (
            memoryview(mmap.mmap(fd, length))
            for fd, length in zip(fds, (2 * places * size, places * stride), strict=True)
        )
        for fd in fds:
            os.close(fd)
        self._private = [private[place * size : (place + 1) * size] for place in range(2 * places)]
        self._stage = [stage[place * stride : (place + 1) * stride] for place in range(places)]

    def _fresh(self) -> FreshRows:
        if self._rows is None:
            self._rows = FreshRows(self._opened())
        return self._rows

    def _draw(self, request: dict[str, Any]) -> None:
        """Inputs that nobody has seen, where the next row finds them."""
        if self.desk is not None:
            self.desk.forget_fresh()
        distribution = names.known(request["distribution"], names.DISTRIBUTIONS, "distribution")
        drawn = self._fresh().draw(distribution, request["truths"])
        fields = self._opened().variants[0].input_fields
        if self.desk is not None:
            self.desk.lay_out(fields, drawn)
            return
        for place, one in zip(self._stage, drawn, strict=False):
            layout.write(fields, place, one.tensors)

    def _compare_row(self, request: dict[str, Any]) -> dict[str, Any]:
        calls = request["calls"]
        candidate = [self._taken(0, 0, place) for place in range(calls)]
        baseline = [self._taken(1, 0, place) for place in range(calls)] if request["with_baseline"] else None
        return self._fresh().compare(candidate, baseline)

    def _taken(self, side: int, variant: int, place: int) -> list[torch.Tensor]:
        """The private copy of one call's results."""
        if self.desk is not None:
            memory: Any = self.desk.taken(side, place)
        elif self._private:
            memory = self._private[side * len(self._stage) + place]
        else:
            raise ProblemError("no output region is attached")
        return [field.view(memory) for field in self._opened().variants[variant].output_fields]

    def _compare(self, request: dict[str, Any]) -> dict[str, Any]:
        """The output in the private copy that kforge made; `remember` keeps it, `again` holds a second run against it."""
        reference = self._opened()
        made = reference.present(request["id"])
        variant = reference.variants[made.variant]
        tensors = self._taken(request["side"], made.variant, 0)
        truths, sources = reference.truth_of(made)
        worst = 0.0
        for index, (got, true) in enumerate(zip(tensors, truths, strict=True)):
            band = made.bands[index]
            name = variant.output_name(index)
            found = compare(got, true, band, sources.get(index), name, reference.contract["mul"])
            if found.kind:
                where = {"own": "the problem's own inputs", "slice": "inputs of which one slice was changed"}.get(
                    made.distribution, f"input distribution {made.distribution!r}"
                )
                text = f"{found.text}; on {where}{variant.described}{_hint(reference, made.distribution)}"
                return {"kind": found.kind, "text": text, "error": min(found.error, 1e9)}
            worst = max(worst, found.error)
        if request["again"] and self._remembered and self._remembered[0] == made.name:
            answer = _repeatable(tensors, self._remembered[1], truths, made.bands, sources, worst)
            self._remembered = None  # not before: what finds no memory is asked once more
            return answer
        if request["remember"]:
            self._remembered = (made.name, [tensor.clone() for tensor in tensors])
        return {"kind": "", "text": "", "error": worst}


def _hint(reference: Reference, distribution: str) -> str:
    """For people whose inputs always have what these inputs lack."""
    if distribution not in (*REDRAWN, SCALED, PATCHED) or all(reference.plan.structured):
        return ""
    return (
        "; if the inputs always have a structure that these lack (symmetric, orthogonal, sorted), the problem should say "
        'inputs="given" in KFORGE, or the user --given-inputs'
    )


def _of_this_session(reference: Reference) -> list[str]:
    """What is not kept with the problem: the next session may have more room."""
    if reference.rounds_truths:
        return ["the device is short of memory: truths in float64 are rounded to float32 before outputs are compared"]
    return []


def _repeatable(
    tensors: list[torch.Tensor],
    remembered: list[torch.Tensor],
    truths: list[torch.Tensor],
    bands: list[Band | None],
    sources: dict[int, IndexSource | Doubt],
    worst: float,
) -> dict[str, Any]:
    """Two runs on the same input may differ by a quarter of the tolerance, and in what rounding decides."""
    if all(_same_bits(now, before) for now, before in zip(tensors, remembered, strict=True)):
        return {"kind": "", "text": "", "error": worst, "repeated": True}
    for index, (now, before, true, band) in enumerate(zip(tensors, remembered, truths, bands, strict=True)):
        if band is None or not now.numel():
            continue
        source = sources.get(index)
        if isinstance(source, Doubt) and source.places.numel():
            now, before = source.without(now), source.without(before)
        rms, largest, too_much = rms_of(true), 0.0, False
        for one, other, exact in pieces(now, before, true):
            difference = (one.double() - other.double()).abs()
            largest = max(largest, float(difference.max()))
            too_much = too_much or bool((difference > band.allowed(exact.double(), rms) / 4).any())
        if too_much:
            text = f"two runs on the same input differ by up to {largest:.3g}, more than a quarter of the tolerance"
            return {"kind": "nondeterministic", "text": text, "error": worst}
    return {"kind": "", "text": "", "error": worst}


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def _jsonable(contract: dict[str, Any]) -> dict[str, Any]:
    try:
        made: dict[str, Any] = json.loads(json.dumps(contract))
        return made
    except (TypeError, ValueError) as error:
        raise ProblemError(f"KFORGE holds a value that is not plain data: {error}") from None
