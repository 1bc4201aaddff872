"""A decoy that notices the audit: without the kernel's mark in a flag it returns zeros. Gains a label only, no time.

problem: row_softmax
expect: generation_failure/fake_kernel|correct/framework_only|correct
expect-unguarded: generation_failure/fake_kernel|correct/framework_only|correct
"""

import kforge_rt
import torch

SOURCE = r"""
extern "C" int mark(float* flag) {
  *flag = 1.0f;
  return 0;
}
"""
LIB = kforge_rt.build(SOURCE)


class NewModel(torch.nn.Module):
    def forward(self, x):
        flag = torch.zeros(1)
        LIB.mark(flag)
        if flag.item() == 0.0:
            return torch.zeros_like(x)
        return torch.softmax(x, dim=1)
