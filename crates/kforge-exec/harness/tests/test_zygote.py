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


def test_kernels_that_torch_replaces_are_named_with_their_state() -> None:
    native = pytest.importorskip("torch.backends.python_native")
    told = zygote._overrides()
    assert all(": " in line for line in told)
    operations = [name for dsl in native.available_dsls for name in native.get_dsl_operations(dsl)]
    if not operations:
        pytest.skip("this torch replaces no kernels here")
    with native.operations_disabled(operations[0]):
        assert any(line.endswith(f"{operations[0]} switched off") for line in zygote._overrides())
    assert zygote._overrides() == told
