"""How scripts/foreign_kernels.py makes candidates of wrappers and packages, and what it makes of answers."""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import runpy
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import foreign_inline
import foreign_kernels
import gpu_suite
import pytest

WRAPPER = '"""Doc.\n\npackage: pack\nproblem: p\n"""\n\n'


def package(root: Path, **files: str) -> foreign_inline.Package:
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in [path for path in root.rglob("*") if path.is_dir()]:
        if not (folder / "__init__.py").exists():
            (folder / "__init__.py").write_text("raise RuntimeError('the package was imported')\n")
    return foreign_inline.Package(root)


def inlined(pack: foreign_inline.Package, wrapper: str, stubs: str = "") -> dict[str, Any]:
    """What a candidate defines, once it has run by itself."""
    text = foreign_inline.Inliner(pack, stubs).candidate(WRAPPER + wrapper)
    candidate = pack.folder / "candidate.py"
    candidate.write_text(text)
    return {**runpy.run_path(str(candidate)), "text": text}


def test_only_what_is_needed_is_taken_and_in_the_order_of_need(tmp_path: Path) -> None:
    pack = package(
        tmp_path,
        pack__kernel="import math\nimport einops\nfrom .helper import twice as double\nSIZE = 4\nEXTRA = einops.x\n"
        "@staticmethod\ndef run(x):\n    # kept as it is\n    return math.floor(double(x)) + SIZE\n",
        pack__helper="def twice(x):\n    return 2 * x\ndef unused():\n    return 1\n",
    )
    made = inlined(pack, "from pack.kernel import run\n\nanswer = run(1.5)\n")
    assert made["answer"] == 7
    assert "# kept as it is" in made["text"] and "einops" not in made["text"] and "unused" not in made["text"]
    assert made["text"].startswith('"""Doc.') and "from pack" not in made["text"]


def test_imports_inside_functions_and_members_of_modules_are_written_out(tmp_path: Path) -> None:
    pack = package(
        tmp_path,
        pack__kernel="from . import helper\ndef run(x):\n    from .other import (\n        more as extra,\n    )\n"
        "    return extra(helper.twice(x)), helper.STATE\n",
        pack__helper="STATE = []\ndef twice(x):\n    STATE.append(x)\n    return 2 * x\n",
        pack__other="def more(x):\n    return x + 1\n",
    )
    assert inlined(pack, "from pack.kernel import run\n\nanswer = run(3)\n")["answer"] == (7, [3])


def test_a_name_made_in_several_steps_is_made_in_their_order(tmp_path: Path) -> None:
    text = "def run(x):\n    return x\ndef add(f):\n    return lambda x: f(x) + 1\nrun = add(run)\nrun = add(run)\n"
    pack = package(tmp_path, pack__kernel=text)
    assert inlined(pack, "from pack.kernel import run\n\nanswer = run(1)\n")["answer"] == 3


def test_names_of_a_functions_own_bring_nothing_of_the_module(tmp_path: Path) -> None:
    text = "import absent\nindex = absent.index\ndef run(x):\n    index = x\n    return [index for x in (1, 2)]\n"
    pack = package(tmp_path, pack__kernel=text)
    assert inlined(pack, "from pack.kernel import run\n\nanswer = run(5)\n")["answer"] == [5, 5]


def test_a_stub_takes_the_place_of_the_packages_own(tmp_path: Path) -> None:
    pack = package(
        tmp_path,
        pack__kernel="from pack.machine import is_other\nfrom pack.table import TABLE\ndef run():\n"
        "    return is_other(), TABLE\n",
        pack__machine="import transformers\ndef is_other():\n    return transformers.ask()\n",
        pack__table="TABLE = [1]\n",
    )
    wrapper = "from pack.kernel import run\n\nanswer = run()\n"
    with pytest.raises(foreign_inline.Unfit, match="`transformers` is imported"):
        inlined(pack, wrapper)
    stubs = "from pack.table import TABLE\ndef is_other():\n    return len(TABLE)\n"
    assert inlined(pack, wrapper, stubs)["answer"] == (1, [1])


def test_what_a_package_binds_goes_before_a_module_of_the_same_name(tmp_path: Path) -> None:
    pack = package(
        tmp_path,
        pack__kernel="from pack.tools import entry\ndef run(x):\n    return entry(x)\n",
        pack__tools__entry="def entry(x):\n    return x + 1\n",
    )
    (tmp_path / "pack/tools/__init__.py").write_text("from pack.tools.entry import entry\n")
    assert inlined(pack, "from pack.kernel import run\n\nanswer = run(1)\n")["answer"] == 2


def test_a_name_that_two_modules_make_differently_is_refused(tmp_path: Path) -> None:
    pack = package(
        tmp_path,
        pack__one="SIZE = 1\ndef first():\n    return SIZE\n",
        pack__two="SIZE = 2\ndef second():\n    return SIZE\n",
    )
    with pytest.raises(foreign_inline.Unfit, match="SIZE is made by both"):
        inlined(pack, "from pack.one import first\nfrom pack.two import second\n")


def test_what_is_not_in_the_package_is_said(tmp_path: Path) -> None:
    with pytest.raises(foreign_inline.Unfit, match=r"pack\.kernel defines no gone"):
        inlined(package(tmp_path, pack__kernel=""), "from pack.kernel import gone\n")


def test_every_wrapper_has_a_problem_and_a_version_and_every_problem_a_wrapper() -> None:
    problems = {path.stem for path in (foreign_kernels.TEXTS / "problems").glob("*.py")}
    used = set()
    for name, text in foreign_kernels.wrappers():
        used.add(foreign_kernels.required(text, "problem", name))
        of = foreign_kernels.required(text, "package", name)
        assert of == foreign_kernels.OURS or of in foreign_kernels.VERSIONS, name
        assert any(isinstance(node, ast.ClassDef) and node.name == "NewModel" for node in ast.parse(text).body), name
    assert used == problems
    assert len(list(foreign_kernels.wrappers())) >= 40


def test_archives_are_unpacked_without_what_lies_outside_or_is_no_python(tmp_path: Path) -> None:
    wheel, sources = tmp_path / "a-1-py3-none-any.whl", tmp_path / "b-1.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("a/x.py", "a/x.so", "../out.py"):
            archive.writestr(name, "x")
    with tarfile.open(sources, "w:gz") as archive:
        entry = tarfile.TarInfo("b-1/b/y.py")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"y"))
    for path in (wheel, sources):
        foreign_kernels.unpack(path, tmp_path / "out" / path.name)
    assert sorted(path.name for path in tmp_path.rglob("*.py")) == ["x.py", "y.py"]
    assert (tmp_path / "out/b-1.tar.gz/b/y.py").exists()


def test_sources_must_be_what_the_index_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, served = b"sources", {}

    def urlopen(address: str, timeout: float) -> io.BytesIO:
        return io.BytesIO(served[address])

    monkeypatch.setattr(foreign_kernels.urllib.request, "urlopen", urlopen)
    served["https://host/files/p-1.tar.gz"] = content
    page = '<a href="https://host/files/p-1.tar.gz#sha256={}">p</a>'
    served[f"{foreign_kernels.INDEX}p/"] = page.format(hashlib.sha256(content).hexdigest()).encode()
    assert foreign_kernels.download_sources("p", "p-1.tar.gz", tmp_path).read_bytes() == content
    served[f"{foreign_kernels.INDEX}p/"] = page.format("0" * 64).encode()
    with pytest.raises(foreign_inline.Unfit, match="not what the index says"):
        foreign_kernels.download_sources("p", "p-1.tar.gz", tmp_path)


def judge(folder: Path, monkeypatch: pytest.MonkeyPatch, said: tuple[int | None, str, str], only: str = "") -> int:
    names = ("fast", "slow")
    kernels = [foreign_kernels.Kernel(name, "pack", "1", "problems/p.py", f"candidates/{name}.py") for name in names]
    (folder / "manifest.json").write_text(json.dumps([vars(kernel) for kernel in kernels]))
    calls: list[list[str]] = []

    def run(command: list[str], timeout: float, env: object = None) -> tuple[int | None, str, str]:
        calls.append(command)
        return said

    monkeypatch.setattr(gpu_suite, "run", run)
    args = argparse.Namespace(
        kforge="kforge", python="", jobs=1, only=only, flags="--baselines eager", call_limit_s=1.0, json=None
    )
    code = foreign_kernels.judge(folder, args)
    assert len(calls) == 1 and calls[0][:3] == ["kforge", "eval", str(folder / "problems/p.py")]
    assert [Path(word).stem for word in calls[0][3:5]] == (["slow", "--target"] if only else ["fast", "slow"])
    return code


def test_candidates_of_a_problem_share_a_call_and_proven_speedups_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [{"state": "correct", "speedup": 2.5, "provisional": False}]
    answers += [{"state": "correct", "speedup": 1.5, "provisional": True}]
    assert judge(tmp_path, monkeypatch, (0, "\n".join(map(json.dumps, answers)), "")) == 0
    out = capsys.readouterr().out
    assert "| fast | pack 1 | correct | 2.50 | yes |" in out and "| slow | pack 1 | correct | 1.50 | no |" in out
    assert out.endswith("2 passed, 0 failed\n") and "1 proven speedups" in out


@pytest.mark.parametrize(
    ("said", "note"),
    [
        ((10, json.dumps({"state": "mismatch", "kind": "precision", "reason": "a | b"}), ""), "**failed** a / b"),
        ((70, "", "broken"), "**failed** exit 70: broken"),
        ((None, "", ""), "**failed** no answer in time"),
    ],
)
def test_whatever_is_not_correct_has_failed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: tuple[int | None, str, str],
    note: str,
) -> None:
    assert judge(tmp_path, monkeypatch, said, only="slow") == 1
    out = capsys.readouterr().out
    assert note in out and out.endswith("0 passed, 1 failed\n")


def test_fetch_writes_a_folder_that_needs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_kernels, "obtain", lambda *_: pytest.fail("nothing is to be downloaded"))
    folder = tmp_path / "made"
    assert foreign_kernels.fetch(folder, tmp_path, "^own_vector_add$") == 0
    (kernel,) = json.loads((folder / "manifest.json").read_text())
    assert (kernel["package"], kernel["problem"]) == (foreign_kernels.OURS, "problems/vector_add.py")
    assert "class NewModel" in (folder / kernel["candidate"]).read_text()
    assert "class Model" in (folder / kernel["problem"]).read_text()


def test_a_folder_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_kernels, "MOST_BYTES", 100)
    assert foreign_kernels.fetch(tmp_path / "made", tmp_path, "^own_vector_add$") == 1
