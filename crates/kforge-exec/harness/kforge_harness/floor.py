"""Which bytes a call must move at the least: outputs, and the inputs whose change moves the truth."""

from __future__ import annotations

import copy

import torch

from . import layout
from .draw import OWN
from .problem import to_double
from .sets import Reference


def compulsory_bytes(reference: Reference) -> tuple[int, str]:
    """The bytes of the problem's own sizes, constant weights apart, and how they were found.

    The gradient of a random sum of the outputs is zero where an input does not matter: a row that is not gathered, a
    branch that is not taken. What does not have a gradient counts as not needed, so that the floor stays one.
    """
    made = reference.present(reference.ensure(0, OWN, 0).name)
    variant = reference.variants[0]
    written = sum(field.nbytes for field in variant.output_fields)
    tensors = reference.store_of(made).read_tensors(f"{made.name}.in", variant.input_fields)
    wide = [t.double().requires_grad_() if t.is_floating_point() else t.clone() for t in tensors]
    inputs = [t for t in wide if t.requires_grad]
    try:
        model = to_double(copy.deepcopy(reference.model(0)))
        with torch.enable_grad():
            result = model(*layout.join(layout.unpack(variant.input_skeleton), wide))
            _skeleton, outputs = layout.split(result)
            total = sum((o * torch.rand_like(o)).sum() for o in outputs if o.is_floating_point() and o.requires_grad)
        if not isinstance(total, torch.Tensor):
            return written, "outputs only: they have no gradient"
        gradients = torch.autograd.grad(total, inputs, allow_unused=True)
    except Exception as error:
        return written, f"outputs only: the reference has no gradient here ({type(error).__name__})"
    needed = 0
    for field, tensor, gradient in zip(
        (f for f, t in zip(variant.input_fields, wide, strict=True) if t.requires_grad), inputs, gradients, strict=True
    ):
        if gradient is not None:
            needed += int(torch.count_nonzero(gradient)) * (field.nbytes // max(1, tensor.numel()))
    return written + needed, "outputs, and inputs with a gradient"
