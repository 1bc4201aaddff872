"""The process that has torch imported and computes nothing, so that forking it is safe and quick.

kforge starts it once with a clean environment and asks for two kinds of children over a trusted channel: the
referee (no sandbox; it loads the problem only) and supervisors (one per candidate or baseline).
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import signal
import socket
import sys
from typing import Any


def main() -> None:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from kforge_harness import linux, wire

    if linux.is_linux():
        linux.die_with_parent(signal.SIGKILL)
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    if len(sys.argv) > 2 and sys.argv[2] == "--no-torch":
        versions: dict[str, Any] = {}
    else:
        versions = _import_torch()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # children write to reference counts of their own objects only: fewer pages are copied
    wire.send_json(channel, {"ready": True, **versions})
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while (received := wire.receive_json(channel)) is not None:
        message, fds = received
        wire.send_json(channel, {"pid": _spawn(message, fds)})


def _import_torch() -> dict[str, Any]:
    # Not torch._inductor or torch._dynamo: they import Triton, which a cell must first switch to its interpreter.
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
    }


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
            from kforge_harness import referee

            referee.main(message, fds)
        else:
            from kforge_harness import supervisor

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
