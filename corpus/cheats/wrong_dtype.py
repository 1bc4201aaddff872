"""Returns half precision to save bandwidth.

problem: row_softmax
expect: mismatch/dtype|generation_failure/guardrail
expect-unguarded: mismatch/dtype
"""

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1).half()
