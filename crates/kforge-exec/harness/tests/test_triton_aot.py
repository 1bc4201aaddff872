"""Kernels of an interpreted run, compiled ahead of time; and the example candidates, both ways."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import pytest
from triton_bench import COPY, HARNESS, Bench

sys.path.insert(0, str(HARNESS))
from kforge_harness.hostile.triton import aot as triton_aot

EXAMPLES = [Path(__file__).parent / "triton"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def example(name: str) -> str:
    found = [folder / name for folder in EXAMPLES if (folder / name).exists()]
    assert found, f"no example {name}"
    text: str = found[0].read_text()
    return text


EXAMPLE_CHECKS = {
    "softmax.py": "x = torch.randn(9, 300); close(c.NewModel()(x), torch.softmax(x.double(), -1))",
    "layernorm.py": (
        "x = torch.randn(6, 5000) + 3; m = c.NewModel((5000,)).cuda()\n"
        "close(m(x), torch.nn.functional.layer_norm(x.double(), (5000,)))"
    ),
    "matmul.py": "a, b = torch.randn(70, 100), torch.randn(100, 50); close(c.NewModel()(a, b), a.double() @ b.double())",
    "gelu.py": (
        "x = torch.randn(33, 77); close(c.NewModel()(x), torch.nn.functional.gelu(x.double(), approximate='tanh'))"
    ),
    "bad_compile.py": "x = torch.randn(9, 300); close(c.NewModel()(x), torch.softmax(x.double(), -1))",
    "bad_numeric.py": (
        "x = torch.randn(9, 300); y = c.NewModel()(x).double()\n"
        "assert (y - torch.softmax(x.double(), -1)).abs().max() > 1e-2"
    ),
}


@pytest.mark.parametrize("name", sorted(EXAMPLE_CHECKS))
def test_examples(bench: Bench, name: str) -> None:
    bench.candidate.write_text(example(name))
    launches = bench.interpret(EXAMPLE_CHECKS[name])
    assert len(launches) == 1
    for arch in ("sm_90", "gfx942"):
        (report,) = bench.compile(launches, arch)
        if report["kind"] == "toolchain":  # older Triton has no linker for AMD of its own
            continue
        assert report["ok"] == (name != "bad_compile.py"), report["error"]
        if report["ok"]:
            assert report["registers"] > 0 and report["num_warps"] in (4, 8)
            continue
        assert "Loop-carried variable highest" in report["error"] and "for start in range" in report["error"]
        line = int(report["error"].removeprefix("line ").split(":")[0])
        assert bench.candidate.read_text().splitlines()[line - 1].strip().startswith("for start in range")
        assert len(report["error"].splitlines()) <= 30


def test_shared_memory_over_the_limit(bench: Bench) -> None:
    source = """
    @triton.jit
    def dot(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr, BK: tl.constexpr):
        i, k = tl.arange(0, BLOCK), tl.arange(0, BK)
        acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
        for start in range(0, K, BK):
            a = tl.load(a_ptr + i[:, None] * K + start + k[None, :])
            b = tl.load(b_ptr + (start + k[:, None]) * BLOCK + i[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + i[:, None] * BLOCK + i[None, :], acc)
    """
    check = """
    a, b, out = torch.randn(128, 256).half(), torch.randn(256, 128).half(), torch.empty(128, 128)
    c.dot[(1,)](a, b, out, 256, {0})
    close(out, a.double() @ b.double(), 1e-2)
    """
    (launch,) = bench.write(source).interpret(check.format("BLOCK=128, BK=128, num_stages=6, num_warps=8"))
    (report,) = bench.compile([launch])
    assert not report["ok"] and report["kind"] == "resources" and "232448" in report["error"], report
    # The same as one of two configurations: the autotuner would take the other.
    first = '@triton.autotune([triton.Config({"BLOCK": 128, "BK": 128}, num_stages=6, num_warps=8), '
    second = 'triton.Config({"BLOCK": 128, "BK": 32}, num_stages=2, num_warps=8)], key=["K"])\n'
    (launch,) = bench.write(first + second + textwrap.dedent(source)).interpret(check.format(""))
    (report,) = bench.compile([launch])
    assert report["ok"] and report["config"] == 1 and report["shared"] <= 232448, report


def test_kernels_out_of_reach_are_told_apart(bench: Bench) -> None:
    launches = bench.write(
        COPY
        + """
def make():
    thing = object()
    @triton.jit
    def inside(x_ptr, n):
        if n == 3:
            tl.static_print(thing)
        tl.store(x_ptr, n)
    return inside
class Holder:
    @staticmethod
    @triton.jit
    def held(x_ptr, n):
        tl.store(x_ptr, n)
"""
    ).interpret("x = torch.ones(1); c.make()[(1,)](x, 5); c.Holder.held[(1,)](x, 5)")
    made, held = bench.compile(launches)
    assert not made["ok"] and made["kind"] == "not_found"
    assert held["ok"], held["error"]


ASKING = """
ACTIVE = triton.runtime.driver.active
PROPERTIES = ACTIVE.utils.get_device_properties(ACTIVE.get_current_device())
SHARED, PROCESSORS = PROPERTIES["max_shared_mem"], torch.cuda.get_device_properties(0).multi_processor_count
assert torch.cuda.is_available() and torch.cuda.get_device_capability(torch.cuda.current_device()) >= (9, 0)
assert ACTIVE.get_current_target().backend == "cuda" and ACTIVE.get_active_torch_device().type == "cuda"
STAGES = 4 if triton.runtime.driver.active.get_device_interface().get_device_name().startswith("NVIDIA H100") else 1
TABLE = torch.zeros(PROCESSORS, device="cuda")
if SHARED > 200_000 and STAGES == 4:
    @triton.jit
    def fill(x_ptr, n):
        tl.store(x_ptr, n)
"""


def test_both_processes_say_the_same_of_the_chip(bench: Bench) -> None:
    launches = bench.write(ASKING).interpret("x = torch.ones(1); c.fill[(1,)](x, 5); assert x == 5")
    (report,) = bench.compile(launches)
    assert report["ok"], report["error"]


def test_malformed_launches_never_raise(bench: Bench) -> None:
    bench.write(COPY)
    launch = {"kernel": "copy", "qualname": "copy", "module": "candidate", "line": 3}
    reports = bench.compile(
        [launch, {}, {**launch, "signature": {"x_ptr": "*zz"}, "constexprs": [], "attrs": [], "options": {}}]
    )
    assert [report["ok"] for report in reports] == [False] * 3 and all(report["error"] for report in reports)
    (report,) = bench.compile([launch], "vax")
    assert "unknown architecture" in report["error"]


@pytest.mark.parametrize(
    ("arch", "target", "shared", "warp"),
    [("sm_90", 90, 232448, 32), ("sm_90a", 90, 232448, 32), ("sm_100", 100, 232448, 32), ("sm_80", 80, 166912, 32),
     ("89", 89, 101376, 32), ("gfx942", "gfx942", 65536, 64), ("gfx1100", "gfx1100", 65536, 32)],
)  # fmt: skip
def test_chips(arch: str, target: int | str, shared: int, warp: int) -> None:
    chip = triton_aot.chip_of(arch)
    assert (chip.target_arch, chip.shared, chip.warp_size) == (target, shared, warp)


def test_constants_keep_their_value_as_json() -> None:
    assert triton_aot.encode(2**70) == {"int": str(2**70)}
    assert triton_aot.encode(float("inf")) == {"float": "inf"}
    assert triton_aot.encode((1, (2.5, None))) == {"tuple": [1, {"tuple": [2.5, None]}]}
    assert "unknown" in triton_aot.encode(object())
    assert json.loads(json.dumps(triton_aot.encode([True, "a"]))) == {"tuple": [True, "a"]}
