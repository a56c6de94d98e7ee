"""Numbers of other kinds: half precision, which 1.8.5 has no kernels for on the CPU and so stands beside its
float32; quantised values.
"""

from __future__ import annotations

from typing import Any

from op_rows.made import Row, layers, normal, sized, uniform

MATRICES = (4, 6), (128, 256), (1024, 1024)
HALF = "float16"


def as_half(build: Any) -> Any:
    """The ops in half precision where the framework has them, else in float32."""

    def built(fluid: Any, **inputs: Any) -> Any:
        kind = "float32" if fluid.__name__.startswith("paddle") else HALF
        small = {name: fluid.layers.cast(value, kind) for name, value in inputs.items()}
        return fluid.layers.cast(build(fluid, **small), "float32")

    return built


def chain(fluid: Any, x: Any) -> Any:
    for _ in range(4):
        x = fluid.layers.tanh(fluid.layers.scale(x, 1.5, 0.1))
    return x


def quantise(op: str, **attrs: Any) -> Any:
    def build(fluid: Any, x: Any) -> Any:
        block = fluid.default_main_program().current_block()
        out, scale = (block.create_var(name=name, dtype="float32") for name in ("out", "scale"))
        block.append_op(
            type=op,
            inputs={"X": [x]},
            outputs={"Out": [out], "OutScale": [scale]},
            attrs={"bit_length": 8, **attrs},
        )
        return out

    return lambda *shape: layers(build, grad=False, x=normal(*shape))


def fc(rows: int, columns: int) -> Row:
    return layers(
        as_half(lambda fluid, x, y: fluid.layers.relu(fluid.layers.matmul(x, y))),
        x=normal(rows, columns),
        y=normal(columns, columns) / columns,
    )


def convolution(fluid: Any, x: Any, w: Any) -> Any:
    block = fluid.default_main_program().current_block()
    out = block.create_var(name="convolved", dtype=x.dtype)
    attrs = {"strides": [1, 1], "paddings": [1, 1], "dilations": [1, 1], "groups": 1}
    block.append_op(
        type="conv2d", inputs={"Input": [x], "Filter": [w]}, outputs={"Output": [out]}, attrs=attrs
    )
    return out


ROWS = {
    "half: add": sized(
        lambda *shape: layers(
            as_half(lambda fluid, x, y: fluid.layers.elementwise_add(x, y)),
            x=normal(*shape),
            y=normal(*shape),
        ),
        *MATRICES,
    ),
    "half: 8 functions": sized(lambda *shape: layers(as_half(chain), x=normal(*shape)), *MATRICES),
    "half: matmul, relu": sized(fc, (4, 6), (64, 128), (512, 512)),
    "half: softmax": sized(
        lambda *shape: layers(as_half(lambda fluid, x: fluid.layers.softmax(x)), x=normal(*shape)), *MATRICES
    ),
    "half: conv2d": sized(
        lambda *shape: layers(
            as_half(lambda fluid, x, w: convolution(fluid, x, w)),
            x=normal(*shape),
            w=uniform(shape[1], shape[1], 3, 3),
        ),
        (1, 3, 8, 8),
        (4, 16, 14, 14),
        (8, 32, 28, 28),
    ),
    "fake_quantize_abs_max": sized(quantise("fake_quantize_abs_max"), *MATRICES),
    "fake_channel_wise_quantize_abs_max": sized(quantise("fake_channel_wise_quantize_abs_max"), *MATRICES),
}
