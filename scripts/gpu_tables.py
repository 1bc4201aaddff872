"""Prints the tables of docs/measurements/h200.md from what the GPU suite wrote with --json SUITE.json.

Usage: python scripts/gpu_tables.py SUITE.json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PARTS = {
    "examples": "examples, at their own sizes",
    "failing": "one for each failing state",
    "cheats": "cheats, with the source rules on",
    "cheats-unguarded": "cheats, with the source rules switched off",
    "honest": "honest kernels that look like cheats",
    "unsound": "kernels that are right by luck",
    "sanitizer": "compute-sanitizer: one clean kernel, one finding each of memcheck, racecheck, initcheck, synccheck",
    "profile": "the profiler ladder, once with a Nsight Compute that fails",
    "watchdog": "a kernel that never ends, and the next candidate after it",
    "stranger": "beside a process that is not kforge's: named, and waited for",
    "large": "gigabytes of inputs and outputs",
    "crowded": "the same and a kernel that takes most of the device, at the same time",
}
KERNELS = {"nvidia_cuda": "CUDA", "nvidia_triton": "Triton", "nvidia_cute": "CuTe DSL", "load_inline": "load_inline"}

Row = dict[str, Any]


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *body])


def part(row: Row) -> str:
    return str(row["name"]).split("/")[0]


def speedup(row: Row) -> str:
    return f"{row['speedup']:.2f} ({row['low']:.2f} to {row['high']:.2f})" if row["speedup"] else ""


def in_a_row(row: Row) -> tuple[str, str, str]:
    """Microseconds of one call as the clock outside saw it, those of the baseline, and what the clock resolves."""
    own, baseline = row["answer"].get("candidate"), row["answer"].get("baseline")
    if not own or not baseline or own.get("row_calls", 0) < 2:
        return "", "", ""
    return f"{own['median_us']:.1f}", f"{baseline['median_us']:.1f}", f"{own['resolution_us']:.1f}"


def parts(rows: Sequence[Row]) -> str:
    all_of, passed = Counter(map(part, rows)), Counter(part(row) for row in rows if row["passed"])
    told = {"cheats": refused_by([row for row in rows if part(row) == "cheats"])}
    names = [name for name in PARTS if name in all_of]
    lines = [(PARTS[name] + told.get(name, ""), str(all_of[name]), str(passed[name])) for name in names]
    return markdown(("part", "cases", "passed"), lines)


def refused_by(cheats: Sequence[Row]) -> str:
    """By whom, with source rules on: a rule that passes a cheat leaves it to the judge, before whom it may also gain nothing."""
    refused = Counter("rule" if row["kind"] == "guardrail" else row["state"] for row in cheats if row["passed"])
    by_rule, in_vain = refused.pop("rule", 0), refused.pop("correct", 0)
    more = f", {in_vain} in vain" if in_vain else ""
    return f": {by_rule} refused by a rule, {refused.total()} by the judge{more}"


def endings(cheats: Sequence[Row]) -> str:
    ends = Counter(f"{row['state']}/{row['kind']}".rstrip("/") for row in cheats)
    return markdown(("how it ended", "cheats"), [(f"`{end}`", str(count)) for end, count in ends.most_common()])


def in_vain(cheats: Sequence[Row]) -> str:
    lines = []
    for row in cheats:
        if row["state"] == "correct":
            own, baseline, _resolved = in_a_row(row)
            provisional = "provisional" if row["answer"]["provisional"] else ""
            lines.append((row["name"].split("/")[1], speedup(row), own, baseline, provisional))
    return markdown(("cheat", "speedup over eager", "a call in rows, us", "one of eager, us", ""), lines)


def examples(rows: Sequence[Row]) -> str:
    lines = []
    for row in sorted((row for row in rows if part(row) == "examples" and row["speedup"]), key=lambda row: row["name"]):
        _part, problem, file = row["name"].split("/")
        answer = row["answer"]
        baselines = {one["name"]: f"{one['median_us']:.1f}" for one in answer["baselines"] if one["median_us"]}
        _own, _baseline, resolved = in_a_row(row)
        lines.append(
            (
                problem,
                KERNELS[file],
                speedup(row) + (", provisional" if answer["provisional"] else ""),
                answer["baseline"]["name"],
                f"{answer['candidate']['median_us']:.1f}",
                baselines.get("compile", ""),
                baselines.get("eager", ""),
                f"{answer['candidate']['inside_median_us']:.1f}",
                resolved,
            )
        )
    head = ("example", "kernel", "speedup", "over", "candidate, us", "compile, us", "eager, us", "claimed inside, us")
    return markdown((*head, "the clock resolves, us"), lines)


def resolution(rows: Sequence[Row]) -> str:
    found = sorted(float(text) for row in rows if (text := in_a_row(row)[2]))
    if not found:
        return "no result with calls in a row"
    middle, ninth = found[len(found) // 2], found[9 * len(found) // 10]
    return (
        f"in rows the clock resolves {middle:.1f} us at the median of {len(found)}, {ninth:.1f} us or better in nine of ten, "
        f"{found[-1]:.1f} us in the worst"
    )


def provisional(rows: Sequence[Row]) -> str:
    reasons = (row for row in rows if row["state"] == "correct" and row["answer"].get("provisional"))
    return markdown(("provisional", "why"), [(row["name"], row["answer"]["provisional_reason"]) for row in reasons])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path, help="what gpu_suite.py --json wrote")
    rows: list[Row] = json.loads(parser.parse_args().suite.read_text(encoding="utf-8"))
    cheats = [row for row in rows if part(row) == "cheats-unguarded"]
    print(
        "\n\n".join(
            (parts(rows), resolution(rows), endings(cheats), in_vain(cheats), examples(rows), provisional(rows))
        )
    )


if __name__ == "__main__":
    main()
