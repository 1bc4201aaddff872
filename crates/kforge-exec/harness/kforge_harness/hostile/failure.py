"""Turns whatever a candidate raised into a kind and a digest that a person or a model can act on."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import traceback

from ..shared.names import FAILURES, MISSING, Unknown, known

_MAX_TEXT = 6000
_ERROR_LINE = re.compile(r"^.*: (?:fatal |internal compiler )?error: ", re.IGNORECASE)
_MAYBE_ERROR_LINE = re.compile(r"^.*\b(?:error|fatal)\b\s*:? ", re.IGNORECASE)
# Behind a bar (gcc, clang), or indented (nvcc, NVRTC).
_SOURCE_LINE = re.compile(r"^\s*(\d+\s*)?\||^\s{2,}\S")
# Said at the end, after the errors themselves.
_SUMMARY_LINE = re.compile(r"aborted due to errors?$")
_COMPILERS = re.compile(r"(^|/)(g\+\+|gcc|c\+\+|cc|clang(\+\+)?|nvcc|hipcc|icpx)(-[\d.]+)?$")


class Failure(Exception):
    """A failure that is already classified."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        if not kind.startswith(MISSING):
            known(kind, FAILURES, "failure of a cell")
        self.kind = kind
        self.text = text


class Uninterpretable(NotImplementedError):
    """What only a GPU can do: the interpreter's limit, and no fault of the candidate's.

    kforge looks for `construct` in the candidate's text before it believes this.
    """

    def __init__(self, construct: str) -> None:
        super().__init__(f"Triton's interpreter cannot run `{construct}`")


def classify(error: BaseException, stage: str, filename: str) -> Failure:
    if isinstance(error, Failure):
        return error
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and len(chain) < 8:
        chain.append(cause)
    for link in chain:
        known = _known(link)
        if known is not None:
            return known
    kind = {"import": "import", "construct": "construct"}.get(stage, "exception")
    return Failure(kind, _digest(error, filename))


def _known(error: BaseException) -> Failure | None:
    text = _text_of(error)
    name = type(error).__name__
    if isinstance(error, SyntaxError):
        where = f"line {error.lineno}" if error.lineno else "unknown line"
        return Failure("syntax", f"{error.msg} at {where}: {(error.text or '').strip()[:160]}")
    if isinstance(error, Unknown):
        return Failure("protocol", text)
    if isinstance(error, Uninterpretable):
        return Failure("exception", text)
    if name == "FlagError":
        return Failure("flag", text)
    if name == "MissingCompiler" and (tool := _tool(error)):
        return Failure(f"{MISSING}{tool}", text)
    if name in ("BuildError", "MissingCompiler"):
        return Failure("compiler", first_compiler_error(str(getattr(error, "log", ""))) or text)
    if name == "LaunchError":
        return Failure("out_of_memory" if _is_full(text) else "launch", text)
    if isinstance(error, subprocess.CalledProcessError) and _is_compiler(error.cmd):
        log = error.stderr or error.output or b""
        decoded = log.decode("utf-8", "replace") if isinstance(log, bytes) else str(log)
        return Failure("compiler", first_compiler_error(decoded) or text)
    if "Error building extension" in text or "Error compiling objects" in text:
        return Failure("compiler", first_compiler_error(text) or text[:_MAX_TEXT])
    if name in ("AcceleratorError", "DriverError") or "CUDA error:" in text:
        return _device_failure(text)
    if (
        isinstance(error, MemoryError)
        or name == "OutOfMemoryError"
        or "can't allocate memory" in text
        or "Triton Error [CUDA]: out of memory" in text
        or "bad_alloc" in text
    ):
        return Failure("out_of_memory", text[:400] or "out of memory")
    if isinstance(error, SystemExit):
        return Failure("exit", f"the candidate called exit with {text[:80] or 'no code'}")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return Failure("disk_limit", f"{os.strerror(error.errno)}: the scratch folder is limited")
    if isinstance(error, OSError) and error.errno in (errno.EPERM, errno.EACCES, errno.EROFS):
        return Failure("sandbox", f"{text[:400]}: the sandbox allows files in the working folder only, and no network")
    return None


_DEVICE_FAULTS = ("illegal memory access", "ILLEGAL_ADDRESS", "misaligned", "MISALIGNED", "device-side assert", "ASSERT",
    "illegal instruction", "unspecified launch failure", "LAUNCH_FAILED", "invalid program counter", "hardware stack error")  # fmt: skip


def _device_failure(text: str) -> Failure:
    """A fault of a kernel is found out at the next call that waits for it, so its place in Python says nothing."""
    first = text.strip().splitlines()[0][:300] if text.strip() else "an error on the device"
    if any(word in text for word in _DEVICE_FAULTS):
        return Failure("crash", f"{first}: a kernel faulted on the device; check its index arithmetic and bounds")
    return Failure("out_of_memory" if _is_full(text) else "launch", first)


def _is_full(text: str) -> bool:
    return any(said in text for said in ("out of memory", "OUT_OF_MEMORY", "ALLOC_FAILED", "cudaErrorMemoryAllocation"))


def first_compiler_error(log: str) -> str:
    """The first error of a compiler's log with the source lines it shows, and how many follow."""
    lines = log.splitlines()
    # A compiler shows the lines it complains about, and those may hold the word in a name or a comment.
    said = [(i, s) for i, s in enumerate(lines) if not _SOURCE_LINE.match(s) and not _SUMMARY_LINE.search(s)]
    errors = [i for i, line in said if _ERROR_LINE.match(line)]
    errors = errors or [i for i, line in said if _MAYBE_ERROR_LINE.match(line)]
    if not errors:
        return "\n".join(lines[-8:])[:_MAX_TEXT]
    first = errors[0]
    shown = [lines[first]]
    for line in lines[first + 1 : first + 6]:
        if not _SOURCE_LINE.match(line):
            break
        shown.append(line)
    if len(errors) > 1:
        shown.append(f"({len(errors) - 1} more errors follow)")
    return "\n".join(line[:400] for line in shown)


def _tool(error: BaseException) -> str:
    """What goes into the fixed record of an answer."""
    named = getattr(error, "tool", None)
    return named if isinstance(named, str) and re.fullmatch(r"[a-z0-9+_-]{1,12}", named) else ""


def _is_compiler(command: object) -> bool:
    first = command[0] if isinstance(command, (list, tuple)) and command else str(command).split(" ")[0]
    return bool(_COMPILERS.search(str(first)))


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:
        return f"{type(error).__name__} (its message cannot be printed)"
    return text[: 16 * _MAX_TEXT]


def _digest(error: BaseException, filename: str) -> str:
    """Type and message, and the innermost line of the candidate's own file."""
    text = f"{type(error).__name__}: {_text_of(error)[:_MAX_TEXT]}"
    base = os.path.basename(filename)
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.basename(frame.filename) == base]
    if own:
        text += f"\n  at {base}:{own[-1].lineno}: {(own[-1].line or '').strip()[:200]}"
    return text
