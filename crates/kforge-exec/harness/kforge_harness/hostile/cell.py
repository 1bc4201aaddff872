"""The process that runs hostile code. It is asked for outputs, and nothing it says is believed.

A negative answer (it raised, it has no class) is taken at its word, since it can only hurt the candidate itself.
Baselines run here too, in a sandbox of the same kind, so that both arms carry the same overhead.
"""

from __future__ import annotations

import gc
import inspect
import json
import mmap
import os
import socket
import struct
import sys
import time
import types
from typing import Any

import torch

from ..shared import device_context, layout, names, wire
from ..shared.align import align
from ..shared.modes import of_calls
from ..shared.slot_layout import Plan
from . import audit, baselines, devices, modules
from .failure import Failure, classify
from .outputs import Expected, as_expected, checked, claims
from .written import Writes

_clock = time.perf_counter_ns  # before any candidate could replace it
_LAUNCHES = "launches.json"
_WARM_ROWS = 6  # of results that may be there at once: held, before, now, and what lies between


def main(spec: dict[str, Any], fds: list[int]) -> None:
    """Serves requests until kforge closes the channel."""
    channel = socket.socket(fileno=fds[0])
    worker = _Cell(spec, fds)
    channel.send(wire.hello())  # before any candidate code: without it the failure is ours
    while (request := wire.read_request(channel)) is not None:
        handed_over: list[int] = []
        try:
            answer = wire.answered(request, worker.perform(request))
            handed_over = worker.handed_over()
        except BaseException as error:  # SystemExit and KeyboardInterrupt from a candidate are failures like others
            failure = classify(error, worker.stage, worker.filename)
            worker.write_detail(failure.text)
            answer = wire.failed(request, failure.kind)
        if handed_over:
            socket.send_fds(channel, [answer], handed_over)
        else:
            channel.send(answer)


Memory = memoryview | torch.Tensor


class _Variant:
    """One construction: sizes, initial arguments and weights."""

    def __init__(self, spec: dict[str, Any], inputs: list[Memory], weights_fd: int) -> None:
        names.held(spec, names.VARIANT, "a variant")
        self.init = layout.unpack(spec["init"])
        self.input_skeleton = layout.unpack(spec["input_skeleton"])
        self.input_fields = [layout.Field(**field) for field in spec["inputs"]]
        self.training = spec["training"]
        self.autograd = spec["autograd"]
        self.spec = spec
        self._weights = spec["weights"]
        self._weights_fd = weights_fd
        self._inputs = inputs
        fields = [layout.Field(**field) for field in spec["outputs"]]
        self.expected = Expected(
            layout.unpack(spec["output_skeleton"]), fields, spec["aliases_allowed"], spec["shared_outputs"]
        )

    def weights(self) -> list[tuple[str, torch.Tensor]]:
        size = os.fstat(self._weights_fd).st_size
        mapped = mmap.mmap(self._weights_fd, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        return [(w["name"], layout.Field(**w["field"]).view(memoryview(mapped))) for w in self._weights]

    def arguments(self, place: int = 0) -> list[Any]:
        """Fresh tensor objects over the input slot: nothing can be remembered on them."""
        joined: list[Any] = layout.join(self.input_skeleton, self.tensors(place))
        return joined

    def tensors(self, place: int = 0) -> list[torch.Tensor]:
        return [field.view(self._inputs[place]) for field in self.input_fields]


class _Copies:
    """Where nobody can read this process's memory: results are copied into shared memory, as a part of the call."""

    def __init__(self, file: int, spec: dict[str, Any]) -> None:
        self._stride = spec["output_bytes"]
        self._memory = memoryview(mmap.mmap(file, spec["places"] * self._stride))

    def take(self, rows: list[list[torch.Tensor]], fields: list[layout.Field]) -> bytes:
        told = b""
        for place, row in enumerate(rows):
            part = self._memory[place * self._stride : (place + 1) * self._stride]
            for field, tensor in zip(fields, row, strict=True):
                if field.nbytes:
                    field.view(part).copy_(tensor)
                told += struct.pack(f"<QQ{tensor.dim()}q", 0, place * self._stride + field.offset, *field.stride)
        return told


class _Cell:
    def __init__(self, spec: dict[str, Any], fds: list[int]) -> None:
        self._spec = spec
        _channel, in_fd, out_fd, detail_fd, *weight_fds = fds
        self._detail = mmap.mmap(detail_fd, wire.DETAIL_BYTES)
        device_context.settle(spec["place"])
        device_context.allow_precision(spec["mul"])
        plan = Plan(spec["input_bytes"], spec["output_bytes"], spec["places"])
        self._slots: Any = devices.cell().slots(plan, in_fd, spec)
        self._copies = _Copies(out_fd, spec) if spec["copies"] else None
        self._variants = [
            _Variant(v, self._slots.inputs, fd) for v, fd in zip(spec["variants"], weight_fds, strict=True)
        ]
        self.filename = spec["filename"]
        self.stage = "import"
        self._module: types.ModuleType | None = None
        self._current: Any = self._variants[0] if self._variants else None  # a builder calls nothing
        self._model: Any = None
        self._writes: Any = None  # what its calls must write besides what they return
        self._arguments: list[list[Any]] = []
        self._results: list[Any] = []  # of the last row
        self._before: list[Any] = []  # of the row before it, where there is room
        self._held: list[Any] = []
        self._clone = False
        self._is_null = False
        self._fresh_files: list[int] = []
        torch.set_num_threads(spec["threads"])
        self._audit = audit.install(
            skip_kernels=spec["skip_kernels"], interpret=spec["triton"], arch=spec["arch"], source=spec["source"],
            pose=spec["aot"] and spec["model"] == "triton",
        )  # fmt: skip

    def perform(self, request: wire.Request) -> wire.Answer:
        match request.op:
            case wire.Op.IMPORT:
                self.stage = "import"
                self._module = self._import()
            case wire.Op.CONSTRUCT:
                self.stage = "construct"
                return self._construct(self._variant(request))
            case wire.Op.LOAD_WEIGHTS:
                self.stage = "construct"
                weights = self._variant(request).weights()
                align(self._model, weights)
                self._writes.settle(weights)
            case wire.Op.PIN:
                self._slots.place_threads(apart=request.on)
            case wire.Op.READY:
                self._ready(request.calls, request.is_null)
            case wire.Op.HOLD_RESULTS:
                self._held.append(self._results)
            case wire.Op.COPY_RESULTS:
                self._clone = request.on
            case wire.Op.KEEP_LAUNCHES:
                return self._keep_launches()
            case wire.Op.COMPILE_KERNELS:
                return self._compile_ahead()
            case wire.Op.COMPILE_ONLY:
                baselines.compile_only(self._model, self._current.arguments(), self._spec["baseline"])
            case wire.Op.PROFILE:
                self._profile(request.calls)
            case wire.Op.KERNELS:
                self._kernels(request.calls)
            case _:
                self.stage = "forward"
                return self._called_for(request)
        return wire.Done()

    def _called_for(self, request: wire.Request) -> wire.Answer:
        match request.op:
            case wire.Op.ROW:
                inside, launching = self._run(self._slots.run)
                self._claim()
                return wire.Ran(inside, launching)
            case wire.Op.QUEUE:
                return wire.Queued(self._run(self._slots.queue))
            case wire.Op.COLLECT:
                inside = self._slots.collect()
                self._claim()
                return wire.Collected(inside)
            case wire.Op.AUDIT:
                self._slots.fetch()
                return self._audited_call()
            case wire.Op.REPEAT:
                self._slots.fetch()
                self._repeat(request.calls)
                return wire.Done()
            case wire.Op.GRAPH:
                self._slots.fetch()
                return wire.Replayed(self._time_as_graph(request.calls))
            case op:
                raise names.Unknown(f"a cell does no {op.name}")

    def _variant(self, request: wire.Request) -> _Variant:
        if request.variant >= len(self._variants):
            raise names.Unknown(f"there are {len(self._variants)} variants, and no number {request.variant}")
        return self._variants[request.variant]

    def _import(self) -> types.ModuleType:
        source, filename = self._spec["source"], self._spec["filename"]
        if self._spec["model"] == "cute" and self._spec["role"] != names.BASELINE:
            from .cute import aot as cute_aot

            cute_aot.prepare(self._spec["arch"], os.path.join(os.getcwd(), "cache"))
        if self._spec["search_path"]:
            sys.path[:0] = self._spec["search_path"]
            module = types.ModuleType("kforge_problem")
            module.__file__ = filename
            sys.modules[module.__name__] = module
            exec(compile(source, filename, "exec"), module.__dict__)
            return module
        return modules.load_candidate(source, filename)

    def _class(self) -> Any:
        if self._module is None:
            raise Failure("import", "nothing was imported")
        return modules.find_class(self._module, baseline=self._spec["role"] == names.BASELINE)

    def _construct(self, variant: _Variant) -> wire.Constructed:
        model = self._new_model(variant)
        if not variant.training:  # else as constructed: a part that the constructor froze stays frozen
            model.eval()
        weights = variant.weights()
        unplaced = align(model, weights)
        writes = Writes(model, variant.spec, weights)
        self._check_signature(model, variant)
        prepare_ns = 0
        if (
            self._spec["role"] == names.CANDIDATE
            and self._spec["prepare"]
            and callable(getattr(model, "prepare", None))
        ):
            self.stage = "prepare"
            start = _clock()
            with of_calls(variant.autograd):
                model.prepare()
            prepare_ns = _clock() - start
        writes.settle(weights)
        if self._spec["role"] == names.BASELINE:
            dtypes = [f.torch_dtype for f in variant.expected.output_fields]
            way, mul = self._spec["baseline"], self._spec["mul"]
            model = baselines.in_its_way(model, way, variant.arguments(), mul, dtypes)
        self._model, self._current, self._writes = model, variant, writes
        gc.collect()
        gc.disable()
        return wire.Constructed(prepare_ns, len(unplaced))

    def _new_model(self, variant: _Variant) -> Any:
        """Where the device has memory of its own weights are made there: filling them on the CPU would take longer than all
        else."""
        made = self._class()
        if device_context.own_memory():
            try:
                with device_context.new_tensors_here():
                    return device_context.brought_here(made(*variant.init))
            except Exception:
                pass  # a constructor that insists on the CPU is let; what else is wrong comes up again
        return device_context.brought_here(made(*variant.init))

    def _check_signature(self, model: Any, variant: _Variant) -> None:
        try:
            signature = inspect.signature(model.forward)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(*variant.arguments())
        except TypeError as error:
            raise Failure("signature", f"forward{signature} does not take the problem's inputs: {error}") from None

    def _ready(self, count: int, is_null: bool) -> None:
        """What belongs to no time: old results go, and arguments for the next row are made."""
        self._is_null = is_null
        self._slots.warm_heap(_WARM_ROWS * count * sum(f.nbytes for f in self._current.expected.output_fields))
        self._before = self._results if self._spec["keeps"] else []
        # Outside of inference mode: torch.compile would take other tensors for other inputs and compile again.
        self._arguments = [self._current.arguments(place) for place in range(count)]
        self._writes.restore()
        self._results = self._slots.empty(lambda: [self._nothing() for _ in range(count)]) if self._is_null else []
        self._slots.wait()

    def _nothing(self) -> Any:
        """A result that nobody computed."""
        expected = self._current.expected
        made = [
            torch.empty(f.shape, dtype=f.torch_dtype, device=device_context.device()) for f in expected.output_fields
        ]
        result, names = layout.join(expected.output_skeleton, made), self._writes.names
        return (result, list(zip(names, made[len(made) - len(names) :], strict=True))) if names else result

    def _called(self) -> Any:
        """The module; where it must write something, what it returns comes with that. Such calls are made one by one."""
        if not self._writes.names:
            return self._model
        inputs = self._current.tensors()

        def call(*arguments: Any) -> Any:
            return self._model(*arguments), self._writes.gather(inputs)

        return call

    def _run(self, run: Any) -> Any:
        prepared = iter(self._results)
        model = (lambda *_arguments: next(prepared)) if self._is_null else self._called()
        results: list[Any] = []
        with of_calls(self._current.autograd):
            told = run(model, self._arguments, results, self._clone and not self._is_null)
        self._results = results
        return told

    def _claim(self) -> None:
        """Says where the results of the last calls lie, with the pieces of memory that are handed over for it."""
        expected, reach = self._current.expected, self._slots.input_range
        rows = [self._tensors_of(result, expected, reach) for result in self._results]
        self._results = rows  # numbers have become tensors, which must stay
        if self._copies is not None:
            told = self._copies.take(rows, expected.output_fields)
        else:
            told = claims(rows, self._slots.locate)
        fresh = self._slots.take_fresh()
        self._fresh_files = [file for file, _size in fresh]
        told += b"".join(size.to_bytes(8, "little") for _file, size in fresh)
        if len(told) > wire.DETAIL_BYTES - wire.CLAIMS_AT:
            raise Failure("structure", "forward returns more tensors than can be told")
        self._detail[wire.CLAIMS_AT : wire.CLAIMS_AT + len(told)] = told

    def _tensors_of(self, result: Any, expected: Expected, reach: tuple[int, int]) -> list[torch.Tensor]:
        if not self._writes.names:
            return checked(result, expected, reach)
        returned, written = result
        found = checked(returned, expected, reach)
        fields = expected.output_fields[len(found) :]
        return found + [as_expected(tensor, f, name) for (name, tensor), f in zip(written, fields, strict=True)]

    def handed_over(self) -> list[int]:
        """Descriptors that go with the next answer."""
        files, self._fresh_files = self._fresh_files, []
        return files

    def _time_as_graph(self, replays: int) -> int:
        arguments = self._current.arguments()
        with of_calls(self._current.autograd):
            nanoseconds: int = self._slots.time_as_graph(lambda: self._model(*arguments), replays)
        return nanoseconds

    def _repeat(self, calls: int) -> None:
        """Calls whose outputs nobody wants, for a profiler that looks on: handing them over would be in its way."""
        model = self._model
        self._writes.restore()
        with of_calls(self._current.autograd):
            for _ in range(calls):
                model(*self._current.arguments())
            self._slots.wait()

    def _audited_call(self) -> wire.Audited:
        """One call under a dispatch mode that sees framework operators, also those called from C++."""
        self._ready(1, is_null=False)
        results: list[Any] = []
        with of_calls(self._current.autograd), audit.OperatorClock(self._slots.wait) as operators:
            start = _clock()
            self._slots.run(self._called(), self._arguments, results, self._clone)
            total = _clock() - start
        self._results = results
        self._claim()
        if audit.failed_launches():
            raise Failure("fake_kernel", "a kernel's launcher failed, and forward went on without it")
        self.write_detail("\n".join(operators.names()))
        return wire.Audited(total, self._audit.launches(), operators.nanoseconds)

    def _profile(self, calls: int) -> None:
        """Of the reference: where its time goes, operator by operator, and what it computes and moves."""
        from . import operators

        self.write_detail(operators.report(self._model, self._current.arguments, calls, self._current.autograd))

    def _kernels(self, calls: int) -> None:
        """Of whatever is constructed: the kernels on the GPU that its calls launch."""
        from . import operators

        self.write_detail(operators.kernels(self._model, self._current.arguments, calls))

    def _keep_launches(self) -> wire.Kept:
        """In the interpreting cell: what was launched, for the compiling one in the same scratch."""
        launches = self._audit.triton.recorded_launches()
        with open(_LAUNCHES, "w", encoding="utf-8") as file:
            json.dump(launches, file)
        return wire.Kept(len(launches))

    def _compile_ahead(self) -> wire.Compiled:
        """In the compiling cell: every kernel, with the signatures that were seen or that the candidate names itself."""
        if self._module is None:
            raise Failure("import", "nothing was imported")
        arch = self._spec["arch"]
        if self._spec["model"] == "cute":
            from .cute import aot as cute_aot

            reports = cute_aot.compile_module(self._module, arch)
        else:
            from .triton import aot as triton_aot

            with open(_LAUNCHES, encoding="utf-8") as file:
                launches = json.load(file)
            reports = triton_aot.compile_launches(self._module, launches, arch)
        for report in reports:
            if not report["ok"] and report["kind"] in ("compile", "resources"):
                raise Failure("compiler", f"kernel {report['kernel']} for {arch}: {report['error']}")
        unchecked = [f"{r['kernel']}: {r['error']}" for r in reports if not r["ok"]]
        self.write_detail("; ".join(unchecked))
        return wire.Compiled(len(reports) - len(unchecked), len(unchecked))

    def write_detail(self, text: str) -> None:
        data = text.encode("utf-8", "replace")[: wire.DETAIL_BYTES]
        self._detail[: len(data)] = data
        if len(data) < wire.DETAIL_BYTES:
            self._detail[len(data)] = 0
