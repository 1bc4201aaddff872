"""The process that has torch imported and computes nothing, so that forking it is safe and quick.

kforge starts it once with a clean environment and asks for three kinds of children over a trusted channel: the
referee (no sandbox; it loads the problem only), supervisors (one per candidate or baseline), and a second zygote, which
has torch's compiler imported too and forks the supervisors of compiled baselines.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import signal
import socket
import sys
import tempfile
from typing import Any


def main() -> None:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from kforge_harness.shared import linux, wire

    if linux.is_linux():
        linux.die_with_parent(signal.SIGKILL)
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    if len(sys.argv) > 2 and sys.argv[2] == "--no-torch":
        versions: dict[str, Any] = {}
    else:
        versions = _import_torch()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _freeze()
    wire.send_json(channel, {"ready": True, **versions})
    _serve(channel)


def _serve(channel: socket.socket) -> None:
    from kforge_harness.shared import names, wire

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _let_kforge_in()
    while (received := wire.receive_json(channel)) is not None:
        message, fds = received
        names.chosen(message, "role", names.FORKS, "fork")
        wire.send_json(channel, {"pid": _spawn(message, fds)})
        if _compiles_triton(message.get("place", "")):
            _know_triton()  # while the referee examines the problem


def _let_kforge_in() -> None:
    """The process that asks and waits for answers is this one's parent; its clock must not wait for those it asks."""
    from kforge_harness.shared import linux

    folder = f"/proc/{os.getppid()}/task"
    for task in os.listdir(folder) if os.path.isdir(folder) else ():
        linux.short_slices(int(task))


def _freeze() -> None:
    """Children write to reference counts of their own objects only: fewer pages are copied."""
    gc.collect()
    gc.freeze()


def _import_torch() -> dict[str, Any]:
    # Not torch._inductor or torch._dynamo: they import Triton, which a cell must first switch to its interpreter where
    # there is no GPU.
    import numpy
    import torch
    import torch.utils._python_dispatch  # here, once, instead of in every cell

    return {
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "threads": torch.get_num_threads(),
        "cutlass": importlib.util.find_spec("cutlass") is not None,
        "cuda": bool(torch.version.cuda) and os.path.exists("/dev/nvidiactl"),
        "overrides": _overrides(),
    }


def _overrides() -> list[str]:
    """Operators for which this torch takes kernels of Triton's and the like instead of its own, and which it would take."""
    try:
        native: Any = importlib.import_module("torch.backends.python_native")

        told = []
        for dsl in native.available_dsls:
            if native.is_dsl_disabled(dsl):
                told.append(f"{dsl}: switched off")
            for name in native.get_dsl_operations(dsl):
                told.append(f"{dsl}: {name}" + (" switched off" if native.is_operation_disabled(name) else ""))
        return told
    except Exception:
        return []  # an older torch, which has none


def _compiles_triton(place: str) -> bool:
    """Whether cells on this device launch kernels of Triton's, which elsewhere are interpreted or not run at all."""
    if not place:
        return False
    from kforge_harness.shared import device_context

    return device_context.compiles_triton(place)


def _know_triton() -> None:
    """Triton's key for its cache is a hash of its whole library, half a second in each cell that launches a kernel."""
    try:
        from triton.runtime.cache import triton_key

        triton_key()
        _freeze()
    except Exception:
        pass  # no Triton here, or one that has no such function: then cells do without


def _second_zygote(env: dict[str, str], channel: socket.socket) -> None:
    from kforge_harness.shared import linux, wire

    if linux.is_linux():
        linux.die_with_parent(signal.SIGKILL)
    _import_compiler(env)
    if _holds_a_gpu():
        raise RuntimeError("importing torch's compiler has opened a GPU, which no child could use")
    wire.send_json(channel, {"ready": True})
    _serve(channel)


def _import_compiler(env: dict[str, str]) -> None:
    """In the environment of those who will use it: some paths are made while it is imported."""
    os.environ.update(env)
    try:
        import torch

        # It asks for a GPU while it is imported. There is one, and looking for it would open it.
        asked, torch.cuda.is_available = torch.cuda.is_available, lambda: True
        try:
            for name in ("torch._dynamo", "torch._inductor.compile_fx"):
                importlib.import_module(name)
        finally:
            torch.cuda.is_available = asked
    except Exception:
        pass  # it comes up again in the cell, where it has a place in the report
    tempfile.tempdir = None  # cells have folders of their own
    _freeze()


def _holds_a_gpu() -> bool:
    """A process that has opened one cannot be forked: its children would find a driver that does not work for them."""
    folder = "/proc/self/fd"  # nowhere but on Linux, as these devices
    links = (os.path.join(folder, name) for name in (os.listdir(folder) if os.path.isdir(folder) else ()))
    return any(os.readlink(link).startswith("/dev/nvidia") for link in links if os.path.islink(link))


def _spawn(message: dict[str, Any], fds: list[int]) -> int:
    pid = os.fork()
    if pid:
        for fd in fds:
            os.close(fd)
        return pid
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _close_all_but(fds)
        if message["role"] == "referee":
            from kforge_harness.trusted import referee

            referee.main(message, fds)
        elif message["role"] == "zygote":
            _second_zygote(message["env"], socket.socket(fileno=fds[0]))
        elif message["role"] == "supervisor":
            from kforge_harness.hostile import supervisor

            supervisor.main(message, fds)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        _flush_and_exit(code)
    return 0


def _close_all_but(fds: list[int]) -> None:
    keep = sorted({0, 1, 2, *fds})
    for low, high in zip(keep, [*keep[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(low + 1, high)


def _flush_and_exit(code: int) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(0)
    except ImportError as error:
        print(json.dumps({"import_error": str(error)}), file=sys.stderr)
        sys.exit(3)
