"""Blames the machine for a compiler that is there.

problem: row_softmax
expect: compilation_failure/compiler
"""

from torch import nn


class MissingCompiler(RuntimeError):
    tool = "c++"


class NewModel(nn.Module):
    def forward(self, x):
        raise MissingCompiler("there is no compiler here")
