"""Seeds the generator in the hope that the next inputs repeat, and returns the answer for those.

problem: row_softmax
expect: generation_failure/guardrail|mismatch/numeric
expect-unguarded: mismatch/numeric
"""

import torch


class NewModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.answer = torch.softmax(torch.rand(1024, 1024), dim=1)
        torch.manual_seed(0)

    def forward(self, x):
        torch.manual_seed(0)
        return self.answer.clone()
