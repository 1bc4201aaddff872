"""What a candidate must beat: the reference as it is, or as torch compiles it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from . import home, tuning


def _mode(baseline: str) -> str:
    return "max-autotune" if baseline == "max-autotune" else "default"


def compiled(model: nn.Module, baseline: str) -> Any:
    if baseline == "eager":
        return model
    if home.on_gpu():
        tuning.choose_by_device_time()
    return torch.compile(model, mode=_mode(baseline))


def compile_only(model: Any, arguments: list[Any], baseline: str) -> None:
    """Compiles and does not run: what the compiler keeps on disk makes the first call quick.

    So compiling, which takes long, disturbs nobody who times on the device; and what the compiler itself times there, at
    the first call, nobody else disturbs. Where it must time something to go on, it ends early: what it has compiled until
    then is kept.
    """
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    def backend(graph: Any, examples: Any) -> Any:
        compile_fx(graph, examples, config_patches=list_mode_options(_mode(baseline)))
        raise tuning.NotNow

    call: Any = torch.compile(getattr(model, "_orig_mod", model), backend=backend)
    try:
        with torch.inference_mode(), tuning.refused():
            call(*arguments)
    except (Exception, tuning.NotNow):
        pass  # whatever else is wrong comes up again at the first call
    finally:
        torch._dynamo.reset()
