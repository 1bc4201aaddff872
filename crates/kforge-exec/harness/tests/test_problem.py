"""Problems are loaded, or refused with a text that says what to do."""

from __future__ import annotations

import random
import sys
from collections import namedtuple
from pathlib import Path

import numpy
import pytest
import torch
from support import problem_of, simple
from torch import nn

from kforge_harness.shared import layout
from kforge_harness.trusted.problem import (
    Drawn,
    Problem,
    ProblemError,
    construct,
    draw_inputs,
    forward,
    init_inputs,
    seed_everything,
    split_outputs,
)

MODEL = "class Model(nn.Module):\n    def forward(self, x):\n        return x\n"
INPUTS = "def get_inputs():\n    return [torch.ones(2)]\n"


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("x = = 1", "not valid Python (line 4)"),
        (INPUTS, "defines no `Model`"),
        (MODEL, "defines no `get_inputs`"),
        ("def Model():\n    return 1\n" + INPUTS, "not a class derived from torch.nn.Module"),
        (MODEL + INPUTS + "KFORGE = ['mul']\n", "KFORGE must be a dict"),
        ("import nowhere_to_be_found\n", "importing the problem failed at problem.py:4: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "importing the problem failed at problem.py:4: SystemExit: 3"),
    ],
)
def test_a_file_that_is_no_problem(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ProblemError) as caught:
        problem_of(tmp_path, text)
    assert complaint in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="cannot read the problem"):
        Problem(str(tmp_path / "missing.py"))
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProblemError, match="cannot read the problem"):
        Problem(str(tmp_path / "binary.py"))


@pytest.mark.parametrize(
    "inputs, complaint",
    [
        ("return 3", "returned a int"),
        ("return []", "returned no tensor"),
        ("return [1, 'a']", "returned no tensor"),
        ("return [torch.ones(2).to_sparse()]", "only dense real tensors"),
        ("return [torch.ones(2, dtype=torch.complex64)]", "let get_inputs() give torch.view_as_real(x)"),
        ("return 1 / 0", "get_inputs() failed at problem.py:8: ZeroDivisionError"),
    ],
)
def test_inputs_that_cannot_be_used(tmp_path: Path, inputs: str, complaint: str) -> None:
    problem = problem_of(tmp_path, f"{MODEL}def get_inputs():\n    {inputs}\n")
    with pytest.raises(ProblemError) as caught:
        draw_inputs(problem.module, 1)
    assert complaint in str(caught.value)


def test_initial_arguments_must_be_a_list(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, MODEL + INPUTS + "def get_init_inputs():\n    return 5\n")
    with pytest.raises(ProblemError, match=r"get_init_inputs\(\) returned a int"):
        init_inputs(problem.module)
    assert init_inputs(problem_of(tmp_path, MODEL + INPUTS).module) == []


def test_a_constructor_that_fails(tmp_path: Path) -> None:
    problem = simple(tmp_path, "x", init="raise ValueError('no such size')")
    with pytest.raises(ProblemError, match=r"constructing Model failed at problem.py:\d+: ValueError: no such size"):
        construct(problem.module, 1)


@pytest.mark.parametrize("result", [None, "text", [], {}], ids=str)
def test_a_result_without_tensors(result: object) -> None:
    with pytest.raises(ProblemError, match="without any tensor"):
        split_outputs(result)


def test_a_result_that_is_not_dense() -> None:
    with pytest.raises(ProblemError, match="only dense real tensors"):
        split_outputs(torch.ones(2, 2).to_sparse())
    with pytest.raises(ProblemError, match=r"return torch.view_as_real\(y\)"):
        split_outputs(torch.ones(2, dtype=torch.complex64))


def test_numbers_in_a_result_count_as_tensors() -> None:
    skeleton, tensors = split_outputs({"a": 2.5, "b": [torch.ones(2), 3, True]})
    assert [t.tolist() for t in tensors] == [2.5, [1, 1], 3, True]
    assert skeleton == {"a": layout.Slot(0), "b": [layout.Slot(1), layout.Slot(2), layout.Slot(3)]}


def test_named_results_need_no_class_of_the_problem() -> None:
    named = namedtuple("named", "x y")
    skeleton, tensors = split_outputs(named(torch.ones(1), named(2.0, None)))
    assert skeleton == (layout.Slot(0), (layout.Slot(1), None)) and type(skeleton) is tuple and len(tensors) == 2
    assert layout.unpack(layout.pack(skeleton)) == skeleton
    assert split_outputs(torch.ones(2, 3).max(1))[0] == (layout.Slot(0), layout.Slot(1))


def test_one_tensor_serves_as_a_list_of_inputs(tmp_path: Path) -> None:
    problem = problem_of(tmp_path, MODEL + "def get_inputs():\n    return torch.ones(3, requires_grad=True)\n")
    drawn = draw_inputs(problem.module, 1)
    assert drawn.skeleton == [layout.Slot(0)] and not drawn.tensors[0].requires_grad


def test_seeds_reach_every_generator(tmp_path: Path) -> None:
    problem = simple(
        tmp_path,
        "x",
        "torch.rand(3), torch.tensor(numpy.random.rand(3)), torch.tensor([random.random()])",
        more="import random, numpy",
    )
    first, again, other = (draw_inputs(problem.module, seed).tensors for seed in (2**62 + 5, 2**62 + 5, 7))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    seed_everything(1)
    here = (random.random(), float(numpy.random.rand()), float(torch.rand(())))
    seed_everything(1)
    assert here == (random.random(), float(numpy.random.rand()), float(torch.rand(())))


def test_other_sizes_make_a_fresh_module(tmp_path: Path) -> None:
    problem = simple(tmp_path, "x", "torch.ones(N, M)", more="N, M, _H, P = 4, 5, 6, 0.5\nFLAG = True")
    assert problem.integers() == {"N": 4, "M": 5}
    assert draw_inputs(problem.load({"N": 9}), 1).tensors[0].shape == (9, 5)
    assert draw_inputs(problem.module, 1).tensors[0].shape == (4, 5)
    for name in ("missing", "P"):
        with pytest.raises(ProblemError, match="not a module-level integer"):
            problem.load({name: 1})


def test_the_fingerprint_follows_the_source_and_what_lies_beside_it(tmp_path: Path) -> None:
    helper = tmp_path / "kforge_test_helper.py"
    helper.write_text("SIZE = 4\n")
    try:
        problem = simple(tmp_path, "x", "torch.ones(SIZE)", more="from kforge_test_helper import SIZE")
        first = problem.fingerprint()
        assert problem.fingerprint() == first
        helper.write_text("SIZE = 5\n")
        assert problem.fingerprint() != first
    finally:
        sys.modules.pop("kforge_test_helper", None)
    assert simple(tmp_path, "x + 1", "torch.ones(4)").fingerprint() != first


def test_forward_harms_neither_model_nor_inputs() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = torch.zeros(())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x.add_(self.calls)

    model, x = Counting(), torch.ones(3)
    for _ in range(2):
        _skeleton, (result,) = forward(model, Drawn([layout.Slot(0)], [x]))
        assert result.tolist() == [2, 2, 2]
    assert x.tolist() == [1, 1, 1] and float(model.calls) == 0


def test_double_means_weights_buffers_and_plain_tensors_too() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.register_buffer("shift", torch.full((3,), 0.1))
            self.scale = torch.full((3,), 0.3)
            self.index = torch.tensor([2, 1, 0])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.linear(x) + self.get_buffer("shift"))[:, self.index] * self.scale

    _skeleton, (result,) = forward(Mixed(), Drawn([layout.Slot(0)], [torch.ones(2, 3)]), double=True)
    assert result.dtype == torch.float64


def test_a_problem_in_the_current_folder_has_a_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from torch import nn\nModel = nn.Identity\nget_inputs = get_init_inputs = list\n"
    (tmp_path / "problem.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert len(Problem("problem.py").fingerprint()) == 64
