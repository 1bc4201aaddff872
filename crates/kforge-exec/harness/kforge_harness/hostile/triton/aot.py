"""Ahead-of-time compilation of the kernels that the interpreted run launched, for a chip that is not here.

Runs in a process of its own with the interpreter off, on the candidate imported anew. What the interpreted run saw
(types, constants, alignment, options) arrives as plain data; every compile is done in a forked child, because LLVM
ends the process on some errors and a compile may hang. Also home of what both halves share: chips and the encoding.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import math
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from . import closures
from .closures import NotFound

_MAX_LINES = 30
_MAX_CHARS = 4000


@dataclasses.dataclass(frozen=True)
class Chip:
    """What a candidate may ask about the chip it is compiled for, and the limits a kernel must keep."""

    arch: str
    name: str
    capability: tuple[int, int]
    shared: int
    processors: int
    memory: int
    l2: int
    backend: str = "cuda"
    warp_size: int = 32

    @property
    def target_arch(self) -> int | str:
        return self.arch if self.backend == "hip" else self.capability[0] * 10 + self.capability[1]


_GIB, _MIB, _KIB = 2**30, 2**20, 2**10
# arch: name, usable shared memory of one block, processors, memory, last-level cache
_CHIPS: dict[str, tuple[str, int, int, int, int]] = {
    "sm_75": ("Tesla T4", 64 * _KIB, 40, 16 * _GIB, 4 * _MIB),
    "sm_80": ("NVIDIA A100-SXM4-80GB", 163 * _KIB, 108, 80 * _GIB, 40 * _MIB),
    "sm_86": ("NVIDIA A10", 99 * _KIB, 72, 24 * _GIB, 6 * _MIB),
    "sm_87": ("NVIDIA Orin", 163 * _KIB, 16, 32 * _GIB, 4 * _MIB),
    "sm_89": ("NVIDIA L40S", 99 * _KIB, 142, 48 * _GIB, 96 * _MIB),
    "sm_90": ("NVIDIA H100 80GB HBM3", 227 * _KIB, 132, 80 * _GIB, 50 * _MIB),
    "sm_100": ("NVIDIA B200", 227 * _KIB, 148, 180 * _GIB, 126 * _MIB),
    "sm_103": ("NVIDIA B300", 227 * _KIB, 148, 270 * _GIB, 126 * _MIB),
    "sm_120": ("NVIDIA GeForce RTX 5090", 99 * _KIB, 170, 32 * _GIB, 96 * _MIB),
    "gfx90a": ("AMD Instinct MI250X", 64 * _KIB, 110, 64 * _GIB, 8 * _MIB),
    "gfx942": ("AMD Instinct MI300X", 64 * _KIB, 304, 192 * _GIB, 4 * _MIB),
    "gfx950": ("AMD Instinct MI355X", 160 * _KIB, 256, 288 * _GIB, 4 * _MIB),
}


def chip_of(arch: str) -> Chip:
    """sm_90, sm_90a, sm90 and 90 are the same chip; gfx names are AMD's. ValueError for anything else."""
    text = arch.strip().lower()
    if text.startswith("gfx"):
        known = _CHIPS.get(text, ("AMD GPU", 64 * _KIB, 100, 64 * _GIB, 4 * _MIB))
        major = int(text[3]) if text[3:4].isdigit() else 9
        warp = 64 if text.startswith("gfx9") else 32
        return Chip(text, known[0], (major, 4), *known[1:], backend="hip", warp_size=warp)
    found = re.fullmatch(r"(?:sm_?)?(\d{2,3})[af]?", text)
    if found is None:
        raise ValueError(f"unknown architecture {arch!r}: expected something like sm_90 or gfx942")
    number = int(found[1])
    known = _CHIPS.get(f"sm_{number}", ("NVIDIA GPU", 99 * _KIB, 100, 24 * _GIB, 6 * _MIB))
    return Chip(f"sm_{number}", known[0], (number // 10, number % 10), *known[1:])


def target_of(chip: Chip) -> Any:
    """Triton's GPUTarget for the chip."""
    from triton.backends.compiler import GPUTarget

    return GPUTarget(chip.backend, chip.target_arch, chip.warp_size)


def encode(value: Any) -> Any:
    """A kernel's constant as JSON; what JSON has no form for becomes an object with one key that says what it is."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else {"int": str(int(value))}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, tuple | list):
        return {"tuple": [encode(item) for item in value]}
    kind = type(value).__name__
    if kind == "constexpr":
        return {"constexpr": encode(value.value)}
    if kind == "pointer_type":
        return {"pointer": encode(value.element_ty)}
    if kind == "dtype" and type(value).__module__.startswith("triton"):
        return {"dtype": value.name}
    if isinstance(value, types.ModuleType):
        return {"module": value.__name__}
    inner = getattr(value, "fn", value)
    if closures.is_inner(inner):
        return {"closure": _writer.describe(inner)}
    if hasattr(inner, "__qualname__") and hasattr(inner, "__module__"):
        return {"function": [str(inner.__module__), str(inner.__qualname__)]}
    return {"unknown": repr(value)[:200]}


_writer = closures.Writer(encode)


def decode(value: Any, module: types.ModuleType) -> Any:
    """The constant that `encode` was given; functions are looked up in the candidate's module."""
    if not isinstance(value, dict):
        return value
    import triton.language as tl

    ((kind, inner),) = value.items()
    match kind:
        case "int":
            return int(inner)
        case "float":
            return float(inner)
        case "tuple":
            return tuple(decode(item, module) for item in inner)
        case "constexpr":
            return tl.constexpr(decode(inner, module))
        case "pointer":
            return tl.pointer_type(decode(inner, module))
        case "dtype":
            return tl.dtype(inner)
        case "function":
            return _function(module, inner[0], inner[1], None)
        case "module":
            return importlib.import_module(inner)
        case "closure":
            return closures.rebuild(inner, module, partial(decode, module=module))
    raise NotFound(f"the constant {inner} cannot be rebuilt for an ahead-of-time compile")


def _unwrap(value: Any) -> Any:
    """The JITFunction under autotuners and heuristics; None where there is none."""
    from triton.runtime.jit import JITFunction

    for _ in range(8):
        if value is None or isinstance(value, JITFunction):
            return value
        value = vars(value).get("fn") if hasattr(value, "__dict__") else None
    return None


def _function(module: types.ModuleType, home: str, qualname: str, line: int | None) -> Any:
    found = []
    scopes: list[Any] = [module, *[v for v in vars(module).values() if isinstance(v, type)]]
    for scope in scopes:
        for value in list(vars(scope).values()):
            jit = _unwrap(value.__func__ if isinstance(value, staticmethod) else value)
            if jit is not None and jit.fn.__qualname__ == qualname:
                found.append(jit)
    # Kernels that live in another module or were made by a function: Triton keeps those it knows by name.
    registry = getattr(importlib.import_module("triton.runtime.jit"), "_triton_jit_function_registry", {})
    found += [jit for key, jit in registry.items() if key in (f"{module.__name__}:{qualname}", f"{home}:{qualname}")]
    for jit in found:
        if line is None or jit.fn.__code__.co_firstlineno == line:
            return jit
    if found:
        return found[-1]
    with contextlib.suppress(ImportError, AttributeError):
        value = importlib.import_module(home)
        for part in qualname.split("."):
            value = getattr(value, part)
        return _unwrap(value) or value
    raise NotFound(f"{qualname} is not at the module's top level, so that it could not be compiled ahead of time")


def _compact(text: str) -> str:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(lines[:_MAX_LINES])[:_MAX_CHARS]


def _diagnostics(log: str) -> str:
    """The compiler's own error lines; a failed pass also prints the whole module, which helps nobody."""
    lines = [line for line in log.splitlines() if re.search(r"\berror\b|LLVM ERROR|Assertion", line, re.IGNORECASE)]
    return "\n".join(line[:300] for line in lines[:8])


def _registers(kernel: Any) -> dict[str, int]:
    """Registers per thread, and bytes per thread spilled to local memory; nothing where no tool can tell."""
    text = kernel.asm.get("amdgcn", "") if hasattr(kernel.asm, "get") else ""
    if text:
        found = re.search(r"\.vgpr_count:\s+(\d+)", text)
        return {"registers": int(found[1])} if found else {}
    return cubin_resources(kernel.asm["cubin"])


def cubin_resources(cubin: bytes) -> dict[str, int]:
    """Registers and stack of a thread, bytes of static shared memory of a block; of the kernel that needs most."""
    import triton

    tool = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        dump = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
    found = re.findall(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", dump)
    if not found:
        return {}
    return dict(
        zip(("registers", "stack", "shared"), (max(map(int, kind)) for kind in zip(*found, strict=True)), strict=True)
    )


def _compile(module: types.ModuleType, launch: dict[str, Any], form: dict[str, Any], chip: Chip) -> dict[str, Any]:
    import triton
    from triton.compiler import ASTSource

    closure = launch.get("closure")
    kernel = (
        decode(closure, module) if closure else _function(module, launch["module"], launch["qualname"], launch["line"])
    )
    constants = {tuple(path): decode(value, module) for path, value in form["constexprs"]}
    attrs = {tuple(path): value for path, value in form["attrs"]}
    signature = {name: decode(value, module) for name, value in form["signature"].items()}
    options = {name: decode(value, module) for name, value in form["options"].items()}
    compiled = triton.compile(ASTSource(kernel, signature, constants, attrs), target=target_of(chip), options=options)
    metadata = compiled.metadata
    report: dict[str, Any] = {"ok": True, "kind": "ok", "error": "", "shared": int(metadata.shared)}
    report["num_warps"] = int(metadata.num_warps)
    with contextlib.suppress(OSError, subprocess.SubprocessError, KeyError):
        report = _registers(compiled) | report
    limits = [
        ("shared memory", metadata.shared, chip.shared, "bytes"),
        ("threads", metadata.num_warps * chip.warp_size, 1024, "per block"),
        ("tensor memory", getattr(metadata, "tmem_size", None) or 0, 512, "columns"),
    ]
    for what, needed, limit, unit in limits:
        if needed > limit:
            text = f"out of resource: {what}: {needed} {unit} needed, {chip.arch} has {limit}"
            report |= {"ok": False, "kind": "resources", "error": f"{text}; smaller blocks or fewer stages may help"}
    return report


def _where(error: BaseException, module: types.ModuleType) -> str:
    """The line in the candidate's file; Triton counts from the kernel's `def`."""
    node: Any = getattr(error, "node", None)
    source = getattr(error, "src", None)
    if not hasattr(node, "lineno") or not source:
        return ""
    with contextlib.suppress(OSError, ValueError, TypeError):
        with open(module.__file__ or "", encoding="utf-8") as file:
            lines = [line.strip() for line in file]
        return f"line {lines.index(source.splitlines()[0].strip()) + node.lineno}: "
    return ""


def _kind(error: BaseException) -> str:
    if isinstance(error, NotFound):
        return "not_found"
    if isinstance(error, FileNotFoundError) or re.search(
        r"\b(linker|ptxas)\b.* not found|Cannot find ptxas", str(error)
    ):
        return "toolchain"
    # These are what Triton's autotuner forgives a configuration.
    return (
        "resources"
        if type(error).__name__ in ("OutOfResources", "PTXASError", "CompileTimeAssertionFailure")
        else "compile"
    )


def _attempt(module: types.ModuleType, launch: dict[str, Any], form: dict[str, Any], chip: Chip) -> dict[str, Any]:
    try:
        return _compile(module, launch, form, chip)
    except Exception as error:  # whatever the compiler raises is the answer
        text = str(error) or repr(error)
        name = type(error).__name__
        cause = error.__cause__
        if cause is not None and str(cause) not in text:
            text += f"\n{type(cause).__name__}: {cause}"
        return {"ok": False, "kind": _kind(error), "error": f"{_where(error, module)}{name}: {text}"}


def _read_until(fd: int, deadline: float) -> bytes | None:
    """All that the child writes until it closes its end; None when the time is over."""
    data = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return None
        piece = os.read(fd, 1 << 16)
        if not piece:
            return data
        data += piece


def isolated(work: Callable[[], dict[str, Any]], timeout_s: float) -> dict[str, Any]:
    """One compile in a child whose death and diagnostics are seen from here."""
    with tempfile.TemporaryFile() as log:
        sys.stdout.flush()
        sys.stderr.flush()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reader)
                os.setpgid(0, 0)  # so that an assembler it starts ends with it
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                os.write(writer, json.dumps(work()).encode())
            finally:
                os._exit(0)
        os.close(writer)
        try:
            answer = _read_until(reader, time.monotonic() + timeout_s)
        finally:
            os.close(reader)
        if answer is None:
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(OSError):
                    kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        log.seek(0)
        notes = _diagnostics(log.read(1 << 20).decode(errors="replace"))
    if answer is None:
        return {"ok": False, "kind": "compile", "error": f"the compile took more than {timeout_s:.0f} s"}
    try:
        report: dict[str, Any] = json.loads(answer)
    except ValueError:
        ended = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
        return {"ok": False, "kind": "compile", "error": _compact(f"the compiler ended with {ended}\n{notes}")}
    if not report["ok"]:
        report["error"] = _compact(f"{report['error']}\n{notes}")
    return report


@contextlib.contextmanager
def _no_interpreter() -> Iterator[None]:
    before = os.environ.pop("TRITON_INTERPRET", None)
    try:
        yield
    finally:
        if before is not None:
            os.environ["TRITON_INTERPRET"] = before


def compile_launches(
    module: types.ModuleType, launches: list[dict[str, Any]], arch: str = "sm_90", timeout_s: float = 120.0
) -> list[dict[str, Any]]:
    """One report per recorded launch: kernel, ok, kind, error, and where it compiled registers, shared, num_warps.

    `kind` is ok, compile, resources (over the chip's limits, or refused by its assembler), not_found (the kernel
    cannot be reached from the module) or toolchain (a tool is missing); the last two say nothing about the kernel. An autotuned kernel whose first configuration
    asks for too much is compiled with the others in turn, as the autotuner itself would pass over it; `config` says
    which one it was. Never raises.
    """
    reports = []
    with _no_interpreter():
        for launch in launches:
            report: dict[str, Any] = {"kernel": str(launch.get("kernel", "?")), "ok": False, "kind": "compile"}
            report |= {"error": "", "registers": None, "shared": None, "num_warps": None, "config": 0}
            try:
                chip = chip_of(arch)
                forms = [launch, *launch.get("alternatives", [])]
                for index, form in enumerate(forms):
                    result = isolated(partial(_attempt, module, launch, form, chip), timeout_s)
                    if index == 0 or result["ok"]:
                        report |= result
                        report["config"] = index
                    if result["kind"] != "resources":
                        break
            except Exception as error:  # a malformed record, or no process to be had
                report["error"] = _compact(f"{type(error).__name__}: {error}")
            reports.append(report)
    return reports
