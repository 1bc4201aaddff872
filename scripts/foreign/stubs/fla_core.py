"""Instead of dispatch to other vendors' backends, a cache of tuning results and what they read from the environment."""

import triton
import triton.language as tl

IS_AMD = False
IS_INTEL = False
IS_NPU = False
IS_NVIDIA_HOPPER = True
IS_NVIDIA_BLACKWELL = False
TRITON_ABOVE_3_4_0 = True
TRITON_ABOVE_3_7_1 = False
TRITON_ABOVE_3_8_0 = False
autotune_cache_kwargs: dict[str, object] = {}


def dispatch(family: object) -> object:
    return family if callable(family) else lambda function: function


def input_guard(function: object = None, **_options: object) -> object:
    return function if function is not None else lambda guarded: guarded


def fla_cache_autotune(configs: list[triton.Config], key: list[str], **_options: object) -> object:
    return triton.autotune(configs=configs, key=key)


def check_shared_mem(*_architecture: object) -> bool:
    return True


def get_multiprocessor_count(_index: int = 0) -> int:
    return 132


def tensor_cache(function: object) -> object:
    return function


def prepare_chunk_indices(*_arguments: object) -> None:
    raise NotImplementedError("sequences of several lengths")


def prepare_chunk_offsets(*_arguments: object) -> None:
    raise NotImplementedError("sequences of several lengths")


def autocast_custom_fwd(function: object) -> object:
    return function


def autocast_custom_bwd(function: object) -> object:
    return function


@triton.jit
def exp(x):
    return tl.exp(x.to(tl.float32))


@triton.jit
def exp2(x):
    return tl.exp2(x.to(tl.float32))


@triton.jit
def log(x):
    return tl.log(x.to(tl.float32))
