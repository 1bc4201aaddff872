"""The private folder in which a problem's secrets lie."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest
import torch

from kforge_harness.shared import layout
from kforge_harness.trusted.store import Store


def mode_of(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "deep" / "store"))


def test_nobody_else_can_read_it(store: Store) -> None:
    before = os.umask(0)
    try:
        fresh = Store(store.path("inner"))
        fresh.write_json("meta.json", {"secret": "00"})
        fresh.write_tensors("a.in", [torch.ones(2)])
    finally:
        os.umask(before)
    assert mode_of(store.folder) == mode_of(fresh.folder) == 0o700
    assert mode_of(fresh.path("meta.json")) == mode_of(fresh.path("a.in")) == 0o600


def test_json_comes_back(store: Store) -> None:
    store.write_json("meta.json", {"a": [1, None, "ü"]})
    assert store.read_json("meta.json") == {"a": [1, None, "ü"]}


def test_a_missing_or_broken_file_is_none(store: Store) -> None:
    assert store.read_json("meta.json") is None
    Path(store.path("meta.json")).write_text("{broken")
    assert store.read_json("meta.json") is None


def test_a_failed_write_leaves_the_old_content(store: Store) -> None:
    store.write_json("meta.json", {"a": 1})
    with pytest.raises(TypeError):
        store.write_json("meta.json", {"a": object()})
    assert store.read_json("meta.json") == {"a": 1}


def test_nothing_temporary_is_left(store: Store) -> None:
    store.write_json("meta.json", {})
    store.write_tensors("x", [torch.ones(3)])
    assert sorted(os.listdir(store.folder)) == ["meta.json", "x"]


def test_tensors_come_back(store: Store) -> None:
    tensors = [torch.randn(4, 6).t(), torch.tensor(True), torch.empty(0, 3), torch.randn(5).bfloat16()]
    fields = store.write_tensors("x", tensors)
    for before, after in zip(tensors, store.read_tensors("x", fields), strict=True):
        assert torch.equal(before, after) and before.dtype == after.dtype


def test_only_empty_tensors_make_a_file_too(store: Store) -> None:
    fields = store.write_tensors("x", [torch.empty(0)])
    assert os.path.getsize(store.path("x")) == layout.ALIGN
    assert store.read_tensors("x", fields)[0].numel() == 0


def test_what_a_reader_changes_stays_with_the_reader(store: Store) -> None:
    fields = store.write_tensors("x", [torch.ones(3)])
    store.read_tensors("x", fields)[0].zero_()
    assert store.read_tensors("x", fields)[0].tolist() == [1, 1, 1]


def test_a_reader_keeps_what_it_mapped_when_the_file_is_replaced(store: Store) -> None:
    fields = store.write_tensors("x", [torch.ones(3)])
    (old,) = store.read_tensors("x", fields)
    store.write_tensors("x", [torch.zeros(3)])
    assert old.tolist() == [1, 1, 1] and store.read_tensors("x", fields)[0].tolist() == [0, 0, 0]


def test_two_holders_take_turns(store: Store) -> None:
    with open(store.path("lock"), "w") as other:
        with store.locked(), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
