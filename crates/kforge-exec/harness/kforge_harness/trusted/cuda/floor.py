"""Which bytes a call must move at the least: outputs, and the inputs whose change moves the truth."""

from __future__ import annotations

import copy

import torch

from ...shared import device_context, layout
from ..draw import OWN
from ..problem import to_double
from ..sets import Reference


def compulsory_bytes(reference: Reference) -> tuple[int, str]:
    """The bytes of the problem's own sizes, constant weights apart, and how they were found.

    The gradient of a random sum of the outputs is zero where an input does not matter: a row that is not gathered, a
    branch that is not taken. What does not have a gradient counts as not needed, so that the floor stays one.
    """
    variant = reference.variants[0]
    # Of an input or buffer that is written, such as a cache, a call may move a part as small as it likes.
    written = sum(field.nbytes for field in variant.output_fields[: variant.returned])
    for double in (True, False):
        try:
            return written + _with_a_gradient(reference, double), "outputs, and inputs with a gradient"
        except _NoGradient:
            return written, "outputs only: they have no gradient"
        except Exception as error:
            if not device_context.is_no_memory(error):
                return written, f"outputs only: the reference has no gradient here ({type(error).__name__})"
        device_context.give_back_all()
    return written, "outputs only: the device has no room for a gradient"


class _NoGradient(Exception):
    """No output depends on an input in a way that can be derived."""


def _with_a_gradient(reference: Reference, double: bool) -> int:
    """Bytes of the inputs on which the outputs depend."""
    made = reference.present(reference.ensure(0, OWN, 0).name)
    variant = reference.variants[0]
    tensors = reference.store_of(made).read_tensors(f"{made.name}.in", variant.input_fields)
    dtype = torch.float64 if double else None
    given = [
        t.to(dtype or t.dtype, copy=True).requires_grad_() if t.is_floating_point() else t.clone() for t in tensors
    ]
    inputs = [t for t in given if t.requires_grad]
    model = copy.deepcopy(reference.model(0))
    if double:
        model = to_double(model)
    with torch.enable_grad():
        result = model(*layout.join(layout.unpack(variant.input_skeleton), given))
        _skeleton, outputs = layout.split(result)
        total = sum((o * torch.rand_like(o)).sum() for o in outputs if o.is_floating_point() and o.requires_grad)
    if not isinstance(total, torch.Tensor):
        raise _NoGradient
    fields = (f for f, t in zip(variant.input_fields, given, strict=True) if t.requires_grad)
    gradients = torch.autograd.grad(total, inputs, allow_unused=True)
    return sum(
        int(torch.count_nonzero(gradient)) * (field.nbytes // max(1, gradient.numel()))
        for field, gradient in zip(fields, gradients, strict=True)
        if gradient is not None
    )
