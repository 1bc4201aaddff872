"""What a launcher's source declares, so that a wrong call is an error in words before it is one in memory.

A C function reads as many registers as it declares, whatever was passed: with too few arguments the last ones are what was
there by chance, and a float lies in another register than an int. What cannot be read with certainty, because macros,
templates or types of the source's own are in the way, is not checked.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import torch

_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_WORD = re.compile(r"\w+")
_FIXED = [f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_PLAIN = ["int", "long", "short", "char", "signed", "unsigned", "bool", "size_t", "ssize_t", "ptrdiff_t"]
_INTEGERS = frozenset([*_PLAIN, *_FIXED, "intptr_t", "uintptr_t"])
_QUALIFIERS = frozenset(["const", "volatile", "restrict", "__restrict__", "__restrict", "register", "std"])
_FLOATING = (ctypes.c_float, ctypes.c_double)
# What each kind of parameter is called in messages.
_FITTING = {
    "pointer": "pass a tensor, or None",
    "int": "pass an int",
    "double": "pass a float, such as float(value)",
    "float": "declare it `double`, or pass ctypes.c_float(value)",
}


class Signature:
    """The parameters of one function, as far as they are known."""

    def __init__(self, name: str, parameters: Sequence[str], pass_stream: bool) -> None:
        self._name = name
        self._parameters = parameters
        self._kinds = [_kind(parameter) for parameter in parameters]
        self._pass_stream = pass_stream
        self._fine: set[tuple[type, ...]] = set()

    def check(self, values: tuple[Any, ...]) -> None:
        """`TypeError` where these arguments are not what the source declares; what is right is looked at once."""
        types = tuple(map(type, values))
        if types not in self._fine:
            self._check(values)
            self._fine.add(types)

    def _check(self, values: tuple[Any, ...]) -> None:
        declared, given = len(self._kinds), len(values)
        # A launcher that launches nothing on the stream may leave it out.
        wanted = declared - 1 if self._pass_stream and declared and self._may_be_stream(given) else declared
        if given != wanted:
            stream = ", and the stream follows by itself" if wanted != declared else ""
            raise TypeError(
                f"{self._name} takes {wanted} arguments, {given} were given{stream}: "
                f"the source declares {self._name}({', '.join(self._parameters)})"
            )
        for position, (kind, value) in enumerate(zip(self._kinds, values, strict=False)):
            if not _fits(kind, value):
                raise TypeError(
                    f"{self._name}: argument {position} is a {type(value).__name__}, and the source declares "
                    f"`{self._parameters[position]}`: {_FITTING[kind]}"
                )

    def _may_be_stream(self, given: int) -> bool:
        return self._kinds[-1] in ("pointer", "") and given != len(self._kinds)


def of(source: str, name: str, pass_stream: bool) -> Signature | None:
    """Of the one C function of this name that the source defines; nothing where that is not clear."""
    found = {tuple(parameters) for parameters in _definitions(_plain(source), name)}
    if len(found) != 1 or "..." in (parameters := next(iter(found))):
        return None
    return Signature(name, [] if parameters == ("void",) else parameters, pass_stream)


def _plain(source: str) -> str:
    """Without comments, and without text that could look like code."""

    def keep(match: re.Match[str]) -> str:
        text: str = match.group()
        return text if text == '"C"' else '""' if text.startswith('"') else " "

    return _TEXT.sub(keep, source)


def _definitions(source: str, name: str) -> list[list[str]]:
    """Parameters of the functions of C's linkage; of all functions where none says so in its own line."""
    all_of_them, of_c = [], []
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", source):
        end = _closing(source, match.end())
        if end is None or not re.match(r"\s*(noexcept\s*)?\{", source[end + 1 :]):
            continue
        before = re.split(r"[;{}]|^\s*#.*$", source[: match.start()], flags=re.MULTILINE)[-1]
        if not re.search(r"[\w*&]\s*$", before) or re.search(r"\b(static|template|__global__|__device__)\b", before):
            continue
        parameters = _split(source[match.end() : end])
        all_of_them.append(parameters)
        if '"C"' in before:
            of_c.append(parameters)
    return of_c or all_of_them


def _closing(source: str, at: int) -> int | None:
    depth = 1
    for match in re.finditer(r"[()]", source[at:]):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return at + match.start()
    return None


def _split(text: str) -> list[str]:
    """At the commas between parameters, not at those inside of one."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "(<[") - (letter in ")>]")
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [" ".join(part.split()) for part in parts if part.strip()]


def _kind(parameter: str) -> str:
    """What it is read as; nothing where the type is one of the source's own."""
    if "#" in parameter or "&" in parameter:
        return ""
    if re.search(r"[*\[(]", parameter):
        return "pointer"
    words: list[str] = [word for word in _WORD.findall(parameter.split("=")[0]) if word not in _QUALIFIERS]
    if not words:
        return ""
    if words[0] in ("double", "float"):
        return words[0]
    return "int" if words[0] in _INTEGERS and "double" not in words else ""


def _fits(kind: str, value: Any) -> bool:
    if kind == "":
        return True
    if isinstance(value, ctypes._SimpleCData):
        wanted = {"double": ctypes.c_double, "float": ctypes.c_float}.get(kind)
        return isinstance(value, wanted) if wanted else not isinstance(value, _FLOATING)
    if isinstance(value, ctypes.Structure):
        return False
    if kind in ("double", "float"):
        return kind == "double" and isinstance(value, float)
    # An address may be an int, and an int of 64 bits may hold an address.
    return value is None or isinstance(value, (int, torch.Tensor))
