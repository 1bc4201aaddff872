"""The packages of the harness show its trust boundary; what each module imports holds it."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

NAME = "kforge_harness"
PACKAGE = Path(__file__).resolve().parents[1] / NAME

# A side: the sides that it may import. `shared` serves both and needs neither.
MAY_IMPORT = {
    "shared": {"shared"},
    "trusted": {"trusted", "shared"},
    "hostile": {"hostile", "shared"},
}
# A package of one device or language: who else may import it. All others do not know that there is such a thing.
DOORS: dict[str, set[str]] = {
    "shared.cpu": {"shared.device_context"},
    "shared.cuda": {"trusted.cuda", "hostile.cuda"},
    "shared.torch_device": {"trusted.torch_device"},
    # By their names: `trusted/devices.py`, `hostile/devices.py`.
    "trusted.cpu": set(),
    "trusted.cuda": set(),
    "trusted.torch_device": {"trusted.cpu", "trusted.cuda"},
    "hostile.cpu": set(),
    "hostile.cuda": set(),
    "hostile.torch_device": set(),
    "hostile.triton": {"hostile.audit", "hostile.cell", "hostile.cute"},
    "hostile.cute": {"hostile.audit", "hostile.cell"},
}
# The zygote is neither: it forks both. A side is imported in its own child alone, where the fork has been made.
ZYGOTE, FORK, CHILDREN = "zygote", "_spawn", {"trusted.referee", "hostile.supervisor"}
# What candidates launch their kernels with: code that runs in their processes.
OF_CANDIDATES, WHO_MAY = "kforge_rt", "hostile"


@dataclass(frozen=True)
class Import:
    """`what` without the package's own name in front; `function` is the outermost one that it stands in."""

    what: str
    line: int
    function: str


def _names(package: Path) -> dict[str, Path]:
    """Every module, by its dotted name below the package."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(path: Path, package: Path) -> Iterator[Import]:
    """All of them, in functions and under conditions too."""
    parents = (NAME, *path.relative_to(package).parent.parts)

    def walk(node: ast.AST, function: str) -> Iterator[Import]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = function or node.name
        for name in _imported(node, parents):
            if (name + ".").startswith(NAME + "."):
                yield Import(name.removeprefix(NAME).removeprefix("."), node.lineno, function)  # type: ignore[attr-defined]
            elif (name + ".").startswith(OF_CANDIDATES + "."):
                yield Import(OF_CANDIDATES, node.lineno, function)  # type: ignore[attr-defined]
        for child in ast.iter_child_nodes(node):
            yield from walk(child, function)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), "")


def _imported(node: ast.AST, parents: tuple[str, ...]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = [*parents[: len(parents) - node.level + 1]] if node.level else []
        return [".".join([*base, *([node.module] if node.module else []), alias.name]) for alias in node.names]
    # By its name, as `importlib` takes it.
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(rf"{NAME}(\.\w+)+", node.value):
        return [node.value]
    return []


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def _wrong(package: Path) -> list[str]:
    """What crosses the boundary, and what is missing."""
    modules = _names(package)
    wrong = []
    for name, path in modules.items():
        side = name.partition(".")[0]
        if side not in (*MAY_IMPORT, ZYGOTE, ""):
            wrong.append(f"{name} belongs to no side")
            continue
        for found in _imports(path, package):
            said = f"{name or NAME}:{found.line} imports {found.what or NAME}"
            other = found.what.partition(".")[0]
            if other == OF_CANDIDATES:
                if side != WHO_MAY:
                    wrong.append(said)
            elif side in MAY_IMPORT:
                if other not in MAY_IMPORT[side]:
                    wrong.append(said)
            elif other != "shared" and not (
                name == ZYGOTE and found.function == FORK and any(_within(found.what, child) for child in CHILDREN)
            ):
                wrong.append(said)
            for door, guests in DOORS.items():
                known = _within(name, door) or any(_within(name, guest) for guest in guests)
                if _within(found.what, door) and not known:
                    wrong.append(f"{said}, of a device")
    for folder in (*MAY_IMPORT, *DOORS):
        if not any(name.startswith(folder + ".") and path.name != "__init__.py" for name, path in modules.items()):
            wrong.append(f"{folder} is empty")
    for folder in {path.parent for path in modules.values()}:
        if not (folder / "__init__.py").exists():
            wrong.append(f"{folder.relative_to(package)} is no package")
    return wrong


def test_no_side_imports_the_other() -> None:
    assert _wrong(PACKAGE) == []


def test_the_zygote_forks_both_sides() -> None:
    found = {found.what for found in _imports(PACKAGE / f"{ZYGOTE}.py", PACKAGE) if found.function == FORK}
    assert found == CHILDREN


def test_every_door_is_used() -> None:
    """One that nobody goes through any more is to be closed."""
    modules = _names(PACKAGE)
    for door, guests in DOORS.items():
        for guest in guests:
            inside = [path for name, path in modules.items() if _within(name, guest)]
            assert any(_within(f.what, door) for path in inside for f in _imports(path, PACKAGE)), (door, guest)


@pytest.mark.parametrize(
    ("module", "text", "said"),
    [
        ("trusted/truth.py", "from ..hostile import cell", "trusted.truth:{} imports hostile.cell"),
        ("trusted/truth.py", "from ..hostile.cell import main", "trusted.truth:{} imports hostile.cell.main"),
        ("trusted/truth.py", "from .. import hostile", "trusted.truth:{} imports hostile"),
        ("trusted/truth.py", "from ..hostile import *", "trusted.truth:{} imports hostile.*"),
        ("trusted/cuda/floor.py", "from ...hostile import cell", "trusted.cuda.floor:{} imports hostile.cell"),
        ("hostile/cell.py", "def f():\n    from ..trusted import sets", "hostile.cell:{} imports trusted.sets"),
        ("hostile/cell.py", f"import {NAME}.trusted.sets as s", "hostile.cell:{} imports trusted.sets"),
        ("hostile/cell.py", f"import {NAME}", f"hostile.cell:{{}} imports {NAME}"),
        ("hostile/cell.py", f"f('{NAME}.trusted.sets')", "hostile.cell:{} imports trusted.sets"),
        ("hostile/cell.py", "from .. import zygote", "hostile.cell:{} imports zygote"),
        ("shared/wire.py", "if True:\n    from ..trusted import sets", "shared.wire:{} imports trusted.sets"),
        ("shared/wire.py", "from ..hostile import cell", "shared.wire:{} imports hostile.cell"),
        ("trusted/sets.py", "import kforge_rt", "trusted.sets:{} imports kforge_rt"),
        ("hostile/outputs.py", "from .triton import cpu", "hostile.outputs:{} imports hostile.triton.cpu, of a device"),
        ("shared/layout.py", "from .cuda import driver", "shared.layout:{} imports shared.cuda.driver, of a device"),
        ("trusted/referee.py", "from .cuda import floor", "trusted.referee:{} imports trusted.cuda.floor, of a device"),
        ("zygote.py", f"from {NAME}.trusted import referee", "zygote:{} imports trusted.referee"),
        ("zygote.py", f"def _serve():\n    from {NAME}.hostile import cell", "zygote:{} imports hostile.cell"),
        ("__init__.py", "from . import trusted", f"{NAME}:{{}} imports trusted"),
        ("other.py", "", "other belongs to no side"),
        ("trusted/cuda/deeper/one.py", "", "trusted/cuda/deeper is no package"),
    ],
)
def test_what_crosses_the_boundary_is_seen(tmp_path: Path, module: str, text: str, said: str) -> None:
    copy = _copied(tmp_path)
    path = copy / module
    path.parent.mkdir(exist_ok=True)
    own = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(f"{own}\n{text}\n", encoding="utf-8")
    line = len(path.read_text(encoding="utf-8").splitlines())
    assert _wrong(copy) == [said.format(line)]


@pytest.mark.parametrize("folder", [*MAY_IMPORT, *DOORS])
def test_an_empty_package_is_seen(tmp_path: Path, folder: str) -> None:
    copy = _copied(tmp_path)
    for path in (copy / folder.replace(".", "/")).rglob("*.py"):
        if path.name != "__init__.py":
            path.unlink()
    assert f"{folder} is empty" in _wrong(copy)


def _copied(folder: Path) -> Path:
    return Path(shutil.copytree(PACKAGE, folder / NAME, ignore=shutil.ignore_patterns("__pycache__")))
