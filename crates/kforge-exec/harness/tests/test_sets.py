"""The reference, its variants, and the sets of inputs that candidates are judged on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support import SECRET, problem_of, reference_of, simple

from kforge_harness.trusted import errors, intake
from kforge_harness.trusted.problem import Problem, ProblemError
from kforge_harness.trusted.sets import OWN, SLICE, InputSet, Reference
from kforge_harness.trusted.store import Store

LINEAR = "self.linear = nn.Linear(16, 4)"


def inputs_of(reference: Reference, made: InputSet) -> list[torch.Tensor]:
    return reference.store.read_tensors(f"{made.name}.in", reference.variants[made.variant].input_fields)


def test_there_are_two_sets_of_weights_and_none_is_the_constructor_s(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "self.linear(x)", init=LINEAR), tmp_path)
    first, second = reference.variants
    assert [w["name"] for w in first.weights] == ["linear.weight", "linear.bias"]
    files = [Path(reference.store.path(v.weights_file)).read_bytes() for v in (first, second)]
    assert files[0] != files[1] and second.described == ", re-drawn weights"
    assert first.reduction == 16 and set(first.weight_forms.values()) == {"free"} and first.training


def test_every_distribution_is_used_where_the_reference_bears_it(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "torch.softmax(x, -1)"), tmp_path)
    assert (
        reference.distributions == [OWN, "normal", "uniform", "heavy", "zeros", "scaled", "patched"]
        and reference.notes == []
    )
    product = reference_of(simple(tmp_path, "x @ x.t()"), tmp_path)
    assert product.distributions == [OWN, "fine", "normal", "uniform", "heavy", "zeros", "scaled", "patched", "sparse"]


def test_inputs_with_gaps_between_their_elements_are_the_same_for_the_reference_and_a_candidate(tmp_path: Path) -> None:
    problem = simple(tmp_path, "x * 2.0", "torch.randn(2, 8, 3, 4, 16)[:, :, 0].transpose(1, 2)")
    reference = reference_of(problem, tmp_path)
    for which in (OWN, "normal", SLICE):
        made = reference.ensure(0, which, 0)
        (given,), (exact,) = inputs_of(reference, made), reference.truth_of(made)[0]
        assert torch.equal(given.double() * 2.0, exact), which


def test_the_log_of_positive_inputs_is_never_redrawn(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "torch.log(x)", "torch.rand(64, 64) + 0.1"), tmp_path)
    assert reference.distributions == [OWN, "scaled", "patched"], "all stay positive"
    assert len([note for note in reference.notes if "does not accept" in note]) == 4


def test_inputs_that_round_as_the_problem_s_own_do_are_drawn(tmp_path: Path) -> None:
    rounds = reference_of(simple(tmp_path, "(x + 200.0) - 200.0"), tmp_path)
    assert rounds.distributions == [OWN, "normal", "uniform", "heavy", "zeros", "scaled", "patched"]


def test_inputs_on_which_eager_itself_is_wrong_are_not_drawn(tmp_path: Path) -> None:
    cancels = reference_of(simple(tmp_path, "(x + 30000.0) - 30000.0"), tmp_path)
    assert "normal" not in cancels.distributions


@pytest.mark.parametrize("inputs", ["torch.randint(0, 9, (8, 8))", "torch.randn(8, 8).sign()"])
def test_structured_inputs_come_from_the_problem_only(tmp_path: Path, inputs: str) -> None:
    assert reference_of(simple(tmp_path, "x * 2.0", inputs), tmp_path).distributions == [OWN]


def test_a_triangle_stays_one(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "x @ x", "torch.randn(8, 8).tril()"), tmp_path)
    assert reference.distributions == [OWN, "fine", "scaled", "patched"]
    for distribution in reference.distributions:
        (x,) = inputs_of(reference, reference.ensure(0, distribution, 0))
        assert torch.equal(x, x.tril()) and bool((x.tril() != 0).any())


def test_the_contract_may_forbid_other_inputs(tmp_path: Path) -> None:
    assert reference_of(simple(tmp_path, "x * 2"), tmp_path, {"inputs": "given"}).distributions == [OWN]


def test_dropout_is_judged_in_eval_mode(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "self.drop(x)", init="self.drop = nn.Dropout(0.5)"), tmp_path)
    assert not reference.variants[0].training
    assert any("eval mode" in note for note in reference.notes)


def test_a_random_reference_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="another output at each call"):
        reference_of(simple(tmp_path, "x + torch.randn(8, 16)"), tmp_path)


def test_a_part_that_the_constructor_froze_stays_frozen(tmp_path: Path) -> None:
    init = "self.norm = nn.BatchNorm1d(16).eval()"
    reference = reference_of(simple(tmp_path, "self.norm(x)", init=init), tmp_path)
    for model in (reference.model(0), again(reference).model(0)):
        assert model.training and not model.get_submodule("norm").training


def test_shapes_that_change_at_each_call_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="other shapes at each call"):
        reference_of(simple(tmp_path, "x", "torch.randn(int(torch.randint(2, 500, ())), 2)"), tmp_path)


def test_a_reference_that_raises_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"running the reference failed at problem.py:\d+: RuntimeError"):
        reference_of(simple(tmp_path, "x @ x"), tmp_path)


def test_inputs_of_a_class_that_no_candidate_can_see_are_refused(tmp_path: Path) -> None:
    more = "from collections import namedtuple\nPair = namedtuple('Pair', 'a b')"
    with pytest.raises(ProblemError, match=r"handing get_inputs\(\) to a candidate failed.*pass plain data"):
        reference_of(simple(tmp_path, "x.a * 2", "Pair(torch.randn(8), 1)", more=more), tmp_path)


def test_other_shapes_become_variants(tmp_path: Path) -> None:
    problem = simple(tmp_path, "x * 2", "torch.randn(ROWS, 16)", more="ROWS = 8")
    reference = reference_of(problem, tmp_path, {"shapes": [{"ROWS": 3}, {"ROWS": 100}]})
    assert [v.input_fields[0].shape for v in reference.variants] == [[8, 16], [8, 16], [3, 16], [100, 16]]
    assert reference.variants[3].described == ", with ROWS=100"
    assert reference.input_bytes == 100 * 16 * 4 == reference.output_bytes
    made = reference.ensure(3, "normal", 0)
    assert reference.truth_of(made)[0][0].shape == (100, 16)
    with pytest.raises(ProblemError, match="not a module-level integer"):
        reference_of(problem, tmp_path, {"shapes": [{"COLUMNS": 3}]})


def test_reduced_sizes_are_small_and_said(tmp_path: Path) -> None:
    problem = simple(tmp_path, "x * 2", "torch.randn(ROWS, COLS)", more="ROWS, COLS = 4096, 8192")
    reference = reference_of(problem, tmp_path, reduced=True)
    assert reference.output_bytes < 2**24 and any("sizes reduced to" in note for note in reference.notes)


def test_precision_follows_the_inputs_unless_the_contract_speaks(tmp_path: Path) -> None:
    made = reference_of(simple(tmp_path, "x * 2", "torch.randn(8, 8).bfloat16()"), tmp_path).contract
    assert (made["mul"], made["acc"]) == ("bf16", "fp32")
    assert reference_of(simple(tmp_path, "x * 2"), tmp_path, {"mul": "tf32"}).contract["mul"] == "tf32"


@pytest.mark.parametrize("distribution", [OWN, "normal"])
def test_a_double_problem_proves_double_precision(tmp_path: Path, distribution: str) -> None:
    inputs = "torch.randn(16, 64, dtype=torch.float64), torch.randn(64, 16, dtype=torch.float64)"
    reference = reference_of(simple(tmp_path, "x @ rest[0]", inputs), tmp_path)
    assert (reference.contract["mul"], reference.contract["acc"]) == ("fp64", "fp64")
    (band,) = reference.ensure(0, distribution, 0).bands
    assert band is not None and band.separated and reference.proven()


def test_sets_differ_by_number_and_variant_and_share_a_band(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "self.linear(x)", init=LINEAR), tmp_path)
    a, b, c = reference.ensure(0, OWN, 0), reference.ensure(0, OWN, 1), reference.ensure(1, OWN, 0)
    assert b.fresh and not torch.equal(inputs_of(reference, a)[0], inputs_of(reference, b)[0])
    assert not torch.equal(reference.truth_of(a)[0][0], reference.truth_of(c)[0][0])
    assert a.bands == b.bands and a.bands is not c.bands
    assert reference.ensure(0, OWN, 0) is a and not a.fresh
    assert reference.find(a.name) is a
    with pytest.raises(ProblemError, match="no set"):
        reference.find("v9-own-0")


def test_a_changed_slice_moves_the_truth(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "torch.softmax(x, -1)", "torch.randn(64, 32)"), tmp_path)
    base = reference.ensure(0, OWN, 0)
    for number in range(4):
        made = reference.ensure(0, SLICE, number)
        changed = int((inputs_of(reference, base)[0] != inputs_of(reference, made)[0]).sum())
        assert changed in ((32,), (512,), (32, 64), (32, 64))[number], "a row, a quarter, a row or a column"
        before, after = reference.truth_of(base)[0][0], reference.truth_of(made)[0][0]
        (band,) = made.bands
        assert band is not None and errors.worst_of(after, before, band.scale) > 2 * band.tau
    assert reference.notes == []


def test_an_output_that_no_slice_moves_is_noted(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "x * 0 + 1"), tmp_path)
    reference.ensure(0, OWN, 0)
    reference.ensure(0, SLICE, 0)
    assert reference.unmoved and again(reference).unmoved


def again(reference: Reference) -> Reference:
    """What another process makes of the store."""
    kept: dict[str, Any] = json.loads(json.dumps(reference.keep()))
    problem = Problem(reference.problem.path)
    restored = Reference(problem, {}, bytes.fromhex(kept["secret"]), reference.store, False)
    restored.restore(kept)
    return restored


def test_a_restored_store_gives_the_same_sets(tmp_path: Path) -> None:
    text = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 4)
        def forward(self, x, choice):
            return self.linear(x), (x * choice).argmax(1)
    def get_inputs():
        return [torch.randn(8, 16), torch.randint(1, 9, (8, 16))]
    """
    first = reference_of(problem_of(tmp_path, text), tmp_path)
    made = [first.ensure(*key) for key in ((0, OWN, 0), (1, "heavy", 0), (0, SLICE, 1))]
    second = again(first)
    assert second.keep() == first.keep()
    for known in made:
        same = second.ensure(known.variant, known.distribution, known.number)
        assert not same.fresh and same.bands == known.bands
        (truth_a, index_a), sources_a = first.truth_of(known)
        (truth_b, index_b), sources_b = second.truth_of(same)
        assert torch.equal(truth_a, truth_b) and torch.equal(index_a, index_b)
        assert set(sources_a) == set(sources_b) == {1} and torch.equal(sources_a[1].scores, sources_b[1].scores)
    # A set that was never made comes out the same, whoever makes it.
    in_second = second.ensure(1, "normal", 7)
    from_second = [t.clone() for t in (*inputs_of(second, in_second), *second.truth_of(in_second)[0])]
    in_first = first.ensure(1, "normal", 7)
    from_first = [*inputs_of(first, in_first), *first.truth_of(in_first)[0]]
    assert all(torch.equal(a, b) for a, b in zip(from_first, from_second, strict=True))


def test_another_secret_gives_other_inputs(tmp_path: Path) -> None:
    problem = simple(tmp_path, "x * 2")
    first = reference_of(problem, tmp_path)
    other = Reference(problem, {}, SECRET[::-1], Store(str(tmp_path / "other")), False)
    other.prepare()
    a, b = (inputs_of(r, r.ensure(0, OWN, 0))[0] for r in (first, other))
    assert not torch.equal(a, b)


@pytest.mark.parametrize(
    "forward, aliases, mutates",
    [("x * 2", False, False), ("x.t()", True, False), ("x.mul_(2)", True, True), ("torch.relu_(x) + 1", False, True)],
)
def test_what_the_reference_does_to_its_inputs(tmp_path: Path, forward: str, aliases: bool, mutates: bool) -> None:
    reference = reference_of(simple(tmp_path, forward), tmp_path)
    assert (reference.variants[0].aliases_allowed, reference.writes) == (aliases, mutates)


def flags_of(tmp_path: Path, forward: str, inputs: str = "torch.randn(64, 64)") -> list[str]:
    report = intake.examine(reference_of(simple(tmp_path, forward, inputs), tmp_path))
    assert report["truth"] == "float64"
    return [flag.partition(":")[0] for flag in report["flags"]]


@pytest.mark.parametrize(
    "forward, flags",
    [
        ("torch.softmax(x, -1)", []),
        ("x * 0", ["zeros", "other_seed"]),
        ("x * 0 + 3", ["constant", "other_seed"]),
        ("(x > 100).long() + 2", ["constant", "other_seed"]),
        ("x > 100", ["zeros", "other_seed"]),
        ("x > -100", ["constant", "other_seed"]),
        ("x.sum(1).argmax(0)", []),
        ("x.mean()", []),
        ("(x.mean(), x.std())", []),
        ("torch.softmax(x, -1).sum()", ["other_seed"]),
    ],
)
def test_a_problem_that_doing_nothing_would_pass_is_flagged(tmp_path: Path, forward: str, flags: list[str]) -> None:
    assert flags_of(tmp_path, forward) == flags


def test_the_report_names_truth_reduction_and_distributions(tmp_path: Path) -> None:
    forward = "torch.softmax(x if x.dtype == torch.float32 else 1 / 0, -1)"
    report = intake.examine(reference_of(simple(tmp_path, forward), tmp_path))
    assert report["truth"] == "native" and report["reduction"] == 16 and report["distributions"][0] == OWN


def test_weights_that_bear_no_free_draw_are_varied_as_far_as_can_be(tmp_path: Path) -> None:
    init = "self.beta = nn.Parameter(torch.ones(16)); self.gamma = nn.Parameter(torch.eye(16))"
    reference = reference_of(
        simple(tmp_path, "x / torch.sqrt(self.beta + x.square() @ self.gamma)", init=init), tmp_path
    )
    assert set(reference.variants[0].weight_forms.values()) == {"signed"}
    gamma = reference.model(0).get_parameter("gamma")
    assert bool((gamma >= 0).all()) and float((gamma > 0).float().mean()) > 0.9, "no longer diagonal"


def test_one_weight_that_cannot_be_varied_exempts_no_other(tmp_path: Path) -> None:
    init = "self.exact = nn.Parameter(torch.ones(16)); self.other = nn.Parameter(torch.ones(16))"
    forward = "x * self.other / (1.0 if bool((self.exact == 1).all()) else float('nan'))"
    reference = reference_of(simple(tmp_path, forward, init=init), tmp_path)
    assert reference.variants[0].weight_forms == {"other": "near"}
    assert any(note.startswith("weights kept as constructed") and "exact" in note for note in reference.notes)


def test_one_output_proves_nothing_of_products_that_only_another_is_made_of(tmp_path: Path) -> None:
    cheap, behind_a_sum = "x.to(torch.float32) @ rest[1]", "(x @ rest[0]).sum().reshape(1)"
    inputs = "torch.rand(64, 64), torch.rand(64, 64), torch.rand(64, 4)"
    both = reference_of(simple(tmp_path, f"({cheap}, torch.tanh({behind_a_sum}))", inputs), tmp_path)
    assert both.variants[0].products == [[0], [1]] and both.precision() == "unproven"
    (tmp_path / "one").mkdir()
    one = reference_of(simple(tmp_path / "one", cheap, inputs), tmp_path / "one")
    assert one.precision() == "proven"


def test_an_output_whose_shape_depends_on_values_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"shape depends on the values of the inputs.*pad it"):
        reference_of(simple(tmp_path, "torch.nonzero(x > 0.5)", "torch.rand(64, 64)"), tmp_path)


def test_what_differs_in_the_second_construction_is_named(tmp_path: Path) -> None:
    assert reference_of(simple(tmp_path, "x * 2"), tmp_path).variants[1].described == ", constructed again"
    linear = reference_of(simple(tmp_path, "self.linear(x)", init="self.linear = nn.Linear(16, 4)"), tmp_path)
    assert linear.variants[1].described == ", re-drawn weights"


def test_a_reference_may_compute_gradients(tmp_path: Path) -> None:
    text = """
    class Model(nn.Module):
        def forward(self, x, dy):
            with torch.enable_grad():
                x = x.clone().requires_grad_()
                return torch.autograd.grad(torch.softmax(x, -1), x, dy)[0]
    def get_inputs():
        return [torch.randn(8, 16), torch.randn(8, 16)]
    """
    reference = reference_of(problem_of(tmp_path, text), tmp_path)
    assert reference.variants[0].autograd and again(reference).variants[0].autograd
    assert reference.doubled and len(reference.distributions) > 3
    x, dy = reference.draw(0, OWN, 0).tensors
    y = torch.softmax(x, -1).double()
    (true,), _sources = reference.truth_of(reference.ensure(0, OWN, 0))
    assert torch.allclose(true, y * (dy - (y * dy).sum(-1, keepdim=True)), atol=1e-6)
    assert not reference_of(simple(tmp_path, "x * 2"), tmp_path).variants[0].autograd


@pytest.mark.filterwarnings("ignore")
def test_weights_that_a_hook_computes_are_none(tmp_path: Path) -> None:
    init = "self.conv = nn.utils.weight_norm(nn.Conv1d(4, 4, 3))"
    reference = reference_of(simple(tmp_path, "self.conv(x)", "torch.randn(2, 4, 16)", init), tmp_path)
    assert [w["name"] for w in reference.variants[0].weights] == ["conv.bias", "conv.weight_g", "conv.weight_v"]
    first, second = (reference.truth_of(reference.ensure(v, OWN, 0))[0][0] for v in (0, 1))
    assert not torch.equal(first, second)


def test_plain_attributes_may_be_computed_from_parameters(tmp_path: Path) -> None:
    init = "self.linear = nn.Linear(16, 4)\nself.scale = self.linear.weight.norm()"
    reference = reference_of(simple(tmp_path, "self.linear(x) / self.scale", init=init), tmp_path)
    assert any(w["name"] == "scale" for w in reference.variants[0].weights)
