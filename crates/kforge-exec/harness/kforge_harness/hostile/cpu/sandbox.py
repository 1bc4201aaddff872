"""Processors need no files beyond the usual ones."""

from __future__ import annotations

from ...shared import linux

LIMITS_ADDRESSES = True


def allow(_rules: linux.Landlock) -> None:
    """Nothing."""
