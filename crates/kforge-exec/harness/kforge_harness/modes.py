"""What the harness's own dispatch modes have in common."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class Watch(TorchDispatchMode):
    """A dispatch mode that only looks on."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled under these modes. The default would import torch._dynamo at the first operator: a second
        # for each cell, and Triton with it, which a cell must first switch to its interpreter.
        return False
