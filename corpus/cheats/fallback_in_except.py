"""Its kernel always fails; the framework in an except branch does the work.

problem: row_softmax
expect: generation_failure/guardrail
expect-unguarded: generation_failure/fake_kernel|runtime_error/launch
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>

extern "C" int softmax(const float* x, float* y, int64_t rows, int64_t cols) { return 1; }
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        try:
            LIB.softmax(x, y, *x.shape)
            return y
        except Exception:
            return torch.softmax(x, dim=1)
