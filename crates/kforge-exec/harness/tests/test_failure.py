"""Whatever a candidate raises becomes a kind and a few lines to act on."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest

import kforge_rt
from kforge_harness.hostile.failure import Failure, classify, first_compiler_error
from kforge_rt._errors import MissingCompiler


def kind_and_text(error: BaseException, stage: str = "forward") -> tuple[str, str]:
    found = classify(error, stage, "candidate.py")
    return found.kind, found.text


def compiler_log(tmp_path: Path, source: str) -> str:
    path = tmp_path / "kernel.cpp"
    path.write_text(source)
    done = subprocess.run(["c++", "-Wall", "-fsyntax-only", str(path)], capture_output=True, text=True)
    return done.stderr.replace(str(path), "kernel.cpp")


def test_the_first_error_of_a_real_log_with_its_source_line(tmp_path: Path) -> None:
    log = compiler_log(tmp_path, 'extern "C" int f() { return nothing; }\nextern "C" int g() { flot x; return 0; }\n')
    lines = first_compiler_error(log).splitlines()
    assert lines[0].startswith("kernel.cpp:1:29: error:") and "nothing" in lines[0]
    assert "return nothing;" in lines[1]
    assert lines[-1].endswith("more errors follow)") and "flot" not in "\n".join(lines)


def test_a_warning_about_something_called_error_is_not_the_error(tmp_path: Path) -> None:
    log = compiler_log(tmp_path, "int f() { int error = 1; return 0; }\nint g() { return nothing; }\n")
    assert "int error = 1;" in log, "the compiler showed the line"
    found = first_compiler_error(log)
    assert found.splitlines()[0].startswith("kernel.cpp:2:") and "more errors" not in found


@pytest.mark.parametrize(
    "log, expected",
    [
        ("x.cu(3): error: identifier is undefined\n1 error detected", "x.cu(3): error: identifier is undefined"),
        ("note\nptxas error   : Entry function uses too much shared data\n", "ptxas error   : Entry function uses"),
        ("ld: warning\ncollect2: error: ld returned 1 exit status", "collect2: error: ld returned 1 exit status"),
        ("x.cpp:1:10: fatal error: a.h: No such file or directory", "x.cpp:1:10: fatal error: a.h"),
        # Logs of nvcc 13.4, its assembler and NVRTC 13.2.
        (
            'kernel.cu(1): warning #177-D: variable "error" was declared but never referenced\n'
            "  int f() { int error = 1; return 0; }\n                ^\n\nRemark: The warnings can be suppressed\n\n"
            'kernel.cu(3): error: identifier "nothing" is undefined\n      y[0] = nothing;\n             ^\n\n'
            '1 error detected in the compilation of "kernel.cu".\n',
            'kernel.cu(3): error: identifier "nothing" is undefined\n      y[0] = nothing;\n             ^',
        ),
        (
            "ptxas kernel.ptx, line 7; error   : Unknown modifier '.f33'\n"
            "ptxas kernel.ptx, line 7; error   : Unexpected instruction types specified for 'st'\n"
            "ptxas fatal   : Ptx assembly aborted due to errors\n",
            "ptxas kernel.ptx, line 7; error   : Unknown modifier '.f33'\n(1 more errors follow)",
        ),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_35'\n", "nvcc fatal   : Unsupported gpu architecture"),
        ("only\nsome\ntext", "only\nsome\ntext"),
        ("", ""),
    ],
)
def test_other_forms_of_logs(log: str, expected: str) -> None:
    assert first_compiler_error(log).startswith(expected)


def test_a_long_log_is_cut() -> None:
    assert len(first_compiler_error("k.cpp:1:1: error: " + "x" * 10_000)) <= 400
    assert len(first_compiler_error("y" * 100_000)) <= 6000


def test_the_runtime_s_errors_have_kinds() -> None:
    assert kind_and_text(kforge_rt.BuildError("failed", "k.cpp:1:2: error: bad")) == (
        "compiler",
        "k.cpp:1:2: error: bad",
    )
    assert kind_and_text(kforge_rt.BuildError("refused")) == ("compiler", "refused")
    assert kind_and_text(kforge_rt.FlagError("flag -x is not allowed"))[0] == "flag"
    assert kind_and_text(kforge_rt.LaunchError("f returned 3")) == ("launch", "f returned 3")


def test_a_missing_compiler_is_named_to_whoever_can_look_for_it() -> None:
    assert kind_and_text(MissingCompiler("no nvcc", "nvcc")) == ("missing:nvcc", "no nvcc")
    for tool in ("", "../../bin/sh", "a" * 13, "nvcc\n", 7, None):
        assert kind_and_text(MissingCompiler("hm", tool)) == ("compiler", "hm"), tool  # type: ignore[arg-type]


def test_a_compiler_that_the_candidate_ran_itself() -> None:
    error = subprocess.CalledProcessError(1, ["/usr/bin/g++-13", "x.cpp"], stderr=b"x.cpp:1:1: error: no\xff")
    assert kind_and_text(error) == ("compiler", "x.cpp:1:1: error: no\ufffd")
    assert kind_and_text(subprocess.CalledProcessError(1, ["make"]))[0] == "exception"


def test_an_extension_that_did_not_build() -> None:
    error = RuntimeError("Error building extension 'k': [1/2] c++ ...\nmain.cpp:5:1: error: expected ';'\n")
    assert kind_and_text(error) == ("compiler", "main.cpp:5:1: error: expected ';'")


def test_exit_is_a_failure_like_others() -> None:
    assert kind_and_text(SystemExit(3)) == ("exit", "the candidate called exit with 3")
    assert kind_and_text(SystemExit()) == ("exit", "the candidate called exit with no code")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_a_full_scratch(code: int) -> None:
    assert kind_and_text(OSError(code, "x"))[0] == "disk_limit"


@pytest.mark.parametrize("code", [errno.EPERM, errno.EACCES, errno.EROFS])
def test_what_the_sandbox_refuses(code: int) -> None:
    kind, text = kind_and_text(OSError(code, "refused", "/etc/shadow"))
    assert kind == "sandbox" and "/etc/shadow" in text and "working folder" in text


def test_memory() -> None:
    assert kind_and_text(MemoryError()) == ("out_of_memory", "out of memory")
    text = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
    assert kind_and_text(RuntimeError(text))[0] == "out_of_memory"


def test_a_syntax_error_names_line_and_text() -> None:
    with pytest.raises(SyntaxError) as caught:
        compile("a = 1\nb = = 2\n", "candidate.py", "exec")
    kind, text = kind_and_text(caught.value, "import")
    assert kind == "syntax" and "line 2" in text and "b = = 2" in text


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def test_a_broken_message_breaks_nothing() -> None:
    kind, text = kind_and_text(Broken())
    assert kind == "exception" and text == "Broken: Broken (its message cannot be printed)"


def test_the_cause_is_what_counts() -> None:
    with pytest.raises(RuntimeError) as caught:
        try:
            raise kforge_rt.BuildError("failed", "k.cpp:9:9: error: deep")
        except kforge_rt.BuildError as inner:
            raise RuntimeError("could not set up") from inner
    assert kind_and_text(caught.value) == ("compiler", "k.cpp:9:9: error: deep")


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert kind_and_text(first) == ("exception", "ValueError: a")


@pytest.mark.parametrize("stage, kind", [("import", "import"), ("construct", "construct"), ("forward", "exception")])
def test_the_stage_names_what_has_no_other_name(stage: str, kind: str) -> None:
    assert kind_and_text(ValueError("x"), stage) == (kind, "ValueError: x")


def test_the_candidate_s_own_line_is_told(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_text("def f():\n    return {}['missing']\n")
    space: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    with pytest.raises(KeyError) as caught:
        space["f"]()  # type: ignore[operator]
    _kind, text = kind_and_text(caught.value)
    assert text == "KeyError: 'missing'\n  at candidate.py:2: return {}['missing']"


def test_what_is_classified_stays_as_it_is() -> None:
    known = Failure("shape", "text")
    assert classify(known, "forward", "x.py") is known


def test_a_huge_message_is_cut() -> None:
    assert len(kind_and_text(ValueError("x" * 10**6))[1]) < 7000
