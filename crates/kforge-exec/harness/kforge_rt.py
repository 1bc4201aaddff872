"""The small runtime that candidates build and launch their kernels with.

One C-ABI source becomes one shared library; its `extern "C" int name(...)` functions become attributes.
The module stands alone (standard library and torch only), so that an exported kernel can carry it along.

    lib = kforge_rt.build(SOURCE, lang="cpp", flags=["-O3"])
    lib.softmax(x, y, rows, cols)       # tensor -> data pointer, int -> int64_t, float -> double

A launcher returns 0 for success; anything else raises `LaunchError`.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

__all__ = ["BuildError", "FlagError", "LaunchError", "Library", "build", "workspace"]

_COMPILE_TIMEOUT_S = 120

# What a target's `target.toml` says about its toolchain; this built-in entry lets an exported kernel run without kforge.
_BUILTIN_TOOLCHAINS: dict[str, dict[str, Any]] = {
    "cpp": {
        "compilers": ["c++", "g++", "clang++"],
        "command": ["{compiler}", "-shared", "-fPIC", "-std=c++17", "{flags}", "{source}", "-o", "{output}", "-lm"],
        "default_flags": ["-O3", "-march=native", "-fopenmp"],
        "suffix": ".cpp",
        "device": "cpu",
        "pass_stream": False,
    }
}

# Flags are data from a hostile source: those that load plugins, pick other programs or read other files are not here.
_SAFE_FLAG = re.compile(
    r"-O[0-3s]|-std=(c|gnu)\+\+\d\w|-march=[\w.+-]+|-mtune=[\w.+-]+|-mcpu=[\w.+-]+|-m(no-)?(avx|fma|sse|f16c|bmi|prefer-vector-width)[\w.=-]*"
    r"|-fopenmp(-simd)?|-funroll-(all-)?loops|-f(no-)?(tree-)?(slp-)?vectorize|-fvect-cost-model=\w+|-fno-math-errno|-fno-trapping-math"
    r"|-fno-signed-zeros|-fassociative-math|-ffp-contract=\w+|-fno-exceptions|-fno-rtti|-fno-plt|-fstrict-aliasing|-fno-strict-aliasing"
    r"|-fomit-frame-pointer|-finline-functions|-finline-limit=\d+|-fprefetch-loop-arrays|-fvisibility=\w+|-ftree-[\w-]+|-fpeel-loops"
    r"|-g\d?|-w|-W(all|extra|no-[\w-]+|pedantic)|-[DU]\w+(=[\w.+-]*)?|-l(m|gomp|omp|pthread)|-pthread|--param=[\w-]+=\d+"
)
_FAST_MATH_FLAG = re.compile(
    r"-Ofast|-ffast-math|-funsafe-math-optimizations|-ffinite-math-only|-freciprocal-math|-fcx-limited-range|-mrecip\S*"
)


class BuildError(RuntimeError):
    """The compiler refused the source; `log` is what it printed."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class FlagError(BuildError):
    """A compiler flag that is not allowed."""


class LaunchError(RuntimeError):
    """A launcher returned something other than 0."""


class _Audit:
    """What the harness sets and reads in an audit run; inert in ordinary use."""

    launches: int = 0
    failures: int = 0
    skip_kernels: bool = False


class _Launcher:
    __slots__ = ("_device", "_function", "_name", "_pass_stream")

    def __init__(self, function: Any, name: str, device: str, pass_stream: bool) -> None:
        function.restype = ctypes.c_int
        self._function = function
        self._name = name
        self._device = device
        self._pass_stream = pass_stream

    def __call__(self, *args: Any) -> None:
        _Audit.launches += 1
        converted = [self._convert(i, a) for i, a in enumerate(args)]
        if self._pass_stream:
            converted.append(ctypes.c_void_p(_current_stream(self._device)))
        if _Audit.skip_kernels:
            return
        code = self._function(*converted)
        if code != 0:
            _Audit.failures += 1
            raise LaunchError(f"{self._name} returned {code}")

    def _convert(self, position: int, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.device.type != self._device:
                raise TypeError(
                    f"{self._name}: argument {position} is on {value.device}, this kernel runs on {self._device}"
                )
            return ctypes.c_void_p(value.data_ptr())
        if isinstance(value, int):  # bool is an int
            return ctypes.c_int64(value)
        if isinstance(value, float):
            return ctypes.c_double(value)
        if value is None:
            return ctypes.c_void_p(None)
        raise TypeError(
            f"{self._name}: argument {position} is a {type(value).__name__}; pass tensors, ints, floats or None"
        )


class Library:
    """A built shared library; every exported `extern "C" int` function is an attribute."""

    def __init__(self, path: Path, device: str, pass_stream: bool) -> None:
        self._path = path
        self._device = device
        self._pass_stream = pass_stream
        self._cdll = _Dll(str(path))

    def __getattr__(self, name: str) -> _Launcher:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            function = getattr(self._cdll, name)
        except AttributeError:
            raise AttributeError(
                f'the library has no function {name!r}: declare it `extern "C" int {name}(...)`'
            ) from None
        launcher = _Launcher(function, name, self._device, self._pass_stream)
        setattr(self, name, launcher)
        return launcher


# Kept before any candidate runs: the audit replaces `ctypes.CDLL` to count plain ctypes calls, and must not count ours twice.
_Dll = ctypes.CDLL


def build(source: str, lang: str = "cpp", flags: Sequence[str] | None = None, name: str = "kernel") -> Library:
    """Compile `source` to a shared library, or take it from the cache, and load it.

    `flags` replace the language's default optimisation flags. Raises `BuildError` with the compiler's log.
    """
    toolchain = _toolchain(lang)
    chosen = list(toolchain["default_flags"] if flags is None else flags)
    _check_flags(chosen)
    compiler = _compiler(tuple(toolchain["compilers"]), lang)
    key = hashlib.sha256(json.dumps([source, lang, chosen, compiler, toolchain["command"]]).encode()).hexdigest()[:24]
    folder = _build_dir()
    output = folder / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)[:40]}-{key}.so"
    if not output.exists():
        _compile(source, toolchain, compiler, chosen, output)
    return Library(output, toolchain["device"], bool(toolchain["pass_stream"]))


def _compile(source: str, toolchain: dict[str, Any], compiler: str, flags: list[str], output: Path) -> None:
    with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
        source_path = Path(scratch) / f"kernel{toolchain['suffix']}"
        source_path.write_text(source, encoding="utf-8")
        built = Path(scratch) / "kernel.so"
        names = {"{compiler}": compiler, "{source}": str(source_path), "{output}": str(built)}
        command: list[str] = []
        for word in toolchain["command"]:
            command += flags if word == "{flags}" else [names.get(word, word)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_COMPILE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise BuildError(f"the compiler ran for more than {_COMPILE_TIMEOUT_S} s") from None
        if done.returncode != 0:
            log = done.stderr.replace(str(source_path), "kernel" + toolchain["suffix"])
            raise BuildError(f"{Path(compiler).name} failed with exit code {done.returncode}", log)
        # Before the library: whoever finds the library also finds how it was made, such as kforge's profile.
        made = {"compiler": compiler, "flags": flags, "suffix": toolchain["suffix"], "source": source}
        made["command"] = [word for word in toolchain["command"] if word != "{compiler}"]
        output.with_suffix(".json").write_text(json.dumps(made), encoding="utf-8")
        os.replace(built, output)


def _toolchain(lang: str) -> dict[str, Any]:
    toolchains = json.loads(os.environ.get("KFORGE_TOOLCHAINS", "null")) or _BUILTIN_TOOLCHAINS
    if lang not in toolchains:
        raise BuildError(f"lang={lang!r} is not available for this target; known: {', '.join(sorted(toolchains))}")
    found: dict[str, Any] = toolchains[lang]
    return found


def _check_flags(flags: list[str]) -> None:
    fast_allowed = os.environ.get("KFORGE_MATH", "exact") == "fast"
    for flag in flags:
        if _FAST_MATH_FLAG.fullmatch(flag):
            if not fast_allowed:
                raise FlagError(f"flag {flag} changes results; it needs `math='fast'` in the problem's contract")
        elif not _SAFE_FLAG.fullmatch(flag):
            raise FlagError(f"flag {flag} is not allowed; use optimisation, -m, -f and -D flags only")


@functools.cache
def _compiler(names: tuple[str, ...], lang: str) -> str:
    for name in names:
        path = shutil.which(name)
        if path:
            return os.path.realpath(path)
    raise BuildError(f"no compiler for lang={lang!r}: none of {', '.join(names)} is on PATH")


def _build_dir() -> Path:
    base = os.environ.get("KFORGE_BUILD_DIR")
    folder = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kforge" / "rt"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _current_stream(device: str) -> int:
    module = getattr(torch, device)
    stream = module.current_stream()
    handle: int = getattr(stream, "cuda_stream", 0) or getattr(stream, "sycl_queue", 0)
    return handle


_workspaces: dict[tuple[str, int, str], torch.Tensor] = {}


def workspace(
    nbytes: int, *, zeroed: bool = False, persistent: bool = False, device: str = "cpu", key: str = ""
) -> torch.Tensor:
    """Scratch memory as a uint8 tensor. A persistent one is the same memory at every call with the same size and `key`."""
    found = _workspaces.get((key, nbytes, device)) if persistent else None
    if found is None:
        found = torch.empty(nbytes, dtype=torch.uint8, device=device)
        if zeroed:
            found.zero_()
        if persistent:
            _workspaces[(key, nbytes, device)] = found
    elif zeroed:
        found.zero_()
    return found
