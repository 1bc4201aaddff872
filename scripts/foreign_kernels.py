"""Judges kernels that other people published: python scripts/foreign_kernels.py fetch DIR, then ... judge DIR.

`fetch` needs a network. It takes kernels out of packages on PyPI, whose code is never executed here, and writes a folder
of problems and candidates: each wrapper in scripts/foreign/wrappers becomes one file with what it uses of its package.
`judge` needs a GPU and no network. Every kernel in the folder is expected to end `correct`: they are in wide use, and
nobody wrote them for kforge. It prints a markdown table and, last, `N passed, M failed`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import foreign_inline
import gpu_suite

TEXTS = Path(__file__).resolve().parent / "foreign"
TARGET = "nvidia/triton"
OURS = "-"  # the package of a wrapper that needs none
MOST_BYTES = 30 << 20
INDEX = "https://pypi.org/simple/"
# Wrappers call functions that are no public interface: another version may have others.
VERSIONS = {
    "conch-triton-kernels": "1.3",
    "fla-core": "0.6.0",
    "flag-gems": "5.0.2",
    "flash-attn": "2.8.3.post2",
    "liger-kernel": "0.8.5",
    "mamba-ssm": "2.3.2.post1",
    "sglang": "0.5.23",
    "torchao": "0.18.0",
    "unsloth": "2026.10.9",
    "xformers": "0.0.35",
}
# Published without wheels. pip would run their setup to learn their names, and that wants a CUDA toolchain.
SOURCES_ONLY = {"flash-attn", "mamba-ssm"}


@dataclass(frozen=True)
class Kernel:
    name: str
    package: str
    version: str
    problem: str
    candidate: str


@dataclass
class Row:
    kernel: Kernel
    state: str
    note: str = ""
    speedup: float | None = None
    is_proven: bool = False
    seconds: float = 0.0
    answer: dict[str, Any] | None = None

    @property
    def passed(self) -> bool:
        return self.state == "correct"


def wrappers(only: str = "") -> Iterator[tuple[str, str]]:
    """Names and texts of what is wrapped."""
    for path in sorted((TEXTS / "wrappers").glob("*.py")):
        if re.search(only, path.stem):
            yield path.stem, path.read_text(encoding="utf-8")


def required(text: str, key: str, name: str) -> str:
    value = gpu_suite.header(text, key)
    if not value:
        raise foreign_inline.Unfit(f"{name}: no line `{key}:` at its top")
    return value


def fetch(folder: Path, archives: Path, only: str) -> int:
    chosen = list(wrappers(only))
    packages = {required(text, "package", name) for name, text in chosen} - {OURS}
    for part in ("problems", "candidates"):
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir(parents=True)
    kernels, failures = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        unpacked = {}
        for package in sorted(packages):
            print(f"{package} {VERSIONS[package]}", file=sys.stderr)
            unpacked[package] = foreign_inline.Package(unpack(obtain(package, archives), Path(scratch, package)))
        empty = Path(scratch, "empty")
        empty.mkdir()
        unpacked[OURS] = foreign_inline.Package(empty)
        for name, text in chosen:
            try:
                kernels.append(put(folder, name, text, unpacked))
            except foreign_inline.Unfit as why:
                failures += 1
                print(f"error: {name}: {why}", file=sys.stderr)
    manifest = json.dumps([asdict(kernel) for kernel in kernels], indent=1)
    (folder / "manifest.json").write_text(manifest + "\n", encoding="utf-8")
    nbytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{len(kernels)} kernels of {len(packages)} packages, {nbytes / (1 << 20):.1f} MiB")
    if nbytes > MOST_BYTES:
        print(f"error: more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
    return int(failures > 0 or nbytes > MOST_BYTES)


def put(folder: Path, name: str, text: str, unpacked: dict[str, foreign_inline.Package]) -> Kernel:
    package, problem = required(text, "package", name), required(text, "problem", name)
    # `stubs: -` in a wrapper: this one is to be judged with everything that the package makes of it.
    stubs = TEXTS / "stubs" / f"{gpu_suite.header(text, 'stubs') or package.replace('-', '_')}.py"
    inliner = foreign_inline.Inliner(unpacked[package], stubs.read_text(encoding="utf-8") if stubs.exists() else "")
    kernel = Kernel(name, package, VERSIONS.get(package, ""), f"problems/{problem}.py", f"candidates/{name}.py")
    (folder / kernel.candidate).write_text(inliner.candidate(text), encoding="utf-8")
    shutil.copy(TEXTS / kernel.problem, folder / kernel.problem)
    return kernel


def obtain(package: str, archives: Path) -> Path:
    """The archive of a package, in this folder; downloaded where it is not there yet."""
    version, stem = VERSIONS[package], package.replace("-", "_")
    archives.mkdir(parents=True, exist_ok=True)
    names = (f"{stem}-{version}-*.whl", f"{stem}-{version}.tar.gz")
    found = [path for name in names for path in sorted(archives.glob(name))]
    if found:
        return found[0]
    if package in SOURCES_ONLY:
        return download_sources(package, f"{stem}-{version}.tar.gz", archives)
    # Whatever this Python is, 3.12 on Linux is what the wheel is asked for: nothing in it is executed.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--python-version", "3.12", "--dest", str(archives), f"{package}=={version}"]
    command += [word for tag in platforms() for word in ("--platform", tag)]
    subprocess.run(command, check=True)
    return next(path for path in sorted(archives.glob(names[0])))


def platforms() -> list[str]:
    """Tags of wheels for Linux, of which pip knows only those that it is given."""
    return [f"manylinux_2_{minor}_x86_64" for minor in range(17, 40)] + ["manylinux2014_x86_64", "linux_x86_64"]


def download_sources(package: str, file: str, archives: Path) -> Path:
    page = f"{INDEX}{package}/"
    with urllib.request.urlopen(page, timeout=60) as answer:
        listed = re.search(rf'href="([^"#]*/{re.escape(file)})#sha256=(\w+)"', answer.read().decode())
    if listed is None:
        raise foreign_inline.Unfit(f"{page} does not list {file}")
    with urllib.request.urlopen(urllib.parse.urljoin(page, listed[1]), timeout=300) as answer:
        content = answer.read()
    if hashlib.sha256(content).hexdigest() != listed[2]:
        raise foreign_inline.Unfit(f"{file} is not what the index says it is")
    path = archives / file
    path.write_bytes(content)
    return path


def unpack(archive: Path, folder: Path) -> Path:
    """Only Python files; of an archive of sources what is beneath its one folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for member in wheel.namelist():
                write_beneath(folder, PurePosixPath(member), lambda member=member: wheel.read(member))
    else:
        with tarfile.open(archive) as sources:
            for entry in sources:
                reader = sources.extractfile(entry) if entry.isfile() else None
                if reader is not None:
                    write_beneath(folder, PurePosixPath(*PurePosixPath(entry.name).parts[1:]), reader.read)
    return folder


def write_beneath(folder: Path, member: PurePosixPath, read: Any) -> None:
    if member.suffix != ".py" or member.is_absolute() or ".." in member.parts:
        return
    path = folder / member
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(read())


def judge(folder: Path, args: argparse.Namespace) -> int:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    kernels = [Kernel(**entry) for entry in manifest if re.search(args.only, entry["name"])]
    groups: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault(kernel.problem, []).append(kernel)
    began, rows = time.monotonic(), []
    print("| kernel | package | state | speedup | proven | seconds | |\n|---|---|---|---|---|---|---|")
    with ThreadPoolExecutor(args.jobs) as pool:
        for found in pool.map(lambda group: judge_group(folder, group, args), groups.values()):
            rows += found
            for row in found:
                print(line(row), flush=True)
            if args.json:  # after each group, so that nothing is lost when this is ended from outside
                args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    passed, proven = sum(row.passed for row in rows), sum(row.is_proven for row in rows)
    print(f"\n{len({row.kernel.package for row in rows})} packages, {proven} proven speedups")
    print(f"{time.monotonic() - began:.0f} s\n\n{passed} passed, {len(rows) - passed} failed")
    return int(passed != len(rows) or not rows)


def judge_group(folder: Path, group: Sequence[Kernel], args: argparse.Namespace) -> list[Row]:
    """Candidates of one problem, which share a warm session."""
    command = [args.kforge, "eval", str(folder / group[0].problem), *(str(folder / one.candidate) for one in group)]
    command += ["--target", TARGET, "--json", *args.flags.split()]
    env = {**os.environ, "KFORGE_PYTHON": args.python} if args.python else None
    began = time.monotonic()
    code, out, errors = gpu_suite.run(command, args.call_limit_s * len(group), env)
    rows = [judged(kernel, answer) for kernel, answer in zip(group, gpu_suite.answers(out))]
    why = "no answer in time" if code is None else f"exit {code}: {errors.strip()[-300:]}"
    rows += [Row(kernel, "no answer", why) for kernel in group[len(rows) :]]
    for row in rows:
        row.seconds = (time.monotonic() - began) / len(rows)
    return rows


def judged(kernel: Kernel, answer: dict[str, Any]) -> Row:
    state = "/".join(str(word) for word in (answer.get("state"), answer.get("kind")) if word)
    speedup = answer.get("speedup")
    proven = speedup is not None and not answer.get("provisional")
    note = "" if state == "correct" else str(answer.get("reason") or "")
    return Row(kernel, state, note, speedup, proven, answer=answer)


def line(row: Row) -> str:
    package = row.kernel.package if row.kernel.package == OURS else f"{row.kernel.package} {row.kernel.version}"
    speedup = "" if row.speedup is None else f"{row.speedup:.2f}"
    proven = "" if row.speedup is None else "yes" if row.is_proven else "no"
    note = "" if row.passed else f"**failed** {' '.join(row.note.split())[:300]}".replace("|", "/")
    cells = [row.kernel.name, package, row.state, speedup, proven, f"{row.seconds:.1f}", note]
    return "| " + " | ".join(cells) + " |"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("fetch", "judge"))
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="REGEX", help="kernels whose names this is found in")
    parser.add_argument("--archives", type=Path, help="fetch: keep the packages there, and use those that are there")
    parser.add_argument("--kforge", default=str(gpu_suite.ROOT / "target/release/kforge"))
    parser.add_argument("--python", default="", help="judge: the Python with torch and Triton")
    parser.add_argument("--jobs", type=int, default=3, help="judge: calls of kforge side by side")
    parser.add_argument("--flags", default="--baselines eager --time-budget 0.4", help="judge: more for `kforge eval`")
    parser.add_argument("--call-limit-s", type=float, default=180, help="judge: seconds for one kernel")
    parser.add_argument("--json", type=Path, metavar="FILE", help="judge: write all answers there")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if args.verb == "judge":
        return judge(args.folder, args)
    with tempfile.TemporaryDirectory() as scratch:
        return fetch(args.folder, args.archives or Path(scratch), args.only)


if __name__ == "__main__":
    sys.exit(main())
