"""Names that kforge and the harness share: whoever meets another one refuses it."""

from __future__ import annotations

import pytest

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
