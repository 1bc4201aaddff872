"""One candidate alone in a process that a tool has started: a profiler, or a checker of memory and races.

    python -I -X utf8 solo.py SPEC.json

It runs inside the candidate's sandbox. Such a tool starts its program itself, so this cannot be a fork of the zygote
and pays for importing torch; nothing is done here that is not needed. Calls to warm up come first; the calls that
count lie between `cudaProfilerStart` and `cudaProfilerStop`. How far it came is left in a file: the exit code is the
tool's.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import sys
import time
from typing import Any

_PATIENCE_S = 120.0


def main() -> None:
    harness = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, harness)
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    from kforge_harness.hostile import solo

    sys.exit(solo.run(spec))


def run(spec: dict[str, Any]) -> int:
    """0 when all calls were made; else the reason is in the status file."""
    begun = time.monotonic()
    told: dict[str, Any] = {"stage": "import torch", "done": False, "error": "", "seconds": {}}
    if "begun" in spec:
        told["seconds"]["start of the tool"] = round(begun - spec["begun"], 3)

    def stage(name: str) -> None:
        nonlocal begun
        now = time.monotonic()
        told["seconds"][told["stage"]] = round(now - begun, 3)
        told["stage"], begun = name, now
        with open(spec["status"], "w", encoding="utf-8") as file:
            json.dump(told, file)

    try:
        _run(spec, stage)
    except BaseException as error:  # whatever a candidate raises
        from kforge_harness.hostile.failure import classify

        told["error"] = classify(error, told["stage"], spec["filename"]).text[:2000]
    told["done"] = not told["error"]
    stage("end")
    return 0 if told["done"] else 1


def _run(spec: dict[str, Any], stage: Any) -> None:
    gc.disable()  # a sixth of the time that importing torch takes
    import torch

    from kforge_harness.hostile import modules
    from kforge_harness.shared import layout
    from kforge_harness.shared.align import align
    from kforge_harness.shared.modes import of_calls

    gc.enable()
    torch.set_num_threads(spec["threads"])
    device = torch.device(spec["device"])
    stage("start the device")
    torch.zeros(1, device=device)
    stage("wait")
    _wait_for(spec["wait_for"])
    stage("import")
    found = modules.find_class(modules.load_candidate(spec["source"], spec["filename"]))
    stage("construct")
    variant = spec["variant"]
    inputs, weights = _region(spec["inputs"]), _region(spec["weights"])
    tensors = [layout.Field(**field).view(inputs).to(device) for field in variant["inputs"]]
    skeleton = layout.unpack(variant["input_skeleton"])
    with device:
        model = found(*layout.unpack(variant["init"]))
    model.to(device)
    if not variant["training"]:
        model.eval()
    align(model, [(w["name"], layout.Field(**w["field"]).view(weights)) for w in variant["weights"]])
    with of_calls(variant.get("autograd", False)):
        if spec["prepare"] and callable(getattr(model, "prepare", None)):
            model.prepare()
        # Inputs are drawn once: a candidate that writes to them does so in every call alike.
        stage("warm-up")
        for _ in range(spec["warm_up"]):
            model(*layout.join(skeleton, tensors))
        _synchronise(device)
        stage("calls")
        if device.type == "cuda":
            torch.cuda.cudart().cudaProfilerStart()
        for _ in range(spec["calls"]):
            model(*layout.join(skeleton, tensors))
        _synchronise(device)
        if device.type == "cuda":
            torch.cuda.cudart().cudaProfilerStop()


def _synchronise(device: Any) -> None:
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def _wait_for(path: str) -> None:
    """Torch is imported while others still use the GPU; the calls wait until it is ours."""
    deadline = time.monotonic() + _PATIENCE_S
    while path and not os.path.exists(path):
        if time.monotonic() > deadline:
            raise TimeoutError("nobody said go")
        time.sleep(0.005)


def _region(place: dict[str, Any]) -> memoryview:
    """By the inherited descriptor, or by the file where a tool has closed it."""
    size = place["bytes"]
    if size == 0:
        return memoryview(b"")
    try:
        if os.fstat(place["fd"]).st_size < size:
            raise OSError("not that region")
        return memoryview(mmap.mmap(place["fd"], size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE))
    except (OSError, ValueError):
        fd = os.open(place["file"], os.O_RDONLY)
        try:
            return memoryview(mmap.mmap(fd, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE))
        finally:
            os.close(fd)


if __name__ == "__main__":
    main()
