"""What the inspector and the reference's operator report say, and what they refuse to read."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import kforge_rt
from kforge_harness.hostile import inspector, operators

SOURCE = """
#include <cstdint>
extern "C" int add(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] + 1.0f;
    return 0;
}
"""


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KFORGE_BUILD_DIR", str(tmp_path))
    kforge_rt.build(SOURCE, flags=["-O3"], name="add")
    return tmp_path


def test_a_build_leaves_its_source_and_is_reported(built: Path) -> None:
    (report,) = inspector.reports(str(built))
    assert report["source"] == SOURCE
    assert report["error"] == ""
    assert "kernel.cpp:4" in report["log"]
    assert "vectorized" in report["log"]
    assert str(built) not in report["log"]


@pytest.mark.parametrize("suffix", [".cu", ".ptx"])
def test_only_c_plus_plus_is_compiled_again(built: Path, suffix: str) -> None:
    (kept,) = built.glob("*.json")
    other = built / "nvcc"
    other.write_text(f"#!/bin/sh\ntouch {built}/was-run\n")
    other.chmod(0o755)
    made = {**json.loads(kept.read_text()), "suffix": suffix, "compiler": str(other)}
    for number in range(4):  # as many as are looked at, and before the one in C++
        (built / f"a{number}.json").write_text(json.dumps(made))
    (report,) = inspector.reports(str(built))
    assert report["name"] == kept.name and not (built / "was-run").exists()


@pytest.mark.skipif(
    shutil.which("objdump") is None, reason="install binutils, then: python -m pytest tests/test_inspector.py"
)
def test_libraries_are_disassembled(built: Path) -> None:
    found = inspector.disassembly(str(built))
    assert "<add>:" in found["libraries"][0]["text"]


def test_links_pipes_and_nonsense_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "b.json")
    (tmp_path / "c.json").write_text("[1, 2]")
    (tmp_path / "d.json").write_text("{")
    (tmp_path / "e.so").write_text("no library")
    assert inspector.reports(str(tmp_path)) == []
    assert inspector.disassembly(str(tmp_path))["libraries"] == []


def test_the_reference_is_told_by_operators() -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
    x = torch.randn(16, 64)
    report = json.loads(operators.report(model, lambda: [x], 3))
    assert report["product_flops"] == 2 * 16 * 64 * 32
    assert report["other_flops"] == 16 * 32
    assert report["moved_bytes"] >= 4 * (16 * 64 + 64 * 32 + 2 * 16 * 32)
    shares = [row["share"] for row in report["operators"]]
    assert shares == sorted(shares, reverse=True)
    assert any(row["name"] == "aten::addmm" for row in report["operators"])


def test_the_profilers_own_work_is_nobodys_operator() -> None:
    assert operators.is_overhead("Activity Buffer Request") and operators.is_overhead("ProfilerStep*")
    assert not operators.is_overhead("aten::addmm") and not operators.is_overhead("softmax_registers")


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
def test_kernels_without_a_gpu_are_a_reason() -> None:
    report = json.loads(operators.kernels(nn.ReLU(), lambda: [torch.ones(2)], 1))
    assert report["kernels"] == []
    assert report["error"] is None or "rofiler" in report["error"]
