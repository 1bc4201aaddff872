"""What a candidate must beat."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from kforge_harness.hostile import baselines
from kforge_harness.shared.names import Unknown
from kforge_harness.trusted import baseline_ways


def test_compiling_alone_compiles_the_whole_graph_and_runs_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    operators: list[str] = []

    def compile_fx(graph: Any, _examples: Any, config_patches: Any) -> Any:
        assert config_patches == {}
        operators.extend(node.op for node in graph.graph.nodes)
        return lambda *_inputs: pytest.fail("it ran")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    baselines.compile_only(
        baselines.in_its_way(model, "compile", [torch.ones(2, 4)], "fp32", [torch.float32]),
        [torch.ones(2, 4)],
        "compile",
    )
    assert operators.count("call_function") == 2, operators


def test_what_cannot_be_compiled_says_so_at_its_first_call_only() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("not today")

    model = baselines.in_its_way(Broken(), "compile", [torch.ones(2)], "fp32", [torch.float32])
    baselines.compile_only(model, [torch.ones(2)], "compile")
    with pytest.raises(ValueError, match="not today"):
        model(torch.ones(2))


def test_eager_is_the_reference_itself() -> None:
    model = nn.Linear(2, 2)
    assert baselines.in_its_way(model, "eager", [torch.ones(2)], "fp32", [torch.float32]) is model


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
    model = baselines.in_its_way(nn.Linear(4, 4), "max-autotune", [torch.ones(2, 4)], "fp32", [torch.float32])
    baselines.compile_only(model, [torch.ones(2, 4)], "max-autotune")
    assert reached == ["max_autotune"]
    assert type(benchmarker).benchmark_gpu is before


def test_a_plain_problem_has_one_way() -> None:
    model, arguments = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), [torch.ones(2, 4)]
    assert baseline_ways.ways(model, arguments, "fp32", writes=False) == ["eager"]
    assert baseline_ways.ways(model, arguments, "tf32", writes=False) == ["eager"]
    assert baseline_ways.ways(nn.ReLU(), arguments, "bf16", writes=False) == ["eager"], "nothing is multiplied"
    assert baseline_ways.ways(model, arguments, "bf16", writes=True) == ["eager"], "copies would be written"


def test_a_contract_that_allows_narrow_products_has_more() -> None:
    model, arguments = nn.Linear(4, 4), [torch.ones(2, 4)]
    assert baseline_ways.ways(model, arguments, "bf16", writes=False) == [
        "eager",
        "eager+autocast",
        "eager+cast-weights",
    ]
    narrow = nn.Linear(4, 4).bfloat16()
    assert baseline_ways.ways(narrow, [torch.ones(2, 4, dtype=torch.bfloat16)], "bf16", writes=False) == ["eager"]


def test_convolutions_are_tried_with_channels_last() -> None:
    model, arguments = nn.Conv2d(3, 4, 3), [torch.rand(2, 3, 8, 8)]
    assert baseline_ways.ways(model, arguments, "fp32", writes=False) == ["eager", "eager+channels_last"]
    made = baselines.in_its_way(copy.deepcopy(model), "eager+channels_last", arguments, "fp32", [torch.float32])
    with torch.inference_mode():
        result = made(*arguments)
        assert result.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(result, model(*arguments))


class _Bare(nn.Module):
    """Products of bare parameters, one of them transposed; a norm's weight beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Parameter(torch.rand(8, 8)), nn.Parameter(torch.rand(8, 8))
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        y = self.norm(x @ self.left.t())
        return torch.matmul(y, self.right), {"between": y}


def test_weights_of_products_are_cast_once_and_results_keep_their_dtype() -> None:
    model, arguments = _Bare(), [torch.rand(4, 8)]
    made = baselines.in_its_way(copy.deepcopy(model), "eager+cast-weights", arguments, "bf16", [torch.float32] * 2)
    kinds = {name: parameter.dtype for name, parameter in made.model.named_parameters()}
    narrow, wide = torch.bfloat16, torch.float32
    assert kinds == {"left": narrow, "right": narrow, "norm.weight": wide, "norm.bias": wide}
    with torch.inference_mode():
        result, between = made(*arguments)
        expected, _ = model(*arguments)
    assert result.dtype == wide and between["between"].dtype == wide
    assert 0 < (result - expected).abs().max() < 0.1 * expected.abs().max()
    kept = baselines.in_its_way(_Bare(), "eager+autocast", arguments, "bf16", [narrow, wide])
    with torch.inference_mode():
        assert kept(*arguments)[0].dtype == narrow, "the reference's own dtype"


def test_a_way_is_compiled_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    operators: list[str] = []

    def compile_fx(graph: Any, _examples: Any, config_patches: Any) -> Any:
        operators.extend(str(node.target) for node in graph.graph.nodes)
        return lambda *_inputs: pytest.fail("it ran")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
    name, arguments = "compile+cast-weights", [torch.rand(4, 8)]
    model = baselines.in_its_way(_Bare(), name, arguments, "bf16", [torch.float32] * 2)
    baselines.compile_only(model, arguments, name)
    assert any("enter_autocast" in name for name in operators), operators


@pytest.mark.parametrize("name", ["", "jit", "eager+jit", "compile+max-autotune"])
def test_a_way_that_is_not_there_is_refused(name: str) -> None:
    model, arguments = nn.Linear(4, 4), [torch.ones(2, 4)]
    with pytest.raises(Unknown, match="is no"):
        baselines.in_its_way(model, name, arguments, "fp32", [torch.float32])
    with pytest.raises(Unknown, match="is no"):
        baselines.compile_only(model, arguments, name)
