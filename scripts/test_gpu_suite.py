"""The parts of gpu_suite.py that need no GPU: python -m pytest scripts/test_gpu_suite.py."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

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


def test_each_of_the_sanitizers_tools_has_something_to_find() -> None:
    cases = [case for case in suite.plan(suite.ROOT, "auto") if case.kind == "sanitizer"]
    assert {case.expected for case in cases} == {"clean", "memcheck", "racecheck", "initcheck", "synccheck"}
    assert all("--sanitize" in case.flags for case in cases)


def a_profile(**counters: Any) -> dict[str, Any]:
    names = ("candidate", "compiler resources", "machine code", "torch profiler, candidate", "roofline")
    sources = [{"name": name, "had": True, "detail": "x", "seconds": 0.1} for name in names]
    told = "Nsight Compute 2025.3.1.0, cold caches; 22 of the 24 metrics; this chip does not have: a, b"
    ncu = {"name": "Nsight Compute", "had": True, "detail": told, "seconds": 4.3, **counters}
    return {"sources": [*sources, ncu], "findings": [{"text": "y"}], "roofline": {"class": "memory"}}


def profile_row(profile: dict[str, Any], expected: str = suite.PROFILED, target: str = "nvidia/cuda") -> suite.Row:
    case = suite.Case("profile/x", "profile", Path("p"), Path("c"), expected, target)
    return suite.profiled(case, 0, f"{json.dumps(profile)}\n", "", 1.0)


def test_a_profile_needs_its_counters_and_all_that_lies_below_them() -> None:
    assert profile_row(a_profile()).passed
    for detail in ("19 of the 24 metrics", "Nsight Compute 2025.3"):
        row = profile_row(a_profile(detail=detail))
        assert not row.passed and detail in row.note
    assert not profile_row(a_profile(had=False)).passed
    for part in ("findings", "roofline"):
        assert profile_row(a_profile() | {part: None}).note == f"no {part}"
    for name, needed in (("machine code", True), ("roofline", True), ("torch profiler, candidate", False)):
        profile = a_profile()
        profile["sources"] = [source for source in profile["sources"] if source["name"] != name]
        assert profile_row(profile).note == (f"{name}: not tried" if needed else "")
    # A Triton kernel may be known by its cubin alone.
    without = a_profile()
    without["sources"][1] |= {"had": False, "detail": "no report"}
    assert profile_row(without).note == "compiler resources: no report"
    assert profile_row(without, target="nvidia/triton").passed
    failed = suite.Case("profile/x", "profile", Path("p"), Path("c"), suite.PROFILED)
    assert suite.profiled(failed, 11, "", "no such file", 1.0).note == "no such file"
    assert not suite.profiled(failed, 11, json.dumps(a_profile()), "", 1.0).passed


def test_without_counters_there_is_a_reason_and_the_rest() -> None:
    expected = suite.WITHOUT_COUNTERS
    reason = "Nsight Compute never reached the process that it started"
    assert profile_row(a_profile(had=False, detail=reason), expected).passed
    assert not profile_row(a_profile(), expected).passed
    assert not profile_row(a_profile(had=False, detail=""), expected).passed
    never_tried = a_profile()
    never_tried["sources"].pop()
    assert not profile_row(never_tried, expected).passed
    untimed = a_profile(had=False, detail=reason)
    untimed["sources"][3] |= {"had": False, "detail": "no CUPTI"}
    assert profile_row(untimed, expected).note == "torch profiler, candidate: no CUPTI"


def test_the_profiler_that_fails_is_found_first_and_nothing_else_is_hidden() -> None:
    with suite.profiler_that_fails() as environment:
        found = shutil.which("ncu", path=environment["PATH"])
        assert found is not None and subprocess.run([found, "--version"], check=False).returncode != 0
        assert shutil.which("sh", path=environment["PATH"]) == shutil.which("sh")
    assert not Path(found).exists()


def test_what_must_be_alone_comes_last_and_one_by_one() -> None:
    names = ["stranger/a", "eval/a", "large/a", "eval/b", "eval/c"]
    found = [[suite.Case(name, "eval", Path("p"), Path("c"), "correct", alone="eval" not in name)] for name in names]
    at_work: set[str] = set()
    beside: dict[str, set[str]] = {}

    def work(group: list[suite.Case]) -> list[suite.Row]:
        name = group[0].name
        at_work.add(name)
        time.sleep(0.05)
        beside[name] = at_work - {name}
        at_work.remove(name)
        return [suite.Row(name, "correct", True, "correct")]

    rows = [row.name for rows in suite.in_order(found, 3, work) for row in rows]
    assert sorted(rows[:3]) == ["eval/a", "eval/b", "eval/c"] and rows[3:] == ["stranger/a", "large/a"]
    assert not beside["stranger/a"] and not beside["large/a"] and any(beside.values())
    alone = {case.name for case in suite.plan(suite.ROOT, "auto") if case.alone}
    assert alone == {"stranger/named", "stranger/waited_for"}


def test_a_stranger_is_named_or_waited_for() -> None:
    told = "python3 (pid 4711, 1540 MiB): times may be longer than they are alone"
    check = {"name": "alone on the device", "passed": False, "detail": told}
    answer = {"provisional": True, "checks": [{"name": "clocks", "passed": True, "detail": "x"}, check]}
    assert suite.fault_beside(answer, 4711) == ""
    assert suite.fault_beside(answer, 471) and suite.fault_beside(answer | {"checks": []}, 4711)
    assert suite.fault_beside(answer | {"provisional": False}, 4711)
    assert suite.fault_after({"checks": []}, True) == ""
    assert suite.fault_after({"checks": []}, False) and suite.fault_after(answer, True)


def test_a_stranger_that_does_not_come_to_work_is_none(tmp_path: Path) -> None:
    python = tmp_path / "python"
    for said, comes in (("ready", True), ("no torch", False)):
        python.write_text(f"#!/bin/sh\necho {said}\nexec sleep 60\n")
        python.chmod(0o755)
        began = time.monotonic()
        with suite.stranger(str(python), 1) as process:
            assert (process is not None) == comes
            assert process is None or process.poll() is None
        assert process is None or process.returncode == -9
        assert time.monotonic() - began < 30
    compile(suite.STRANGER, "stranger", "exec")


def test_a_large_problem_is_as_large_as_the_card_bears(tmp_path: Path) -> None:
    corpus = suite.ROOT / "corpus/gpu"
    for card_mib, name in (
        (143771, "6_GiB"),
        (81559, "5_GiB"),
        (24576, "1_GiB"),
        (8192, "0.5625_GiB"),
        (1 << 20, "6_GiB"),
    ):
        case, crowded = suite.large_cases(corpus, tmp_path, suite.large_size(card_mib << 20))
        assert crowded.alone and crowded.beside is not None and crowded.beside.problem == case.problem
        assert case.name == f"large/{name}_in_{name}_out" and case.alone
        text = case.problem.read_text(encoding="utf-8")
        rows, cols = (int(re.findall(rf"(?m)^{size} = (\d+)$", text)[0]) for size in ("rows", "cols"))
        assert rows * cols * 4 == float(name.removesuffix("_GiB")) * suite.GIB
        assert suite.header(case.candidate.read_text(encoding="utf-8"), "problem") == case.problem.stem


def test_two_that_never_met_have_not_been_crowded(tmp_path: Path) -> None:
    kforge = tmp_path / "kforge"
    case = suite.Case("crowded/a", "crowded", tmp_path / "p.py", tmp_path / "a.py", "correct")
    beside = replace(case, name="crowded/b", candidate=tmp_path / "b.py")
    for says, passed in (("kforge: timing", False), ("kforge: waiting for room in the device's memory", True)):
        kforge.write_text(
            f"""#!/bin/sh\ncase "$3" in *b.py) echo "{says}" >&2;; esac\necho '{{"state": "correct"}}'\n"""
        )
        kforge.chmod(0o755)
        rows = suite.run_group(str(kforge), [replace(case, beside=beside)], 20)
        assert [(row.name, row.passed) for row in rows] == [("crowded/a", passed), ("crowded/b", passed)]


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
    answer = {
        "baseline": {"name": "eager", "median_us": 80.1},
        "baselines": [{"name": "eager", "median_us": 97.8}, {"name": "compile", "median_us": None}],
        "candidate": {"median_us": 74.1, "inside_median_us": 72.7, "resolution_us": 3.1, "row_calls": 6},
        "provisional": True,
        "provisional_reason": "too short",
    }
    made = {"passed": True, "state": "correct", "kind": "", "speedup": 1.3, "low": 1.25, "high": 1.35, "answer": answer}
    example = {**made, "name": "examples/softmax/nvidia_cuda"}
    refused = {**made, "name": "cheats-unguarded/liar", "state": "mismatch", "kind": "numeric", "passed": False}
    rows = [example, refused]
    assert "| cheats, with the source rules switched off | 1 | 0 |" in tables.parts(rows)
    judged, ruled = {**refused, "name": "cheats/liar", "passed": True}, {**made, "name": "cheats/thief"}
    ruled |= {"state": "generation_failure", "kind": "guardrail"}
    failed, in_vain = {**ruled, "passed": False}, {**made, "name": "cheats/loser"}
    line = "| cheats, with the source rules on: 2 refused by a rule, 1 by the judge | 4 | 3 |"
    assert line in tables.parts([ruled, ruled, judged, failed])
    assert "1 by the judge, 1 in vain | 3 | 3 |" in tables.parts([ruled, judged, in_vain])
    assert set(tables.PARTS) >= {case.name.split("/")[0] for case in suite.plan(suite.ROOT, "auto")} | {
        "large",
        "crowded",
    }
    assert tables.endings([refused]).splitlines()[-1] == "| `mismatch/numeric` | 1 |"
    line = "| softmax | CUDA | 1.30 (1.25 to 1.35), provisional | eager | 74.1 |  | 97.8 | 72.7 | 3.1 |"
    assert tables.examples(rows).splitlines()[2:] == [line]
    assert tables.resolution(rows).startswith("in rows the clock resolves 3.1 us at the median of 2")
    assert tables.provisional(rows).splitlines()[2:] == ["| examples/softmax/nvidia_cuda | too short |"]
