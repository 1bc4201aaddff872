"""CuTe DSL candidates, compiled ahead of time; and how compiled functions are called, tried on the host."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from kforge_harness.hostile.cute import aot as cute_aot

HARNESS = Path(__file__).resolve().parents[1]
EXAMPLE = HARNESS.parents[1] / "kforge/targets/nvidia-cute/example/candidate.py"
EXAMPLES = [
    EXAMPLE,
    *sorted((Path(__file__).parent / "cute").glob("*.py")),
    *sorted((HARNESS.parents[2] / "examples/gpu").glob("*/nvidia_cute.py")),
]
HEAD = """
import cutlass
from cutlass import cute
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor

def fake(n=None):
    return make_fake_compact_tensor(cutlass.Float32, (n or cute.sym_int(),))
"""
needs_cute = pytest.mark.skipif(
    importlib.util.find_spec("cutlass") is None and "KFORGE_CUTE" not in os.environ,
    reason="no CuTe DSL here: scripts/cuda-tools brings it",
)


def compiled(tmp_path: Path, source: str, arch: str = "sm_90a", timeout_s: float = 120.0) -> list[dict[str, Any]]:
    """In a process of its own, as it is used: the compiler reads the architecture when it is imported."""
    path = tmp_path / "candidate.py"
    path.write_text(source)
    script = f"""
    import importlib.util, json
    from kforge_harness.hostile.cute import aot as cute_aot
    cute_aot.prepare({arch!r}, {str(tmp_path)!r})
    spec = importlib.util.spec_from_file_location("candidate", {str(path)!r})
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(json.dumps(cute_aot.compile_module(module, {arch!r}, {timeout_s})))
    """
    answer: list[dict[str, Any]] = json.loads(run(tmp_path, script).splitlines()[-1])
    return answer


def run(folder: Path, script: str) -> str:
    paths = [str(HARNESS), *(path for path in (os.environ.get("KFORGE_CUTE"),) if path), *sys.path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    env |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@needs_cute
@pytest.mark.parametrize(
    ("path", "arch"),
    [*((path, "sm_90a") for path in EXAMPLES), (EXAMPLE, "sm_80"), (EXAMPLE, "sm_100a")],
    ids=lambda value: value if isinstance(value, str) else f"{value.parent.name}-{value.stem}",
)
def test_examples_compile(tmp_path: Path, path: Path, arch: str) -> None:
    reports = compiled(tmp_path, path.read_text(), arch)
    assert reports and all(report["ok"] for report in reports), reports
    assert all(0 < report["registers"] <= 255 and report["stack"] == 0 for report in reports), reports
    assert list(tmp_path.glob(f"*.{arch}.cubin")), "the machine code is kept for the profile"


@needs_cute
def test_errors_name_the_line_and_no_path(tmp_path: Path) -> None:
    source = HEAD + textwrap.dedent("""
    @cute.kernel
    def kernel(x: cute.Tensor):
        total = 0
        for c in range(x.shape[0]):
            total = x[c]
        x[0] = total

    @cute.jit
    def launch(x: cute.Tensor):
        kernel(x).launch(grid=[1, 1, 1], block=[1, 1, 1])

    def ahead_of_time():
        return {"launch": cute.compile(launch, fake())}
    """)
    (report,) = compiled(tmp_path, source)
    assert (report["ok"], report["kind"]) == (False, "compile")
    assert "`total` has type `Int32` on one path and `Float32` on another" in report["error"]
    line = source.splitlines().index("    for c in range(x.shape[0]):") + 1
    assert f"candidate.py:{line}\n" in report["error"]
    assert "\x1b" not in report["error"] and str(tmp_path) not in report["error"]


@needs_cute
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", "no function ahead_of_time()"),
        ("ahead_of_time = 3", "no function ahead_of_time()"),
        ("def ahead_of_time(): return None", "no compiled functions"),
        ("def ahead_of_time(): return {'f': print}", "did not make"),
        ("@cute.jit\ndef f(x: cute.Tensor):\n    x[0] = 1.0\ndef ahead_of_time(): return {'f': cute.compile(f, fake())}", "has no kernel in it"),
    ],
)  # fmt: skip
def test_what_is_nothing_to_compile(tmp_path: Path, body: str, expected: str) -> None:
    (report,) = compiled(tmp_path, HEAD + body)
    assert (report["ok"], report["kind"]) == (False, "not_found") and expected in report["error"]


@needs_cute
def test_crashes_and_loops_end(tmp_path: Path) -> None:
    (report,) = compiled(tmp_path, HEAD + "import os\ndef ahead_of_time(): os.abort()")
    assert report["kind"] == "compile" and "signal 6" in report["error"]
    (report,) = compiled(tmp_path, HEAD + "def ahead_of_time():\n    while True: pass", timeout_s=1.0)
    assert report["kind"] == "compile" and "took more than 1 s" in report["error"]
    (report,) = compiled(tmp_path, HEAD + "def ahead_of_time(): raise SystemExit(3)")
    assert report["kind"] == "compile" and "SystemExit: 3" in report["error"]


@needs_cute
def test_a_call_with_dynamic_layouts_arrives_as_the_guide_says(tmp_path: Path) -> None:
    """The same convention as for a kernel, in a function that runs on the host."""
    script = """
    import importlib.util
    import torch
    from kforge_harness.hostile.cute import aot as cute_aot
    cute_aot.prepare("sm_90a", ".")
    spec = importlib.util.spec_from_file_location("candidate", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import make_fake_compact_tensor
    with open("probe.py", "w") as file:
        file.write("import cutlass\\nfrom cutlass import cute\\n@cute.jit\\ndef probe(x: cute.Tensor, y: cute.Tensor, eps: cutlass.Float32):\\n    y[0] = cutlass.Float32(x.shape[0])\\n    y[1] = cutlass.Float32(x.shape[1])\\n    y[2] = x[1, 2] + eps\\n")
    import sys
    sys.path.insert(0, ".")
    from probe import probe
    rows, cols, n = cute.sym_int(), cute.sym_int(), cute.sym_int()
    matrix = make_fake_compact_tensor(cutlass.Float32, (rows, cols), stride_order=(1, 0), assumed_align=16)
    vector = make_fake_compact_tensor(cutlass.Float32, (n,), stride_order=(0,), assumed_align=16)
    made = cute.compile(probe, matrix, vector, cutlass.Float32(0))
    x, y = torch.arange(40.0).reshape(5, 8), torch.nn.Parameter(torch.zeros(3))
    made(example.view(x), example.view(y), 0.25)
    print(y.tolist())
    """.replace("EXAMPLE", repr(str(EXAMPLE)))
    assert run(tmp_path, script).splitlines()[-1] == "[5.0, 8.0, 10.25]"


@needs_cute
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("early", [False, True])
def test_launches_are_counted_and_can_be_skipped(tmp_path: Path, skip: bool, early: bool) -> None:
    (tmp_path / "probe.py").write_text(
        HEAD
        + "@cute.jit\ndef one(x: cute.Tensor):\n    x[0] = cutlass.Float32(1.0)\nmade = cute.compile(one, fake())\n"
    )
    script = f"""
    import sys
    import torch
    from kforge_harness.hostile import audit
    from kforge_harness.hostile.cute import aot as cute_aot
    cute_aot.prepare("sm_90a", ".")
    if {early}:
        import cutlass.cute
    found = audit.install(skip_kernels={skip}, interpret=False, arch="", source="")
    sys.path.insert(0, ".")
    import probe
    x = torch.zeros(4)
    probe.made(x)
    probe.made(x)
    probe.one(probe.from_dlpack(x))
    print(found.launches(), float(x[0]))
    """
    assert run(tmp_path, script).split()[-2:] == ["3", "0.0" if skip else "1.0"]


def test_without_cute_the_kernel_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    (report,) = cute_aot.compile_module(cute_aot)
    assert report["kind"] == "toolchain" and "pip install nvidia-cutlass-dsl" in report["error"]
