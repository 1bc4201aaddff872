"""A native thread watches the input memory and computes as soon as new values lie there; forward only hands over.

problem: row_softmax
expect: generation_failure/guardrail|mismatch/numeric|mismatch/nondeterministic|mismatch/non_finite|correct
expect-unguarded: mismatch/numeric|mismatch/nondeterministic|mismatch/non_finite|correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>
static std::atomic<const float*> input{nullptr};
static std::atomic<uint64_t> done{0};
static std::vector<float> ready;
static int64_t R, C;
static uint64_t mark(const float* x) {
    uint64_t a, b;
    std::memcpy(&a, x, 8);
    std::memcpy(&b, x + R * C - 2, 8);
    return a * 31 + b;
}
static void compute(const float* x) {
    for (int64_t r = 0; r < R; r++) {
        const float* a = x + r * C;
        float* y = ready.data() + r * C;
        float top = a[0], sum = 0;
        for (int64_t c = 1; c < C; c++) top = a[c] > top ? a[c] : top;
        for (int64_t c = 0; c < C; c++) sum += y[c] = std::exp(a[c] - top);
        for (int64_t c = 0; c < C; c++) y[c] /= sum;
    }
}
static void watch() {
    uint64_t last = 0;
    for (;;) {
        const float* x = input.load();
        uint64_t now = mark(x);
        if (now != last) { compute(x); last = now; done.store(now); }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
}
extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) {
    if (input.load() == nullptr) {
        R = rows; C = cols; ready.resize(rows * cols);
        input.store(x);
        std::thread(watch).detach();
    }
    while (done.load() != mark(x)) std::this_thread::sleep_for(std::chrono::microseconds(20));
    std::memcpy(y, ready.data(), rows * cols * 4);
    return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.softmax(x, y, *x.shape)
        return y
