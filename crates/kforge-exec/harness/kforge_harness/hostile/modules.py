"""From a candidate's text to its class: the same steps in a cell and under a tool."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from typing import Any

from torch import nn

from .failure import Failure


def load_candidate(source: str, filename: str) -> types.ModuleType:
    """Imports it from a file in the working folder, so that a traceback and a compiler find its lines."""
    path = os.path.join(os.getcwd(), filename)
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    found = importlib.util.spec_from_file_location("kforge_candidate", path)
    if found is None or found.loader is None:
        raise Failure("import", f"{filename} cannot be loaded as a module")
    module = importlib.util.module_from_spec(found)
    sys.modules[module.__name__] = module
    found.loader.exec_module(module)
    return module


def find_class(module: types.ModuleType, baseline: bool = False) -> Any:
    for name in ("Model",) if baseline else ("NewModel", "ModelNew"):
        found = getattr(module, name, None)
        if found is not None:
            if not (isinstance(found, type) and issubclass(found, nn.Module)):
                raise Failure("no_class", f"{name} is not a class derived from torch.nn.Module")
            return found
    raise Failure("no_class", "the file defines neither `class NewModel(nn.Module)` nor `class ModelNew(nn.Module)`")
