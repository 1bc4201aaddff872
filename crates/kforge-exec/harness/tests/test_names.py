"""Names that kforge and the harness share: whoever meets another one refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from kforge_harness.hostile import supervisor
from kforge_harness.hostile.failure import Failure, classify
from kforge_harness.shared import framework_ways, names
from kforge_harness.trusted import draw, sets


def test_a_message_is_held_to_its_fields() -> None:
    table = {"count": (), "lay": ("lane", "cold", "id?")}
    for good in (
        {"do": "count"},
        {"do": "lay", "lane": 1, "cold": True},
        {"do": "lay", "lane": 1, "cold": 0, "id": ""},
    ):
        assert names.chosen(good, "do", table, "order") == good["do"]
    for bad, why in (
        ({"do": "fly"}, "'fly' is no order: there are count, lay"),
        ({"lane": 1}, "'None' is no order"),
        ({"do": "lay", "lane": 1}, "order 'lay' lacks cold"),
        ({"do": "lay", "lane": 1, "cold": 0, "id": "", "at": 2}, "order 'lay' has unknown at"),
        ({"do": "count", "b": 1, "a": 2}, "order 'count' has unknown a, b"),
        ({"do": "lay", "cold": 0, "x": 1}, "order 'lay' lacks lane and has unknown x"),
    ):
        with pytest.raises(names.Unknown, match=why):
            names.chosen(bad, "do", table, "order")


_INSPECTOR = {"role": "inspector", "output_bytes": 1}


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({"do": "fly"}, "'fly' is no order"),
        ({"do": "freeze", "softly": True}, "order 'freeze' has unknown softly"),
        ({"do": "clear"}, "order 'clear' lacks keep"),
        ({"do": "spawn", "id": 1, "spec": {**_INSPECTOR, "role": "judge"}, "env": {}}, "'judge' is no role"),
        (
            {"do": "spawn", "id": 1, "spec": {**_INSPECTOR, "secret": 1}, "env": {}},
            "role 'inspector' has unknown secret",
        ),
        ({"do": "spawn", "id": 1, "spec": {"role": "candidate"}, "env": {}}, "role 'candidate' lacks baseline, source"),
    ],
)
def test_a_supervisor_obeys_no_order_that_it_does_not_know(order: dict[str, Any], why: str) -> None:
    idle = object.__new__(supervisor._Supervisor)  # which would stop this process's children
    with pytest.raises(names.Unknown, match=why):
        idle._obey(order, [])


def test_a_policy_that_asks_for_more_is_refused_before_anything_is_done() -> None:
    policy = dict.fromkeys(names.POLICY)
    with pytest.raises(names.Unknown, match="a policy has unknown patience"):
        supervisor.main({"policy": {**policy, "patience": 1}}, [])
    del policy["seccomp"]
    with pytest.raises(names.Unknown, match="a policy lacks seccomp"):
        supervisor.main({"policy": policy}, [])


def test_every_way_of_running_the_reference_has_a_name() -> None:
    assert (framework_ways.EAGER, *framework_ways.MODES) == names.HOW
    switches = (framework_ways.AUTOCAST, framework_ways.CAST_WEIGHTS)
    assert (*switches, framework_ways.CHANNELS_LAST, framework_ways.CUDNN_BENCHMARK) == names.SWITCHES
    assert names.way("compile+cast-weights") == ("compile", ["cast-weights"])
    for unknown in ("", "jit", "eager+", "eager+jit", "compile+compile", "Eager", "+autocast"):
        with pytest.raises(names.Unknown, match="is no"):
            names.way(unknown)


def test_every_distribution_has_a_name() -> None:
    drawn = (draw.FINE, *draw.REDRAWN, draw.SCALED, draw.VARIED, draw.PATCHED, draw.SPARSE)
    assert (draw.OWN, *drawn, sets.SLICE, sets.UNSEEN) == names.DISTRIBUTIONS


def test_a_failure_that_kforge_does_not_know_is_not_told() -> None:
    for kind in names.FAILURES:
        assert Failure(kind, "").kind == kind
    assert Failure(f"{names.MISSING}nvcc", "").kind == "missing:nvcc"
    for kind in ("", "numeric", "framework_only", "Import"):
        with pytest.raises(names.Unknown, match="is no failure of a cell"):
            Failure(kind, "")


def test_what_is_unknown_is_no_fault_of_forward() -> None:
    found = classify(names.Unknown("there is no operation 99"), "forward", "candidate.py")
    assert (found.kind, found.text) == ("protocol", "there is no operation 99")
