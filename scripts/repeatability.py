"""Whether the same kernel gets the same answer each time: prints the tables of docs/measurements/calibration.md.

Usage: python scripts/repeatability.py [--kforge PATH] [--times 20] [--load N]   (on a machine that does nothing else)

Each evaluation is a process and a session of its own. The pooled median of all speedups stands for the true one, and
an interval is right if it contains it. `--load N` starts N programs that use a processor each, all the while. A kernel
in a duel with a copy of itself must be called equal.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# A kernel of half a millisecond, one that takes some more, and a product that the framework's library does.
KERNELS = (("softmax", "cpu_cpp"), ("layernorm", "cpu_cpp"), ("matmul_bias_act", "cpu_cpp"))


@contextlib.contextmanager
def load(programs: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def answers(kforge: str, problem: Path, candidates: list[Path], flags: list[str]) -> list[dict[str, Any]]:
    command = [kforge, "eval", str(problem), *map(str, candidates), "--json", "--baselines", "eager", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def evaluations(kforge: str, times: int) -> None:
    print(
        f"| kernel | {times} speedups: least, pooled median, most | intervals that contain it | their width, median |"
    )
    print("|---|---|---|---|")
    for example, name in KERNELS:
        folder = ROOT / "examples" / example
        runs = [answers(kforge, folder / "problem.py", [folder / f"{name}.py"], [])[0] for _ in range(times)]
        known = [run for run in runs if run["speedup"]]
        if not known:
            print(f"| {example} | no speedup | | |")
            continue
        speedups = sorted(run["speedup"] for run in known)
        middle = statistics.median(speedups)
        inside = sum(run["speedup_ci"]["low"] <= middle <= run["speedup_ci"]["high"] for run in known)
        width = statistics.median(
            (run["speedup_ci"]["high"] - run["speedup_ci"]["low"]) / run["speedup"] for run in known
        )
        provisional = sum(run["provisional"] for run in known)
        told = f", {provisional} provisional" if provisional else ""
        print(
            f"| {example} | {speedups[0]:.2f}, {middle:.2f}, {speedups[-1]:.2f} | {inside} of {len(known)}{told} | {width:.0%} |",
            flush=True,
        )


def duels(kforge: str, times: int) -> None:
    print(
        f"\n| kernel against its copy | {times} duels: ratio, least to most | called equal | interval, median width |"
    )
    print("|---|---|---|---|")
    for example, name in KERNELS[:1]:
        folder = ROOT / "examples" / example
        with tempfile.TemporaryDirectory() as scratch:
            twin = Path(scratch) / "copy.py"
            twin.write_text((folder / f"{name}.py").read_text())
            found = [
                answers(kforge, folder / "problem.py", [folder / f"{name}.py", twin], ["--versus"])[-1]["duel"]
                for _ in range(times)
            ]
        fought = [duel["fought"] for duel in found if "fought" in duel]
        equal = sum(duel["interval"]["low"] <= 1 <= duel["interval"]["high"] for duel in fought)
        ratios = sorted(duel["ratio"] for duel in fought)
        width = statistics.median(math.log(duel["interval"]["high"] / duel["interval"]["low"]) for duel in fought)
        print(
            f"| {example} | {ratios[0]:.3f} to {ratios[-1]:.3f} | {equal} of {len(found)} | {width:.1%} |", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kforge", default=str(ROOT / "target/release/kforge"))
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--load", type=int, default=0, metavar="N", help="programs that use a processor meanwhile")
    parser.add_argument("--only", choices=["evaluations", "duels"])
    options = parser.parse_args()
    with load(options.load):
        if options.only != "duels":
            evaluations(options.kforge, options.times)
        if options.only != "evaluations":
            duels(options.kforge, options.times)


if __name__ == "__main__":
    main()
