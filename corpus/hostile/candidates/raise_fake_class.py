"""The exception takes the name of the runtime's build error.

problem: row_softmax
expect: generation_failure/guardrail | runtime_error/exception | compilation_failure/compiler
expect-unguarded: runtime_error/exception | compilation_failure/compiler
"""

import torch
from torch import nn

class BuildError(RuntimeError):
    log = "error: none of this happened"


BuildError.__module__ = "kforge_rt"


class NewModel(nn.Module):
    def forward(self, x):
        raise BuildError("the compiler failed")
