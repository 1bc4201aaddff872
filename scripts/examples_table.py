"""Judges every example and prints the table of docs/measurements/examples.md: python scripts/examples_table.py [--kforge PATH]."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = {"eager": "eager", "compile": "torch.compile", "max-autotune": "max-autotune"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kforge", default=str(ROOT / "target/release/kforge"))
    kforge = parser.parse_args().kforge
    rows, place = [], ""
    for problem in sorted(ROOT.glob("examples/*/problem.py")):
        candidate = problem.with_name("cpu_cpp.py")
        command = [kforge, "eval", str(problem), str(candidate), "--json", "--time-budget", "2"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.stdout:
            sys.exit(done.stderr)
        result = json.loads(done.stdout)
        if result["state"] != "correct":
            rows.append(f"| {problem.parent.name} | {result['state']}: {result['reason'][:80]} | | | |")
            continue
        ci, own, best = result["speedup_ci"], result["candidate"], result["baseline"]
        rows.append(
            f"| {problem.parent.name} | {own['median_us'] / 1e3:.2f} ms | {best['median_us'] / 1e3:.2f} ms, {NAMES[best['name']]} "
            f"| {result['speedup']:.2f} ({ci['low']:.2f} to {ci['high']:.2f}) | {'yes' if result['provisional'] else 'no'} |"
        )
        place = (
            f"{result['device']['name']}, {result['device']['threads']} threads, torch {result['versions']['torch']}"
        )
        print(problem.parent.name, "done", file=sys.stderr)
    print("| example | candidate | fastest baseline | speedup (95 % interval) | provisional |\n|---|---|---|---|---|")
    print("\n".join(rows))
    print(f"\n{place}; cold caches.")


if __name__ == "__main__":
    main()
