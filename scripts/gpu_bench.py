"""How long an answer takes on this machine's GPU, against the usual way: python scripts/gpu_bench.py [--parts abcd].

a: candidate text to verdict with a warm worker, for CUDA and Triton; b: the same kernel as `load_inline` in a fresh process, five checks
and a hundred timed runs; c: one profile; d: thirty-two candidates of four problems drained from an exchange folder.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gpu_suite

GEMM = gpu_suite.ROOT / "examples/gpu/gemm_groupnorm_swish"
DRAINED = ("softmax", "layernorm", "gelu_chain", "gemm_groupnorm_swish")
TARGETS = {"nvidia_cuda.py": "nvidia/cuda", "nvidia_triton.py": "nvidia/triton"}

# The usual way to judge a candidate: import (which builds), a few checks against the reference, mean of timed runs.
USUAL_WAY = """
import importlib.util, json, sys, time

began = time.perf_counter()
import torch

def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

problem = load(sys.argv[1], "problem")
before_build = time.perf_counter()
candidate = load(sys.argv[2], "candidate")
built = time.perf_counter()
torch.manual_seed(0)
reference = problem.Model(*problem.get_init_inputs()).cuda().eval()
own = candidate.ModelNew(*problem.get_init_inputs()).cuda().eval()
own.load_state_dict(reference.state_dict())
with torch.no_grad():
    for seed in range(5):
        torch.manual_seed(seed)
        inputs = [t.cuda() for t in problem.get_inputs()]
        assert torch.allclose(own(*inputs), reference(*inputs), atol=1e-4, rtol=1e-4), seed
    for _ in range(3):
        own(*inputs)
    times = []
    for _ in range(100):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        own(*inputs)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000)
print(json.dumps({"build_s": built - before_build, "median_us": sorted(times)[50], "own_s": time.perf_counter() - began}))
"""


def variant(text: str, number: int) -> str:
    """The same candidate with another comment in its kernels' source, so that no build is found in a cache."""
    mark = f"variant {number} of {time.time_ns()}"
    text = re.sub(r'(SOURCE = r""")\n', rf"\1\n// {mark}\n", text)
    return re.sub(r"(@triton\.jit\ndef \w+\((?:[^()]|\n)*\):\n)", rf"\1    # {mark}\n", text)


def variants(source: Path, count: int, folder: Path) -> list[Path]:
    text, made = source.read_text(encoding="utf-8"), []
    for number in range(count):
        path = folder / f"{source.parent.name}_{source.stem}_{number}.py"
        path.write_text(variant(text, number), encoding="utf-8")
        made.append(path)
    return made


def text_to_verdict(
    kforge: str, file: str, limit_s: float, flags: list[str]
) -> tuple[list[float], list[dict[str, Any]]]:
    """Seconds between the answers of one warm call, from the second on, and the answers."""
    with tempfile.TemporaryDirectory() as scratch:
        made = variants(GEMM / file, 5, Path(scratch))
        command = [
            kforge,
            "eval",
            str(GEMM / "problem.py"),
            *map(str, made),
            "--json",
            "--target",
            TARGETS[file],
            *flags,
        ]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        watchdog = threading.Timer(limit_s, child.kill)
        watchdog.start()
        assert child.stdout is not None
        moments, answers = [], []
        for line in child.stdout:
            moments.append(time.monotonic())
            answers.append(json.loads(line))
        child.wait()
        watchdog.cancel()
    return [b - a for a, b in itertools.pairwise(moments)], answers


def usual_way(python: str, limit_s: float) -> tuple[float | None, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as scratch:
        env = {**os.environ, "TORCH_EXTENSIONS_DIR": scratch}
        files = [str(GEMM / "problem.py"), str(GEMM / "load_inline.py")]
        began = time.monotonic()
        code, out, errors = gpu_suite.run([python, "-c", USUAL_WAY, *files], limit_s, env)
        seconds = time.monotonic() - began
    if code != 0:
        print(errors[-2000:], file=sys.stderr)
        return None, {}
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return seconds, found


@contextmanager
def utilisation(samples: list[float]) -> Iterator[None]:
    """Collects nvidia-smi's share of time in which kernels ran, five times a second."""
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
    with tempfile.TemporaryFile("w+") as file:
        child = subprocess.Popen(query, stdout=file, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            child.terminate()
            child.wait()
            file.seek(0)
            samples += [float(word) for word in file.read().split() if word.isdigit()]


def drain(kforge: str, limit_s: float, jobs: int, flags: list[str]) -> list[str]:
    """Lines of the table for thirty-two jobs in an exchange folder."""
    with tempfile.TemporaryDirectory() as scratch:
        exchange, sources = Path(scratch, "exchange"), Path(scratch, "candidates")
        exchange.mkdir()
        sources.mkdir()
        for name in DRAINED:
            for file, target in TARGETS.items():
                folder = gpu_suite.ROOT / "examples/gpu" / name
                made = [str(path) for path in variants(folder / file, 4, sources)]
                command = [kforge, "eval", str(folder / "problem.py"), *made, "--target", target, *flags]
                code, _, errors = gpu_suite.run([*command, "--executor", f"exchange:{exchange}", "--submit"], 120)
                if code != 0:
                    return [f"| drain | not run: submitting ended with {code}: {errors.strip()[-120:]} |"]
        samples: list[float] = []
        began = time.monotonic()
        with utilisation(samples):
            code, out, errors = gpu_suite.run(
                [kforge, "worker", "drain", str(exchange), "--json", "--jobs", str(jobs)], limit_s
            )
        seconds = time.monotonic() - began
    report = next((json.loads(line)["report"] for line in out.splitlines() if line.startswith('{"report"')), None)
    if report is None:
        return [f"| drain | no report, exit {code}: {errors.strip()[-120:]} |"]
    lines = [
        f"| {report['jobs']} jobs of {len(DRAINED)} problems drained, {jobs} at a time | {seconds:.1f} s, {report['failed']} failed |"
    ]
    lines.append(f"| device busy by the worker's report | {report['device_s'] / report['wall_s']:.0%} |")
    if samples:
        lines.append(f"| device busy by nvidia-smi, {len(samples)} samples | {statistics.mean(samples):.0f}% |")
    return lines


def versions(python: str) -> str:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = gpu_suite.run(query, 30)[1].strip()
    ask = "import torch, triton; print('torch', torch.__version__ + ', triton', triton.__version__)"
    packages = gpu_suite.run([python, "-c", ask], 120)[1].strip()
    try:
        nvcc = gpu_suite.run(["nvcc", "--version"], 30)[1].strip().splitlines()[-1:]
    except OSError:
        nvcc = ["not on PATH"]
    return f"{device} (driver); {packages}; nvcc {' '.join(nvcc)}; {datetime.date.today().isoformat()}"


def tell(*lines: str) -> None:
    """At once: what was measured is not lost when the rest is cut off."""
    for line in lines:
        print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kforge", default=str(gpu_suite.ROOT / "target/release/kforge"))
    parser.add_argument("--parts", default="abcd", help="which of a, b, c, d to run")
    parser.add_argument("--baselines", default="auto", help="of parts a and d: auto, all, compile, eager")
    parser.add_argument("--jobs", type=int, default=4, help="jobs at a time in part d")
    parser.add_argument("--limit-s", type=float, default=240, help="seconds for each part")
    args = parser.parse_args()
    if not gpu_suite.has_gpu():
        print("There is no GPU here (nvidia-smi is missing or fails): nothing was run.")
        return 0
    code, out, _ = gpu_suite.run([args.kforge, "python"], 120)
    python = out.strip().splitlines()[-1] if code == 0 and out.strip() else sys.executable
    flags = ["--baselines", args.baselines]
    warm: dict[str, float] = {}
    tell("| what | how long |", "|---|---|")
    for file in TARGETS if "a" in args.parts else ():
        seconds, answers = text_to_verdict(args.kforge, file, args.limit_s, flags)
        states = ", ".join(sorted({str(answer["state"]) for answer in answers})) or "no answer"
        if not seconds:
            tell(f"| text to verdict, {file} | failed: {states} |")
            continue
        warm[file] = statistics.median(seconds)
        stages = answers[-1].get("stages_s") or {}
        parts = ", ".join(f"{name} {value:.2f}" for name, value in stages.items() if value >= 0.005)
        tell(f"| text to verdict, warm worker, {file} ({states}) | {warm[file]:.2f} s, n = {len(seconds)} |")
        tell(f"| stages of the last one | {parts} |")
    if "b" in args.parts:
        total, found = usual_way(python, args.limit_s)
        tell(f"| usual way, load_inline, fresh process | {'failed' if total is None else f'{total:.1f} s'} |")
        if total is not None:
            tell(f"| of that the build | {found['build_s']:.1f} s |")
            tell(*(f"| usual way / {file} | {total / seconds:.1f} |" for file, seconds in warm.items()))
    if "c" in args.parts:
        command = [
            args.kforge,
            "profile",
            str(GEMM / "problem.py"),
            str(GEMM / "nvidia_cuda.py"),
            "--target",
            "nvidia/cuda",
        ]
        for when in ("first", "second"):
            began = time.monotonic()
            code, out, errors = gpu_suite.run([*command, "--json"], args.limit_s)
            if code != 0:
                tell(f"| kforge profile | exit {code}: {errors.strip()[-120:]} |")
                break
            sources = {source["name"]: source["seconds"] for source in json.loads(out.splitlines()[-1])["sources"]}
            parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sources.items() if seconds >= 0.05)
            tell(f"| kforge profile, {when} of this problem, fresh process | {time.monotonic() - began:.1f} s |")
            tell(f"| of that | {parts} |")
    if "d" in args.parts:
        tell(*drain(args.kforge, args.limit_s, args.jobs, flags))
    print(f"\n{versions(python)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
