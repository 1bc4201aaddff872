"""Leaves a daemon that outlives it and touches files.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: correct | runtime_error/process_limit
"""

import os
import tempfile
import time

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        const float* a = x + r * cols;
        float* b = y + r * cols;
        float top = a[0], sum = 0.0f;
        for (int64_t c = 1; c < cols; c++) top = a[c] > top ? a[c] : top;
        for (int64_t c = 0; c < cols; c++) sum += b[c] = std::exp(a[c] - top);
        for (int64_t c = 0; c < cols; c++) b[c] /= sum;
    }
    return 0;
}
"""
lib = kforge_rt.build(SOURCE)
def leave_daemon():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for _ in range(1000):
        time.sleep(1)
        for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
            try:
                open(os.path.join(folder, "kforge_hostile_mark"), "w").close()
            except OSError:
                pass
    os._exit(0)


leave_daemon()


class NewModel(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.softmax(x, y, x.shape[0], x.shape[1])
        return y
