"""What a sandbox lets the drivers of devices have, whichever is here."""

from __future__ import annotations

import os

from ...shared import linux

LIMITS_ADDRESSES = False  # drivers reserve address space for all of a device's memory
_DEVICES = ("nvidia", "kfd", "dri", "accel")  # by how the names of their files begin
_NEVER = ("nvidia-caps",)


def allow(rules: linux.Landlock) -> None:
    for path in ("/sys", "/usr/local/nvidia"):
        rules.allow(path, write=False)
    for name in sorted(os.listdir("/dev")):
        if name.startswith(_DEVICES) and not name.startswith(_NEVER):
            rules.allow(f"/dev/{name}", write=True)
    rules.allow_writing("/proc")
