"""What scripts/kernelbench.py takes from a checkout, and what it makes of it."""

from __future__ import annotations

from pathlib import Path

import kernelbench

PROBLEM = (
    "import torch\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super(Model, self).__init__()\n"
)


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_a_reference_becomes_its_own_candidate_in_the_order_of_numbers(tmp_path: Path) -> None:
    for name in ("10_Ten.py", "9_Nine.py"):
        put(tmp_path, f"kb/KernelBench/level2/{name}", PROBLEM)
    scratch = tmp_path / "made"
    scratch.mkdir()
    cases = list(kernelbench.references(tmp_path / "kb", "12", "nvidia/cuda", scratch))
    assert [case.name for case in cases] == ["level2/9_Nine", "level2/10_Ten"]
    made = cases[0].candidate.read_text()
    assert "class ModelNew(" in made and "super(ModelNew, self)" in made and cases[0].expected == "correct"


def test_published_kernels_find_their_problems_once_and_cheats_are_not_to_succeed(tmp_path: Path) -> None:
    root = tmp_path / "kb"
    prompts, cheats = "src/kernelbench/prompts", "src/kernelbench/unit_tests/test_kernels"
    put(root, f"{prompts}/model_ex_add.py", PROBLEM)
    put(root, f"{prompts}/model_new_ex_add.py", "load_inline(1)")
    put(root, f"{prompts}/model_new_ex_add_triton.py", "import triton")
    put(root, f"{prompts}/model_new_ex_add_tilelang.py", "import tilelang, triton")
    put(root, f"{prompts}/model_new_ex_gone.py", "load_inline(2)")
    put(root, f"{prompts}/few_shot/model_ex_add.py", PROBLEM)
    put(root, f"{prompts}/few_shot/model_new_ex_add.py", "load_inline(1)")
    put(root, "ref_0.py", PROBLEM)
    put(root, "test_kernel_0.py", "load_inline(3)")
    put(root, f"{cheats}/zero_out_kernel.py", "load_inline(4)")
    found = {case.candidate.name: case for case in kernelbench.published(root)}
    assert {name: case.target for name, case in found.items()} == {
        "model_new_ex_add.py": "nvidia/cuda",
        "model_new_ex_add_triton.py": "nvidia/triton",
        "test_kernel_0.py": "nvidia/cuda",
        "zero_out_kernel.py": "nvidia/cuda",
    }
    assert found["test_kernel_0.py"].problem == root / "ref_0.py"
    assert found["model_new_ex_add_triton.py"].problem == root / prompts / "model_ex_add.py"
    assert [name for name, case in found.items() if case.expected != "correct"] == ["zero_out_kernel.py"]
