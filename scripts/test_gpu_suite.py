"""The parts of gpu_suite.py that need no GPU: python -m pytest scripts/test_gpu_suite.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import gpu_bench as bench
import gpu_suite as suite
import gpu_tables as tables


def test_a_state_alone_stands_for_its_kinds_but_correct_does_not() -> None:
    assert suite.fits("mismatch/numeric|runtime_error", "runtime_error", "crash")
    assert suite.fits("mismatch/numeric | correct", "correct", "")
    assert not suite.fits("mismatch/numeric", "mismatch", "shape")
    assert not suite.fits("correct", "correct", "framework_only")


def test_every_case_has_files_and_an_expectation() -> None:
    cases = suite.plan(suite.ROOT, "auto")
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        assert case.problem.exists() and case.candidate.exists(), case
        assert case.expected, case
    both = [p for p in suite.ROOT.glob("examples/gpu/*/nvidia_cuda.py") if p.with_name("nvidia_triton.py").exists()]
    assert len(both) >= 8


def test_each_cheat_is_judged_without_source_rules() -> None:
    names = {case.name for case in suite.plan(suite.ROOT, "auto")}
    for file in suite.ROOT.glob("corpus/gpu/cheats/*.py"):
        assert f"cheats-unguarded/{file.stem}" in names
        text = file.read_text(encoding="utf-8")
        assert "guardrail" not in (suite.header(text, "expect-unguarded") or ""), file
        assert "on purpose" not in text, f"{file}: no gain could show in a kernel that is slow on purpose"


def test_candidates_of_one_problem_share_a_call() -> None:
    cases = [case for case in suite.plan(suite.ROOT, "auto") if case.name.startswith("cheats-unguarded")]
    calls = suite.groups(cases)
    assert sum(map(len, calls)) == len(cases) > 2 * len(calls)
    for call in calls:
        assert len({(case.problem, case.target, case.flags) for case in call}) == 1


def test_a_cheat_that_gained_has_passed_nothing() -> None:
    case = suite.Case("cheats/x", "eval", Path("p"), Path("c"), "correct", is_cheat=True)
    answer = {"state": "correct", "kind": None, "speedup": 1.5, "speedup_ci": {"low": 1.4, "high": 1.6}}
    assert not suite.judged(case, answer).passed
    answer["speedup_ci"] = {"low": 0.1, "high": 0.2}
    assert suite.judged(case, answer).passed
    # What is called provisional may gain what the outside clock cannot resolve, and no more.
    for low, provisional, passed in ((1.2, False, False), (1.2, True, True), (1.4, True, False)):
        answer |= {"speedup_ci": {"low": low, "high": 1.5}, "provisional": provisional}
        assert suite.judged(case, answer).passed == passed, (low, provisional)


def test_a_sanitizer_must_have_run_to_call_something_clean() -> None:
    def tools(errors: int, ran: bool = True) -> str:
        names = ("memcheck", "racecheck", "initcheck", "synccheck")
        made = [{"name": name, "ran": ran, "errors": 0, "detail": ""} for name in names]
        made[1]["errors"] = errors
        return json.dumps({"sanitizer": {"tools": made}})

    def passed(expected: str, code: int, out: str) -> bool:
        case = suite.Case("sanitizer/x", "sanitizer", Path("p"), Path("c"), expected)
        return suite.sanitized(case, code, out, "", 1.0).passed

    assert passed("clean", 0, tools(0)) and passed("racecheck", 11, tools(2))
    assert not passed("clean", 11, tools(2)) and not passed("clean", 0, tools(0, ran=False))
    assert not passed("memcheck", 11, tools(2)) and not passed("racecheck", 0, tools(2))
    assert not passed("clean", 0, "")


def test_without_a_gpu_everything_is_skipped() -> None:
    if suite.has_gpu():
        return
    done = subprocess.run([sys.executable, suite.__file__], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    count = len(suite.plan(suite.ROOT, "auto"))
    assert done.stdout.splitlines()[-1] == f"0 passed, 0 failed, {count} skipped"


def test_variants_differ_in_the_kernels_source_only() -> None:
    for file, mark in (("nvidia_cuda.py", "// variant 3"), ("nvidia_triton.py", "    # variant 3")):
        text = (bench.GEMM / file).read_text(encoding="utf-8")
        changed = bench.variant(text, 3)
        compile(changed, file, "exec")
        assert mark in changed
        assert [line for line in changed.splitlines() if "variant 3 of" not in line] == text.splitlines()


def test_tables_say_what_the_suite_wrote() -> None:
    rows_of_calls = "6 calls in a row: 72.7 us each from outside, the baseline 80.1 us; the clock resolves 3.1 us"
    answer = {
        "baseline": {"name": "eager"},
        "baselines": [{"name": "eager", "median_us": 97.8}, {"name": "compile", "median_us": None}],
        "candidate": {"median_us": 74.1},
        "checks": [{"name": "calls in a row", "detail": rows_of_calls}],
        "provisional": True,
        "provisional_reason": "too short",
    }
    made = {"passed": True, "state": "correct", "kind": "", "speedup": 1.3, "low": 1.25, "high": 1.35, "answer": answer}
    example = {**made, "name": "examples/softmax/nvidia_cuda"}
    refused = {**made, "name": "cheats-unguarded/liar", "state": "mismatch", "kind": "numeric", "passed": False}
    rows = [example, refused]
    assert "| cheats, with the source rules switched off | 1 | 0 |" in tables.parts(rows)
    assert tables.endings([refused]).splitlines()[-1] == "| `mismatch/numeric` | 1 |"
    line = "| softmax | CUDA | 1.30 (1.25 to 1.35), provisional | eager | 74.1 |  | 97.8 | 72.7 | 3.1 |"
    assert tables.examples(rows).splitlines()[2:] == [line]
    assert tables.resolution(rows).startswith("in rows the clock resolves 3.1 us at the median of 2")
    assert tables.provisional(rows).splitlines()[2:] == ["| examples/softmax/nvidia_cuda | too short |"]
