"""One candidate under a tool: on the CPU here, so that every step but the GPU's is seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from kforge_harness.hostile import tools
from kforge_harness.shared import layout

HARNESS = Path(__file__).parent.parent / "kforge_harness"

CANDIDATE = """
import torch
from torch import nn
class NewModel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 4)
        self.calls = 0
    def prepare(self):
        open("prepared", "w").write("yes")
    def forward(self, x):
        self.calls += 1
        with open("called", "a") as file:
            file.write(f"{float(self.fc(x).sum())} {x.stride()} {self.training}\\n")
        return self.fc(x)
"""


def spec_of(folder: Path, source: str = CANDIDATE) -> dict[str, Any]:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(8, 3).t(), torch.randn(4, 8), torch.randn(4)
    skeleton, tensors = layout.split([x])
    fields, size = layout.plan(tensors)
    weight_fields, weight_size = layout.plan([weight, bias])
    for name, kept, memory in (
        ("inputs", (fields, tensors), bytearray(size)),
        ("weights", (weight_fields, [weight, bias]), bytearray(weight_size)),
    ):
        layout.write(kept[0], memory, kept[1])
        (folder / f"{name}.bin").write_bytes(memory)
    return {
        "source": textwrap.dedent(source),
        "filename": "candidate.py",
        "device": "cpu",
        "threads": 1,
        "prepare": True,
        "warm_up": 2,
        "calls": 1,
        "wait_for": "",
        "status": str(folder / "status.json"),
        "input_bytes": size,
        "inputs": {"fd": -1, "bytes": size, "file": str(folder / "inputs.bin")},
        "weights": {"fd": -1, "bytes": weight_size, "file": str(folder / "weights.bin")},
        "variant": {
            "init": layout.pack([8]),
            "input_skeleton": layout.pack(skeleton),
            "inputs": [vars(field) for field in fields],
            "weights": [
                {"name": "fc.weight", "field": vars(weight_fields[0])},
                {"name": "fc.bias", "field": vars(weight_fields[1])},
            ],
            "training": False,
        },
    }


def solo(folder: Path, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    (folder / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-IB", "-X", "utf8", str(HARNESS / "hostile" / "solo.py"), str(folder / "spec.json")]
    subprocess.run(command, cwd=folder, check=False, timeout=120, **more)
    told: dict[str, Any] = json.loads((folder / "status.json").read_text())
    return told


def test_it_is_called_with_the_given_inputs_and_weights(tmp_path: Path) -> None:
    told = solo(tmp_path, spec_of(tmp_path))
    assert told["done"], told
    torch.manual_seed(0)
    x, weight, bias = torch.randn(8, 3).t(), torch.randn(4, 8), torch.randn(4)
    value, stride = (tmp_path / "called").read_text().splitlines()[0].split(" ", 1)
    assert float(value) == pytest.approx(float((x @ weight.t() + bias).sum()), rel=1e-4)
    assert stride == "(1, 3) False"
    assert len((tmp_path / "called").read_text().splitlines()) == 3
    assert (tmp_path / "prepared").exists()


def test_regions_are_taken_from_descriptors_where_a_tool_leaves_them_open(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    fd = os.open(tmp_path / "inputs.bin", os.O_RDONLY)
    spec["inputs"].update(fd=fd, file="/nowhere")
    told = solo(tmp_path, spec, pass_fds=[fd])
    os.close(fd)
    assert told["done"], told


@pytest.mark.parametrize(
    ("source", "stage"),
    [
        ("raise RuntimeError('at import')", "at import"),
        ("x = 1", "neither"),
        (CANDIDATE.replace("self.calls += 1", "raise SystemExit(0)"), "called exit"),
    ],
)
def test_what_fails_is_told(tmp_path: Path, source: str, stage: str) -> None:
    told = solo(tmp_path, spec_of(tmp_path, source))
    assert not told["done"]
    assert stage in told["error"]


FAKE_TOOL = """#!/bin/sh
# A profiler writes its log where it is told to, then runs what follows.
while [ "$1" != "--log-file" ]; do shift; done
log="$2"; shift 2
echo "==PROF== Connected" > "$log"
echo "from the tool"
"$@"
echo "ended $?" >> "$log"
"""


def started(
    folder: Path, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], limit_s: float = 60, waits: bool = True
) -> tools.Tool:
    monkeypatch.chdir(folder)
    program = folder / "fake-tool"
    program.write_text(FAKE_TOOL)
    program.chmod(0o755)
    inputs = os.open(folder / "inputs.bin", os.O_RDWR)
    weights = os.open(folder / "weights.bin", os.O_RDWR)
    what = {
        "program": str(program),
        "arguments": ["--some", "option"],
        "log_option": "--log-file",
        "limit_s": limit_s,
        "environment": {"KFORGE_SEEN": "1"},
        "waits": waits,
    }
    tool = tools.Tool({"tool": what, "solo": spec}, [-1, inputs, -1, -1, weights])
    assert tool.start() == {"started": True}
    return tool


def test_a_tool_starts_it_and_its_log_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = started(tmp_path, monkeypatch, spec_of(tmp_path)).collect()
    assert answer["log"] == "==PROF== Connected\nended 0\n"
    assert "from the tool" in answer["output"]
    assert answer["status"]["done"], answer
    assert answer["code"] == 0
    assert not list(tmp_path.glob("tool-*"))
    stages = [
        "start of the tool",
        "import torch",
        "start the device",
        "wait",
        "import",
        "construct",
        "warm-up",
        "calls",
    ]
    assert list(answer["status"]["seconds"]) == stages


def test_a_program_that_need_not_wait_runs_before_anybody_collects_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = started(tmp_path, monkeypatch, spec_of(tmp_path), waits=False)
    assert tool._process is not None
    assert tool._process.wait(timeout=120) == 0
    assert (tmp_path / "called").exists()
    assert tool.collect()["status"]["done"]


def test_a_tool_that_hangs_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = CANDIDATE.replace("self.calls += 1", "import time; time.sleep(600)")
    answer = started(tmp_path, monkeypatch, spec_of(tmp_path, hangs), limit_s=1.0).collect()
    assert answer["timed_out"]
    assert answer["log"].startswith("==PROF==")


def test_encodings_are_left_out() -> None:
    text = (
        "\tcode for sm_90a\n\t\tFunction : gemm\n"
        "        /*0010*/                   LDG.E.128 R4, [R2.64] ;      /* 0x0000000000077919 */\n"
        "                                                               /* 0x000e6e0000002100 */\n"
    )
    assert tools.slim(text) == "Function : gemm\nLDG.E.128 R4, [R2.64] ;"


def test_only_libraries_with_device_code_and_plain_files_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "host.so").write_bytes(b"\x7fELF" + bytes(100))
    (tmp_path / "link.cubin").symlink_to("/etc/passwd")
    (tmp_path / "k.json").write_text('{"name": "k", "target": {}, "shared": 5, "num_warps": [1]}')
    (tmp_path / "bad.json").write_text("{")
    found = tools.code(str(tmp_path), str(tmp_path), sass=False)
    assert found["triton"] == [{"name": "k", "shared": 5}]
    assert found["files"] == []
    assert found["found"] == 0


def test_the_compilers_own_log_is_taken_where_a_build_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "cuobjdump", lambda: None)
    log = "ptxas info    : Function properties for k\n    8 bytes stack frame\nptxas info    : Used 40 registers\n"
    (tmp_path / "k-1.cubin").write_bytes(b"\x7fELF" + bytes(100))
    (tmp_path / "k-1.log").write_text(log)
    (tmp_path / "k-2.cubin").write_bytes(b"\x7fELF" + bytes(100))
    (tmp_path / "k-2.log").write_text("kernel.cu(3): warning: a variable was declared but never referenced\n")
    found = tools.code(str(tmp_path), str(tmp_path / "none"), sass=False)
    assert found["files"] == [{"usage": log}]
    assert (found["found"], found["tool"]) == (2, "the compiler's report")
    assert tools.code(str(tmp_path), str(tmp_path / "none"), sass=True)["files"] == []


@pytest.mark.skipif(tools.cuobjdump() is None, reason="needs cuobjdump, which comes with Triton")
def test_a_cubin_of_tritons_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    source = tmp_path / "kernel.py"
    source.write_text(
        "import triton, triton.language as tl\n@triton.jit\ndef scale(x, n, B: tl.constexpr):\n"
        "    i = tl.program_id(0) * B + tl.arange(0, B)\n"
        "    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)\n"
    )
    names: dict[str, Any] = {}
    monkeypatch.syspath_prepend(str(tmp_path))
    exec("from kernel import scale", names)
    made = triton.compiler.ASTSource(
        fn=names["scale"],
        signature={"x": "*fp32", "n": "i32", "B": "constexpr"},
        constexprs={"B": 256},
    )
    triton.compile(made, target=triton.backends.compiler.GPUTarget("cuda", 90, 32))
    usage = tools.code(str(tmp_path / "none"), str(tmp_path), sass=False)
    assert usage["triton"][0]["name"] == "scale"
    assert "Function scale:" in usage["files"][0]["usage"]
    sass = tools.code(str(tmp_path / "none"), str(tmp_path), sass=True)
    assert "Function : scale" in sass["files"][0]["sass"]
    assert "STG.E" in sass["files"][0]["sass"]
    assert "/*" not in sass["files"][0]["sass"]
