"""The runtime that candidates build and launch their kernels with."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import kforge_rt
from kforge_rt import _compile, _signature, _toolchain
from kforge_rt._errors import MissingCompiler

SOURCE = r"""
#include <cstdint>
extern "C" int twice(const float* x, float* y, int64_t n, double by) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * (float)by;
    return 0;
}
extern "C" int code(int64_t value) { return (int)value; }
extern "C" int is_null(const void* p) { return p == nullptr ? 0 : 5; }
extern "C" int kinds(int64_t flag, int64_t big, double d) { return flag == 1 && big == -(1LL << 40) && d == 0.5 ? 0 : 7; }
"""
FLAGS = ["-O1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("build")
    before = os.environ.get("KFORGE_BUILD_DIR")
    os.environ["KFORGE_BUILD_DIR"] = str(made)
    yield made
    del os.environ["KFORGE_BUILD_DIR"]
    if before is not None:
        os.environ["KFORGE_BUILD_DIR"] = before


@pytest.fixture(scope="module")
def lib(folder: Path) -> kforge_rt.Library:
    return kforge_rt.build(SOURCE, flags=FLAGS, name="twice it")


@pytest.fixture(autouse=True)
def fresh_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("launches", 0), ("failures", 0), ("skip_kernels", False)):
        monkeypatch.setattr(kforge_rt._Audit, name, value)


def test_a_kernel_runs_and_is_counted(lib: kforge_rt.Library) -> None:
    x, y = torch.arange(5.0), torch.empty(5)
    lib.twice(x, y, 5, 2.5)
    assert y.tolist() == [0, 2.5, 5, 7.5, 10] and kforge_rt._Audit.launches == 1


def test_the_same_source_is_compiled_once(
    lib: kforge_rt.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted(os.listdir(folder))
    assert [Path(name).suffix for name in files] == [".json", ".so"]  # the library, and how it was made
    assert all(name.startswith("twice_it-") for name in files)

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(_compile, "compile_library", refuse)
    again = kforge_rt.build(SOURCE, flags=FLAGS, name="twice it")
    assert again.code(0) is None and sorted(os.listdir(folder)) == files
    for changed in ({"source": SOURCE + "\n", "flags": FLAGS}, {"source": SOURCE, "flags": ["-O2"]}):
        with pytest.raises(AssertionError, match="compiled again"):
            kforge_rt.build(**changed, name="twice it")  # type: ignore[arg-type]


def test_arguments_are_converted(lib: kforge_rt.Library) -> None:
    lib.kinds(True, -(1 << 40), 0.5)
    lib.is_null(None)


def test_another_code_than_zero_raises(lib: kforge_rt.Library) -> None:
    with pytest.raises(kforge_rt.LaunchError, match="code returned 3"):
        lib.code(3)
    assert kforge_rt._Audit.failures == 1
    with pytest.raises(kforge_rt.LaunchError):
        lib.is_null(torch.ones(1))


@pytest.mark.parametrize("bad", ["text", [1], 1j, object()], ids=lambda value: type(value).__name__)
def test_an_argument_of_another_kind_is_named(lib: kforge_rt.Library, bad: object) -> None:
    with pytest.raises(TypeError, match=f"twice: argument 1 is a {type(bad).__name__}"):
        lib.twice(torch.ones(1), bad, 1, 1.0)


def test_arguments_are_held_to_what_the_source_declares(lib: kforge_rt.Library) -> None:
    x = torch.ones(1)
    wrong: list[tuple[tuple[Any, ...], str]] = [
        (
            (x, x, 1),
            r"twice takes 4 arguments, 3 were given: the source declares twice\(const float\* x, float\* y, int64",
        ),
        ((x, x, 1, 1.0, 2), "twice takes 4 arguments, 5 were given"),
        ((x, x, 1.0, 1.0), "argument 2 is a float, and the source declares `int64_t n`: pass an int"),
        ((x, x, 1, 1), "argument 3 is a int, and the source declares `double by`: pass a float"),
        ((x, 0.5, 1, 1.0), "argument 1 is a float, and the source declares `float. y`: pass a tensor"),
        ((x, x, 1, ctypes.c_float(1)), "argument 3 is a c_float"),
    ]
    for arguments, says in wrong:
        for _ in range(2):
            with pytest.raises(TypeError, match=says):
                lib.twice(*arguments)
    lib.twice(x.data_ptr(), x, ctypes.c_int64(1), ctypes.c_double(3))
    assert x.tolist() == [3]


DECLARED = r"""
// extern "C" int commented(int a) { return 0; }
static int helper(float a) { return 0; }
namespace detail { int both(float a) { return 0; } }
template <typename T> int generic(T a) { return 0; }
__global__ void launched(float* x) {}
#define MADE(name) extern "C" int name(int a) { return 0; }
extern "C" {
int block(const std::vector<float, int>* x, int (*f)(int, int), unsigned long long n, /* a comma, */ scalar s) noexcept {
    return helper(1.f);
}
}
extern "C" int both(double a, long double b, float c) { return both(1, 2, 3); }
extern "C" int launched(float *x, void *stream) { return 0; }
extern "C" int none(void) { return 0; }
#if A
extern "C" int two_ways(int a) { return 0; }
#else
extern "C" int two_ways(float a) { return 0; }
#endif
extern "C" int many(int a, ...) { return 0; }
"""


def test_what_is_declared_is_read_or_left_alone() -> None:
    def kinds(name: str) -> list[str] | None:
        found = _signature.of(DECLARED, name, False)
        return None if found is None else found._kinds

    assert kinds("block") == ["pointer", "pointer", "int", ""]
    assert kinds("both") == ["double", "", "float"]
    assert kinds("launched") == ["pointer", "pointer"]
    assert kinds("none") == []
    for unknown in ("commented", "helper", "generic", "MADE", "two_ways", "many", "absent"):
        assert kinds(unknown) is None, unknown


def test_the_stream_is_counted_where_it_is_declared() -> None:
    source = 'extern "C" int f(float* x, int64_t n, void* stream) {} extern "C" int g(float* x, int64_t n) {}'
    for name in ("f", "g"):
        signature = _signature.of(source, name, True)
        assert signature is not None
        signature.check((torch.ones(1), 1))
        with pytest.raises(TypeError, match=f"{name} takes 2 arguments, 1 were given"):
            signature.check((torch.ones(1),))


def test_a_tensor_elsewhere_is_refused(lib: kforge_rt.Library) -> None:
    with pytest.raises(TypeError, match="argument 0 is on meta, this kernel runs on cpu"):
        lib.twice(torch.ones(1, device="meta"), torch.ones(1), 1, 1.0)


def test_a_missing_function_is_explained(lib: kforge_rt.Library) -> None:
    with pytest.raises(AttributeError, match=r"no function 'thrice': declare it `extern \"C\" int thrice"):
        _ = lib.thrice
    assert not hasattr(lib, "_private")


def test_skipped_kernels_are_counted_but_do_nothing(lib: kforge_rt.Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kforge_rt._Audit, "skip_kernels", True)
    y = torch.zeros(2)
    lib.twice(torch.ones(2), y, 2, 2.0)
    lib.code(3)
    assert y.tolist() == [0, 0] and kforge_rt._Audit.launches == 2 and kforge_rt._Audit.failures == 0


def test_a_refused_source_gives_the_log_without_paths(folder: Path) -> None:
    with pytest.raises(kforge_rt.BuildError) as caught:
        kforge_rt.build('extern "C" int f() { return nothing; }', flags=FLAGS)
    assert "failed with exit code 1" in str(caught.value)
    assert "kernel.cpp:1:29: error:" in caught.value.log and str(folder) not in caught.value.log
    assert all(name.endswith((".so", ".json")) for name in os.listdir(folder)), "nothing half-made is left"


def test_an_unknown_language_and_a_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(kforge_rt.BuildError, match="lang='fortran' is not available for this target; known: cpp, cuda"):
        kforge_rt.build("", lang="fortran")
    with pytest.raises(MissingCompiler, match="none of no-such-compiler, none is on PATH") as caught:
        _toolchain.compiler(("no-such-compiler", "none"), "cpp")
    assert caught.value.tool == "no-such-compiler" and isinstance(caught.value, kforge_rt.BuildError)


def test_workspaces() -> None:
    a = kforge_rt.workspace(64)
    assert a.dtype == torch.uint8 and a.numel() == 64
    assert kforge_rt.workspace(64).data_ptr() != a.data_ptr()
    kept = kforge_rt.workspace(64, persistent=True, key="t", zeroed=True)
    assert int(kept.sum()) == 0
    kept.fill_(7)
    assert kforge_rt.workspace(64, persistent=True, key="t") is kept and int(kept[0]) == 7
    assert kforge_rt.workspace(64, persistent=True, key="u") is not kept
    assert kforge_rt.workspace(65, persistent=True, key="t") is not kept
    assert int(kforge_rt.workspace(64, persistent=True, key="t", zeroed=True).sum()) == 0
