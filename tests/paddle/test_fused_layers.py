"""Layers of transformers that PaddlePaddle's passes fuse, beside NumPy; its CPU has no kernels for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.base.errors import KernelError
from fluidlite.ir import framework_pb

RNG = np.random.RandomState(3)


def real(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape).astype("float32")


def program_of(
    type: str, inputs: Mapping[str, list[Any]], attrs: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """A program of one op that is not registered, as its file has it, and its feeds."""
    program, feed = paddle.static.Program(), {}
    block = program.global_block()
    for slot, arrays in inputs.items():
        for at, array in enumerate(arrays):
            name = f"{slot}_{at}"
            block.create_var(name=name, shape=array.shape, dtype=str(array.dtype)).is_data = True
            feed[name] = array
    block.create_var(name="out", shape=[-1], dtype="float32")
    desc = framework_pb.ProgramDesc.FromString(program.desc.serialize_to_string())
    op = desc.blocks[0].ops.add()
    op.type = type.encode()
    for slot, arrays in inputs.items():
        given = op.inputs.add()
        given.parameter = slot.encode()
        given.arguments.extend(f"{slot}_{at}".encode() for at in range(len(arrays)))
    made = op.outputs.add()
    made.parameter = b"Out"
    made.arguments.append(b"out")
    for name, value in attrs.items():
        attr = op.attrs.add()
        attr.name = name.encode()
        kind, field = {int: (0, "i"), float: (1, "f"), str: (2, "s"), bool: (6, "b")}[value.__class__]
        attr.type = kind
        setattr(attr, field, value.encode() if isinstance(value, str) else value)
    return paddle.static.Program.parse_from_string(desc.SerializeToString()), feed


def run(type: str, inputs: Mapping[str, list[Any]], attrs: Mapping[str, Any]) -> Any:
    program, feed = program_of(type, inputs, attrs)
    return paddle.static.Executor().run(program, feed=feed, fetch_list=["out"])[0]


def normalised(x: Any, scale: Any, bias: Any, epsilon: float = 1e-5) -> Any:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + bias


@pytest.mark.parametrize("masked", [False, True])
def test_attention(masked: bool) -> None:
    batch, steps, heads, size = 2, 3, 2, 4
    width = heads * size
    x, w, b = real(batch, steps, width), real(width, 3, width), real(3, width)
    inputs = {"Input": [x], "W": [w], "Bias": [b]}
    mask = real(batch, heads, steps, steps)
    if masked:
        inputs["BiasQK"] = [mask]
    found = run("multihead_matmul", inputs, {"alpha": 0.5, "head_number": heads})
    q, k, v = (
        (x @ w[:, part] + b[part]).reshape(batch, steps, heads, size).transpose(0, 2, 1, 3)
        for part in range(3)
    )
    scores = 0.5 * q @ k.transpose(0, 1, 3, 2) + (mask if masked else 0)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    expected = (shares @ v).transpose(0, 2, 1, 3).reshape(batch, steps, width)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_sum_and_norm() -> None:
    x, y, scale, bias = real(2, 3, 4), real(2, 3, 4), real(4), real(4)
    inputs = {"X": [x], "Y": [y], "Scale": [scale], "Bias": [bias]}
    found = run("skip_layernorm", inputs, {"epsilon": 1e-5, "begin_norm_axis": 2})
    np.testing.assert_allclose(found, normalised(x + y, scale, bias), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1)])
def test_embeddings(shape: tuple[int, ...]) -> None:
    ids = [RNG.randint(0, 5, shape).astype("int64") for _ in range(3)]
    tables, scale, bias = [real(5, 4) for _ in range(3)], real(4), real(4)
    inputs = {"Ids": ids, "Embs": tables, "Scale": [scale], "Bias": [bias]}
    found = run("fused_embedding_eltwise_layernorm", inputs, {"epsilon": 1e-5})
    total = sum(table[each.reshape(2, 3)] for table, each in zip(tables, ids, strict=True))
    np.testing.assert_allclose(found, normalised(total, scale, bias), rtol=1e-5, atol=1e-6)


def test_fully_connected_and_norm() -> None:
    x, w, y, b = real(3, 4), real(4, 5), real(3, 5), real(5)
    scale, bias = real(5), real(5)
    inputs = {"X": [x], "W": [w], "Y": [y], "Bias0": [b], "Scale": [scale], "Bias1": [bias]}
    found = run("fused_fc_elementwise_layernorm", inputs, {"activation_type": "relu", "x_num_col_dims": 1})
    expected = normalised(np.maximum(x @ w + b, 0) + y, scale, bias)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_softmax_of_what_came_before() -> None:
    x = real(2, 2, 4, 4)
    found = run("fused_softmax_mask_upper_triangle", {"X": [x]}, {})
    shares = np.exp(x) * np.tril(np.ones((4, 4)))
    np.testing.assert_allclose(found, shares / shares.sum(-1, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["downgrade_in_infer", "upscale_in_train"])
def test_rows_are_dropped_as_a_whole(kind: str) -> None:
    attrs = {"dropout_prob": 0.5, "is_test": False, "dropout_implementation": kind, "axis": [0]}
    program = paddle.static.Program()
    block = program.global_block()
    x, out, mask = (
        block.create_var(name=name, shape=[200, 3], dtype="float32") for name in ("x", "out", "mask")
    )
    block.append_op(type="dropout_nd", inputs={"X": [x]}, outputs={"Out": [out], "Mask": [mask]}, attrs=attrs)
    feed = {"x": np.ones((200, 3), "float32")}
    found = paddle.static.Executor().run(program, feed=feed, fetch_list=["out"])[0]
    assert (found == found[:, :1]).all() and 60 < (found[:, 0] > 0).sum() < 140
    assert found.max() == (2 if kind == "upscale_in_train" else 1)


def test_self_attention_of_packed_operands() -> None:
    batch, steps, heads, size = 2, 3, 2, 4
    packed = real(batch, steps, 3, heads, size)
    found = run("self_dp_attention", {"X": [packed]}, {"alpha": 0.5, "head_number": heads})
    q, k, v = packed.transpose(2, 0, 3, 1, 4)
    scores = 0.5 * q @ k.transpose(0, 1, 3, 2)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    expected = (shares @ v).transpose(0, 2, 1, 3).reshape(batch, steps, -1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_an_unknown_activation_is_refused_by_name() -> None:
    inputs = {"X": [real(2, 3)], "Y": [real(2, 3)]}
    with pytest.raises(KernelError, match="'elementwise_add' is fused with 'lisht'"):
        run("elementwise_add", inputs, {"fuse_activation": "lisht"})


def test_an_op_that_is_appended_fused_is_refused() -> None:
    """A kernel would not read the activation."""
    program = paddle.static.Program()
    block = program.global_block()
    x, w, out = (
        block.create_var(name=name, shape=[1, 1, 2, 2], dtype="float32") for name in ("x", "w", "out")
    )
    block.append_op(
        type="conv2d",
        inputs={"Input": [x], "Filter": [w]},
        outputs={"Output": [out]},
        attrs={"fuse_activation": "relu"},
    )
    feed = {"x": real(1, 1, 2, 2), "w": real(1, 1, 2, 2)}
    with pytest.raises(KernelError, match="'conv2d' holds a bias, an activation"):
        paddle.static.Executor().run(program, feed=feed, fetch_list=["out"])
    again = paddle.static.Program.parse_from_string(program.desc.serialize_to_string())
    assert [op.type for op in again.global_block().ops] == ["conv2d", "relu"]
