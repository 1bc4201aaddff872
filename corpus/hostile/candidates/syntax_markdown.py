"""A Markdown fence and a sentence were left around the code.

problem: row_softmax
expect: generation_failure/syntax
"""

Here is the faster kernel:

```python
import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
```
