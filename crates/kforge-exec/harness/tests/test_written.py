"""What a module writes besides what it returns: found, judged as outputs, put back before each call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support import problem_of, reference_of, simple
from torch import nn

from kforge_harness.hostile.failure import Failure
from kforge_harness.hostile.outputs import as_expected
from kforge_harness.hostile.written import Writes
from kforge_harness.shared import layout
from kforge_harness.shared.align import weights_of
from kforge_harness.shared.module_state import State
from kforge_harness.trusted import intake, written
from kforge_harness.trusted.compare import compare
from kforge_harness.trusted.float64_fallback import _on_the_cpu, in_parts
from kforge_harness.trusted.problem import Drawn, ProblemError, forward
from kforge_harness.trusted.sets import OWN, SLICE, InputSet, Reference

CACHE = """
    class Model(nn.Module):
        def forward(self, key, position, cache):
            cache[:, position] = key[:, None] * 2.0
            return cache.sum(1)
    def get_inputs():
        return [torch.randn(4, 8), torch.randint(0, 6, (1,)), torch.randn(4, 6, 8)]
"""
SCALED_IN_PLACE = """
    class Model(nn.Module):
        def forward(self, x, y):
            x.mul_(3.0)
            return x @ y
    def get_inputs():
        return [torch.randn(8, 8), torch.randn(8, 8)]
"""
NORM = "self.norm = nn.BatchNorm1d(16)"
AVERAGE = 'self.register_buffer("average", torch.zeros(16)); self.register_buffer("table", torch.ones(16))'


def _reference(folder: Path, text: str) -> Reference:
    return reference_of(problem_of(folder, text), folder)


def _inputs(reference: Reference, made: InputSet) -> list[torch.Tensor]:
    return reference.store.read_tensors(f"{made.name}.in", reference.variants[made.variant].input_fields)


def test_a_cache_that_is_updated_is_an_output_by_name(tmp_path: Path) -> None:
    reference = _reference(tmp_path, CACHE)
    for variant in reference.variants:
        assert (variant.written_inputs, variant.written_buffers) == ([2], [])
        assert variant.written_names == ["input 2 (cache)"] and variant.returned == 1
        assert [field.shape for field in variant.output_fields] == [[4, 8], [4, 6, 8]]
        assert [variant.output_name(i) for i in range(2)] == ["output", "input 2 (cache) after the call"]
    assert reference.writes
    report = intake.examine(reference)
    assert report["writes"] == ["input 2 (cache)"] and report["flags"] == []
    assert "the reference writes input 2 (cache): it is compared too" in report["notes"]


def test_the_truth_of_a_cache_is_its_state_after_the_call_in_doubles(tmp_path: Path) -> None:
    reference = _reference(tmp_path, CACHE)
    assert len(reference.distributions) > 1
    for distribution in (*reference.distributions, SLICE):
        made = reference.ensure(0, distribution, 0)
        key, position, cache = _inputs(reference, made)
        expected = cache.double()
        expected[:, position] = key.double()[:, None] * 2.0
        (returned, after), _sources = reference.truth_of(made)
        assert after.dtype == torch.float64 and torch.equal(after, expected), distribution
        assert torch.allclose(returned, expected.sum(1))
        assert len(made.bands) == 2 and all(band is not None for band in made.bands)


@pytest.mark.parametrize("left", ["as it was", "12345", "one element"])
def test_a_cache_that_was_not_written_as_the_reference_writes_it_is_a_mismatch(tmp_path: Path, left: str) -> None:
    reference = _reference(tmp_path, CACHE)
    made = reference.ensure(0, OWN, 0)
    truths, _sources = reference.truth_of(made)
    wrong = {"as it was": _inputs(reference, made)[2], "12345": torch.full((4, 6, 8), 12345.0)}.get(left)
    if wrong is None:
        wrong = truths[1].float()
        wrong[3, 5, 7] += 0.01
    name = reference.variants[0].output_name(1)
    found = compare(wrong, truths[1], made.bands[1], None, name, "fp32")
    assert found.kind == "numeric" and found.text.startswith("input 2 (cache) after the call: ")
    assert compare(truths[1].float(), truths[1], made.bands[1], None, name, "fp32").kind == ""


def test_one_of_two_inputs_is_written_and_only_the_other_must_stay(tmp_path: Path) -> None:
    reference = _reference(tmp_path, SCALED_IN_PLACE)
    variant = reference.variants[0]
    assert variant.written_inputs == [0] and not variant.aliases_allowed
    assert reference.held_bytes(reference.ensure(0, OWN, 0)) == [(256, 512)]


def test_what_must_stay_is_all_but_what_is_written() -> None:
    fields, size = layout.plan([torch.zeros(3), torch.zeros(100), torch.zeros(0), torch.zeros(1), torch.zeros(64)])
    assert size == 256 + 512 + 256 + 256
    assert written.held(fields, []) == [(0, 1280)]
    assert written.held(fields, [1]) == [(0, 256), (768, 1280)]
    assert written.held(fields, [0, 4]) == [(256, 1024)]
    assert written.held(fields, [0, 1, 2, 3, 4]) == []


def test_batch_norm_in_train_mode_is_not_random_and_its_statistics_are_outputs(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "self.norm(x)", init=NORM), tmp_path)
    variant = reference.variants[0]
    names = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    assert variant.training and variant.written_buffers == names and variant.written_inputs == []
    assert variant.written_names == [f"buffer {name}" for name in names]
    made = reference.ensure(0, OWN, 0)
    (_output, mean, var, count), _sources = reference.truth_of(made)
    (x,) = _inputs(reference, made)
    weights = reference.store.read_tensors(variant.weights_file, [layout.Field(**w["field"]) for w in variant.weights])
    before = {w["name"]: tensor for w, tensor in zip(variant.weights, weights, strict=True)}
    assert torch.allclose(mean, 0.9 * before[names[0]].double() + 0.1 * x.double().mean(0))
    assert torch.allclose(var, 0.9 * before[names[1]].double() + 0.1 * x.double().var(0))
    assert int(count) == int(before[names[2]]) + 1 and made.bands[3] is None


def test_batch_norm_in_eval_mode_writes_nothing(tmp_path: Path) -> None:
    for init in (NORM + "; self.eval()", NORM + "; self.drop = nn.Dropout()"):
        forward = "self.drop(self.norm(x))" if "drop" in init else "self.norm(x)"
        reference = reference_of(simple(tmp_path, forward, init=init), tmp_path)
        assert not reference.writes and len(reference.variants[0].output_fields) == 1


def test_written_buffers_begin_with_other_numbers_so_that_who_forgets_the_old_ones_is_seen(tmp_path: Path) -> None:
    forward = "x + self.average.mul_(0.9).add_(0.1 * x.mean(0))"
    reference = reference_of(simple(tmp_path, forward, init=AVERAGE), tmp_path)
    variant = reference.variants[0]
    assert variant.written_buffers == ["average"] and variant.redrawn_buffers
    tensors = {w.name: w.tensor for w in weights_of(reference.model(0))}
    assert bool((tensors["average"] != 0).all()) and bool((tensors["table"] != 1).all())
    again = Reference(reference.problem, {}, reference.secret, reference.store, False)
    again.restore(reference.keep())
    same = {w.name: w.tensor for w in weights_of(again.model(0))}
    assert torch.equal(tensors["average"], same["average"]) and again.writes


def test_a_buffer_that_bears_no_other_numbers_keeps_the_constructor_s(tmp_path: Path) -> None:
    forward = "x + torch.log(1.0 - self.level.add_(1e-3).abs() * 4)"
    init = 'self.register_buffer("level", torch.full((16,), 1e-3))'
    reference = reference_of(simple(tmp_path, forward, init='self.register_buffer("level", torch.zeros(16))'), tmp_path)
    assert reference.variants[0].written_buffers == ["level"] and not reference.variants[0].redrawn_buffers
    reference = reference_of(simple(tmp_path, forward, init=init), tmp_path)
    assert reference.variants[0].redrawn_buffers


def test_a_buffer_bound_to_another_tensor_counts_as_written(tmp_path: Path) -> None:
    body = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.zeros(16))
            self.table = None
        def forward(self, x):
            if self.table is None:
                self.table = torch.ones(16)
            self.state = self.state * 0.5 + x[0]
            return x * self.state * self.table
    def get_inputs():
        return [torch.randn(8, 16)]
    """
    reference = _reference(tmp_path, body)
    assert reference.variants[0].written_buffers == ["state"] and reference.writes


def test_state_that_is_neither_input_nor_buffer_cannot_be_judged(tmp_path: Path) -> None:
    body = "x + self.seen.add_(1.0)"
    with pytest.raises(ProblemError, match="deterministic"):
        reference_of(simple(tmp_path, body, init="self.seen = torch.zeros(16)"), tmp_path)
    assert reference_of(simple(tmp_path, body, init='self.register_buffer("seen", torch.zeros(16))'), tmp_path).writes


def test_a_module_may_write_and_return_nothing(tmp_path: Path) -> None:
    body = CACHE.replace("return cache.sum(1)", "return None")
    reference = _reference(tmp_path, body)
    variant = reference.variants[0]
    assert variant.returned == 0 and len(variant.output_fields) == 1
    assert reference.ensure(0, SLICE, 0).bands[0] is not None
    with pytest.raises(ProblemError, match="nothing to compare"):
        _reference(tmp_path, body.replace("cache[:, position] = key[:, None] * 2.0", "pass"))


def test_writing_what_was_there_is_writing(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "torch.relu_(x) + 1", "torch.rand(8, 16) + 1.0"), tmp_path)
    assert reference.variants[0].written_names == ["input 0 (x)"]


def test_inputs_inside_of_others_are_named_by_their_place(tmp_path: Path) -> None:
    body = """
    class Model(nn.Module):
        def forward(self, x, pair, *rest):
            pair[1].add_(x)
            rest[0].add_(x)
            return x * 2
    def get_inputs():
        return [torch.randn(4), (torch.randn(4), torch.randn(4)), torch.randn(4)]
    """
    reference = _reference(tmp_path, body)
    assert reference.variants[0].written_names == ["a tensor in input 1 (pair)", "input 2"]
    noted = "the reference writes a tensor in input 1 (pair) and input 2: they are compared too"
    assert noted in reference.notes


def test_the_reference_and_its_inputs_stay_as_they_were(tmp_path: Path) -> None:
    model, x = nn.BatchNorm1d(4), torch.randn(8, 4)
    drawn = Drawn([layout.Slot(0)], [x.clone()])
    written.settle(model, [drawn])
    runs = [forward(model, drawn)[1] for _ in range(2)]
    assert len(runs[0]) == 4 and all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
    assert torch.equal(drawn.tensors[0], x) and int(model.num_batches_tracked or 0) == 0


def test_parts_and_the_cpu_give_what_was_written_too() -> None:
    class Update(nn.Module):
        def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
            cache[:, 0] = x
            return cache * 2.0

    model = Update()
    drawn = Drawn([layout.Slot(0), layout.Slot(1)], [torch.randn(16), torch.randn(16, 3)])
    written.settle(model, [drawn])
    whole = forward(model, drawn, double=True)[1]
    parts, on_cpu = in_parts(model, drawn), _on_the_cpu(model, drawn, narrow=False)
    assert parts is not None and len(whole) == len(parts) == len(on_cpu) == 2
    for a, b, c in zip(whole, parts, on_cpu, strict=True):
        assert torch.equal(a, b) and torch.equal(a, c)


# -- in the process of a candidate -------------------------------------------------------------------------------------


def _spec(inputs: list[int], buffers: list[str]) -> dict[str, Any]:
    names = [f"input {i}" for i in inputs] + [f"buffer {name}" for name in buffers]
    return {"written_inputs": inputs, "written_buffers": buffers, "written_names": names}


class Average(nn.Module):
    def __init__(self, name: str = "average") -> None:
        super().__init__()
        self.name = name
        self.register_buffer(name, torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        setattr(self, self.name, getattr(self, self.name) * 0.5 + x)  # another tensor each time
        x.zero_()
        return x


@pytest.mark.parametrize("name", ["average", "mean"])
def test_buffers_are_found_by_name_or_shape_and_begin_alike_in_every_call(name: str) -> None:
    model = Average(name)
    weights = [("average", torch.tensor([2.0, 4.0, 6.0]))]
    writes = Writes(model, _spec([0], ["average"]), weights)
    writes.settle(weights)
    for _call in range(3):
        writes.restore()
        x = torch.ones(3)
        model(x)
        (first, cache), (second, average) = writes.gather([x])
        assert (first, second) == ("input 0", "buffer average")
        assert cache is x and average.tolist() == [2.0, 3.0, 4.0]


def test_a_buffer_that_is_nowhere_is_said_to_be_missing() -> None:
    writes = Writes(nn.Linear(2, 2), _spec([], ["average"]), [("average", torch.zeros(3))])
    writes.settle([("average", torch.zeros(3))])
    writes.restore()
    with pytest.raises(Failure) as caught:
        writes.gather([])
    assert caught.value.kind == "structure" and "buffer average: the reference writes it" in caught.value.text


def test_what_was_made_in_inference_mode_and_parameters_are_put_back_too() -> None:
    model = nn.Module()
    with torch.inference_mode():
        model.register_buffer("a", torch.ones(2))
    model.b = nn.Parameter(torch.ones(2))
    state = State(model, ["a", "b"])
    with torch.inference_mode():
        model.a.add_(1)
        model.b.add_(1)
    state.restore()
    assert model.a.tolist() == [1, 1] and model.b.tolist() == [1, 1]
    writes = Writes(model, _spec([], ["b"]), [("b", torch.ones(2))])
    assert type(writes.gather([])[0][1]) is torch.Tensor


@pytest.mark.parametrize(
    "bad, kind",
    [(torch.zeros(4), "shape"), (torch.zeros(3).double(), "dtype"), (torch.zeros(3).to_sparse(), "type")],
    ids=["shape", "dtype", "layout"],
)
def test_what_was_written_has_the_form_of_the_references(bad: torch.Tensor, kind: str) -> None:
    (field,), _size = layout.plan([torch.zeros(3)])
    assert as_expected(torch.ones(3), field, "buffer average").tolist() == [1, 1, 1]
    with pytest.raises(Failure) as caught:
        as_expected(bad, field, "buffer average")
    assert caught.value.kind == kind and caught.value.text.startswith("buffer average: ")
