"""As on any device of torch's."""

from __future__ import annotations

from ..torch_device.cell import before_compiling, slots

__all__ = ["before_compiling", "slots"]
