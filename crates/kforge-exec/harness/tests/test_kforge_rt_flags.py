"""Compiler flags are data from a hostile source."""

from __future__ import annotations

import pytest

from kforge_rt import FlagError
from kforge_rt._flags import check_flags


@pytest.mark.parametrize(
    "flag",
    ["-fplugin=x.so", "-B/tmp", "-I/etc", "-include", "@file", "-Wl,-rpath=/x", "-specs=x", "-wrapper", "-L.", "-lssl",
     "-o", "x.cpp", "-O3 -fplugin=x", "-DA=`id`", ""],
)  # fmt: skip
def test_flags_that_reach_further_are_refused(flag: str) -> None:
    with pytest.raises(FlagError, match="is not allowed"):
        check_flags([flag])


def test_ordinary_flags_are_allowed() -> None:
    check_flags(
        "-O3 -march=native -mavx2 -mprefer-vector-width=512 -fopenmp -funroll-loops -ffp-contract=fast -fno-math-errno "
        "-DTILE=64 -std=c++20 -Wall -Wno-unused -lm -pthread --param=max-unroll-times=4".split()
    )


@pytest.mark.parametrize("flag", ["-Ofast", "-ffast-math", "-funsafe-math-optimizations", "-mrecip=all"])
def test_fast_math_needs_the_contract(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KFORGE_MATH", raising=False)
    with pytest.raises(FlagError, match="needs `math='fast'`"):
        check_flags([flag])
    monkeypatch.setenv("KFORGE_MATH", "fast")
    check_flags([flag])


@pytest.mark.parametrize(
    "flags",
    [["-ccbin", "x"], ["-ccbin=x"], ["--compiler-bindir=x"], ["-optf", "x"], ["-Xcompiler", "-fplugin=x"], ["-Xcompiler=-B/tmp"],
     ["-I/etc"], ["-include", "x"], ["@file"], ["-Xlinker", "x"], ["-L."], ["-lssl"], ["-o", "x"], ["x.cu"], ["--keep-dir=x"],
     ["-Xptxas", "-o"], ["-Xptxas=-v,--output-file=x"], ["-Xptxas"], ["-Xcudafe=x"], ["-Xnvlink=x"], ["-rdc=true"], ["-DA=`id`"],
     ["-Xcompiler=-O3,-fplugin=x"], ["--run"], ["-dlink"], ["-D", "A"], [""]],
    ids=" ".join,
)  # fmt: skip
def test_cuda_flags_that_reach_further_are_refused(flags: list[str]) -> None:
    for lang in ("cuda", "ptx"):
        with pytest.raises(FlagError, match="is not allowed"):
            check_flags(flags, lang)


def test_the_architecture_is_not_the_candidate_s_to_choose_by_flags() -> None:
    for flag in ("-arch=sm_90a", "-gencode=arch=compute_90a,code=sm_90a", "--gpu-architecture=sm_80"):
        with pytest.raises(FlagError, match="leave it out"):
            check_flags([flag], "cuda")


def test_cuda_ordinary_flags_are_allowed() -> None:
    check_flags(
        "-O3 -std=c++20 -lineinfo --maxrregcount=64 -maxrregcount 128 -Xptxas -v -Xptxas=-O3,-dlcm=ca --extra-device-vectorization "
        "--expt-relaxed-constexpr --expt-extended-lambda --fmad=true --fmad=false -prec-div=true --prec-sqrt=true -ftz=false "
        "-DTILE=64 -UDEBUG -Xcompiler -fopenmp -lcublas -lcublasLt -lcudnn -lcuda".split(),
        "cuda",
    )


@pytest.mark.parametrize(
    "flag", ["--use_fast_math", "-use_fast_math", "-ftz=true", "--prec-div=false", "-prec-sqrt=false"]
)
def test_cuda_fast_math_needs_the_contract(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KFORGE_MATH", raising=False)
    with pytest.raises(FlagError, match="needs `math='fast'`"):
        check_flags([flag], "cuda")
    monkeypatch.setenv("KFORGE_MATH", "fast")
    check_flags([flag], "cuda")
