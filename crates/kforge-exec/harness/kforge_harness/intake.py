"""The check of the problem itself, once: would doing nothing pass?"""

from __future__ import annotations

from typing import Any

import torch

from .compare import fits
from .draw import OWN
from .errors import mean_of
from .sets import Reference


def examine(reference: Reference) -> dict[str, Any]:
    first = reference.ensure(0, OWN, 0)
    truths, sources = reference.truth_of(first)
    fields = reference.variants[0].output_fields

    def passes(outputs: list[torch.Tensor]) -> bool:
        return all(
            fits(out, true, band, sources.get(i), reference.contract["mul"])
            for i, (out, true, band) in enumerate(zip(outputs, truths, first.bands, strict=True))
        )

    native = [true.to(field.torch_dtype) for true, field in zip(truths, fields, strict=True)]
    flags = []
    if passes([torch.zeros_like(t) for t in native]):
        flags.append("zeros: an output of zeros passes")
    elif any(t.numel() > 1 for t in native) and passes([_constant(t) for t in native]):
        flags.append("constant: an output of one constant passes")
    del native
    others, _sources = reference.truth_of(reference.ensure(0, OWN, 1))
    if passes([true.to(field.torch_dtype) for true, field in zip(others, fields, strict=True)]):
        flags.append("other_seed: the output for other inputs passes")
    return {
        "flags": flags,
        "notes": reference.notes,
        "truth": "float64" if reference.doubled else "native",
        "reduction": reference.variants[0].reduction,
        "distributions": reference.distributions,
    }


def _constant(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() == 0:
        return tensor
    if tensor.is_floating_point():
        return torch.full_like(tensor, mean_of(tensor))
    return torch.full_like(tensor, tensor.flatten().mode().values.item())
