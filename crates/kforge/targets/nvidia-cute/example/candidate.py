"""Bias, ReLU and row normalisation in CuTe DSL: one block per row, compiled once for all sizes."""

import functools

import cuda.bindings.driver as cuda
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor, make_fake_stream
from torch import nn

THREADS = 256
WARPS = THREADS // 32


@cute.kernel
def relu_mix_kernel(x: cute.Tensor, bias: cute.Tensor, y: cute.Tensor, eps: cutlass.Float32):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    cols = x.shape[1]
    total = cutlass.Float32(0.0)
    for c in range(thread, cols, THREADS):
        h = x[row, c] + bias[c]
        if h < 0.0:  # this way round a NaN stays a NaN, as in the framework
            h = cutlass.Float32(0.0)
        total += h

    partial = cute.make_tensor(cute.arch.alloc_smem(cutlass.Float32, WARPS), cute.make_layout(WARPS))
    total = cute.arch.warp_reduction_sum(total)
    warp = cute.arch.warp_idx()  # a shuffle: inside of the branch, lane 0 would wait for the others for ever
    if cute.arch.lane_idx() == 0:
        partial[warp] = total
    cute.arch.sync_threads()
    divisor = eps
    for w in cutlass.range_constexpr(WARPS):
        divisor += partial[w]

    for c in range(thread, cols, THREADS):
        h = x[row, c] + bias[c]
        if h < 0.0:
            h = cutlass.Float32(0.0)
        y[row, c] = h / divisor


@cute.jit
def relu_mix(x: cute.Tensor, bias: cute.Tensor, y: cute.Tensor, eps: cutlass.Float32, stream: cuda.CUstream):
    relu_mix_kernel(x, bias, y, eps).launch(grid=[x.shape[0], 1, 1], block=[THREADS, 1, 1], stream=stream)


@functools.cache
def compiled():
    """Fake tensors stand for what will be passed: sizes that are not known yet, rows next to each other."""
    rows, cols = cute.sym_int(), cute.sym_int()

    def fake(*shape):
        order = tuple(reversed(range(len(shape))))  # the last dimension is the contiguous one
        return make_fake_compact_tensor(cutlass.Float32, shape, stride_order=order, assumed_align=16)

    arguments = (fake(rows, cols), fake(cols), fake(rows, cols), cutlass.Float32(0.0), make_fake_stream())
    return cute.compile(relu_mix, *arguments)


def ahead_of_time():
    return {"relu_mix": compiled()}


def view(tensor: torch.Tensor):
    """As the fake tensors say: sizes and outer strides are passed, the last stride is 1."""
    return from_dlpack(tensor.detach(), assumed_align=16).mark_layout_dynamic(leading_dim=tensor.ndim - 1)


class NewModel(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))  # same name and shape as the reference's: its value is copied in
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.contiguous().view(-1, x.shape[-1])
        y = torch.empty_like(rows)
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        compiled()(view(rows), view(self.bias), view(y), float(self.eps), stream)
        return y.view(x.shape)
