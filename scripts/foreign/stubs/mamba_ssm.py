"""Instead of a version that another package compares, and of switches in the environment."""

TRITON3 = True


def autotune_configs(configs: list[object]) -> list[object]:
    return configs[:4]
