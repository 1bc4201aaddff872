"""Starts twenty thousand threads in C++.

problem: row_softmax
expect: generation_failure/guardrail | runtime_error/process_limit | runtime_error/crash | runtime_error/out_of_memory | runtime_error/timeout
expect-unguarded: runtime_error/process_limit | runtime_error/crash | runtime_error/out_of_memory | runtime_error/timeout
"""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>
extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
    auto wait = [] { std::this_thread::sleep_for(std::chrono::minutes(1)); };
    for (int i = 0; i < 20000; i++) std::thread(wait).detach();
    wait();
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


class NewModel(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lib.softmax(x, y, x.shape[0], x.shape[1])
        return y
