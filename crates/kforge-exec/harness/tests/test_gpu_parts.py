"""What the GPU path is made of, as far as a CPU can show it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from support import SECRET, reference_of, simple
from torch import nn

from kforge_harness.hostile import failure
from kforge_harness.shared import layout
from kforge_harness.shared.cuda import driver as cuda_driver
from kforge_harness.trusted import float64_fallback, intake, referee, truth
from kforge_harness.trusted.compare import compare
from kforge_harness.trusted.cuda import floor
from kforge_harness.trusted.cuda import referee as cuda_referee
from kforge_harness.trusted.device_store import DeviceStore
from kforge_harness.trusted.errors import rms_of
from kforge_harness.trusted.precisions import round_to
from kforge_harness.trusted.problem import Drawn, ProblemError
from kforge_harness.trusted.sets import OWN, SLICE, UNSEEN, Reference
from kforge_harness.trusted.store import Store
from kforge_rt import LaunchError


def test_a_shelf_gives_back_what_was_put_there_and_forgets_the_oldest() -> None:
    device_store = DeviceStore(budget=4 * 4096)
    tensors = {number: torch.randn(512) for number in range(6)}
    fields = {}
    for number, tensor in tensors.items():
        fields[number] = device_store.write_tensors(f"v0-own-{number}.in", [tensor])
        device_store.write_tensors(f"v0-own-{number}.truth", [tensor.double()])
    assert not device_store.has("v0-own-0.in") and not device_store.has("v0-own-0.truth")
    assert device_store.has("v0-own-5.in") and device_store.has("v0-own-5.truth")
    assert torch.equal(device_store.read_tensors("v0-own-5.in", fields[5])[0], tensors[5])
    assert device_store.region("v0-own-5.in").numel() % layout.ALIGN == 0


def test_the_newest_set_stays_whatever_it_takes_and_room_is_made_before_the_next() -> None:
    device_store = DeviceStore(budget=3 * 512)
    for number in range(5):
        device_store.write_tensors(f"v0-own-{number}.in", [torch.randn(128)])
    assert [device_store.has(f"v0-own-{n}.in") for n in range(5)] == [False, False, True, True, True]
    device_store.region("v0-own-2.in")
    device_store.make_room(2 * 512)
    assert [device_store.has(f"v0-own-{n}.in") for n in range(5)] == [False, False, True, False, False]
    device_store.keep_one()
    for number in range(3):
        device_store.write_tensors(f"v0-own-{number}.in", [torch.randn(128)])
        device_store.write_tensors(f"v0-own-{number}.truth", [torch.randn(128)])
        assert device_store.has(f"v0-own-{number}.in") and device_store.has(f"v0-own-{number}.truth")
    assert not device_store.has("v0-own-1.in")


def test_a_large_tensor_is_not_copied_to_lie_on_the_shelf() -> None:
    device_store = DeviceStore(budget=1 << 20)
    alone, part, odd = torch.randn(64, 64), torch.randn(128, 64)[:64], torch.randn(3)
    for name, tensor, same in (("a.in", alone, True), ("b.in", part, False), ("c.in", odd, False)):
        fields = device_store.write_tensors(name, [tensor])
        assert torch.equal(device_store.read_tensors(name, fields)[0], tensor)
        assert (device_store.region(name).data_ptr() == tensor.data_ptr()) == same, name
    odd_ones = [torch.randn(3), torch.randn(5)]
    device_store.write_tensors("e.in", odd_ones)
    before = device_store.checksum("e.in")
    device_store.write_tensors("e.in", [tensor.clone() for tensor in odd_ones])
    assert device_store.checksum("e.in") == before, "what lies between two tensors differs"
    device_store.write_tensors("d.in", [alone, alone])
    assert device_store.region("d.in").numel() == 2 * alone.numel() * 4


def test_a_field_can_be_viewed_in_bytes_of_a_device() -> None:
    tensors = [torch.randn(3, 5).t(), torch.arange(7), torch.zeros(0, 3)]
    fields, size = layout.plan(tensors)
    region = torch.empty(size, dtype=torch.uint8)
    layout.write(fields, region, tensors)
    assert all(torch.equal(field.view(region), tensor) for field, tensor in zip(fields, tensors, strict=True))
    assert fields[0].view(region).stride() == tensors[0].stride()


class _Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


class _OverTheBatch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0)


def test_a_batch_in_parts_gives_what_the_whole_gives() -> None:
    x = torch.randn(64, 33)
    made = float64_fallback.in_parts(_Rows(), Drawn([layout.Slot(0)], [x]))
    assert made is not None
    assert torch.allclose(made[0], torch.softmax(x.double(), -1), rtol=1e-14)


def test_a_model_that_looks_across_the_batch_is_not_taken_in_parts() -> None:
    assert float64_fallback.in_parts(_OverTheBatch(), Drawn([layout.Slot(0)], [torch.randn(64, 33)])) is None


def test_a_batch_norm_is_not_taken_in_parts_although_its_parts_are_nearly_alike() -> None:
    x = torch.randn(1, 2, 16, 16) + 0.01 * torch.randn(64, 2, 16, 16)  # as in a batch of millions of values
    norm = nn.BatchNorm2d(2)  # in train mode: over the batch
    parts = float64_fallback._joined(norm, Drawn([layout.Slot(0)], [x]), 64, 4)
    assert float64_fallback._close(parts[0], norm(x).detach(), float64_fallback._ALIKE_TO_EAGER)
    assert float64_fallback.in_parts(norm, Drawn([layout.Slot(0)], [x])) is None


def test_where_room_is_short_parts_are_rounded_only_once_they_are_joined() -> None:
    x = torch.randn(64, 33)
    (made,) = float64_fallback.in_parts(_Rows(), Drawn([layout.Slot(0)], [x]), narrow=True) or []
    assert made.dtype == torch.float32 and torch.equal(made, torch.softmax(x.double(), -1).float())
    norm = nn.BatchNorm2d(2)
    images = torch.randn(1, 2, 16, 16) + 0.01 * torch.randn(64, 2, 16, 16)
    assert float64_fallback.in_parts(norm, Drawn([layout.Slot(0)], [images]), narrow=True) is None, (
        "seen in doubles only"
    )
    (mask,) = float64_fallback.in_parts(_Positive(), Drawn([layout.Slot(0)], [x]), narrow=True) or []
    assert mask.dtype == torch.bool


class _WritesWhereNegative(nn.Module):
    """Which no draw of `torch.rand` shows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.clamp_(min=0.0) if bool((x < 0).any()) else x, dim=-1)


def test_where_room_is_short_no_reference_writes_to_inputs_that_are_kept() -> None:
    given = torch.randn(64, 33)
    x = given.clone()
    assert (
        float64_fallback.in_parts(_WritesWhereNegative(), Drawn([layout.Slot(0)], [x.abs()]), narrow=True) is not None
    )
    with pytest.raises(torch.cuda.OutOfMemoryError, match="writes to"):
        float64_fallback.in_parts(_WritesWhereNegative(), Drawn([layout.Slot(0)], [x]), narrow=True)
    with torch.inference_mode():
        uncounted = given.clone()
    assert (
        float64_fallback.in_parts(_WritesWhereNegative(), Drawn([layout.Slot(0)], [uncounted]), narrow=True) is not None
    )
    assert torch.equal(uncounted, given)
    kept = given.clone()
    made = float64_fallback.in_parts(_WritesWhereNegative(), Drawn([layout.Slot(0)], [given]))
    assert made is not None and torch.equal(given, kept)


def test_what_did_not_fit_is_gone_before_parts_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[weakref.ref[torch.Tensor]] = []

    def one_output(*_args: Any, **_kwargs: Any) -> Any:
        output = torch.zeros(3, dtype=torch.float64)
        seen.append(weakref.ref(output))
        return None, [output]

    def parts(*_args: Any, **_kwargs: Any) -> list[torch.Tensor]:
        assert seen[0]() is None
        return [torch.zeros(3)]

    monkeypatch.setattr(truth, "forward", one_output)
    monkeypatch.setattr(truth, "kept_as", _full_after(0, None))
    monkeypatch.setattr(truth, "with_little_room", parts)
    assert truth.truth(_Rows(), Drawn([layout.Slot(0)], [torch.randn(8, 8)]), narrow=True)[2]


class _Positive(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x > 0


def test_where_room_is_short_a_kernel_that_rounds_otherwise_still_passes() -> None:
    """No lower precision can be told apart here, so that eager's own error is all there is to go by."""
    x = Drawn([layout.Slot(0)], [torch.randint(-16, 16, (64, 128)) / 8])
    contract = {"mul": "fp32", "acc": "fp32", "math": "exact"}
    exact = torch.exp(x.tensors[0].double())
    one_off = torch.nextafter(exact.float(), torch.tensor(torch.inf))
    for narrow in (False, True):
        exactly = truth.truth(_Exp(), x, narrow)
        (band,) = truth.bands(_Exp(), x, exactly, contract, [1], narrow)
        assert band is not None and not band.separated
        assert compare(one_off, exactly[0][0], band, None, "output", "fp32").kind == "", (narrow, band)


class _Exp(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x)


@pytest.mark.parametrize("expression", ["torch.softmax(x, -1)", "torch.relu(x - 9) * 0", "x @ x.T @ x"])
def test_where_room_is_short_outputs_are_judged_as_ever(tmp_path: Path, expression: str) -> None:
    problem = simple(tmp_path, expression)
    made = {}
    for tight in (False, True):
        store = Store(str(tmp_path / f"store-{tight}"))
        reference = Reference(problem, {}, SECRET, store, False, device_store=DeviceStore(0), tight=tight)
        reference.prepare()
        intake.examine(reference)
        made[tight] = reference
    assert made[True].distributions == made[False].distributions and made[True].notes == made[False].notes
    for which in ((0, OWN, 0), (0, "heavy", 0), (0, SLICE, 0), (1, OWN, 0)):
        sets = {tight: reference.ensure(*which) for tight, reference in made.items()}
        truths = {tight: reference.truth_of(sets[tight])[0][0] for tight, reference in made.items()}
        assert truths[False].dtype == torch.float64 and torch.equal(truths[False].float(), truths[True])
        bands = {tight: one.bands[0] for tight, one in sets.items()}
        honest = truths[False].float()
        for tight, band in bands.items():
            assert band is not None
            assert compare(honest, truths[tight], band, None, "output", "fp32").kind == ""
            wrong = honest + 100 * band.tau * (honest.abs() + rms_of(honest) + 1e-30)
            assert compare(wrong, truths[tight], band, None, "output", "fp32").kind != ""
        usual, short = bands[False], bands[True]
        assert usual is not None and short is not None and short.separated == usual.separated
        # Errors of honest kernels are measured against the same rounded truth.
        unit = truth.UNIT["fp32"]
        assert abs(short.rms_limit - usual.rms_limit) <= 0.1 * usual.rms_limit + unit
        assert abs(short.tau - usual.tau) <= 0.1 * usual.tau + 4 * unit


def test_outputs_in_float64_are_never_rounded(tmp_path: Path) -> None:
    problem = simple(tmp_path, "torch.softmax(x, -1)", "torch.randn(8, 16, dtype=torch.float64)")
    reference = Reference(
        problem, {}, SECRET, Store(str(tmp_path / "store")), False, device_store=DeviceStore(0), tight=True
    )
    reference.prepare()
    assert reference.truth_of(reference.ensure(0, OWN, 0))[0][0].dtype == torch.float64


def _tensors_alive() -> int:
    return sum(type(one) is torch.Tensor for one in gc.get_objects())


def test_nothing_that_was_drawn_or_computed_waits_for_a_collection(tmp_path: Path) -> None:
    """A collection comes when there are many objects, not when a device is full."""
    reference = reference_of(simple(tmp_path, "torch.softmax(x, -1)"), tmp_path)
    reference.model(0)
    gc.collect()
    gc.disable()
    try:
        before = _tensors_alive()
        drawn = reference._draw(0, OWN, 0)
        outputs = truth.truth(reference.model(0), drawn)[0]
        assert _tensors_alive() > before and len(outputs) == 1
        del drawn, outputs
        assert _tensors_alive() == before
    finally:
        gc.enable()


def test_inputs_that_differ_when_they_are_made_again_are_the_problem_s_fault(tmp_path: Path) -> None:
    inputs = "torch.randn(8, 16) + time.perf_counter_ns() % 100000"
    problem = simple(tmp_path, "x * 2", inputs, more="import time")
    reference = Reference(problem, {}, SECRET, Store(str(tmp_path / "store")), False, device_store=DeviceStore(0))
    with pytest.raises(ProblemError, match="other values for the same seeds"):
        reference.prepare()
        reference.present(reference.ensure(0, OWN, 0).name)


def test_bytes_that_do_not_matter_are_not_compulsory(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "x[:, :4] * 2"), tmp_path)
    bytes_needed, how = floor.compulsory_bytes(reference)
    shape = reference.variants[0].input_fields[0].shape
    rows = shape[0]
    assert bytes_needed == 2 * rows * 4 * 4, how


def _full_after(calls: int, real: Any) -> Any:
    """`real` for so many calls, then a device without memory, once."""
    left = [calls]

    def call(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == -1:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 6.00 GiB.")
        return real(*args, **kwargs)

    return call


def test_where_doubles_do_not_fit_the_floor_is_found_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = reference_of(simple(tmp_path, "x[:, :4] * 2"), tmp_path)
    monkeypatch.setattr(floor, "to_double", _full_after(0, None))
    bytes_needed, how = floor.compulsory_bytes(reference)
    assert bytes_needed == 2 * reference.variants[0].input_fields[0].shape[0] * 4 * 4, how


def test_a_truth_for_which_there_is_no_memory_is_not_made_in_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")

    monkeypatch.setattr(truth, "forward", full)
    monkeypatch.setattr(float64_fallback, "forward", full)
    with pytest.raises(torch.cuda.OutOfMemoryError, match="ALLOC_FAILED"):
        truth.truth(_Rows(), Drawn([layout.Slot(0)], [torch.randn(8, 8)]))


def test_where_the_whole_does_not_fit_the_truth_is_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(64, 33)
    monkeypatch.setattr(truth, "forward", _full_after(0, truth.forward))
    outputs, sources, is_double = truth.truth(_Rows(), Drawn([layout.Slot(0)], [x]))
    assert is_double and sources == {}
    assert torch.allclose(outputs[0], torch.softmax(x.double(), -1), rtol=1e-14)


class _Mask(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.exp(x), torch.gt(x, 0)


def test_numbers_and_a_mask_may_be_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(64, 33)
    monkeypatch.setattr(truth, "forward", _full_after(0, truth.forward))
    (numbers, mask), _sources, is_double = truth.truth(_Mask(), Drawn([layout.Slot(0)], [x]))
    assert (
        is_double and torch.equal(mask, torch.gt(x, 0)) and torch.allclose(numbers, torch.exp(x.double()), rtol=1e-14)
    )


class _Places(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.argmax(x, dim=-1)


def test_places_of_extreme_values_are_not_looked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which ties there are is known from the whole only: a candidate that breaks one otherwise is right."""
    monkeypatch.setattr(truth, "forward", _full_after(0, truth.forward))
    with pytest.raises(torch.cuda.OutOfMemoryError, match="extreme"):
        truth.truth(_Places(), Drawn([layout.Slot(0)], [torch.randn(64, 33)]))


def test_a_set_that_is_made_again_is_the_same(tmp_path: Path) -> None:
    problem = simple(tmp_path, "torch.softmax(x, -1)")
    reference = Reference(problem, {}, SECRET, Store(str(tmp_path / "store")), False, device_store=DeviceStore(0))
    reference.prepare()
    intake.examine(reference)
    wanted = [(0, OWN, 0), (1, OWN, 0), (0, "heavy", 0), (0, SLICE, 0), (0, UNSEEN, 2)]
    seen = {}
    for _round in range(2):
        for which in wanted:
            made = reference.ensure(*which)
            device_store = reference.store_of(made)
            assert isinstance(device_store, DeviceStore)
            inputs = device_store.region(f"{made.name}.in").clone()
            truths = [tensor.clone() for tensor in reference.truth_of(made)[0]]
            before = seen.setdefault(which, (inputs, truths))
            assert torch.equal(inputs, before[0]) and all(map(torch.equal, truths, before[1])), which


_OPENING = {"do": "open", "contract": {}, "reduced": False, "fresh": True, "secret": SECRET.hex()}


def _opened(folder: Path) -> Any:
    made = referee._Referee(simple(folder, "torch.softmax(x, -1)"))
    made.perform({**_OPENING, "store": str(folder), "session_store": str(folder / "session")}, [])
    return made


def test_whoever_is_judged_short_of_memory_is_told(tmp_path: Path) -> None:
    opening = {**_OPENING, "fresh": False, "store": str(tmp_path), "session_store": str(tmp_path / "session")}
    said = {}
    for tight in (True, False):
        made = referee._Referee(simple(tmp_path, "torch.softmax(x, -1)"))
        made._tight = tight
        said[tight] = made.perform(opening, [])[0]["report"]["notes"]
    assert "short of memory" in said[True][-1]
    assert said[False] == said[True][:-1], "another session may have more room"


def test_what_finds_no_memory_beside_other_sets_is_tried_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _opened(tmp_path)
    made.reference._device_store = DeviceStore(1 << 30)
    made.reference.sets.clear()
    made.reference.ensure(0, OWN, 0)
    monkeypatch.setattr(made.reference, "ensure", _full_after(0, made.reference.ensure))
    monkeypatch.setattr(referee, "_DYING_S", 0.0)
    answer, files = made.perform({"do": "set", "variant": 0, "distribution": OWN, "number": 1}, [])
    assert answer["id"] == "v0-own-1" and files == []
    assert made.reference._device_store.has("v0-own-1.in") and not made.reference._device_store.has("v0-own-0.in")


def test_a_problem_for_which_the_device_is_too_small_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _opened(tmp_path)

    def full(*_args: Any) -> Any:
        raise cuda_driver.NoMemory("cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY")

    monkeypatch.setattr(made.reference, "ensure", full)
    monkeypatch.setattr(referee, "_DYING_S", 0.0)
    monkeypatch.setattr(referee.devices, "referee", lambda: cuda_referee)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (3 << 30, 80 << 30))
    with pytest.raises(ProblemError, match=r"3\.0 of 80\.0 GiB are free.*nvidia-smi.*OUT_OF_MEMORY"):
        made.perform({"do": "set", "variant": 0, "distribution": OWN, "number": 1}, [])


class _Card:
    """Memory of a device that counts what a forward pass would take there."""

    total_memory = 100 << 30

    def __init__(self, monkeypatch: pytest.MonkeyPatch, allocated: list[int], peak: int) -> None:
        for name, answer in {
            "get_device_properties": lambda _: self,
            "memory_allocated": lambda: allocated.pop(),
            "reset_peak_memory_stats": lambda: None,
            "max_memory_allocated": lambda: peak,
            "empty_cache": lambda: None,
        }.items():
            monkeypatch.setattr(torch.cuda, name, answer)


def test_what_judging_needs_is_told_by_the_sizes_of_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = simple(tmp_path, "torch.relu(x)", "torch.randn(rows, 16)", more="rows = 8")
    taken = given = 8 * 16 * 4
    _Card(monkeypatch, allocated=[taken + 1000], peak=taken + 1000 + taken + given + 50)
    needed = (2 << 30) + 5 * taken + 9 * given + 4 * 50 + 5 * 1000
    assert cuda_referee.look(problem, []) == {"needed_bytes": needed, "memory_bytes": 100 << 30}
    _Card(monkeypatch, allocated=[0, 0], peak=0)
    larger = (2 << 30) + 14 * 32 * 16 * 4
    assert cuda_referee.look(problem, [{"rows": 32}])["needed_bytes"] == larger, "the largest of all shapes"


@pytest.mark.parametrize(
    ("raised", "needed"), [(cuda_driver.NoMemory("full"), 100 << 30), (ValueError("of the problem's own"), 0)]
)
def test_a_call_that_does_not_fit_beside_others_needs_the_whole_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, needed: int
) -> None:
    _Card(monkeypatch, allocated=[0], peak=0)

    def fails(*_: Any) -> Drawn:
        raise raised

    monkeypatch.setattr(cuda_referee, "draw_inputs", fails)
    assert cuda_referee.look(simple(tmp_path, "torch.relu(x)"), [])["needed_bytes"] == needed


def test_a_problem_that_only_says_that_memory_is_out_gets_an_answer(tmp_path: Path) -> None:
    made = referee._Referee(simple(tmp_path, "x", "exec(\"raise RuntimeError('CUDA out of memory')\")"))
    with pytest.raises(ProblemError, match="not enough memory to judge this problem"):
        made.perform({**_OPENING, "store": str(tmp_path), "session_store": str(tmp_path / "session")}, [])


def test_what_has_no_gradient_leaves_the_outputs(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "torch.argmax(x, dim=-1)"), tmp_path)
    bytes_needed, how = floor.compulsory_bytes(reference)
    assert bytes_needed == reference.variants[0].output_fields[0].nbytes
    assert "outputs only" in how


def test_faults_of_a_device_are_told_apart() -> None:
    fault = RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be ...")
    assert failure.classify(fault, "forward", "candidate.py").kind == "crash"
    full = RuntimeError("CUDA error: out of memory")
    assert failure.classify(full, "forward", "candidate.py").kind == "out_of_memory"
    for text in (
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "Triton Error [CUDA]: out of memory",
    ):
        assert failure.classify(RuntimeError(text), "forward", "candidate.py").kind == "out_of_memory", text
    workspace = LaunchError("scale returned 2, as a CUDA error cudaErrorMemoryAllocation")
    assert failure.classify(workspace, "forward", "candidate.py").kind == "out_of_memory"
    launch = RuntimeError("CUDA error: too many resources requested for launch")
    assert failure.classify(launch, "forward", "candidate.py").kind == "launch"


def test_a_contract_of_tf32_allows_what_tensor_cores_do() -> None:
    x = torch.randn(1 << 12)
    nearest, cut = round_to(x, "tf32"), round_to(x, "tf32", as_hardware=True)
    assert bool((cut.abs() <= x.abs()).all())
    assert 1.8 < float((cut - x).norm() / (nearest - x).norm()) < 2.2
