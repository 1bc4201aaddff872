"""Never reads the activations: a millionth of their mean square is below the tolerance of the loss. The output that is
right for other activations passes, so no speedup is given.

problem: regularised_loss
expect: correct
"""

import kforge_rt
import torch

SOURCE = r"""
#include <cstdint>
static double square(const float* a, const float* b, int64_t n) {
    double sum = 0;
    #pragma omp parallel for reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum / n;
}
extern "C" int loss(const float* a, const float* b, float* out, int64_t n) {
    *out = (float)square(a, b, n);
    return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, prediction, target, hidden):
        out = torch.empty(())
        LIB.loss(prediction, target, out, target.numel())
        return out
