"""What a candidate returned is found where it lies, or refused with a reason."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import pytest
import torch

from kforge_harness.hostile.failure import Failure
from kforge_harness.hostile.outputs import Expected, checked, claims, copied, match
from kforge_harness.shared import layout

NOWHERE = (0, 0)


def like(value: Any, aliases_allowed: bool = False, shared: bool = False) -> Expected:
    """Results that look like `value`."""
    skeleton, tensors = layout.split(value)
    return Expected(skeleton, layout.plan(tensors)[0], aliases_allowed, [shared] * len(tensors))


def found(result: Any, expected: Any, inputs: tuple[int, int] = NOWHERE) -> list[torch.Tensor]:
    return checked(result, expected if isinstance(expected, Expected) else like(expected), inputs)


def refused(result: Any, expected: Any, inputs: tuple[int, int] = NOWHERE) -> tuple[str, str]:
    with pytest.raises(Failure) as caught:
        found(result, expected, inputs)
    return caught.value.kind, caught.value.text


def test_one_tensor_is_taken_as_it_lies() -> None:
    result = torch.randn(3, 2).t()
    (tensor,) = found(result, torch.zeros(2, 3))
    assert tensor.data_ptr() == result.data_ptr() and tensor.stride() == (1, 2)


def test_nested_outputs_come_in_the_order_of_the_references() -> None:
    expected = {"a": torch.zeros(1), "b": [torch.zeros(2), torch.zeros(3)]}
    tensors = found({"b": (torch.full((2,), 2.0), torch.full((3,), 3.0)), "a": torch.ones(1)}, expected)
    assert [t.tolist() for t in tensors] == [[1], [2, 2], [3, 3, 3]]


def test_a_list_or_a_named_tuple_serves_as_a_tuple() -> None:
    class Named(NamedTuple):
        x: torch.Tensor
        y: torch.Tensor

    expected = (torch.zeros(1), torch.zeros(1))
    assert [t.item() for t in found([torch.ones(1), torch.zeros(1)], expected)] == [1, 0]
    assert [t.item() for t in found(Named(torch.full((1,), 4.0), torch.full((1,), 5.0)), expected)] == [4, 5]


def test_a_number_serves_as_a_scalar() -> None:
    assert [t.item() for t in found(2.5, torch.tensor(0.0))] == [2.5]


def test_empty_outputs_are_outputs() -> None:
    assert found(torch.empty(0, 4), torch.empty(0, 4))[0].shape == (0, 4)


def words_of(told: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(told) // 8}q", told))


def test_claims_name_segment_offset_and_strides_call_by_call() -> None:
    rows = [[torch.zeros(4, 2).t(), torch.zeros(())], [torch.zeros(2, 4), torch.zeros(())]]
    places = {t.data_ptr(): (number, 16 * number) for number, t in enumerate([t for row in rows for t in row])}
    assert words_of(claims(rows, places.__getitem__)) == [0, 0, 1, 2, 1, 16, 2, 32, 4, 1, 3, 48]


def test_copies_are_made_of_wanted_tensors_alone_and_the_structure_stays() -> None:
    kept, moved = torch.zeros(2), torch.ones(3)
    made = copied({"a": [kept, 7], "b": (moved, None)}, lambda t: t.numel() == 3)
    assert made["a"][0] is kept and made["a"][1] == 7 and made["b"][1] is None and isinstance(made["b"], tuple)
    assert made["b"][0].data_ptr() != moved.data_ptr() and torch.equal(made["b"][0], moved)


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


@pytest.mark.parametrize(
    "result",
    [torch.zeros(1, 4).expand(4, 4), torch.zeros(13).as_strided((4, 4), (3, 1)), torch.zeros(7).unfold(0, 4, 1)],
    ids=["expanded", "overlapping", "windows"],
)
def test_elements_that_share_memory(result: torch.Tensor) -> None:
    kind, text = refused(result, torch.zeros(4, 4))
    assert kind == "strides" and "share memory" in text
    found(result, like(torch.zeros(4, 4), shared=True))


def test_elements_that_lie_apart_are_no_matter() -> None:
    found(torch.zeros(4, 9)[:, 2:6], torch.zeros(4, 4))
    found(torch.zeros(8, 8)[::2, ::2], torch.zeros(4, 4))


def test_a_dimension_of_one_may_have_any_stride() -> None:
    found(torch.ones(3, 1).as_strided((3, 1), (1, 0)), torch.zeros(3, 1))


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
    found(x[2:4], like(torch.zeros(2), aliases_allowed=True), inputs)
    found(x[2:4].clone(), torch.zeros(2), inputs)
    found(x[8:], torch.zeros(0), inputs)
