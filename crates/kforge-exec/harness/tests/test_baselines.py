"""What a candidate must beat."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from kforge_harness import baselines


def test_compiling_alone_compiles_the_whole_graph_and_runs_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    operators: list[str] = []

    def compile_fx(graph: Any, _examples: Any, config_patches: Any) -> Any:
        assert config_patches == {}
        operators.extend(node.op for node in graph.graph.nodes)
        return lambda *_inputs: pytest.fail("it ran")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    baselines.compile_only(baselines.compiled(model, "compile"), [torch.ones(2, 4)], "compile")
    assert operators.count("call_function") == 2, operators


def test_what_cannot_be_compiled_says_so_at_its_first_call_only() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("not today")

    model = baselines.compiled(Broken(), "compile")
    baselines.compile_only(model, [torch.ones(2)], "compile")
    with pytest.raises(ValueError, match="not today"):
        model(torch.ones(2))


def test_eager_is_the_reference_itself() -> None:
    model = nn.Linear(2, 2)
    assert baselines.compiled(model, "eager") is model


def test_compiling_alone_ends_where_something_would_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.runtime.benchmarking import benchmarker

    reached: list[str] = []

    def compile_fx(_graph: Any, _examples: Any, config_patches: dict[str, Any]) -> Any:
        reached.append("max_autotune" if config_patches["max_autotune"] else "default")
        try:
            benchmarker.benchmark_gpu(lambda: reached.append("it ran"))
        except Exception:  # as the compiler does, for kernels that do not run
            reached.append("went on")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
    before = type(benchmarker).benchmark_gpu
    model = baselines.compiled(nn.Linear(4, 4), "max-autotune")
    baselines.compile_only(model, [torch.ones(2, 4)], "max-autotune")
    assert reached == ["max_autotune"]
    assert type(benchmarker).benchmark_gpu is before
