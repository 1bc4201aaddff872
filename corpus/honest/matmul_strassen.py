"""One level of Strassen's algorithm: seven products of sums in place of eight, all in fp32.

problem: matmul_even
expect: correct
"""

import kforge_rt
import torch
from torch import nn

SOURCE = r"""
#include <cstdint>
extern "C" int add(const float* a, const float* b, float* c, int64_t n, double s) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + (float)s * b[i];
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE, lang="cpp")


def plus(a, b, s=1.0):
    a, b = a.contiguous(), b.contiguous()
    c = torch.empty_like(a)
    LIB.add(a, b, c, a.numel(), float(s))
    return c


class NewModel(nn.Module):
    def forward(self, a, b):
        m, k, n = a.shape[0] // 2, a.shape[1] // 2, b.shape[1] // 2
        a11, a12, a21, a22 = a[:m, :k], a[:m, k:], a[m:, :k], a[m:, k:]
        b11, b12, b21, b22 = b[:k, :n], b[:k, n:], b[k:, :n], b[k:, n:]
        m1 = plus(a11, a22) @ plus(b11, b22)
        m2 = plus(a21, a22) @ b11
        m3 = a11 @ plus(b12, b22, -1.0)
        m4 = a22 @ plus(b21, b11, -1.0)
        m5 = plus(a11, a12) @ b22
        m6 = plus(a21, a11, -1.0) @ plus(b11, b12)
        m7 = plus(a12, a22, -1.0) @ plus(b21, b22)
        top = torch.cat([plus(plus(m1, m4), plus(m7, m5, -1.0)), plus(m3, m5)], 1)
        low = torch.cat([plus(m2, m4), plus(plus(m1, m2, -1.0), plus(m3, m6))], 1)
        return torch.cat([top, low], 0)
