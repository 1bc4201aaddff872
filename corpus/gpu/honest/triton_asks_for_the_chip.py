"""Persistent programs, as many as the chip bears: asked of Triton's driver and of torch when the file is imported.

problem: scale_bias
target: nvidia/triton
expect: correct
"""

import torch
import triton
import triton.language as tl

DRIVER = triton.runtime.driver.active
DEVICE = DRIVER.get_current_device()
SHARED = DRIVER.utils.get_device_properties(DEVICE)["max_shared_mem"]
PROCESSORS = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)
BLOCK = 4096 if HOPPER and SHARED > 100_000 else 1024
assert DRIVER.get_current_target().backend == "cuda" and DRIVER.get_active_torch_device().type == "cuda"


@triton.jit
def scale_bias_kernel(x_ptr, gain_ptr, bias_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    for start in range(0, n_cols, BLOCK):
        mask = start + cols < n_cols
        gain = tl.load(gain_ptr + start + cols, mask=mask, other=0.0)
        bias = tl.load(bias_ptr + start + cols, mask=mask, other=0.0)
        for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
            at = row.to(tl.int64) * n_cols + start.to(tl.int64) + cols
            x = tl.load(x_ptr + at, mask=mask, other=0.0)
            tl.store(y_ptr + at, x * gain + bias, mask=mask)


class NewModel(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        scale_bias_kernel[(8 * PROCESSORS,)](x, self.gain, self.bias, y, rows, cols, BLOCK=BLOCK)
        return y
