"""What each language is compiled with, and where builds are kept."""

from __future__ import annotations

import functools
import json
import os
import shutil
from pathlib import Path
from typing import Any

from . import _cuda
from ._errors import BuildError, MissingCompiler

# What a target's `target.toml` says about its toolchain; these built-in entries let an exported kernel run without kforge.
BUILTIN_TOOLCHAINS: dict[str, dict[str, Any]] = {
    "cpp": {
        "compilers": ["c++", "g++", "clang++"],
        "command": ["{compiler}", "-shared", "-fPIC", "-std=c++17", "{flags}", "{source}", "-o", "{output}", "-lm"],
        "default_flags": ["-O3", "-march=native", "-fopenmp"],
        "suffix": ".cpp",
        "device": "cpu",
        "pass_stream": False,
    },
    "cuda": {
        "compilers": ["nvcc"],
        # One architecture by -gencode: the shorthand -arch=sm_90a also runs a pass for plain sm_90.
        "command": [
            *["{compiler}", "-shared", "-Xcompiler", "-fPIC", "-Xptxas", "-v", "--threads", "2", "--no-device-link"],
            *["-gencode=arch={compute},code={arch}", "{flags}", "{source}", "{libs}", "-o", "{output}"],
        ],
        "default_flags": ["-O3", "-std=c++17"],
        "suffix": ".cu",
        "device": "cuda",
        "pass_stream": True,
    },
}


def toolchain(lang: str) -> dict[str, Any]:
    toolchains = json.loads(os.environ.get("KFORGE_TOOLCHAINS", "null")) or BUILTIN_TOOLCHAINS
    if lang not in toolchains:
        raise BuildError(f"lang={lang!r} is not available for this target; known: {', '.join(sorted(toolchains))}")
    found: dict[str, Any] = toolchains[lang]
    return found


@functools.cache
def compiler(names: tuple[str, ...], lang: str) -> str:
    if names == ("nvcc",):
        found = _cuda.find_nvcc()
        if found is None:
            advice = (
                'install the CUDA toolkit or NVIDIA\'s wheels (`kforge doctor` names the command), or use jit="nvrtc"'
            )
            message = f"no compiler for lang={lang!r}: nvcc is neither on PATH nor in CUDA_HOME; {advice}"
            raise MissingCompiler(message, "nvcc")
        return found
    for name in names:
        path = shutil.which(name)
        if path:
            return os.path.realpath(path)
    raise MissingCompiler(f"no compiler for lang={lang!r}: none of {', '.join(names)} is on PATH", names[0])


def build_dir() -> Path:
    base = os.environ.get("KFORGE_BUILD_DIR")
    folder = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kforge" / "rt"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
