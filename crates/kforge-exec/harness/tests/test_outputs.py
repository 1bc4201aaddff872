"""What a candidate returned is delivered, or refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch

from kforge_harness import layout
from kforge_harness.failure import Failure
from kforge_harness.outputs import deliver, match

NOWHERE = (0, 0)


@dataclass
class Slots:
    """An output region that expects what `value` looks like."""

    value: Any
    aliases_allowed: bool = False
    output_skeleton: Any = None
    output_fields: list[layout.Field] = field(default_factory=list)
    output_views: list[torch.Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.output_skeleton, tensors = layout.split(self.value)
        self.output_fields, size = layout.plan(tensors)
        memory = bytearray(b"\xff" * size)
        self.output_views = [f.view(memory) for f in self.output_fields]


def refused(result: Any, expected: Any, inputs: tuple[int, int] = NOWHERE) -> tuple[str, str]:
    with pytest.raises(Failure) as caught:
        deliver(result, expected if isinstance(expected, Slots) else Slots(expected), inputs)
    return caught.value.kind, caught.value.text


def test_one_tensor_is_copied() -> None:
    slots = Slots(torch.zeros(2, 3))
    result = torch.randn(3, 2).t()
    deliver(result, slots, NOWHERE)
    assert torch.equal(slots.output_views[0], result)
    result.zero_()
    assert not torch.equal(slots.output_views[0], result)


def test_nested_outputs_are_copied_in_place() -> None:
    slots = Slots({"a": torch.zeros(1), "b": [torch.zeros(2), torch.zeros(3)]})
    deliver({"b": (torch.full((2,), 2.0), torch.full((3,), 3.0)), "a": torch.ones(1)}, slots, NOWHERE)
    assert [v.tolist() for v in slots.output_views] == [[1], [2, 2], [3, 3, 3]]


def test_a_list_or_a_named_tuple_serves_as_a_tuple() -> None:
    class Named(NamedTuple):
        x: torch.Tensor
        y: torch.Tensor

    slots = Slots((torch.zeros(1), torch.zeros(1)))
    deliver([torch.ones(1), torch.ones(1)], slots, NOWHERE)
    deliver(Named(torch.full((1,), 4.0), torch.full((1,), 5.0)), slots, NOWHERE)
    assert [v.item() for v in slots.output_views] == [4, 5]


def test_a_number_serves_as_a_scalar() -> None:
    slots = Slots(torch.tensor(0.0))
    deliver(2.5, slots, NOWHERE)
    assert slots.output_views[0].item() == 2.5


def test_empty_outputs_are_delivered() -> None:
    deliver(torch.empty(0, 4), Slots(torch.empty(0, 4)), NOWHERE)


def test_parts_that_are_no_tensors_match_by_type() -> None:
    assert match({"n": None, "x": layout.Slot(0)}, {"n": None, "x": "anything"}, "output") == [(0, "anything")]
    assert refused((torch.zeros(1), 3), (torch.zeros(1), None))[0] == "structure"


def test_another_dtype() -> None:
    kind, text = refused(torch.zeros(2).half(), torch.zeros(2))
    assert kind == "dtype" and text == "output: dtype is float16, expected float32"


def test_another_shape() -> None:
    kind, text = refused(torch.zeros(2, 1), torch.zeros(2))
    assert kind == "shape" and text == "output: shape is [2, 1], expected [2]"


def test_the_wrong_one_of_several_is_named() -> None:
    _kind, text = refused((torch.zeros(1), torch.zeros(5)), (torch.zeros(1), torch.zeros(2)))
    assert text.startswith("output 1:")


def test_repeated_elements() -> None:
    assert refused(torch.zeros(1).expand(4), torch.zeros(4))[0] == "strides"


def test_a_dimension_of_one_may_have_any_stride() -> None:
    deliver(torch.ones(3, 1).as_strided((3, 1), (1, 0)), Slots(torch.zeros(3, 1)), NOWHERE)


@pytest.mark.parametrize("result", [None, "text", object(), torch.zeros(2).numpy()], ids=lambda r: type(r).__name__)
def test_what_is_no_tensor(result: Any) -> None:
    kind, text = refused(result, torch.zeros(2))
    assert kind == "type" and "expected a plain torch.Tensor" in text


def test_a_subclass_of_tensor_is_not_even_touched() -> None:
    class Lazy(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_args: Any, **_kwargs: Any) -> Any:
            raise AssertionError("the subclass was asked")

    assert refused(torch.zeros(2).as_subclass(Lazy), torch.zeros(2))[0] == "type"


def test_other_layouts_and_devices() -> None:
    assert refused(torch.zeros(2, 2).to_sparse(), torch.zeros(2, 2))[0] == "type"
    assert refused(torch.zeros(2, device="meta"), torch.zeros(2))[0] == "device"


@pytest.mark.parametrize(
    "result, expected",
    [
        ((torch.zeros(1),), torch.zeros(1)),
        (torch.zeros(1), (torch.zeros(1), torch.zeros(1))),
        ((torch.zeros(1),), (torch.zeros(1), torch.zeros(1))),
        ({"a": torch.zeros(1)}, {"a": torch.zeros(1), "b": torch.zeros(1)}),
        ([torch.zeros(1)], {"a": torch.zeros(1)}),
        (torch.zeros(2), [[torch.zeros(1)], torch.zeros(1)]),
    ],
    ids=["tuple_for_one", "one_for_tuple", "too_few", "missing_key", "list_for_dict", "tensor_for_list"],
)
def test_another_structure(result: Any, expected: Any) -> None:
    assert refused(result, expected)[0] == "structure"


def test_memory_of_an_input() -> None:
    x = torch.zeros(8)
    inputs = (x.data_ptr(), x.data_ptr() + 32)
    assert refused(x[2:4], torch.zeros(2), inputs)[0] == "alias"
    deliver(x[2:4], Slots(torch.zeros(2), aliases_allowed=True), inputs)
    deliver(x[2:4].clone(), Slots(torch.zeros(2)), inputs)
