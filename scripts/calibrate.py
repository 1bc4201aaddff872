"""How far the evaluator's constants are from both corpora: prints the tables of docs/measurements/calibration.md.

Usage: python scripts/calibrate.py [--kforge PATH]   (with KFORGE_PYTHON naming a Python with torch, if kforge must not choose)
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "corpus"
AGAINST_ITSELF = ("layernorm", "matmul_bias_act", "rotary")


def header(file: Path, key: str) -> str:
    found = re.search(rf"^{key}: *(.*)$", file.read_text(errors="replace"), re.MULTILINE)
    return found.group(1).strip() if found else ""


def evaluate(kforge: str, folder: str, flags: list[str]) -> list[tuple[Path, dict[str, Any]]]:
    by_problem: dict[str, list[Path]] = collections.defaultdict(list)
    for file in sorted((CORPUS / folder).glob("*.py")):
        by_problem[header(file, "problem")].append(file)
    results = []
    for problem, files in by_problem.items():
        command = [kforge, "eval", str(CORPUS / "problems" / f"{problem}.py"), *map(str, files), "--json", *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if len(lines) != len(files):
            sys.exit(f"{problem}: {len(lines)} of {len(files)} answers\n{done.stderr}")
        results += list(zip(files, lines, strict=True))
    return results


def is_refused_by_rules(kforge: str, file: Path) -> bool:
    return subprocess.run([kforge, "guard", str(file)], capture_output=True, check=False).returncode == 13


def largest_error(result: dict[str, Any]) -> float:
    """As a share of the tolerance."""
    shares = [re.search(r"max error: (\d+) %", check["detail"]) for check in result["checks"]]
    return max((float(found.group(1)) / 100 for found in shares if found), default=0.0)


def clock_share(result: dict[str, Any]) -> float | None:
    """Time that passed outside of `forward`, as a share of what was claimed."""
    timing = result["candidate"]
    return timing["median_us"] / timing["inside_median_us"] - 1 if timing and timing["inside_median_us"] else None


def lost_on_others(result: dict[str, Any]) -> float | None:
    """The speedup on the problem's inputs over the least on any other distribution."""
    own, *others = [one["speedup"] for one in result["by_distribution"]] or [0.0]
    return own / min(others) if others else None


def against_itself(kforge: str, rounds: int) -> list[tuple[str, float, dict[str, float]]]:
    """The reference as its own candidate, in a new session each time."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for name in AGAINST_ITSELF:
            problem = ROOT / "examples" / name / "problem.py"
            twin = Path(folder) / f"{name}.py"
            twin.write_text(re.sub(r"\bModel\b", "NewModel", problem.read_text()))
            for _ in range(rounds):
                command = [kforge, "eval", str(problem), str(twin), "--json", "--baselines", "eager"]
                result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                made.append((name, result["speedup"], result["speedup_ci"]))
    return made


def with_other_draws(kforge: str, times: int) -> None:
    """The same kernel must get the same verdict: honest ones on other inputs, with other weights and limits."""
    shares: dict[str, float] = {}
    refused = []
    for file, result in evaluate(kforge, "honest", ["--no-timing", "--redraws", str(times)]):
        shares[file.stem] = largest_error(result)
        if result["state"] != "correct":
            refused.append(f"{file.stem} ({result['reason']})")
    nearest = sorted(((share, name) for name, share in shares.items()), reverse=True)
    print(
        f"\nHonest kernels on {times} more draws each: {len(shares)}, refused on one of them: {len(refused)} {refused}"
    )
    print("Nearest to what is allowed: " + ", ".join(f"{share:.2f} {name}" for share, name in nearest[:8]))


def print_against_itself(runs: list[tuple[str, float, dict[str, float]]]) -> None:
    inside = sum(ci["low"] <= 1 <= ci["high"] for _name, _speedup, ci in runs)
    logs = [math.log(speedup) for _name, speedup, _ci in runs]
    print(f"\nThe reference against itself: {len(runs)} sessions, 1.00 inside the interval in {inside};")
    print(f"geometric mean {math.exp(statistics.mean(logs)):.3f}, standard deviation {statistics.stdev(logs):.3f}")
    print("\n| problem | speedup | interval |\n|---|---|---|")
    for name, speedup, ci in runs:
        print(f"| {name} | {speedup:.3f} | {ci['low']:.2f} to {ci['high']:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kforge", default=str(ROOT / "target/release/kforge"))
    parser.add_argument("--rounds", type=int, default=4, help="sessions of the reference against itself, per problem")
    parser.add_argument(
        "--draws", type=int, default=20, help="more verifications of every honest kernel, on other draws"
    )
    parser.add_argument("--only-draws", action="store_true", help="nothing else")
    options = parser.parse_args()
    kforge = options.kforge
    if options.only_draws:
        with_other_draws(kforge, options.draws)
        return
    flags = ["--baselines", "eager", "--time-budget", "0.4"]
    honest = evaluate(kforge, "honest", flags)
    cheats = evaluate(kforge, "cheats", [*flags, "--no-guard", "--timeout", "20"])
    one = honest[0][1]
    print(
        f"{one['device']['name']}, {one['device']['threads']} threads, torch {one['versions']['torch']}, {one['versions']['compiler']}\n"
    )

    refused = [f.stem for f, r in honest if r["state"] != "correct"]
    errors = sorted(((largest_error(r), f.stem) for f, r in honest), reverse=True)
    ratios = sorted(((x, f.stem) for f, r in honest if (x := lost_on_others(r)) is not None), reverse=True)
    clocks = sorted(((x, f.stem) for f, r in honest if (x := clock_share(r)) is not None), reverse=True)
    print(f"Honest kernels: {len(honest)}, refused: {len(refused)} {refused}")
    print("Largest share of the allowed error: " + ", ".join(f"{x:.2f} {n}" for x, n in errors[:5]))
    print(
        "Largest speedup on the problem's inputs over the least on others: "
        + ", ".join(f"{x:.2f} {n}" for x, n in ratios[:5])
    )
    print("Largest time outside of forward, as a share of forward: " + ", ".join(f"{x:.2f} {n}" for x, n in clocks[:5]))

    with_other_draws(kforge, options.draws)

    by_verdict = collections.Counter(f"{r['state']}/{r['kind']}" if r["kind"] else r["state"] for _f, r in cheats)
    by_guard = sum(is_refused_by_rules(kforge, f) for f, _r in cheats)
    print(f"\nCheats: {len(cheats)}; refused by the source rules before anything runs: {by_guard}")
    print("With the source rules switched off:\n\n| verdict | cheats |\n|---|---|")
    for verdict, count in by_verdict.most_common():
        print(f"| {verdict} | {count} |")
    for f, r in cheats:
        if r["state"] == "correct":
            speedup = f"{r['speedup']:.2f}x" if r["speedup"] else "not timed"
            print(f"\n`{f.stem}` ends correct ({speedup}): {header(f, 'expect-unguarded')}", end="")
    print("\n\n| precision cheat | rms error over what is allowed |\n|---|---|")
    for f, r in cheats:
        found = re.search(r"rms error ([\d.e+-]+) .*? stays below ([\d.e+-]+)", r["reason"])
        if found:
            print(f"| {f.stem} | {float(found.group(1)) / float(found.group(2).rstrip(',')):.1f} |")
    print_against_itself(against_itself(kforge, options.rounds))


if __name__ == "__main__":
    main()
