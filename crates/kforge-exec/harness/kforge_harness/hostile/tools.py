"""Vendor tools, run for the profile inside a candidate's sandbox: those that start a program, and readers of cubins.

Like the inspector this loads no candidate code. The program that a tool starts is `solo.py`, which does.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib.util
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

_MOST_LOG = 8 * 1024 * 1024
_MOST_OUTPUT = 16 * 1024
_MOST_LIBRARIES = 4
_MOST_CUBINS = 8
_MOST_FILE = 256 * 1024 * 1024
_MOST_CODE = 2 * 1024 * 1024
_DUMP_S = 20
_AT_ONCE = 4
_BIT_OF_FILE = 16 * 1024 * 1024
# Beyond this a region is only handed on by descriptor: the scratch folder lies in memory too.
_MOST_COPIED = 256 * 1024 * 1024
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+([^;]*;)")


class Tool:
    """One tool with the program that it starts. `start` and `collect` apart, so that others can work meanwhile.

    A program that `waits` has torch imported when it is collected, and leaves the GPU alone until then.
    """

    def __init__(self, spec: dict[str, Any], fds: list[int]) -> None:
        self._spec = spec
        self._fds = fds
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = os.path.join(os.getcwd(), f"tool-{os.getpid()}")
        self._begun = 0.0

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def start(self) -> dict[str, Any]:
        tool, solo = self._spec["tool"], dict(self._spec["solo"])
        os.makedirs(self._folder, mode=0o700)
        _channel, in_fd, _out, _detail, *weight_fds = self._fds
        solo["inputs"] = self._handed_on(in_fd, solo["input_bytes"], "inputs.bin")
        weights_fd = weight_fds[0] if weight_fds else -1
        size = os.fstat(weights_fd).st_size if weight_fds else 0
        solo["weights"] = self._handed_on(weights_fd, size, "weights.bin")
        # A clock that all processes share: the tool's own start is seen by it.
        solo.update(status=self._path("status.json"), begun=time.monotonic())
        solo["wait_for"] = self._path("go") if tool["waits"] else ""
        with open(self._path("spec.json"), "w", encoding="utf-8") as file:
            json.dump(solo, file)
        harness = os.path.dirname(os.path.abspath(__file__))
        program = [sys.executable, "-IB", "-X", "utf8", os.path.join(harness, "solo.py"), self._path("spec.json")]
        log = [tool["log_option"], self._path("tool.log")]
        for fd in (in_fd, weights_fd):
            if fd >= 0:
                os.set_inheritable(fd, True)
        self._begun = time.monotonic()
        with open(self._path("output.txt"), "wb") as output:
            self._process = subprocess.Popen(
                [tool["program"], *tool["arguments"], *log, *program],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LC_ALL": "C", **tool["environment"]},
                pass_fds=[fd for fd in (in_fd, weights_fd) if fd >= 0],
                start_new_session=True,
            )
        return {"started": True}

    def _handed_on(self, fd: int, size: int, name: str) -> dict[str, Any]:
        if 0 < size <= _MOST_COPIED:
            with mmap.mmap(fd, size, prot=mmap.PROT_READ) as region, open(self._path(name), "wb") as file:
                file.write(region)
        return {"fd": fd, "bytes": size, "file": self._path(name)}

    def collect(self) -> dict[str, Any]:
        if self._process is None:
            return {"error": "the tool was not started"}
        with open(self._path("go"), "w"):
            pass
        timed_out = False
        try:
            code = self._process.wait(timeout=self._spec["tool"]["limit_s"])
        except subprocess.TimeoutExpired:
            timed_out, code = True, -1
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if timed_out:
            self._process.wait()
        status: dict[str, Any] = {}
        with contextlib.suppress(ValueError, TypeError):
            status = json.loads(_beginning(self._path("status.json"), 64 * 1024) or "{}")
        answer = {
            "code": code,
            "timed_out": timed_out,
            "seconds": round(time.monotonic() - self._begun, 3),
            "log": _beginning(self._path("tool.log"), _MOST_LOG),
            "output": _end(self._path("output.txt"), _MOST_OUTPUT),
            "status": status if isinstance(status, dict) else {},
        }
        shutil.rmtree(self._folder, ignore_errors=True)
        return answer


def code(build: str, cache: str, sass: bool) -> dict[str, Any]:
    """Of every kernel that was built its resources, and what Triton says of its own; or its machine code.

    Two steps, since the first takes a moment and gives the names that a profiler is to look for.
    """
    from .inspector import _files, _run, read_plain

    libraries = [path for path in _files(build, ".so") if _has_device_code(path)][:_MOST_LIBRARIES]
    cubins = [path for path in _files(cache, ".cubin") + _files(build, ".cubin") if _is_elf(path)]
    cubins = sorted(cubins, key=_age)[:_MOST_CUBINS]
    triton = []
    for path in sorted((p for p in _files(cache, ".json") if "__grp__" not in p), key=_age)[:_MOST_CUBINS]:
        with contextlib.suppress(ValueError):
            said = json.loads(read_plain(path, 1 << 20) or b"null")
            if isinstance(said, dict) and "target" in said and isinstance(said.get("name"), str):
                keys = ("name", "shared", "num_warps", "num_stages")
                triton.append({key: said[key] for key in keys if isinstance(said.get(key), (int, str))})
    found = [*libraries, *cubins]
    # What the compiler itself said of registers and spills is more than can be read from its output, and at hand.
    logs = {} if sass else {path: log for path in found if (log := _compiler_log(path))}
    files = [{"usage": log} for log in logs.values()]
    named = ["the compiler's report"] if logs else []
    tool = cuobjdump()
    unread = [path for path in found if path not in logs]
    if tool is not None and unread:
        option, key = ("-sass", "sass") if sass else ("--dump-resource-usage", "usage")

        def read(path: str) -> tuple[int, str]:
            returned, text = _run([tool, option, path], _DUMP_S, 16 * _MOST_CODE)
            return returned, (slim(text) if sass else text)[:_MOST_CODE]

        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            version = pool.submit(_run, [tool, "--version"], 10, 4096)
            texts = pool.map(read, unread)
            files += [{key: text} for returned, text in texts if returned == 0]
            lines = version.result()[1].splitlines()
        named.append(next((line for line in lines if "release" in line), "cuobjdump"))
    return {"tool": "; ".join(named), "files": files, "triton": triton, "found": len(found)}


def _compiler_log(path: str) -> str:
    """What `kforge_rt` kept beside a build, where it tells of kernels."""
    from .inspector import read_plain

    data = read_plain(os.path.splitext(path)[0] + ".log", _MOST_CODE)
    text = "" if data is None else data.decode("utf-8", "replace")
    return text if "Function properties for " in text and " registers" in text else ""


def slim(sass: str) -> str:
    """Without addresses and encodings, which are most of the text."""
    kept = []
    for line in sass.splitlines():
        match = _INSTRUCTION.match(line)
        if match:
            kept.append(match.group(1))
        elif "Function :" in line:
            kept.append(line.strip())
    return "\n".join(kept)


def cuobjdump() -> str | None:
    found = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
    if found is None and (triton := importlib.util.find_spec("triton")) is not None:
        for folder in triton.submodule_search_locations or []:
            found = found or shutil.which("cuobjdump", path=os.path.join(folder, "backends", "nvidia", "bin"))
    return found


def _is_elf(path: str) -> bool:
    from .inspector import read_plain

    return read_plain(path, _MOST_FILE, head=4) == b"\x7fELF"


def _has_device_code(path: str) -> bool:
    from .inspector import read_plain

    head = read_plain(path, _MOST_FILE, head=_BIT_OF_FILE)
    return head is not None and head.startswith(b"\x7fELF") and b"nv_fatbin" in (head + _tail_of(path, len(head)))


def _tail_of(path: str, known: int) -> bytes:
    """Names of sections lie at the end of a library that is larger than what was read of it."""
    if known < _BIT_OF_FILE:
        return b""
    with open(path, "rb") as file:
        file.seek(-min(_BIT_OF_FILE, os.fstat(file.fileno()).st_size), os.SEEK_END)
        return file.read(_BIT_OF_FILE)


def _age(path: str) -> float:
    """Newest first: what ran last."""
    try:
        return -os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _beginning(path: str, most: int) -> str:
    from .inspector import read_plain

    data = read_plain(path, 1 << 40, head=most)
    return "" if data is None else data.decode("utf-8", "replace")


def _end(path: str, most: int) -> str:
    from .inspector import read_plain

    data = read_plain(path, 64 * 1024 * 1024)
    return "" if data is None else data[-most:].decode("utf-8", "replace")
