"""Judges all GPU examples, failing states, cheats and honest kernels on this machine's GPU: python scripts/gpu_suite.py [--only REGEX].

Prints a markdown table and, last, `N passed, N failed`. Without a GPU nothing is run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
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
PROFILED, WITHOUT_COUNTERS = "profiled", "profiled without counters"
FEWEST_METRICS = 20  # of the 24: a chip may lack some
GIB = 1 << 30
MIB = 1 << 20
# As large as most of KernelBench's first level, or what smaller cards bear: a set of inputs with its truth, slots for two
# cells, and what the float64 reference needs meanwhile are some thirteen times as much.
LARGE_SHARE, LARGEST = 14, 6 * GIB
WAITED_FOR_ROOM = "waiting for room"  # what kforge says then
WAITED_FOR_S = 15  # longer than a call that does not wait takes
STRANGER = """
import signal, sys, time
signal.alarm(60)  # whatever happens to those who started it
import torch
room = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
factor = torch.rand(256, 256, device="cuda")
torch.cuda.synchronize()
signal.alarm(int(sys.argv[1]))
print("ready", flush=True)
while True:
    torch.mm(factor, factor)
    torch.cuda.synchronize()
    time.sleep(0.01)
"""


@dataclass(frozen=True)
class Case:
    name: str
    kind: str  # eval, profile, sanitizer, stranger or crowded
    problem: Path
    candidate: Path
    expected: str
    target: str = "nvidia/cuda"
    flags: tuple[str, ...] = ()
    is_cheat: bool = False
    alone: bool = False  # after all others, with nobody beside it
    beside: Case | None = None  # judged by another kforge at the same time


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
    cases.append(Case("sanitizer/softmax", "sanitizer", softmax / "problem.py", sound, "clean", flags=("--sanitize",)))
    gemm = examples / "gemm_groupnorm_swish"
    for file in ("nvidia_cuda.py", "nvidia_triton.py"):
        name, target = f"profile/{gemm.name}/{Path(file).stem}", CANDIDATE_FILES[file]
        cases.append(Case(name, "profile", gemm / "problem.py", gemm / file, PROFILED, target))
    name = "profile/softmax/with_a_profiler_that_fails"
    cases.append(Case(name, "profile", softmax / "problem.py", sound, WITHOUT_COUNTERS))
    # The device must serve the next candidate after the watchdog has ended a kernel: both in one call.
    loop, flags = examples / "failing/infinite_loop.py", (*QUICK, "--timeout", "10")
    for candidate, expected in ((loop, "runtime_error/timeout"), (sound, "correct")):
        name = f"watchdog/{candidate.parent.name}/{candidate.stem}"
        cases.append(Case(name, "eval", softmax / "problem.py", candidate, expected, flags=flags))
    for name, more in (("named", ()), ("waited_for", ("--require-idle",))):
        flags, problem = (*QUICK, *more), softmax / "problem.py"
        cases.append(Case(f"stranger/{name}", "stranger", problem, sound, "correct", flags=flags, alone=True))
    return cases


def large_size(card_bytes: int) -> int:
    """As many bytes as this card bears, or as there is time for."""
    share = card_bytes // LARGE_SHARE
    return min(share - share % (GIB if share >= GIB else 64 * MIB), LARGEST)


def large_cases(corpus: Path, folder: Path, nbytes: int) -> list[Case]:
    """A problem of the corpus with inputs of that size, written into `folder`: alone, and beside a kernel that takes most of
    the device."""
    problem = corpus / "problems/scale_relu.py"
    rows = nbytes // (4 * 4096)
    text, changed = re.subn(r"(?m)^rows = \d+$", f"rows = {rows}", problem.read_text(encoding="utf-8"))
    assert changed == 1, f"{problem} has no line for its rows"
    made = folder / problem.name
    made.write_text(text, encoding="utf-8")
    size = f"{nbytes / GIB:g}_GiB"
    name, candidate = f"large/{size}_in_{size}_out", corpus / "honest/scale_relu_in_one_pass.py"
    large = Case(name, "eval", made, candidate, "correct", flags=QUICK, alone=True)
    other = replace(large, name="crowded/large_problem")
    greedy = corpus / "crowded/takes_most_of_the_device.py"
    name = f"crowded/{greedy.stem}"
    return [large, Case(name, "crowded", problem, greedy, "correct", flags=QUICK, alone=True, beside=other)]


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
        name = f"sanitizer/{candidate.stem}"
        yield Case(name, "sanitizer", problem, candidate, tool, target, ("--sanitize",))


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


def in_order(found: list[list[Case]], jobs: int, work: Callable[[list[Case]], list[Row]]) -> Iterator[list[Row]]:
    """Side by side what bears company, then one by one what does not."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(work, longest_first([group for group in found if not group[0].alone]))
    yield from map(work, [group for group in found if group[0].alone])


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
    first = cases[0]
    if first.kind == "eval":
        return run_eval(kforge, cases, timeout)
    if first.beside is not None:
        return run_crowded(kforge, [first, first.beside], timeout)
    return run_stranger(kforge, first, timeout) if first.kind == "stranger" else [run_profile(kforge, first, timeout)]


def run_crowded(kforge: str, cases: Sequence[Case], timeout: float) -> list[Row]:
    """All at the same time. One of them must have waited for the other, else they never met."""
    with ThreadPoolExecutor(len(cases)) as pool:
        said = list(pool.map(lambda case: run(eval_command(kforge, [case]), timeout), cases))
    rows = [row for case, one in zip(cases, said, strict=True) for row in rows_of([case], one, timeout)]
    if not any(WAITED_FOR_ROOM in errors for _, _, errors in said):
        for row in rows:
            row.passed, row.note = False, row.note or "nobody waited for room in the device's memory"
    return rows


def run_eval(kforge: str, cases: Sequence[Case], timeout: float) -> list[Row]:
    return rows_of(cases, run(eval_command(kforge, cases), timeout), timeout)


def eval_command(kforge: str, cases: Sequence[Case]) -> list[str]:
    first = cases[0]
    candidates = [str(case.candidate) for case in cases]
    return [kforge, "eval", str(first.problem), *candidates, "--json", "--target", first.target, *first.flags]


def rows_of(cases: Sequence[Case], said: tuple[int | None, str, str], timeout: float) -> list[Row]:
    code, out, errors = said
    rows = [judged(case, answer) for case, answer in zip(cases, answers(out))]
    why = f"no answer after {timeout:.0f} s" if code is None else f"exit {code}: {errors.strip()[-160:]}"
    return rows + [Row(case.name, case.expected, False, "no answer", note=why) for case in cases[len(rows) :]]


def run_profile(kforge: str, case: Case, timeout: float) -> Row:
    """With compute-sanitizer behind it where the flags say so."""
    began = time.monotonic()
    command = [kforge, "profile", "--json", "--target", case.target, str(case.problem), str(case.candidate)]
    with profiler_that_fails() if case.expected == WITHOUT_COUNTERS else nullcontext() as environment:
        code, out, errors = run([*command, *case.flags], timeout, environment)
    judge = sanitized if case.kind == "sanitizer" else profiled
    return judge(case, code, out, errors, time.monotonic() - began)


def run_stranger(kforge: str, case: Case, timeout: float) -> list[Row]:
    """No row where nobody could see the stranger."""
    demands_idle = "--require-idle" in case.flags
    with stranger(python_of(kforge) or sys.executable, WAITED_FOR_S if demands_idle else 60) as other:
        if other is None:
            return [Row(case.name, case.expected, False, "not run", note="the stranger did not come to work")]
        if str(other.pid) not in processes_on_the_gpu():
            print(f"The driver does not list other processes here: {case.name} is left out.\n")
            return []
        row = run_eval(kforge, [case], timeout)[0]
        has_left = other.poll() is not None
    fault = fault_after(row.answer, has_left) if demands_idle else fault_beside(row.answer, other.pid)
    if row.passed and fault:
        row.passed, row.note = False, fault
    return [row]


@contextmanager
def stranger(python: str, seconds: int) -> Iterator[subprocess.Popen[str] | None]:
    """Another process at work on the GPU, for so long at the most; none where it failed."""
    with subprocess.Popen([python, "-c", STRANGER, str(seconds)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process if process.stdout.readline().strip() == "ready" else None
        finally:
            process.kill()


def processes_on_the_gpu() -> list[str]:
    return run(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], 30)[1].split()


def strangers_in(answer: dict[str, Any]) -> str:
    """What a result says of processes beside it; nothing where it was alone."""
    told = (check["detail"] for check in answer.get("checks") or [] if check["name"] == "alone on the device")
    return next(told, "")


def fault_beside(answer: dict[str, Any], pid: int) -> str:
    """What is wrong with a result that was timed beside a stranger; nothing where it says so."""
    if not answer.get("provisional"):
        return "it is not provisional"
    told = strangers_in(answer)
    return "" if re.search(rf"\(pid {pid}\b", told) else f"process {pid} is not named: {told or 'nobody is'}"


def fault_after(answer: dict[str, Any], has_left: bool) -> str:
    """What is wrong with a result that should have waited until the stranger had left; nothing where it has."""
    return strangers_in(answer) if has_left else "it did not wait"


@contextmanager
def profiler_that_fails() -> Iterator[dict[str, str]]:
    """An environment with a Nsight Compute of no use. To hide the real one is not possible: kforge knows where it is installed."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(shutil.which("false") or "/bin/false", os.path.join(folder, "ncu"))
        yield {**os.environ, "PATH": os.pathsep.join((folder, os.environ.get("PATH", "")))}


def answers(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]


def profiled(case: Case, code: int | None, out: str, errors: str, seconds: float) -> Row:
    """A profile has what is expected of it, or its row says what is missing."""
    answer = next(iter(answers(out)), {})
    missing = lacks(answer, case)
    passed = code == 0 and not missing
    state = case.expected if passed else "incomplete" if answer else f"exit {code}"
    note = "" if passed else ("; ".join(missing) if answer else errors.strip())[-300:]
    return Row(case.name, case.expected, passed, state, note=note, seconds=seconds, answer=answer)


def lacks(profile: dict[str, Any], case: Case) -> list[str]:
    """What a profile should have and has not, in its own words where it has any."""
    sources = {source["name"]: source for source in profile.get("sources") or []}
    wanted = ["candidate", "machine code", "roofline"]
    wanted += ["compiler resources"] if case.target == "nvidia/cuda" else []
    # Where there are no counters the candidate's kernels are timed in another way.
    wanted += ["torch profiler, candidate"] if case.expected == WITHOUT_COUNTERS else []
    details = {name: sources.get(name, {}).get("detail", "not tried") for name in (*wanted, "Nsight Compute")}
    missing = [f"{name}: {details[name]}" for name in wanted if not sources.get(name, {}).get("had")]
    missing += [f"no {part}" for part in ("roofline", "findings") if not profile.get(part)]
    counters, counted = sources.get("Nsight Compute", {}), details["Nsight Compute"]
    metrics = re.search(r"(\d+) of the \d+ metrics", counted) if counters.get("had") else None
    if case.expected == PROFILED and (metrics is None or int(metrics[1]) < FEWEST_METRICS):
        missing.append(f"Nsight Compute: {counted}")
    if case.expected == WITHOUT_COUNTERS and (counters.get("had", True) or not counted):
        missing.append(f"no reason why there are no counters: {counted}")
    return missing


def sanitized(case: Case, code: int | None, out: str, errors: str, seconds: float) -> Row:
    """`clean` where all four tools came to their end and found nothing, else the names of those that found something."""
    answer = next(iter(answers(out)), {})
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


def card_bytes() -> int:
    """Memory of the first GPU; nothing where the driver does not say, as for chips that share the host's."""
    _code, out, _errors = run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], 30)
    return int(out.split()[0]) << 20 if out[:1].isdigit() else 0


def python_of(kforge: str) -> str | None:
    """The Python that kforge evaluates with."""
    code, out, _ = run([kforge, "python"], 120)
    return out.strip().splitlines()[-1] if code == 0 and out.strip() else None


def has_cute(kforge: str) -> bool:
    """Whether kforge's Python has CuTe DSL."""
    python = python_of(kforge)
    ask = "import importlib.util, sys; sys.exit(importlib.util.find_spec('cutlass') is None)"
    return python is not None and run([python, "-c", ask], 60)[0] == 0


def arguments() -> argparse.Namespace:
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
    parser.add_argument(
        "--large-gib",
        type=int,
        default=0,
        help="inputs of the cases `large` and `crowded`; without it a fourteenth of the card, or 6 where that is more",
    )
    parser.add_argument("--baselines", default="eager", help="baselines of the examples: auto, all, compile, eager")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    cases = plan(ROOT, args.baselines)
    with tempfile.TemporaryDirectory() as folder:
        if has_gpu():
            if memory := card_bytes():
                nbytes = args.large_gib * GIB or large_size(memory)
                cases += large_cases(ROOT / "corpus/gpu", Path(folder), nbytes)
            return judge_all([case for case in cases if re.search(args.only, case.name)], args)
    chosen = sum(1 for case in cases if re.search(args.only, case.name))
    print("There is no GPU here (nvidia-smi is missing or fails): nothing was run.")
    print(f"0 passed, 0 failed, {chosen} skipped")
    return 0


def judge_all(cases: list[Case], args: argparse.Namespace) -> int:
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
            both = [one for case in group for one in (case, case.beside) if one is not None]
            return [Row(case.name, case.expected, False, "not run", note=late) for case in both]
        print(f"{group[0].name} and {len(group) - 1} more, {left:.0f} s left", file=sys.stderr)
        return run_group(args.kforge, group, min(left, args.call_limit_s))

    rows: list[Row] = []
    for found in in_order(groups(cases), args.jobs, run_in_time):
        rows += found
        if args.json:  # after each group, so that nothing is lost when this is ended from outside
            Path(args.json).write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    order = {case.name: number for number, case in enumerate(cases)}
    rows.sort(key=lambda row: order.get(row.name, len(order)))
    print(table(rows))
    passed = sum(row.passed for row in rows)
    print(f"\n{passed} passed, {len(rows) - passed} failed")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
