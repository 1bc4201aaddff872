"""What the zygote says of itself before others are forked from it."""

from __future__ import annotations

import os

import pytest

from kforge_harness import zygote


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no such folder on this system")
def test_a_process_that_has_opened_a_gpu_is_told_from_one_that_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not zygote._holds_a_gpu()
    monkeypatch.setattr(os, "readlink", lambda _link: "/dev/nvidiactl")
    assert zygote._holds_a_gpu()
