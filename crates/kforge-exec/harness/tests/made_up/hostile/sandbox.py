"""No files are needed."""

from __future__ import annotations

from ..cpu.sandbox import LIMITS_ADDRESSES, allow

__all__ = ["LIMITS_ADDRESSES", "allow"]
