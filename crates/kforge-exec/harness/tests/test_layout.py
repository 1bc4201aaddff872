"""Tensors survive the way through shared memory, whatever their form."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
import torch

from kforge_harness.shared import layout


class Pair(NamedTuple):
    left: Any
    right: Any


def through_memory(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    fields, size = layout.plan(tensors)
    memory = bytearray(b"\xa5" * size)
    layout.write(fields, memory, tensors)
    return [field.view(memory) for field in fields]


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 5),
        torch.randn(5, 3).t(),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(8, 10)[:, ::2],
        torch.randn(4, 1).expand(4, 6),
        torch.randn(1, 4).as_strided((1, 4), (1000, 1)),
        torch.empty(0, 7),
        torch.empty(3, 0, 2, dtype=torch.int32),
        torch.tensor(2.5),
        torch.tensor(True),
        torch.tensor([[True, False], [False, True]]),
        torch.randn(9).bfloat16(),
        torch.randn(9).half(),
        torch.randn(9, dtype=torch.float64),
        torch.randint(0, 255, (7,), dtype=torch.uint8),
        torch.randint(-(2**40), 2**40, (7,)),
    ],
    ids=lambda t: f"{layout.dtype_name(t.dtype)}-{list(t.shape)}-{list(t.stride())}",
)
def test_a_tensor_comes_back_as_it_was(tensor: torch.Tensor) -> None:
    (back,) = through_memory([tensor])
    assert same(back, tensor)


def test_dense_strides_are_kept_and_others_become_contiguous() -> None:
    transposed, gapped, repeated = torch.randn(5, 3).t(), torch.randn(8, 10)[:, ::2], torch.randn(4, 1).expand(4, 6)
    fields, _size = layout.plan([transposed, gapped, repeated])
    assert fields[0].stride == [1, 3]
    assert fields[1].stride == [5, 1]
    assert fields[2].stride == [6, 1] and fields[2].nbytes == 4 * 6 * 4


def test_regions_are_aligned_and_do_not_overlap() -> None:
    tensors = [torch.ones(1, dtype=torch.bool), torch.randn(100), torch.empty(0), torch.tensor(3, dtype=torch.int64)]
    fields, size = layout.plan(tensors)
    assert all(field.offset % layout.ALIGN == 0 for field in fields)
    ends = [field.offset + field.nbytes for field in fields]
    assert all(end <= follower.offset for end, follower in zip(ends, fields[1:], strict=False))
    assert size >= ends[-1] and size % layout.ALIGN == 0
    assert layout.plan([])[1] == layout.ALIGN


def test_writing_stays_inside_its_own_field() -> None:
    first, second = torch.zeros(3), torch.zeros(3)
    fields, size = layout.plan([first, second])
    memory = bytearray(b"\xa5" * size)
    layout.write(fields[:1], memory, [first])
    assert memory[:12] == bytes(12) and set(memory[12:]) == {0xA5}


def test_a_view_shares_the_memory() -> None:
    fields, size = layout.plan([torch.zeros(4)])
    memory = bytearray(size)
    fields[0].view(memory)[2] = 1.0
    assert fields[0].view(memory).tolist() == [0.0, 0.0, 1.0, 0.0]


def test_more_tensors_than_fields_is_an_error() -> None:
    fields, size = layout.plan([torch.zeros(4)])
    with pytest.raises(ValueError):
        layout.write(fields, bytearray(size), [torch.zeros(4), torch.zeros(4)])


def test_structures_are_taken_apart_and_put_together() -> None:
    a, b, c = torch.zeros(1), torch.ones(2), torch.full((3,), 2.0)
    value = [a, {"k": (b, 3), "n": None}, Pair(c, "text"), [], (), 1.5]
    skeleton, tensors = layout.split(value)
    assert [t.numel() for t in tensors] == [1, 2, 3]
    joined = layout.join(skeleton, [t + 10 for t in tensors])
    assert joined[0].item() == 10 and joined[1]["k"][0].tolist() == [11, 11] and joined[1]["k"][1] == 3
    assert joined[1]["n"] is None and isinstance(joined[1]["k"], tuple)
    assert isinstance(joined[2], Pair) and joined[2].left.tolist() == [12, 12, 12] and joined[2].right == "text"
    assert joined[3:] == [[], (), 1.5]
    assert value[0] is a, "the original is left alone"


def test_one_tensor_in_two_places_gets_two_slots() -> None:
    x = torch.randn(2)
    skeleton, tensors = layout.split([x, x])
    assert skeleton == [layout.Slot(0), layout.Slot(1)] and len(tensors) == 2


def test_packed_values_come_back() -> None:
    value = [1, 2.5, "s", None, {"a": (layout.Slot(0), layout.Slot(1))}]
    assert layout.unpack(layout.pack(value)) == value


DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.uint8, torch.bool]


def random_tensor(rng: random.Random) -> torch.Tensor:
    shape = [
        rng.choice([0, 1, 1, 2, 3, 5]) if rng.random() < 0.3 else rng.randint(1, 5) for _ in range(rng.randint(0, 4))
    ]
    raw = torch.randint(-100, 100, [2 * n for n in shape])
    dtype = rng.choice(DTYPES)
    tensor = raw.to(dtype)
    for dim, size in enumerate(shape):
        start = rng.randint(0, size)
        tensor = (
            tensor.narrow(dim, start, size)
            if rng.random() < 0.5
            else tensor[(slice(None),) * dim + (slice(None, None, 2),)]
        )
    if rng.random() < 0.3:
        tensor = tensor.clone()
    order = list(range(len(shape)))
    rng.shuffle(order)
    tensor = tensor.permute(order)
    if tensor.dim() and len(tensor) and rng.random() < 0.2:
        tensor = tensor[:1].expand(rng.randint(1, 4), *tensor.shape[1:])
    return tensor


def random_structure(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if kind < 0.5 or depth > 3:
        return random_tensor(rng) if rng.random() < 0.8 else rng.choice([None, 3, 2.5, "s", True])
    entries = [random_structure(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if kind < 0.65:
        return entries
    if kind < 0.8:
        return tuple(entries)
    if kind < 0.9:
        return {f"k{i}": entry for i, entry in enumerate(entries)}
    return Pair(random_tensor(rng), entries)


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and same(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


@pytest.mark.parametrize("seed", range(8))
def test_random_structures_survive_the_round_trip(seed: int) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(60):
        value = random_structure(rng)
        skeleton, tensors = layout.split(value)
        back = layout.join(layout.unpack(layout.pack(skeleton)), through_memory(tensors))
        assert equal(value, back), (seed, skeleton, [(t.dtype, t.shape, t.stride()) for t in tensors])


@pytest.mark.parametrize(
    "tensor, shared",
    [
        (torch.zeros(4, 5), False),
        (torch.zeros(4, 5).t(), False),
        (torch.zeros(4, 5)[:, ::2], False),
        (torch.zeros(4, 3, 5).permute(2, 0, 1), False),
        (torch.zeros(4, 1).expand(4, 1), False),
        (torch.zeros(0, 5).expand(7, 0, 5), False),
        (torch.zeros(()), False),
        (torch.zeros(1, 5).expand(4, 5), True),
        (torch.zeros(9).unfold(0, 4, 1), True),
        (torch.zeros(40).as_strided((4, 5), (4, 1)), True),
        (torch.zeros(40).as_strided((4, 5), (1, 1)), True),
        (torch.zeros(40).as_strided((4, 5), (3, 2)), True),
        (torch.zeros(40).as_strided((4, 5), (5, 1)), False),
        (torch.zeros(40).as_strided((4, 5), (9, 2)), False),
    ],
)
def test_elements_that_two_indices_reach_are_seen(tensor: torch.Tensor, shared: bool) -> None:
    assert layout.overlaps(tensor) == shared
    if tensor.numel() and not shared:
        # Every element can be given a number of its own.
        numbers = torch.arange(float(tensor.numel())).reshape(tensor.shape)
        tensor.copy_(numbers)
        assert torch.equal(tensor, numbers)
