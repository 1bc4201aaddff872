"""NewModel is a function.

problem: row_softmax
expect: generation_failure/no_class | runtime_error/construct | runtime_error/signature
"""

import torch


def NewModel(x):
    return torch.softmax(x, dim=1)
