"""Instead of questions about versions and machines that need other packages to answer."""

import operator


def compare_version(package: str, compare: object, target: str) -> bool:
    return compare is operator.ge


def is_npu_available() -> bool:
    return False


def infer_device() -> str:
    return "cuda"


def infer_device_arch() -> str:
    return "hopper"
