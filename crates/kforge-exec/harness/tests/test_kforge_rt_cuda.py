"""The CUDA half of the runtime: built for real, launched against a driver that writes down what it is told."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import kforge_rt
from kforge_harness.hostile.failure import classify
from kforge_rt import _cuda, _launch, _module, _toolchain
from kforge_rt._errors import MissingCompiler

needs_nvcc = pytest.mark.skipif(_cuda.find_nvcc() is None, reason="no nvcc here: scripts/cuda-tools brings one")

SOURCE = r"""
#include <cstdint>
__global__ void twice(const float* x, float* y, int64_t n, float by) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
extern "C" int launch_twice(const float* x, float* y, int64_t n, double by, void* stream) {
    twice<<<(n + 255) / 256, 256, 0, static_cast<cudaStream_t>(stream)>>>(x, y, n, static_cast<float>(by));
    return static_cast<int>(cudaGetLastError());
}
extern "C" int code(int64_t value, void*) { return static_cast<int>(value); }
extern "C" int is_stream(int64_t flag, double half, float quarter, void* stream) {
    return flag == 1 && half == 0.5 && quarter == 0.25f && stream == reinterpret_cast<void*>(4711) ? 0 : 5;
}
"""
KERNEL = 'extern "C" __global__ void fill(float* y, long long n, double value) { if (threadIdx.x < n) y[threadIdx.x] = value; }'
PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry nothing(.param .u64 p) {
    ret;
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KFORGE_BUILD_DIR", str(tmp_path))
    for name in ("KFORGE_ARCH", "KFORGE_MATH", "KFORGE_TOOLCHAINS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("launches", 0), ("failures", 0), ("skip_kernels", False)):
        monkeypatch.setattr(kforge_rt._Audit, name, value)
    return tmp_path


def suffixes(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


@needs_nvcc
def test_a_library_is_built_for_its_architecture_and_says_how(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = kforge_rt.build(SOURCE, lang="cuda", name="twice")
    assert suffixes(folder) == [".json", ".log", ".so"]
    (made,) = (json.loads(path.read_text()) for path in folder.glob("*.json"))
    assert made["source"] == SOURCE and made["flags"] == ["-O3", "-std=c++17"] and made["suffix"] == ".cu"
    assert "-gencode=arch=compute_90a,code=sm_90a" in made["command"] and made["compiler"].endswith("nvcc")
    (log,) = (path.read_text() for path in folder.glob("*.log"))
    assert re.search(r"Compiling entry function '\w*twice\w*' for 'sm_90a'", log) and "registers" in log
    assert b"sm_90a" in lib._path.read_bytes()
    monkeypatch.setenv("KFORGE_ARCH", "sm_80")
    other = kforge_rt.build(SOURCE, lang="cuda", name="twice")
    assert other._path != lib._path and "for 'sm_80'" in other._path.with_suffix(".log").read_text()
    assert kforge_rt.build(SOURCE, lang="cuda", name="twice", arch="sm_90a")._path == lib._path


@needs_nvcc
def test_launchers_get_the_stream_and_their_errors_get_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_launch, "current_stream", lambda _device: 4711)
    lib = kforge_rt.build(SOURCE, lang="cuda")
    lib.is_stream(True, 0.5, ctypes.c_float(0.25))
    with pytest.raises(kforge_rt.LaunchError, match="code returned 9, as a CUDA error cudaErrorInvalidConfiguration"):
        lib.code(9)
    with pytest.raises(kforge_rt.LaunchError, match=r"code returned 77$"):
        lib.code(77)
    with pytest.raises(TypeError, match="argument 0 is on cpu, this kernel runs on cuda"):
        lib.launch_twice(torch.ones(1), torch.ones(1), 1, 2.0)
    assert (kforge_rt._Audit.launches, kforge_rt._Audit.failures) == (4, 2)
    monkeypatch.setattr(kforge_rt._Audit, "skip_kernels", True)
    lib.code(9)
    assert (kforge_rt._Audit.launches, kforge_rt._Audit.failures) == (5, 2)


def digest(source: str, **options: Any) -> str:
    with pytest.raises(kforge_rt.BuildError) as caught:
        kforge_rt.build(source, **options)
    found = classify(caught.value, "import", "candidate.py")
    assert found.kind == "compiler"
    assert "/" not in found.text.replace("/*", ""), f"no path of this machine: {found.text}"
    return found.text


LAUNCH = 'extern "C" int f(float* y, void*) { k<<<1, 1>>>(y); return 0; }\n'


@needs_nvcc
def test_errors_of_nvcc_and_its_assembler_become_digests(folder: Path) -> None:
    text = digest("__global__ void k(float* y) {\n    y[0] = nothing;\n    flot z;\n}\n" + LAUNCH, lang="cuda")
    assert text.splitlines() == [
        'kernel.cu(2): error: identifier "nothing" is undefined',
        "      y[0] = nothing;",
        "             ^",
        "(1 more errors follow)",
    ]
    large = "__global__ void k(float* y) {\n __shared__ float a[60000];\n a[threadIdx.x] = 1; __syncthreads();\n y[0] = a[threadIdx.x ^ 1];\n}\n"
    assert "uses too much shared data" in digest(large + LAUNCH, lang="cuda")
    text = digest('__global__ void k(float* y) { asm volatile("wgmma.nothing;"); }\n' + LAUNCH, lang="cuda")
    assert text.splitlines()[0] == "ptxas kernel.ptx, line 23; error   : Unknown modifier '.nothing'"
    assert "fatal error: no.h: No such file" in digest('#include "no.h"\n', lang="cuda")
    assert "Unsupported gpu architecture 'compute_35'" in digest(SOURCE, lang="cuda", arch="sm_35")
    assert not list(folder.iterdir()), "nothing half-made is left"


@needs_nvcc
def test_a_warning_that_shows_the_word_error_is_not_the_error() -> None:
    source = 'extern "C" int f(void*) {\n    int error : 3;\n    return 0;\n}\n'
    assert digest("int g() { int error = 1; return 0; }\n" + source, lang="cuda").startswith("kernel.cu(3): error:")


def nvrtc_here() -> bool:
    try:
        return bool(_cuda.nvrtc_library())
    except kforge_rt.BuildError:
        return False


needs_nvrtc = pytest.mark.skipif(not nvrtc_here(), reason="no NVRTC here: it comes with torch for CUDA")


@needs_nvrtc
def test_nvrtc_builds_kernels_without_nvcc(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cuda, "find_nvcc", lambda: None)
    source = "#include <cuda_fp16.h>\n" + KERNEL
    flags = ["-O3", "-std=c++17", "-Xptxas", "-O2", "--maxrregcount=64", "-DTILE=4", "-lineinfo"]
    lib = kforge_rt.build(source, lang="cuda", jit="nvrtc", flags=flags)
    assert isinstance(lib, kforge_rt.Module) and suffixes(folder) == [".cubin", ".json", ".log"]
    assert lib._path.read_bytes()[:4] == b"\x7fELF" and "registers" in lib._path.with_suffix(".log").read_text()
    text = digest("\n\n" + KERNEL.replace("value;", "valu;"), lang="cuda", jit="nvrtc")
    assert text.startswith('kernel.cu(3): error: identifier "valu" is undefined')


@pytest.mark.skipif(_cuda.find_ptxas("sm_90a") is None, reason="no ptxas here: it comes with Triton and with nvcc")
def test_ptx_is_checked_by_the_assembler(folder: Path) -> None:
    lib = kforge_rt.build(PTX, lang="ptx")
    assert lib._path.read_bytes()[:4] == b"\x7fELF" and suffixes(folder) == [".cubin", ".json", ".log"]
    kforge_rt.build(PTX, lang="ptx", flags=["-O2", "-Xptxas", "-v", "-maxrregcount=32"])
    text = digest(PTX.replace("    ret;", "    mov.f33 a, b;"), lang="ptx")
    assert text.startswith("ptxas kernel.ptx, line 5; error   : Unknown modifier '.f33'")


def test_ptx_without_an_assembler_is_left_to_the_driver(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cuda, "find_ptxas", lambda _arch: None)
    assert kforge_rt.build(PTX, lang="ptx")._path.read_text() == PTX


DRIVER = r"""
#include <cstdint>
#include <cstring>
extern "C" {
int64_t told[12];
int fail = 0;
int cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void** values) {
    if (std::strstr(static_cast<const char*>(image), "refused")) { std::strcpy(static_cast<char*>(values[0]), "line 1: no"); return 218; }
    *module = reinterpret_cast<void*>(1);
    return 0;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
    *function = reinterpret_cast<void*>(2);
    return std::strcmp(name, "missing") == 0 ? 500 : 0;
}
int cuFuncGetParamInfo(void*, size_t index, size_t*, size_t* size) {
    const size_t sizes[] = {8, 8, 8, 4};
    if (index >= 4) return 1;
    *size = sizes[index];
    return 0;
}
int cuFuncSetAttribute(void*, int attribute, int value) { told[10] = attribute; told[11] = value; return 0; }
int cuGetErrorName(int code, const char** name) { *name = code == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_INVALID_PTX"; return 0; }
int cuLaunchKernel(void*, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** params, void**) {
    const int64_t all[] = {gx, gy, gz, bx, by, bz, shared, (int64_t)stream, *(int64_t*)params[1], *(double*)params[2] == 0.5 && *(float*)params[3] == 0.25f};
    std::memcpy(told, all, sizeof(all));
    return fail;
}
}
"""


@pytest.fixture
def driver(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    """Stands in for libcuda on a machine that has none."""
    place = tmp_path_factory.mktemp("driver")
    (place / "driver.cpp").write_text(DRIVER)
    subprocess.run(
        ["c++", "-shared", "-fPIC", "-w", str(place / "driver.cpp"), "-o", str(place / "cuda.so")], check=True
    )
    made = ctypes.CDLL(str(place / "cuda.so"))
    monkeypatch.setattr(_module, "_driver", lambda: made)
    monkeypatch.setattr(_module, "current_stream", lambda _device: 4711)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    yield made


@pytest.fixture
def module(driver: ctypes.CDLL, folder: Path) -> kforge_rt.Module:
    path = folder / "fake.cubin"
    path.write_bytes(b"image")
    return kforge_rt.Module(path)


def test_kernels_are_launched_through_the_driver(driver: ctypes.CDLL, module: kforge_rt.Module) -> None:
    told = (ctypes.c_int64 * 12).in_dll(driver, "told")
    module.fill[(7, 2), 256](None, 1 << 40, 0.5, ctypes.c_float(0.25))
    assert list(told) == [7, 2, 1, 256, 1, 1, 0, 4711, 1 << 40, 1, 0, 0]
    module.fill[3, (8, 4, 2), 100_000](None, -1, 0.5, ctypes.c_float(0.25))
    assert list(told) == [3, 1, 1, 8, 4, 2, 100_000, 4711, -1, 1, 8, 100_000]
    assert kforge_rt._Audit.launches == 2


def test_a_failed_launch_has_the_driver_s_name_for_it(driver: ctypes.CDLL, module: kforge_rt.Module) -> None:
    ctypes.c_int.in_dll(driver, "fail").value = 1
    with pytest.raises(kforge_rt.LaunchError, match=r"fill returned 1 \(CUDA_ERROR_INVALID_VALUE\)"):
        module.fill[1, 1](None, 1, 0.5, ctypes.c_float(0.25))
    assert kforge_rt._Audit.failures == 1


def test_wrong_calls_say_how_it_is_done(module: kforge_rt.Module, folder: Path) -> None:
    with pytest.raises(TypeError, match="fill takes 4 arguments, 1 were given"):
        module.fill[1, 1](None)
    with pytest.raises(TypeError, match=r"argument 3 has 8 bytes, the kernel's parameter 4: .*ctypes.c_float"):
        module.fill[1, 1](None, 1, 0.5, 0.25)
    with pytest.raises(TypeError, match=r"write fill\[grid, block\]"):
        module.fill(None)
    with pytest.raises(TypeError, match=r"fill\[grid, block, shared\]"):
        module.fill[1]
    for bad in (0, (1, 2, 3, 4), 1.5, ()):
        with pytest.raises(TypeError, match="1 to 3 positive ints"):
            module.fill[bad, 1]
    with pytest.raises(AttributeError, match="there is no kernel 'missing'"):
        module.missing[1, 1]()
    (folder / "refused.cubin").write_bytes(b"refused")
    with pytest.raises(kforge_rt.BuildError, match="CUDA_ERROR_INVALID_PTX") as caught:
        kforge_rt.Module(folder / "refused.cubin").fill[1, 1]()
    assert caught.value.log == "line 1: no"


def test_skipped_kernels_need_no_driver(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kforge_rt._Audit, "skip_kernels", True)
    kforge_rt.Module(folder / "none.cubin").fill[1, 1](None, 1)
    assert kforge_rt._Audit.launches == 1


@pytest.mark.parametrize(
    ("capability", "arch"),
    [
        ((9, 0), "sm_90a"),
        ((10, 0), "sm_100a"),
        ((12, 0), "sm_120a"),
        ((8, 6), "sm_86"),
        ((10, 3), "sm_103"),
        (None, "sm_90a"),
    ],
)
def test_architectures(capability: tuple[int, int] | None, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert _cuda.arch(None) == arch
    monkeypatch.setenv("KFORGE_ARCH", "native")
    assert _cuda.arch(None) == arch
    monkeypatch.setenv("KFORGE_ARCH", "sm_89")
    assert (_cuda.arch(None), _cuda.arch("sm_80")) == ("sm_89", "sm_80")
    with pytest.raises(kforge_rt.BuildError, match="write something like sm_90a"):
        _cuda.arch("sm_90a -ccbin x")


@needs_nvcc
def test_cutlass_headers_are_found_or_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cuda, "packaged", lambda _pattern: [])
    for name in ("KFORGE_CUTLASS", "CUTLASS_PATH"):
        monkeypatch.delenv(name, raising=False)
    source = '#include <cutlass/cutlass.h>\nextern "C" int f(void*) { return CUTLASS_FAKE; }\n'
    with pytest.raises(kforge_rt.BuildError, match="pip install nvidia-cutlass"):
        kforge_rt.build(source, lang="cuda", libs=["cutlass"])
    header = folder / "tree/include/cutlass/cutlass.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define CUTLASS_FAKE 0\n")
    monkeypatch.setenv("CUTLASS_PATH", str(folder / "tree"))
    monkeypatch.setattr(_launch, "current_stream", lambda _device: 0)
    kforge_rt.build(source, lang="cuda", libs=["cutlass"]).f()
    with pytest.raises(kforge_rt.FlagError, match="library 'ssl' is not known; there are cutlass, cublas"):
        kforge_rt.build(source, lang="cuda", libs=["ssl"])


@needs_nvcc
@pytest.mark.skipif(not _cuda.packaged("nvidia/*/lib/libcublas.so*"), reason="torch for the CPU brings no cuBLAS")
@pytest.mark.parametrize("how", [{"libs": ["cublas"]}, {"flags": ["-O3", "-lcublas"]}], ids=["libs", "flags"])
def test_cublas_is_linked_from_where_torch_has_it(how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_launch, "current_stream", lambda _device: 0)
    source = 'extern "C" int cublasGetProperty(int, int*);\nextern "C" int f(void*) { int n = 0; return cublasGetProperty(0, &n) || n < 11; }\n'
    kforge_rt.build(source, lang="cuda", **how).f()


def test_what_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(kforge_rt.BuildError, match='there is jit="nvrtc" for lang="cuda"'):
        kforge_rt.build("", lang="cpp", jit="nvrtc")
    monkeypatch.setattr(_cuda, "find_nvcc", lambda: None)
    _toolchain.compiler.cache_clear()
    with pytest.raises(MissingCompiler, match="neither on PATH nor in CUDA_HOME; install the CUDA toolkit") as nvcc:
        kforge_rt.build(SOURCE, lang="cuda")
    monkeypatch.setattr(_cuda, "packaged", lambda _pattern: [])
    monkeypatch.setattr(_cuda, "_homes", lambda: [])
    _cuda.nvrtc_library.cache_clear()
    with pytest.raises(MissingCompiler, match="no NVRTC here") as nvrtc:
        kforge_rt.build(KERNEL, lang="cuda", jit="nvrtc")
    assert (nvcc.value.tool, nvrtc.value.tool) == ("nvcc", "nvrtc")
    monkeypatch.setenv("KFORGE_TOOLCHAINS", json.dumps({"cpp": _toolchain.BUILTIN_TOOLCHAINS["cpp"]}))
    for lang in ("cuda", "ptx"):
        with pytest.raises(kforge_rt.BuildError, match="lang='cuda' is not available for this target; known: cpp"):
            kforge_rt.build(SOURCE, lang=lang)


def test_a_named_nvcc_comes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = folder / "nvcc"
    own.write_text("#!/bin/sh\n")
    monkeypatch.setenv("KFORGE_NVCC", str(own))
    assert _cuda.find_nvcc() != str(own), "it cannot be run"
    os.chmod(own, 0o755)
    assert _cuda.find_nvcc() == str(own)


TARGETS = Path(__file__).resolve().parents[3] / "kforge/targets"


@pytest.mark.parametrize("lang, target", [("cpp", "cpu-cpp"), ("cuda", "nvidia-cuda")])
def test_the_target_s_folder_and_the_exported_runtime_build_alike(lang: str, target: str) -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 and later read TOML")
    told = tomllib.loads((TARGETS / target / "target.toml").read_text())
    assert told["toolchain"] == {lang: _toolchain.BUILTIN_TOOLCHAINS[lang]}


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_the_target_s_example_compiles_without_spills(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORGE_ARCH", arch)
    space: dict[str, Any] = {}
    exec(compile((TARGETS / "nvidia-cuda/example/candidate.py").read_text(), "candidate.py", "exec"), space)
    log = space["lib"]._path.with_suffix(".log").read_text()
    assert f"for '{arch}'" in log and "0 bytes spill stores, 0 bytes spill loads" in log


HOPPER = r"""
#include <cuda.h>
__global__ void k(const __grid_constant__ CUtensorMap map) { asm volatile("wgmma.fence.sync.aligned;"); }
extern "C" int f(void* stream) {
    void* encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
    CUtensorMap map{};
    k<<<1, 128, 0, static_cast<cudaStream_t>(stream)>>>(map);
    return static_cast<int>(cudaGetLastError());
}
"""


@needs_nvcc
def test_hopper_s_own_instructions_are_there_by_default() -> None:
    kforge_rt.build(HOPPER, lang="cuda")
    assert "wgmma" in digest(HOPPER, lang="cuda", arch="sm_90")
