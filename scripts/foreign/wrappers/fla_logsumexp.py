"""Parts of rows, which the framework joins.

package: fla-core
problem: logsumexp
"""

import torch
from fla.ops.utils.logsumexp import logsumexp_fwd
from torch import nn


class NewModel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return logsumexp_fwd(x)
