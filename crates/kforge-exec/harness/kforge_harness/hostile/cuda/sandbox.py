"""What a sandbox lets NVIDIA's driver have."""

from __future__ import annotations

import os

from ...shared import linux

LIMITS_ADDRESSES = False  # the driver reserves address space for all of the device's memory


def allow(rules: linux.Landlock) -> None:
    """What the driver opens: its devices, its facts, and /proc, where it names its threads."""
    for path in ("/sys", "/usr/local/nvidia"):
        rules.allow(path, write=False)
    for name in sorted(os.listdir("/dev")):
        if name.startswith("nvidia") and not name.startswith("nvidia-caps"):
            rules.allow(f"/dev/{name}", write=True)
    rules.allow_writing("/proc")
