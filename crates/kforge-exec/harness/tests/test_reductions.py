"""How many values are added up for one element of an output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kforge_harness.trusted.reductions import ReductionMeter


def linear(x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, torch.ones(5, x.shape[-1]), torch.ones(5))


X = torch.randn(4, 8, 16)
IMAGE = torch.randn(2, 6, 8, 8)
REDUCTIONS: dict[str, tuple[Callable[[], Any], int]] = {
    "mm": (lambda: torch.randn(3, 50) @ torch.randn(50, 4), 50),
    "bmm": (lambda: torch.bmm(X, X.transpose(1, 2)), 16),
    "matmul": (lambda: X @ torch.randn(16, 3), 16),
    "mv": (lambda: torch.randn(3, 50) @ torch.randn(50), 50),
    "addmm": (lambda: torch.addmm(torch.zeros(4), torch.randn(3, 50), torch.randn(50, 4)), 50),
    "linear": (lambda: linear(X), 16),
    "einsum": (lambda: torch.einsum("bij,bkj->bik", X, X), 16),
    "tensordot": (lambda: torch.tensordot(X, X, dims=([1], [1])), 8),
    "conv2d": (lambda: F.conv2d(IMAGE, torch.randn(4, 6, 3, 3)), 54),
    "depthwise": (lambda: F.conv2d(IMAGE, torch.randn(6, 1, 3, 3), groups=6), 9),
    "conv1d": (lambda: F.conv1d(X, torch.randn(4, 8, 5)), 40),
    "transposed": (lambda: F.conv_transpose2d(IMAGE, torch.randn(6, 2, 3, 3)), 54),
    "transposed_groups": (lambda: F.conv_transpose2d(IMAGE, torch.randn(6, 2, 3, 3), groups=3), 18),
    "softmax": (lambda: torch.softmax(X, 1), 8),
    "log_softmax": (lambda: F.log_softmax(X, dim=-1), 16),
    "layer_norm": (lambda: F.layer_norm(X, (16,)), 16),
    "rms_norm": (lambda: F.rms_norm(X, (16,)), 16),
    "group_norm": (lambda: F.group_norm(X, 4), 32),
    "batch_norm": (lambda: F.batch_norm(X, torch.zeros(8), torch.ones(8)), 64),
    "instance_norm": (lambda: F.instance_norm(X), 16),
    "vector_norm": (lambda: torch.linalg.vector_norm(X, dim=-1), 16),
    "sum": (lambda: X.sum(), 512),
    "sum_dim": (lambda: X.sum(1), 8),
    "mean_all": (lambda: X.mean(), 512),
    "variance": (lambda: torch.var_mean(X, -1), 16),
    "cumsum": (lambda: torch.cumsum(X, -1), 16),
    "logsumexp": (lambda: torch.logsumexp(X, -1), 16),
    "average_pool": (lambda: F.avg_pool2d(IMAGE, 4), 16),
    "attention": (lambda: F.scaled_dot_product_attention(torch.randn(1, 2, 40, 16), *[torch.randn(1, 2, 40, 16)] * 2), 40),
    "lstm": (lambda: nn.LSTM(16, 32, batch_first=True)(X), 32),
    "elementwise": (lambda: torch.tanh(X) * 2 + X, 1),
    "selection": (lambda: X[:, -1, ::2], 1),
    "embedding": (lambda: F.embedding(torch.tensor([1, 2]), torch.ones(1000, 4)), 1),
    "maximum": (lambda: (X.amax(-1), X.max(1), X.argmax(-1)), 1),
}  # fmt: skip


@pytest.mark.parametrize("inference", [True, False], ids=["inference", "ordinary"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_longest_reduction_is_found(name: str, inference: bool) -> None:
    action, expected = REDUCTIONS[name]
    with torch.inference_mode(inference), ReductionMeter() as meter:
        action()
    assert meter.longest == expected


def test_the_longest_of_several_counts() -> None:
    with torch.inference_mode(), ReductionMeter() as meter:
        torch.softmax(torch.randn(3, 50) @ torch.randn(50, 4), -1).sum()
    assert meter.longest == 50


def lengths(action: Callable[[torch.Tensor], Any], x: torch.Tensor = X) -> list[int]:
    with torch.inference_mode(), ReductionMeter() as meter:
        made = action(x)
    return meter.of(list(made) if isinstance(made, (tuple, list)) else [made])


def in_place(x: torch.Tensor) -> torch.Tensor:
    made = torch.zeros(4, 8, 1)
    made[:, 0] += x.sum(-1, keepdim=True)[:, 0]
    return made.view(-1)


@pytest.mark.parametrize(
    "action, expected",
    [
        (lambda x: (x * 2, x.sum(), x.sum(-1)), [1, 512, 16]),
        (lambda x: x - x.mean(), [512]),
        (lambda x: ((x @ torch.randn(16, 3)).mean(), x.relu()), [96, 1]),
        (lambda x: (torch.softmax(x, -1).transpose(0, 1)[2:], x.t().contiguous() if x.dim() == 2 else x + 1), [16, 1]),
        (lambda x: torch.cat([x, x.cumsum(1)]), [8]),
        (lambda x: x[:, torch.arange(3)], [1]),
        (lambda x: torch.var_mean(x, -1), [16, 16]),
        (lambda x: x.new_empty(3).fill_(1.0), [1]),
        (in_place, [16]),
    ],
    ids="side_by_side centred behind_a_product view joined indexed pair factory in_place".split(),
)
def test_each_output_has_the_reductions_on_its_own_way(action: Callable[..., Any], expected: list[int]) -> None:
    assert lengths(action) == expected


@pytest.mark.parametrize(
    "action, multiplies",
    [
        (lambda x: x @ x.transpose(1, 2), True),
        (lambda x: F.linear(x, torch.ones(5, 16)), True),
        (lambda x: torch.einsum("bij,bkj->bik", x, x), True),
        (lambda x: F.conv1d(x, torch.ones(4, 8, 3)), True),
        (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), True),
        (lambda x: torch.cdist(x, x), True),
        (lambda x: F.layer_norm(x * x, (16,)).sum(-1).softmax(-1), False),
        (lambda x: F.embedding(torch.tensor([1]), x[0]).cumsum(-1), False),
    ],
)
def test_products_of_matrices_are_seen(action: Callable[..., Any], multiplies: bool) -> None:
    with torch.inference_mode(), ReductionMeter() as meter:
        action(X)
    assert meter.multiplies is multiplies
