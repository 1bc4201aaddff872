"""The message has control characters, escapes, lone surrogates and a direction override.

problem: row_softmax
expect: runtime_error/exception
"""

import torch
from torch import nn


class NewModel(nn.Module):
    def forward(self, x):
        raise RuntimeError("\x00\x1b[2J\x07\r\n\ud800\udcff\u202e\x9b31m end")
