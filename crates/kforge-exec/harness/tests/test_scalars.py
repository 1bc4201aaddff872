"""Numbers among the arguments that are no tensors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support import reference_of, simple
from torch import nn

from kforge_harness.shared.layout import Slot, unpack
from kforge_harness.trusted import scalars
from kforge_harness.trusted.problem import ProblemError


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, power: float, options: dict[str, float], axis: int) -> torch.Tensor:
        return x


def test_fractions_are_varied_and_whole_numbers_stay() -> None:
    given = [Slot(0), 2.5, {"eps": 1e-5, "low": 0.0}, 1]
    made = scalars.varied(Scaled(), given, [], 3)
    assert made[0] == Slot(0) and made[3] == 1 and scalars.differ(given, made)
    assert 0.04 < abs(made[1] / 2.5 - 1) <= 0.2 and made[2]["low"] != 0 and made[2]["eps"] != 1e-5
    assert scalars.varied(Scaled(), given, ["power", "options"], 3) == given
    assert made == scalars.varied(Scaled(), given, [], 3) != scalars.varied(Scaled(), given, [], 4)


def test_other_weights_come_with_other_numbers(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "x.abs().pow(rest[0])", "torch.randn(8, 16), 2.5"), tmp_path)
    first, second = reference.variants
    assert not first.other_numbers and second.other_numbers and "other numbers" in second.described
    assert unpack(first.input_skeleton)[1] == 2.5 != unpack(second.input_skeleton)[1]
    assert reference.draw(1, "own", 3).skeleton == unpack(second.input_skeleton)


def test_numbers_that_differ_from_call_to_call_are_told(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="other numbers at each call"):
        reference_of(simple(tmp_path, "x * rest[0]", "torch.randn(8, 16), float(torch.rand(()))"), tmp_path)
