"""Models as ONNX: onnxruntime computes what FluidLite computes."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest

import fluidlite as fluid
from fluidlite import layers as L
from fluidlite.cli.sources import load
from fluidlite.errors import MissingExtraError, UnsupportedError
from fluidlite.saving.onnx import graph
from fluidlite.saving.onnx.export import onnx_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANDOM = np.random.RandomState(0)


def agree(build: Callable[[], Any], rtol: float = 1e-4, **feeds: Any) -> None:
    """Run the net that `build` makes here and in onnxruntime; `feeds` are its inputs by name."""
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 3
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        made = build()
        fetches = list(made) if isinstance(made, (list, tuple)) else [made]
    compare(main.clone(for_test=True), startup, feeds, [var.name for var in fetches], rtol)


def compare(
    program: fluid.Program,
    startup: fluid.Program,
    feeds: dict[str, Any],
    names: list[str],
    rtol: float = 1e-4,
) -> None:
    """Fetch `names` here and from onnxruntime, after the startup program has run."""
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        found = exe.run(program, feed=feeds, fetch_list=names, return_numpy=False)
        data = onnx_model(program, list(feeds), names)
    plain = {name: np.asarray(value) for name, value in feeds.items()}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options)
    for ours, theirs in zip(found, session.run(None, plain), strict=True):
        assert np.asarray(ours).shape == theirs.shape and np.asarray(ours).dtype == theirs.dtype
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=rtol, atol=1e-5)


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-2, 2, shape).astype("float32")


def ids(most: int, *shape: int) -> Any:
    return RANDOM.randint(0, most, shape).astype("int64")


def sequence(array: Any) -> Any:
    return fluid.create_lod_tensor(array, [[len(array)]], fluid.CPUPlace())


def data(name: str, *shape: Any, dtype: str = "float32", lod: int = 0) -> Any:
    return fluid.data(name, list(shape), dtype, lod_level=lod)


# ------------------------------------------------------------------------------------------------ networks
def lenet() -> Any:
    hidden = data("x", None, 1, 28, 28)
    for filters in (6, 16):
        hidden = fluid.nets.simple_img_conv_pool(hidden, filters, 5, 2, 2, act="relu")
    return L.fc(L.fc(hidden, 84, act="tanh"), 10, act="softmax")


def resnet() -> Any:
    def conv(x: Any, filters: int, size: int, stride: int = 1, act: str | None = "relu") -> Any:
        made = L.conv2d(x, filters, size, stride, (size - 1) // 2, bias_attr=False)
        return L.batch_norm(made, act=act)

    hidden = L.pool2d(conv(data("x", None, 3, 32, 32), 8, 7, 2), 3, "max", 2, 1)
    for filters, stride in ((8, 1), (16, 2)):
        whole = conv(conv(conv(hidden, filters, 1), filters, 3, stride), filters * 4, 1, act=None)
        hidden = L.elementwise_add(conv(hidden, filters * 4, 1, stride, None), whole, act="relu")
    return L.fc(L.pool2d(hidden, pool_type="avg", global_pooling=True), 10, act="softmax")


def word2vec() -> Any:
    words = [data(f"w{place}", None, 1, dtype="int64") for place in range(4)]
    parts = [L.embedding(word, [20, 8], param_attr="shared") for word in words]
    hidden = L.fc(L.concat([L.reshape(part, [-1, 8]) for part in parts], axis=1), 16, act="sigmoid")
    return L.fc(hidden, 20, act="softmax")


def lstm(reverse: bool = False) -> Any:
    words = L.embedding(data("w", None, 1, dtype="int64", lod=1), [20, 8])
    hidden, _ = L.dynamic_lstm(L.fc(L.reshape(words, [-1, 8]), 32), 32, is_reverse=reverse)
    return L.fc([L.sequence_pool(hidden, kind) for kind in ("max", "last", "first")], 3, act="softmax")


def gru(origin: bool = False) -> Any:
    x = data("x", None, 6, lod=1)
    hidden = L.dynamic_gru(L.fc(x, 15), 5, origin_mode=origin, is_reverse=origin)
    weight = L.sequence_softmax(L.fc(hidden, 1))
    pooled = L.sequence_pool(L.elementwise_mul(hidden, weight, axis=0), "sum")
    return [L.sequence_expand(pooled, hidden), L.sequence_conv(x, 4, 3, act="relu")]


def padded_lstm() -> Any:
    first = [L.fill_constant([4, 2, 5], "float32", 0.1) for _ in range(2)]
    return list(L.lstm(data("x", 7, 2, 6), *first, 7, 5, 2, is_bidirec=True, is_test=True))


def transformer() -> Any:
    words, places = data("w", 2, 5, dtype="int64"), data("p", 2, 5, dtype="int64")
    x = L.elementwise_add(fluid.embedding(words, [30, 16]), fluid.embedding(places, [5, 16], padding_idx=0))
    x = L.dropout(x, 0.1, dropout_implementation="upscale_in_train")
    heads = []
    for _ in range(3):
        part = L.reshape(L.fc(x, 16, num_flatten_dims=2, bias_attr=False), [0, 0, 4, 4])
        heads.append(L.transpose(part, [0, 2, 1, 3]))
    mask = L.assign(np.triu(np.full((5, 5), -1e9, "float32"), 1))
    scores = L.elementwise_add(L.matmul(heads[0], heads[1], transpose_y=True, alpha=0.5), mask)
    mixed = L.transpose(L.matmul(L.softmax(scores), heads[2]), [0, 2, 1, 3])
    x = L.layer_norm(L.elementwise_add(x, L.reshape(mixed, [0, 0, 16])), begin_norm_axis=2)
    x = L.layer_norm(x + L.fc(L.fc(x, 32, 2, act="gelu"), 16, 2), begin_norm_axis=2)
    return L.fc(x, 30, num_flatten_dims=2, act="softmax")


NETWORKS: dict[str, tuple[Callable[[], Any], dict[str, Callable[[], Any]]]] = {
    "lenet": (lenet, {"x": lambda: floats(3, 1, 28, 28)}),
    "resnet": (resnet, {"x": lambda: floats(2, 3, 32, 32)}),
    "word2vec": (word2vec, {f"w{place}": lambda: ids(20, 5, 1) for place in range(4)}),
    "lstm": (lstm, {"w": lambda: sequence(ids(20, 6, 1))}),
    "lstm_back": (lambda: lstm(True), {"w": lambda: sequence(ids(20, 6, 1))}),
    "gru": (gru, {"x": lambda: sequence(floats(5, 6))}),
    "gru_origin": (lambda: gru(True), {"x": lambda: sequence(floats(5, 6))}),
    "padded_lstm": (padded_lstm, {"x": lambda: floats(7, 2, 6)}),
    "transformer": (transformer, {"w": lambda: ids(30, 2, 5), "p": lambda: ids(5, 2, 5)}),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    build, feeds = NETWORKS[name]
    agree(build, **{key: make() for key, make in feeds.items()})


# example -> the op whose input is the prediction, and its slot
EXAMPLES = {
    "ctr_dnn": ("cross_entropy2", "X"),
    "fit_a_line": ("elementwise_sub", "X"),
    "recognize_digits": ("cross_entropy2", "X"),
    "transformer_lm": ("softmax_with_cross_entropy", "Logits"),
    "word2vec": ("cross_entropy2", "X"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    found = load(str(ROOT / "examples" / f"{name}.py"), [])
    program, (kind, slot) = found.main.clone(for_test=True), EXAMPLES[name]
    loss = next(op for op in program.global_block().ops if op.type == kind)
    target = loss.inputs[slot][0]
    program = program._prune_with_input([], [program.global_block().var(target)])
    inputs = [var for var in program.list_vars() if var.is_data]
    inputs = [
        var for var in inputs if any(var.name in op.input_arg_names for op in program.global_block().ops)
    ]
    feeds = {var.name: _any_value(var) for var in inputs}
    compare(program, found.startup, feeds, [target])


def _any_value(var: Any) -> Any:
    shape = [3 if size < 0 else size for size in var.shape]
    return ids(5, *shape) if var.dtype == fluid.core.VarDesc.VarType.INT64 else floats(*shape)


# ------------------------------------------------------------------------------------------------ ops
UNARY = (
    "abs acos asin atan ceil cos erf exp floor log reciprocal relu sigmoid sign sin softplus softsign sqrt "
    "tanh square rsqrt round logsigmoid relu6 brelu leaky_relu elu selu hard_sigmoid hard_swish swish stanh "
    "gelu softmax log_softmax mean"
)


@pytest.mark.parametrize("name", UNARY.split())
def test_functions(name: str) -> None:
    positive = name in ("log", "sqrt", "rsqrt")
    values = np.abs(floats(3, 4)) + 0.5 if positive else floats(3, 4)
    values = values / 3 if name in ("acos", "asin") else values
    agree(
        lambda: (
            getattr(L, name, None)(data("x", None, 4)) if hasattr(L, name) else L.softmax(data("x", None, 4))
        ),
        x=values,
    )


OPS: dict[str, Callable[[Any], Any]] = {
    "add_middle": lambda x: L.elementwise_add(x, L.create_parameter([3], "float32"), axis=1),
    "pairs": lambda x: [f(x, x * 0.5 + 3.0) for f in (L.elementwise_sub, L.elementwise_div)],
    "most": lambda x: [L.elementwise_max(x, -x), L.elementwise_min(x, L.scale(x, 2.0, 1.0, False))],
    "pow": lambda x: [L.pow(L.abs(x), 1.5), L.elementwise_pow(L.abs(x), x)],
    "compare": lambda x: [L.cast(f(x, -x), "float32") for f in (L.less_than, L.greater_equal, L.not_equal)],
    "reduce": lambda x: [
        L.reduce_sum(x, dim=[1, -1]),
        L.reduce_mean(x),
        L.reduce_max(x, dim=-1, keep_dim=True),
        L.reduce_prod(x, dim=1),
    ],
    "matmul": lambda x: L.matmul(x, x, transpose_x=True, alpha=2.0),
    "mul": lambda x: L.fc(x, 5, num_flatten_dims=2),
    "mul_flat": lambda x: L.fc(x, 5),
    "reshape": lambda x: [L.reshape(x, [0, -1]), L.flatten(x, 2), L.transpose(x, [0, 3, 1, 2])],
    "join": lambda x: [L.concat([x, x], axis=-1), L.stack([x, x], axis=1), *L.unstack(x, axis=1)],
    "split": lambda x: [*L.split(x, 2, dim=-1), *L.split(x, [1, 2], dim=1)],
    "slice": lambda x: [L.slice(x, [1, 3], [0, -2], [2, 9]), x[:, 0]],
    "strided": lambda x: L.strided_slice(x, [2], [0], [4], [2]),
    "squeeze": lambda x: L.squeeze(L.unsqueeze(x, [1, -1]), [1]),
    "expand": lambda x: [L.expand(x, [1, 2, 1, 3]), L.gather(x, L.assign(np.array([1, 0, 1], "int32")))],
    "pad": lambda x: [
        L.pad(x, [0, 0, 0, 1, 2, 0, 1, 1], 0.5),
        L.pad2d(x, [1, 2, 1, 1], mode="reflect"),
        L.pad2d(x, [1, 0, 1, 2], mode="edge"),
    ],
    "top": lambda x: [*L.topk(x, 2), L.argmax(x, axis=1), L.argmin(x, axis=-1)],
    "clip": lambda x: [L.clip(x, -0.5, 0.5), L.cumsum(x, axis=2, exclusive=True), L.reverse(x, [1])],
    "norms": lambda x: [L.l2_normalize(x, axis=1), L.instance_norm(x), L.layer_norm(x, begin_norm_axis=2)],
    "group": lambda x: L.group_norm(L.concat([x, x], axis=1), 2),
    "dropout": lambda x: L.dropout(x, 0.3),
    "like": lambda x: [L.fill_constant_batch_size_like(x, [1, 3], "float32", 2.0), L.zeros_like(x)],
    "shape": lambda x: L.shape(x),
    "prelu": lambda x: [L.prelu(x, "channel"), L.sum([x, x, x])],
    "conv": lambda x: L.conv2d(x, 6, [3, 2], stride=[2, 1], padding=[1, 0, 1, 2], dilation=1, groups=3),
    "conv_same": lambda x: [L.conv2d(x, 3, 3, padding="SAME"), L.conv2d(x, 2, 3, padding="VALID")],
    "depthwise": lambda x: L.conv2d(x, 3, 3, groups=3, use_cudnn=False),
    "transposed": lambda x: [
        L.conv2d_transpose(x, 2, filter_size=3, stride=2, padding=1),
        L.conv2d_transpose(x, 2, output_size=[8, 12], filter_size=3, stride=2, padding=1),
    ],
    "pool": lambda x: [
        L.pool2d(x, 3, "avg", 2, 1),
        L.pool2d(x, 3, "avg", 2, 1, exclusive=False),
        L.pool2d(x, 3, "max", 2, ceil_mode=True),
        L.adaptive_pool2d(x, [2, 3], "avg"),
        L.adaptive_pool2d(x, 1, "max"),
    ],
    "interpolate": lambda x: [
        L.resize_nearest(x, [8, 9], align_corners=False),
        L.resize_bilinear(x, [8, 12], align_corners=False, align_mode=1),
        L.resize_bilinear(x, [7, 9], align_corners=False, align_mode=0),
        L.resize_bilinear(x, [7, 11]),
        L.resize_nearest(x, scale=2.0, align_corners=False),
    ],
    "shuffle": lambda x: L.pixel_shuffle(L.expand(x, [1, 4, 1, 1]), 2),
    "hot": lambda x: L.one_hot(L.cast(L.reshape(L.abs(x), [-1, 1]), "int64"), 5),
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_ops(name: str) -> None:
    agree(lambda: OPS[name](data("x", 2, 3, 4, 6)), x=floats(2, 3, 4, 6))


# ------------------------------------------------------------------------------------------------ errors
def test_an_op_without_a_rule() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        made = L.nce(data("x", 2, 3), data("y", 2, 1, dtype="int64"), 5)
    with pytest.raises(
        UnsupportedError, match=r"no ONNX equivalent of op 'nce': .*\(built at .*test_onnx.py:\d+\)"
    ):
        onnx_model(main, ["x", "y"], [made.name])


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(graph.importlib, "import_module", nothing)
    with pytest.raises(MissingExtraError, match=r"pip install 'fluidlite\[onnx\]'"):
        onnx_model(fluid.Program(), [], [])
