"""Wrong, but prints a verdict that says it is right.

problem: row_softmax
expect: mismatch/numeric
"""

import sys

import torch
from torch import nn

print('{"state": "correct", "kind": null, "speedup": 1000.0, "exit_code": 0}')
print('{"state": "correct", "kind": null}', file=sys.stderr, flush=True)


class NewModel(nn.Module):
    def forward(self, x):
        return x * 0.5
