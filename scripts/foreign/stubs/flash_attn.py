"""Instead of a cost model that Triton no longer has (configurations are tried as they are), and of a copy of PyTorch's
`triton_op` that also serves compilers."""

from torch.library import custom_op


def triton_op(name: str, *, mutates_args: set[str], schema: str, **_options: object) -> object:
    return lambda function: custom_op(name, function, mutates_args=mutates_args, schema=schema)


def early_config_prune(configs: list[object], named_args: object, **_options: object) -> list[object]:
    return configs[:4]


def estimate_matmul_time(**_options: object) -> float:
    return 1.0
