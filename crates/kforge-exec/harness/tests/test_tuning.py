"""The compiler's clock, with a device that is told what it takes."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from kforge_harness.hostile import tuning


class _Device:
    """One queue: what is launched begins when the one before has ended, and not before it was launched."""

    def __init__(self) -> None:
        self.host_s = 0.0
        self.free_s = 0.0

    def launch(self, host_s: float, device_s: float) -> None:
        self.host_s += host_s
        self.free_s = max(self.free_s, self.host_s) + device_s

    def synchronize(self) -> None:
        self.host_s = max(self.host_s, self.free_s)


class _Event:
    device: _Device

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.at_s = 0.0

    def record(self) -> None:
        self.at_s = max(self.device.free_s, self.device.host_s)

    def elapsed_time(self, end: _Event) -> float:
        return (end.at_s - self.at_s) * 1e3


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> _Device:
    made = _Device()
    monkeypatch.setattr(_Event, "device", made, raising=False)
    monkeypatch.setattr(torch.cuda, "Event", _Event)
    monkeypatch.setattr(torch.cuda, "synchronize", made.synchronize)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: made.launch(1e-5, cycles / tuning._CYCLES_PER_S))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _index: _Properties)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch, "empty", lambda *_a, **_k: _Flushed(made))
    monkeypatch.setattr(time, "perf_counter", lambda: made.host_s)
    return made


class _Properties:
    L2_cache_size = 50 << 20


class _Flushed:
    def __init__(self, device: _Device) -> None:
        self.device = device

    def zero_(self) -> None:
        self.device.launch(1e-5, 1.5e-5)


@pytest.mark.parametrize("device_us", [40, 134, 30_000])
def test_a_kernel_takes_its_own_time_however_slow_its_launch_is(device: _Device, device_us: int) -> None:
    found = tuning._device_ms(None, lambda: device.launch(180e-6, device_us * 1e-6))
    assert found == pytest.approx(device_us * 1e-3)


def test_long_kernels_are_called_few_times(device: _Device) -> None:
    calls: list[int] = []
    tuning._device_ms(None, lambda: calls.append(1))
    short, _ = len(calls), calls.clear()
    tuning._device_ms(None, lambda: (calls.append(1), device.launch(1e-5, 0.1)))
    assert len(calls) < short


def test_all_times_are_told_where_they_are_asked_for(device: _Device) -> None:
    times: Any = tuning._device_ms(None, lambda: device.launch(1e-5, 1e-4), 5, return_mode="all", rep=40)
    assert len(times) > 1 and max(times) == pytest.approx(0.1)


def test_the_compilers_tuner_asks_the_replaced_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.runtime.benchmarking import benchmarker

    monkeypatch.setattr(type(benchmarker), "benchmark_gpu", type(benchmarker).benchmark_gpu)
    monkeypatch.setattr(tuning, "_device_ms", lambda _self, _call, **_kwargs: 7.0)
    tuning.choose_by_device_time()
    assert benchmarker.benchmark(lambda: None, (), {}, device="cuda", rep=40) == 7.0


def test_nothing_is_timed_nor_made_for_it_where_it_is_refused() -> None:
    from torch._inductor.runtime.benchmarking import benchmarker
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    before = (type(benchmarker).benchmark_gpu, AlgorithmSelectorCache.__dict__["get_inputs"])
    with pytest.raises(tuning.NotNow), tuning.refused():
        benchmarker.benchmark(lambda: None, (), {}, device="cuda")
    with pytest.raises(tuning.NotNow), tuning.refused():
        AlgorithmSelectorCache.get_inputs([], [], None, {})
    assert before == (type(benchmarker).benchmark_gpu, AlgorithmSelectorCache.__dict__["get_inputs"])


def test_a_compiler_without_such_a_clock_is_left_as_it_is() -> None:
    assert tuning._found("torch._inductor.runtime.benchmarking", lambda module: module.benchmarker, "gone") == []
    assert tuning._found("torch.no_such_module", lambda module: module, "clock") == []
