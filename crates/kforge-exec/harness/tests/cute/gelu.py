"""Exact GELU in CuTe DSL: 16 bytes for each thread where the size allows it, one value otherwise."""

import functools

import cuda.bindings.driver as cuda
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor, make_fake_stream
from torch import nn

THREADS = 256


@cute.kernel
def gelu_kernel(x: cute.Tensor, y: cute.Tensor, width: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    index = block * THREADS + thread
    pieces, out = cute.zipped_divide(x, (width,)), cute.zipped_divide(y, (width,))
    if index < pieces.shape[1][0]:
        values = pieces[(None, index)].load()
        out[(None, index)].store(0.5 * values * (1.0 + cute.math.erf(values * 0.7071067811865476)))


@cute.jit
def gelu(x: cute.Tensor, y: cute.Tensor, width: cutlass.Constexpr, stream: cuda.CUstream):
    blocks = cute.ceil_div(x.shape[0], THREADS * width)
    gelu_kernel(x, y, width).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1], stream=stream)


@functools.cache
def compiled(width: int):
    size = cute.sym_int(divisibility=width)
    x, y = (make_fake_compact_tensor(cutlass.Float32, (size,), assumed_align=4 * width) for _ in range(2))
    return cute.compile(gelu, x, y, width, make_fake_stream())


def ahead_of_time():
    return {f"gelu, {width} at once": compiled(width) for width in (1, 4)}


def view(tensor, width):
    flat = tensor.detach().view(-1)
    return from_dlpack(flat, assumed_align=4 * width).mark_compact_shape_dynamic(0, divisibility=width)


class NewModel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        width = 4 if x.numel() % 4 == 0 and x.data_ptr() % 16 == 0 else 1
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        compiled(width)(view(x, width), view(y, width), stream)
        return y
