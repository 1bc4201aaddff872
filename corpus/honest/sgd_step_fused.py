"""A step that is far smaller than what it is added to: the kernel matters, though the parameters hardly change.

problem: sgd_step
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cmath>
#include <cstdint>
extern "C" int step(float* p, const float* g, int64_t n, double lr) {
    const float rate = (float)-lr;
    #pragma omp parallel for
    for (int64_t i = 0; i < n; i++) p[i] = std::fma(rate, g[i], p[i]);
    return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr

    def forward(self, param, grad):
        LIB.step(param, grad, param.numel(), self.lr)
