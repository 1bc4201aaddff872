"""The process that runs hostile code. It is asked for outputs, and nothing it says is believed.

A negative answer (it raised, it has no class) is taken at its word, since it can only hurt the candidate itself.
Baselines run here too, in a sandbox of the same kind, so that both arms carry the same overhead.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import json
import mmap
import os
import socket
import sys
import threading
import time
import types
from typing import Any

import torch

from . import audit, baselines, home, layout, modules, wire
from .align import align
from .failure import Failure, classify
from .outputs import Expected, deliver, recheck
from .places import Plan

_clock = time.perf_counter_ns  # before any candidate could replace it
_LAUNCHES = "launches.json"


def main(spec: dict[str, Any], fds: list[int]) -> None:
    """Serves requests until kforge closes the channel."""
    channel = socket.socket(fileno=fds[0])
    worker = _Cell(spec, fds)
    channel.send(wire.reply(0, "ready"))  # before any candidate code: without it the failure is ours
    while (request := wire.read_request(channel)) is not None:
        try:
            kind, inside, a, b = worker.perform(request)
            detail = 0
        except BaseException as error:  # SystemExit and KeyboardInterrupt from a candidate are failures like others
            kind, inside, a, b = "", 0, 0, 0
            failure = classify(error, worker.stage, worker.filename)
            kind, detail = failure.kind, worker.write_detail(failure.text)
        channel.send(wire.reply(request.nonce, kind, inside, a, b, detail))


Memory = memoryview | torch.Tensor


class _HostSlots:
    """Slots in shared memory, and the processor's clock."""

    def __init__(self, input_file: int, input_bytes: int, output_file: int, output_bytes: int) -> None:
        mapped = mmap.mmap(input_file, input_bytes)
        self.inputs: list[Memory] = [memoryview(mapped)]
        self.outputs: list[Memory] = [memoryview(mmap.mmap(output_file, output_bytes))]
        base = torch.frombuffer(mapped, dtype=torch.uint8).data_ptr()
        self.input_range = (base, base + input_bytes)

    def time(self, model: Any, arguments: list[Any]) -> tuple[Any, int, int]:
        start = _clock()
        result = model(*arguments)
        return result, _clock() - start, 0

    def fetch(self) -> None:
        """Inputs are here."""

    def handed_over(self) -> None:
        """So are outputs."""

    def wait(self) -> None:
        """What was called is done."""


def _slots(spec: dict[str, Any], input_file: int, output_file: int) -> Any:
    if not home.on_gpu():
        return _HostSlots(input_file, spec["input_bytes"], output_file, spec["output_bytes"])
    from . import cell_gpu

    plan = Plan(spec["input_bytes"], spec["output_bytes"], spec["places"])
    return cell_gpu.Gpu(plan, (input_file, output_file), spec["staged"])


class _Variant:
    """One construction: sizes, initial arguments and weights."""

    def __init__(self, spec: dict[str, Any], inputs: list[Memory], outputs: list[Memory], weights_fd: int) -> None:
        self.init = layout.unpack(spec["init"])
        self.input_skeleton = layout.unpack(spec["input_skeleton"])
        self.input_fields = [layout.Field(**field) for field in spec["inputs"]]
        self.training = spec["training"]
        self._weights = spec["weights"]
        self._weights_fd = weights_fd
        self._inputs = inputs
        skeleton = layout.unpack(spec["output_skeleton"])
        fields = [layout.Field(**field) for field in spec["outputs"]]
        self.expected = [
            Expected(skeleton, fields, [field.view(memory) for field in fields], spec["aliases_allowed"])
            for memory in outputs
        ]

    def weights(self) -> list[tuple[str, torch.Tensor]]:
        size = os.fstat(self._weights_fd).st_size
        mapped = mmap.mmap(self._weights_fd, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        return [(w["name"], layout.Field(**w["field"]).view(memoryview(mapped))) for w in self._weights]

    def arguments(self, place: int = 0) -> list[Any]:
        """Fresh tensor objects over the input slot: nothing can be remembered on them."""
        tensors = [field.view(self._inputs[place]) for field in self.input_fields]
        joined: list[Any] = layout.join(self.input_skeleton, tensors)
        return joined


class _Cell:
    def __init__(self, spec: dict[str, Any], fds: list[int]) -> None:
        self._spec = spec
        _channel, in_fd, out_fd, detail_fd, *weight_fds = fds
        self._detail = mmap.mmap(detail_fd, wire.DETAIL_BYTES)
        home.settle(spec["place"])
        home.allow_precision(spec["mul"])
        self._slots = _slots(spec, in_fd, out_fd)
        self._variants = [
            _Variant(v, self._slots.inputs, self._slots.outputs, fd)
            for v, fd in zip(spec["variants"], weight_fds, strict=True)
        ]
        self.filename = spec["filename"]
        self.stage = "import"
        self._module: types.ModuleType | None = None
        self._current: Any = self._variants[0] if self._variants else None  # a builder calls nothing
        self._model: Any = None
        self._kept: Any = None
        torch.set_num_threads(spec["threads"])
        self._cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._audit = audit.install(
            skip_kernels=spec["skip_kernels"], interpret=spec["triton"], arch=spec["arch"], source=spec["source"]
        )

    def perform(self, request: wire.Request) -> tuple[str, int, int, int]:
        if request.op == wire.OP_IMPORT:
            self.stage = "import"
            self._module = self._import()
            return "ok", 0, 0, 0
        if request.op == wire.OP_CONSTRUCT:
            self.stage = "construct"
            return self._construct(self._variants[request.argument])
        if request.op == wire.OP_LOAD_WEIGHTS:
            self.stage = "construct"
            align(self._model, self._variants[request.argument].weights())
            return "ok", 0, 0, 0
        if request.op == wire.OP_PIN:
            if not home.on_gpu():
                place_threads(self._cores, apart=bool(request.argument))
            return "ok", 0, 0, 0
        if request.op == wire.OP_RECHECK:
            recheck(self._kept, self._current.expected[0])
            return "ok", 0, 0, 0
        if request.op == wire.OP_AHEAD_OF_TIME:
            return self._ahead_of_time()
        if request.op == wire.OP_PROFILE:
            return self._profile(request.argument)
        if request.op == wire.OP_KERNELS:
            return self._kernels(request.argument)
        self.stage = "forward"
        if request.op == wire.OP_QUEUE:
            return "ok", 0, self._queue(request.argument), 0
        if request.op == wire.OP_COLLECT:
            return "ok", self._slots.collect(request.argument), 0, 0
        self._slots.fetch()
        if request.op == wire.OP_AUDIT:
            return self._audited_call()
        if request.op == wire.OP_REPEAT:
            return "ok", self._repeat(request.argument), 0, 0
        if request.op == wire.OP_GRAPH:
            return "ok", self._time_as_graph(request.argument), 0, 0
        inside, launching = self._call()
        return "ok", inside, launching, 0

    def _import(self) -> types.ModuleType:
        source, filename = self._spec["source"], self._spec["filename"]
        if self._spec["model"] == "cute" and self._spec["role"] != "baseline":
            from . import cute_aot

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
        return modules.find_class(self._module, baseline=self._spec["role"] == "baseline")

    def _construct(self, variant: _Variant) -> tuple[str, int, int, int]:
        model = self._new_model(variant)
        if not variant.training:  # else as constructed: a part that the constructor froze stays frozen
            model.eval()
        unplaced = align(model, variant.weights())
        self._check_signature(model, variant)
        prepare_ns = 0
        if self._spec["role"] == "candidate" and self._spec["prepare"] and callable(getattr(model, "prepare", None)):
            self.stage = "prepare"
            start = _clock()
            with torch.inference_mode():
                model.prepare()
            prepare_ns = _clock() - start
        if self._spec["role"] == "baseline":
            model = baselines.compiled(model, self._spec["baseline"])
        self._model, self._current = model, variant
        gc.collect()
        gc.disable()
        return "ok", prepare_ns, len(unplaced), 0

    def _new_model(self, variant: _Variant) -> Any:
        """On a GPU weights are made there: filling them on the CPU would take longer than all else."""
        made = self._class()
        if home.on_gpu():
            try:
                with home.new_tensors_here():
                    return home.brought_here(made(*variant.init))
            except Exception:
                pass  # a constructor that insists on the CPU is let; what else is wrong comes up again
        return home.brought_here(made(*variant.init))

    def _check_signature(self, model: Any, variant: _Variant) -> None:
        try:
            signature = inspect.signature(model.forward)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(*variant.arguments())
        except TypeError as error:
            raise Failure("signature", f"forward{signature} does not take the problem's inputs: {error}") from None

    def _queue(self, count: int) -> int:
        self._kept = None
        variant = self._current

        def hand_over(result: Any, place: int) -> None:
            deliver(result, variant.expected[place], self._slots.input_range)

        # Outside of inference mode, as for a single call: torch.compile would take them for other inputs and compile again.
        arguments = [variant.arguments(place) for place in range(count)]
        with torch.inference_mode():
            launching: int = self._slots.queue(self._model, arguments, hand_over)
        return launching

    def _call(self) -> tuple[int, int]:
        self._kept = None  # freed now, outside of every clock
        arguments = self._current.arguments()
        with torch.inference_mode():
            result, nanoseconds, launching = self._slots.time(self._model, arguments)
        self._hand_over(result)
        self._kept = result
        return int(nanoseconds), int(launching)

    def _time_as_graph(self, replays: int) -> int:
        self._kept = None
        arguments = self._current.arguments()
        with torch.inference_mode():
            nanoseconds: int = self._slots.time_as_graph(lambda: self._model(*arguments), replays)
        return nanoseconds

    def _hand_over(self, result: Any) -> None:
        deliver(result, self._current.expected[0], self._slots.input_range)
        self._slots.handed_over()

    def _repeat(self, calls: int) -> int:
        """Calls whose outputs nobody wants, for a profiler that looks on: handing them over would be in its way."""
        self._kept = None
        model = self._model
        with torch.inference_mode():
            start = _clock()
            for _ in range(calls):
                model(*self._current.arguments())
            self._slots.wait()
            return _clock() - start

    def _audited_call(self) -> tuple[str, int, int, int]:
        """One call under a dispatch mode that sees framework operators, also those called from C++."""
        arguments = self._current.arguments()
        with torch.inference_mode(), audit.OperatorClock(self._slots.wait) as operators:
            start = _clock()
            result = self._model(*arguments)
            self._slots.wait()
            total = _clock() - start
        self._hand_over(result)
        if audit.failed_launches():
            raise Failure("fake_kernel", "a kernel's launcher failed, and forward went on without it")
        self.write_detail("\n".join(operators.names()))
        return "ok", total, self._audit.launches(), operators.nanoseconds

    def _profile(self, calls: int) -> tuple[str, int, int, int]:
        """Of the reference: where its time goes, operator by operator, and what it computes and moves."""
        from . import operators

        return "ok", 0, self.write_detail(operators.report(self._model, self._current.arguments, calls)), 0

    def _kernels(self, calls: int) -> tuple[str, int, int, int]:
        """Of whatever is constructed: the kernels on the GPU that its calls launch."""
        from . import operators

        return "ok", 0, self.write_detail(operators.kernels(self._model, self._current.arguments, calls)), 0

    def _ahead_of_time(self) -> tuple[str, int, int, int]:
        if self._spec["role"] == "baseline":
            baselines.compile_only(self._model, self._current.arguments(), self._spec["baseline"])
            return "ok", 0, 0, 0
        return self._compile_ahead() if self._spec["aot"] else self._keep_launches()

    def _keep_launches(self) -> tuple[str, int, int, int]:
        """In the interpreting cell: what was launched, for the compiling one in the same scratch."""
        launches = self._audit.triton.recorded_launches()
        with open(_LAUNCHES, "w", encoding="utf-8") as file:
            json.dump(launches, file)
        return "ok", 0, len(launches), 0

    def _compile_ahead(self) -> tuple[str, int, int, int]:
        """In the compiling cell: every kernel, with the signatures that were seen or that the candidate names itself."""
        if self._module is None:
            raise Failure("import", "nothing was imported")
        arch = self._spec["arch"]
        if self._spec["model"] == "cute":
            from . import cute_aot

            reports = cute_aot.compile_module(self._module, arch)
        else:
            from . import triton_aot

            with open(_LAUNCHES, encoding="utf-8") as file:
                launches = json.load(file)
            reports = triton_aot.compile_launches(self._module, launches, arch)
        for report in reports:
            if not report["ok"] and report["kind"] in ("compile", "resources"):
                raise Failure("compiler", f"kernel {report['kernel']} for {arch}: {report['error']}")
        unchecked = [f"{r['kernel']}: {r['error']}" for r in reports if not r["ok"]]
        self.write_detail("; ".join(unchecked))
        return "ok", 0, len(reports) - len(unchecked), len(unchecked)

    def write_detail(self, text: str) -> int:
        data = text.encode("utf-8", "replace")[: wire.DETAIL_BYTES]
        self._detail[: len(data)] = data
        if len(data) < wire.DETAIL_BYTES:
            self._detail[len(data)] = 0
        return len(data)


def place_threads(cores: list[int], apart: bool) -> None:
    """Holds the calling thread on one core and the pools' threads on the others, or sets them all free again.

    A spinning barrier whose two threads were woken on the same core takes a scheduler tick instead of microseconds.
    """
    if len(cores) < 2:
        return
    caller = threading.get_native_id()
    others = sorted(int(name) for name in os.listdir("/proc/self/task") if int(name) != caller)
    places = {caller: {cores[0]}} | {thread: {cores[1 + i % (len(cores) - 1)]} for i, thread in enumerate(others)}
    for thread, place in places.items():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, place if apart else set(cores))
