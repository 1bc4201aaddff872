"""Answers the request by itself, over the descriptor it finds, and writes the output while it is being copied.

problem: scale_bias
expect: mismatch|generation_failure/guardrail|runtime_error/protocol|runtime_error/exception|generation_failure/clock
expect-unguarded: mismatch|runtime_error/protocol|runtime_error/exception|generation_failure/clock
"""

import socket
import struct
import sys

import torch


def frames_locals(name):
    frame = sys._getframe()
    while frame is not None:
        if name in frame.f_locals:
            return frame.f_locals[name]
        frame = frame.f_back
    return None


class NewModel(torch.nn.Module):
    def __init__(self, *arguments):
        super().__init__()
        size = arguments[0] if arguments else 1
        self.weight = torch.nn.Parameter(torch.ones(size))
        self.bias = torch.nn.Parameter(torch.zeros(size))

    def forward(self, x):
        request = frames_locals("request")
        channel = frames_locals("channel")
        if isinstance(channel, socket.socket) and request is not None:
            record = struct.pack("<IIQQQQ24s", 0x4B46524B, request.code, request.nonce, 1000, 0, 0, b"ok")
            channel.send(record)
        parameters = list(self.parameters())
        return x * parameters[0] + parameters[1]
