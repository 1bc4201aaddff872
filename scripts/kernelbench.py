"""Judges what KernelBench holds: python scripts/kernelbench.py CHECKOUT [--published CHECKOUT...] [--only REGEX].

Every problem of the chosen levels is judged with its own reference as the candidate: it must be opened, fit the device, and
end `correct`. The kernels that KernelBench and others publish as examples are judged as they are, and so are the cheats
that KernelBench tests itself with, none of which may end `correct`. All of it goes through one exchange folder.

Prints a markdown table of what was published and of whatever did not end as expected, and, last, `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gpu_suite

PROMPTS = Path("src/kernelbench/prompts")
CHEATS = Path("src/kernelbench/unit_tests/test_kernels")
CHEATED = Path("KernelBench/level1/1_Square_matrix_multiplication_.py")
# What a problem's reference is called in a candidate.
CLASS = re.compile(r"\bModel\b")
# KernelBench's templates with holes, and languages that kforge has no target for here.
LEFT_OUT = re.compile(r"<custom_kernel|import tilelang|thunderkittens|__HIP|\bhip", re.IGNORECASE)


@dataclass(frozen=True)
class Case:
    name: str
    problem: Path
    candidate: Path
    target: str
    expected: str  # `correct`, or anything else
    published: bool


@dataclass
class Row:
    name: str
    passed: bool
    got: str
    seconds: float
    published: bool
    answer: dict[str, Any]


def references(checkout: Path, levels: str, target: str, scratch: Path) -> Iterator[Case]:
    for level in levels:
        for problem in sorted(
            (checkout / f"KernelBench/level{level}").glob("*.py"), key=lambda path: number(path.name)
        ):
            candidate = scratch / f"level{level}_{problem.name}"
            candidate.write_text(CLASS.sub("ModelNew", problem.read_text()))
            yield Case(f"level{level}/{problem.stem}", problem, candidate, target, "correct", False)


def number(name: str) -> int:
    found = re.match(r"\d+", name)
    return int(found.group()) if found else 0


def published(checkout: Path) -> Iterator[Case]:
    """Pairs `model_ex_NAME.py` and `model_new_ex_NAME*.py`, `ref_N.py` and `test_kernel_N.py`."""
    seen = set()
    for folder in (checkout / PROMPTS, checkout / PROMPTS / "few_shot", checkout / "prompts/few_shot", checkout):
        for candidate in sorted([*folder.glob("model_new_ex_*.py"), *folder.glob("test_kernel_*.py")]):
            words = candidate.stem.replace("model_new_ex", "model_ex").replace("test_kernel", "ref")
            problem = next(
                (p for p in (folder / f"{words}.py", folder / f"{words.rpartition('_')[0]}.py") if p.exists()), None
            )
            text = candidate.read_text()
            target = gpu_target(text)
            if problem is None or target is None or LEFT_OUT.search(text) or text in seen:
                continue
            seen.add(text)
            yield Case(str(candidate.relative_to(checkout.parent)), problem, candidate, target, "correct", True)
    for candidate in sorted((checkout / CHEATS).glob("*.py")):
        yield Case(
            str(candidate.relative_to(checkout.parent)),
            checkout / CHEATED,
            candidate,
            "nvidia/cuda",
            "no success",
            True,
        )


def gpu_target(text: str) -> str | None:
    for mark, target in (
        ("import cutlass", "nvidia/cute"),
        ("import triton", "nvidia/triton"),
        ("load_inline", "nvidia/cuda"),
    ):
        if mark in text:
            return target
    return None


def submit(kforge: str, cases: list[Case], exchange: Path, flags: list[str]) -> tuple[dict[str, Case], list[Row]]:
    """Cases by the names of their jobs, and those that need no worker: a rule on the source has refused them."""
    jobs: dict[str, Case] = {}
    refused = []
    for case in cases:
        command = [kforge, "eval", str(case.problem), str(case.candidate), "--target", case.target, "--json", *flags]
        code, out, errors = gpu_suite.run([*command, "--executor", f"exchange:{exchange}", "--submit"], 60)
        if code != 0:
            refused.append(Row(case.name, False, f"not submitted: {errors.strip()[-300:]}", 0.0, case.published, {}))
        elif (job := json.loads(out)["job"]) is None:
            refused.append(Row(case.name, case.expected != "correct", "refused by a rule", 0.0, case.published, {}))
        else:
            assert job not in jobs, f"{case.name} and {jobs[job].name} are the same"
            jobs[job] = case
    return jobs, refused


def drain(kforge: str, exchange: Path, jobs: dict[str, Case], at_once: int, limit_s: float) -> Iterator[Row]:
    """As they are answered: what was judged is not lost when the rest is cut off."""
    command = [kforge, "worker", "drain", str(exchange), "--json", "--jobs", str(at_once), "--limit", str(int(limit_s))]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child,
    ):
        assert child.stdout is not None
        for line in child.stdout:
            told = json.loads(line)
            if told.get("job") in jobs:
                yield answered(jobs[told["job"]], told, exchange / "done" / told["job"] / "out/result.json")
        if child.wait() != 0:
            errors.seek(0)
            print(f"the worker ended with {child.returncode}: {errors.read()[-2000:]}", file=sys.stderr)


def answered(case: Case, told: dict[str, Any], result: Path) -> Row:
    answer = json.loads(result.read_text())["outcome"].get("result", {}) if result.exists() else {}
    state = answer.get("state")
    passed = state is not None and (state == "correct") == (case.expected == "correct")
    return Row(case.name, passed, told["summary"], told["seconds"], case.published, answer)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of KernelBench")
    parser.add_argument(
        "--published",
        type=Path,
        action="append",
        default=[],
        help="another checkout with kernels like KernelBench's examples",
    )
    parser.add_argument("--kforge", default=str(gpu_suite.ROOT / "target/release/kforge"))
    parser.add_argument("--levels", default="123")
    parser.add_argument("--target", default="nvidia/cuda", help="for the references")
    parser.add_argument("--only", default="", help="cases whose names this regular expression is found in")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--limit-s", type=float, default=3600, help="begin nothing after so many seconds")
    parser.add_argument("--json", type=Path, help="write all answers there")
    args = parser.parse_args()
    if args.target.startswith("nvidia/") and not gpu_suite.has_gpu():
        print("There is no GPU here (nvidia-smi is missing or fails): nothing was run. --target cpu/cpp takes the CPU.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        scratch, exchange = Path(folder, "candidates"), Path(folder, "exchange")
        scratch.mkdir()
        cases = list(references(args.checkout, args.levels, args.target, scratch))
        if gpu_suite.has_gpu():
            cases = [case for root in (args.checkout, *args.published) for case in published(root)] + cases
        if not gpu_suite.has_cute(args.kforge):
            cases = [case for case in cases if case.target != "nvidia/cute"]
        cases = [case for case in cases if re.search(args.only, case.name)]
        jobs, refused = submit(args.kforge, cases, exchange, ["--baselines", "eager", "--time-budget", "0.4"])
        began, rows = time.monotonic(), []
        print("| name | ended | seconds | |\n|---|---|---|---|")
        for row in itertools.chain(refused, drain(args.kforge, exchange, jobs, args.jobs, args.limit_s)):
            rows.append(row)
            print(f"{len(rows)} of {len(cases)}, {time.monotonic() - began:.0f} s", file=sys.stderr)
            if row.published or not row.passed:
                reason = str(row.answer.get("reason", "")).replace("|", "/").replace("\n", " ")[:200]
                word = "" if row.passed else "**not as expected** "
                print(f"| {row.name} | {row.got} | {row.seconds:.1f} | {word}{reason} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows]))
    passed = sum(row.passed for row in rows)
    print(
        f"\n{time.monotonic() - began:.0f} s; {len(cases) - len(rows)} not judged\n{passed} passed, {len(rows) - passed} failed"
    )
    return int(passed != len(cases))


if __name__ == "__main__":
    sys.exit(main())
