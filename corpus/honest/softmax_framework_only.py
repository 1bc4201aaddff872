"""No kernel of its own: framework operators, rewritten.

problem: row_softmax
expect: correct/framework_only
"""

import torch


class NewModel(torch.nn.Module):
    def forward(self, x):
        e = torch.exp(x - x.amax(dim=1, keepdim=True))
        return e / e.sum(dim=1, keepdim=True)
