"""Problems and references for the tests, made from a few lines of text."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import torch

from kforge_harness.trusted.problem import Drawn, Problem
from kforge_harness.trusted.sets import Reference
from kforge_harness.trusted.store import Store

SECRET = bytes(range(32))
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


def problem_of(folder: Path, text: str) -> Problem:
    path = folder / "problem.py"
    path.write_text(HEAD + textwrap.dedent(text))
    return Problem(str(path))


def simple(folder: Path, forward: str, inputs: str = "torch.randn(8, 16)", init: str = "", more: str = "") -> Problem:
    """A problem whose model has one expression as its forward."""
    body = textwrap.indent(textwrap.dedent(init) or "pass", " " * 8)
    return problem_of(
        folder,
        f"{more}\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n{body}\n"
        f"    def forward(self, x, *rest):\n        return {forward}\n"
        f"def get_inputs():\n    return [{inputs}]\n",
    )


def reference_of(
    problem: Problem, folder: Path, contract: dict[str, Any] | None = None, reduced: bool = False
) -> Reference:
    made = Reference(problem, contract or {}, SECRET, Store(str(folder / "store")), reduced)
    made.prepare()
    return made


def drawn(*tensors: torch.Tensor) -> Drawn:
    from kforge_harness.shared import layout

    return Drawn(*layout.split(list(tensors)))
