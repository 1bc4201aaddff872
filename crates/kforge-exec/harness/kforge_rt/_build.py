"""One source in, its launchers or kernels out; built once and kept."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from . import _compile, _cuda, _toolchain
from ._errors import BuildError
from ._flags import check_flags
from ._launch import Library
from ._module import Module


def build(
    source: str,
    lang: str = "cpp",
    flags: Sequence[str] | None = None,
    name: str = "kernel",
    *,
    libs: Sequence[str] = (),
    arch: str | None = None,
    jit: str | None = None,
) -> Any:
    """Compile `source`, or take it from the cache, and load it: a `Library`, for `jit="nvrtc"` and `lang="ptx"` a `Module`.

    `flags` replace the language's default optimisation flags. `libs`, for CUDA: any of cutlass (headers), cublas, cublasLt,
    cudnn, cuda. `arch`, such as sm_90a, is the device's unless it is named. Raises `BuildError` with the compiler's log.
    """
    if jit not in (None, "nvrtc") or (jit and lang != "cuda"):
        raise BuildError(f'jit={jit!r} is not known for lang={lang!r}; there is jit="nvrtc" for lang="cuda"')
    # PTX has no compiler of its own: it is there wherever CUDA is.
    toolchain = _toolchain.toolchain("cuda" if lang == "ptx" else lang)
    chosen = [] if lang == "ptx" and flags is None else list(toolchain["default_flags"] if flags is None else flags)
    check_flags(chosen, lang)
    words = " ".join(toolchain["command"])
    chip = _cuda.arch(arch) if "{arch}" in words else ""
    compiler = "" if jit or lang == "ptx" else _toolchain.compiler(tuple(toolchain["compilers"]), lang)
    wanted = [
        *libs,
        *(flag[2:] for flag in chosen if lang == "cuda" and flag.startswith("-l") and flag[2:] in _cuda.LIBRARIES),
    ]
    chosen = [flag for flag in chosen if flag[2:] not in wanted or not flag.startswith("-l")]
    include, link = _cuda.libraries(wanted) if wanted else ([], [])
    link += _cuda.own_libraries(compiler)
    parts = [source, lang, chosen, compiler, toolchain["command"], chip, jit, include, link]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
    output = _toolchain.build_dir() / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)[:40]}-{key}.so"
    if jit or lang == "ptx":
        output = output.with_suffix(".cubin")
        if not output.exists():
            make = _compile.nvrtc if jit else _compile.assemble
            make(source, [*chosen, *include], chip, output)
        return Module(output)
    if not output.exists():
        names = {"{arch}": chip, "{compute}": chip.replace("sm_", "compute_")}
        _compile.compile_library(source, toolchain, compiler, [*chosen, *include], output, names, link)
    return Library(output, toolchain["device"], bool(toolchain["pass_stream"]), source)
