"""Makes one file of a wrapper and of what it uses of a package: a candidate runs where the package is not installed.

Only the top-level statements that the wrapper needs are taken, with what these need in turn, and each is copied as it is
written. What the standard library, PyTorch, Triton and NumPy offer is imported, names of the package are not: their
definitions are above. A stub of ours takes the place of a definition of the package that has the same name.

Two modules that define the same name differently cannot share a file; neither can a name that a module makes by running
code (`setattr`, `import *`). Both raise `Unfit`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

OFFERED = {"torch", "triton", "numpy"}
FUTURE = "from __future__ import annotations"


class Unfit(Exception):
    """This cannot be made one file; says why."""


@dataclass
class Module:
    name: str  # as in `import name`; empty for wrappers and stubs
    text: str
    is_package: bool = False
    body: list[ast.stmt] = field(init=False)
    bound: dict[str, list[ast.stmt]] = field(init=False)

    def __post_init__(self) -> None:
        self.body = ast.parse(self.text).body
        self.bound = {}
        for statement in self.body:
            for name in bindings(statement):
                self.bound.setdefault(name, []).append(statement)

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that `from ... import` names, dots resolved."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        parts = parts[: len(parts) - node.level + int(self.is_package)]
        return ".".join([*parts, *(node.module.split(".") if node.module else [])])


Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bindings(node: ast.AST) -> Iterator[str]:
    """Names that a statement gives a value in the scope that it stands in."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.split(".")[0]
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
    elif not isinstance(node, (ast.Lambda, *Comprehension)):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        for child in ast.iter_child_nodes(node):
            yield from bindings(child)


def local_names(node: ast.AST) -> set[str]:
    """What a function or a comprehension keeps to itself."""
    if isinstance(node, Comprehension):
        return {name for generator in node.generators for name in bindings(generator.target)}
    if not isinstance(node, Function):
        return set()
    own = {inner.arg for inner in ast.walk(node.args) if isinstance(inner, ast.arg)}
    body = node.body if isinstance(node.body, list) else []
    own |= {name for statement in body for name in bindings(statement)}
    return own - {name for inner in ast.walk(node) if isinstance(inner, ast.Global) for name in inner.names}


def used(node: ast.AST, hidden: frozenset[str] = frozenset()) -> Iterator[str]:
    """Names that a statement looks up outside of itself, in the order of the text."""
    if isinstance(node, ast.Name) and node.id not in hidden:
        yield node.id
    if isinstance(node, ast.Global):
        yield from node.names
    inside = hidden | local_names(node)
    for part, value in ast.iter_fields(node):
        # Decorators, defaults and annotations are looked up where the function stands.
        scope = inside if part in ("body", "elt", "key", "value", "generators") else hidden
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from used(child, scope)


class Package:
    """Where a package's modules are: a folder that holds its top-level packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tops = {path.stem for path in folder.iterdir() if path.is_dir() or path.suffix == ".py"}
        self.modules: dict[str, Module] = {}

    def holds(self, name: str) -> bool:
        return name.split(".")[0] in self.tops

    def module(self, name: str) -> Module | None:
        if name not in self.modules:
            path = self.folder.joinpath(*name.split("."))
            file, is_package = (path / "__init__.py", True) if path.is_dir() else (path.with_suffix(".py"), False)
            if not file.exists():
                return None
            self.modules[name] = Module(name, file.read_text(encoding="utf-8"), is_package)
        return self.modules[name]


class Inliner:
    def __init__(self, package: Package, stubs: str = "") -> None:
        self.package = package
        self.stubs = Module("", stubs)
        imports = (ast.Import, ast.ImportFrom)
        self.stand_ins = {name for name, made in self.stubs.bound.items() if not isinstance(made[0], imports)}
        self.parts: list[str] = []
        self.done: set[int] = set()  # statements
        self.owners: dict[str, tuple[str, str]] = {}  # of names in the file: module, and how it is made there
        self.needs_future = False

    def candidate(self, wrapper: str) -> str:
        module = Module("", wrapper)
        doc, *body = module.body
        if not (isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant)):
            raise Unfit("a wrapper begins with a documentation string")
        for statement in body:
            self.add(module, statement)
        # Not everywhere: it makes strings of annotations, which Triton reads.
        future = [FUTURE, ""] if self.needs_future else []
        text = "\n".join([segment(wrapper, doc), "", *future, *self.parts]) + "\n"
        check_imports(text)
        return text

    def add(self, module: Module, statement: ast.stmt, only: str | None = None) -> None:
        """Puts a statement into the file, behind all that it needs; of an import the name that is wanted."""
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                if only is None or only == (alias.asname or alias.name.split(".")[0]):
                    self.add_import(module, statement, alias)
            return
        if id(statement) in self.done:
            return
        self.done.add(id(statement))
        self.needs_future |= FUTURE in module.text
        edits = self.edits(module, statement)
        for name in dict.fromkeys(used(statement)):
            if self.submodule(module, ast.Name(name)) is None:
                self.add_name(module, name, statement)
        text = edited(module.text, statement, edits)
        for name in dict.fromkeys(bindings(statement)):
            self.claim(name, module.name, text)
        self.parts.append(text + "\n")

    def edits(self, module: Module, statement: ast.stmt) -> list[tuple[ast.stmt | ast.expr, str]]:
        """What is written otherwise in the file than in the package, once what it names is above it: imports of the package
        inside a statement, and members of its modules."""
        found: list[tuple[ast.stmt | ast.expr, str]] = []
        for node in ast.walk(statement):
            if isinstance(node, ast.ImportFrom) and self.package.holds(module.absolute(node)):
                for alias in node.names:
                    self.bring(module, module.absolute(node), alias)
                renamed = [
                    f"{alias.asname} = {alias.name}" for alias in node.names if alias.asname not in (None, alias.name)
                ]
                found.append((node, "; ".join(renamed) or "pass"))
            elif isinstance(node, ast.Attribute) and (source := self.submodule(module, node.value)) is not None:
                self.bring(module, source, ast.alias(node.attr))
                found.append((node, node.attr))
        return found

    def submodule(self, module: Module, name: ast.expr) -> str | None:
        """The module of the package that a name stands for, if it does."""
        if not isinstance(name, ast.Name):
            return None
        for node in module.bound.get(name.id, []):
            if not isinstance(node, ast.ImportFrom):
                continue
            source = module.absolute(node)
            for alias in node.names:
                if (alias.asname or alias.name) == name.id and self.is_module(source, alias.name):
                    return f"{source}.{alias.name}"
        return None

    def is_module(self, parent: str, name: str) -> bool:
        """Whether `from parent import name` gives a module: what a package binds goes before what lies in its folder."""
        if name in self.stand_ins or not self.package.holds(parent) or self.package.module(f"{parent}.{name}") is None:
            return False
        package = self.package.module(parent)
        if package is None:
            return True
        makers = package.bound.get(name, [])
        return all(isinstance(one, ast.ImportFrom) and package.absolute(one) == parent for one in makers)

    def add_name(self, module: Module, name: str, user: ast.stmt | None = None) -> None:
        if name not in module.bound:
            return
        owner = module
        # The wrapper's own names are its own; the package's may have a stand-in.
        if module.name and name in self.stand_ins:
            owner = self.stubs
        makers = owner.bound[name]
        # `name = decorate(name)` means the name as it was before.
        if user in makers:
            makers = makers[: makers.index(user)]
        # `import torch` is enough, whatever else a module may do to it.
        for statement in [one for one in makers if isinstance(one, ast.Import)][:1] or makers:
            self.add(owner, statement, name)

    def add_import(self, module: Module, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> None:
        source = module.absolute(node) if isinstance(node, ast.ImportFrom) else alias.name
        bound = alias.asname or alias.name.split(".")[0]
        if source == "__future__":
            return
        if not self.package.holds(source):
            text = external(source, alias, isinstance(node, ast.ImportFrom))
            if self.claim(bound, "", text):
                self.parts.append(text)
            return
        if isinstance(node, ast.Import):
            raise Unfit(f"{module.name}: `import {source}` of a module of the package")
        self.bring(module, source, alias)
        if bound != alias.name and self.claim(bound, source, f"{bound} = {alias.name}"):
            self.parts.append(f"{bound} = {alias.name}")

    def bring(self, module: Module, source: str, alias: ast.alias) -> None:
        """A definition of the package's, from the module where it is."""
        if alias.name in self.stand_ins:
            for statement in self.stubs.bound[alias.name]:
                self.add(self.stubs, statement, alias.name)
            return
        found = self.package.module(source)
        if found is None or alias.name not in found.bound:
            raise Unfit(f"{module.name or 'the wrapper'}: {source} defines no {alias.name}")
        self.add_name(found, alias.name)

    def claim(self, name: str, module: str, text: str) -> bool:
        """Whether this is the first to make the name; who makes it otherwise cannot have it too."""
        if name not in self.owners:
            self.owners[name] = (module, text)
            return True
        if self.owners[name][1] != text and self.owners[name][0] != module:
            raise Unfit(f"{name} is made by both {self.owners[name][0] or 'an import'} and {module or 'an import'}")
        return False


def external(source: str, alias: ast.alias, is_from: bool) -> str:
    renamed = f" as {alias.asname}" if alias.asname else ""
    return f"from {source} import {alias.name}{renamed}" if is_from else f"import {alias.name}{renamed}"


def first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def segment(text: str, statement: ast.stmt) -> str:
    """The lines of a statement, its decorators included."""
    return edited(text, statement, [])


def edited(text: str, statement: ast.stmt, edits: Sequence[tuple[ast.stmt | ast.expr, str]]) -> str:
    first = first_line(statement)
    # Columns of a syntax tree count bytes.
    lines = [line.encode() for line in text.split("\n")[first - 1 : statement.end_lineno]]
    for node, new in sorted(edits, key=lambda edit: (-edit[0].lineno, -edit[0].col_offset)):
        start, end = node.lineno - first, (node.end_lineno or node.lineno) - first
        head, tail = lines[start][: node.col_offset], lines[end][node.end_col_offset :]
        lines[start : end + 1] = [head + new.encode() + tail]
    return b"\n".join(lines).decode()


def check_imports(text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        else:
            continue
        for name in names:
            top = name.split(".")[0]
            if top not in OFFERED and top not in sys.stdlib_module_names:
                raise Unfit(f"`{name}` is imported, which the machine that judges may not have")
