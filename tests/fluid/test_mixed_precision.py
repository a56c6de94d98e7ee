"""Training in half precision: against float32, plans against the interpreter, and the parts one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden import harness

import fluidlite as fluid
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ShapeError
from fluidlite.contrib.mixed_precision import AutoMixedPrecisionLists, decorate, fp16_lists
from fluidlite.contrib.mixed_precision.fp16_utils import (
    find_op_index,
    find_true_post_op,
    find_true_prev_op,
    rewrite_program,
)
from fluidlite.executor.run.half import as_bfloat16
from fluidlite.values.tensor import SelectedRows

layers = fluid.layers
STEPS = 24


def _net() -> Any:
    img = fluid.data("img", [None, 1, 8, 8])
    label = fluid.data("label", [None, 1], "int64")
    normed = layers.batch_norm(layers.conv2d(img, 4, 3, padding=1), act="relu")
    hidden = layers.fc(layers.pool2d(normed, 2, "max", 2), 16, act="tanh")
    return layers.mean(layers.cross_entropy(layers.fc(hidden, 5, act="softmax"), label))


def _batches() -> list[dict[str, np.ndarray]]:
    rng = np.random.RandomState(0)
    labels = rng.randint(0, 5, (STEPS, 16, 1))
    images = rng.rand(STEPS, 16, 1, 8, 8).astype("float32")
    np.put_along_axis(images[:, :, 0, 0], labels, 4.0, axis=2)  # the answer is a bright spot in the first row
    return [{"img": image, "label": label} for image, label in zip(images, labels, strict=True)]


def _train(dtype: str, naive: bool = False, **options: Any) -> tuple[np.ndarray, fluid.Scope]:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        loss = _net()
        optimizer: Any = fluid.optimizer.Adam(0.01)
        if dtype != "float32":
            optimizer = decorate(optimizer, dtype=dtype, **options)
        optimizer.minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.naive = naive
    exe.run(startup, scope=scope)
    found = [exe.run(main, feed=feed, fetch_list=[loss], scope=scope)[0] for feed in _batches()]
    return np.concatenate(found), scope


def _value(scope: fluid.Scope, name: str) -> Any:
    return np.asarray(scope.find_var(name).get_tensor())


@pytest.mark.parametrize("dtype, tolerance", [("float16", 0.02), ("bfloat16", 0.1)])
def test_training_follows_float32(dtype: str, tolerance: float) -> None:
    """The losses are those of float32 up to the precision, but not the same; parameters stay in float32."""
    wanted, _ = _train("float32")
    found, scope = _train(dtype)
    assert 0 < np.abs(found - wanted).max() < tolerance
    assert found[-1] < 0.75 * found[0]
    assert _value(scope, "fc_0.w_0").dtype == np.float32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_plan_equals_interpreter(dtype: str) -> None:
    np.testing.assert_allclose(_train(dtype)[0], _train(dtype, naive=True)[0], rtol=1e-5)


def test_overflow_shrinks_the_scale_and_moves_nothing() -> None:
    """2^40 overflows float16: the first steps see zeros for gradients, and the scale falls to a fifth each
    third step.
    """
    losses, scope = _train("float16", init_loss_scaling=2.0**40, decr_ratio=0.2)
    scale = _value(scope, "loss_scaling_0")[0]
    np.testing.assert_allclose(scale, 2.0**40 * 0.2 ** (STEPS // 3), rtol=1e-5)
    assert losses[-1] > 0.8 * losses[0]


def test_recorded_programs_run() -> None:
    """The programs that 1.8.5 builds and has no kernels for train here."""
    golden = harness.Golden("half_precision")
    main = fluid.Program.parse_from_string(golden.program(0))
    startup = fluid.Program.parse_from_string(golden.program(1))
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    rng = np.random.RandomState(1)
    feed = {"img": rng.rand(8, 1, 8, 8).astype("float32"), "label": rng.randint(0, 3, (8, 1))}
    losses = [
        exe.run(main, feed=feed, fetch_list=["mean_0.tmp_0", "fc_0.tmp_0"], scope=scope) for _ in range(20)
    ]
    assert losses[-1][0][0] < 0.9 * losses[0][0][0]
    assert losses[0][1].dtype == np.float16


# ---------------------------------------------------------------------- half precision, op by op
def _run(build: Any, feed: dict[str, Any]) -> Any:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        out = build()
        return fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[out], return_numpy=False)[0]


def test_long_sums_keep_their_precision() -> None:
    """5000 ones in float16: summed one after the other they stop at 2048."""
    ones = np.ones((1, 5000), "float16")

    def product() -> Any:
        x = fluid.data("x", [1, 5000], "float16")
        return layers.mul(x, layers.transpose(x, [1, 0]))

    found = np.asarray(_run(product, {"x": ones}))
    assert found.dtype == np.float16 and found[0, 0] == 5000


def test_bfloat16_of_every_op() -> None:
    """Each op's result is rounded, that of a cast too."""

    def scaled() -> Any:
        x = fluid.data("x", [4])
        block = fluid.default_main_program().global_block()
        half, out = (block.create_var(name=name, dtype="bfloat16") for name in ("half", "out"))
        attrs = {"in_dtype": int(VarType.FP32), "out_dtype": int(VarType.BF16)}
        block.append_op(type="cast", inputs={"X": x}, outputs={"Out": half}, attrs=attrs)
        block.append_op(type="scale", inputs={"X": half}, outputs={"Out": out}, attrs={"scale": 3.0})
        return out

    x = np.array([1.01, -3.3, 1e30, 0.0], "float32")
    found = np.asarray(_run(scaled, {"x": x}))
    np.testing.assert_array_equal(found, as_bfloat16(3 * as_bfloat16(x)))


def test_rows_of_half_precision() -> None:
    """The sparse gradient of a table in float16."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        ids = fluid.data("ids", [3, 1], "int64")
        table = layers.create_parameter([5, 2], "float16", name="table")
        block = fluid.default_main_program().global_block()
        out = block.create_var(name="out", dtype="float16")
        block.append_op(
            type="lookup_table",
            inputs={"W": [table], "Ids": [ids]},
            outputs={"Out": [out]},
            attrs={"is_sparse": True},
        )
        fluid.gradients(layers.reduce_sum(layers.cast(out, "float32")), table)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        feed = {"ids": np.array([[1], [3], [1]])}
        rows = exe.run(feed=feed, fetch_list=["table@GRAD"], return_numpy=False)[0]
    assert isinstance(rows, SelectedRows) and rows.dtype == np.float16
    np.testing.assert_array_equal(rows.dense(np), [[0, 0], [2, 2], [0, 0], [1, 1], [0, 0]])


def test_the_scale_of_rows() -> None:
    """Row-sparse gradients are divided by the scale, and are zeros where one of them is not finite."""
    ids, x = fluid.data("ids", [3, 1], "int64"), fluid.data("x", [3, 2])
    words = layers.embedding(ids, (5, 2), is_sparse=True, param_attr="table")
    optimizer = decorate(fluid.optimizer.SGD(1.0), init_loss_scaling=8.0, decr_every_n_nan_or_inf=1)
    _, pairs = optimizer.minimize(layers.reduce_sum(words * x))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fetched = [pairs[0][1], optimizer.get_loss_scaling()]
    numbers = np.array([[1, 2], [3, 4], [5, 6]], "float32")
    for factor in (1.0, np.inf, 2.0):
        feed = {"ids": np.array([[1], [3], [1]]), "x": numbers * np.float32(factor)}
        rows = exe.run(feed=feed, fetch_list=fetched, return_numpy=False)[0]
        wanted = feed["x"] if np.isfinite(factor) else 0 * numbers
        assert isinstance(rows, SelectedRows) and rows.rows() == [1, 3, 1]
        np.testing.assert_array_equal(rows.array, wanted)


@pytest.mark.parametrize("reduction, dim", [("reduce_sum", [0]), ("reduce_max", None)])
def test_rows_that_are_not_reduced(reduction: str, dim: Any) -> None:
    ids = fluid.data("ids", [3, 1], "int64")
    words = layers.embedding(ids, (5, 2), is_sparse=True, param_attr="table")
    ((_, rows),) = fluid.backward.append_backward(layers.mean(words))
    reduced = getattr(layers, reduction)(rows, dim)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    with pytest.raises(ShapeError, match="selected rows, which can only be added up to one number"):
        exe.run(feed={"ids": np.ones((3, 1), "int64")}, fetch_list=[reduced])


def test_as_bfloat16() -> None:
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -2.5, np.inf, np.nan], "float32")
    wanted = [1, 1 + 2**-6, 1 + 2**-7, -2.5, np.inf, np.nan]  # the first two are ties, and go to even
    np.testing.assert_array_equal(as_bfloat16(x), np.array(wanted, "float32"))
    quiet = np.array([0x7FFFFFFF, 0xFF800001], "uint32").view("float32")
    assert np.isnan(as_bfloat16(quiet)).all()


# ---------------------------------------------------------------------- the parts
def test_lists() -> None:
    lists = AutoMixedPrecisionLists(["softmax", "tanh"], ["mul", "relu"])
    assert {"softmax", "tanh"} <= lists.white_list and {"mul", "relu"} <= lists.black_list
    assert not {"softmax", "mul"} & (lists.white_list & lists.black_list)
    assert not {"tanh", "relu"} & lists.gray_list and "tanh" in fp16_lists.gray_list
    with pytest.raises(ValueError, match="Custom white list overlap custom black list"):
        AutoMixedPrecisionLists({"mul"}, {"mul"})


def test_dtype_is_half_precision() -> None:
    with pytest.raises(ValueError, match="'float16' or 'bfloat16', not 'float64'"):
        decorate(fluid.optimizer.SGD(0.1), dtype="float64")


def test_finding_ops() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        y = layers.fc(fluid.data("x", [3, 4]), 2)
        layers.relu(y)
        mul, add, relu = ops = main.global_block().ops
        assert find_op_index(main.global_block().desc, add.desc) == 1
        assert find_true_prev_op(ops, relu, y.name) is add
        assert find_true_prev_op(ops, mul, y.name) is None
        assert find_true_post_op(ops, add, y.name) == [relu]
        layers.assign(layers.relu(y), y)
        with pytest.raises(ValueError, match=f"only one previous op that outputs {y.name}"):
            find_true_prev_op(main.global_block().ops, layers.relu(y).op, y.name)


def test_rewrite_to_bfloat16() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        out = layers.fc(fluid.data("x", [3, 4]), 2, name="out")
        rewrite_program(main, AutoMixedPrecisionLists(), VarType.BF16)
    assert out.dtype == VarType.BF16
    names = [op.output_arg_names[0] for op in main.global_block().ops if op.type == "cast"]
    assert names == ["out.w_0.cast_bf16", "x.cast_bf16", "out.b_0.cast_bf16"]
