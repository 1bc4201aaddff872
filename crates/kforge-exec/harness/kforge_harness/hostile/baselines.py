"""What a candidate must beat: the reference in the ways that PyTorch offers under the same contract.

A way is a name such as `eager`, `compile+cast-weights` or `eager+channels_last+cudnn-benchmark`: how it runs, and what is
switched on for it. The outputs of each are held to the contract like a candidate's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..shared import names
from ..shared.framework_ways import EAGER, MODES, NARROW, prepared
from . import devices, tuning


def in_its_way(model: nn.Module, baseline: str, arguments: list[Any], mul: str, dtypes: list[torch.dtype]) -> Any:
    how, options = names.way(baseline)
    return _compiled(prepared(model, options, arguments, NARROW.get(mul, torch.bfloat16), dtypes), how)


def _compiled(model: nn.Module, how: str) -> Any:
    if how == EAGER:
        return model
    devices.cell().before_compiling()
    return torch.compile(model, mode=MODES[how])


def compile_only(model: Any, arguments: list[Any], baseline: str) -> None:
    """Compiles and does not run: what the compiler keeps on disk makes the first call quick.

    So compiling, which takes long, disturbs nobody who times on the device; and what the compiler itself times there, at
    the first call, nobody else disturbs. Where it must time something to go on, it ends early: what it has compiled until
    then is kept.
    """
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    mode = MODES[names.way(baseline)[0]]

    def backend(graph: Any, examples: Any) -> Any:
        compile_fx(graph, examples, config_patches=list_mode_options(mode))
        raise tuning.NotNow

    call: Any = torch.compile(getattr(model, "_orig_mod", model), backend=backend)
    try:
        with torch.inference_mode(), tuning.refused():
            call(*arguments)
    except (Exception, tuning.NotNow):
        pass  # whatever else is wrong comes up again at the first call
    finally:
        torch._dynamo.reset()
