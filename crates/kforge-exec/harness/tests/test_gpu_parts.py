"""What the GPU path is made of, as far as a CPU can show it."""

from __future__ import annotations

from pathlib import Path

import torch
from support import reference_of, simple
from torch import nn

from kforge_harness import doubled, failure, floor, layout, truth
from kforge_harness.problem import Drawn
from kforge_harness.shelf import DeviceShelf


def test_a_shelf_gives_back_what_was_put_there_and_forgets_the_oldest() -> None:
    shelf = DeviceShelf(budget=4 * 4096)
    tensors = {number: torch.randn(512) for number in range(6)}
    fields = {}
    for number, tensor in tensors.items():
        fields[number] = shelf.write_tensors(f"v0-own-{number}.in", [tensor])
        shelf.write_tensors(f"v0-own-{number}.truth", [tensor.double()])
    assert not shelf.has("v0-own-0.in") and not shelf.has("v0-own-0.truth")
    assert shelf.has("v0-own-5.in") and shelf.has("v0-own-5.truth")
    assert torch.equal(shelf.read_tensors("v0-own-5.in", fields[5])[0], tensors[5])
    assert shelf.region("v0-own-5.in").numel() % layout.ALIGN == 0


def test_sets_that_are_looked_at_together_stay_whatever_they_take() -> None:
    shelf = DeviceShelf(budget=1)
    for number in range(5):
        shelf.write_tensors(f"v0-own-{number}.in", [torch.randn(64)])
    assert [shelf.has(f"v0-own-{n}.in") for n in range(5)] == [False, False, True, True, True]


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
    made = doubled.in_parts(_Rows(), Drawn([layout.Slot(0)], [x]))
    assert made is not None
    assert torch.allclose(made[0], torch.softmax(x.double(), -1), rtol=1e-14)


def test_a_model_that_looks_across_the_batch_is_not_taken_in_parts() -> None:
    assert doubled.in_parts(_OverTheBatch(), Drawn([layout.Slot(0)], [torch.randn(64, 33)])) is None


def test_bytes_that_do_not_matter_are_not_compulsory(tmp_path: Path) -> None:
    reference = reference_of(simple(tmp_path, "x[:, :4] * 2"), tmp_path)
    bytes_needed, how = floor.compulsory_bytes(reference)
    shape = reference.variants[0].input_fields[0].shape
    rows = shape[0]
    assert bytes_needed == 2 * rows * 4 * 4, how


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
    launch = RuntimeError("CUDA error: too many resources requested for launch")
    assert failure.classify(launch, "forward", "candidate.py").kind == "launch"


def test_a_contract_of_tf32_allows_what_tensor_cores_do() -> None:
    x = torch.randn(1 << 12)
    nearest, cut = truth.round_to(x, "tf32"), truth.round_to(x, "tf32", as_hardware=True)
    assert bool((cut.abs() <= x.abs()).all())
    assert 1.8 < float((cut - x).norm() / (nearest - x).norm()) < 2.2
