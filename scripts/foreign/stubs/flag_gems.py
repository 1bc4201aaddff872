"""Instead of a runtime that finds out about a dozen vendors, keeps compiled kernels in a database and reads tables of
tuned configurations: kernels are launched by Triton itself, with a few configurations of our own."""

from contextlib import nullcontext

import torch
import triton
from flag_gems.runtime.backend._nvidia.heuristics_config_utils import HEURISTICS_CONFIGS
from triton.language.extra import libdevice

HAS_TLE = False
tl_extra_shim = libdevice
device = "cuda"


class torch_device_fn:
    @staticmethod
    def device(_device: object) -> nullcontext[None]:
        return nullcontext()


def get_device_properties(index: int) -> object:
    return torch.cuda.get_device_properties(index)


def libentry() -> object:
    return lambda kernel: kernel


def libtuner(configs: list[triton.Config], key: list[str], **_options: object) -> object:
    return triton.autotune(configs=configs, key=key)


def get_heuristic_config(name: str) -> dict[str, object]:
    return HEURISTICS_CONFIGS[name]


def get_tuned_config(name: str) -> list[triton.Config]:
    blocks = {
        "bmm": [{"TILE_M": 64, "TILE_N": 64, "TILE_K": 32, "GROUP_M": 8}],
        "layer_norm_loop": [{"TILE_N": 1024}],
        "layer_norm_persistent": [{}],
        "log_softmax": [{"BLOCK_M": 8, "BLOCK_N": 256}, {"BLOCK_M": 8, "BLOCK_N": 512}],
        "mm": [
            {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 32},
            {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32},
        ],
        "mv": [{"BLOCK_M": 128, "BLOCK_N": 32}],
        "naive_reduction": [{"BLOCK_M": 4, "BLOCK_N": 1024}, {"BLOCK_M": 8, "BLOCK_N": 512}],
        "rms_norm_loop": [{"BLOCK_SIZE": 1024}],
        "var_mean": [{"BLOCK_M": 4, "BLOCK_N": 1024}],
        "vector_norm": [{"BLOCK_M": 4, "BLOCK_N": 1024}],
        "weight_norm_kernel_first": [{"BLOCK_ROW_SIZE": 4, "BLOCK_COL_SIZE": 1024}],
    }
    return [triton.Config(block, num_warps=warps) for block in blocks.get(name, [{}]) for warps in (4, 8)]
