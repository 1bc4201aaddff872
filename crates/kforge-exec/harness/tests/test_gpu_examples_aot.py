"""The examples for GPUs, compiled ahead of time for Hopper: Triton's kernels at their problems' own sizes, and extensions.

Launches are recorded and not run, so that no example is too large for a machine without a GPU. What the kernels compute
is not looked at here.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
from torch.utils import cpp_extension
from triton_bench import HARNESS, Bench

from kforge_rt import _cuda

EXAMPLES = HARNESS.parents[2] / "examples/gpu"
EXTENSIONS = sorted(EXAMPLES.glob("*/load_inline.py"))

LOAD = """
import importlib.util, json, sys
from pathlib import Path

sys.dont_write_bytecode = True
answer = Path(sys.argv[1])

def load(folder, name):
    spec = importlib.util.spec_from_file_location(name, Path(folder) / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""
RECORD = """
import torch
from kforge_harness.hostile.triton import cpu as triton_cpu
triton_cpu.install("sm_90")
triton_cpu.skip_kernels(True)
launches = {}
for folder in sys.argv[2:]:
    problem, candidate = load(folder, "problem"), load(folder, "nvidia_triton")
    triton_cpu.reset()
    with torch.no_grad():
        candidate.NewModel(*problem.get_init_inputs())(*problem.get_inputs())
    launches[folder] = triton_cpu.recorded_launches()
answer.write_text(json.dumps(launches))
"""
COMPILE = """
from kforge_harness.hostile.triton import aot as triton_aot
reports = {}
for folder, launches in json.loads(answer.read_text()).items():
    reports[folder] = triton_aot.compile_launches(load(folder, "nvidia_triton"), launches, "sm_90")
answer.write_text(json.dumps(reports))
"""


def test_triton_kernels_compile_at_the_sizes_of_their_problems(tmp_path: Path) -> None:
    """Two processes for all examples: one has Triton's interpreter on, the other off, and both are slow to start."""
    bench, answer = Bench(tmp_path), tmp_path / "answer.json"
    folders = sorted(path.parent for path in EXAMPLES.glob("*/nvidia_triton.py"))
    for step, given in ((RECORD, folders), (COMPILE, [])):
        done = bench.script(LOAD + step, answer, *given)
        assert done.returncode == 0, done.stderr[-3000:]
    reports: dict[str, list[dict[str, Any]]] = json.loads(answer.read_text())
    for folder in folders:
        kernels = set(re.findall(r"^def (\w+_kernel)\(", (folder / "nvidia_triton.py").read_text(), re.MULTILINE))
        assert kernels and kernels == {report["kernel"] for report in reports[str(folder)]}, f"{folder.name} calls all"
    wrong = [
        f"{Path(folder).name}: {report}"
        for folder, found in reports.items()
        for report in found
        if not report["ok"] or not 0 < report["registers"] <= 255 or report["stack"]  # a stack is spilled registers
    ]
    assert not wrong, "\n".join(wrong)
    cubins = list((tmp_path / "cache").rglob("*.cubin"))
    assert len(cubins) == sum(map(len, reports.values())) >= 14 and all(cubin.stat().st_size for cubin in cubins)


# What torch/extension.h has besides, bindings and modules, no kernel needs, and to read it takes three times as long.
EXTENSION_HEADER = "#include <torch/types.h>\n"
# Torch for the CPU comes without this header.
STREAM_HEADER = """
#pragma once
#include <cuda_runtime_api.h>
namespace c10::cuda {
struct CUDAStream { cudaStream_t stream() const; };
CUDAStream getCurrentCUDAStream();
}
"""


@pytest.mark.skipif(
    _cuda.find_nvcc() is None and "KFORGE_NVCC" not in os.environ, reason="no nvcc here: scripts/cuda-tools brings one"
)
@pytest.mark.parametrize("path", EXTENSIONS, ids=lambda path: path.parent.name)
def test_extensions_compile_with_torch_s_tensors(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(cpp_extension, "load_inline", lambda **arguments: asked.update(arguments))
    runpy.run_path(str(path))
    source, cubin = tmp_path / "extension.cu", tmp_path / "extension.cubin"
    headers = {"instead/torch/extension.h": EXTENSION_HEADER, "missing/c10/cuda/CUDAStream.h": STREAM_HEADER}
    for name, text in {source.name: asked["cuda_sources"], **headers}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    folders = [tmp_path / "instead", *cpp_extension.include_paths(), tmp_path / "missing"]
    # The device's pass checks the code for the host too.
    flags = ["-cubin", "-arch=sm_90", "-std=c++20", "-w", *cpp_extension.COMMON_NVCC_FLAGS, *asked["extra_cuda_cflags"]]
    nvcc = _cuda.find_nvcc() or os.environ["KFORGE_NVCC"]
    command = [nvcc, *flags, *(f"-I{folder}" for folder in folders), str(source), "-o", str(cubin)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    kernels = set(re.findall(rb"\.text\.(\w+)", cubin.read_bytes()))
    assert len(kernels) == asked["cuda_sources"].count("__global__") > 0, kernels


def test_there_is_an_extension() -> None:
    assert EXTENSIONS, "without one the test above has no case, and says nothing"
