"""Who computes: framework operators, or the candidate's own kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import kforge_rt
from kforge_harness.hostile import audit

HARNESS = Path(__file__).resolve().parents[1]


def test_operators_that_compute_are_named_and_timed() -> None:
    x = torch.randn(64, 64)
    with torch.inference_mode(), audit.OperatorClock(lambda: None) as clock:
        torch.softmax(x @ x, -1)
        torch.relu(x)
    assert "relu" in clock.names() and "matmul" in clock.names() and any("softmax" in n for n in clock.names())
    assert clock.nanoseconds > 0 and clock.names() == sorted(set(clock.names()))


def test_making_and_viewing_is_no_computing() -> None:
    x = torch.randn(4, 4)
    with torch.inference_mode(), audit.OperatorClock(lambda: None) as clock:
        y = torch.empty_like(x).copy_(x.t()).view(2, 8)[0].contiguous().clone()
        torch.zeros(3).fill_(1)
        assert y.numel() == 8
    assert clock.names() == [] and clock.nanoseconds == 0


def test_failed_launches_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kforge_rt._Audit, "failures", 2)
    assert audit.failed_launches() == 2


def test_launches_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kforge_rt._Audit, "launches", 3)
    found = audit.Audit(skip=False)
    found.foreign = 4
    assert found.launches() == 7
    found.triton = SimpleNamespace(launch_count=lambda: 5)
    assert found.launches() == 12


def test_an_extension_s_results_are_poisoned_and_its_writes_are_lost() -> None:
    def fill(out: torch.Tensor, others: list[torch.Tensor]) -> tuple[torch.Tensor, int]:
        out.fill_(1)
        others[0].fill_(1)
        return out * 2, 3

    counted = audit.Audit(skip=True)
    extension = audit._Poisoned(SimpleNamespace(fill=fill, VERSION="1"), counted)
    a, b, c = torch.zeros(2), torch.zeros(2), torch.zeros(2)
    result, number = extension.fill(a, [b])
    extension.fill(out=c, others=[b])
    assert torch.isnan(result).all() and number == 3 and extension.VERSION == "1"
    assert a.tolist() == b.tolist() == c.tolist() == [0, 0] and counted.foreign == 2


SKIPPING = """
import ctypes, os, subprocess, sys
import torch
import kforge_rt
from kforge_harness.hostile import audit
found = audit.install(skip_kernels=True, interpret=False, source="", arch="")
source = 'extern "C" int one(float* y) { y[0] = 1; return 9; }'
os.environ["KFORGE_BUILD_DIR"] = os.getcwd()
lib = kforge_rt.build(source, flags=["-O1"])
y = torch.zeros(1)
lib.one(y)
assert float(y) == 0 and found.launches() == 1, "through the runtime"
path = str(lib._path)
for load in (ctypes.CDLL, ctypes.cdll.LoadLibrary):
    plain = load(path)
    plain.one.argtypes = [ctypes.c_void_p]
    plain.one.restype = ctypes.c_int
    assert plain.one(y.data_ptr()) == 0 and float(y) == 0, "through ctypes"
assert found.launches() == 3
assert torch.isnan(torch.empty(8)).all(), "memory that nobody wrote is not right by chance"
assert ctypes.CDLL(None).abs(-3) == 3, "libc is left alone"
print("done")
"""
COUNTING = """
import ctypes
import torch
import kforge_rt
from kforge_harness.hostile import audit
real = ctypes.CDLL
found = audit.install(skip_kernels=False, interpret=False, source="", arch="")
assert ctypes.CDLL is real and not kforge_rt._Audit.skip_kernels and found.launches() == 0
print("done")
"""


@pytest.mark.parametrize("script", [SKIPPING, COUNTING], ids=["skipping", "counting"])
def test_in_a_process_of_its_own(tmp_path: Path, script: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(HARNESS), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "done", done.stderr
