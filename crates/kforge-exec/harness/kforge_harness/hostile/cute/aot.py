"""Ahead-of-time compilation of CuTe DSL candidates, for a chip that is not here.

A candidate defines `ahead_of_time()` at module level, which compiles its kernels with fake tensors and returns the compiled
functions by name. `prepare` sets what the compiler reads from the environment, so it comes before the candidate is
imported; `compile_module` calls the function in a forked child, since a compiler may crash or hang, and reports.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import types
from collections.abc import Mapping
from typing import Any

from ..triton import aot as triton_aot

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MAX_KERNELS = 64
_MISSING = (
    "the candidate has no function ahead_of_time() at module level: it compiles the kernels with fake tensors and "
    "returns the compiled functions by name, as the target's guide shows"
)


def prepare(arch: str, dump: str) -> None:
    """Before anything imports `cutlass`: what is compiled for, and that the machine code is kept, below `dump`."""
    os.makedirs(dump, exist_ok=True)
    os.environ["CUTE_DSL_ARCH"] = arch
    os.environ["CUTE_DSL_KEEP"] = "cubin"
    os.environ["CUTE_DSL_DUMP_DIR"] = dump


def compile_module(module: types.ModuleType, arch: str = "sm_90a", timeout_s: float = 120.0) -> list[dict[str, Any]]:
    """One report per compiled function: kernel, ok, kind, error, and registers, stack and static shared memory.

    `kind` is ok, compile, resources (over the chip's limits), not_found (nothing to compile) or toolchain (CuTe DSL is not
    installed); the last says nothing about the kernel. Never raises.
    """
    if importlib.util.find_spec("cutlass") is None:
        return [_failed("", "toolchain", "CuTe DSL is not installed: pip install nvidia-cutlass-dsl")]
    work = getattr(module, "ahead_of_time", None)
    if not callable(work):
        return [_failed("", "not_found", _MISSING)]
    try:
        chip = triton_aot.chip_of(arch)
        answer = triton_aot.isolated(lambda: _attempt(work, module, chip), timeout_s)
    except Exception as error:  # no process to be had, or an unknown chip
        return [_failed("", "compile", f"{type(error).__name__}: {error}")]
    reports: list[dict[str, Any]] = answer.get("kernels") or [_failed("", answer["kind"], answer["error"])]
    return reports


def _attempt(work: Any, module: types.ModuleType, chip: triton_aot.Chip) -> dict[str, Any]:
    try:
        made = work()
    except BaseException as error:  # whatever the compiler raises is the answer
        return {"ok": False, "kind": "compile", "error": _message(error, module)}
    if not isinstance(made, Mapping) or not made:
        return {"ok": False, "kind": "not_found", "error": "ahead_of_time() returned no compiled functions by name"}
    reports = [_report(str(name)[:80], compiled, chip) for name, compiled in list(made.items())[:_MAX_KERNELS]]
    return {"ok": True, "kind": "ok", "error": "", "kernels": reports}


def _report(name: str, compiled: Any, chip: triton_aot.Chip) -> dict[str, Any]:
    cubin = getattr(compiled, "__cubin__", None)
    if not isinstance(cubin, bytes) or cubin[:4] != b"\x7fELF":
        text = "ahead_of_time() returned something that cute.compile did not make, or that has no kernel in it"
        return _failed(name, "not_found", text)
    report = {"kernel": name, "ok": True, "kind": "ok", "error": "", "registers": None, "shared": None}
    with contextlib.suppress(ImportError, OSError, subprocess.SubprocessError):
        report |= triton_aot.cubin_resources(cubin)
    shared = report["shared"]
    if isinstance(shared, int) and shared > chip.shared:
        text = f"out of resource: shared memory: {shared} bytes needed, {chip.arch} has {chip.shared}"
        report |= {"ok": False, "kind": "resources", "error": f"{text}; smaller tiles or fewer stages may help"}
    return report


def _failed(name: str, kind: str, text: str) -> dict[str, Any]:
    return {"kernel": name, "ok": False, "kind": kind, "error": text, "registers": None, "shared": None}


def _message(error: BaseException, module: types.ModuleType) -> str:
    """The compiler's own words, which show the line; without colours and without this machine's paths."""
    text = _COLOUR.sub("", str(error) or repr(error)).strip()
    path = module.__file__ or ""
    if path:
        text = text.replace(path, os.path.basename(path))
    if not text.startswith("error"):
        text = f"{type(error).__name__}: {text}"
    return "\n".join(line.rstrip() for line in text.splitlines()[:30])[:4000]
