"""Which compiler flags a candidate may give."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from ._errors import FlagError

# Flags are data from a hostile source: those that load plugins, pick other programs or read other files are not here.
_SAFE_FLAG = re.compile(
    r"-O[0-3s]|-std=(c|gnu)\+\+\d\w|-march=[\w.+-]+|-mtune=[\w.+-]+|-mcpu=[\w.+-]+|-m(no-)?(avx|fma|sse|f16c|bmi|prefer-vector-width)[\w.=-]*"
    r"|-fopenmp(-simd)?|-funroll-(all-)?loops|-f(no-)?(tree-)?(slp-)?vectorize|-fvect-cost-model=\w+|-fno-math-errno|-fno-trapping-math"
    r"|-fno-signed-zeros|-fassociative-math|-ffp-contract=\w+|-fno-exceptions|-fno-rtti|-fno-plt|-fstrict-aliasing|-fno-strict-aliasing"
    r"|-fomit-frame-pointer|-finline-functions|-finline-limit=\d+|-fprefetch-loop-arrays|-fvisibility=\w+|-ftree-[\w-]+|-fpeel-loops"
    r"|-g\d?|-w|-W(all|extra|no-[\w-]+|pedantic)|-[DU]\w+(=[\w.+-]*)?|-l(m|gomp|omp|pthread)|-pthread|--param=[\w-]+=\d+"
)
_FAST_MATH_FLAG = re.compile(
    r"-Ofast|-ffast-math|-funsafe-math-optimizations|-ffinite-math-only|-freciprocal-math|-fcx-limited-range|-mrecip\S*"
)
_PTXAS_WORD = r"(-v|-O[0-3]|--?opt-level=[0-3]|-d[ls]cm=\w\w|--?warn-on-spills|--?allow-expensive-optimizations=\w+)"
_SAFE_CUDA_FLAG = re.compile(
    rf"-O[0-3]|--?std=c\+\+\d\w|-lineinfo|--generate-line-info|--?maxrregcount=\d+|(-Xptxas|--ptxas-options)={_PTXAS_WORD}(,{_PTXAS_WORD})*"
    r"|--?extra-device-vectorization|--?expt-relaxed-constexpr|--?expt-extended-lambda|--?extended-lambda|--split-compile=\d+|--restrict|-restrict"
    r"|--?(prec-div|prec-sqrt|fmad)=true|--?(fmad|ftz)=false|-Xcompiler=(-fopenmp|-O[0-3])|-[DU]\w+(=[\w.+-]*)?|-w|-l(cublas|cublasLt|cudnn|cuda)"
)
_FAST_MATH_CUDA_FLAG = re.compile(r"--?use_fast_math|--?ftz=true|--?prec-(div|sqrt)=false")
# Flags whose value may be the next word.
_VALUED_CUDA_FLAGS = ("-Xptxas", "--ptxas-options", "-maxrregcount", "--maxrregcount", "-Xcompiler", "-std", "--std")


def check_flags(flags: list[str], lang: str = "cpp") -> None:
    fast_allowed = os.environ.get("KFORGE_MATH", "exact") == "fast"
    cuda = lang in ("cuda", "ptx")
    fast, safe = (_FAST_MATH_CUDA_FLAG, _SAFE_CUDA_FLAG) if cuda else (_FAST_MATH_FLAG, _SAFE_FLAG)
    for flag in joined(flags) if cuda else flags:
        if fast.fullmatch(flag):
            if not fast_allowed:
                raise FlagError(f"flag {flag} changes results; it needs `math='fast'` in the problem's contract")
        elif cuda and re.match(r"--?(arch|gencode|gpu-architecture|generate-code)\b", flag):
            raise FlagError(f"flag {flag} is not allowed: leave it out, the build is for the device's own architecture")
        elif not safe.fullmatch(flag):
            kinds = (
                "-O, -D, -Xptxas, -maxrregcount and other optimisation flags"
                if cuda
                else "optimisation, -m, -f and -D flags"
            )
            raise FlagError(f"flag {flag} is not allowed; use {kinds} only")


def joined(flags: list[str]) -> Iterable[str]:
    """Flags with their values: `-Xptxas -v` and `-Xptxas=-v` are the same."""
    words = iter(flags)
    for word in words:
        yield f"{word}={next(words, '')}" if word in _VALUED_CUDA_FLAGS else word
