"""The check of the problem itself, once: would doing nothing pass?"""

from __future__ import annotations

from typing import Any

import torch

from ..shared import device_context
from .compare import fits
from .doubt import Doubt
from .draw import OWN
from .errors import mean_of
from .indices import IndexSource
from .precisions import wide
from .problem import Drawn, input_names
from .sets import Reference
from .truth import Band

_MOST_INPUTS = 16  # of which each is tried by itself


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
    reference.faint = _faint(reference, first.bands, truths, sources)
    if reference.faint:
        reference.note(
            f"a kernel that ignores {', '.join(reference.faint)} would pass: other values change the outputs by less than the tolerance"
        )
    if not reference.varies:
        flags.append("fixed_inputs: no input varies, so that an output may be kept from one call to the next")
    return {
        "flags": flags,
        "notes": reference.notes,
        "writes": reference.variants[0].written_names,
        "truth": "float64" if reference.doubled else "native",
        "reduction": reference.variants[0].reduction,
        "distributions": reference.distributions,
        "precision": reference.precision(),
    }


def _faint(
    reference: Reference, bands: list[Band | None], truths: list[torch.Tensor], sources: dict[int, IndexSource | Doubt]
) -> list[str]:
    """Inputs that the reference uses, and whose other values still give outputs that would pass."""
    base, other = reference.draw(0, OWN, 0), reference.draw(0, OWN, 1)
    tensors = base.tensors
    if reference.rounds_truths or not 1 < len(tensors) <= _MOST_INPUTS:
        return []
    fields, mul, found = reference.variants[0].output_fields, reference.contract["mul"], []
    for index, name in enumerate(input_names(reference.model(0), base)):
        if not tensors[index].numel() or torch.equal(wide(tensors[index]), wide(other.tensors[index])):
            continue
        changed = [*tensors[:index], other.tensors[index], *tensors[index + 1 :]]
        try:
            outputs = reference.exactly(0, Drawn(base.skeleton, changed))[0]
        except Exception as error:
            if device_context.is_no_memory(error):
                raise
            continue
        same = all(torch.equal(wide(a), wide(b)) for a, b in zip(outputs, truths, strict=True))
        rounded = [true.to(field.torch_dtype) for true, field in zip(outputs, fields, strict=True)]
        if not same and all(
            fits(out, true, band, sources.get(i), mul)
            for i, (out, true, band) in enumerate(zip(rounded, truths, bands, strict=True))
        ):
            found.append(name)
    return found


def _constant(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() == 0:
        return tensor
    if tensor.is_floating_point():
        return torch.full_like(tensor, mean_of(tensor))
    return torch.full_like(tensor, tensor.flatten().mode().values.item())
