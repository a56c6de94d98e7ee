"""CUDA text that plans generate: NVRTC compiles it, on a machine without a GPU too."""

from __future__ import annotations

import ctypes
import importlib.util
import pathlib

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.compile.pipeline import compile_plan
from fluidlite.executor.cuda.channel_text import FILES, channels_text, launches_of
from fluidlite.executor.cuda.elementwise import FusedKernel
from fluidlite.executor.cuda.kernel import kernel_source
from fluidlite.executor.plan.plan import FeedSpec, Target
from fluidlite.ops.kernels.scalar import FUNCTIONS
from fluidlite.ops.neural import batch_norm


def nvrtc() -> ctypes.CDLL:
    """NVRTC's library, from the wheel that the `test` extra brings."""
    found = importlib.util.find_spec("nvidia")
    folders = list(found.submodule_search_locations or ()) if found else []
    for folder in folders:
        for path in pathlib.Path(folder).rglob("libnvrtc.so*"):
            if "builtins" not in path.name:
                return ctypes.CDLL(str(path))
    raise AssertionError("the wheel nvidia-cuda-nvrtc-cu12 is not installed: pip install 'fluidlite[test]'")


def compile_text(text: str) -> str:
    """The compiler's log; AssertionError with it where the text does not compile."""
    library, program = nvrtc(), ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(b"-arch=compute_80")
    status = library.nvrtcCompileProgram(program, 1, options)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    assert status == 0, f"{log.value.decode()}\n{text}"
    return log.value.decode()


def kernels(
    program: fluid.Program, feeds: dict[str, FeedSpec], fetches: list[str], scope: fluid.Scope
) -> list[FusedKernel]:
    """The fused kernels of the plan that a device would run."""
    block = program.global_block()
    plan = compile_plan(block, block.ops, feeds, fetches, scope, Target(on_host=False))
    return [thing for thing in plan.bound_objects() if isinstance(thing, FusedKernel)]


def activation_types() -> list[str]:
    """Ops declared by one scalar expression."""
    import fluidlite.ops.math.activation  # noqa: F401
    from fluidlite.base import registry

    return sorted(
        name for name, op in registry._OPS.items() if getattr(op, "expr", None) and list(op.inputs) == ["X"]
    )


@pytest.mark.parametrize("op_type", activation_types())
def test_activation_compiles_forward_and_backward(op_type: str) -> None:
    main, scope = fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [4, 6], "float32")
        x.stop_gradient = False
        out = main.global_block().create_var(name="out", dtype="float32")
        main.global_block().append_op(type=op_type, inputs={"X": x}, outputs={"Out": out})
        fetches = ["out"]
        if main.global_block().ops[-1].definition.differentiable:
            fetches += [var.name for var in fluid.gradients(out, x) if var is not None]
    found = kernels(main, {"x": FeedSpec((4, 6), np.dtype("float32"))}, fetches, scope)
    assert found
    for kernel in found:
        compile_text(kernel.text)


@pytest.mark.parametrize("shape", [(6,), (4, 1), (1, 6), (1,), (4, 6)])
def test_broadcast_index_compiles(shape: tuple[int, ...]) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x, y = fluid.data("x", [4, 6], "float32"), fluid.data("y", list(shape), "float32")
        out = fluid.layers.elementwise_mul(x, y)
    feeds = {"x": FeedSpec((4, 6), np.dtype("float32")), "y": FeedSpec(shape, np.dtype("float32"))}
    found = kernels(main, feeds, [out.name], fluid.Scope())
    assert len(found) == 1
    compile_text(found[0].text)


def test_every_function_has_cuda_text() -> None:
    names = "abc"
    body = []
    for index, (function, (_, text)) in enumerate(FUNCTIONS.items()):
        operands = (
            names[: text.count("{") - text.count("{0}") + 1] if "{1}" in text or "{2}" in text else names[:1]
        )
        body.append(f"  out[{index}] = {text.format(*(list(operands) + list(names))[:3])};  // {function}")
    source = (
        'extern "C" __global__ void all(float a, float b, float c, float* out) {\n'
        + "\n".join(body)
        + "\n}\n"
    )
    compile_text(source)


def test_updates_of_many_parameters_are_one_kernel() -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [8, 6], "float32")
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(fluid.layers.fc(x, 300), 200), 1))
        fluid.optimizer.Adam(0.1).minimize(loss)
    fluid.Executor(fluid.CPUPlace()).run(startup, scope=scope)
    found = kernels(main, {"x": FeedSpec((8, 6), np.dtype("float32"))}, [loss.name], scope)
    updates = [kernel for kernel in found if len(kernel.parts) > 1]
    assert len(updates) <= 3  # step sizes, then moments and parameters, then powers
    assert sorted(
        part.size for part in max(updates, key=lambda kernel: sum(part.size for part in kernel.parts)).parts
    )[-5:] == [200, 200, 300, 1800, 60000]
    for kernel in updates:
        assert kernel.blocks == sum(part.blocks for part in kernel.parts)
        compile_text(kernel.text)


WRITTEN = {
    ("blocks.cuh", "softmax.cu"): ("EACH_ROW",),
    ("blocks.cuh", "embedding.cu"): ("BY_PLACE",),
    ("blocks.cuh", "auc.cu"): (),
    ("blocks.cuh", "conv.cu"): (),
    ("blocks.cuh", "top_k.cu"): (),
    ("blocks.cuh", "dropout.cu"): (),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("files", WRITTEN, ids=" ".join)
def test_written_kernels_compile(files: tuple[str, ...], dtype: str) -> None:
    """Their results are tested on a device, or its stand-in."""
    for switch in (0, 1):
        compile_text(kernel_source(files, dtype, tuple((name, switch) for name in WRITTEN[files])))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["BY_BATCH", "BY_GIVEN", "GRADIENT", "GRADIENT_OF_GIVEN"])
def test_kernels_over_channels_compile(name: str, dtype: str) -> None:
    for kind, steps in launches_of(getattr(batch_norm, name).form()):
        for is_last in (0, 1):
            compile_text(kernel_source(FILES, dtype, (("LAST", is_last),), channels_text(kind, steps)))


def test_infinities_compile() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        out = fluid.layers.scale(fluid.data("x", [4], "float32"), bias=float("-inf"))
    (kernel,) = kernels(main, {"x": FeedSpec((4,), np.dtype("float32"))}, [out.name], fluid.Scope())
    assert "(-INFINITY)" in kernel.text
    compile_text(kernel.text)
