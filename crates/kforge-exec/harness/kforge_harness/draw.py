"""Where values come from: secret seeds, other distributions than the problem's own, re-drawn weights."""

from __future__ import annotations

import copy
import hashlib
import hmac

import torch
from torch import nn

from . import home
from .align import weights_of
from .problem import Drawn

OWN = "own"
_PIECE = 1 << 25  # elements that are drawn at once
REDRAWN = ("normal", "uniform", "heavy", "zeros")


def derive(secret: bytes, label: str) -> int:
    """A seed for one purpose; nothing about one seed follows from another."""
    return int.from_bytes(hmac.new(secret, label.encode(), hashlib.sha256).digest()[:8], "little") >> 1


def redraw(own: Drawn, structured: list[bool], distribution: str, seed: int) -> Drawn:
    """The same shapes with other values; index, mask and structured inputs stay as `get_inputs` gave them."""
    generator = torch.Generator(home.device()).manual_seed(seed)
    tensors = [
        tensor if keep else _values(tensor, distribution, generator)
        for tensor, keep in zip(own.tensors, structured, strict=True)
    ]
    return Drawn(own.skeleton, tensors)


def _values(like: torch.Tensor, distribution: str, generator: torch.Generator) -> torch.Tensor:
    """In pieces: what is drawn on the way must not take several times the input."""
    # Doubles drawn as floats would be the same after rounding to float: lower precision could not be told from theirs.
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    made = torch.empty_like(like)  # dense, as every input
    for piece in made.as_strided((made.numel(),), (1,)).split(_PIECE):
        piece.copy_(_drawn(piece.numel(), distribution, dtype, generator))
    return made


def _drawn(count: int, distribution: str, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    def normal() -> torch.Tensor:
        return torch.randn(count, generator=generator, dtype=dtype, device=generator.device)

    def uniform(dtype: torch.dtype) -> torch.Tensor:
        return torch.rand(count, generator=generator, dtype=dtype, device=generator.device)

    if distribution == "normal":
        return normal()
    if distribution == "uniform":
        return uniform(dtype) * 2 - 1
    if distribution == "heavy":
        return torch.sign(normal()) * torch.exp(1.5 * normal()).clamp(max=1e3)
    keep = uniform(torch.float32) < 0.5
    return torch.where(keep, normal(), 0.0)


def structured_inputs(first: Drawn, second: Drawn) -> list[bool]:
    """Which inputs are not plain random values: integers, masks, constants, values from a small set."""
    return [_structured(a, b) for a, b in zip(first.tensors, second.tensors, strict=True)]


def _structured(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not a.is_floating_point() or a.numel() == 0:
        return True
    if a.shape != b.shape or torch.equal(a, b):
        return True
    sample = a.flatten()[:4096].float()
    if not torch.isfinite(a).all():
        return True
    distinct = torch.unique(sample).numel()
    # Half of a triangular or one-hot input is one value; a random one repeats almost nothing.
    return distinct <= max(1, min(16, sample.numel() // 2)) or bool((a == 0).float().mean() > 0.3)


def redraw_weights(model: nn.Module, seed: int) -> nn.Module:
    """A copy with every parameter drawn anew at its initialiser's scale, gains and biases included."""
    made = copy.deepcopy(model)
    generator = torch.Generator(home.device()).manual_seed(seed)
    with torch.no_grad():
        for weight in weights_of(made):
            tensor = weight.tensor
            if not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            name = weight.name.rpartition(".")[2]
            noise = torch.randn(tensor.shape, generator=generator, device=tensor.device).to(tensor.dtype)
            if name == "running_var":
                tensor.copy_(0.5 + noise.abs())
            elif name == "running_mean":
                tensor.copy_(0.5 * noise)
            elif weight.kind == "parameter":
                tensor.data.copy_(_at_scale(tensor.data, noise))
    return made


def _at_scale(tensor: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    spread = tensor.double().std().item() if tensor.numel() > 1 else 0.0
    if spread > 0.0:
        return tensor.mean() + spread * noise
    # A constant tensor is a gain or a bias: a candidate that leaves it out must be noticed.
    center = tensor.flatten()[0]
    return center + (0.25 * center.abs() + (0.5 if center == 0 else 0.0)) * noise
