"""Looks at what a candidate built, inside its sandbox: compiler reports, disassembly, vendor tools.

No candidate code is loaded here, but every file that is read was written by one: files are opened without following
links, sizes and times are bounded, and what comes out is hostile text. The command that built a library is run again
as it was left; inside this sandbox that is nothing that the candidate could not have run itself.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from typing import Any

from ..shared import wire
from . import tools

_MOST_FILES = 4
_MOST_SOURCE = 512 * 1024
_MOST_LIBRARY = 64 * 1024 * 1024
_MOST_LOG = 1024 * 1024
_MOST_CODE = 3 * 1024 * 1024
_COMPILE_S = 60
_DISASSEMBLE_S = 20
_REPORT_FLAGS = {
    "gcc": ["-fopt-info-vec-optimized-missed"],
    "clang": ["-Rpass=loop-vectorize", "-Rpass-missed=loop-vectorize", "-Rpass-analysis=loop-vectorize"],
}


def main(spec: dict[str, Any], fds: list[int]) -> None:
    """Serves requests until kforge closes the channel; each answer is JSON in the output region, with its length."""
    channel = socket.socket(fileno=fds[0])
    region = mmap.mmap(fds[2], spec["output_bytes"])
    tool = tools.Tool(spec, fds)
    channel.send(wire.hello())
    while (request := wire.read_request(channel)) is not None:
        try:
            answer = perform(request.look, os.environ["KFORGE_BUILD_DIR"], tool)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        data = json.dumps(answer).encode()
        if len(data) > len(region):
            data = json.dumps({"error": "what was built is too large to look at"}).encode()
        region[: len(data)] = data
        channel.send(wire.answered(request, wire.Inspected(len(data))))


def perform(look: wire.Look, folder: str, tool: tools.Tool) -> dict[str, Any]:
    match look:
        case wire.Look.REPORT:
            return {"builds": reports(folder)}
        case wire.Look.DISASSEMBLE:
            return disassembly(folder)
        case wire.Look.START:
            return tool.start()
        case wire.Look.COLLECT:
            return tool.collect()
        case wire.Look.RESOURCES | wire.Look.SASS:
            return tools.code(folder, os.environ["TRITON_CACHE_DIR"], sass=look == wire.Look.SASS)


def reports(folder: str) -> list[dict[str, Any]]:
    """Each C++ source that `kforge_rt` built, compiled again with the vectoriser's report switched on."""
    found: list[dict[str, Any]] = []
    for path in _files(folder, ".json"):
        made = _made(path)
        # The report's flags are those of gcc and clang: nothing for nvcc, NVRTC or an assembler.
        if made is not None and made["suffix"] == ".cpp":
            found.append({"name": os.path.basename(path)[:80], "source": str(made["source"]), **_report(made)})
        if len(found) == _MOST_FILES:
            break
    return found


def _made(path: str) -> dict[str, Any] | None:
    """How `kforge_rt` made the library beside this file."""
    data = read_plain(path, _MOST_SOURCE)
    try:
        made = json.loads(data) if data is not None else None
    except ValueError:
        return None
    known = {"compiler", "command", "flags", "source", "suffix"}
    return made if isinstance(made, dict) and known <= made.keys() else None


def _report(made: dict[str, Any]) -> dict[str, Any]:
    compiler = str(made["compiler"])
    code, version = _run([compiler, "--version"], 10, 4096)
    if code != 0:
        return {"family": "", "version": "", "log": "", "error": f"{compiler} does not run"}
    family = "clang" if "clang" in version else "gcc"
    with tempfile.TemporaryDirectory() as scratch:
        source = os.path.join(scratch, f"kernel{made['suffix']}")
        with open(source, "w", encoding="utf-8") as file:
            file.write(made["source"])
        names = {"{source}": source, "{output}": os.path.join(scratch, "kernel.so")}
        command = [compiler]
        for word in made["command"]:
            command += made["flags"] if word == "{flags}" else [names.get(word, word)]
        code, log = _run([*command, *_REPORT_FLAGS[family]], _COMPILE_S, _MOST_LOG)
    error = "" if code == 0 else "the compiler did not come to its end with the report switched on"
    return {"family": family, "version": version.split("\n")[0], "log": log.replace(scratch + "/", ""), "error": error}


def disassembly(folder: str) -> dict[str, Any]:
    """Each shared library below `folder`, as text."""
    tool = shutil.which("objdump") or shutil.which("llvm-objdump")
    if tool is None:
        return {"tool": "", "libraries": []}
    version = _run([tool, "--version"], 10, 4096)[1].split("\n")[0]
    libraries = []
    for path in _files(folder, ".so")[:_MOST_FILES]:
        head = read_plain(path, _MOST_LIBRARY, head=4)
        if head == b"\x7fELF":
            command = [tool, "-p", "-d", "-C", "--no-show-raw-insn", "-j", ".text", path]
            code, text = _run(command, _DISASSEMBLE_S, _MOST_CODE)
            if code == 0:
                libraries.append({"name": os.path.basename(path)[:120], "text": text})
    return {"tool": version, "libraries": libraries}


def _files(folder: str, suffix: str) -> list[str]:
    found = []
    for place, folders, names in os.walk(folder):  # does not follow links
        if place.count("/") - folder.count("/") >= 3:
            folders.clear()
        found += [os.path.join(place, name) for name in names if name.endswith(suffix)]
        if len(found) > 1000:
            break
    return sorted(found)


def read_plain(path: str, most: int, head: int | None = None) -> bytes | None:
    """A regular file's bytes, or its first ones; None for links, pipes and what is too large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return None
        return file.read(most if head is None else head)


def _run(command: list[str], limit_s: float, most: int) -> tuple[int, str]:
    """Into a file, whose size the sandbox bounds; only its beginning is read."""
    env = {**os.environ, "LC_ALL": "C"}
    with tempfile.TemporaryFile() as out:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=limit_s, env=env, check=False
            )
            code = done.returncode
        except (OSError, subprocess.TimeoutExpired, ValueError, TypeError):
            code = -1
        out.seek(0)
        return code, out.read(most).decode("utf-8", "replace")
