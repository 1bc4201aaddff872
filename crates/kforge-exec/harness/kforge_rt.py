"""The small runtime that candidates build and launch their kernels with.

One C-ABI source becomes one shared library; its `extern "C" int name(...)` functions become attributes.
The module stands alone (standard library and torch only), so that an exported kernel can carry it along.

    lib = kforge_rt.build(SOURCE, lang="cpp", flags=["-O3"])
    lib.softmax(x, y, rows, cols)       # tensor -> data pointer, int -> int64_t, float -> double

    lib = kforge_rt.build(SOURCE, lang="cuda")          # nvcc; a launcher gets the current stream as a last `void*`
    lib.softmax(x, y, rows, cols)

    lib = kforge_rt.build(SOURCE, lang="cuda", jit="nvrtc")     # `extern "C" __global__` kernels only, no host code
    lib.softmax[rows, 256](x, y, cols)                          # [grid, block] or [grid, block, shared bytes]
    lib = kforge_rt.build(PTX_TEXT, lang="ptx")                 # launched in the same way

A launcher returns 0 for success; anything else raises `LaunchError`. A `ctypes` value such as `ctypes.c_float(0.5)` is passed
as it is, for a parameter of another type than those above.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

__all__ = ["BuildError", "FlagError", "LaunchError", "Library", "Module", "build", "workspace"]

_COMPILE_TIMEOUT_S = 120

# What a target's `target.toml` says about its toolchain; these built-in entries let an exported kernel run without kforge.
_BUILTIN_TOOLCHAINS: dict[str, dict[str, Any]] = {
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
_PTXAS_WORD = r"(-v|-O[0-3]|--?opt-level=[0-3]|-d[ls]cm=\w\w|--?warn-on-spills|--?allow-expensive-optimizations=\w+)"
_SAFE_CUDA_FLAG = re.compile(
    rf"-O[0-3]|--?std=c\+\+\d\w|-lineinfo|--generate-line-info|--?maxrregcount=\d+|(-Xptxas|--ptxas-options)={_PTXAS_WORD}(,{_PTXAS_WORD})*"
    r"|--?extra-device-vectorization|--?expt-relaxed-constexpr|--?expt-extended-lambda|--?extended-lambda|--split-compile=\d+|--restrict|-restrict"
    r"|--?(prec-div|prec-sqrt|fmad)=true|--?(fmad|ftz)=false|-Xcompiler=(-fopenmp|-O[0-3])|-[DU]\w+(=[\w.+-]*)?|-w|-l(cublas|cublasLt|cudnn|cuda)"
)
_FAST_MATH_CUDA_FLAG = re.compile(r"--?use_fast_math|--?ftz=true|--?prec-(div|sqrt)=false")
# Flags whose value may be the next word.
_VALUED_CUDA_FLAGS = ("-Xptxas", "--ptxas-options", "-maxrregcount", "--maxrregcount", "-Xcompiler", "-std", "--std")
_CUDA_LIBRARIES = ("cublas", "cublasLt", "cudnn", "cuda")

# What a launcher that returns `cudaGetLastError()` most often says.
_CUDA_ERRORS = {
    1: "cudaErrorInvalidValue",
    2: "cudaErrorMemoryAllocation",
    9: "cudaErrorInvalidConfiguration: grid, block or shared memory are outside of what the device allows",
    35: "cudaErrorInsufficientDriver",
    98: "cudaErrorInvalidDeviceFunction",
    100: "cudaErrorNoDevice",
    200: "cudaErrorInvalidKernelImage",
    201: "cudaErrorDeviceUninitialized",
    209: "cudaErrorNoKernelImageForDevice: the kernel was built for another architecture",
    218: "cudaErrorInvalidPtx",
    222: "cudaErrorUnsupportedPtxVersion",
    400: "cudaErrorInvalidResourceHandle",
    700: "cudaErrorIllegalAddress",
    701: "cudaErrorLaunchOutOfResources: too many registers or threads in a block",
    702: "cudaErrorLaunchTimeout",
    710: "cudaErrorAssert",
    715: "cudaErrorIllegalInstruction",
    716: "cudaErrorMisalignedAddress",
    717: "cudaErrorInvalidAddressSpace",
    718: "cudaErrorInvalidPc",
    719: "cudaErrorLaunchFailure",
    720: "cudaErrorCooperativeLaunchTooLarge",
    801: "cudaErrorNotSupported",
    912: "cudaErrorInvalidClusterSize",
}


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


# Kept before any candidate runs: the audit replaces `ctypes.CDLL` to count plain ctypes calls, and must not count ours twice.
_Dll = ctypes.CDLL


def _argument(kernel: str, device: str, position: int, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.device.type != device:
            raise TypeError(f"{kernel}: argument {position} is on {value.device}, this kernel runs on {device}")
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, int):  # bool is an int
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, (ctypes._SimpleCData, ctypes.Structure)):
        return value
    raise TypeError(
        f"{kernel}: argument {position} is a {type(value).__name__}; pass tensors, ints, floats, None or ctypes values"
    )


def _check(kernel: str, code: int, meaning: str) -> None:
    if code != 0:
        _Audit.failures += 1
        raise LaunchError(f"{kernel} returned {code}{meaning}")


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
        converted = [_argument(self._name, self._device, i, a) for i, a in enumerate(args)]
        if _Audit.skip_kernels:
            return
        if self._pass_stream:
            converted.append(ctypes.c_void_p(_current_stream(self._device)))
        code = self._function(*converted)
        if code != 0:
            known = _CUDA_ERRORS.get(code) if self._device == "cuda" else None
            _check(self._name, code, f", as a CUDA error {known}" if known else "")


class Library:
    """A built shared library; every exported `extern "C" int` function is an attribute."""

    def __init__(self, path: Path, device: str, pass_stream: bool) -> None:
        self._path = path
        self._device = device
        self._pass_stream = pass_stream
        self._cdll = _Dll(str(path))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        launcher = self._find(name)
        setattr(self, name, launcher)
        return launcher

    def _find(self, name: str) -> Any:
        try:
            function = getattr(self._cdll, name)
        except AttributeError:
            raise AttributeError(
                f'the library has no function {name!r}: declare it `extern "C" int {name}(...)`'
            ) from None
        return _Launcher(function, name, self._device, self._pass_stream)


class Module(Library):
    """Device code alone, from NVRTC or PTX; every `extern "C" __global__` kernel is an attribute.

    `module.kernel[grid, block](x, y, n)`, or `[grid, block, shared]` with bytes of dynamic shared memory; grid and block are
    ints or tuples of up to three. Parameters must have the sizes of what is passed: pointers, `long long` for an int,
    `double` for a float; for others pass a ctypes value, such as `ctypes.c_int(n)` for an `int n`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._device = "cuda"
        self._handles: dict[int, ctypes.c_void_p] = {}

    def _find(self, name: str) -> _Kernel:
        return _Kernel(self, name)

    def _handle(self, device: int) -> ctypes.c_void_p:
        """Loaded at the first launch on a device: a build needs none."""
        found = self._handles.get(device)
        if found is None:
            torch.cuda.synchronize()  # makes torch's context this thread's current one
            found, log = ctypes.c_void_p(), ctypes.create_string_buffer(8192)
            options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
            values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
            image = self._path.read_bytes() + b"\0"
            code = _driver().cuModuleLoadDataEx(ctypes.byref(found), image, 2, options, values)
            if code != 0:
                said = log.value.decode("utf-8", "replace").strip()
                raise BuildError(f"the driver does not load the kernel: {_driver_error(code)}", said)
            self._handles[device] = found
        return found


class _Kernel:
    """One kernel of a `Module`; `kernel[grid, block, shared]` is what can be called."""

    def __init__(self, module: Module, name: str) -> None:
        self._module = module
        self._name = name
        self._functions: dict[int, tuple[ctypes.c_void_p, list[int] | None]] = {}
        self._shared = 48 * 1024  # what a kernel may have without asking

    def __getitem__(self, launch: tuple[Any, ...]) -> Any:
        if not isinstance(launch, tuple) or not 2 <= len(launch) <= 3:
            raise TypeError(
                f"{self._name}: write {self._name}[grid, block](...) or {self._name}[grid, block, shared](...)"
            )
        grid, block = _three(self._name, launch[0]), _three(self._name, launch[1])
        shared = int(launch[2]) if len(launch) == 3 else 0
        return functools.partial(self._launch, grid, block, shared)

    def __call__(self, *_args: Any) -> None:
        raise TypeError(f"{self._name} is a kernel, not a launcher: write {self._name}[grid, block](...)")

    def _launch(self, grid: tuple[int, ...], block: tuple[int, ...], shared: int, *args: Any) -> None:
        _Audit.launches += 1
        converted = [_argument(self._name, "cuda", i, a) for i, a in enumerate(args)]
        if _Audit.skip_kernels:
            return
        device = torch.cuda.current_device()
        if device not in self._functions:
            self._functions[device] = self._resolve(device)
        function, sizes = self._functions[device]
        if sizes is not None:
            self._check_sizes(converted, sizes)
        if shared > self._shared:  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._checked(_driver().cuFuncSetAttribute(function, 8, shared))
            self._shared = shared
        addresses = [ctypes.addressof(value) for value in converted]
        parameters = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        stream = ctypes.c_void_p(_current_stream("cuda"))
        self._checked(_driver().cuLaunchKernel(function, *grid, *block, shared, stream, parameters, None))

    def _resolve(self, device: int) -> tuple[ctypes.c_void_p, list[int] | None]:
        function = ctypes.c_void_p()
        handle = self._module._handle(device)
        if _driver().cuModuleGetFunction(ctypes.byref(function), handle, self._name.encode()) != 0:
            raise AttributeError(
                f'there is no kernel {self._name!r}: declare it `extern "C" __global__ void {self._name}(...)`'
            )
        return function, _parameter_sizes(function)

    def _check_sizes(self, values: list[Any], sizes: list[int]) -> None:
        """The driver would read as many bytes as the kernel declares, whatever they are."""
        given = [ctypes.sizeof(value) for value in values]
        if len(given) != len(sizes):
            raise TypeError(f"{self._name} takes {len(sizes)} arguments, {len(given)} were given")
        for position, (have, want) in enumerate(zip(given, sizes, strict=True)):
            if have != want:
                raise TypeError(
                    f"{self._name}: argument {position} has {have} bytes, the kernel's parameter {want}: declare `long long` "
                    "for an int and `double` for a float, or pass a ctypes value such as ctypes.c_int(n), ctypes.c_float(x)"
                )

    def _checked(self, code: int) -> None:
        _check(self._name, code, f" ({_driver_error(code)})" if code else "")


def _three(kernel: str, size: Any) -> tuple[int, ...]:
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(n, int) and n > 0 for n in sizes):
        raise TypeError(f"{kernel}: a grid or block is 1 to 3 positive ints, not {size!r}")
    return (*sizes, 1, 1)[:3]


@functools.cache
def _driver() -> Any:
    try:
        return _Dll("libcuda.so.1")
    except OSError as error:
        raise LaunchError(f"NVIDIA's driver is not here ({error}); kernels can be built, not launched") from None


def _driver_error(code: int) -> str:
    name = ctypes.c_char_p()
    _driver().cuGetErrorName(code, ctypes.byref(name))
    return (name.value or b"unknown CUDA error").decode()


def _parameter_sizes(function: ctypes.c_void_p) -> list[int] | None:
    """Of a kernel, where the driver can tell (12.4 and later)."""
    try:
        info = _driver().cuFuncGetParamInfo
    except AttributeError:
        return None
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    sizes: list[int] = []
    while info(function, ctypes.c_size_t(len(sizes)), ctypes.byref(offset), ctypes.byref(size)) == 0:
        sizes.append(size.value)
    return sizes


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
    toolchain = _toolchain("cuda" if lang == "ptx" else lang)
    chosen = [] if lang == "ptx" and flags is None else list(toolchain["default_flags"] if flags is None else flags)
    _check_flags(chosen, lang)
    words = " ".join(toolchain["command"])
    chip = _arch(arch) if "{arch}" in words else ""
    compiler = "" if jit or lang == "ptx" else _compiler(tuple(toolchain["compilers"]), lang)
    wanted = [
        *libs,
        *(flag[2:] for flag in chosen if lang == "cuda" and flag.startswith("-l") and flag[2:] in _CUDA_LIBRARIES),
    ]
    chosen = [flag for flag in chosen if flag[2:] not in wanted or not flag.startswith("-l")]
    include, link = _cuda_libraries(wanted) if wanted else ([], [])
    link += _own_libraries(compiler)
    parts = [source, lang, chosen, compiler, toolchain["command"], chip, jit, include, link]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
    output = _build_dir() / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)[:40]}-{key}.so"
    if jit or lang == "ptx":
        output = output.with_suffix(".cubin")
        if not output.exists():
            make = _nvrtc if jit else _assemble
            make(source, [*chosen, *include], chip, output)
        return Module(output)
    if not output.exists():
        names = {"{arch}": chip, "{compute}": chip.replace("sm_", "compute_")}
        _compile(source, toolchain, compiler, [*chosen, *include], output, names, link)
    return Library(output, toolchain["device"], bool(toolchain["pass_stream"]))


def _compile(
    source: str,
    toolchain: dict[str, Any],
    compiler: str,
    flags: list[str],
    output: Path,
    names: dict[str, str],
    link: list[str],
) -> None:
    template: list[str] = []
    for word in toolchain["command"]:
        for placeholder, value in names.items():
            word = word.replace(placeholder, value)
        template += link if word == "{libs}" else [word]
    with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
        source_path = Path(scratch) / f"kernel{toolchain['suffix']}"
        source_path.write_text(source, encoding="utf-8")
        built = Path(scratch) / "kernel.so"
        places = {"{compiler}": compiler, "{source}": str(source_path), "{output}": str(built)}
        command: list[str] = []
        for word in template:
            command += flags if word == "{flags}" else [places.get(word, word)]
        log = _run(command, scratch)
        # Before the library: whoever finds the library also finds how it was made, such as kforge's profile.
        made = {"compiler": compiler, "flags": flags, "suffix": toolchain["suffix"], "source": source}
        made["command"] = [word for word in template if word != "{compiler}"]
        _keep(output, made, log if toolchain["device"] == "cuda" else "")
        os.replace(built, output)


def _run(command: list[str], scratch: str) -> str:
    """The compiler's log; `BuildError` with it where it failed."""
    # Further flags through the environment would not have been checked.
    env = {name: value for name, value in os.environ.items() if name not in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_COMPILE_TIMEOUT_S, env=env
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"the compiler ran for more than {_COMPILE_TIMEOUT_S} s") from None
    log = re.sub(r"\S*/tmpxft_\w+-\d+_", "", done.stderr.replace(scratch + os.sep, ""))
    if done.returncode != 0:
        raise BuildError(f"{Path(command[0]).name} failed with exit code {done.returncode}", log or done.stdout)
    return log


def _keep(output: Path, made: dict[str, Any], log: str) -> None:
    """How a build was made, and what the compiler said of registers and spills, beside what it made."""
    output.with_suffix(".json").write_text(json.dumps(made), encoding="utf-8")
    if log:
        output.with_suffix(".log").write_text(log, encoding="utf-8")


def _assemble(source: str, flags: list[str], arch: str, output: Path) -> None:
    """PTX by the assembler; where there is none, the text itself, which the driver assembles when it is loaded."""
    made = {"compiler": "", "flags": flags, "suffix": ".ptx", "source": source, "arch": arch}
    made["command"] = [f"-arch={arch}", "{flags}", "{source}", "-o", "{output}"]
    assembler = _ptxas(arch)
    with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
        source_path, built = Path(scratch) / "kernel.ptx", Path(scratch) / "kernel.cubin"
        source_path.write_text(source, encoding="utf-8")
        if assembler is None:
            built, log = source_path, ""
        else:
            options = [
                word for flag in flags for word in re.sub("^(-Xptxas|--ptxas-options)=?", "", flag).split(",") if word
            ]
            log = _run([assembler, f"-arch={arch}", "-v", *options, str(source_path), "-o", str(built)], scratch)
        _keep(output, made | {"compiler": assembler or ""}, log)
        os.replace(built, output)


def _nvrtc(source: str, flags: list[str], arch: str, output: Path) -> None:
    """CUDA C++ to a cubin by the library that comes with torch, where no nvcc is."""
    library = _nvrtc_library()
    lib = _Dll(library)
    # What only nvcc knows is left out: the level is always the highest, and there is no host code.
    host = re.compile(r"-O[0-3]|--?(expt-.*|extended-lambda)|-Xcompiler.*|--split-compile.*|-isystem.*")
    known = [flag.replace("-Xptxas=", "--ptxas-options=") for flag in _joined(flags) if not host.fullmatch(flag)]
    folders = [folder for folder in _cuda_includes(library) if os.path.isdir(folder)]
    options = [f"--gpu-architecture={arch}", "--ptxas-options=-v", *known, *(f"-I{folder}" for folder in folders)]
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        words = [option.encode() for option in options]
        code = lib.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
        lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(max(size.value, 1))
        lib.nvrtcGetProgramLog(program, text)
        log = text.value.decode("utf-8", "replace")
        if code != 0:
            raise BuildError(f"NVRTC failed with code {code}", log)
        lib.nvrtcGetCUBINSize(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(max(size.value, 1))
        lib.nvrtcGetCUBIN(program, image)
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))
    made = {"compiler": library, "flags": flags, "suffix": ".cu", "source": source, "command": options, "arch": arch}
    _keep(output, made, log)
    with tempfile.NamedTemporaryFile(dir=output.parent, delete=False) as file:
        file.write(image.raw[: size.value])
    os.replace(file.name, output)


def _toolchain(lang: str) -> dict[str, Any]:
    toolchains = json.loads(os.environ.get("KFORGE_TOOLCHAINS", "null")) or _BUILTIN_TOOLCHAINS
    if lang not in toolchains:
        raise BuildError(f"lang={lang!r} is not available for this target; known: {', '.join(sorted(toolchains))}")
    found: dict[str, Any] = toolchains[lang]
    return found


def _check_flags(flags: list[str], lang: str = "cpp") -> None:
    fast_allowed = os.environ.get("KFORGE_MATH", "exact") == "fast"
    cuda = lang in ("cuda", "ptx")
    fast, safe = (_FAST_MATH_CUDA_FLAG, _SAFE_CUDA_FLAG) if cuda else (_FAST_MATH_FLAG, _SAFE_FLAG)
    for flag in _joined(flags) if cuda else flags:
        if fast.fullmatch(flag):
            if not fast_allowed:
                raise FlagError(f"flag {flag} changes results; it needs `math='fast'` in the problem's contract")
        elif cuda and re.match(r"--?(arch|gencode|gpu-architecture|generate-code)\b", flag):
            raise FlagError(f"flag {flag} is not allowed: leave it out, the build is for the device's own architecture")
        elif not safe.fullmatch(flag):
            kinds = (
                "-O, -D, -Xptxas, -maxrregcount and other optimisation flags"
                if cuda
                else "optimisation, -m, -f and -D flags"
            )
            raise FlagError(f"flag {flag} is not allowed; use {kinds} only")


def _joined(flags: list[str]) -> Iterable[str]:
    """Flags with their values: `-Xptxas -v` and `-Xptxas=-v` are the same."""
    words = iter(flags)
    for word in words:
        yield f"{word}={next(words, '')}" if word in _VALUED_CUDA_FLAGS else word


def _arch(named: str | None) -> str:
    """What CUDA is compiled for: named by the caller, by kforge, or the device's own with its special instructions."""
    found = named or os.environ.get("KFORGE_ARCH", "")
    if found and found != "native":
        if not re.fullmatch(r"sm_\d{2,3}[af]?", found):
            raise BuildError(f"the architecture {found!r} is not known: write something like sm_90a")
        return found
    if not torch.cuda.is_available():
        return "sm_90a"
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" + ("a" if (major, minor) in ((9, 0), (10, 0), (12, 0)) else "")


@functools.cache
def _compiler(names: tuple[str, ...], lang: str) -> str:
    if names == ("nvcc",):
        found = _nvcc()
        if found is None:
            advice = (
                'install the CUDA toolkit or NVIDIA\'s wheels (`kforge doctor` names the command), or use jit="nvrtc"'
            )
            raise BuildError(f"no compiler for lang={lang!r}: nvcc is neither on PATH nor in CUDA_HOME; {advice}")
        return found
    for name in names:
        path = shutil.which(name)
        if path:
            return os.path.realpath(path)
    raise BuildError(f"no compiler for lang={lang!r}: none of {', '.join(names)} is on PATH")


def _packaged(pattern: str) -> list[str]:
    """Files of installed packages, such as NVIDIA's wheels, without importing anything."""
    return [
        path for entry in sys.path if entry for path in sorted(glob.glob(os.path.join(glob.escape(entry), pattern)))
    ]


def _cuda_homes() -> list[str]:
    named = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    return [home for home in [*named, "/usr/local/cuda"] if home]


def _nvcc() -> str | None:
    """KFORGE_NVCC, PATH, the toolkit's usual places, then NVIDIA's wheels."""
    named = os.environ.get("KFORGE_NVCC")
    places = [named, shutil.which("nvcc"), *(os.path.join(home, "bin", "nvcc") for home in _cuda_homes())]
    places += _packaged("nvidia/*/bin/nvcc")
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def _ptxas(arch: str) -> str | None:
    """Beside nvcc, on PATH, or the one that Triton brings along, which is another one for Blackwell."""
    nvcc = _nvcc()
    places = [os.path.join(os.path.dirname(nvcc), "ptxas")] if nvcc else []
    places += [shutil.which("ptxas") or ""]
    triton = _packaged("triton/backends/nvidia/bin/ptxas*")
    blackwell = int(re.sub(r"\D", "", arch)) >= 100
    places += sorted(triton, key=lambda path: path.endswith("-blackwell") is not blackwell)
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


@functools.cache
def _nvrtc_library() -> str:
    found = _packaged("nvidia/*/lib/libnvrtc.so*") + _packaged("torch/lib/libnvrtc*.so*")
    for home in [*_cuda_homes(), *([os.path.dirname(os.path.dirname(nvcc))] if (nvcc := _nvcc()) else [])]:
        found += glob.glob(os.path.join(home, "lib*", "libnvrtc.so*"))
    found = [path for path in found if "builtins" not in path and ".alt." not in path]
    if not found:
        raise BuildError("no NVRTC here: it comes with torch for CUDA, or `pip install nvidia-cuda-nvrtc`")
    return found[0]


def _cuda_includes(library: str) -> list[str]:
    """Folders of CUDA's headers beside a library of the toolkit or of its wheels."""
    home = os.path.dirname(os.path.dirname(library))
    homes = [home, os.path.join(os.path.dirname(home), "cuda_runtime"), *_cuda_homes()]
    return [os.path.join(home, *folder) for home in homes for folder in (("include",), ("include", "cccl"))]


def _cuda_libraries(libs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags that find the headers and that link."""
    include: list[str] = []
    link: list[str] = []
    for lib in dict.fromkeys(libs):
        if lib == "cutlass":
            include += ["--expt-relaxed-constexpr", *(f"-I{folder}" for folder in _cutlass())]
        elif lib in _CUDA_LIBRARIES:
            path = _cuda_library(lib)
            folder = os.path.dirname(path)
            link += [f"-L{folder}", f"-l:{os.path.basename(path)}"]
            # The driver's stub must not be what is loaded; the others may lie where the loader does not look.
            link += [] if lib == "cuda" else ["-Xlinker", f"-rpath={folder}"]
            headers = os.path.join(os.path.dirname(folder), "include")
            # After the compiler's own headers, which may be of another version than these.
            include += [f"-isystem={headers}"] if os.path.isdir(headers) else []
        else:
            raise FlagError(f"library {lib!r} is not known; there are cutlass, {', '.join(_CUDA_LIBRARIES)}")
    return list(dict.fromkeys(include)), link


def _own_libraries(compiler: str) -> list[str]:
    """Where wheels have CUDA's runtime: the nvcc of some, such as 13.0, looks in lib64 only."""
    folder = os.path.join(os.path.dirname(os.path.dirname(compiler)), "lib")
    return [f"-L{folder}"] if os.path.isfile(os.path.join(folder, "libcudart_static.a")) else []


def _cuda_library(name: str) -> str:
    found = []
    for home in [*_cuda_homes(), *([os.path.dirname(os.path.dirname(nvcc))] if (nvcc := _nvcc()) else [])]:
        for folder in ("lib64/stubs", "lib/stubs", "lib64", "lib") if name == "cuda" else ("lib64", "lib"):
            found += sorted(glob.glob(os.path.join(home, folder, f"lib{name}.so*")))
    found += _packaged(f"nvidia/*/lib/lib{name}.so*")
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/lib64"):
        found += sorted(glob.glob(os.path.join(folder, f"lib{name}.so*")))
    if not found:
        package = {"cudnn": "nvidia-cudnn-cu13", "cuda": ""}.get(name, "nvidia-cublas")
        advice = (
            f"`pip install {package}` or install the CUDA toolkit"
            if package
            else "install NVIDIA's driver or the CUDA toolkit"
        )
        raise BuildError(f"lib{name} is not here: {advice}")
    return found[0]


def _cutlass() -> list[str]:
    roots = [os.environ.get(name, "") for name in ("KFORGE_CUTLASS", "CUTLASS_PATH")]
    roots += _packaged("cutlass_library/source")
    for root in roots:
        if root and os.path.isfile(os.path.join(root, "include", "cutlass", "cutlass.h")):
            folders = [os.path.join(root, "include"), os.path.join(root, "tools", "util", "include")]
            return [folder for folder in folders if os.path.isdir(folder)]
    raise BuildError("CUTLASS is not here: `pip install nvidia-cutlass`, or name its folder in CUTLASS_PATH")


def _build_dir() -> Path:
    base = os.environ.get("KFORGE_BUILD_DIR")
    folder = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kforge" / "rt"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _current_stream(device: str) -> int:
    if device == "cuda":
        # What `current_stream()` wraps into an object; this is on the path of every launch.
        raw: int = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
        return raw
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
