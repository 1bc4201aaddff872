"""Reduced sizes keep what a problem may depend on."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kforge_harness.trusted.sizes import BUDGET, reduce_sizes

PROBLEMS = [
    {"batch_size": 4096, "dim": 393216},
    {"M": 2048, "K": 8192, "N": 4096},
    {"batch_size": 128, "max_seqlen": 512, "n_embd": 768, "n_head": 8},
    {"batch": 16, "cin": 64, "cout": 128, "kernel": 3, "height": 224, "width": 224, "groups": 32},
    {"heads": 32, "head_dim": 64, "dim": 2048, "batch": 16, "seq": 512},
    {"n": 1000}, {"n": 999_999_999}, {"n": 100_003, "m": 7}, {"a": 30, "b": 42, "c": 210}, {"a": 17, "b": 34, "c": 51},
    {"features": 6000, "groups": 25, "factor": 1, "zero": 0, "minus": -1},
]  # fmt: skip


def is_power(value: int) -> bool:
    return value & (value - 1) == 0


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_relations_hold(problem: dict[str, int]) -> None:
    proposals = reduce_sizes(problem)
    assert proposals[-1] == {} and all(proposals[:-1])
    assert len({str(sorted(p.items())) for p in proposals}) == len(proposals) <= 20
    for proposal in proposals:
        new = {**problem, **proposal}
        for a, value in problem.items():
            assert new[a] <= value if value > 0 else new[a] == value
            assert value > 8 or new[a] == value
            assert is_power(new[a]) == is_power(value) or value <= 1
            for b, other in problem.items():
                assert (new[a] == new[b]) or value != other
                if other > 1 and value > 1 and value % other == 0:
                    assert new[a] % new[b] == 0, (proposal, a, b)


def test_small_problems_are_left_alone() -> None:
    assert reduce_sizes({}) == [{}]
    assert reduce_sizes({"a": 5, "b": 3, "flag": True}) == [{}]


def test_few_sizes_stay_larger_and_different() -> None:
    first = reduce_sizes({"M": 2048, "K": 8192, "N": 4096})[0]
    assert len(set(first.values())) == 3 and max(first.values()) == 256
    assert math.prod(first.values()) <= BUDGET


def test_many_sizes_stay_within_the_budget() -> None:
    problem = {"b": 64, "c": 64, "d": 64, "h": 128, "w": 128}
    assert math.prod({**problem, **reduce_sizes(problem)[0]}.values()) <= BUDGET
    assert math.prod({**problem, **reduce_sizes(problem, 2**16)[0]}.values()) <= 2**16


def test_products_are_offered_too() -> None:
    problem = {"heads": 32, "head_dim": 64, "dim": 2048, "batch": 16, "seq": 512}
    kept = [p for p in reduce_sizes(problem) if p and (n := {**problem, **p})["dim"] == n["heads"] * n["head_dim"]]
    assert kept and all(p["dim"] < 2048 for p in kept)


def test_a_length_with_a_tail_keeps_one() -> None:
    assert reduce_sizes({"n": 1000})[0]["n"] % 8 == 0
    assert reduce_sizes({"n": 999})[0]["n"] % 2 == 1
