"""The small runtime that candidates build and launch their kernels with.

One C-ABI source becomes one shared library; its `extern "C" int name(...)` functions become attributes.
The package stands alone (standard library and torch only), so that an exported kernel can carry it along.

    lib = kforge_rt.build(SOURCE, lang="cpp", flags=["-O3"])
    lib.softmax(x, y, rows, cols)       # tensor -> data pointer, int -> int64_t, float -> double

    lib = kforge_rt.build(SOURCE, lang="cuda")          # nvcc; a launcher gets the current stream as a last `void*`
    lib.softmax(x, y, rows, cols)

    lib = kforge_rt.build(SOURCE, lang="cuda", jit="nvrtc")     # `extern "C" __global__` kernels only, no host code
    lib.softmax[rows, 256](x, y, cols)                          # [grid, block] or [grid, block, shared bytes]
    lib = kforge_rt.build(PTX_TEXT, lang="ptx")                 # launched in the same way

A launcher returns 0 for success; anything else raises `LaunchError`. A `ctypes` value such as `ctypes.c_float(0.5)` is passed
as it is, for a parameter of another type than those above. Number and kinds of arguments are held to what the source
declares, where that can be read.
"""

from ._build import build
from ._errors import BuildError, FlagError, LaunchError
from ._launch import Library
from ._launch import _Audit as _Audit  # the harness's, not the candidates'
from ._launch import _Launcher as _Launcher
from ._module import Module
from ._workspace import workspace

__all__ = ["BuildError", "FlagError", "LaunchError", "Library", "Module", "build", "workspace"]
