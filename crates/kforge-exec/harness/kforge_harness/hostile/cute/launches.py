"""Counts the launches of CuTe DSL's compiled functions, and turns them into no-ops where kernels are to be skipped."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

_MODULE = "cutlass.base_dsl.jit_executor"


def watch(audit: Any) -> None:
    """Now, or when the candidate imports `cutlass`: importing it here would cost every evaluation half a second."""
    if _MODULE in sys.modules:
        _patch(sys.modules[_MODULE], audit)
    else:
        sys.meta_path.insert(0, _WhenImported(audit))


class _WhenImported(importlib.abc.MetaPathFinder):
    def __init__(self, audit: Any) -> None:
        self._audit = audit

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def then_patch(module: types.ModuleType) -> None:
                execute(module)
                _patch(module, self._audit)

            spec.loader.exec_module = then_patch  # type: ignore[method-assign]
        return spec


def _patch(module: types.ModuleType, audit: Any) -> None:
    """Every call ends at an executor; the compiled function would first make one, which needs a GPU."""
    run, make_and_run = module.JitExecutor.run_compiled_program, module.JitCompiledFunction.run_compiled_program

    def counted(self: Any, exe_args: Any) -> Any:
        audit.foreign += 1
        return 0 if audit.skip else run(self, exe_args)

    def first(self: Any, exe_args: Any) -> Any:
        if not audit.skip:
            return make_and_run(self, exe_args)
        audit.foreign += 1
        return 0

    module.JitExecutor.run_compiled_program = counted
    module.JitCompiledFunction.run_compiled_program = first
