"""Threads that would spin."""

from __future__ import annotations

import os
import subprocess
import sys

_SCRIPT = """
import os, torch
from kforge_harness.trusted import workers
torch.set_num_threads(2)
count = lambda: len(os.listdir("/proc/self/task"))
before = count()
(torch.rand(1 << 22) + 1).exp()
assert count() > before, "there are workers now"
workers.dismiss()
assert count() == before, (count(), before)
assert float(torch.ones(1 << 22).sum()) == 1 << 22 and count() > before, "they come back"
"""


def test_workers_go_and_come_back() -> None:
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *sys.path])}
    subprocess.run([sys.executable, "-c", _SCRIPT], check=True, env=environment)
