"""Bias, rotation and cache update in Triton: a program takes all heads of one token, cosine and sine once for them."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def update_token_kernel(
    qkv_ptr,
    bias_ptr,
    cos_ptr,
    sin_ptr,
    k_ptr,
    v_ptr,
    slots_ptr,
    q_ptr,
    tokens,
    cache,
    N_HEADS: tl.constexpr,
    N_HALF: tl.constexpr,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    token = row % tokens
    width = N_HEADS * 2 * N_HALF
    heads, inner = tl.arange(0, HEADS), tl.arange(0, HALF)
    mask = (heads[:, None] < N_HEADS) & (inner[None, :] < N_HALF)
    at = heads[:, None] * 2 * N_HALF + inner[None, :]
    cos = tl.load(cos_ptr + token * N_HALF + inner, mask=inner < N_HALF, other=0.0)[None, :]
    sin = tl.load(sin_ptr + token * N_HALF + inner, mask=inner < N_HALF, other=0.0)[None, :]
    source = qkv_ptr + row * 3 * width
    u = tl.load(source + at, mask=mask, other=0.0) + tl.load(bias_ptr + at, mask=mask, other=0.0)
    w = tl.load(source + at + N_HALF, mask=mask, other=0.0) + tl.load(bias_ptr + at + N_HALF, mask=mask, other=0.0)
    tl.store(q_ptr + row * width + at, u * cos - w * sin, mask=mask)
    tl.store(q_ptr + row * width + at + N_HALF, w * cos + u * sin, mask=mask)
    slot = tl.load(slots_ptr + token)
    place = (row // tokens * cache + slot) * width
    keys, values = source + width, source + 2 * width
    key_bias, value_bias = bias_ptr + width, bias_ptr + 2 * width
    u = tl.load(keys + at, mask=mask, other=0.0) + tl.load(key_bias + at, mask=mask, other=0.0)
    w = tl.load(keys + at + N_HALF, mask=mask, other=0.0) + tl.load(key_bias + at + N_HALF, mask=mask, other=0.0)
    tl.store(k_ptr + place + at, u * cos - w * sin, mask=mask)
    tl.store(k_ptr + place + at + N_HALF, w * cos + u * sin, mask=mask)
    first = tl.load(values + at, mask=mask, other=0.0) + tl.load(value_bias + at, mask=mask, other=0.0)
    second = tl.load(values + at + N_HALF, mask=mask, other=0.0)
    second += tl.load(value_bias + at + N_HALF, mask=mask, other=0.0)
    tl.store(v_ptr + place + at, first, mask=mask)
    tl.store(v_ptr + place + at + N_HALF, second, mask=mask)


class NewModel(nn.Module):
    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(3 * num_heads * head_dim))

    def forward(
        self,
        qkv: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
    ) -> torch.Tensor:
        batch, tokens, _ = qkv.shape
        cache, heads, dim = k_cache.shape[1:]
        q = torch.empty(batch, tokens, heads, dim, device=qkv.device)
        update_token_kernel[(batch * tokens,)](
            qkv,
            self.bias,
            cos,
            sin,
            k_cache,
            v_cache,
            slots,
            q,
            tokens,
            cache,
            N_HEADS=heads,
            N_HALF=dim // 2,
            HEADS=triton.next_power_of_2(heads),
            HALF=triton.next_power_of_2(dim // 2),
            num_warps=8,
        )
        return q
