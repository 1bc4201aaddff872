"""Where CUDA's compilers, libraries and headers lie, and what they compile for."""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import sys
from collections.abc import Sequence

import torch

from ._errors import BuildError, FlagError, MissingCompiler

LIBRARIES = ("cublas", "cublasLt", "cudnn", "cuda")


def arch(named: str | None) -> str:
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


def packaged(pattern: str) -> list[str]:
    """Files of installed packages, such as NVIDIA's wheels, without importing anything."""
    return [
        path for entry in sys.path if entry for path in sorted(glob.glob(os.path.join(glob.escape(entry), pattern)))
    ]


def _homes() -> list[str]:
    named = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    return [home for home in [*named, "/usr/local/cuda"] if home]


def find_nvcc() -> str | None:
    """KFORGE_NVCC, PATH, the toolkit's usual places, then NVIDIA's wheels."""
    named = os.environ.get("KFORGE_NVCC")
    places = [named, shutil.which("nvcc"), *(os.path.join(home, "bin", "nvcc") for home in _homes())]
    places += packaged("nvidia/*/bin/nvcc")
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def find_ptxas(arch: str) -> str | None:
    """Beside nvcc, on PATH, or the one that Triton brings along, which is another one for Blackwell."""
    nvcc = find_nvcc()
    places = [os.path.join(os.path.dirname(nvcc), "ptxas")] if nvcc else []
    places += [shutil.which("ptxas") or ""]
    triton = packaged("triton/backends/nvidia/bin/ptxas*")
    blackwell = int(re.sub(r"\D", "", arch)) >= 100
    places += sorted(triton, key=lambda path: path.endswith("-blackwell") is not blackwell)
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


@functools.cache
def nvrtc_library() -> str:
    found = packaged("nvidia/*/lib/libnvrtc.so*") + packaged("torch/lib/libnvrtc*.so*")
    for home in [*_homes(), *([os.path.dirname(os.path.dirname(nvcc))] if (nvcc := find_nvcc()) else [])]:
        found += glob.glob(os.path.join(home, "lib*", "libnvrtc.so*"))
    found = [path for path in found if "builtins" not in path and ".alt." not in path]
    if not found:
        message = "no NVRTC here: it comes with torch for CUDA, or `pip install nvidia-cuda-nvrtc`"
        raise MissingCompiler(message, "nvrtc")
    return found[0]


def includes(library: str) -> list[str]:
    """Folders of CUDA's headers beside a library of the toolkit or of its wheels."""
    home = os.path.dirname(os.path.dirname(library))
    homes = [home, os.path.join(os.path.dirname(home), "cuda_runtime"), *_homes()]
    return [os.path.join(home, *folder) for home in homes for folder in (("include",), ("include", "cccl"))]


def libraries(libs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags that find the headers and that link."""
    include: list[str] = []
    link: list[str] = []
    for lib in dict.fromkeys(libs):
        if lib == "cutlass":
            include += ["--expt-relaxed-constexpr", *(f"-I{folder}" for folder in _cutlass())]
        elif lib in LIBRARIES:
            path = _library(lib)
            folder = os.path.dirname(path)
            link += [f"-L{folder}", f"-l:{os.path.basename(path)}"]
            # The driver's stub must not be what is loaded; the others may lie where the loader does not look.
            link += [] if lib == "cuda" else ["-Xlinker", f"-rpath={folder}"]
            headers = os.path.join(os.path.dirname(folder), "include")
            # After the compiler's own headers, which may be of another version than these.
            include += [f"-isystem={headers}"] if os.path.isdir(headers) else []
        else:
            raise FlagError(f"library {lib!r} is not known; there are cutlass, {', '.join(LIBRARIES)}")
    return list(dict.fromkeys(include)), link


def own_libraries(compiler: str) -> list[str]:
    """Where wheels have CUDA's runtime: the nvcc of some, such as 13.0, looks in lib64 only."""
    folder = os.path.join(os.path.dirname(os.path.dirname(compiler)), "lib")
    return [f"-L{folder}"] if os.path.isfile(os.path.join(folder, "libcudart_static.a")) else []


def _library(name: str) -> str:
    found = []
    for home in [*_homes(), *([os.path.dirname(os.path.dirname(nvcc))] if (nvcc := find_nvcc()) else [])]:
        for folder in ("lib64/stubs", "lib/stubs", "lib64", "lib") if name == "cuda" else ("lib64", "lib"):
            found += sorted(glob.glob(os.path.join(home, folder, f"lib{name}.so*")))
    found += packaged(f"nvidia/*/lib/lib{name}.so*")
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
    roots += packaged("cutlass_library/source")
    for root in roots:
        if root and os.path.isfile(os.path.join(root, "include", "cutlass", "cutlass.h")):
            folders = [os.path.join(root, "include"), os.path.join(root, "tools", "util", "include")]
            return [folder for folder in folders if os.path.isdir(folder)]
    raise BuildError("CUTLASS is not here: `pip install nvidia-cutlass`, or name its folder in CUTLASS_PATH")
