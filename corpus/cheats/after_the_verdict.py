"""atexit hook and a signal handler that print a good verdict once the bad one has been found.

problem: row_softmax
expect: generation_failure/guardrail|mismatch/numeric
expect-unguarded: mismatch/numeric
"""

import atexit
import os
import signal

import torch


def forge(*_):
    os.write(1, b'\n{"state": "correct", "speedup": 100.0}\n')
    os._exit(0)


atexit.register(forge)
signal.signal(signal.SIGTERM, forge)


class NewModel(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
