"""Names that kforge and the harness both know. Whoever meets another one refuses it.

Each list stands in `src/wire/` of kforge too, as types where it can; a test there reads this module and compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Unknown(ValueError):
    """A name, a number or a field that the other side should not have sent."""


# What the zygote forks, with what each is told.
FORKS = {
    "referee": ("env", "python_path", "cwd", "threads", "place"),
    "supervisor": ("policy",),
    "zygote": ("env",),
}
POLICY = (
    *("scratch", "scratch_bytes", "memory_bytes", "process_limit", "readable", "writable"),
    *("seccomp", "tool_seccomp", "namespaces", "device"),
)

# What a supervisor is told to do, and which limits it names when one was broken.
ORDERS: dict[str, tuple[str, ...]] = {
    "spawn": ("id", "spec", "env"),
    "freeze": (),
    "thaw": (),
    "count": (),
    "clear": ("keep",),
}
LIMITS = PROCESS_LIMIT, OUT_OF_MEMORY, DISK_LIMIT = ("process_limit", "out_of_memory", "disk_limit")

# Whose process a supervisor forks, and what that is told. What ends in "?" may be missing.
CANDIDATE, BASELINE, INSPECTOR = "candidate", "baseline", "inspector"
_CELL = (
    *("baseline", "source", "filename", "search_path", "variants", "input_bytes", "output_bytes", "threads", "prepare"),
    *("skip_kernels", "triton", "aot", "arch", "model", "place", "mul", "places", "keeps", "copies", "staged"),
)
ROLES = {CANDIDATE: _CELL, BASELINE: _CELL, INSPECTOR: ("output_bytes", "tools?", "tool?", "solo?")}
VARIANT = (
    *("init", "input_skeleton", "output_skeleton", "inputs", "outputs", "weights", "aliases_allowed", "shared_outputs"),
    *("training", "autograd", "written_inputs", "written_buffers", "written_names"),
)

# What the referee is asked for: on every device, and on one where it lays inputs and takes outputs itself.
REQUESTS = {
    "load": ("path",),
    "look": ("contract",),
    "open": ("contract", "store", "session_store", "secret", "fresh", "reduced"),
    "attach": ("places", "input_stride"),
    "set": ("variant", "distribution", "number"),
    "draw": ("distribution", "truths"),
    "compare_row": ("calls", "with_baseline"),
    "compare": ("id", "side", "remember", "again"),
}
DEVICE_REQUESTS = {
    "lane": ("gone",),
    "export": ("id",),
    "lay": ("lane", "cold", "id?", "fresh?"),
    "shut": ("lane", "count"),
    "reveal": ("lane", "cold", "id?", "fresh?"),
    "take": ("lane", "cell", "side", "variant", "calls", "segments"),
    "stamp": ("lane", "fill"),
    "hold": ("lane",),
    "held": ("lane",),
    "left": ("lane",),
    "unchanged": ("lane", "id?", "fresh?"),
    "wipe": ("lane",),
    "alive": (),
    "device": (),
}
# Whose results: the number that stands for each.
SIDES = (CANDIDATE, BASELINE)

# Sets of inputs by how they are drawn, which `draw.py` and `sets.py` do.
DISTRIBUTIONS = (
    *("own", "fine", "normal", "uniform", "heavy", "zeros", "scaled", "varied", "patched", "sparse"),
    *("slice", "unseen"),
)

# Ways of running the reference: how, and what is switched on for it with a "+" each. `framework_ways.py` has them.
HOW = ("eager", "compile", "max-autotune", "reduce-overhead")
SWITCHES = ("autocast", "cast-weights", "channels_last", "cudnn-benchmark")

# What a cell may say that went wrong: kinds of a verdict. Not the candidate's fault where a compiler is missing, if that
# is so: kforge asks the machine before it believes it.
FAILURES = (
    *("syntax", "no_class", "import", "construct", "signature", "exception", "launch", "crash", "exit", "protocol"),
    *("flag", "compiler", "fake_kernel", "out_of_memory", "disk_limit", "sandbox"),
    *("type", "structure", "shape", "dtype", "device", "strides", "alias"),
)
MISSING = "missing:"


def known(name: str, names: Mapping[str, Any] | tuple[str, ...], what: str) -> str:
    if name not in names:
        raise Unknown(f"{name!r} is no {what}: there are {', '.join(names)}")
    return name


def held(message: Mapping[str, Any], fields: tuple[str, ...], what: str) -> None:
    """Whether a message has the fields that it must have, and no other."""
    missing = [name for name in fields if not name.endswith("?") and name not in message]
    more = sorted(set(message) - {name.removesuffix("?") for name in fields})
    if missing or more:
        told = [f"{words} {', '.join(names)}" for words, names in (("lacks", missing), ("has unknown", more)) if names]
        raise Unknown(f"{what} {' and '.join(told)}")


def chosen(message: Mapping[str, Any], key: str, table: Mapping[str, tuple[str, ...]], what: str) -> str:
    """The name that a message is told apart by, once all of the message is held to what belongs to it."""
    name = known(str(message.get(key)), table, what)
    held({field: value for field, value in message.items() if field != key}, table[name], f"{what} {name!r}")
    return name


def way(name: str) -> tuple[str, list[str]]:
    """How the reference is run, and what is switched on for it."""
    how, *switches = name.split("+")
    known(how, HOW, "way of running the reference")
    for switch in switches:
        known(switch, SWITCHES, "switch of the framework")
    return how, switches
