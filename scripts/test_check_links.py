"""scripts/check-links finds what is broken, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "check-links"
DOCS = "docs"  # apart, so that the paths below are no paths of this repository
SOUND = {
    "README.md": (
        f"[page]({DOCS}/page.md#two-words) and `{DOCS}/page.md`, [a\nlong text]({DOCS}) and [web](https://x.example/a)\n"
    ),
    f"{DOCS}/page.md": "# Page\n\n## Two words\n\n[back](../README.md) [here](#page)\n\n```\n[not](a-link.md)\n```\n",
    "code.rs": f"// see {DOCS}/page.md.\n",
}


def run(root: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return subprocess.run([sys.executable, str(SCRIPT), str(root)], capture_output=True, text=True, check=False)


def test_sound_links_pass(tmp_path: Path) -> None:
    done = run(tmp_path, SOUND)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("README.md", f"[gone]({DOCS}/gone.md)\n", f"README.md:1: {DOCS}/gone.md does not exist"),
        (f"{DOCS}/other.md", "\n[gone](page.md#three)\n", f"page.md#three: {DOCS}/page.md has no heading"),
        ("code.rs", f"// {DOCS}/gone.md\n", f"code.rs:1: {DOCS}/gone.md does not exist"),
        ("tool.py", f'"""See {DOCS}/gone.md."""\n', f"tool.py:1: {DOCS}/gone.md does not exist"),
        ("a.toml", f"# {DOCS}/gone.md\n", f"a.toml:1: {DOCS}/gone.md does not exist"),
        ("README.md", "line\n" * 151, "README.md has 151 lines"),
    ],
)
def test_what_is_broken_is_named(tmp_path: Path, file: str, text: str, expected: str) -> None:
    done = run(tmp_path, {**SOUND, file: text})
    assert done.returncode == 1 and expected in done.stderr, done.stderr
    assert done.stderr.count("error:") == 1


def test_recordings_are_left_as_they_were_made(tmp_path: Path) -> None:
    assert run(tmp_path, {**SOUND, "crates/kforge/recordings/a.md": "[gone](gone.md)\n"}).returncode == 0
