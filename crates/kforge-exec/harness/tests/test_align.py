"""The reference's weights find their places in a candidate's module."""

from __future__ import annotations

import torch
from torch import nn

from kforge_harness.shared.align import align, weights_of


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.zeros(2, 3)
        self.inner = nn.Linear(3, 2)
        self.inner.scale = torch.zeros(4)  # type: ignore[assignment]


class Tied(nn.Module):
    def __init__(self, tie: bool) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.zeros(3))
        self.b = self.a if tie else nn.Parameter(torch.zeros(3))


def named(**tensors: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    return list(tensors.items())


def test_names_win_over_order() -> None:
    module = nn.ParameterDict({"x": torch.zeros(2), "y": torch.zeros(2)})
    assert align(module, [("y", torch.ones(2)), ("x", torch.full((2,), 2.0))]) == []
    assert module["x"].tolist() == [2, 2] and module["y"].tolist() == [1, 1]


def test_other_names_are_filled_by_shape_in_order_of_registration() -> None:
    module = nn.ParameterDict({"p": torch.zeros(2), "q": torch.zeros(3), "r": torch.zeros(2)})
    given = named(first=torch.ones(2), second=torch.full((2,), 2.0), third=torch.full((3,), 3.0))
    assert align(module, given) == []
    assert (module["p"].tolist(), module["r"].tolist(), module["q"].tolist()) == ([1, 1], [2, 2], [3, 3, 3])


def test_a_name_with_another_shape_is_no_match() -> None:
    module = nn.ParameterDict({"w": torch.zeros(3), "v": torch.zeros(2)})
    assert align(module, named(w=torch.ones(2))) == []
    assert module["w"].tolist() == [0, 0, 0] and module["v"].tolist() == [1, 1]


def test_a_place_taken_by_name_is_not_taken_again_by_shape() -> None:
    module = nn.ParameterDict({"w": torch.zeros(2)})
    assert align(module, named(w=torch.ones(2), extra=torch.full((2,), 9.0))) == ["extra"]
    assert module["w"].tolist() == [1, 1]


def test_what_fits_nowhere_is_named() -> None:
    assert align(nn.Linear(2, 2), named(weight=torch.ones(2, 2), mask=torch.ones(5, 5))) == ["mask"]


def test_plain_attributes_and_nested_ones_are_weights() -> None:
    module = Plain()
    assert {w.name: w.kind for w in weights_of(module)} == {
        "inner.weight": "parameter", "inner.bias": "parameter", "w": "plain", "inner.scale": "plain",
    }  # fmt: skip
    given = [("w", torch.ones(2, 3)), ("inner.scale", torch.full((4,), 5.0))]
    assert align(module, given) == []
    assert module.w.tolist() == [[1] * 3] * 2 and module.inner.scale.tolist() == [5] * 4


def test_buffers_are_weights() -> None:
    module = nn.BatchNorm1d(3)
    assert align(module, [("running_var", torch.full((3,), 7.0)), ("num_batches_tracked", torch.tensor(5))]) == []
    assert module.running_var is not None and module.running_var.tolist() == [7, 7, 7]
    assert module.num_batches_tracked is not None and int(module.num_batches_tracked) == 5


def test_tied_weights_are_given_under_both_names() -> None:
    given = [(w.name, w.tensor.detach() + 4) for w in weights_of(Tied(tie=True))]
    assert [name for name, _tensor in given] == ["a", "b"]
    for module in (Tied(tie=True), Tied(tie=False)):
        assert align(module, given) == []
        assert module.a.tolist() == [4] * 3 and module.b.tolist() == [4] * 3


def test_values_are_copied_and_converted() -> None:
    module = nn.Linear(2, 2, bias=False).double()
    given = torch.ones(2, 2)
    align(module, named(weight=given))
    given.zero_()
    assert module.weight.dtype == torch.float64 and module.weight.tolist() == [[1, 1], [1, 1]]


def test_a_weight_of_two_names_needs_one_place() -> None:
    module = nn.ParameterDict({"embed": torch.zeros(2, 3)})
    table = torch.ones(2, 3)
    assert align(module, [("embed", table), ("head", table.clone())]) == []
    assert align(module, [("embed", table), ("head", 2 * table)]) == ["head"]
