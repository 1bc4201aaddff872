"""From a source to a file that can be loaded: by a compiler, by PTX's assembler, by NVRTC."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from . import _cuda
from ._errors import BuildError
from ._flags import joined
from ._launch import Dll

_COMPILE_TIMEOUT_S = 120


def compile_library(
    source: str,
    toolchain: dict[str, Any],
    compiler: str,
    flags: list[str],
    output: Path,
    names: dict[str, str],
    link: list[str],
) -> None:
    template: list[str] = []
    for word in toolchain["command"]:
        for placeholder, value in names.items():
            word = word.replace(placeholder, value)
        template += link if word == "{libs}" else [word]
    with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
        source_path = Path(scratch) / f"kernel{toolchain['suffix']}"
        source_path.write_text(source, encoding="utf-8")
        built = Path(scratch) / "kernel.so"
        places = {"{compiler}": compiler, "{source}": str(source_path), "{output}": str(built)}
        command: list[str] = []
        for word in template:
            command += flags if word == "{flags}" else [places.get(word, word)]
        log = _run(command, scratch)
        # Before the library: whoever finds the library also finds how it was made, such as kforge's profile.
        made = {"compiler": compiler, "flags": flags, "suffix": toolchain["suffix"], "source": source}
        made["command"] = [word for word in template if word != "{compiler}"]
        _keep(output, made, log if toolchain["device"] == "cuda" else "")
        os.replace(built, output)


def _run(command: list[str], scratch: str) -> str:
    """The compiler's log; `BuildError` with it where it failed."""
    # Further flags through the environment would not have been checked.
    env = {name: value for name, value in os.environ.items() if name not in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_COMPILE_TIMEOUT_S, env=env
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"the compiler ran for more than {_COMPILE_TIMEOUT_S} s") from None
    log = re.sub(r"\S*/tmpxft_\w+-\d+_", "", done.stderr.replace(scratch + os.sep, ""))
    if done.returncode != 0:
        raise BuildError(f"{Path(command[0]).name} failed with exit code {done.returncode}", log or done.stdout)
    return log


def _keep(output: Path, made: dict[str, Any], log: str) -> None:
    """How a build was made, and what the compiler said of registers and spills, beside what it made."""
    output.with_suffix(".json").write_text(json.dumps(made), encoding="utf-8")
    if log:
        output.with_suffix(".log").write_text(log, encoding="utf-8")


def assemble(source: str, flags: list[str], arch: str, output: Path) -> None:
    """PTX by the assembler; where there is none, the text itself, which the driver assembles when it is loaded."""
    made = {"compiler": "", "flags": flags, "suffix": ".ptx", "source": source, "arch": arch}
    made["command"] = [f"-arch={arch}", "{flags}", "{source}", "-o", "{output}"]
    assembler = _cuda.find_ptxas(arch)
    with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
        source_path, built = Path(scratch) / "kernel.ptx", Path(scratch) / "kernel.cubin"
        source_path.write_text(source, encoding="utf-8")
        if assembler is None:
            built, log = source_path, ""
        else:
            options = [
                word for flag in flags for word in re.sub("^(-Xptxas|--ptxas-options)=?", "", flag).split(",") if word
            ]
            log = _run([assembler, f"-arch={arch}", "-v", *options, str(source_path), "-o", str(built)], scratch)
        _keep(output, made | {"compiler": assembler or ""}, log)
        os.replace(built, output)


def nvrtc(source: str, flags: list[str], arch: str, output: Path) -> None:
    """CUDA C++ to a cubin by the library that comes with torch, where no nvcc is."""
    library = _cuda.nvrtc_library()
    lib = Dll(library)
    # What only nvcc knows is left out: the level is always the highest, and there is no host code.
    host = re.compile(r"-O[0-3]|--?(expt-.*|extended-lambda)|-Xcompiler.*|--split-compile.*|-isystem.*")
    known = [flag.replace("-Xptxas=", "--ptxas-options=") for flag in joined(flags) if not host.fullmatch(flag)]
    folders = [folder for folder in _cuda.includes(library) if os.path.isdir(folder)]
    options = [f"--gpu-architecture={arch}", "--ptxas-options=-v", *known, *(f"-I{folder}" for folder in folders)]
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        words = [option.encode() for option in options]
        code = lib.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
        lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(max(size.value, 1))
        lib.nvrtcGetProgramLog(program, text)
        log = text.value.decode("utf-8", "replace")
        if code != 0:
            raise BuildError(f"NVRTC failed with code {code}", log)
        lib.nvrtcGetCUBINSize(program, ctypes.byref(size))
        image = ctypes.create_string_buffer(max(size.value, 1))
        lib.nvrtcGetCUBIN(program, image)
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))
    made = {"compiler": library, "flags": flags, "suffix": ".cu", "source": source, "command": options, "arch": arch}
    _keep(output, made, log)
    with tempfile.NamedTemporaryFile(dir=output.parent, delete=False) as file:
        file.write(image.raw[: size.value])
    os.replace(file.name, output)
