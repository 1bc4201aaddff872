"""Every kind of device has what the harness asks of one, whether it is here or not."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kforge_harness.hostile import devices as of_cells
from kforge_harness.hostile import sandbox
from kforge_harness.shared import device_context, device_protocol
from kforge_harness.shared.slot_layout import Plan
from kforge_harness.trusted import devices as of_referees

KINDS = ("cpu", "cuda", "torch_device")
CLASSES = {"cpu": "Cpu", "cuda": "Cuda", "torch_device": "TorchDevice"}


def _asked(protocol: type) -> dict[str, Any]:
    return {name: value for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_"}


def _module(side: str, kind: str, name: str) -> Any:
    return importlib.import_module(f"kforge_harness.{side}.{kind}.{name}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_device_has_all_that_is_asked_of_it(kind: str) -> None:
    device = _module("shared", kind, "device")
    assert callable(device.settle) and isinstance(device.COMPILES_TRITON, bool)
    for name in _asked(device_protocol.Device):
        assert callable(getattr(getattr(device, CLASSES[kind]), name)), name
    for side, module, protocol in (
        ("trusted", "referee", of_referees.RefereeModule),
        ("hostile", "cell", of_cells.CellModule),
        ("hostile", "sandbox", sandbox._Rules),
    ):
        found = _module(side, kind, module)
        for name, wanted in _asked(protocol).items():
            given = list(inspect.signature(getattr(found, name)).parameters)
            assert len(given) == len(inspect.signature(wanted).parameters) - 1, (side, module, name)
    assert isinstance(_module("hostile", kind, "sandbox").LIMITS_ADDRESSES, bool)


@pytest.mark.parametrize(("kind", "name"), [("cpu", "Host"), ("cuda", "Gpu"), ("torch_device", "TorchSlots")])
def test_slots_of_every_kind_can_all_that_a_cell_asks(kind: str, name: str) -> None:
    made = getattr(_module("hostile", kind, "cell"), name)
    for wanted in _asked(of_cells.Slots):
        assert callable(getattr(made, wanted)), wanted


@pytest.fixture
def on_a_torch_device() -> Iterator[None]:
    device_context.settle("torch_device:cpu")
    yield
    device_context.settle("cpu")


def test_a_device_is_found_by_its_name(on_a_torch_device: None) -> None:
    assert device_context.kind() == "torch_device" and device_context.own_memory()
    assert of_referees.referee() is _module("trusted", "torch_device", "referee")
    assert of_cells.cell() is _module("hostile", "torch_device", "cell")
    with pytest.raises(ImportError):
        device_context.settle("abacus")
    assert device_context.compiles_triton("cuda:0") and not device_context.compiles_triton("cpu")


def test_inputs_go_there_and_what_became_of_them_comes_back(on_a_torch_device: None) -> None:
    import os

    plan = Plan(input_bytes=512, output_bytes=512, count=2)
    file = os.memfd_create("slot")
    os.ftruncate(file, plan.input_size)
    host = torch.from_file(f"/proc/self/fd/{file}", shared=True, size=plan.input_size, dtype=torch.uint8)
    slots: Any = of_cells.cell().slots(plan, file, {})
    places = plan.inputs(host)
    places[0].fill_(3)
    places[1].fill_(4)
    results: list[Any] = []
    inside, launching = slots.run(lambda x: x.add_(1).clone(), [[slots.inputs[0]], [slots.inputs[1]]], results, False)
    assert 0 < launching <= inside
    assert [int(result[0]) for result in results] == [4, 5]
    assert [int(place[0]) for place in places] == [4, 5], "the referee sees that an input was written to"
    assert slots.locate(slots.inputs[1].data_ptr())[1] == 512 and slots.locate(results[0].data_ptr()) == (0, 0)
    os.close(file)
