"""Dispatch modes of the harness, and operators that are not the dispatcher's or not the framework's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from kforge_harness.hostile import audit, operators
from kforge_harness.shared import modes
from kforge_harness.shared.modes import Watch
from kforge_harness.trusted import doubt, indices, narrowed, reductions

HARNESS = Path(__file__).resolve().parents[1]
WATCHES = {
    "OperatorClock": lambda: audit.OperatorClock(lambda: None),
    "ReductionMeter": reductions.ReductionMeter,
    "IndexWatch": indices.IndexWatch,
    "DecisionWatch": doubt.DecisionWatch,
    "Tally": operators.Tally,
    "Doubles": lambda: modes.Doubles({torch.float32}),
    "RoundedOperands": lambda: narrowed.RoundedOperands("bf16"),
}


def test_every_mode_is_tried_here() -> None:
    assert {kind.__name__ for kind in Watch.__subclasses__()} == set(WATCHES)


@pytest.mark.parametrize("name", sorted(WATCHES))
def test_higher_order_operators_pass_through(name: str) -> None:
    """Such as `wrap_triton`'s, but one that needs no GPU."""

    class Doubled(torch._ops.HigherOrderOperator):
        def __init__(self) -> None:
            super().__init__(f"kforge_test_doubled_{name}")

        def __call__(self, x: Any) -> Any:
            return super().__call__(x)

    doubled = Doubled()
    doubled.py_impl(torch._C.DispatchKey.CompositeExplicitAutograd)(lambda x: x * 2)
    x = torch.randn(8)
    with torch.inference_mode(), WATCHES[name]() as watch:
        result = doubled(x)
    assert torch.equal(result, x * 2)
    if isinstance(watch, audit.OperatorClock):
        assert watch.names() == [f"kforge_test_doubled_{name}"], "the framework computed it"


@torch.library.custom_op("kforge_test_modes::softmax", mutates_args=())
def own_softmax(x: torch.Tensor) -> torch.Tensor:
    return x.clone()  # which is no computing


@torch.library.custom_op("kforge_test_modes::empty", mutates_args=())
def hides_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def test_an_operator_of_ones_own_counts_by_what_it_calls() -> None:
    x = torch.randn(4, 4)
    with torch.inference_mode(), audit.OperatorClock(lambda: None) as clock:
        result = own_softmax(x)
    assert torch.equal(result, x) and clock.names() == [], "whatever it is called"
    with torch.inference_mode(), audit.OperatorClock(lambda: None) as clock:
        hides_softmax(x)
    assert clock.names() == ["softmax"] and clock.nanoseconds > 0


WRAPPED = """
import torch, triton, triton.language as tl
from triton.runtime.jit import JITFunction
from kforge_harness.hostile import audit
SKIP = {skip}
if SKIP:
    found = audit.install(skip_kernels=True, interpret=False, source="import triton", arch="sm_90")
else:
    # Stands for a GPU: what is asked here is whether the launch comes through.
    JITFunction.run = lambda self, x, y, n, *, grid, warmup, **kwargs: y.copy_(x)

@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

def launch(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.library.wrap_triton(double)[(1,)](x, y, x.numel(), BLOCK=16)
    return y

operator = torch.library.triton_op("kforge_test_wrapped::double", launch, mutates_args=())
x = torch.randn(16)
for call in (launch, operator):
    with torch.inference_mode(), audit.OperatorClock(lambda: None) as clock:
        y = call(x)
    if SKIP:
        assert torch.isnan(y).all(), "the output depends on the kernel"
    else:
        assert torch.equal(y, x)
    assert clock.names() == [], clock.names()
assert not SKIP or found.launches() == 2
print("done")
"""


@pytest.mark.parametrize("skip", [False, True], ids=["called", "skipped"])
def test_kernels_launched_by_way_of_torch(tmp_path: Path, skip: bool) -> None:
    (tmp_path / "script.py").write_text(WRAPPED.format(skip=skip))
    env = {**os.environ, "PYTHONPATH": str(HARNESS), "OMP_NUM_THREADS": "1"}
    env.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "done", done.stderr
