"""Judges all GPU examples, failing states, cheats and honest kernels on this machine's GPU: python scripts/gpu_suite.py [--only REGEX].

Prints a markdown table and, last, `N passed, N failed`. Without a GPU nothing is run.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CANDIDATE_FILES = {
    "nvidia_cuda.py": "nvidia/cuda",
    "load_inline.py": "nvidia/cuda",
    "nvidia_triton.py": "nvidia/triton",
    "nvidia_cute.py": "nvidia/cute",
}
QUICK = ("--baselines", "eager", "--time-budget", "0.4")
# A cheat that ends `correct` must not be faster than this, by the lower end of its interval; a result that is called provisional
# may gain what the outside clock cannot resolve, and no more.
GAIN, PROVISIONAL_GAIN = 1.1, 1.3


@dataclass(frozen=True)
class Case:
    name: str
    kind: str  # eval, profile or sanitizer
    problem: Path
    candidate: Path
    expected: str
    target: str = "nvidia/cuda"
    flags: tuple[str, ...] = ()
    is_cheat: bool = False


@dataclass
class Row:
    name: str
    expected: str
    passed: bool
    state: str
    kind: str = ""
    note: str = ""
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    precision: str = ""
    seconds: float = 0.0
    answer: dict[str, Any] = field(default_factory=dict)


def header(text: str, key: str) -> str | None:
    """The value of a `key: value` line at a file's top."""
    for line in text[:4096].splitlines():
        if line.startswith(f"{key}:"):
            return line[len(key) + 1 :].strip()
    return None


def fits(expected: str, state: str, kind: str) -> bool:
    """`a/b|c`: a failing state alone stands for all of its kinds, `correct` only for itself."""
    got = f"{state}/{kind}" if kind else state
    alternatives = [one.strip() for one in expected.split("|")]
    return any(one == got or (one != "correct" and one == state) for one in alternatives)


def plan(root: Path, baselines: str) -> list[Case]:
    examples, corpus = root / "examples/gpu", root / "corpus/gpu"
    cases = []
    for problem in sorted(examples.glob("*/problem.py")):
        for file, target in CANDIDATE_FILES.items():
            if (candidate := problem.with_name(file)).exists():
                name = f"examples/{problem.parent.name}/{candidate.stem}"
                cases.append(Case(name, "eval", problem, candidate, "correct", target, ("--baselines", baselines)))
    for candidate in sorted((examples / "failing").glob("*.py")):
        cases += _from_header(candidate, lambda name: examples / name / "problem.py", "failing")
    for folder in ("cheats", "honest", "unsound"):
        for candidate in sorted((corpus / folder).glob("*.py")):
            cases += _from_header(candidate, lambda name: corpus / "problems" / f"{name}.py", folder)
    softmax = examples / "softmax"
    sound = softmax / "nvidia_cuda.py"
    cases.append(Case("sanitizer/softmax", "sanitizer", softmax / "problem.py", sound, "clean"))
    gemm = examples / "gemm_groupnorm_swish"
    for file in ("nvidia_cuda.py", "nvidia_triton.py"):
        name, target = f"profile/{gemm.name}/{Path(file).stem}", CANDIDATE_FILES[file]
        cases.append(Case(name, "profile", gemm / "problem.py", gemm / file, "profiled", target))
    # The device must serve the next candidate after the watchdog has ended a kernel: both in one call.
    loop, flags = examples / "failing/infinite_loop.py", (*QUICK, "--timeout", "10")
    for candidate, expected in ((loop, "runtime_error/timeout"), (softmax / "nvidia_cuda.py", "correct")):
        name = f"watchdog/{candidate.parent.name}/{candidate.stem}"
        cases.append(Case(name, "eval", softmax / "problem.py", candidate, expected, flags=flags))
    return cases


def _from_header(candidate: Path, problem_of: Any, group: str) -> Iterable[Case]:
    text = candidate.read_text(encoding="utf-8")
    expected, unguarded = header(text, "expect") or "", header(text, "expect-unguarded")
    problem, target = problem_of(header(text, "problem")), header(text, "target") or "nvidia/cuda"
    flags = (*QUICK, "--timeout", header(text, "timeout") or "60")
    is_cheat = group == "cheats"
    # What the rules do not touch runs the same with and without them; it is judged once, without.
    if not is_cheat or "guardrail" in expected:
        yield Case(f"{group}/{candidate.stem}", "eval", problem, candidate, expected, target, flags, is_cheat)
    if is_cheat:
        name, open_flags = f"{group}-unguarded/{candidate.stem}", (*flags, "--no-guard")
        yield Case(name, "eval", problem, candidate, unguarded or expected, target, open_flags, is_cheat)
    if tool := header(text, "sanitizer"):
        yield Case(f"sanitizer/{candidate.stem}", "sanitizer", problem, candidate, tool, target)


def groups(cases: Sequence[Case]) -> list[list[Case]]:
    """Candidates that can share one call, and so one warm worker; in the order of their first case."""
    found: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        key: tuple[Any, ...] = (case.kind, case.problem, case.target, case.flags, case.name.split("/")[0])
        found.setdefault(key if case.kind == "eval" else (case.name,), []).append(case)
    return list(found.values())


def longest_first(found: list[list[Case]]) -> list[list[Case]]:
    """A build of a minute must not be what the others wait for in the end."""
    return sorted(found, key=lambda group: not any(case.candidate.name == "load_inline.py" for case in group))


def judged(case: Case, answer: dict[str, Any]) -> Row:
    state, kind = str(answer.get("state")), answer.get("kind") or ""
    interval = answer.get("speedup_ci") or {}
    low = interval.get("low")
    row = Row(case.name, case.expected, fits(case.expected, state, kind), state, kind, speedup=answer.get("speedup"))
    row.low, row.high, row.precision = low, interval.get("high"), str(answer.get("precision") or "")
    row.seconds = sum(v for v in (answer.get("stages_s") or {}).values() if isinstance(v, (int, float)))
    row.note = "" if row.passed else " ".join(str(answer.get("reason") or "").split())[:160]
    row.answer = answer
    allowed = PROVISIONAL_GAIN if answer.get("provisional") else GAIN
    if case.is_cheat and state == "correct" and low is not None and low > allowed:
        row.passed, row.note = False, f"a cheat gained {low:.2f}x at the least"
    return row


def run(command: Sequence[str], timeout: float, env: dict[str, str] | None = None) -> tuple[int | None, str, str]:
    """Exit code (none after a time-out), stdout, stderr."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout, env=env, check=False
        )
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        texts = [t.decode(errors="replace") if isinstance(t, bytes) else t or "" for t in (late.stdout, late.stderr)]
        return None, texts[0], texts[1]


def run_group(kforge: str, cases: Sequence[Case], timeout: float) -> list[Row]:
    began = time.monotonic()
    first = cases[0]
    if first.kind != "eval":
        command = [kforge, "profile", "--json", "--target", first.target, str(first.problem), str(first.candidate)]
        sanitize = first.kind == "sanitizer"
        code, out, errors = run([*command, "--sanitize"] if sanitize else command, timeout)
        if sanitize:
            return [sanitized(first, code, out, errors, time.monotonic() - began)]
        state, note = ("profiled", "") if code == 0 else (f"exit {code}", errors.strip()[-160:])
        return [Row(first.name, "profiled", code == 0, state, note=note, seconds=time.monotonic() - began)]
    candidates = [str(case.candidate) for case in cases]
    command = [kforge, "eval", str(first.problem), *candidates, "--json", "--target", first.target, *first.flags]
    code, out, errors = run(command, timeout)
    answers = [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    rows = [judged(case, answer) for case, answer in zip(cases, answers)]
    why = f"no answer after {timeout:.0f} s" if code is None else f"exit {code}: {errors.strip()[-160:]}"
    return rows + [Row(case.name, case.expected, False, "no answer", note=why) for case in cases[len(rows) :]]


def sanitized(case: Case, code: int | None, out: str, errors: str, seconds: float) -> Row:
    """`clean` where all four tools came to their end and found nothing, else the names of those that found something."""
    answer = next((json.loads(line) for line in out.splitlines() if line.startswith("{")), {})
    tools = (answer.get("sanitizer") or {}).get("tools") or []
    found = [tool["name"] for tool in tools if tool["errors"]]
    clean = len(tools) == 4 and all(tool["ran"] for tool in tools) and code == 0
    state = ", ".join(found) if found else "clean" if clean else f"exit {code}"
    passed = state == "clean" if case.expected == "clean" else case.expected in found and code == 11
    told = "; ".join(f"{tool['name']}: {tool['detail']}" for tool in tools)
    note = "" if passed else (told or errors.strip())[-300:]
    return Row(case.name, case.expected, passed, state, note=note, seconds=seconds, answer=answer)


def table(rows: Sequence[Row]) -> str:
    lines = ["| name | expected | got | kind | speedup | precision | seconds | |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        speedup = "" if row.speedup is None else f"{row.speedup:.2f}"
        if row.low is not None and row.high is not None:
            speedup += f" ({row.low:.2f} to {row.high:.2f})"
        cells = [row.name, row.expected.replace("|", ", "), row.state, row.kind, speedup, row.precision]
        end = "" if row.passed else f"**failed** {row.note}".replace("|", "/").replace("\n", " ")
        lines.append("| " + " | ".join([*cells, f"{row.seconds:.1f}", end]) + " |")
    return "\n".join(lines)


def has_gpu() -> bool:
    if shutil.which("nvidia-smi") is None:
        return False
    code, out, _ = run(["nvidia-smi", "-L"], 30)
    return code == 0 and "GPU" in out


def has_cute(kforge: str) -> bool:
    """Whether the Python that kforge evaluates with has CuTe DSL."""
    code, out, _ = run([kforge, "python"], 120)
    if code != 0 or not out.strip():
        return False
    ask = "import importlib.util, sys; sys.exit(importlib.util.find_spec('cutlass') is None)"
    return run([out.strip().splitlines()[-1], "-c", ask], 60)[0] == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kforge", default=str(ROOT / "target/release/kforge"))
    parser.add_argument("--only", default="", metavar="REGEX", help="run the cases whose names match")
    parser.add_argument("--json", metavar="FILE", help="write all answers there")
    parser.add_argument(
        "--limit-s", type=float, default=480, help="seconds for everything; what does not fit has failed"
    )
    parser.add_argument("--call-limit-s", type=float, default=240, help="seconds for one call of kforge")
    parser.add_argument(
        "--jobs",
        type=int,
        default=3,
        help="calls of kforge side by side: they build together, and take turns at timing",
    )
    parser.add_argument("--baselines", default="eager", help="baselines of the examples: auto, all, compile, eager")
    args = parser.parse_args()
    cases = [case for case in plan(ROOT, args.baselines) if re.search(args.only, case.name)]
    if not has_gpu():
        print("There is no GPU here (nvidia-smi is missing or fails): nothing was run.")
        print(f"0 passed, 0 failed, {len(cases)} skipped")
        return 0
    if not has_cute(args.kforge):
        without = [case for case in cases if case.target != "nvidia/cute"]
        if len(without) < len(cases):
            print(f"CuTe DSL is not installed here: {len(cases) - len(without)} cases are left out.\n")
        cases = without
    end = time.monotonic() + args.limit_s

    def run_in_time(group: list[Case]) -> list[Row]:
        left = end - time.monotonic()
        if left < 5:
            late = f"not run: the {args.limit_s:.0f} s were over"
            return [Row(case.name, case.expected, False, "not run", note=late) for case in group]
        print(f"{group[0].name} and {len(group) - 1} more, {left:.0f} s left", file=sys.stderr)
        return run_group(args.kforge, group, min(left, args.call_limit_s))

    rows: list[Row] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for found in pool.map(run_in_time, longest_first(groups(cases))):
            rows += found
            if args.json:  # after each group, so that nothing is lost when this is ended from outside
                Path(args.json).write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    order = {case.name: number for number, case in enumerate(cases)}
    rows.sort(key=lambda row: order[row.name])
    print(table(rows))
    passed = sum(row.passed for row in rows)
    print(f"\n{passed} passed, {len(rows) - passed} failed")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
