"""A folder with one Triton candidate, interpreted and compiled in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).resolve().parents[1]

HEAD = """
import torch, triton, triton.language as tl
from torch import nn
"""
RUN = """
import importlib.util, json, sys
import torch
from kforge_harness.hostile.triton import cpu as triton_cpu
triton_cpu.install()
spec = importlib.util.spec_from_file_location("candidate", sys.argv[1])
c = importlib.util.module_from_spec(spec)
sys.modules["candidate"] = c
spec.loader.exec_module(c)
torch.manual_seed(0)
def close(a, b, tol=1e-5):
    with triton_cpu.suspended():
        assert torch.allclose(a.double(), b.double(), rtol=tol, atol=tol), float((a.double() - b.double()).abs().max())
exec(open(sys.argv[2]).read())
json.dump(triton_cpu.recorded_launches(), open(sys.argv[3], "w"))
"""
AOT = """
import importlib.util, json, sys
from kforge_harness.hostile import audit
from kforge_harness.hostile.triton import aot as triton_aot
arch = sys.argv[3] if sys.argv[3] != "vax" else "sm_90"
audit.install(skip_kernels=False, interpret=False, arch=arch, source="", pose=True)
spec = importlib.util.spec_from_file_location("candidate", sys.argv[1])
c = importlib.util.module_from_spec(spec)
sys.modules["candidate"] = c
spec.loader.exec_module(c)
print("REPORT" + json.dumps(triton_aot.compile_launches(c, json.load(open(sys.argv[2])), sys.argv[3])))
"""


class Bench:
    """A folder with one candidate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.candidate = folder / "candidate.py"

    def write(self, source: str) -> Bench:
        self.candidate.write_text(HEAD + textwrap.dedent(source))
        return self

    def script(self, text: str, *args: object) -> subprocess.CompletedProcess[str]:
        path = self.folder / "script.py"
        path.write_text(text)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HARNESS), os.environ.get("PYTHONPATH", "")])}
        environment.pop("TRITON_INTERPRET", None)
        environment["TRITON_CACHE_DIR"] = str(self.folder / "cache")
        command = [sys.executable, str(path), *map(str, args)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    def interpret(self, check: str) -> list[dict[str, Any]]:
        result = self.try_interpret(check)
        assert result.returncode == 0, result.stdout + result.stderr
        launches: list[dict[str, Any]] = json.loads((self.folder / "launches.json").read_text())
        return launches

    def try_interpret(self, check: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "check.py").write_text(textwrap.dedent(check))
        return self.script(RUN, self.candidate, self.folder / "check.py", self.folder / "launches.json")

    def compile(self, launches: list[dict[str, Any]], arch: str = "sm_90") -> list[dict[str, Any]]:
        path = self.folder / "in.json"
        path.write_text(json.dumps(launches))
        result = self.script(AOT, self.candidate, path, arch)
        assert result.returncode == 0, result.stdout + result.stderr
        line = next(line for line in result.stdout.splitlines() if line.startswith("REPORT"))
        reports: list[dict[str, Any]] = json.loads(line.removeprefix("REPORT"))
        return reports


COPY = """
@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
"""
