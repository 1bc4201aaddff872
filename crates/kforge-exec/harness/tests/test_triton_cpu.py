"""Triton candidates under the interpreter, with `cuda` mapped to the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from triton_bench import COPY, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_cuda_means_the_cpu(bench: Bench) -> None:
    bench.write("").interpret(
        """
        x = torch.randn(4, device="cuda:0")
        assert x.is_cuda and not x.is_cpu and x.device == torch.device("cuda", 0) and x.get_device() == 0
        with triton_cpu.suspended():
            assert x.device.type == "cpu" and not x.is_cuda
        for y in (x.cuda(), x.to("cuda"), x.to(torch.device("cuda")), x.to(0), x.cuda(0, non_blocking=True),
                  torch.empty(3, device=x.device), torch.zeros(3, device="cuda"), torch.full((2,), 1.0, device=0),
                  torch.tensor([1.0], device="cuda"), torch.arange(3, device="cuda"), x.new_empty(2, device="cuda"),
                  torch.zeros_like(x, device="cuda"), torch.rand(3, device="cuda", pin_memory=True),
                  torch.as_tensor([1.0], device="cuda"), x.to(x), x.to("cuda", torch.float16),
                  x.to(device="cuda", dtype=torch.float64), torch.ones(2).pin_memory().cuda()):
            with triton_cpu.suspended():
                assert y.device.type == "cpu"
        copied = x.cpu(); copied.zero_()
        assert x.abs().sum() > 0
        m = torch.nn.Linear(4, 4, device="cuda").cuda().to("cuda:0").to(torch.device("cuda"))
        assert next(m.parameters()).is_cuda and m(x).shape == (4,)
        with torch.device("cuda"):
            assert torch.ones(2).is_cuda
        torch.set_default_device("cuda"); torch.ones(2); torch.set_default_device("cpu")
        g = torch.Generator(device="cuda"); g.manual_seed(3)
        assert isinstance(g, torch.Generator) and torch.randn(2, generator=g, device="cuda").shape == (2,)
        assert isinstance(torch.default_generator, torch.Generator)
        """
    )


def test_torch_cuda_answers(bench: Bench) -> None:
    bench.write("").interpret(
        """
        import triton
        cuda = torch.cuda
        assert cuda.is_available() and cuda.device_count() == 1 and cuda.current_device() == 0
        assert cuda.get_device_capability() == (9, 0) and "H100" in cuda.get_device_name(0)
        p = cuda.get_device_properties(torch.device("cuda"))
        assert p.multi_processor_count == 132 and p.shared_memory_per_block_optin == 232448 and p.major == 9
        cuda.set_device(0); cuda.synchronize(); cuda.empty_cache(); cuda.manual_seed(1); torch.manual_seed(1)
        assert cuda.current_stream().cuda_stream == 0
        s = cuda.Stream(); s.wait_stream(cuda.current_stream())
        with cuda.stream(s), cuda.device(0), torch.autocast("cuda", dtype=torch.bfloat16):
            assert (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")).dtype == torch.float32
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16), torch.random.fork_rng():
            pass
        a, b = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        a.record(); b.record(); b.synchronize(); assert a.elapsed_time(b) == 1.0
        torch.ones(2).record_stream(s)
        torch.accelerator.synchronize()
        active = triton.runtime.driver.active
        assert active.get_active_torch_device() == torch.device("cuda", 0) and active.get_current_device() == 0
        assert active.utils.get_device_properties(0)["multiprocessor_count"] == 132
        assert active.get_current_target().backend == "cuda" and active.get_current_target().arch == 90
        assert triton.testing.do_bench(lambda: 1 / 0) == 1.0
        assert triton.testing.do_bench(lambda: 0, quantiles=[0.5, 0.2, 0.8]) == [1.0] * 3
        try:
            cuda.CUDAGraph()
        except NotImplementedError as error:
            assert "interpreter" in str(error)
        else:
            raise AssertionError
        """
    )


def test_harness_code_sees_the_true_device(bench: Bench) -> None:
    bench.write("").interpret(
        """
        import types
        x = torch.ones(3)
        own = types.ModuleType("kforge_harness.hostile.outputs")
        exec("def kind(t): return t.device.type, t.is_cuda", own.__dict__)
        assert own.kind(x) == ("cpu", False) and x.device.type == "cuda"
        """
    )


def test_custom_operators_run_beneath_the_mode(bench: Bench) -> None:
    bench.write(
        COPY
        + """
@torch.library.custom_op("kforge_test::copy", mutates_args=(), device_types="cuda")
def op(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape, device="cuda")
    copy[(1,)](x, y, x.numel(), BLOCK=16)
    return y
"""
    ).interpret("x = torch.randn(9); close(c.op(x), x)")


def test_signatures_follow_tritons_rules(bench: Bench) -> None:
    bench.write(
        """
        @triton.jit
        def kernel(a, b, n, one, big, f, flag, nothing, kind: tl.constexpr, op: tl.constexpr, B: tl.constexpr,
                   name: tl.constexpr = "x", d: tl.constexpr = None):
            pass
        @triton.jit
        def inner(x):
            return x
        """
    )
    (launch,) = bench.interpret(
        """
        import triton.language as tl
        for _ in range(3):
            a, b = torch.empty(64, dtype=torch.float16), torch.empty(65, dtype=torch.int64)[1:]
            c.kernel[(2, 3)](a, b, 32, 1, 2**40, 1.5, True, None, tl.float32, c.inner, 8, num_warps=2, num_stages=1)
        assert triton_cpu.launch_count() == 3
        """
    )
    expected = {"a": "*fp16", "b": "*i64", "n": "i32", "one": "constexpr", "big": "i64", "f": "fp32", "flag": "u1",
                "nothing": "constexpr", "kind": "constexpr", "op": "constexpr", "B": "constexpr",
                "name": "constexpr", "d": "constexpr"}  # fmt: skip
    assert launch["signature"] == expected
    constants = {tuple(path): value for path, value in launch["constexprs"]}
    assert constants[(3,)] == 1 and constants[(7,)] is None and constants[(8,)] == {"dtype": "fp32"}
    assert constants[(9,)] == {"function": ["candidate", "inner"]} and constants[(11,)] == "x"
    attrs = {tuple(path): value for path, value in launch["attrs"]}
    divisible = [["tt.divisibility", 16]]
    assert attrs[(0,)] == divisible and attrs[(1,)] == [] and attrs[(2,)] == divisible
    assert launch["num_warps"] == 2 and launch["num_stages"] == 1 and launch["grid"] == [2, 3] and launch["count"] == 3
    (report,) = bench.compile([launch])
    assert report["ok"] and report["num_warps"] == 2, report["error"]


def test_records_are_deduplicated_and_capped(bench: Bench) -> None:
    launches = bench.write(COPY).interpret(
        """
        x = torch.randn(4096)
        for n in list(range(2, 300)) * 2:
            c.copy[(1,)](x, x.clone(), n, BLOCK=16 if n % 2 else 32)
        assert triton_cpu.launch_count() == 596
        for n in range(1, 300):
            c.copy[(1,)](x, x, 7, BLOCK=16, num_warps=1, num_stages=n)
        """
    )
    assert len(launches) == 200
    assert sum(launch["count"] for launch in launches if launch["options"] == {}) == 596


def test_skipped_kernels_leave_outputs_alone(bench: Bench) -> None:
    launches = bench.write(COPY).interpret(
        """
        x, y = torch.randn(16), torch.full((16,), 7.0)
        triton_cpu.skip_kernels(True)
        c.copy[(1,)](x, y, 16, BLOCK=16)
        assert (y == 7).all() and triton_cpu.launch_count() == 1
        triton_cpu.skip_kernels(False)
        c.copy[(1,)](x, y, 16, BLOCK=16)
        assert torch.equal(x, y)
        """
    )
    assert len(launches) == 1


AUTOTUNED = """
calls = []
def hook(args):
    calls.append(args["BLOCK"])
def prune(configs, named, **kwargs):
    raise AssertionError("pruned")
@triton.autotune(configs=[triton.Config({"BLOCK": 32}, num_warps=2, num_stages=5, pre_hook=hook),
                          triton.Config({"BLOCK": 64}, num_warps=8)],
                 key=["n"], reset_to_zero=["y_ptr"], prune_configs_by={"early_config_prune": prune})
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.atomic_add(y_ptr + offsets, tl.load(x_ptr + offsets))
    else:
        tl.atomic_add(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
"""


def test_autotuner_takes_its_first_configuration(bench: Bench) -> None:
    launches = bench.write(AUTOTUNED).interpret(
        """
        x, y = torch.randn(96), torch.ones(96)
        grid = lambda meta: (meta["n"] // meta["BLOCK"],)
        c.add[grid](x, y, 96)
        close(y, x)                     # the tuning resets once,
        c.add[grid](x, y, 96)
        close(y, 2 * x)                 # and a tuned kernel does not
        assert c.calls == [32, 32] and c.add.best_config.num_warps == 2
        assert triton_cpu.launch_count() == 2
        """
    )
    (launch,) = launches
    assert launch["num_warps"] == 2 and launch["num_stages"] == 5 and launch["grid"] == [3]
    assert [value for _, value in launch["constexprs"]] == [32, True]
    (other,) = launch["alternatives"]
    assert other["num_warps"] == 8 and [value for _, value in other["constexprs"]] == [64, False]


def test_numbers_of_the_interpreter(bench: Bench) -> None:
    bench.write(
        """
        from triton.language.extra import libdevice
        @triton.jit
        def kernel(a_ptr, b_ptr, c_ptr, y_ptr, N: tl.constexpr, P: tl.constexpr):
            i = tl.arange(0, N)
            at = i[:, None] * N + i[None, :]
            a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
            tl.store(c_ptr + at, tl.dot(a, b, input_precision=P))
            tl.store(y_ptr + at, tl.where(a > b, a * b + a, tl.maximum(a, b) - 0.5))
            tl.store(y_ptr + N * N + i, tl.sum(a, axis=1))
            tl.store(y_ptr + N * N + N + i, tl.max(b, axis=1))
        @triton.jit
        def special(x_ptr, y_ptr, N: tl.constexpr):
            i = tl.arange(0, N)
            x = tl.load(x_ptr + i)
            tl.store(y_ptr + i, libdevice.tanh(x))
            tl.store(y_ptr + N + i, tl.extra.cuda.libdevice.erf(x))
            tl.store(y_ptr + 2 * N + i, libdevice.pow(tl.abs(x), 1.5))
            tl.store(y_ptr + 3 * N + i, libdevice.fast_expf(x))
            tl.store(y_ptr + 4 * N + i, libdevice.div_rn(x, 3.0))
            tl.store(y_ptr + 5 * N + i, tl.where(libdevice.isnan(x), 1.0, 0.0))
        @triton.jit
        def unknown(x_ptr):
            tl.store(x_ptr, libdevice.fma_ru(tl.load(x_ptr), 1.0, 2.0))
        """
    ).interpret(
        """
        for kind, precision, tol in ((torch.bfloat16, "tf32", 1e-5), (torch.float16, "tf32", 1e-3),
                                     (torch.float32, "ieee", 1e-5)):
            a, b = torch.randn(32, 32).to(kind), torch.randn(32, 32).to(kind)
            out, y = torch.empty(32, 32), torch.empty(32 * 34, dtype=kind)
            c.kernel[(1,)](a, b, out, y, 32, precision)
            close(out, a.double() @ b.double(), tol)
            close(y[:1024].view(32, 32), torch.where(a > b, a * b + a, torch.maximum(a, b) - 0.5), 1e-2 if tol else tol)
            close(y[1056:], b.max(1).values)
            close(y[1024:1056], a.double().sum(1), {torch.bfloat16: 5e-2, torch.float16: 2e-2}.get(kind, 1e-5))
        c.kernel[(1,)](a, b, out, y, 32, "tf32")
        error = (out.double() - a.double() @ b.double()).abs().max()
        assert 1e-4 < error < 2e-2, error
        x = torch.randn(16); y = torch.empty(6, 16)
        c.special[(1,)](x, y, 16)
        close(y, torch.stack([x.tanh(), x.erf(), x.abs() ** 1.5, x.exp(), x / 3, x * 0]))
        try:
            c.unknown[(1,)](x)
        except Exception as error:
            assert "libdevice.fma_ru" in str(error), error
        else:
            raise AssertionError
        """
    )


def test_loop_variables_have_the_methods_of_scalars(bench: Bench) -> None:
    (launch,) = bench.write(
        """
        STEP = tl.constexpr(1)
        @triton.jit
        def total(x_ptr, y_ptr, n, stride, BLOCK: tl.constexpr):
            at = tl.arange(0, BLOCK)
            acc = tl.zeros((BLOCK,), dtype=tl.float32)
            for row in range(0, n, STEP):
                acc += tl.load(x_ptr + row.to(tl.int64) * stride + at)
            for row in tl.range(n):
                acc += tl.load(x_ptr + (n - 1 - row).to(tl.int64) * stride + at) * row.to(tl.float32)
            for row in tl.static_range(2):
                acc += tl.load(x_ptr + row * stride + at)
            for row in range(n):
                acc += (row * STEP + 1).to(tl.float32) * (row % 2)
            tl.store(y_ptr + at, acc)
        """
    ).interpret(
        """
        x, y = torch.randn(5, 16), torch.empty(16)
        c.total[(1,)](x, y, 5, 16, BLOCK=16)
        want = x.double().sum(0) + sum(x[4 - i].double() * i for i in range(5)) + x[:2].double().sum(0) + 2 + 4
        close(y, want)
        """
    )
    (report,) = bench.compile([launch])
    assert report["ok"], report["error"]


INNER = """
def make(block, scale, other):
    import triton.language as tl
    half, other, size = tl.constexpr(scale / 2), tl.constexpr(other), tl.constexpr(block)
    @triton.jit
    def helper(x):
        return x * other * half
    @triton.jit
    def inside(x_ptr, y_ptr, n, DOUBLE: tl.constexpr = True):
        at = tl.arange(0, size)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        tl.store(y_ptr + at, helper(x) if DOUBLE else x, mask=at < n)
    return inside
small, large = make(16, 2.0, 3.0), make(64, 8.0, 0.5)
class Holder:
    def __init__(self):
        self.kernel = make(32, 4.0, 1.0)
"""


def test_kernels_inside_functions_know_what_they_captured(bench: Bench) -> None:
    launches = bench.write(INNER.replace("import triton.language as tl", "")).interpret(
        """
        x = torch.randn(9)
        for kernel, factor in ((c.small, 3), (c.large, 2), (c.Holder().kernel, 2)):
            y = torch.empty(9)
            kernel[(1,)](x, y, 9)
            close(y, x * factor)
        """
    )
    assert len(launches) == 3
    reports = bench.compile(launches)
    assert all(report["ok"] for report in reports), reports
    sizes = [launch["closure"]["closure"]["captured"]["size"] for launch in launches]
    assert sizes == [{"constexpr": 16}, {"constexpr": 64}, {"constexpr": 32}]


def test_triton_may_be_imported_inside_a_function(bench: Bench) -> None:
    bench.candidate.write_text(
        "import torch\ndef make(*given):\n    import triton\n" + _indented(INNER, "make2(*given)")
    )
    (launch,) = bench.interpret(
        "x, y = torch.randn(9), torch.empty(9)\nc.make(16, 2.0, 3.0)[(1,)](x, y, 9)\nclose(y, x * 3)"
    )
    (report,) = bench.compile([launch])
    assert report["ok"], report["error"]


def _indented(source: str, call: str) -> str:
    body = source[: source.index("small, large")].replace("def make(", "def make2(").strip().splitlines()
    return "\n".join(f"    {line}" for line in body) + f"\n    return {call}\n"


def test_waiting_for_another_grid_has_a_meaning_here(bench: Bench) -> None:
    (launch,) = bench.write(
        """
        from triton.language.extra.cuda import gdc_launch_dependents
        @triton.jit
        def copy(x_ptr, y_ptr, BLOCK: tl.constexpr):
            at = tl.arange(0, BLOCK)
            tl.extra.cuda.gdc_wait()
            tl.store(y_ptr + at, tl.load(x_ptr + at))
            gdc_launch_dependents()
        """
    ).interpret("x, y = torch.randn(16), torch.empty(16)\nc.copy[(1,)](x, y, BLOCK=16, launch_pdl=True)\nclose(x, y)")
    (report,) = bench.compile([launch])
    assert report["ok"], report["error"]


@pytest.mark.parametrize(
    ("body", "construct"),
    [
        ("""x = tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [x], tl.float32, True, 1)""",
         "inline_asm_elementwise"),
        ("x += tl.extra.cuda.smid()", "smid"),
        ("x += tl.extra.cuda.globaltimer()", "globaltimer"),
        ("x += tl.extra.cuda.num_threads()", "num_threads"),
        ("x = tl.map_elementwise(twice, x)", "map_elementwise"),
        ("x = tl.extra.cuda.libdevice.fma_ru(x, 1.0, 2.0)", "libdevice.fma_ru"),
    ],
)  # fmt: skip
def test_what_only_a_gpu_can_do_is_no_error_of_the_candidate(bench: Bench, body: str, construct: str) -> None:
    bench.write(
        f"""
        @triton.jit
        def twice(x):
            return x * 2
        @triton.jit
        def device(x):
            {body}
            return x
        @triton.jit
        def kernel(x_ptr, BLOCK: tl.constexpr):
            at = tl.arange(0, BLOCK)
            tl.store(x_ptr + at, device(tl.load(x_ptr + at)))
        """
    ).interpret(
        f"""
        from kforge_harness.hostile import failure
        try:
            c.kernel[(1,)](torch.ones(16), BLOCK=16)
        except Exception as error:
            found = failure.classify(error, "forward", "candidate.py")
            assert (found.kind, found.text) == ("exception", "Triton's interpreter cannot run `{construct}`"), found.text
        else:
            raise AssertionError
        """
    )


def test_what_the_interpreter_refuses_passes_through(bench: Bench) -> None:
    bench.write(
        COPY
        + """
@triton.jit
def broken(x_ptr):
    tl.store(x_ptr, undefined_name)
"""
    )
    for call, message in (
        ("c.broken[(1,)](torch.ones(1))", "undefined_name"),
        ("c.copy[(1,)](torch.ones(4), torch.ones(4), 4)", "BLOCK"),
        ("c.copy[(1,)](torch.ones(4), torch.ones(4), 4, BLOCK=4, nonsense=3)", "nonsense"),
        ("c.copy[(1, 70000)](torch.ones(4), torch.ones(4), 4, BLOCK=4)", "70000"),
        ("c.copy[(0.5,)](torch.ones(4), torch.ones(4), 4, BLOCK=4)", "float"),
    ):
        result = bench.try_interpret(call)
        assert result.returncode != 0 and message in result.stderr.splitlines()[-1], result.stderr


def test_a_persistent_kernel_may_ask_its_compiled_form(bench: Bench) -> None:
    bench.write(COPY).interpret(
        """
        x, y = torch.randn(64), torch.empty(64)
        kernel = c.copy.warmup(x, y, 64, BLOCK=32, num_warps=8, grid=(1,))
        kernel._init_handles()
        assert kernel.n_regs > 0 and kernel.metadata.shared > 0 and kernel.metadata.num_warps == 8
        assert triton_cpu.launch_count() == 0
        kernel[(2, 1, 1)](x, y, 64, 32)
        close(x, y)
        again = c.copy.run(x, y, 64, BLOCK=32, grid=[2], warmup=False)
        assert again.n_spills == 0 and triton_cpu.launch_count() == 2
        """
    )


def test_triton_imported_too_early_is_said(bench: Bench) -> None:
    result = bench.script(
        "import triton.language\nfrom kforge_harness.hostile.triton import cpu as triton_cpu\n"
        "try:\n    triton_cpu.install()\nexcept RuntimeError as error:\n    print(error)\n"
    )
    assert "before triton_cpu.install()" in result.stdout, result.stdout + result.stderr
