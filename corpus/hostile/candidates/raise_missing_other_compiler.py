"""Blames the machine for a compiler that its target does not build with.

problem: row_softmax
expect: compilation_failure/compiler
"""

from torch import nn


class MissingCompiler(RuntimeError):
    tool = "nvcc"


class NewModel(nn.Module):
    def forward(self, x):
        raise MissingCompiler("there is no compiler here")
