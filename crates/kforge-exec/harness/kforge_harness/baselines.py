"""What a candidate must beat: the reference as it is, or as torch compiles it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def compiled(model: nn.Module, baseline: str) -> Any:
    if baseline == "eager":
        return model
    return torch.compile(model, mode="max-autotune" if baseline == "max-autotune" else "default")


class _Compiled(Exception):
    pass


def compile_only(model: Any, arguments: list[Any]) -> None:
    """Compiles and does not run: what the compiler keeps on disk makes the first call quick.

    So compiling, which takes long, disturbs nobody who times on the device; and what the compiler itself times there, at
    the first call, nobody else disturbs.
    """
    from torch._inductor.compile_fx import compile_fx

    def backend(graph: Any, examples: Any) -> Any:
        compile_fx(graph, examples)
        raise _Compiled

    call: Any = torch.compile(getattr(model, "_orig_mod", model), backend=backend)
    try:
        with torch.inference_mode():
            call(*arguments)
    except Exception:
        pass  # if it is not the one above, it comes up again at the first call
    finally:
        torch._dynamo.reset()
