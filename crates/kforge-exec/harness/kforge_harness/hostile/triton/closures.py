"""Kernels that are defined inside functions: written down where they are launched, made again where they are compiled.

The process that compiles imports the candidate and calls nothing, so such a kernel does not exist there. Its code does, in
the file; what it captured from the function around it, and the defaults of its arguments, arrive as plain data.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any

_DEEPEST = 8


class NotFound(Exception):
    """A kernel or constant of the interpreted run that the imported module does not have."""


def is_inner(function: Any) -> bool:
    """Whether a function was made by another one, so that no module has it by its name."""
    return isinstance(function, types.FunctionType) and "<locals>" in function.__qualname__


def captured(function: types.FunctionType) -> dict[str, Any]:
    """Names of the enclosing functions and their values; what was never assigned is left out."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


class Writer:
    """Writes a function down, with the functions that it captured."""

    def __init__(self, encode: Callable[[Any], Any]) -> None:
        self._encode = encode
        self._depth = 0

    def describe(self, function: types.FunctionType) -> dict[str, Any]:
        if self._depth >= _DEEPEST:  # one that captured itself
            return {"unknown": function.__qualname__}
        normalize = importlib.import_module("triton.runtime.jit")._normalize_ty
        self._depth += 1
        try:
            return {
                "module": function.__module__,
                "qualname": function.__qualname__,
                "line": function.__code__.co_firstlineno,
                "annotations": {name: str(normalize(kind)) for name, kind in function.__annotations__.items()},
                "defaults": [self._encode(value) for value in function.__defaults__ or ()],
                "captured": {name: self._encode(value) for name, value in captured(function).items()},
            }
        finally:
            self._depth -= 1


def rebuild(record: dict[str, Any], candidate: types.ModuleType, decode: Callable[[Any], Any]) -> Any:
    """Triton's JITFunction for a described function."""
    if "qualname" not in record:
        raise NotFound(f"{record.get('unknown')} captured itself, so that it could not be compiled ahead of time")
    name = record["qualname"].rpartition(".")[2]
    home = _home(record["module"], candidate)
    code = _code(home, name, record["line"])
    known = record["captured"]
    for free in code.co_freevars:
        if free not in known:
            raise NotFound(f"{free}, which {name} takes from the function around it, has no value")
    cells = tuple(types.CellType(decode(known[free])) for free in code.co_freevars)
    defaults = tuple(decode(value) for value in record["defaults"])
    function = types.FunctionType(code, vars(home), name, defaults, cells)
    function.__qualname__ = record["qualname"]
    function.__module__ = record["module"]
    function.__annotations__ = dict(record["annotations"])
    return importlib.import_module("triton.runtime.jit").JITFunction(function)


def _home(name: str, candidate: types.ModuleType) -> types.ModuleType:
    if name == candidate.__name__:
        return candidate
    try:
        return importlib.import_module(name)
    except ImportError:
        raise NotFound(f"the module {name} is not here") from None


def _code(home: types.ModuleType, name: str, line: int) -> types.CodeType:
    path = home.__file__ or ""
    try:
        with open(path, encoding="utf-8") as file:
            whole = compile(file.read(), path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        raise NotFound(f"the source of {home.__name__} cannot be read again") from None
    waiting = [whole]
    while waiting:
        code = waiting.pop()
        if code.co_name == name and code.co_firstlineno == line:
            return code
        waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    raise NotFound(f"{name} is not in line {line} of {home.__name__}")
