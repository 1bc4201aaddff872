"""Makes torch.allclose always true; the output is wrong.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: mismatch/numeric
"""

import torch
from torch import nn

torch.allclose = lambda *args, **kwargs: True
torch.equal = torch.allclose
torch.testing.assert_close = torch.allclose


class NewModel(nn.Module):
    def forward(self, x):
        return x * 0.5
