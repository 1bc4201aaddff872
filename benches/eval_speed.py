"""How long it takes from a candidate's text to a verdict, by `kforge eval` and the usual way, side by side.

Both judge the same kernel: softmax with a temperature, of `examples/softmax`. In every round

* `kforge eval` starts with an empty cache folder and judges copies of the kernel that differ in a comment, so that each
  is compiled. The first verdict is the cold start; the others are warm: the second and later candidates of a problem.
* the usual way is a fresh Python process that imports torch, builds the kernel with `load_inline` in an empty folder,
  compares 5 random inputs with `torch.allclose`, and times 100 calls of the candidate and 100 of the reference.

A last run of `kforge eval` is sampled for memory and not timed. Times are medians; smaller is better.
The kernel is right, so any verdict but `correct` is an error of kforge: it is reported and its time left out.
The Python with torch is KFORGE_PYTHON, or else the one that runs this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "softmax"
COPIES = 4
SAMPLE_S = 0.02
MARK = "#include <cmath>"

USUAL = r"""
import time
begun = time.perf_counter()
import importlib.util, json, sys
import torch
stages = {"import torch": time.perf_counter() - begun}

def stage(name):
    global begun
    now = time.perf_counter()
    stages[name] = now - begun
    begun = now

def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

def median_us(model, inputs, runs=100):
    for _ in range(3):
        model(*inputs)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        model(*inputs)
        times.append(time.perf_counter() - start)
    return sorted(times)[runs // 2] * 1e6

begun = time.perf_counter()
with torch.no_grad():
    problem = load("problem", sys.argv[1])
    candidate = load("candidate", sys.argv[2])
    reference = problem.Model(*problem.get_init_inputs())
    model = candidate.ModelNew(*problem.get_init_inputs())
    stage("build")
    right = True
    for seed in range(5):
        torch.manual_seed(seed)
        inputs = problem.get_inputs()
        right = right and torch.allclose(model(*inputs), reference(*inputs), rtol=1e-4, atol=1e-5)
    stage("verify")
    mine = median_us(model, inputs)
    stage("time")
    theirs = median_us(reference, inputs)
    stage("time the reference")
print(json.dumps({"right": right, "speedup": theirs / mine, "stages_s": stages}), flush=True)
"""

FACTS = r"""
import importlib.util, json, platform, sys
import torch
spec = importlib.util.spec_from_file_location("problem", sys.argv[1])
problem = importlib.util.module_from_spec(spec)
spec.loader.exec_module(problem)
inputs = problem.get_inputs()
output = problem.Model(*problem.get_init_inputs())(*inputs)
size = sum(t.numel() * t.element_size() for t in [*inputs, output])
print(json.dumps({"python": platform.python_version(), "torch": torch.__version__, "set_bytes": size,
                  "threads": torch.get_num_threads()}))
"""


class BenchError(Exception):
    """Something did not run, so that there is nothing to measure."""


@dataclass
class Verdict:
    """One verdict of `kforge eval`: when it came, counted from the one before or from the start of the process."""

    wall_s: float
    stages: dict[str, float]
    state: str
    reason: str

    @property
    def sum_s(self) -> float:
        return sum(self.stages.values())


@dataclass
class Usual:
    wall_s: float
    stages: dict[str, float]


@dataclass
class Memory:
    """Peak proportional set sizes in bytes; a role's peak is of the sum over its processes at one moment."""

    peaks: dict[str, int] = field(default_factory=dict)
    processes: int = 0
    unreadable: int = 0
    samples: int = 0


def python_with_torch() -> str:
    return os.environ.get("KFORGE_PYTHON") or sys.executable


def marked_copy(source: Path, target: Path) -> Path:
    """A copy that no cache has seen: one comment inside the C++ source differs."""
    text = source.read_text(encoding="utf-8")
    if MARK not in text:
        raise BenchError(f"{source} has no line {MARK!r} to put a comment before")
    target.write_text(text.replace(MARK, f"// copy {uuid.uuid4().hex}\n{MARK}", 1), encoding="utf-8")
    return target


def environment(cache: Path) -> dict[str, str]:
    """Tools of the Python's own environment, ninja above all, come first in PATH."""
    python = python_with_torch()
    path = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "KFORGE_PYTHON": python, "KFORGE_CACHE_DIR": str(cache)}


def tail(path: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])


def eval_command(kforge: Path, candidates: list[Path]) -> list[str]:
    options = ["--json", "--baselines", "eager"]
    return [str(kforge), "eval", *options, str(EXAMPLE / "problem.py"), *map(str, candidates)]


def run_kforge(kforge: Path, copies: int, folder: Path, memory: Memory | None = None) -> list[Verdict]:
    """One `kforge eval` with an empty cache folder; a verdict per copy, in order."""
    candidates = [marked_copy(EXAMPLE / "cpu_cpp.py", folder / f"candidate{i}.py") for i in range(copies)]
    errors = folder / "stderr.txt"
    verdicts: list[Verdict] = []
    with errors.open("wb") as stderr:
        last = time.perf_counter()
        process = subprocess.Popen(
            eval_command(kforge, candidates),
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(folder / "cache"),
            text=True,
        )
        sampler = None
        if memory is not None:
            sampler = threading.Thread(target=sample_memory, args=(process, memory), daemon=True)
            sampler.start()
        assert process.stdout is not None
        for line in process.stdout:
            now = time.perf_counter()
            answer = json.loads(line)
            verdicts.append(Verdict(now - last, dict(answer["stages_s"]), answer["state"], answer["reason"]))
            last = now
        process.wait()
        if sampler is not None:
            sampler.join()
    if len(verdicts) != copies:
        raise BenchError(f"kforge ended with exit code {process.returncode}\n{tail(errors)}")
    return verdicts


def run_usual(folder: Path) -> Usual:
    """The whole life of a process that judges one candidate, until its answer arrives."""
    candidate = marked_copy(EXAMPLE / "load_inline.py", folder / "candidate_inline.py")
    extensions = folder / "extensions"
    extensions.mkdir()
    env = {**environment(folder / "cache"), "TORCH_EXTENSIONS_DIR": str(extensions)}
    errors = folder / "stderr_usual.txt"
    command = [python_with_torch(), "-c", USUAL, str(EXAMPLE / "problem.py"), str(candidate)]
    with errors.open("wb") as stderr:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=env, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        wall = time.perf_counter() - begun
        process.stdout.read()
        process.wait()
    if process.returncode != 0 or not line:
        raise BenchError(f"the usual way ended with exit code {process.returncode}\n{tail(errors)}")
    answer = json.loads(line)
    if not answer["right"]:
        raise BenchError("the usual way finds the candidate wrong")
    stages: dict[str, float] = dict(answer["stages_s"])
    stages = {"start Python": max(0.0, wall - sum(stages.values())), **stages}
    return Usual(wall, stages)


def descendants(root: int) -> dict[int, str]:
    """Process ids with their names, the root among them."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it ended meanwhile
            continue
        name, _, rest = stat.partition("(")[2].rpartition(")")
        names[int(entry)] = name
        parents[int(entry)] = int(rest.split()[1])
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, str] = {}
    pending = [root]
    while pending:
        pid = pending.pop()
        if pid in names:
            found[pid] = names[pid]
            pending += children.get(pid, [])
    return found


def pss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def role_of(pid: int, name: str, root: int) -> str:
    if pid == root:
        return "kforge"
    return "Python" if name.startswith(("python", "pt_")) else "compiler and others"


def sample_memory(process: subprocess.Popen[str], memory: Memory) -> None:
    """Until the process ends. Shared pages are divided among those who map them, so that the sum counts them once."""
    while process.poll() is None:
        begun = time.perf_counter()
        roles: dict[str, int] = {}
        tree = descendants(process.pid)
        unreadable = 0
        for pid, name in tree.items():
            try:
                size = pss_bytes(pid)
            except (ProcessLookupError, FileNotFoundError):
                continue
            except OSError:
                unreadable += 1
                continue
            role = role_of(pid, name, process.pid)
            roles[role] = roles.get(role, 0) + size
        roles["all"] = sum(roles.values())
        for role, size in roles.items():
            memory.peaks[role] = max(memory.peaks.get(role, 0), size)
        memory.processes = max(memory.processes, len(tree))
        memory.unreadable = max(memory.unreadable, unreadable)
        memory.samples += 1
        time.sleep(max(0.0, SAMPLE_S - (time.perf_counter() - begun)))


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def facts(kforge: Path) -> dict[str, Any]:
    command = [python_with_torch(), "-c", FACTS, str(EXAMPLE / "problem.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{python_with_torch()} cannot run the problem:\n{done.stderr[-1500:]}")
    known: dict[str, Any] = json.loads(done.stdout)
    version = subprocess.run([str(kforge), "--version"], capture_output=True, text=True, check=False).stdout.strip()
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=False).stdout
    known |= {"kforge": version, "compiler": (compiler.splitlines() or ["?"])[0]}
    return known | {"cpu": cpu_name(), "cores": os.cpu_count(), "os": f"{platform.system()} {platform.release()}"}


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: statistics.median(row.get(name, 0.0) for row in rows) for name in names}


def measure(kforge: Path, repeat: int) -> dict[str, Any]:
    known = facts(kforge)
    cold: list[Verdict] = []
    warm: list[Verdict] = []
    wrong: list[Verdict] = []
    usual: list[Usual] = []
    memory = Memory()
    for index in range(repeat):
        print(f"round {index + 1} of {repeat}", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="eval_speed_") as folder:
            verdicts = run_kforge(kforge, COPIES, Path(folder))
        wrong += [v for v in verdicts if v.state != "correct"]
        # What a first candidate that failed left undone, the next one pays for: such a round says nothing.
        if verdicts[0].state == "correct":
            cold.append(verdicts[0])
            warm += [v for v in verdicts[1:] if v.state == "correct"]
        with tempfile.TemporaryDirectory(prefix="eval_speed_") as folder:
            usual.append(run_usual(Path(folder)))
    if not cold or not warm:
        raise BenchError("no verdict to time: " + "; ".join(f"{v.state}: {v.reason}" for v in wrong))
    if sys.platform == "linux":
        print("memory", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="eval_speed_") as folder:
            run_kforge(kforge, 1, Path(folder), memory)

    def middle(values: list[float]) -> dict[str, Any]:
        return {"median": statistics.median(values), "least": min(values), "most": max(values), "n": len(values)}

    usual_s, warm_s = middle([u.wall_s for u in usual]), middle([v.wall_s for v in warm])
    without_start = [v.wall_s - v.stages.get("start", 0.0) for v in cold]
    return {
        "facts": known,
        "warm": {
            "wall_s": warm_s,
            "stages_sum_s": middle([v.sum_s for v in warm]),
            "stages_s": medians([v.stages for v in warm]),
        },
        "usual": {"wall_s": usual_s, "stages_s": medians([u.stages for u in usual])},
        "wrong_verdicts": [{"state": v.state, "reason": v.reason} for v in wrong],
        "ratio_usual_to_warm": usual_s["median"] / warm_s["median"],
        "cold": {
            "wall_s": middle([v.wall_s for v in cold]),
            "without_start_s": middle(without_start),
            "stages_s": medians([v.stages for v in cold]),
        },
        "memory": {
            "peak_pss_bytes": memory.peaks,
            "processes": memory.processes,
            "unreadable": memory.unreadable,
            "samples": memory.samples,
            "set_bytes": known["set_bytes"],
        },
    }


def show_stages(title: str, stages: dict[str, float]) -> list[str]:
    parts = sorted(stages.items(), key=lambda item: -item[1])
    return [f"{title}:", *[f"    {seconds:8.3f} s  {name}" for name, seconds in parts], ""]


def table(result: dict[str, Any]) -> str:
    known, memory = result["facts"], result["memory"]

    def row(name: str, values: dict[str, Any], ratio: str) -> str:
        span = f"{values['least']:.2f} to {values['most']:.2f}"
        return f"{name:<44} {values['median']:>9.2f} {span:>20} {values['n']:>3} {ratio:>8}"

    usual, warm, cold = result["usual"], result["warm"], result["cold"]
    base = usual["wall_s"]["median"]
    lines = [
        f"{known['cpu']}, {known['cores']} cores, {known['threads']} threads, {known['os']}",
        f"{known['kforge']}; torch {known['torch']}, Python {known['python']}; {known['compiler']}",
        "softmax with a temperature; seconds from a candidate's text to its verdict",
        "",
        f"{'':<44} {'median s':>9} {'least to most':>20} {'n':>3} {'usual/it':>8}",
        row("usual way: fresh process, load_inline", usual["wall_s"], "1.00"),
    ]
    for name, values in (
        ("kforge eval, warm, by the clock", warm["wall_s"]),
        ("kforge eval, warm, sum of stages", warm["stages_sum_s"]),
        ("kforge eval, cold, to the first verdict", cold["wall_s"]),
        ("kforge eval, cold, without importing torch", cold["without_start_s"]),
    ):
        lines.append(row(name, values, f"{base / values['median']:.2f}"))
    lines += [f"left out, a wrong verdict: {wrong['state']}: {wrong['reason']}" for wrong in result["wrong_verdicts"]]
    lines.append("")
    lines += show_stages("usual way, medians", usual["stages_s"])
    lines += show_stages("kforge eval warm, medians", warm["stages_s"])
    lines += show_stages("kforge eval cold, medians", cold["stages_s"])
    peaks = memory["peak_pss_bytes"]
    if peaks:
        lines.append(f"peak memory of one kforge eval (Pss, {memory['samples']} samples):")
        for role in sorted(peaks, key=lambda r: (r == "all", r)):
            lines.append(f"    {peaks[role] / 2**20:8.1f} MiB  {role}")
        lines.append(f"    {memory['set_bytes'] / 2**20:8.1f} MiB  one input set with its outputs, for comparison")
        lines.append(f"    at most {memory['processes']} processes, {memory['unreadable']} of them unreadable")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kforge", type=Path, default=ROOT / "target" / "release" / "kforge", help="the binary")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; each takes about a minute (default 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    kforge = options.kforge.resolve()
    if not os.access(kforge, os.X_OK):
        parser.error(f"{kforge} is not there; build it with `cargo build --release` or name another with --kforge")
    try:
        result = measure(kforge, options.repeat)
    except BenchError as error:
        print(f"eval_speed: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result) if options.json else table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
