"""The trusted process that loads the problem: inputs, weights, truth, comparison. It never sees a candidate.

kforge asks over a trusted channel: `open` a problem, make a `set` of inputs, `compare` an output. Everything made is
kept in the problem's store, keyed by its content, so that the next evaluation maps it from disk.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import socket
import sys
import traceback
from typing import Any

import torch

from . import home, intake, referee_gpu, wire
from .compare import compare
from .errors import rms_of
from .problem import Problem, ProblemError
from .sets import Reference
from .store import Store
from .truth import Band

_FORM = 5  # of what is kept in a store, and of how its bands were found


def main(message: dict[str, Any], fds: list[int]) -> None:
    channel = socket.socket(fileno=fds[0])
    os.environ.update(message["env"])
    os.chdir(message["cwd"])
    sys.path[:0] = [path for path in message["python_path"] if path]
    torch.set_num_threads(message["threads"])
    home.settle(message["place"])
    referee: _Referee | None = None
    while (received := wire.receive_json(channel)) is not None:
        request, attached = received
        passed: list[int] = []
        try:
            if request["do"] == "load":
                referee = _Referee(Problem(request["path"]))
                answer: dict[str, Any] = {"contract": _jsonable(referee.problem.contract)}
            elif referee is None:
                raise ProblemError("no problem is loaded")
            elif referee.desk is not None and request["do"] in referee_gpu.WORDS:
                answer, passed = referee.desk.perform(request, attached)
            else:
                answer = referee.perform(request, attached)
        except ProblemError as error:
            answer = {"problem_error": str(error)}
        except Exception as error:
            traceback.print_exc()
            answer = {"internal_error": f"{type(error).__name__}: {error}"}
        wire.send_json(channel, answer, passed)
        for fd in passed:
            os.close(fd)


class _Referee:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.desk: referee_gpu.Desk | None = None  # on a GPU
        self._out: mmap.mmap | None = None
        self._remembered: tuple[str, list[torch.Tensor]] | None = None

    def perform(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        if request["do"] == "open":
            return self._open(request)
        if request["do"] == "attach":
            self._out = mmap.mmap(fds[0], self.reference.output_bytes, prot=mmap.PROT_READ | mmap.PROT_WRITE)
            os.close(fds[0])
            return {"attached": True}
        if request["do"] == "set":
            with self.store.locked():
                made = self.reference.ensure(request["variant"], request["distribution"], request["number"])
                if made.fresh:
                    self._save()
            store = self.reference.store_of(made)
            file = store.path(f"{made.name}.in") if isinstance(store, Store) else ""
            return {"id": made.name, "file": file, "proven": self.reference.proven()}
        if request["do"] == "compare":
            return self._compare(request)
        raise ProblemError(f"unknown request {request['do']}")

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        """With the contract that kforge has checked and merged from the problem's own words and the user's flags."""
        contract = request["contract"]
        key_parts = [_FORM, self.problem.fingerprint(), contract, torch.__version__, request["reduced"]]
        if home.on_gpu():
            key_parts.append(torch.cuda.get_device_name(0))
        home.allow_precision(contract.get("mul") or "fp32")
        key = hashlib.sha256(json.dumps(key_parts, sort_keys=True).encode()).hexdigest()[:24]
        # Fresh seeds live and end with this session; kept ones are never mixed with them.
        folder = request["session_store"] if request["fresh"] else os.path.join(request["store"], key)
        self._key = key
        self.store = Store(folder)
        with self.store.locked():
            kept = None if request["fresh"] else self.store.read_json("meta.json")
            secret = bytes.fromhex(kept["secret"] if kept else request["secret"])
            session = Store(request["session_store"])
            shelf = referee_gpu.shelf() if home.on_gpu() else None
            self.reference = Reference(self.problem, contract, secret, self.store, request["reduced"], session, shelf)
            if kept:
                self.reference.restore(kept)
                self._report = kept["report"]
            else:
                self.reference.prepare()
                self._report = intake.examine(self.reference)
                self._save()
        if home.on_gpu():
            self.desk = referee_gpu.Desk(self.reference)
        return self._describe()

    def _save(self) -> None:
        self.store.write_json("meta.json", {**self.reference.keep(), "report": self._report})

    def _describe(self) -> dict[str, Any]:
        reference = self.reference
        return {
            "contract": reference.contract,
            "key": self._key,
            "folder": self.store.folder,
            "report": self._report,
            "variants": [variant.json() for variant in reference.variants],
            "distributions": reference.distributions,
            "input_bytes": reference.input_bytes,
            "output_bytes": reference.output_bytes,
            "mutates_inputs": reference.mutates_inputs,
            "search_path": [self.problem.folder],
            "proven": reference.proven(),
        }

    def _compare(self, request: dict[str, Any]) -> dict[str, Any]:
        """The output in the private copy that kforge made; `remember` keeps it, `again` holds a second run against it."""
        made = self.reference.present(request["id"])
        variant = self.reference.variants[made.variant]
        taken = self._taken(request)
        tensors = [field.view(taken) for field in variant.output_fields]
        truths, sources = self.reference.truth_of(made)
        worst = 0.0
        for index, (got, true) in enumerate(zip(tensors, truths, strict=True)):
            name = "output" if len(tensors) == 1 else f"output {index}"
            band = made.bands[index]
            found = compare(got, true, band, sources.get(index), name, self.reference.contract["mul"])
            if found.kind:
                where = {"own": "the problem's own inputs", "slice": "inputs of which one slice was changed"}.get(
                    made.distribution, f"inputs drawn as {made.distribution!r}"
                )
                text = f"{found.text}; on {where}{variant.described}"
                return {"kind": found.kind, "text": text, "error": min(found.error, 1e9)}
            worst = max(worst, found.error)
        if request["again"] and self._remembered and self._remembered[0] == made.name:
            return self._repeatable(tensors, truths, made.bands, worst)
        if request["remember"]:
            self._remembered = (made.name, [tensor.clone() for tensor in tensors])
        return {"kind": "", "text": "", "error": worst}

    def _taken(self, request: dict[str, Any]) -> memoryview | torch.Tensor:
        if self.desk is not None:
            taken: torch.Tensor = self.desk.taken(request["lane"], request["place"])
            return taken
        if self._out is None:
            raise ProblemError("no output region is attached")
        return memoryview(self._out)

    def _repeatable(
        self, tensors: list[torch.Tensor], truths: list[torch.Tensor], bands: list[Band | None], worst: float
    ) -> dict[str, Any]:
        """Two runs on the same input may differ by a quarter of the tolerance."""
        assert self._remembered is not None
        if all(_same_bits(now, before) for now, before in zip(tensors, self._remembered[1], strict=True)):
            return {"kind": "", "text": "", "error": worst, "repeated": True}
        for now, before, true, band in zip(tensors, self._remembered[1], truths, bands, strict=True):
            if band is None:
                continue
            allowed = band.tau * (true.abs() + rms_of(true) * band.scale) / 4
            difference = (now.double() - before.double()).abs()
            if bool((difference > allowed).any()):
                text = f"two runs on the same input differ by up to {float(difference.max()):.3g}, more than a quarter of the tolerance"
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
